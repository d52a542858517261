"""The demo's pictures: a density on an interval, a rose on a circle, truth and estimate in one."""

from __future__ import annotations

import io
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.domains import Circle
from arcwise.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from arcwise.server.cli.demo.truth import Result

__all__ = ["svg"]

_INK, _ACCENT, _GRID = "#22313f", "#2a9d8f", "#d9dee3"
_STYLE = {
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
    circular = isinstance(result.column.task.domain, Circle)
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
    width = np.diff(result.edges)
    axes.stairs(
        result.estimated / width,
        result.edges,
        fill=True,
        color=_ACCENT,
        alpha=0.45,
        label="estimated from reports",
    )
    axes.stairs(
        result.true / width, result.edges, color=_INK, linewidth=1.4, label="true, known to devices only"
    )
    mean = result.lines[0]
    axes.axvspan(mean.low, mean.high, color="#e76f51", alpha=0.35, linewidth=0)
    axes.axvline(mean.value, color="#e76f51", linewidth=1.2, label="estimated mean, 95 % interval")
    axes.set_xlabel(f"{result.column.title.lower()} ({result.column.unit})")
    axes.set_ylabel(f"density per {result.column.unit}")
    axes.set_xlim(result.edges[0], result.edges[-1])
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(frameon=False)


def _rose(figure: Figure, result: Result) -> None:
    axes: Any = figure.add_subplot(projection="polar")
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    domain = result.column.task.domain
    turn = 2 * np.pi / domain.length
    angles = result.edges * turn
    # The radius is the root of the density, so that areas, which the eye compares, are probabilities.
    estimated, true = (_radius(p, result.edges, domain.length) for p in (result.estimated, result.true))
    axes.bar(angles[:-1], estimated, np.diff(angles), align="edge", color=_ACCENT, alpha=0.45, linewidth=0)
    outline = np.append(np.repeat(true, 2), true[0])
    axes.plot(np.append(np.repeat(angles, 2)[1:-1], angles[-1]), outline, color=_INK, linewidth=1.2)
    mean = result.lines[0]
    top = float(max(estimated.max(), true.max())) * 1.08
    arc = np.linspace(mean.low, mean.high, 64) * turn
    axes.fill_between(arc, 0, top, color="#e76f51", alpha=0.35, linewidth=0)
    axes.plot([mean.value * turn] * 2, [0, top], color="#e76f51", linewidth=1.6)
    axes.set_ylim(0, top)
    axes.set_yticklabels([])
    ticks = np.linspace(0, domain.length, 8, endpoint=False)
    axes.set_xticks(ticks * turn, [f"{tick:g} {result.column.unit}" for tick in ticks])
    axes.grid(color=_GRID, linewidth=0.6)
    axes.spines["polar"].set_visible(False)


def _radius(
    probabilities: NDArray[np.float64], edges: NDArray[np.float64], length: float
) -> NDArray[np.float64]:
    density = probabilities / np.diff(edges) * length
    radius: NDArray[np.float64] = np.sqrt(density)
    return radius
