"""The exact delta of integer weights against their own shifts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from arcwise.kernels.certificate import UNIT, exp_lower_bound

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LOW = np.uint64(2**32 - 1)
_HALF = np.uint64(32)


def largest_delta(weights: NDArray[np.uint64], epsilon: float, reach: int) -> int:
    """Return ``max over 0 < |d| <= reach of sum_k max(0, w[k] - e^epsilon w[k + d])``, rounded up.

    The n weights have the sum 2**64, and are 0 outside the table, so shifts of n or more all give 2**64.
    e^epsilon stands for its rational lower bound, which makes the result larger.

    Notes
    -----
    The computation is exact. A term counts if ``w[k] > floor(E w[k + d])``, a comparison of integers. The
    terms that count add up to ``sum w[k] - E sum w[k + d]``; both sums are of integers, and are computed from
    halves of 32 bits because a sum can be 2**64.
    """
    if reach >= weights.size:
        return UNIT
    bound = exp_lower_bound(epsilon)
    # w > floor(E w') can only hold where floor(E w') is below 2**64: everything above counts as 2**64 - 1.
    scaled = [min(w * bound.numerator // bound.denominator, UNIT - 1) for w in weights.tolist()]
    thresholds = np.array(scaled, dtype=np.uint64)
    sides = [(weights, thresholds)]
    if not np.array_equal(weights, weights[::-1]):
        sides.append((weights[::-1], thresholds[::-1]))
    largest = 0
    for w, threshold in sides:
        for shift in range(1, reach + 1):
            # The last `shift` weights have nothing to be compared with: they count in full.
            counts = w[:-shift] > threshold[shift:]
            gain = exact_sum(w[-shift:]) + exact_sum(w[:-shift][counts])
            loss = exact_sum(w[shift:][counts])
            delta = -((loss * bound.numerator - gain * bound.denominator) // bound.denominator)
            largest = max(largest, delta)
    return largest


def exact_sum(weights: NDArray[np.uint64]) -> int:
    """Return the sum of the weights as an integer, which a sum of uint64 would give modulo 2**64."""
    high, low = int((weights >> _HALF).sum(dtype=np.uint64)), int((weights & _LOW).sum(dtype=np.uint64))
    return (high << 32) + low
