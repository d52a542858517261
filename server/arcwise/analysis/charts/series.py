"""The charts of a time series: the intervals of each estimate over time, with directions unwrapped."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from arcwise.analysis.charts.model import Axis, Chart, Layer, heading, row, zones
from arcwise.analysis.timeseries.epochs import utc
from arcwise.analysis.timeseries.result import shown_range
from arcwise.digits import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.analysis.timeseries.result import Series

_ZONES = 120
"""Most parts that show values under the pointer; if there are more points, they share parts."""


def series_charts(series: Series) -> list[Chart]:
    """Return a chart for each estimate of a series."""
    return [_chart(series, name) for name in series.columns()]


def _chart(series: Series, name: str) -> Chart:
    level = f"{100 * series.level:g} %" + (" for all points together" if series.simultaneous else "")
    times = [(point.start.timestamp(), point.until.timestamp()) for point in series.points]
    values, numbers = series.columns()[name], series.numbers(name)
    bottom, top = shown_range(series, numbers)
    margin = 0.08 * (top - bottom)
    bottom, top = bottom - margin, top + margin
    rows = [(*time, *row) for time, row in zip(times, numbers.tolist(), strict=True)]
    lost = [
        time
        for time, value, row in zip(times, values, numbers.tolist(), strict=True)
        if value is not None and all(map(math.isnan, row))
    ]
    layers = (
        Layer("spans", "none", tuple(lost), "undetermined" if lost else ""),
        Layer(
            "ribbon",
            "fit",
            tuple((x0, x1, low, high) for x0, x1, _, low, high in rows),
            f"interval, {level}",
        ),
        Layer("dashes", "fit", tuple((x0, x1, y) for x0, x1, y, *_ in rows if not math.isnan(y)), name),
        zones(((x0, x1, bottom, top), text) for x0, x1, text in _zones(series, name)),
    )
    unit = "" if _plain(series, name) else f" ({series.unit})"
    start, end = (utc(each) for each in (series.points[0].start, max(point.until for point in series.points)))
    filled = [(time, value) for time, value in zip(series.times(), values, strict=True) if value is not None]
    said = "; ".join(f"{name} {value} from {time} on" for time, value in (filled[:1] + filled[1:][-1:]))
    change = "" if series.change is None else series.change.words(series.level)
    return Chart(
        "series",
        heading(series),
        f"{name} over time".capitalize(),
        f"{name.capitalize()}{unit} at {counted(len(series.points), 'point')} in time from {start} to {end}, "
        f"{len(series.points) - len(filled)} of them without reports{'. ' if said else ''}{said}.",
        _table(series, name, level),
        Axis(f"{start} to {end}, in UTC", times[0][0], max(end for _, end in times), "time"),
        Axis(f"{name}{unit}", bottom, top, period=series.period if series.wraps(name) else None),
        layers,
        change[:1].upper() + change[1:],
    )


def _zones(series: Series, name: str) -> Iterator[tuple[float, float, str]]:
    rows = zip(series.points, series.columns()[name], _times(series), strict=True)
    shown, end = [], series.points[0].start
    for each in rows:  # without the gaps within a block of points
        if each[0].n or each[0].start >= end:
            shown.append(each)
        end = max(end, each[0].until)
    points, values, times = zip(*shown, strict=True)
    every = -(-len(points) // _ZONES)
    for first in range(0, len(points), every):
        group = points[first : first + every]
        told = [value for value in values[first : first + every] if value is not None]
        text = f"{times[first]}, {counted(sum(point.n for point in group), 'report')}"
        if len(group) > 1:
            text = f"{counted(len(group), 'point')} from {text}"
        if told:
            unit = "" if _plain(series, name) else f" {series.unit}"
            text += f": {name} {told[0]}{unit}" + (f" to {told[-1]}" if len(told) > 1 else "")
        yield group[0].start.timestamp(), group[-1].until.timestamp(), text


def _times(series: Series) -> list[str]:
    """Return the start of each point; if a point represents a longer block, also the end of the block."""
    return [
        time if point.until == point.end else f"{time} to {utc(point.until)}"
        for time, point in zip(series.times(), series.points, strict=True)
    ]


def _plain(series: Series, name: str) -> bool:
    """Return whether an estimate is shown without a unit, as shares and resultant lengths are."""
    return not series.unit or name.startswith(("resultant length", "share"))


def _table(series: Series, name: str, level: str) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    rows = zip(_times(series), series.points, series.columns()[name], strict=True)
    header = "from (UTC)", "reports", name, f"interval, {level}"
    return header, tuple(
        (time, f"{point.n:,}", *(("", "") if value is None else row(name, value)[1:]))
        for time, point, value in rows
    )
