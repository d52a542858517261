"""Pictures of results, whichever they are: on a figure of their own, on given axes, several in one figure."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from arcwise.analysis.charts.comparisons import comparison_title
from arcwise.analysis.charts.estimates import estimate_title
from arcwise.analysis.charts.series import series_title
from arcwise.analysis.estimators.comparison import Comparison
from arcwise.analysis.plotting.comparisons import (
    COMPARISON_SIZE,
    comparison_parts,
    draw_comparison,
)
from arcwise.analysis.plotting.estimates import (
    draw_estimate,
    estimate_parts,
    estimate_size,
)
from arcwise.analysis.plotting.series import draw_series, series_parts, series_size
from arcwise.analysis.plotting.style import lines, new_figure, styled
from arcwise.analysis.timeseries.result import Series
from arcwise.checks import checked_real
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from arcwise.analysis.estimators.result import Estimate
    from arcwise.analysis.plotting.figure import Picture

Drawing: TypeAlias = "Estimate | Series | Comparison"
"""What can draw itself."""

_NARROW = 6.0
"""Inches below which what stands side by side stands one below the other."""


class _Plan(NamedTuple):
    """The way to draw a result.

    The size is in inches. Each of the `parts` is drawn onto axes of its own; `draw` draws them all onto an
    empty figure, and `narrow` one below the other.
    """

    title: str
    size: tuple[float, float]
    parts: Sequence[Callable[[Axes], None]]
    draw: Callable[[Figure | SubFigure], None]
    narrow: Callable[[Figure | SubFigure], None]


def _plan(drawn: Any, width: float | None = None) -> _Plan:
    if isinstance(drawn, Series):
        draw = partial(draw_series, series=drawn)
        wide, high = series_size(drawn)
        return _Plan(series_title(drawn), (width or wide, high), series_parts(drawn), draw, draw)
    if isinstance(drawn, Comparison):
        one = partial(draw_comparison, comparison=drawn)
        parts, title = comparison_parts(drawn), comparison_title(drawn)
        wide, high = COMPARISON_SIZE
        return _Plan(title, (width or wide, high), parts, one, partial(one, stacked=True))
    each = partial(draw_estimate, estimate=drawn)
    title, size = estimate_title(drawn), estimate_size(drawn, width)
    return _Plan(title, size, estimate_parts(drawn), each, partial(each, stacked=True))


def picture(drawn: Any, *, ax: Any = None, width: float | None = None) -> Any:
    """Return a figure of the picture, or `ax`, onto which its parts were drawn: see `Shown.plot`."""
    width = None if width is None else checked_real("width", width, above=0)
    plan = _plan(drawn, width)
    if ax is None:
        wide, high = plan.size
        narrow = wide < _NARROW and plan.narrow is not plan.draw and len(plan.parts) > 1
        with new_figure((wide, high * 0.9 * len(plan.parts) if narrow else high)) as figure:
            (plan.narrow if narrow else plan.draw)(figure)
        return figure
    axes = list(np.ravel(ax))
    if len(axes) > len(plan.parts):
        raise ParameterError(f"ax must be at most {len(plan.parts)} axes for this picture, got {len(axes)}")
    with styled():
        for part, each in zip(plan.parts, axes, strict=False):
            part(each)
        figure = axes[0].figure
        axes[0].set_title(lines(plan.title, axes[0].bbox.width / figure.dpi))
    return ax


def plot_rows(drawn: Sequence[Drawing]) -> Picture:
    """Return a figure of pictures one below the other, each as its own `plot` draws it."""
    if len(drawn) == 1:
        return drawn[0].plot()
    plans = [_plan(each) for each in drawn]
    heights = [plan.size[1] for plan in plans]
    with new_figure((max(plan.size[0] for plan in plans), sum(heights))) as figure:
        rows: Any = figure.subfigures(len(drawn), 1, height_ratios=heights)
        for row, plan in zip(rows, plans, strict=True):
            plan.draw(row)
    return figure
