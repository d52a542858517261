"""Several pictures in one figure, a row for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arcwise.server.plotting.estimates import SIZES, draw_estimate
from arcwise.server.plotting.style import new_figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from arcwise.server.estimators.result import Estimate

__all__ = ["plot_rows"]


def plot_rows(drawn: Sequence[Estimate]) -> Figure:
    """Return a figure of estimates, one below the other, each as its own `plot` draws it.

    Raises
    ------
    MissingExtraError
        When matplotlib is not installed: the extra is `plots`.
    """
    if len(drawn) == 1:
        return drawn[0].plot()
    sizes = [SIZES["interval" if each.resultant_length is None else "circle"] for each in drawn]
    heights = [height for _, height in sizes]
    with new_figure((max(width for width, _ in sizes), sum(heights))) as figure:
        rows: Any = figure.subfigures(len(drawn), 1, height_ratios=heights)
        for row, each in zip(rows, drawn, strict=True):
            draw_estimate(row, each)
    return figure
