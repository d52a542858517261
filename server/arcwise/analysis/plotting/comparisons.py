"""The picture of a comparison: differences with their intervals, and a line where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.plotting.style import COLOURS, finish, literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from arcwise.analysis.estimators.comparison import Comparison
    from arcwise.analysis.estimators.result import Value
    from arcwise.typing import FloatArray

__all__ = ["COMPARISON_SIZE", "draw_comparison"]

COMPARISON_SIZE = (8.6, 3.6)
"""Width and height in inches."""


def draw_comparison(figure: Figure | SubFigure, comparison: Comparison) -> None:
    """Draw a comparison onto an empty figure.

    Parameters
    ----------
    figure
        Empty, for example of `new_figure`.
    comparison
        On the left the differences of mean or direction and of quantiles, in the unit of the domain. On the
        right those of the distribution functions, or of the bins, or of the shares, where there are any.
    """
    title = f"{comparison.other}, less {comparison.task}'s {comparison.n:,} reports"
    figure.suptitle(literal(title), fontsize=10)
    places = {name: value for name in ("mean", "direction") if (value := getattr(comparison, name))}
    places |= {f"quantile {tau}": value for tau, value in comparison.quantiles.items()}
    shares = comparison.cdf or comparison.bins or comparison.shares
    left, *right = figure.subplots(1, 2 if shares else 1, squeeze=False)[0].tolist()
    level = f"{100 * comparison.level:g} %"
    _bars(left, list(places), list(places.values()))
    unit = f" ({comparison.unit})" if comparison.unit else ""
    finish(left, x=literal(f"difference{unit}, {level} intervals"), y="")
    for axes in right:
        if comparison.cdf:
            _points(axes, [float(place) for place in shares], list(shares.values()))
            x, y = f"value{unit}", f"difference of F, {level} all at once"
        else:
            _bars(axes, [name.replace(":", " to ") for name in shares], list(shares.values()))
            x, y = f"difference of shares, {level} each", ""
        finish(axes, x=literal(x), y=y)


def _bars(axes: Axes, names: Sequence[str], values: Sequence[Value]) -> None:
    """Draw a row for each value, the first at the top."""
    rows = np.arange(len(values))[::-1]
    points, low, high = _numbers(values)
    axes.axvline(0.0, color=COLOURS[6], linewidth=0.8)
    axes.hlines(rows, low, high, color=COLOURS[0], linewidth=2.0)
    axes.plot(points, rows, "o", color=COLOURS[1])
    axes.set_yticks(rows, [literal(name) for name in names])


def _points(axes: Axes, at: Sequence[float], values: Sequence[Value]) -> None:
    """Draw a bar above each place."""
    points, low, high = _numbers(values)
    axes.axhline(0.0, color=COLOURS[6], linewidth=0.8)
    axes.vlines(at, low, high, color=COLOURS[0], linewidth=2.0)
    axes.plot(at, points, "o", color=COLOURS[1])


def _numbers(values: Sequence[Value]) -> FloatArray:
    """Return values, low and high ends, shape (3, M), a value that is not known as NaN."""
    return np.array(
        [[getattr(each, name) for each in values] for name in ("value", "low", "high")], np.float64
    )
