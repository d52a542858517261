"""The Piecewise Mechanism with its outputs truncated to the domain."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from arcwise.mechanisms.piecewise import Piecewise
from arcwise.mechanisms.table import TableMechanism
from arcwise.mechanisms.window import check_interval, lattice_nodes

if TYPE_CHECKING:
    from arcwise.domains import Interval

_NODES = 65
"""At most 4,500 weights of nine bytes in a task."""


class TruncatedPiecewise(TableMechanism):
    """The Piecewise Mechanism with outputs beyond the domain moved to its ends, to compare single values.

    Zheng, Mishra and Hu compare theirs with it. Without a grid, its worst ``E|y-x|`` is below that of the
    clamped `OptimalPiecewise` from epsilon 1.4 on. Its mean is biased: `Piecewise` is for means.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    nodes
        N, from 2 to 32,768. By default 65, on a lattice one for each value.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    The rows are those of `Piecewise` with the weights of all outputs at or beyond an end added up in the
    code of that end: exactly its epsilon, as for anything that is computed from a report alone.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = TruncatedPiecewise(Interval(0, 100), epsilon=2.0)
    >>> float(mechanism.decode(0)), float(mechanism.decode(mechanism.kernel.codes - 1))
    (0.0, 100.0)
    """

    __slots__ = ()

    name: ClassVar[str] = "truncated-piecewise"
    version: ClassVar[int] = 1

    def __init__(self, domain: Interval, epsilon: float, *, nodes: int | None = None) -> None:
        domain = check_interval(domain, type(self).__name__)
        whole = Piecewise(domain, epsilon, nodes=lattice_nodes(domain, nodes, otherwise=_NODES))
        units = whole.code_units()
        first, last = int((units <= 0.0).sum()), int((units < 1.0).sum())
        rows = []
        for node in range(whole.kernel.nodes):
            row = whole.kernel.row(node)
            rows.append([sum(row[:first]), *row[first:last], sum(row[last:])])
        self._init(domain, whole.epsilon, rows, [0.0, *units[first:last].tolist(), 1.0])
