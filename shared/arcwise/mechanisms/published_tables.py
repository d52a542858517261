"""Published mechanisms that sample from a table: PTT and a member of it, truncated PM, HM, three outputs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from arcwise.kernels.certificate import check_epsilon
from arcwise.kernels.rounding import integer_rows
from arcwise.mechanisms.closed_forms.finite import (
    hybrid_share,
    hybrid_worst_variance,
    three_outputs_levels,
)
from arcwise.mechanisms.closed_forms.piecewise import (
    piecewise_parameter,
    transformation_range,
    transformation_worst_variance,
    unbiased_optimal_range,
)
from arcwise.mechanisms.grids import MOST_TABLE_NODES, table_nodes, window_table
from arcwise.mechanisms.published_windows import Piecewise
from arcwise.mechanisms.table import TableMechanism
from arcwise.mechanisms.window import check_interval, check_nodes, lattice_nodes

if TYPE_CHECKING:
    from arcwise.domains import Interval

_TRUNCATED_NODES = 65
"""Default nodes of `TruncatedPiecewise`: the table then has at most 4,500 weights, nine bytes each."""

_NOTHING = 2.0**-33
"""An output with a probability below this is left out: its integer weight would be below 2**31."""


class PiecewiseTransformation(TableMechanism):
    """The Piecewise Transformation Technique (PTT, arXiv 2112.04745): any unbiased window with margins.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    s
        The window has the share 1/(s+1) of the output range, s > 0. The default has the least worst-case
        variance.
    half_range
        A: inputs in [-1, 1] have outputs in [-A, A]. The default, `closed_forms.piecewise.least_half_range`,
        is the least possible A.
    nodes
        The number N of nodes, from 2 to 1,024. The default is at most 160. It keeps the worst-case variance
        within 1 % of that of the continuous mechanism up to epsilon 8, and the size of a task below 200 KB.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    The member of least worst-case variance has no margins: for every s the variance grows with A^2 (see
    `closed_forms.piecewise` for the derivation). So it is `PiecewiseOpt`, and the default here is that
    mechanism, written out as a table. `PiecewiseOpt` samples from the same distribution with a smaller task.

    For inputs in [-1, 1] the window's centre slides from -m to m, m = 1 + (s+1) / (e^epsilon - 1). The width
    of a code is the (N-1)th part of this distance.

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
        self._fill(domain, epsilon, *transformation_range(epsilon, s, half_range), nodes)

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

    Use it for comparisons only. Its worst-case variance is 3 times (large epsilon) to 4 times (small epsilon)
    that of `Piecewise`, and an even larger multiple of that of `PiecewiseOpt`. For the same error, it needs
    more reports than these mechanisms by the same factor. It is PM with the same share of the window on a
    larger output range, [-C, 1+C] of the unit interval with C = (e^(epsilon/2) + 1) / (e^(epsilon/2) - 1).
    The additional margins of the output range only add variance.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    nodes
        The number N of nodes, from 2 to 1,024. The default is as in `PiecewiseTransformation`. It keeps the
        worst-case variance within 1.3 % of that of the continuous mechanism up to epsilon 8.

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


class TruncatedPiecewise(TableMechanism):
    """The Piecewise Mechanism with outputs beyond the domain moved to its ends, for comparing single values.

    Zheng, Mishra and Hu compare their mechanism with it. Without a grid, its worst ``E|y-x|`` is below that
    of the clamped `OptimalPiecewise` from epsilon 1.4 on. Its mean is biased; use `Piecewise` for means.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    nodes
        The number N of nodes, from 2 to 32,768. The default is 65, or on a lattice one node for each value.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    The rows are those of `Piecewise`, with the weights of all outputs at or beyond an end added up in the
    code of that end. This does not change epsilon, because the output is computed from a report of
    `Piecewise` alone.

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
        whole = Piecewise(domain, epsilon, nodes=lattice_nodes(domain, nodes, otherwise=_TRUNCATED_NODES))
        units = whole.code_units()
        first, last = int((units <= 0.0).sum()), int((units < 1.0).sum())
        rows = []
        for node in range(whole.kernel.nodes):
            row = whole.kernel.row(node)
            rows.append([sum(row[:first]), *row[first:last], sum(row[last:])])
        self._init(domain, whole.epsilon, rows, [0.0, *units[first:last].tolist(), 1.0])


class Hybrid(TableMechanism):
    """The Hybrid Mechanism (HM) of Wang et al. (ICDE 2019), unbiased.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.
    nodes
        The number N of nodes, from 2 to 1,024. The default is at most 160. It keeps the worst-case variance
        within 1 % of that of the continuous mechanism up to epsilon 8, and the size of a task below 200 KB.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    With the probability alpha = 1 - e^(-epsilon/2) the code is one of `Piecewise`. Otherwise it is one of the
    last two codes, which are those of `Duchi`. Up to epsilon 0.609 alpha is 0, and the mechanism is exactly
    `Duchi`, with two nodes and two codes.

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
        window = 1 / piecewise_parameter(epsilon)  # in units of the distance that it slides
        if not alpha and not domain.discrete:
            nodes = 2
        elif nodes is None:
            nodes = table_nodes(window, 1 + window, hybrid_worst_variance(epsilon))
        node = np.arange(nodes)[:, None]
        place = 2 * node / (nodes - 1) - 1
        tilt = math.tanh(epsilon / 2)  # (e^epsilon - 1) / (e^epsilon + 1)
        # At an end, the likelier output has the probability 1 / (1 + e^-epsilon), the other 1 / (1 +
        # e^epsilon).
        high = 0.5 * (1 + place) / (1 + math.exp(-epsilon)) + 0.5 * (1 - place) / (1 + math.exp(epsilon))
        duchi, ends = np.hstack([high[::-1], high]), [0.5 - 0.5 / tilt, 0.5 + 0.5 / tilt]
        if not alpha:
            self._init(domain, epsilon, integer_rows(duchi, epsilon), ends)
            return
        piecewise, units = window_table(nodes, window, 1 + window, epsilon)
        rows = np.hstack([alpha * piecewise, math.exp(-epsilon / 2) * duchi])
        self._init(domain, epsilon, integer_rows(rows, epsilon), [*units.tolist(), *ends])


class ThreeOutputs(TableMechanism):
    """The three-outputs mechanism of Zhao et al. (IEEE IoT Journal 2020), with the least worst-case variance.

    Parameters
    ----------
    domain
        The `Interval` of the values.
    epsilon
        From 0.01 to 20.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    The nodes are the ends and the middle. The mechanism's own formula makes the probabilities affine between
    them, so the kernel is exact, without a grid error. Up to epsilon = log 2 the best probability of the
    middle output is 0. This output is then left out, which leaves `Duchi`. Above log((3 + sqrt(65))/2) the
    mechanism is randomised response on three nodes.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> mechanism = ThreeOutputs(Interval(0, 100), epsilon=1.0)
    >>> round(mechanism.variance(50) ** 0.5, 1)  # the standard deviation of one report
    102.2
    """

    __slots__ = ()

    name: ClassVar[str] = "three-outputs"
    version: ClassVar[int] = 1

    def __init__(self, domain: Interval, epsilon: float) -> None:
        domain, epsilon = check_interval(domain, type(self).__name__), check_epsilon(epsilon)
        a, outer, reach = three_outputs_levels(epsilon)
        at_end = a * math.exp(-epsilon)
        if at_end < _NOTHING:
            a, outer, at_end, reach = 0.0, 1.0, 0.0, 1 / math.tanh(epsilon / 2)
        # At an end the two outer outputs share 1 - a/E in the ratio E to 1.
        near = (1 - at_end) / (1 + math.exp(-epsilon))
        far = (1 - at_end) / (1 + math.exp(epsilon))
        rows = [[near, at_end, far], [outer / 2, a, outer / 2], [far, at_end, near]]
        units = [(1 - reach) / 2, 0.5, (1 + reach) / 2]
        if not a:
            rows, units = [[row[0], row[2]] for row in rows], [units[0], units[2]]
        self._init(domain, epsilon, integer_rows(rows, epsilon), units)
