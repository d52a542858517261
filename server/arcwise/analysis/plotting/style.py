"""The style of all pictures, in documentation, notebooks and the demo."""

from __future__ import annotations

from contextlib import contextmanager
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from arcwise.analysis.charts.look import COLOURS, FONT, GRID, INK
from arcwise.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes

    from arcwise.analysis.plotting.figure import Picture

PICTURES = (".png", ".svg", ".pdf")
"""The file formats of pictures, by suffix."""

DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (4, 1.5, 1, 1.5)))
"""Line styles, so that a grey print is readable, too."""

_STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": [FONT[1]],  # included in matplotlib, so pictures are the same everywhere
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": True,  # the legend may cover marks, which show through a little
    "legend.framealpha": 0.8,
    "legend.edgecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.linewidth": 0.7,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "svg.hashsalt": "arcwise",  # the same numbers give the same bytes
    "savefig.dpi": 150,
}


@contextmanager
def styled() -> Iterator[dict[str, Any]]:
    """Set the style of all pictures in the block, and yield its settings of matplotlib."""
    try:
        import matplotlib as mpl
        from cycler import cycler
    except ImportError as error:
        raise MissingExtraError("pictures need matplotlib: pip install 'arcwise[plots]'") from error
    style = {**_STYLE, "axes.prop_cycle": cycler(color=list(COLOURS))}
    with mpl.rc_context(style):
        yield style


@contextmanager
def new_figure(size: tuple[float, float]) -> Iterator[Picture]:
    """Yield an empty figure of this size in inches, in the style of all pictures."""
    with styled() as style:
        from arcwise.analysis.plotting.figure import Picture

        yield Picture(figsize=size, layout="constrained", style=style)


def lines(text: str, width: float) -> str:
    """Return a text from outside as a title of this width in inches, in as many lines as it needs."""
    from matplotlib.textpath import TextPath

    for letters in _LETTERS:
        title = [literal(line) for line in wrap(text, max(int(letters * width), 8))]
        if all(TextPath((0, 0), line, size=10.0).get_extents().width <= 72.0 * width for line in title):
            break
    return "\n".join(title)


_LETTERS = (14.0, 12.0, 10.0, 8.0, 7.0)
"""Letters of a title per inch: most texts fit with the first number, and capitals with the last."""


def finish(axes: Axes, *, x: str, y: str, title: str = "", legend: bool = True) -> None:
    """Label axes; the legend appears only if a line has a label."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if title:
        axes.set_title(title)
    handles: Sequence[Any] = axes.get_legend_handles_labels()[0]
    if legend and handles:
        axes.legend()


def literal(text: str) -> str:
    """Return a text from outside, such as a task's name, escaped so that matplotlib sees no formula."""
    return text.replace("$", r"\$")


def plain_log(axes: Axes, which: str) -> None:
    """Make the "x" or "y" axis logarithmic, with as many plainly written numbers as fit."""
    from matplotlib.ticker import NullFormatter

    from arcwise.analysis.plotting.figure import RoomyLogLocator

    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(RoomyLogLocator())
    axis.set_major_formatter(_plain_number)
    axis.set_minor_formatter(NullFormatter())


def _plain_number(value: float, _position: float) -> str:
    """Write a number in plain digits, or as a power of ten if it has many."""
    if 1e-4 <= value < 1e6:
        return f"{value:g}"
    mantissa, exponent = f"{value:e}".split("e")
    factor = "" if float(mantissa) == 1.0 else rf"{float(mantissa):g} \times "
    return f"${factor}10^{{{int(exponent)}}}$"
