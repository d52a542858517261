"""Errors as functions of the number of reports, and searches for the reports or epsilon of an error."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_REPORTS = 2**53
"""The most reports. Larger counts are not exact in a float, and `estimate` refuses them."""

LOWEST, HIGHEST = 0.05, 10.0
"""The range in which `smallest_epsilon` searches."""

_TRIES = 40


class Curve(ABC):
    """The error of one mechanism for one goal, as a share of the range or of the period.

    It is defined for at most `most` reports.
    """

    most: int = MAX_REPORTS

    @abstractmethod
    def error(self, reports: int) -> float:
        """Return the expected error of the estimate; infinite if there is no estimate."""

    @abstractmethod
    def reports(self, error: float) -> int | None:
        """Return the smallest number of reports that reaches an error, or None if no number does."""

    def half_width(self, reports: int, level: float) -> float | None:
        """Return the half-width of the estimate's interval, or None if it has no interval."""
        return None

    def reached(self, reports: int) -> float:
        """Return the error to compare with the requested one; a simulated error includes a margin."""
        return self.error(reports)

    def details(self, reports: int) -> dict[str, float]:
        """Return the error by population, if several are used; empty otherwise."""
        return {}

    def points(self, reports: int) -> tuple[tuple[float, float], ...]:
        """Return pairs (reports, error) around a number of reports, for a picture."""
        around = sorted({max(1, min(MAX_REPORTS, round(reports * 10.0 ** (k / 8)))) for k in range(-12, 13)})
        return tuple((float(n), error) for n in around if (error := self.error(n)) < math.inf)


def fewest_reports(enough: Callable[[int], bool], *, more_than: int = 1) -> int | None:
    """Return the fewest reports above `more_than` that are enough, or None if no number is enough.

    If a number is enough, every larger number must be enough too.
    """
    low, high = more_than, MAX_REPORTS
    if not enough(high):
        return None
    while high - low > 1:
        middle = math.isqrt(low * high) if high >= 4 * low else (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


class Found(NamedTuple):
    """The epsilon that was found, and every pair (epsilon, error) that was tried.

    The epsilon is None if no epsilon reaches the error.
    """

    epsilon: float | None
    tried: tuple[tuple[float, float], ...]


def smallest_epsilon(
    reached: Callable[[float], float], error: float, *, start: float, tolerance: float
) -> Found:
    """Return the smallest epsilon with three digits, from 0.05 to 10, that reaches an error.

    `reached` returns the error at an epsilon. This error falls as epsilon grows, except for small jumps,
    because windows hold whole numbers of codes. The search stops when it knows an epsilon that misses the
    error and is smaller than the result by at most the share `tolerance`, or by one unit of the third digit.
    """
    # Log error is nearly linear in log epsilon. So use secants within a bracket, and a bisection every third
    # time. Shift each secant by half the tolerance to the side that has moved less lately.
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
    """Return a factor that takes epsilon past the answer, with a margin.

    It assumes that errors fall like 1/epsilon.
    """
    return min(1.1 * math.exp(1.2 * min(abs(excess), 1.0)), 3.0)


def _rounded(epsilon: float) -> float:
    return float(f"{epsilon:.3g}")
