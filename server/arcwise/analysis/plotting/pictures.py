"""Results drawn with matplotlib: on a new figure, on given axes, or several results in one figure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from arcwise.analysis.charts import Axis, Chart, charts_of
from arcwise.analysis.charts.comparisons import comparison_title
from arcwise.analysis.charts.look import ROLES
from arcwise.analysis.estimators.comparison import Comparison
from arcwise.analysis.estimators.result import Estimate
from arcwise.analysis.plotting.style import lines, literal, new_figure, styled
from arcwise.checks import checked_real
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure, SubFigure

    from arcwise.analysis.charts import Layer
    from arcwise.analysis.plotting.figure import Picture
    from arcwise.analysis.timeseries.result import Series
    from arcwise.typing import FloatArray

Drawing: TypeAlias = "Estimate | Series | Comparison"
"""Results that can be drawn."""

_NARROW = 6.0
"""Width in inches below which parts are drawn below each other, not side by side."""
_BELOW = 52.0
"""Distance in points from a rose to its legend, which is below the rose and its label and covers nothing."""


def picture(drawn: Any, *, ax: Any = None, width: float | None = None) -> Any:
    """Return a new figure of the picture, or `ax` after drawing its parts onto it: see `Shown.plot`."""
    width = None if width is None else checked_real("width", width, above=0)
    charts = _parts(drawn)
    if ax is None:
        wide, high = _size(charts, width)
        narrow = wide < _NARROW and charts[0].kind != "series" and len(charts) > 1
        with new_figure((wide, high * 0.9 * len(charts) if narrow else high)) as figure:
            _draw_all(figure, charts, stacked=narrow)
        return figure
    axes = list(np.ravel(ax))
    if len(axes) > len(charts):
        raise ParameterError(f"ax must be at most {len(charts)} axes for this picture, got {len(axes)}")
    with styled():
        for chart, each in zip(charts, axes, strict=False):
            draw_chart(each, chart)
        axes[0].set_title(lines(charts[0].heading, axes[0].bbox.width / axes[0].figure.dpi))
    return ax


def plot_rows(drawn: Sequence[Drawing]) -> Picture:
    """Return a figure of pictures below each other, each drawn like its own `plot`."""
    if len(drawn) == 1:
        return drawn[0].plot()
    parts = [_parts(each) for each in drawn]
    sizes = [_size(charts) for charts in parts]
    heights = [high for _, high in sizes]
    with new_figure((max(wide for wide, _ in sizes), sum(heights))) as figure:
        rows: Any = figure.subfigures(len(drawn), 1, height_ratios=heights)
        for row, charts in zip(rows, parts, strict=True):
            _draw_all(row, charts)
    return figure


def draw(figure: Figure | SubFigure, drawn: Drawing) -> None:
    """Draw a result onto an empty figure."""
    _draw_all(figure, _parts(drawn))


def _parts(drawn: Drawing) -> list[Chart]:
    """Return the charts of a picture; for a comparison at most two: the first, and the last of shares."""
    charts = charts_of(drawn)
    if isinstance(drawn, Comparison):
        shares = drawn.cdf or drawn.bins or drawn.shares
        empty = Chart(
            "differences", comparison_title(drawn), "", "", ((), ()), Axis("", -1, 1), Axis("", 0, 1), ()
        )
        return [*(charts[:1] or [empty]), *(charts[1:][-1:] if shares else [])]
    if not charts:
        lacking = "a distribution" if isinstance(drawn, Estimate) else "values"
        raise ParameterError(
            f"{type(drawn).__name__.lower()} must have {lacking} to be drawn, got one without"
        )
    if charts[0].polar and drawn.unit is not None:  # a rose has no other place for the unit
        x = charts[0].x
        label = f"value in {drawn.domain_words}\n{x.label}"
        return [replace(charts[0], x=replace(x, label=label))]
    return charts


def _size(charts: Sequence[Chart], width: float | None = None) -> tuple[float, float]:
    """Return width and height in inches of a picture with only these charts."""
    if charts[0].polar:
        width = width or 4.8
        return width, width + 1.6  # the title, the label and the legend
    return width or 8.6, {"series": 0.9 + 2.3 * len(charts), "differences": 3.6}.get(charts[0].kind, 3.8)


def _draw_all(figure: Figure | SubFigure, charts: Sequence[Chart], *, stacked: bool = False) -> None:
    """Draw the charts of one picture onto an empty figure."""
    figure.suptitle(lines(charts[0].heading, figure.bbox.width / figure.dpi), fontsize=10)
    over_time = charts[0].kind == "series"
    shape = (len(charts), 1) if stacked or over_time else (1, len(charts))
    polar = {"projection": "polar"} if charts[0].polar else {}
    grid: Any = figure.subplots(*shape, sharex=over_time, squeeze=False, subplot_kw=polar)
    for chart, axes in zip(charts, grid.flat, strict=True):
        draw_chart(axes, chart)
        if over_time:
            axes.label_outer()
        if polar:  # a legend of the figure has its own room, and covers nothing
            axes.get_legend().remove()
            figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center")


def draw_chart(axes: Any, chart: Chart) -> None:
    """Draw the layers, labels and legend of a chart onto axes, which must be polar for a rose."""
    if chart.polar and axes.name != "polar":
        raise ParameterError(
            "ax must be polar for a circle: plt.subplots(subplot_kw={'projection': 'polar'}); "
            f"got {axes.name} axes"
        )
    for layer in chart.layers:
        if layer.points and layer.shape != "zones":
            _draw_layer(axes, chart, layer)
    axes.set_xlim(*_along(chart, np.array([chart.x.low, chart.x.high])))
    axes.set_ylim(*_up(chart, np.array([chart.y.low, chart.y.high])))
    names = [layer.name for layer in chart.layers if layer.name]
    # A legend of one entry would only cover marks; an axis says that the values are differences.
    alone = [] if len(names) > 1 or chart.polar else [each.removeprefix("difference, ") for each in names]
    axes.set_xlabel(literal("\n".join([chart.x.label, *alone])))
    axes.set_ylabel(literal(chart.y.label))
    if chart.polar:
        _as_circle(axes, chart)
        return
    if chart.y.kind == "given":
        axes.set_yticks(*_marks(chart.y.marks))
    if (period := chart.y.period) is not None:  # label unwrapped directions as positions on the circle
        axes.yaxis.set_major_formatter(lambda tick, _position: f"{round(tick % period, 9) % period:g}")
    if chart.x.kind == "time":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator()  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    if len(names) > 1:
        axes.legend()


def _as_circle(axes: Any, chart: Chart) -> None:
    """Turn polar axes so that 0 is at the top and values grow clockwise, and label them."""
    from matplotlib.transforms import offset_copy

    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    places, texts = _marks(chart.x.marks)
    axes.set_xticks(_along(chart, np.array(places)), texts)
    axes.set_yticks([])
    below = offset_copy(axes.transAxes, axes.figure, y=-_BELOW, units="points")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), bbox_transform=below)


def _marks(marks: Sequence[tuple[float, str]]) -> tuple[list[float], list[str]]:
    return [at for at, _ in marks], [literal(text) for _, text in marks]


def _along(chart: Chart, x: FloatArray) -> FloatArray:
    """Return places along an axis in matplotlib's units: angles in radians, times in its own days."""
    if chart.x.period is not None:
        return x * (2 * np.pi / chart.x.period)
    if chart.x.kind == "time":
        from matplotlib.dates import date2num

        days: FloatArray = date2num((x * 1e6).astype("datetime64[us]"))  # type: ignore[no-untyped-call]
        return days
    return x


def _up(chart: Chart, y: FloatArray) -> FloatArray:
    """Return heights; in a rose the root, so that areas, which readers compare, are probabilities."""
    return np.sqrt(y) if chart.polar else y


def _draw_layer(axes: Any, chart: Chart, layer: Layer) -> None:
    rows = np.array(layer.points).T
    bottom, top = _up(chart, np.array([chart.y.low, chart.y.high]))
    style: dict[str, Any] = {"color": ROLES[layer.role], "label": literal(layer.name)}
    area = style | {"alpha": 0.3, "linewidth": 0}
    if layer.shape in {"cells", "ribbon", "spans", "whiskers", "dashes"}:
        x0, x1 = _along(chart, rows[:2])
        if layer.shape == "ribbon":  # both ends of each part, so a part between two gaps keeps its width
            axes.fill_between(
                np.stack([x0, x1], 1).ravel(), *np.repeat(_up(chart, rows[2:]), 2, axis=1), **area
            )
        elif layer.shape == "spans":
            axes.bar(x0, top - bottom, x1 - x0, bottom, align="edge", **area)
        elif layer.shape == "dashes":
            axes.hlines(rows[2], x0, x1, linewidth=1.4, **style)
        elif layer.shape == "whiskers":
            at, low, high = _up(chart, rows[2:])
            axes.vlines((x0 + x1) / 2, low, high, **style)
            known = ~np.isnan(at)
            axes.hlines(at[known], x0[known], x1[known], color=style["color"])
        elif chart.polar:
            axes.bar(x0, _up(chart, rows[2]), x1 - x0, align="edge", **area | {"alpha": 0.45})
        else:
            axes.stairs(rows[2], np.append(x0, x1[-1]), fill=True, **style, alpha=0.45)
    elif layer.shape == "ranges":
        at, value, low, high = rows
        axes.hlines(at, low, high, linewidth=2.0, **style)
        axes.plot(value, at, "o", color=ROLES["mark"])
    elif layer.shape == "rules":
        axes.vlines(_along(chart, rows[0]), bottom, top, linewidth=1.0, **style)
    elif layer.shape == "levels":
        axes.hlines(rows[0], chart.x.low, chart.x.high, linewidth=0.8, **style)
    else:
        axes.plot(*rows, **style)
