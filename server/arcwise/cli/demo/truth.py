"""The truth beside the estimates: what the devices really knew, and whether the intervals contain it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.analysis import Value
from arcwise.errors import ArcwiseError

if TYPE_CHECKING:
    from arcwise.cli.demo.data import Column
    from arcwise.typing import FloatArray


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
    def decimals(self) -> int:
        """Digits after the point that the interval's width warrants."""
        width = self.ends[1] - self.ends[0]
        return max(0, 1 - math.floor(math.log10(width))) if width > 0 else 3

    @property
    def ends(self) -> tuple[float, float]:
        """The interval without a jump: on a circle low may be negative, or high exceed the period."""
        return self._known.ends() or (self.low, self.high)

    @property
    def interval(self) -> str:
        """The interval in words, with as many digits as it warrants."""
        through = " (through 0)" if self._known.through_origin else ""
        return f"{self.written(self.low)} to {self.written(self.high)}{through}"

    def written(self, number: float) -> str:
        """Return one of the numbers with as many digits as the interval warrants."""
        rounded = round(number, self.decimals) + 0.0  # never -0
        return f"{rounded:.{self.decimals}f}"

    @property
    def contains(self) -> bool:
        """Whether the interval contains the truth, modulo the period on a circle."""
        return self._known.contains(self.truth)

    @property
    def _known(self) -> Value:
        return Value(self.value, self.low, self.high, "", period=self.period)


@dataclass(frozen=True)
class Result:
    """All that the demo shows of one column: its estimates, and both distributions on the column's bins."""

    column: Column
    estimate: dict[str, Any]
    lines: tuple[Line, ...]
    estimated: FloatArray
    true: FloatArray


def compare(column: Column, estimate: dict[str, Any]) -> Result:
    """Put the server's estimate of a column, as its API gave it, beside the truth."""
    if estimate["n"] == 0:
        raise ArcwiseError(f"no record has a value for {column.task.name!r}; take more with --limit")
    values = column.known
    domain = column.task.domain
    if domain.circular:
        moment = np.exp(2j * np.pi * values / domain.period).mean()
        direction = float(np.angle(moment) / (2 * np.pi) * domain.period % domain.period)
        lines = [
            _line("direction", "mean direction", direction, estimate, domain.period),
            _line("resultant_length", "resultant length", float(abs(moment)), estimate),
        ]
        # A bin may straddle the origin, so values are taken modulo the period from the first edge on.
        values = column.bins[0] + np.mod(values - column.bins[0], domain.period)
    else:
        quantiles = estimate["quantiles"]
        lines = [
            _line("mean", "mean", float(values.mean()), estimate),
            *(
                _line(key, f"{float(key):.0%} quantile", float(np.quantile(values, float(key))), quantiles)
                for key in quantiles
            ),
        ]
    true = np.histogram(values, column.bins)[0] / len(values)
    return Result(column, estimate, tuple(lines), _rebinned(column, estimate["distribution"]), true)


def _rebinned(column: Column, distribution: dict[str, Any]) -> FloatArray:
    """Return an estimated distribution on the column's bins, each cell's mass spread evenly over the cell."""
    edges = np.array(distribution["edges"])
    cumulative = np.append(0.0, np.cumsum(distribution["probabilities"]))
    if column.task.domain.circular:
        period = column.task.domain.period
        edges = np.concatenate([edges[:-1] + turn * period for turn in (-1, 0, 1)])
        cumulative = np.concatenate([cumulative[:-1] + turn for turn in (-1, 0, 1)])
    return np.diff(np.interp(column.bins, edges, cumulative))


def _line(
    key: str, quantity: str, truth: float, estimates: dict[str, Any], period: float | None = None
) -> Line:
    found = estimates[key]
    return Line(quantity, truth, found["value"], found["low"], found["high"], period)
