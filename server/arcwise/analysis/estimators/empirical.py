"""How far an expectation may lie from an average of numbers per code, by empirical likelihood.

Student's interval takes the average for normal. With few reports at a large epsilon it is not: a population
is skewed, and a rare value far out is missed by most samples, which then look certain. Empirical likelihood
asks of each expectation whether some law of the codes has it and makes the counts likely. Such a law may hold
codes that no report shows yet, so the interval reaches towards them, by about three reports' worth of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.likelihood.bootstrap_fit import largest_probabilities

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.kernels.base import Kernel
    from arcwise.typing import FloatArray

__all__ = ["SKEWNESS", "Reach", "empirical_reach"]

SKEWNESS = 2.0
"""How much the squared skewness of an average adds to what its likelihood ratio has to exceed.

Where x rare reports are expected, the squared skewness is 1/x, and none of them comes with probability
exp(-x). An interval that saw none holds x up to ``2 x = t^2 (1 + 2/x)``: at the level 0.95 to x = 3.1, so
that 4 % of surveys miss. The chi-square law by itself would miss 15 %.
"""

_EXPECTED = 0.5
"""Reports that some population must have beyond a place, for the likelihood to reckon with it unseen."""


class Reach(NamedTuple):
    """How far above an average the expectation may lie, and the law of the codes that has it there.

    The reach below is that of the negative numbers.
    """

    distance: float
    law: FloatArray


def empirical_reach(kernel: Kernel, values: FloatArray, counts: FloatArray, quantile: float) -> Reach:
    """Return how far above its average the expectation of a number per code may lie.

    Parameters
    ----------
    kernel
        It says which codes are possible.
    values
        The number per code, shape (K,).
    counts
        Reports per code, shape (K,), at least one report.
    quantile
        Of a standard error: the signed root of the likelihood ratio is compared with it.

    Notes
    -----
    Of all laws q of the codes with the expectation m + d, the most likely one is (Owen 2001, chapter 2), with
    p the shares of the reports, m their average and ``z = v - m``,

        q_j proportional to p_j / (1 - y z_j),    0 <= y <= 1 / z_far,

    and where that does not reach d, with y at its end, also a share s of mass at the furthest code. So d
    increases along a single path (y, then s), as does the likelihood ratio ``2 n sum_j p_j log(p_j/q_j)``,
    whose root is compared with `quantile`. It is chi-square but for the skewness of q (`SKEWNESS`). The
    furthest code is the one beyond which no population has half a report on average.
    """
    n = float(counts.sum())
    seen = np.flatnonzero(counts)
    p = counts[seen] / n
    centre = float(p @ values[seen])
    z = values[seen] - centre
    z -= p @ z  # what rounding left
    furthest = _furthest(kernel, values, counts)
    far = float(values[furthest]) - centre
    if not far > 0.0 or (seen.size == 1 and furthest == seen[0]):
        return Reach(0.0, counts / n)
    far = max(far, float(z.max()))

    def along(path: float) -> tuple[FloatArray, float, float]:
        """Return the law of the seen codes and the share of the furthest, and the signed root."""
        y, share = min(path, _LAST) / far, max(path - 1.0, 0.0)
        yz = y * z
        weights = p / (1.0 - yz)
        # The sum of weights, less 1; sum p z is 0.
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
    law = np.zeros(counts.size)
    law[seen] = weights
    law[furthest] += share
    return Reach(max(float(weights @ z) + share * far, 0.0), law)


_LAST, _WHOLE = 1.0 - 1e-13, 2.0 - 1e-13
"""On the path to the furthest code: where it is the only one to gain, and where it has all mass."""


def _root_search(root: Callable[[float], float], quantile: float, guess: float) -> float:
    """Return where the root reaches the quantile on the path, or the path's end.

    It starts at 0 and is nearly a straight line where the law is nearly normal: secants from there.
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


_SECANTS = 6
"""Steps before a search that needs no straight line."""


def _furthest(kernel: Kernel, values: FloatArray, counts: FloatArray) -> int:
    """Return the code with the largest number that a report may have, seen or not.

    The shares of codes at nodes where they are most likely bound from above what any population has of them.
    """
    order = np.argsort(-values, kind="stable")
    expected = np.cumsum(largest_probabilities(kernel)[order]) * float(counts.sum())
    return int(order[np.argmax((expected >= _EXPECTED) | (counts[order] > 0))])
