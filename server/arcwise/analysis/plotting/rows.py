"""Several pictures in one figure, a row for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from arcwise.analysis.estimators.comparison import Comparison
from arcwise.analysis.plotting.comparisons import COMPARISON_SIZE, draw_comparison
from arcwise.analysis.plotting.estimates import SIZES, draw_estimate
from arcwise.analysis.plotting.series import draw_series, series_size
from arcwise.analysis.plotting.style import new_figure
from arcwise.analysis.timeseries.result import Series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from arcwise.analysis.estimators.result import Estimate

__all__ = ["Drawing", "plot_rows"]

Drawing: TypeAlias = "Estimate | Series | Comparison"
"""What can draw itself."""


def plot_rows(drawn: Sequence[Drawing]) -> Figure:
    """Return a figure of pictures one below the other, each as its own `plot` draws it.

    Raises
    ------
    MissingExtraError
        When matplotlib is not installed: the extra is `plots`.
    """
    if len(drawn) == 1:
        return drawn[0].plot()
    sizes = [_size(each) for each in drawn]
    heights = [height for _, height in sizes]
    with new_figure((max(width for width, _ in sizes), sum(heights))) as figure:
        rows: Any = figure.subfigures(len(drawn), 1, height_ratios=heights)
        for row, each in zip(rows, drawn, strict=True):
            if isinstance(each, Series):
                draw_series(row, each)
            elif isinstance(each, Comparison):
                draw_comparison(row, each)
            else:
                draw_estimate(row, each)
    return figure


def _size(drawn: Drawing) -> tuple[float, float]:
    if isinstance(drawn, Series):
        return series_size(drawn)
    if isinstance(drawn, Comparison):
        return COMPARISON_SIZE
    return SIZES["interval" if drawn.resultant_length is None else "circle"]
