"""The picture of a comparison: differences with their intervals, and a line where there is none."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.charts.comparisons import comparison_title
from arcwise.analysis.charts.look import COLOURS
from arcwise.analysis.plotting.style import entitle, finish, literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from arcwise.analysis.estimators.comparison import Comparison
    from arcwise.analysis.estimators.result import Value
    from arcwise.typing import FloatArray

COMPARISON_SIZE = (8.6, 3.6)
"""Width and height in inches."""


def draw_comparison(figure: Figure | SubFigure, comparison: Comparison, *, stacked: bool = False) -> None:
    """Draw a comparison onto an empty figure: its `comparison_parts`, `stacked` one below the other."""
    entitle(figure, comparison_title(comparison))
    parts = comparison_parts(comparison)
    shape = (len(parts), 1) if stacked else (1, len(parts))
    for part, axes in zip(parts, figure.subplots(*shape, squeeze=False).flat, strict=True):
        part(axes)


def comparison_parts(comparison: Comparison) -> list[Callable[[Axes], None]]:
    """Return what draws the parts of the picture, each onto axes of its own.

    The differences of mean or direction and of quantiles, in the unit of the domain; and those of the
    distribution functions, or of the bins, or of the shares, where there are any.
    """
    shares = comparison.cdf or comparison.bins or comparison.shares
    return [partial(part, comparison=comparison) for part in (_places, *([_shares] if shares else []))]


def _places(axes: Axes, *, comparison: Comparison) -> None:
    places = {name: value for name in ("mean", "direction") if (value := getattr(comparison, name))}
    places |= {f"quantile {tau}": value for tau, value in comparison.quantiles.items()}
    _bars(axes, list(places), list(places.values()))
    finish(axes, x=literal(f"difference{_unit(comparison)}, {100 * comparison.level:g} % intervals"), y="")


def _shares(axes: Axes, *, comparison: Comparison) -> None:
    level = f"{100 * comparison.level:g} %"
    shares = comparison.cdf or comparison.bins or comparison.shares
    if comparison.cdf:
        _points(axes, [float(place) for place in shares], list(shares.values()))
        x, y = f"value{_unit(comparison)}", f"difference of F, {level} all at once"
    else:
        _bars(axes, [name.replace(":", " to ") for name in shares], list(shares.values()))
        x, y = f"difference of shares, {level} each", ""
    finish(axes, x=literal(x), y=y)


def _unit(comparison: Comparison) -> str:
    return f" ({comparison.unit})" if comparison.unit else ""


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
