"""The truth beside the estimates: what the devices really knew, and whether the intervals contain it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.domains import Circle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.server.cli.demo.data import Column

__all__ = ["Line", "Result", "compare"]


@dataclass(frozen=True)
class Line:
    """One estimate beside its truth, in the unit of the column or, for a resultant length, in none."""

    quantity: str
    truth: float
    value: float
    low: float
    high: float
    period: float | None = None

    @property
    def contains(self) -> bool:
        """Whether the interval contains the truth, modulo the period on a circle."""
        if self.period is None:
            return self.low <= self.truth <= self.high
        return (self.truth - self.low) % self.period <= self.high - self.low


@dataclass(frozen=True)
class Result:
    """All that the demo shows of one column: its estimates and its two distributions on the same edges."""

    column: Column
    estimate: dict[str, Any]
    lines: tuple[Line, ...]
    edges: NDArray[np.float64]
    estimated: NDArray[np.float64]
    true: NDArray[np.float64]


def compare(column: Column, estimate: dict[str, Any]) -> Result:
    """Put the server's estimate of a column, as its API gave it, beside the truth."""
    values = column.known
    domain = column.task.domain
    edges = np.array(estimate["distribution"]["edges"])
    if isinstance(domain, Circle):
        # A bin may straddle the origin, so values are taken modulo the period from the first edge on.
        values = edges[0] + np.mod(values - edges[0], domain.period)
        moment = np.exp(2j * np.pi * values / domain.period).mean()
        direction = float(np.angle(moment) / (2 * np.pi) * domain.period % domain.period)
        lines = (
            _line("direction", "mean direction", direction, estimate, domain.period),
            _line("resultant_length", "resultant length", float(abs(moment)), estimate),
        )
    else:
        lines = (
            _line("mean", "mean", float(values.mean()), estimate),
            *(
                _line(key, f"{float(key):.0%} quantile", float(np.quantile(values, float(key))), quantiles)
                for quantiles in [estimate["quantiles"]]
                for key in quantiles
                if quantiles[key]["low"] is not None
            ),
        )
    true = np.histogram(values, edges)[0] / len(values)
    return Result(column, estimate, lines, edges, np.array(estimate["distribution"]["probabilities"]), true)


def _line(
    key: str, quantity: str, truth: float, estimates: dict[str, Any], period: float | None = None
) -> Line:
    found = estimates[key]
    return Line(quantity, truth, found["value"], found["low"], found["high"], period)
