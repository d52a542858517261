"""Mechanisms designed elsewhere: any certified table on an interval, and any row on a circle.

`arcwise.analysis.design.minimax` makes such mechanisms by linear programming. This file solves nothing: a
device gets the integers with its task, checks their certificate and samples from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.circulant import CirculantMechanism
from arcwise.mechanisms.table import TableMechanism

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from arcwise.domains import Circle, Interval


class DesignedTable(TableMechanism):
    """A table of integer weights on an interval.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20; `certificate` checks that the rows satisfy it.
    rows
        N rows of K integers; each row has the sum 2**64. Row s is for the node at s/(N-1) of the interval.
    units
        The K output values on the unit interval; they may lie outside it.

    Raises
    ------
    ParameterError
        When the rows are invalid, or an argument is out of its bounds.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> rows = [[3 * 2**62, 2**62], [2**62, 3 * 2**62]]  # the truth with probability 3/4: a ratio of 3
    >>> mechanism = DesignedTable(Interval(0, 100), epsilon=1.1, rows=rows, units=[-0.5, 1.5])
    >>> mechanism.values, mechanism.unbiased, mechanism.certificate().ratio
    (array([-50., 150.]), True, Fraction(3, 1))
    """

    __slots__ = ()

    name: ClassVar[str] = "designed-table"
    version: ClassVar[int] = 1

    def __init__(
        self, domain: Interval, epsilon: float, rows: Sequence[Sequence[int]], units: Iterable[float]
    ) -> None:
        self._init(domain, check_epsilon(epsilon), rows, units)


class DesignedCircular(CirculantMechanism):
    """A row of integer weights on a circle that is turned with the input.

    Parameters
    ----------
    domain
        The `Circle` of the values.
    epsilon
        From 0.01 to 20; `certificate` checks that the row satisfies it.
    weights
        K integers with the sum 2**64: the weights of the codes at the angles j/K from the input.

    Raises
    ------
    ParameterError
        When the weights are not a valid row, or an argument is out of its bounds.

    Examples
    --------
    >>> from arcwise.domains import Circle
    >>> row = [2**63, 2**62, 2**62]
    >>> mechanism = DesignedCircular(Circle(360), epsilon=0.7, weights=row)
    >>> mechanism.values, round(mechanism.attenuation(), 6)
    (array([  0., 120., 240.]), 0.25)
    """

    __slots__ = ()

    name: ClassVar[str] = "designed-circular"
    version: ClassVar[int] = 1

    def __init__(self, domain: Circle, epsilon: float, weights: Sequence[int]) -> None:
        self._init(domain, check_epsilon(epsilon), weights)
