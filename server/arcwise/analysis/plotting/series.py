"""The picture of a time series of estimates: intervals as a band over time, directions across the wrap."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.analysis.charts.look import COLOURS
from arcwise.analysis.charts.series import series_title
from arcwise.analysis.plotting.style import entitle, finish, literal
from arcwise.analysis.timeseries.result import shown_range

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from arcwise.analysis.timeseries.result import Series

_COLOUR = COLOURS[0]
_UNKNOWN = "#d9dde1"


def series_size(series: Series) -> tuple[float, float]:
    """Return width and height in inches of the picture of a series."""
    return 8.6, 0.9 + 2.3 * len(series.columns())


def draw_series(figure: Figure | SubFigure, series: Series) -> None:
    """Draw a series onto an empty figure, one row of axes for each estimate.

    A point is as wide as its epochs and as high as its interval; where no reports came there is nothing, and
    where they do not determine a direction, a grey column.
    """
    entitle(figure, series_title(series))
    parts = series_parts(series)
    rows: Any = figure.subplots(len(parts), 1, sharex=True, squeeze=False)
    for part, axes in zip(parts, rows[:, 0], strict=True):
        part(axes)
        axes.label_outer()


def series_parts(series: Series) -> list[Callable[[Axes], None]]:
    """Return what draws each estimate over time, each onto axes of its own."""
    return [partial(_draw, series=series, name=name) for name in series.columns()]


def _draw(axes: Any, *, series: Series, name: str) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num

    times = [time for point in series.points for time in (point.start, point.until)]
    edges: Any = date2num(times).reshape(-1, 2)  # type: ignore[no-untyped-call]
    numbers = series.numbers(name)
    level = f"{100 * series.level:g} %" + (" for all points together" if series.simultaneous else "")
    # Both ends of every point, so that one between two gaps is as wide as the others.
    ends, low, high = edges.ravel(), np.repeat(numbers[:, 1], 2), np.repeat(numbers[:, 2], 2)
    axes.fill_between(ends, low, high, color=_COLOUR, alpha=0.3, linewidth=0, label=level)
    told = ~np.isnan(numbers[:, 0])
    axes.hlines(numbers[told, 0], *edges[told].T, color=_COLOUR, linewidth=1.4)
    values = series.columns()[name]
    label = "undetermined"
    for place, (row, each) in enumerate(zip(numbers, values, strict=True)):
        if each is not None and np.isnan(row).all():
            axes.axvspan(*edges[place], color=_UNKNOWN, linewidth=0, zorder=0, label=label)
            label = ""
    bottom, top = shown_range(series, numbers)
    margin = 0.08 * (top - bottom)
    axes.set_ylim(bottom - margin, top + margin)
    axes.set_xlim(edges[0, 0], edges.max())
    if series.period is not None and series.wraps(name):
        _modulo(axes, series.period)
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    plain = series.unit is None or name.startswith(("resultant length", "share"))  # neither is a value
    finish(axes, x="time (UTC)", y=name if plain else literal(f"{name} ({series.unit})"))


def _modulo(axes: Axes, period: float) -> None:
    """Label unwrapped directions with what they are on the circle."""
    axes.yaxis.set_major_formatter(lambda tick, _position: f"{round(tick % period, 9) % period:g}")
