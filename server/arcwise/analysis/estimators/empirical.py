"""How far an expectation may lie from an average of numbers per code, by empirical likelihood.

Student's interval treats the average as normal. With few reports at a large epsilon the average is not
normal: if a population is skewed, most samples miss a rare value far out and then look precise. Empirical
likelihood tests for each expectation whether some law of the codes has it and makes the counts likely. Such a
law may include codes that no report shows yet, so the interval extends towards them, by the equivalent of
about three reports.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.likelihood.maximum import largest_probabilities

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from arcwise.kernels.base import Kernel
    from arcwise.typing import FloatArray, IntArray

SKEWNESS = 2.0
"""How much the squared skewness of an average adds to the threshold for its likelihood ratio.

If x rare reports are expected, the squared skewness is 1/x, and the probability of seeing no such report is
exp(-x). With t the quantile in standard errors, an interval from a sample without such a report includes x up
to ``2 x = t^2 (1 + 2/x)``. At the level 0.95 this is x = 3.1, so the intervals of 4 % of surveys miss. With
the chi-square law alone, 15 % would miss.
"""


class Reach(NamedTuple):
    """How far above an average the expectation may lie, and the law of the codes at that expectation.

    For the reach below, negate the numbers.
    """

    distance: float
    law: FloatArray


def empirical_reach(kernel: Kernel, values: FloatArray, counts: FloatArray, quantile: float) -> Reach:
    """Return how far above its average the expectation of a number per code may lie.

    The signed root of the likelihood ratio is compared with `quantile`, a number of standard errors.

    Of all laws q of the codes with the expectation m + d, the most likely one is (Owen 2001, chapter 2), with
    v the numbers, p the shares of the codes among the reports, m the average and ``z = v - m``,

        q_j proportional to p_j / (1 - y z_j),    0 <= y <= 1 / z_far.

    Here y is a multiplier, and z_far the z of the furthest code that a report may have. If q does not reach d
    with y at its upper end, a share s of the mass is also at the furthest code. So d increases along a single
    path (y, then s), as does the likelihood ratio ``2 n sum_j p_j log(p_j/q_j)``. Its root is normal except
    for the skewness of q (`SKEWNESS`). Codes with even larger numbers are ignored if they are so rare that in
    any population they add less than a hundredth of the standard error to the average.
    """
    n = float(counts.sum())
    z, p, seen, furthest = _residuals(kernel, values, counts)
    far = float(z[furthest])
    if not far > 0.0 or (seen.size == 1 and furthest == seen[0]):
        return Reach(0.0, counts / n)
    distance, weights, share = _most(z[seen], p, far, n, quantile)
    law = np.zeros(counts.size)
    law[seen] = weights
    law[furthest] += share
    return Reach(distance, law)


def pooled_reach(
    kernel: Kernel, samples: Sequence[tuple[FloatArray, FloatArray, float]], quantile: float
) -> float:
    """Return how far above a weighted sum of averages over independent samples its expectation may lie.

    Each sample has at least two reports. It is given as the numbers per code, the reports per code, and the
    sample's weight. `quantile` is as in `empirical_reach`.

    All reports are treated as one sample, each with its contribution to the error of the sum: its distance
    from its own sample's average. So all samples share one multiplier, and rare codes of many small samples
    are pooled before they are judged.
    """
    total = sum(float(counts.sum()) for _, counts, _ in samples)
    found, shares, far = [], [], 0.0
    for values, counts, weight in samples:
        n = float(counts.sum())
        z, p, seen, furthest = _residuals(kernel, values, counts)
        scale = total * weight / math.sqrt(n * (n - 1.0))  # n - 1: the average is from the same reports
        found.append(scale * z[seen])
        shares.append(p * n / total)
        far = max(far, scale * float(z[furthest]))
    return _most(np.concatenate(found), np.concatenate(shares), far, total, quantile)[0] if far else 0.0


def _residuals(
    kernel: Kernel, values: FloatArray, counts: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray, int]:
    """Return residuals from the average, shares of the seen codes, their indices, and the furthest code."""
    seen = np.flatnonzero(counts)
    p = counts[seen] / float(counts.sum())
    z = values - float(p @ values[seen])
    z -= p @ z[seen]  # remove the rounding error
    return z, p, seen, _furthest(kernel, z, counts, math.sqrt(float(p @ z[seen] ** 2 / counts.sum())))


def _most(
    z: FloatArray, p: FloatArray, far: float, n: float, quantile: float
) -> tuple[float, FloatArray, float]:
    """Return the distance on `empirical_reach`'s path, the seen codes' law, and the furthest code's share."""
    far = max(far, float(z.max()))

    def along(path: float) -> tuple[FloatArray, float, float]:
        """Return the law of the seen codes, the share of the furthest code, and the signed root."""
        y, share = min(path, _LAST) / far, max(path - 1.0, 0.0)
        yz = y * z
        weights = p / (1.0 - yz)
        # This is the sum of the weights minus 1, since sum p z is 0.
        more = float(weights @ (yz * yz))
        ratio = 2 * n * (float(p @ np.log1p(-yz)) + math.log1p(more) - math.log1p(-share))
        weights *= (1.0 - share) / (1.0 + more)
        mean = float(weights @ z) + share * far
        away = z - mean
        second = float(weights @ away**2) + share * (far - mean) ** 2
        third = float(weights @ away**3) + share * (far - mean) ** 3
        skewness = max(third, 0.0) ** 2 / second**3 / n if second > 0.0 else 0.0
        return weights, share, math.sqrt(max(ratio, 0.0) / (1.0 + SKEWNESS * skewness))

    deviation = math.sqrt(float(p @ z**2))
    guess = quantile * far / math.sqrt(n) / deviation if deviation > 0.0 else math.inf
    path = _root_search(lambda at: along(at)[2], quantile, guess)
    weights, share, _ = along(path)
    return max(float(weights @ z) + share * far, 0.0), weights, share


_LAST, _WHOLE = 1.0 - 1e-13, 2.0 - 1e-13
"""Positions on the path to the furthest code: where only that code gains mass, and where it has all mass."""


def _root_search(root: Callable[[float], float], quantile: float, guess: float) -> float:
    """Return the position on the path where the root reaches the quantile, or the path's end.

    The root starts at 0 and is nearly linear where the law is nearly normal, so secants are tried first.
    """
    before, at, path = 0.0, 0.0, guess
    for _ in range(_SECANTS):
        if not 0.0 < path < _LAST:
            break
        found = root(path)
        step = (quantile - found) * (path - before) / (found - at) if found != at else math.inf
        before, at, path = path, found, path + step
        if abs(step) <= 1e-7 * path < _LAST:
            return path
    from scipy.optimize import brentq

    low = 0.0
    for high in (_LAST, _WHOLE):
        if root(high) > quantile:
            return float(brentq(lambda at: root(at) - quantile, low, high, xtol=1e-15, rtol=1e-7))
        low = high
    return _WHOLE


_SECANTS = 6  # secant steps before a slower search that works for any curve


def _furthest(kernel: Kernel, z: FloatArray, counts: FloatArray, error: float) -> int:
    """Return the code with the largest number that a report may have, seen or not.

    The largest probability of each code at any node bounds its share in any population.
    """
    order = np.argsort(-z, kind="stable")
    shares = largest_probabilities(kernel)[order]
    lost = np.cumsum(shares * z[order]) - np.cumsum(shares) * z[order]  # if codes beyond count as this
    beyond = int(np.searchsorted(lost, _NEGLIGIBLE * error, "right")) - 1
    return int(order[min(max(beyond, 0), int(np.argmax(counts[order] > 0)))])


_NEGLIGIBLE = 0.01  # part of the standard error by which leaving codes out may change an average
