"""The demo's pictures: a density on an interval, a rose on a circle, truth and estimate in one."""

from __future__ import annotations

import io
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

    from arcwise.cli.demo.truth import Result

__all__ = ["svg"]

_INK, _ACCENT, _MEAN, _GRID = "#22313f", "#2a9d8f", "#e76f51", "#d9dee3"
_STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: small, selectable, in the page's font
    "svg.hashsalt": "arcwise",  # the same data give the same bytes
    "font.family": "sans-serif",
    "font.sans-serif": ["system-ui", "Segoe UI", "Helvetica", "Arial", "sans-serif"],
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


def svg(result: Result) -> str:
    """Return the picture of one result as an SVG element.

    Raises
    ------
    MissingExtraError
        When matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("pictures need matplotlib: pip install 'arcwise[demo]'") from error
    circular = result.column.task.domain.circular
    with mpl.rc_context(_STYLE), _quiet_fonts():
        figure = Figure(figsize=(5.2, 5.2) if circular else (10.8, 4.2), layout="constrained")
        (_rose if circular else _density)(figure, result)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


@contextmanager
def _quiet_fonts() -> Iterator[None]:
    # The fonts are the reader's, so it does not matter that this machine lacks them.
    logger = logging.getLogger("matplotlib.font_manager")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _density(figure: Figure, result: Result) -> None:
    axes = figure.add_subplot()
    bins, unit = result.column.bins, result.column.unit
    axes.stairs(result.estimated / np.diff(bins), bins, fill=True, color=_ACCENT, alpha=0.5)
    axes.stairs(result.true / np.diff(bins), bins, color=_INK, linewidth=1.4)
    mean = result.lines[0]
    axes.axvspan(mean.low, mean.high, color=_MEAN, alpha=0.35, linewidth=0)
    axes.axvline(mean.value, color=_MEAN, linewidth=1.2)
    axes.set_xlabel(f"{result.column.title.lower()} ({unit})")
    axes.set_ylabel(f"density per {unit}")
    axes.set_xlim(bins[0], bins[-1])
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def _rose(figure: Figure, result: Result) -> None:
    axes: Any = figure.add_subplot(projection="polar")
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    length = result.column.task.domain.length
    turn = 2 * np.pi / length
    angles = result.column.bins * turn
    # The radius is the root of the density, so that areas, which the eye compares, are probabilities.
    estimated, true = (
        np.sqrt(probabilities / np.diff(angles)) for probabilities in (result.estimated, result.true)
    )
    axes.bar(angles[:-1], estimated, np.diff(angles), align="edge", color=_ACCENT, alpha=0.5, linewidth=0)
    outline = np.append(np.repeat(true, 2), true[0])
    axes.plot(np.append(np.repeat(angles, 2)[1:-1], angles[-1]), outline, color=_INK, linewidth=1.4)
    mean = result.lines[0]
    top = float(max(estimated.max(), true.max())) * 1.1
    arc = np.linspace(mean.low, mean.high, 64) * turn
    axes.fill_between(arc, 0, top, color=_MEAN, alpha=0.35, linewidth=0)
    axes.plot([mean.value * turn] * 2, [0, top], color=_MEAN, linewidth=1.6)
    axes.set_ylim(0, top)
    axes.set_yticks(np.linspace(0, top, 4)[1:-1], [])
    ticks = np.linspace(0, length, 8, endpoint=False)
    axes.set_xticks(ticks * turn, [f"{tick:g} {result.column.unit}" for tick in ticks])
    axes.grid(color=_GRID, linewidth=0.6)
    axes.spines["polar"].set_color(_GRID)
