"""Compare estimates with the true values on the devices, and check whether the intervals contain them."""

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
    """One estimate and its truth, in the unit of the column; a resultant length has no unit."""

    quantity: str
    truth: float
    value: float
    low: float
    high: float
    period: float | None = None

    @property
    def interval(self) -> str:
        """The interval in words, with as many digits as it warrants."""
        through = " (through 0)" if self._known.through_origin else ""
        return f"{self.written(self.low)} to {self.written(self.high)}{through}"

    def written(self, number: float) -> str:
        """Return one of the numbers with as many digits as the interval's width warrants."""
        low, high = self._known.ends() or (self.low, self.high)
        decimals = max(0, 1 - math.floor(math.log10(high - low))) if high > low else 3
        return f"{round(number, decimals) + 0.0:.{decimals}f}"  # never -0

    @property
    def contains(self) -> bool:
        """Whether the interval contains the truth, modulo the period on a circle."""
        return self._known.contains(self.truth)

    @property
    def _known(self) -> Value:
        return Value(self.value, self.low, self.high, "", period=self.period)


@dataclass(frozen=True)
class Result:
    """The demo's results for one column: its estimates, and the true distribution on the column's bins."""

    column: Column
    estimate: dict[str, Any]
    lines: tuple[Line, ...]
    true: FloatArray


def compare(column: Column, estimate: dict[str, Any]) -> Result:
    """Compare the server's estimate of a column, as its API returned it, with the truth."""
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
        # A bin may straddle the origin, so values are taken modulo the period, beginning at the first edge.
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
    return Result(column, estimate, tuple(lines), true)


def _line(
    key: str, quantity: str, truth: float, estimates: dict[str, Any], period: float | None = None
) -> Line:
    found = estimates[key]
    return Line(quantity, truth, found["value"], found["low"], found["high"], period)
