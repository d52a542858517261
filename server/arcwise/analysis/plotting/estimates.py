"""The picture of an estimate: density and distribution function on an interval, a rose on a circle.

What has an interval is drawn with it: with ``bands=True`` the distribution function has a band and the bins
have intervals; without, the legend says that there are none.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.analysis.charts.estimates import bin_intervals, estimate_title
from arcwise.analysis.charts.look import COLOURS
from arcwise.analysis.estimators.k_modal import as_drawn
from arcwise.analysis.plotting.circles import as_circle
from arcwise.analysis.plotting.style import entitle, finish, literal
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from arcwise.analysis.estimators.result import Estimate, Value
    from arcwise.typing import FloatArray

_FIT, _MARK = COLOURS[0], COLOURS[1]


def estimate_size(estimate: Estimate, width: float | None = None) -> tuple[float, float]:
    """Return width and height in inches of a picture that holds nothing else."""
    if estimate.resultant_length is None:
        return width or 8.6, 3.8
    width = width or 4.8
    return width, width + 1.6  # the title, the label and the legend


def estimate_parts(estimate: Estimate) -> list[Callable[[Axes], None]]:
    """Return what draws the parts of the picture, each onto axes of its own.

    On an interval the histogram as a density (on a lattice the probability of each value) with the intervals
    of bins and mean, and the distribution function with its band and the quantiles' intervals. On a circle a
    rose whose areas are probabilities, with the intervals of sectors; its axes must be polar.
    """
    level = f"{100 * estimate.level:g} %"
    drawn = [_density, _cumulative] if estimate.resultant_length is None else [_rose]
    return [partial(part, estimate=estimate, level=level) for part in drawn]


def draw_estimate(figure: Figure | SubFigure, estimate: Estimate, *, stacked: bool = False) -> None:
    """Draw an estimate onto an empty figure: its `estimate_parts`, `stacked` one below the other."""
    entitle(figure, estimate_title(estimate))
    parts = estimate_parts(estimate)
    polar = {"projection": "polar"} if len(parts) == 1 else {}
    shape = (len(parts), 1) if stacked else (1, len(parts))
    for part, axes in zip(parts, figure.subplots(*shape, squeeze=False, subplot_kw=polar).flat, strict=True):
        part(axes)
        if polar:  # a figure's own legend has room of its own, and covers nothing
            axes.get_legend().remove()
            figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center")


def _histogram(estimate: Estimate) -> tuple[FloatArray, FloatArray]:
    if estimate.distribution is None:
        raise ParameterError("estimate must have a distribution to be drawn, got one without")
    return np.array(estimate.distribution.edges), np.array(estimate.distribution.probabilities)


def _drawn(estimate: Estimate) -> tuple[FloatArray, FloatArray]:
    """Return the histogram with as many modes as the reports show."""
    edges, _ = _histogram(estimate)
    assert estimate.distribution is not None  # noqa: S101 (it has a histogram)
    return edges, as_drawn(estimate.distribution, circular=estimate.domain.circular)


def _density(axes: Axes, *, estimate: Estimate, level: str) -> None:
    edges, probabilities = _drawn(estimate)
    label = "fit" if estimate.bins else "fit, no band"
    assert estimate.distribution is not None  # noqa: S101 (it has a histogram)
    discrete = estimate.distribution.values is not None
    # On a lattice heights are probabilities of values, of a bin their average.
    width_of_one = edges[1] - edges[0] if discrete else 1.0
    axes.stairs(
        probabilities / np.diff(edges) * width_of_one, edges, fill=True, color=_FIT, alpha=0.45, label=label
    )
    bounds, points, lows, highs = bin_intervals(estimate)
    if len(points):
        width = np.diff(bounds) / width_of_one
        ends = np.stack([points - lows, highs - points]) / width
        middle = (bounds[1:] + bounds[:-1]) / 2
        axes.errorbar(
            middle,
            points / width,
            ends,
            np.diff(bounds) / 2,
            "none",
            ecolor=_FIT,
            label=f"bins, {level} each",
        )
    mean = estimate.mean
    if mean is not None and mean.low is not None and mean.high is not None:
        words = "mean" if mean.value is not None else "possible means"
        axes.axvspan(mean.low, mean.high, color=_MARK, alpha=0.35, linewidth=0, label=f"{words}, {level}")
        if mean.value is not None:
            axes.axvline(mean.value, color=_MARK, linewidth=1.0)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0)
    per = "" if estimate.unit is None else f" per {estimate.unit}"
    finish(
        axes,
        x=literal(f"value in {estimate.domain_words}"),
        y="probability" if discrete else literal(f"density{per}"),
    )


def _cumulative(axes: Axes, *, estimate: Estimate, level: str) -> None:
    edges, probabilities = _histogram(estimate)
    band = estimate.band
    if band is not None:
        knots = np.array([edges[0], *band.at, edges[-1]])
        # Between two places F is at least what it is on the left, and at most what it is on the right.
        low, high = np.array([0.0, *band.low]), np.array([*band.high, 1.0])
        axes.stairs(high, knots, baseline=low, fill=True, color=_FIT, alpha=0.25, label=f"band, {level}")
    label = "fit" if band is not None else "fit, no band"
    assert estimate.distribution is not None  # noqa: S101 (it has a histogram)
    values, total = estimate.distribution.values, np.cumsum(probabilities)
    if values is None:
        axes.plot(edges, np.append(0.0, total), color=_FIT, label=label)
    else:  # it jumps at each value
        steps = np.array([edges[0], *values, edges[-1]])
        axes.plot(steps, [0.0, *total, total[-1]], color=_FIT, drawstyle="steps-post", label=label)
    label = f"quantiles, {level}"
    for name, value in estimate.quantiles.items():
        if value.low is None or value.high is None:
            continue
        axes.plot([value.low, value.high], [float(name)] * 2, color=_MARK, linewidth=2.0, label=label)
        if value.value is not None:
            axes.plot([value.value], [float(name)], "o", color=_MARK)
        label = ""
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, 1)
    finish(axes, x=literal(f"value in {estimate.domain_words}"), y="share of values up to it")


def _rose(axes: Any, *, estimate: Estimate, level: str) -> None:
    from matplotlib.transforms import offset_copy

    if axes.name != "polar":
        raise ParameterError(
            "ax must be polar for a circle: plt.subplots(subplot_kw={'projection': 'polar'}); "
            f"got {axes.name} axes"
        )
    edges, probabilities = _drawn(estimate)
    period = edges[-1] - edges[0]
    turn = 2 * np.pi / period
    # The radius is the root of the density, so that areas, which the eye compares, are probabilities.
    radius = np.sqrt(probabilities / (np.diff(edges) * turn))
    width = np.diff(edges) * turn
    axes.bar(
        edges[:-1] * turn,
        radius,
        width,
        align="edge",
        color=_FIT,
        alpha=0.45,
        linewidth=0,
        label="fit" if estimate.bins else "fit, no band",
    )
    bounds, points, lows, highs = bin_intervals(estimate)
    top = 1.1 * float(radius.max())
    if len(points):
        sector = np.diff(bounds) * turn
        at, low, high = (np.sqrt(shares / sector) for shares in (points, lows, highs))
        middle = (bounds[1:] + bounds[:-1]) / 2 * turn
        axes.errorbar(
            middle, at, [at - low, high - at], fmt="none", ecolor=_FIT, label=f"sectors, {level} each"
        )
        top = max(top, 1.05 * float(high.max()))
    _direction(axes, estimate.direction, turn, top, level)
    axes.set_ylim(0, top)
    as_circle(axes, period, estimate.unit)
    length = estimate.resultant_length
    if length is not None:
        above = "" if estimate.unit is None else f"value in {estimate.domain_words}\n"
        axes.set_xlabel(literal(f"{above}resultant length {length}"))
    below = offset_copy(axes.transAxes, axes.figure, y=-_BELOW, units="points")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), bbox_transform=below)


_BELOW = 52.0
"""Points from a rose to its legend, which stands under it and its label and covers nothing."""


def _direction(axes: Any, direction: Value | None, turn: float, top: float, level: str) -> None:
    ends = None if direction is None else direction.ends()
    if direction is None or ends is None:
        return
    arc = np.linspace(*ends, 128) * turn
    axes.fill_between(arc, 0, top, color=_MARK, alpha=0.25, linewidth=0, label=f"mean direction, {level}")
    if direction.value is not None:
        axes.plot([direction.value * turn] * 2, [0, top], color=_MARK, linewidth=1.4)
