"""What the planner asks of every goal: the error of one mechanism as a function of the number of reports."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_REPORTS = 2**53
"""Counts beyond it are not exact in a float, and `estimate` refuses them."""


class Curve(ABC):
    """The error of one mechanism for one goal, as a share of the range or of the period.

    There are errors for at most `most` reports.
    """

    most: int = MAX_REPORTS

    @abstractmethod
    def error(self, reports: int) -> float:
        """Return the expected error of the estimate from so many reports; infinite where there is none."""

    @abstractmethod
    def reports(self, error: float) -> int | None:
        """Return the smallest number of reports that reaches an error; None where no number does."""

    def half_width(self, reports: int, level: float) -> float | None:
        """Return the half-width of the interval that goes with the estimate; None where there is none."""
        return None

    def reached(self, reports: int) -> float:
        """Return the error that has to be at most the one asked for: with what a simulation leaves open."""
        return self.error(reports)

    def details(self, reports: int) -> dict[str, float]:
        """Return the error by population where several stand for all; empty elsewhere."""
        return {}

    def points(self, reports: int) -> tuple[tuple[float, float], ...]:
        """Return pairs (reports, error) around a number of reports, for a picture."""
        around = sorted({max(1, min(MAX_REPORTS, round(reports * 10.0 ** (k / 8)))) for k in range(-12, 13)})
        return tuple((float(n), error) for n in around if (error := self.error(n)) < float("inf"))


def fewest_reports(enough: Callable[[int], bool], *, more_than: int = 1) -> int | None:
    """Return the fewest reports above `more_than` that are enough; None where no number is.

    What is enough stays so with more reports.
    """
    low, high = more_than, MAX_REPORTS
    if not enough(high):
        return None
    while high - low > 1:
        middle = math.isqrt(low * high) if high >= 4 * low else (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
