"""The Hybrid Mechanism (HM): by chance the Piecewise Mechanism or Duchi's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from arcwise.kernels.certificate import check_epsilon
from arcwise.kernels.rounding import integer_rows
from arcwise.mechanisms.closed_forms.finite import hybrid_share, hybrid_worst_variance
from arcwise.mechanisms.closed_forms.piecewise import piecewise_parameter
from arcwise.mechanisms.grids import MOST_TABLE_NODES, table_nodes, window_table
from arcwise.mechanisms.table import TableMechanism
from arcwise.mechanisms.window import check_interval, check_nodes, lattice_nodes

if TYPE_CHECKING:
    from arcwise.domains import Interval


class Hybrid(TableMechanism):
    """The Hybrid Mechanism (HM) of Wang et al. (ICDE 2019), unbiased.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    nodes
        N, from 2 to 1,024. None (default): at most 160, such that the worst-case variance is within 1 % of
        the continuous mechanism's up to epsilon 8 and a task below 200 KB.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    With the probability alpha = 1 - e^(-epsilon/2) the code is one of `Piecewise`, otherwise one of the last
    two, which are those of `Duchi`. Up to epsilon 0.609 alpha is 0: two nodes and two codes, exactly `Duchi`.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = Hybrid(Interval(0, 100), epsilon=1.0)
    >>> round(mechanism.variance(50) ** 0.5, 1)  # the standard deviation of one report
    103.5
    """

    __slots__ = ()

    name: ClassVar[str] = "hybrid"
    version: ClassVar[int] = 1

    def __init__(self, domain: Interval, epsilon: float, *, nodes: int | None = None) -> None:
        import numpy as np

        domain, epsilon = check_interval(domain, type(self).__name__), check_epsilon(epsilon)
        nodes = lattice_nodes(domain, nodes, otherwise=None)
        if nodes is not None:
            nodes = check_nodes(nodes, MOST_TABLE_NODES)
        alpha = hybrid_share(epsilon)
        window = 1 / piecewise_parameter(epsilon)  # in units of the way that it slides
        if not alpha and not domain.discrete:
            nodes = 2
        elif nodes is None:
            nodes = table_nodes(window, 1 + window, hybrid_worst_variance(epsilon))
        node = np.arange(nodes)[:, None]
        place = 2 * node / (nodes - 1) - 1
        tilt = math.tanh(epsilon / 2)  # (e^epsilon - 1) / (e^epsilon + 1)
        # At an end the likelier of the two has 1 / (1 + e^-epsilon), the other 1 / (1 + e^epsilon).
        high = 0.5 * (1 + place) / (1 + math.exp(-epsilon)) + 0.5 * (1 - place) / (1 + math.exp(epsilon))
        duchi, ends = np.hstack([high[::-1], high]), [0.5 - 0.5 / tilt, 0.5 + 0.5 / tilt]
        if not alpha:
            self._init(domain, epsilon, integer_rows(duchi, epsilon), ends)
            return
        piecewise, units = window_table(nodes, window, 1 + window, epsilon)
        rows = np.hstack([alpha * piecewise, math.exp(-epsilon / 2) * duchi])
        self._init(domain, epsilon, integer_rows(rows, epsilon), [*units.tolist(), *ends])
