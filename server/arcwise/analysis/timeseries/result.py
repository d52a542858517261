"""What a time series of estimates is made of: points, their JSON, and directions without jumps."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.analysis.timeseries.epochs import utc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from matplotlib.figure import Figure

    from arcwise.analysis.estimators.result import Value
    from arcwise.analysis.timeseries.change import Change
    from arcwise.typing import FloatArray


__all__ = ["Point", "Series", "unwrapped"]


@dataclass(frozen=True)
class Point:
    """What the reports of some successive epochs tell, merged.

    Attributes
    ----------
    first, last
        The numbers of the epochs, both included.
    start, end
        Their times in UTC, the end excluded.
    n
        How many reports there are. With none everything below is absent: a gap.
    mean, direction, resultant_length, quantiles, shares
        As in `Estimate`; quantiles and shares only where they were asked for.
    """

    first: int
    last: int
    start: datetime
    end: datetime
    n: int
    mean: Value | None = None
    direction: Value | None = None
    resultant_length: Value | None = None
    quantiles: Mapping[str, Value] = field(default_factory=dict)
    shares: Mapping[str, Value] = field(default_factory=dict)

    def values(self) -> dict[str, Value]:
        """Return every number with an interval, by its name in words."""
        found = {
            "mean": self.mean,
            "direction": self.direction,
            "resultant length": self.resultant_length,
            **{f"quantile {level}": value for level, value in self.quantiles.items()},
            **{f"share {bounds}": value for bounds, value in self.shares.items()},
        }
        return {name: value for name, value in found.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object; times in ISO 8601, and what does not apply is absent."""
        result: dict[str, Any] = {
            "first": self.first,
            "last": self.last,
            "start": utc(self.start),
            "end": utc(self.end),
            "n": self.n,
        }
        for name in ("mean", "direction", "resultant_length"):
            value = getattr(self, name)
            if value is not None:
                result[name] = value.to_dict()
        for name in ("quantiles", "shares"):
            values = getattr(self, name)
            if values:
                result[name] = {key: value.to_dict() for key, value in values.items()}
        return result


@dataclass(frozen=True)
class Series:
    """Estimates of one task over time.

    Attributes
    ----------
    task, task_id, n, epsilon, delta, domain, target, unit
        As in `Estimate`; n over all points.
    level
        Of the intervals: of each one, or, where `simultaneous`, of all points' intervals of one estimate
        together.
    simultaneous
        Whether the level holds for all points at once.
    every
        Epochs in a point.
    points
        In order of time, without holes: where no reports came, a point has ``n = 0`` and no values.
    change
        The test that nothing changes; None where fewer than two points can be compared.
    period
        Of the circle; None on an interval.
    """

    task: str
    task_id: str
    n: int
    epsilon: float
    delta: float
    level: float
    simultaneous: bool
    every: int
    domain: str
    target: str
    points: Sequence[Point]
    change: Change | None
    period: float | None
    unit: str | None = None

    def columns(self) -> dict[str, list[Value | None]]:
        """Return each estimate's values over the points, by its name in words; None in gaps."""
        rows = [point.values() for point in self.points]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}

    def wraps(self, name: str) -> bool:
        """Return whether one of `columns` holds places on a circle: its direction, its quantiles."""
        return self.period is not None and name.startswith(("direction", "quantile"))

    def numbers(self, name: str) -> FloatArray:
        """Return value, low and high over the points of one of `columns`, shape (P, 3).

        NaN stands in gaps, where the reports determine no point, and where there is no interval. Places on a
        circle are unwrapped: they continue beyond 0 and the period, each by less than half a turn from the
        one before, and those that are not determined are NaN.
        """
        column = self.columns()[name]
        if self.period is not None and self.wraps(name):
            return unwrapped(column, self.period)
        return np.array([_numbers(value) for value in column])

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object; what does not apply to the task is absent, and no number is NaN."""
        result: dict[str, Any] = {
            "task": self.task,
            "task_id": self.task_id,
            "n": self.n,
            "epsilon": self.epsilon,
            "level": self.level,
            "simultaneous": self.simultaneous,
            "target": self.target,
            "every": self.every,
        }
        if self.delta:
            result["delta"] = self.delta
        if self.unit is not None:
            result["unit"] = self.unit
        if self.change is not None:
            result["change"] = self.change.to_dict()
        result["points"] = [point.to_dict() for point in self.points]
        return result

    def plot(self) -> Figure:
        """Return the picture as a matplotlib figure: ``series.plot().savefig("x.png")``.

        One row for each estimate, its intervals as a band over time, directions across the wrap.

        Raises
        ------
        MissingExtraError
            When matplotlib is not installed: the extra is `plots`.
        """
        from arcwise.analysis.plotting.series import draw_series, series_size
        from arcwise.analysis.plotting.style import new_figure

        with new_figure(series_size(self)) as figure:
            draw_series(figure, self)
        return figure

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        from arcwise.analysis.timeseries.text import as_html

        return as_html(self)

    def __str__(self) -> str:
        from arcwise.analysis.timeseries.text import as_text

        return as_text(self)


def _numbers(value: Value | None) -> tuple[float, float, float]:
    if value is None:
        return math.nan, math.nan, math.nan
    numbers = (value.value, value.low, value.high)
    point, low, high = (math.nan if number is None else number for number in numbers)
    return point, low, high


def unwrapped(directions: Sequence[Value | None], period: float) -> FloatArray:
    """Return value, low and high of directions over time without jumps, shape (P, 3).

    Each lies within half a period of the last one before it that is determined; NaN stands where there is
    none, or its interval is the whole circle. The median is in [0, period).
    """
    rows = np.full((len(directions), 3), math.nan)
    before: float | None = None
    for row, value in zip(rows, directions, strict=True):
        point, low, high = _numbers(value)
        if not high - low < period:  # NaN is not either
            continue
        turn = 0.0 if before is None else period * round((before - point) / period)
        before = point + turn
        row[:] = before, low + turn, high + turn
    if before is not None:
        rows -= period * math.floor(float(np.nanmedian(rows[:, 0])) / period)
    return rows
