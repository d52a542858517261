"""The demo's pictures: a density on an interval, a rose on a circle, truth and estimate in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.analysis.plotting.circles import as_circle
from arcwise.analysis.plotting.style import COLOURS, INK, finish, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from arcwise.cli.demo.truth import Result

__all__ = ["svg"]

_FIT, _MEAN = COLOURS[:2]


def svg(result: Result) -> str:
    """Return the picture of one result as an SVG element.

    Raises
    ------
    MissingExtraError
        When matplotlib is not installed.
    """
    circular = result.column.task.domain.circular
    with new_figure((5.2, 5.2) if circular else (10.8, 4.2)) as figure:
        if circular:
            _rose(figure.add_subplot(projection="polar"), result)
        else:
            _density(figure.add_subplot(), result)
    return figure._repr_svg_()


def _density(axes: Axes, result: Result) -> None:
    bins, unit = result.column.bins, result.column.unit
    axes.stairs(result.estimated / np.diff(bins), bins, fill=True, color=_FIT, alpha=0.45)
    axes.stairs(result.true / np.diff(bins), bins, color=INK, linewidth=1.4)
    mean = result.lines[0]
    axes.axvspan(mean.low, mean.high, color=_MEAN, alpha=0.35, linewidth=0)
    axes.axvline(mean.value, color=_MEAN, linewidth=1.2)
    axes.set_xlim(bins[0], bins[-1])
    axes.set_ylim(bottom=0)
    finish(axes, x=f"{result.column.title.lower()} ({unit})", y=f"density per {unit}")


def _rose(axes: Any, result: Result) -> None:
    length = result.column.task.domain.length
    turn = 2 * np.pi / length
    angles = result.column.bins * turn
    # The radius is the root of the density, so that areas, which the eye compares, are probabilities.
    estimated, true = (
        np.sqrt(probabilities / np.diff(angles)) for probabilities in (result.estimated, result.true)
    )
    axes.bar(angles[:-1], estimated, np.diff(angles), align="edge", color=_FIT, alpha=0.45, linewidth=0)
    outline = np.append(np.repeat(true, 2), true[0])
    axes.plot(np.append(np.repeat(angles, 2)[1:-1], angles[-1]), outline, color=INK, linewidth=1.4)
    mean = result.lines[0]
    top = float(max(estimated.max(), true.max())) * 1.1
    arc = np.linspace(*mean.ends, 64) * turn
    axes.fill_between(arc, 0, top, color=_MEAN, alpha=0.35, linewidth=0)
    axes.plot([mean.value * turn] * 2, [0, top], color=_MEAN, linewidth=1.6)
    axes.set_ylim(0, top)
    as_circle(axes, length, result.column.unit)
