"""A time series of estimates: its points, directions without jumps, text of 79 columns, and JSON."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.analysis.documents import (
    checked_document,
    head_from_dict,
    head_to_dict,
    words_of_domain,
    words_of_loss,
)
from arcwise.analysis.estimators.inference_target import FEW
from arcwise.analysis.estimators.result import (
    Shares,
    Value,
    named_values,
    numbers_of,
    of_devices,
    parts_from_dict,
    parts_to_dict,
)
from arcwise.analysis.shown import Shown, short_repr
from arcwise.analysis.timeseries.change import Change
from arcwise.analysis.timeseries.epochs import MONTH, read_utc, utc
from arcwise.checks import checked_bool
from arcwise.digits import counted, duration, written
from arcwise.notebook import Form, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from arcwise.analysis.timeseries.epochs import Every
    from arcwise.domains import Domain
    from arcwise.typing import FloatArray

_WIDTH = 79
_LEAST_BAR = 12
_MOST_NOTES = 6
_NOT_DETERMINED = "undetermined"
_THROUGH = " (through 0)"
_HUGE = 4e307  # numbers beyond this are drawn at it, so that differences of numbers fit a float


@dataclass(frozen=True)
class Point(Shares):
    """The merged estimate of some consecutive epochs of a series.

    The epochs `first` and `last` are included; `start` and `end` are times in UTC, the end excluded. `mean`,
    `direction`, `resultant_length`, `quantiles`, `shares` and `devices` are as in `Estimate`. Quantiles and
    shares are present only if they were requested. If `n` is 0, the point is a gap without values. A server
    with a minimum of reports joins epochs into blocks until they reach the minimum. `joined` holds the first
    and the last epoch of each block that is counted in this point although the block ends later.
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
    joined: Sequence[tuple[int, int]] = ()
    devices: int | None = None

    @property
    def until(self) -> datetime:
        """The end of the reports: `end`, or the end of a block that begins here."""
        last = max([last for first, last in self.joined if first >= self.first], default=self.last)
        epoch = (self.end - self.start) / (self.last - self.first + 1)
        return self.end + max(last - self.last, 0) * epoch

    def values(self) -> dict[str, Value]:
        """Return every number with an interval, by its name in words."""
        return named_values(self)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object with times in ISO 8601, without the parts that do not apply."""
        result: dict[str, Any] = {
            "first": self.first,
            "last": self.last,
            "start": utc(self.start),
            "end": utc(self.end),
            "n": self.n,
        }
        if self.devices is not None:
            result["devices"] = self.devices
        if self.joined:
            result["joined"] = [list(block) for block in self.joined]
        return result | parts_to_dict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, period: float | None = None) -> Point:
        """Return the point that `to_dict` wrote; `period` is that of the domain, None on an interval."""
        parts: dict[str, Any] = {name: document[name] for name in ("first", "last", "n")}
        parts |= {name: read_utc(document[name]) for name in ("start", "end")}
        return cls(
            **parts,
            **parts_from_dict(Point, document, period=period),
            joined=tuple((first, last) for first, last in document.get("joined", ())),
            devices=document.get("devices"),
        )

    def __repr__(self) -> str:
        first = next((f": {name} {value}" for name, value in self.values().items()), "")
        reports = f"{counted(self.n, 'report')}{of_devices(self.devices)}"
        return f"<Point from {utc(self.start)}, {reports}{first}>"


_HEAD = ("task", "task_id", "n", "epsilon", "level", "simultaneous", "target", "every")


@dataclass(frozen=True)
class Series(Shown):
    """Estimates of one task over time.

    Attributes
    ----------
    task, task_id, n, epsilon, delta, domain, target, unit, description
        As in `Estimate`; n is that of all points together.
    level
        The level of each interval; if `simultaneous`, the level of the intervals of one estimate at all
        points together.
    simultaneous
        Whether the level holds for all points together.
    every
        Epochs in a point, or "month" for calendar months.
    points
        The points in order of time, without holes: a point without reports has ``n = 0`` and no values.
    change
        The test that nothing changes; None if fewer than two points can be compared.
    """

    task: str
    task_id: str
    n: int
    epsilon: float
    delta: float
    level: float
    simultaneous: bool
    every: Every
    domain: Domain
    target: str
    points: Sequence[Point]
    change: Change | None
    unit: str | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "simultaneous", checked_bool("simultaneous", self.simultaneous))

    @property
    def period(self) -> float | None:
        """The period of the circle; None on an interval."""
        return self.domain.length if self.domain.circular else None

    @property
    def domain_words(self) -> str:
        """The domain and the unit of its values in words."""
        return words_of_domain(self.domain, self.unit)

    def columns(self) -> dict[str, list[Value | None]]:
        """Return each estimate's values over the points, by its name in words; None in gaps."""
        rows = [point.values() for point in self.points]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}

    def wraps(self, name: str) -> bool:
        """Return whether one of `columns` holds places on a circle: its direction or its quantiles."""
        return self.period is not None and name.startswith(("direction", "quantile"))

    def numbers(self, name: str) -> FloatArray:
        """Return value, low and high over the points of one of `columns`, shape (P, 3).

        Gaps, points that the reports do not determine, and missing intervals are NaN. Places on a circle are
        unwrapped: they continue beyond 0 and the period, and each is less than half a turn from the place
        before. Undetermined places are NaN.
        """
        column = self.columns()[name]
        if self.period is not None and self.wraps(name):
            return unwrapped(column, self.period)
        return np.array([numbers_of(value) for value in column])

    def times(self) -> list[str]:
        """Return the starts of the points in UTC: dates, with the time if any start is not at midnight."""
        starts = [point.start for point in self.points]
        format_ = "%Y-%m-%d %H:%M:%S"
        for shorter, unit in (("%Y-%m-%d %H:%M", 60), ("%Y-%m-%d", 86_400)):
            if all(start.timestamp() % unit == 0 for start in starts):
                format_ = shorter
        return [f"{start:{format_}}" for start in starts]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object; parts that do not apply to the task are absent, and no number is NaN."""
        result = head_to_dict(self, _HEAD)
        if self.change is not None:
            result["change"] = self.change.to_dict()
        result["points"] = [point.to_dict() for point in self.points]
        return result

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Series:
        """Return the series in a JSON object, from `to_dict` or from a server.

        Raises
        ------
        ParameterError
            When the document is not a series.
        """

        def read() -> Series:
            head = head_from_dict(document, _HEAD)
            change = Change.from_dict(document["change"]) if "change" in document else None
            period = head["domain"].length
            points = tuple(Point.from_dict(point, period=period) for point in document["points"])
            return cls(**head, points=points, change=change)

        return checked_document("a series", read)

    def _form(self) -> Form:
        tables = []
        for name in self.columns():
            head, *rows = ((row[:4]) for row in _table(self, name, _LEAST_BAR))
            tables.append(Table(head, rows))
        return Form(_head(self), tables, _said(self))

    def __repr__(self) -> str:
        values = (pair for point in self.points for pair in point.values().items())
        first = {f"{len(self.points)} points, first {name}": value for name, value in islice(values, 1)}
        return short_repr(self, first)

    def __str__(self) -> str:
        lines = _head(self)
        for name in self.columns():
            rows = list(_table(self, name, _bar_width(self, name)))
            widths = [max(len(row[i]) for row in rows) for i in range(4)]
            lines.append("")
            for row in rows:
                time, n, value, interval = (
                    cell.ljust(width) if i in (0, 3) else cell.rjust(width)
                    for i, (cell, width) in enumerate(zip(row, widths, strict=False))
                )
                lines.append(f"{time}  {n}  {value}  {interval}  {row.bar}".rstrip())
        if any(point.n and _is_few(point) for point in self.points):
            lines.append(f"* fewer than {FEW} {'reports' if _least_devices(self) is None else 'devices'}")
        if any(value.through_origin for point in self.points for value in point.values().values()):
            lines.append(f"[LOW to HIGH]{_THROUGH}")
        return "\n".join([*lines, *(f"note: {note}" for note in _said(self))])


def unwrapped(directions: Sequence[Value | None], period: float) -> FloatArray:
    """Return value, low and high of directions over time without jumps, shape (P, 3).

    Each direction lies within half a period of the last determined direction before it. Missing directions,
    and directions with the whole circle as interval, are NaN. The median direction is in [0, period).
    """
    rows = np.full((len(directions), 3), math.nan)
    before: float | None = None
    for row, value in zip(rows, directions, strict=True):
        point, low, high = numbers_of(value)
        if not high - low < period:  # also true for NaN
            continue
        turn = 0.0 if before is None else period * round((before - point) / period)
        before = point + turn
        row[:] = before, low + turn, high + turn
    if before is not None:
        rows -= period * math.floor(float(np.nanmedian(rows[:, 0])) / period)
    return rows


class _Row(NamedTuple):
    """The cells of a row: one point, or a gap of several points."""

    time: str
    n: str
    value: str
    interval: str
    bar: str


def _head(series: Series) -> list[str]:
    loss = words_of_loss(series.epsilon, series.delta)
    filled = sum(point.n > 0 for point in series.points)
    of = "all points together" if series.simultaneous else "each point by itself"
    least = _least_devices(series)
    lines = [
        f"{series.task}: {counted(series.n, 'report')} at {loss}, values in {series.domain_words}",
        f"{filled} of {len(series.points)} points with reports{_length(series)}, in UTC",
        *([] if least is None else [f"reports{of_devices(least)} in each point"]),
        f"intervals at level {series.level:g} of {of}, for",
        series.target,
    ]
    if series.change is not None:
        lines.append(series.change.words(series.level))
    return lines


def _is_few(point: Point) -> bool:
    """Return whether a point has too few reports, or devices, for its intervals to have their level."""
    return (point.devices or point.n) < FEW


def _least_devices(series: Series) -> int | None:
    """Return the least number of devices of any point with reports; None if each device sent one report."""
    known = [point for point in series.points if point.n]
    several = any(point.devices is not None for point in known)
    return min(point.devices or point.n for point in known) if several else None


def _length(series: Series) -> str:
    if not series.points:
        return ""
    each = (
        "a calendar month"
        if series.every == MONTH
        else duration((series.points[0].end - series.points[0].start).total_seconds())
    )
    return f", {each} each"


def _table(series: Series, name: str, bar: int) -> Iterator[_Row]:
    """Yield the heading and a row for each point; consecutive points without reports share one."""
    numbers = series.numbers(name)
    low, high = shown_range(series, numbers)
    ends = written(low, high, digits=4)
    yield _Row("", "reports", name, "interval", f"{ends[0]} {ends[1]:>{max(bar - len(ends[0]) - 1, 1)}}")
    times = series.times()
    gap = 0
    for place, (point, value) in enumerate(zip(series.points, series.columns()[name], strict=True)):
        if value is None:
            if place + 1 < len(series.points) and series.points[place + 1].n == 0:
                gap += 1
                continue
            yield _Row(times[place - gap], "0", "", f"{gap + 1} points" if gap else "", "")
            gap = 0
            continue
        few = "*" if _is_few(point) else ""
        yield _Row(
            times[place],
            f"{few}{point.n:,}",
            value.written()[0],
            _interval(value),
            _bar(numbers[place], low, high, bar) or _NOT_DETERMINED * (value.value is not None),
        )


def _interval(value: Value) -> str:
    words = value.interval_words().removesuffix(_THROUGH)  # shown once, below the table
    return f"[{words}]" if words else ""


def _bar_width(series: Series, name: str) -> int:
    """Return the width that the other columns leave in a line."""
    values = [value for value in series.columns()[name] if value is not None]
    points = [len(value.written()[0]) for value in values]
    taken = max(len(time) for time in series.times())
    taken += max(len("reports"), *(len(f"*{point.n:,}") for point in series.points))
    taken += max([len(name), *points]) + max(len("interval"), *(len(_interval(value)) for value in values))
    return max(_WIDTH - taken - 8, _LEAST_BAR)


def shown_range(series: Series, numbers: FloatArray) -> tuple[float, float]:
    """Return the range of values in a chart of a series, low < high.

    The range holds the values of all points with at least 30 reports, if there are any, and most of their
    intervals. A point with few reports may have an interval so wide that it would leave no room for the other
    intervals. `numbers`, shape (P, 3), are the value, low and high of `Series.numbers`.
    """
    numbers = numbers.clip(-_HUGE, _HUGE)
    middle = np.where(np.isnan(numbers[:, 0]), numbers[:, 1:].mean(axis=1), numbers[:, 0])
    known = ~np.isnan(middle)
    enough = known & ~np.array([_is_few(point) for point in series.points])
    taken = enough if enough.any() else known
    if not taken.any():
        return 0.0, series.period if series.period is not None else 1.0
    low, high = numbers[taken, 1], numbers[taken, 2]
    reach = 0.0 if np.isnan(high - low).all() else float(np.nanmedian(high - low))
    ends = float(middle[taken].min()) - reach, float(middle[taken].max()) + reach
    ends = (
        max(ends[0], float(np.nanmin([*low, ends[1]]))),
        min(ends[1], float(np.nanmax([*high, ends[0]]))),
    )
    half = max(0.5, 4.0 * float(np.spacing(abs(ends[0]))))  # for numbers too large to change by half a unit
    return ends if ends[0] < ends[1] else (ends[0] - half, ends[0] + half)


def _bar(numbers: FloatArray, low: float, high: float, width: int) -> str:
    """Return an interval as a line of text; < and > mark ends beyond the range shown."""
    if np.isnan(numbers[1]):
        return "" if np.isnan(numbers[0]) else _bar(numbers[[0, 0, 0]], low, high, width)
    value, start, end = ((numbers.clip(-_HUGE, _HUGE) - low) / (high - low) * width).tolist()
    left, right = (min(max(int(x), 0), width - 1) for x in (start, end))
    cells = [" "] * left + ["-"] * (right - left + 1)
    if start < -1e-9:
        cells[0] = "<"
    if end > width + 1e-9:
        cells[-1] = ">"
    if 0 <= value <= width:
        cells[min(int(value), width - 1)] = "o"
    return "".join(cells)


def _said(series: Series) -> list[str]:
    """Return the points' notes, each once, with the number of points that have it."""
    rows = [point.values().values() for point in series.points if point.n]
    # A note counts once per point, even if several of its values have it.
    said = [dict.fromkeys(note for value in row for note in value.notes) for row in rows]
    found = Counter(note for notes in said for note in notes)
    filled = len(rows)
    told = [
        f"{note} ({count} of {filled} points)" if count < filled else note for note, count in found.items()
    ]
    more = [f"{len(told) - _MOST_NOTES} more in to_dict()"] if len(told) > _MOST_NOTES else []
    return [*told[:_MOST_NOTES], *more]
