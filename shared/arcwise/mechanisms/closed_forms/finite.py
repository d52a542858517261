"""Variances of the mechanisms with few outputs (Duchi's, three outputs, randomised response) and of HM.

Inputs x are in [0, 1], with t = |2x - 1|, E = e^epsilon and G = E - 1. Terms that nearly cancel at a large
epsilon are written out: for example, c^2 - t^2 in `duchi_variance` as (c^2 - 1) + (1 - t)(1 + t).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from arcwise.checks import checked_integer
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.closed_forms.checks import from_centre, from_end
from arcwise.mechanisms.closed_forms.piecewise import piecewise_variance

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.typing import FloatArray

HYBRID_FROM = math.log(
    (-5 + 2 * (6353 - 405 * math.sqrt(241)) ** (1 / 3) + 2 * (6353 + 405 * math.sqrt(241)) ** (1 / 3)) / 27
)
"""Up to this epsilon, about 0.609, HM is Duchi's mechanism (Wang et al., ICDE 2019)."""


def duchi_variance(x: ArrayLike, epsilon: float) -> FloatArray:
    """Return the variance on [0, 1] of Duchi, Jordan and Wainwright's mechanism, in the shape of x.

    It outputs -c or c for inputs in [-1, 1], c = (E+1)/G, so its variance there is c^2 - t^2.
    """
    growth = math.expm1(check_epsilon(epsilon))
    end = from_end(x)
    variance: FloatArray = (4 * (growth + 1) / growth**2 + end * (2 - end)) / 4
    return variance


def duchi_worst_variance(epsilon: float) -> float:
    """Return the largest `duchi_variance`, attained in the middle: ``((E+1)/(E-1))^2 / 4``."""
    return float(duchi_variance(0.5, epsilon))


class ThreeOutputsLevels(NamedTuple):
    """Probabilities and the outer outputs of the three-outputs mechanism, for inputs in [-1, 1]."""

    a: float
    """The probability of the output 0 at the input 0."""
    outer: float
    """1 - a, the probability of the outer outputs together at the input 0; exact even if a is close to 1."""
    reach: float
    """K; the outer outputs are -K and K."""


def three_outputs_levels(epsilon: float) -> ThreeOutputsLevels:
    """Return the levels of the three-outputs mechanism with the least worst-case variance.

    For inputs in [-1, 1] it outputs -K, 0 or K. The output 0 has the probability a at the input 0 and a/E at
    both ends (Zhao et al., IEEE IoT Journal 2020). The probabilities of -K and K at the ends have the ratio
    E, so K = (E+1) / (G (1 - a/E)).

    With a = E h / (1+h) the worst-case variance, divided by ((E+1)/G)^2, is a polynomial in h. The polynomial
    is least where ``(E+1)^2 (h + 3h^2 + 2h^3) / 2 - 2 G h = E - 2``. The left side increases and is convex.
    For E < 2 it exceeds the right side already at h = 0. Then the best a is 0, and the mechanism is Duchi's.
    The output -K may not be less likely at 0 than at 1, so a <= E/(E+2), that is h <= 1/(E+1). The best h
    reaches this limit at E = (3 + sqrt(65))/2.
    """
    epsilon = check_epsilon(epsilon)
    growth = math.exp(epsilon)
    h = 1 / (growth + 1)

    def excess(h: float) -> float:
        return 0.5 * (growth + 1) ** 2 * (h + 3 * h**2 + 2 * h**3) - 2 * (growth - 1) * h - (growth - 2)

    if growth <= 2:
        h = 0.0
    elif excess(h) > 0:
        # Newton from the right end of a convex increasing function falls to the root and never passes it.
        while True:
            slope = 0.5 * (growth + 1) ** 2 * (1 + 6 * h + 6 * h**2) - 2 * (growth - 1)
            nearer = max(0.0, h - excess(h) / slope)
            if nearer >= h:
                break
            h = nearer
    else:
        return ThreeOutputsLevels(growth / (growth + 2), 2 / (growth + 2), 1 + 3 / math.expm1(epsilon))
    a = growth * h / (1 + h)
    return ThreeOutputsLevels(a, 1 - a, (growth + 1) / math.expm1(epsilon) * (1 + h))


def three_outputs_variance(x: ArrayLike, epsilon: float, *, a: float | None = None) -> FloatArray:
    """Return the variance on [0, 1] of the three-outputs mechanism for x in [0, 1], in the shape of x.

    The variance ``V(t) = K^2 (1 - a + a (1 - 1/E) t) - t^2`` is computed as
    ``(1-t) V(0) + t (V(1) + 1 - t)``, which has no negative terms. At large epsilon, all terms are small if
    the variance is small. `a` is the probability of the middle output at the middle input, from 0 to E/(E+2);
    by default it is that of `three_outputs_levels`.
    """
    epsilon = check_epsilon(epsilon)
    low = math.exp(-epsilon)
    if a is None:
        a, outer, _ = three_outputs_levels(epsilon)
    else:
        outer = 1 - a
    if not 0.0 <= a <= (1 + 1e-12) / (1 + 2 * low):
        raise ParameterError(f"a must be from 0 to {1 / (1 + 2 * low)!r}, got {a!r}")
    # K^2 (1 - a/E) - 1 = ((1+1/E)^2 - (1-1/E)^2 (1-a/E)) / ((1-1/E)^2 (1-a/E)), and 4/E is that difference.
    below = -math.expm1(-epsilon)
    at_end = (4 * low + below**2 * a * low) / (below**2 * (1 - a * low))
    at_middle = ((1 + low) / (below * (1 - a * low))) ** 2 * outer
    end = from_end(x)
    variance: FloatArray = (end * at_middle + from_centre(x) * (at_end + end)) / 4
    return variance


def three_outputs_worst_variance(epsilon: float, *, a: float | None = None) -> float:
    """Return the largest `three_outputs_variance`, attained at ``t = min(1, K^2 a (1 - 1/E) / 2)``."""
    epsilon = check_epsilon(epsilon)
    low = math.exp(-epsilon)
    level = three_outputs_levels(epsilon).a if a is None else a
    slope = ((1 + low) / (1 - level * low)) ** 2 * level / -math.expm1(-epsilon)
    return float(three_outputs_variance((1 + min(1.0, slope / 2)) / 2, epsilon, a=a))


def hybrid_share(epsilon: float) -> float:
    """Return alpha, the probability with which HM uses the Piecewise Mechanism instead of Duchi's mechanism.

    It is ``1 - e^(-epsilon/2)`` above `HYBRID_FROM`, else 0 (Wang et al., ICDE 2019).
    """
    epsilon = check_epsilon(epsilon)
    return -math.expm1(-epsilon / 2) if epsilon > HYBRID_FROM else 0.0


def hybrid_variance(x: ArrayLike, epsilon: float) -> FloatArray:
    """Return the variance on [0, 1] of HM, in the shape of x; above `HYBRID_FROM` it does not depend on x.

    Both parts are unbiased, so the variance of the mixture is the mixture of their variances.
    """
    share = hybrid_share(epsilon)
    duchi = duchi_variance(x, epsilon)
    if not share:
        return duchi
    mixed: FloatArray = share * piecewise_variance(x, epsilon) + math.exp(-epsilon / 2) * duchi
    return mixed


def hybrid_worst_variance(epsilon: float) -> float:
    """Return the largest `hybrid_variance`, attained in the middle."""
    return float(hybrid_variance(0.5, epsilon))


def randomized_response_variance(x: ArrayLike, epsilon: float, nodes: int) -> FloatArray:
    """Return the variance on [0, 1] of unbiased k-ary randomised response for x in [0, 1], in the shape of x.

    The k nodes (`nodes`, at least 2) and the outputs are equally spaced. x is rounded up or down to a node so
    that the mean is preserved.

    The result is exact and includes the rounding. Let q = 1/(E+k-1), D = G q, d = k-1 and y the grid value of
    a report. Then ``E y = D x + q k/2`` and ``E y^2 = D (x^2 + r) + q k (2k-1) / (6d)``, where r = f (1-f) /
    d^2 is the variance of rounding and f the fraction of d x. The decoded report is affine in y, with the
    variance Var(y) / D^2.
    """
    import numpy as np

    growth = math.expm1(check_epsilon(epsilon))
    nodes = checked_integer("nodes", nodes, 2)
    x, gaps, q = from_end(x) / 2, nodes - 1, 1 / (growth + nodes)  # distance to the nearer end keeps digits
    fraction = gaps * x - np.floor(gaps * x)
    rounding = fraction * (1 - fraction) / gaps**2
    # Var(y) = D r + D (1-D) (x - 1/2)^2 + q k ((2k-1)/(6d) - 1/4) after completing the square, as D + qk = 1.
    other = q * nodes * ((2 * nodes - 1) / (6 * gaps) - 0.25)
    d = growth * q
    variance: FloatArray = (rounding + q * nodes * (x - 0.5) ** 2) / d + other / d**2
    return variance


def randomized_response_worst_variance(epsilon: float, nodes: int) -> float:
    """Return the largest `randomized_response_variance` over all inputs.

    Between two nodes the variance is a concave parabola, with its top shifted from the middle of the cell
    towards the nearer end of [0, 1].
    """
    import numpy as np

    growth = math.expm1(check_epsilon(epsilon))
    gaps = nodes - 1
    # Where the derivative of f (1-f)/d^2 + qk (x - 1/2)^2 is 0, moved into the cell from s/d to (s+1)/d.
    start = np.arange(gaps) / gaps
    spread = nodes / (growth + nodes)  # qk = 1 - D
    top = ((2 * start + 1 / gaps) - spread) / (2 * (1 - spread))
    tops = np.clip(top, start, np.minimum(start + 1 / gaps, 1.0))
    inputs = np.concatenate([start, [1.0], np.clip(tops, 0.0, 1.0)])
    return float(randomized_response_variance(inputs, epsilon, nodes).max())


def randomized_response_nodes(epsilon: float) -> int:
    """Return the k with the least `randomized_response_worst_variance`.

    For large epsilon, the variance of the noise grows as k/(3 e^epsilon), and that of rounding falls as
    1/(4k^2). So the best k is near (1.5 e^epsilon)^(1/3). All k up to twice this number are compared.
    """
    most = 4 + math.ceil(2 * (1.5 * math.exp(check_epsilon(epsilon))) ** (1 / 3))
    return min(range(2, most + 1), key=lambda k: randomized_response_worst_variance(epsilon, k))
