"""The smallest epsilon that reaches an error, among numbers with three digits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

LOWEST, HIGHEST = 0.05, 10.0
"""Where an epsilon is looked for."""

_LEAST_STEP, _LARGEST_STEP = 1.1, 3.0
_TRIES = 40


class Found(NamedTuple):
    """The epsilon, or None where none reaches the error, and every pair (epsilon, error) that was tried."""

    epsilon: float | None
    tried: tuple[tuple[float, float], ...]


def smallest_epsilon(
    reached: Callable[[float], float], error: float, *, start: float, tolerance: float
) -> Found:
    """Return the smallest epsilon, from 0.05 to 10, at which an error is at most the given one.

    `reached` returns the error at an epsilon. It falls, except for small jumps, since windows hold whole
    numbers of codes. The answer reaches the error, and an epsilon that is smaller by at most the share
    `tolerance` (or by a unit of the third digit) misses it.

    Notes
    -----
    Log error is nearly linear in log epsilon: secants within a bracket, nudged by half the tolerance to the
    side that has moved less lately, and a bisection every third time.
    """
    known: dict[float, float] = {}

    def excess(epsilon: float) -> float:
        if epsilon not in known:
            known[epsilon] = reached(epsilon)
        return math.log(known[epsilon] / error) if known[epsilon] < math.inf else math.inf

    def found(epsilon: float | None) -> Found:
        return Found(epsilon, tuple(sorted(known.items())))

    low = high = _rounded(min(max(start, LOWEST), HIGHEST))
    while excess(low) <= 0.0:
        if low <= LOWEST:
            return found(LOWEST)
        high, low = low, max(_rounded(low / _step(excess(low))), LOWEST)
    while excess(high) > 0.0:
        if high >= HIGHEST:
            return found(None)
        low, high = high, min(_rounded(high * _step(excess(high))), HIGHEST)
    moved_high = False
    for turn in range(_TRIES):
        if high <= low * (1.0 + tolerance):
            break
        above, below = excess(low), excess(high)
        if turn % 3 == 2 or math.isinf(above):
            middle = math.sqrt(low * high)
        else:
            middle = low * (high / low) ** (above / (above - below))
            middle *= 1.0 + tolerance / 2 * (-1 if moved_high else 1)
        middle = _rounded(middle)
        if not low < middle < high:
            middle = _rounded(math.sqrt(low * high))
            if not low < middle < high:
                break  # neighbours among the numbers with three digits
        moved_high = excess(middle) <= 0.0
        low, high = (low, middle) if moved_high else (middle, high)
    return found(high)


def _step(excess: float) -> float:
    """Return the factor to the other side of the answer: more than errors that fall like 1/epsilon need."""
    return min(max(1.1 * math.exp(1.2 * min(abs(excess), 1.0)), _LEAST_STEP), _LARGEST_STEP)


def _rounded(epsilon: float) -> float:
    return float(f"{epsilon:.3g}")
