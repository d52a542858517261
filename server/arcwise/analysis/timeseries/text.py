"""A time series of estimates as text, 79 columns wide, and as a table for notebooks."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.estimators.small_samples import FEW
from arcwise.digits import written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from arcwise.analysis.estimators.result import Value
    from arcwise.analysis.timeseries.result import Series
    from arcwise.typing import FloatArray


__all__ = ["as_html", "as_text", "shown_range"]

_WIDTH = 79
_LEAST_BAR = 12
_MOST_NOTES = 6
_NOT_DETERMINED = "undetermined"
_HUGE = 4e307
"""Numbers beyond it are drawn there: differences of what is left are floats."""


class _Row(NamedTuple):
    """The cells of a point, or of a gap of several."""

    time: str
    n: str
    value: str
    interval: str
    bar: str


def as_text(series: Series) -> str:
    """Return the head, a table for each estimate, and the notes."""
    lines = _head(series)
    for name in series.columns():
        rows = list(_rows(series, name, _bar_width(series, name)))
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines.append("")
        for row in rows:
            time, n, value, interval = (
                cell.ljust(width) if i in (0, 3) else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=False))
            )
            lines.append(f"{time}  {n}  {value}  {interval}  {row.bar}".rstrip())
    if any(0 < point.n < FEW for point in series.points):
        lines.append(f"* fewer than {FEW} reports")
    return "\n".join([*lines, *(f"note: {note}" for note in _notes(series))])


def as_html(series: Series) -> str:
    """Return the head and a table for each estimate."""
    parts = [f"<p>{'<br>'.join(escape(line) for line in _head(series))}</p>"]
    for name in series.columns():
        head, *rows = _rows(series, name, 2 * _LEAST_BAR)
        cells = [f"<th style='text-align:left'>{escape(cell)}</th>" for cell in head[:4]]
        bar = "<t{0} style='font-family:monospace;white-space:pre'>{1}</t{0}>"
        body = ""
        for row in rows:
            plain = "".join(f"<td>{escape(cell)}</td>" for cell in row[:4])
            body += f"<tr>{plain}{bar.format('d', escape(row.bar))}</tr>"
        parts.append(
            f"<table><thead><tr>{''.join(cells)}{bar.format('h', escape(head.bar))}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )
    return "".join([*parts, *(f"<p>{escape(note)}</p>" for note in _notes(series))])


def _head(series: Series) -> list[str]:
    loss = f"epsilon {series.epsilon:g}" + (f", delta {series.delta:.3g}" if series.delta else "")
    filled = sum(point.n > 0 for point in series.points)
    of = "all points together" if series.simultaneous else "each point by itself"
    length = _duration(series.points[0].end - series.points[0].start)
    lines = [
        f"{series.task}: {series.n:,} reports at {loss}, values in {series.domain}",
        f"{filled} of {len(series.points)} points with reports, {length} each, in UTC",
        f"intervals at level {series.level:g} of {of}, for",
        series.target,
    ]
    if series.change is not None:
        lines.append(series.change.words(series.level))
    return lines


def _duration(time: timedelta) -> str:
    for unit, seconds in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        number, rest = divmod(int(time.total_seconds()), seconds)
        if not rest:
            return f"{number} {unit}{'s' * (number != 1)}"
    return f"{time.total_seconds():g} seconds"


def _times(series: Series) -> list[str]:
    """Return when the points start: dates, with the time where one is not at midnight."""
    starts = [point.start for point in series.points]
    format_ = "%Y-%m-%d %H:%M:%S"
    for shorter, unit in (("%Y-%m-%d %H:%M", 60), ("%Y-%m-%d", 86_400)):
        if all(start.timestamp() % unit == 0 for start in starts):
            format_ = shorter
    return [f"{start:{format_}}" for start in starts]


def _rows(series: Series, name: str, bar: int) -> Iterator[_Row]:
    """Yield the heading and a row for each point; successive points without reports share one."""
    numbers = series.numbers(name)
    low, high = shown_range(series, numbers)
    ends = written(low, high, digits=4)
    yield _Row("", "reports", name, "interval", f"{ends[0]} {ends[1]:>{max(bar - len(ends[0]) - 1, 1)}}")
    times = _times(series)
    gap = 0
    for place, (point, value) in enumerate(zip(series.points, series.columns()[name], strict=True)):
        if value is None:
            if place + 1 < len(series.points) and series.points[place + 1].n == 0:
                gap += 1
                continue
            yield _Row(times[place - gap], "0", "", f"{gap + 1} points" if gap else "", "")
            gap = 0
            continue
        few = "*" if point.n < FEW else ""
        yield _Row(
            times[place],
            f"{few}{point.n:,}",
            value.written()[0],
            _interval(value),
            _bar(numbers[place], low, high, bar) or _NOT_DETERMINED * (value.value is not None),
        )


def _interval(value: Value) -> str:
    _, low, high = value.written()
    return f"[{low}, {high}]" if low else ""


def _bar_width(series: Series, name: str) -> int:
    """Return what the other columns leave of the line."""
    values = [value for value in series.columns()[name] if value is not None]
    points = [len(value.written()[0]) for value in values]
    taken = max(len(time) for time in _times(series))
    taken += max(len("reports"), *(len(f"*{point.n:,}") for point in series.points))
    taken += max([len(name), *points]) + max(len("interval"), *(len(_interval(value)) for value in values))
    return max(_WIDTH - taken - 8, _LEAST_BAR)


def shown_range(series: Series, numbers: FloatArray) -> tuple[float, float]:
    """Return the range of values that a picture of a series shows, low < high.

    It holds the values of all points with at least 30 reports, where there are any, and most of their
    intervals: a point of few reports may have an interval that would leave no room for the others.

    Parameters
    ----------
    series
        Whose points are shown.
    numbers
        Shape (P, 3): value, low and high, of `Series.numbers`.
    """
    numbers = numbers.clip(-_HUGE, _HUGE)
    middle = np.where(np.isnan(numbers[:, 0]), numbers[:, 1:].mean(axis=1), numbers[:, 0])
    known = ~np.isnan(middle)
    enough = known & (np.array([point.n for point in series.points]) >= FEW)
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
    return ends if ends[0] < ends[1] else (ends[0] - 0.5, ends[0] + 0.5)


def _bar(numbers: FloatArray, low: float, high: float, width: int) -> str:
    """Return an interval as a line of text; < and > where it reaches beyond the range that is shown."""
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


def _notes(series: Series) -> list[str]:
    """Return what the points' notes say, once each, with how many points say so."""
    rows = [point.values().values() for point in series.points if point.n]
    # A note may have several parts; a point says each of them once, whichever of its values has it.
    said = [{part: None for value in row for part in value.note.split("; ") if part} for row in rows]
    found = Counter(part for parts in said for part in parts)
    filled = len(rows)
    told = [
        f"{note} ({count} of {filled} points)" if count < filled else note for note, count in found.items()
    ]
    more = [f"{len(told) - _MOST_NOTES} more in to_dict()"] if len(told) > _MOST_NOTES else []
    return [*told[:_MOST_NOTES], *more]
