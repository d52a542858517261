"""PTT, the unbiased 3-piece transformations with free window and output range, and a published member."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from arcwise.errors import ParameterError
from arcwise.kernels.certificate import check_epsilon
from arcwise.kernels.rounding import integer_rows
from arcwise.mechanisms.closed_forms.piecewise import (
    least_half_range,
    piecewise_parameter,
    transformation_worst_variance,
    unbiased_optimal_range,
)
from arcwise.mechanisms.grids import MOST_TABLE_NODES, table_nodes, window_table
from arcwise.mechanisms.table import TableMechanism
from arcwise.mechanisms.window import check_interval, check_nodes, lattice_nodes

if TYPE_CHECKING:
    from arcwise.domains import Interval


class PiecewiseTransformation(TableMechanism):
    """The Piecewise Transformation Technique (PTT, arXiv 2112.04745): any unbiased window with its margins.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    s
        The window has the share 1/(s+1) of the output range, s > 0. Default: that of least worst-case
        variance.
    half_range
        A: inputs in [-1, 1] have outputs in [-A, A]. At least `closed_forms.least_half_range`, the default.
    nodes
        N, from 2 to 1,024. None (default): at most 160, such that the worst-case variance is within 1 % of
        the continuous mechanism's up to epsilon 8 and a task below 200 KB.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    The member of least worst-case variance has no margins: for every s the variance grows with A^2
    (`closed_forms.piecewise` has the derivation in five lines), so it is `PiecewiseOpt`, and the default here
    is that mechanism, written out as a table. `PiecewiseOpt` samples from the same law with a smaller task.

    For inputs in [-1, 1] the window's centre slides from -m to m, m = 1 + (s+1) / (e^epsilon - 1); a code is
    the N-1st part of that way.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = PiecewiseTransformation(Interval(0, 100), epsilon=1.0)
    >>> round(mechanism.variance(50) ** 0.5, 1)  # the standard deviation of one report
    96.6
    """

    __slots__ = ()

    name: ClassVar[str] = "piecewise-transformation"
    version: ClassVar[int] = 1

    def __init__(
        self,
        domain: Interval,
        epsilon: float,
        *,
        s: float | None = None,
        half_range: float | None = None,
        nodes: int | None = None,
    ) -> None:
        domain, epsilon = check_interval(domain, type(self).__name__), check_epsilon(epsilon)
        s = piecewise_parameter(epsilon, "pm-opt") if s is None else s
        least = least_half_range(epsilon, s)
        half_range = least if half_range is None else half_range
        if not (math.isfinite(half_range) and half_range >= least * (1 - 1e-12)):
            raise ParameterError(f"half_range must be at least {least!r} and finite, got {half_range!r}")
        self._fill(domain, epsilon, s, half_range, nodes)

    def _fill(self, domain: Interval, epsilon: float, s: float, half_range: float, nodes: int | None) -> None:
        slope = 1 + (s + 1) / math.expm1(epsilon)
        window, span = half_range / ((s + 1) * slope), half_range / slope
        nodes = lattice_nodes(domain, nodes, otherwise=None)
        if nodes is None:
            worst = transformation_worst_variance(epsilon, s=s, half_range=half_range)
            nodes = table_nodes(window, span, worst)
        nodes = check_nodes(nodes, MOST_TABLE_NODES)
        rows, units = window_table(nodes, window, span, epsilon)
        self._init(domain, epsilon, integer_rows(rows, epsilon), units.tolist())


class UnbiasedOptimalPiecewise(PiecewiseTransformation):
    """The unbiased variant of "Optimal Piecewise-based Mechanism" (Zheng, Mishra and Hu), its Theorem 5.

    To compare with, never to use: its worst-case variance is 3 times (large epsilon) to 4 times (small
    epsilon) that of `Piecewise`, and more beside `PiecewiseOpt`: it takes that many times as many reports for
    the same error. It is PM with the same share of the window on a larger output range, [-C, 1+C] of the unit
    interval with C = (e^(epsilon/2) + 1) / (e^(epsilon/2) - 1), and the margins are pure loss.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    nodes
        N, from 2 to 1,024; the default as in `PiecewiseTransformation`, within 1.3 % of the continuous
        mechanism's worst-case variance up to epsilon 8.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = UnbiasedOptimalPiecewise(Interval(0, 100), epsilon=1.0)
    >>> round(mechanism.variance(50) ** 0.5, 1)  # the standard deviation of one report
    215.5
    """

    __slots__ = ()

    name: ClassVar[str] = "unbiased-optimal-piecewise"

    def __init__(self, domain: Interval, epsilon: float, *, nodes: int | None = None) -> None:
        domain, epsilon = check_interval(domain, type(self).__name__), check_epsilon(epsilon)
        s, half_range = unbiased_optimal_range(epsilon)
        self._fill(domain, epsilon, s, half_range, nodes)
