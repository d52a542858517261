"""Names that stand beside their lines, in place of a legend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["label_at", "label_end"]


def label_at(axes: Axes, x: float, y: float, text: str, colour: str = "black", **options: Any) -> None:
    """Write a name at a point of the data, a little apart from it.

    Parameters
    ----------
    axes
        Where to.
    x, y
        The point, in the units of the data.
    text, colour
        What to write, in the colour of its line.
    options
        Of `Axes.annotate`; `offset` is the distance from the point in points, (3, 3) by default.
    """
    offset = options.pop("offset", (3, 3))
    axes.annotate(
        text, (x, y), xytext=offset, textcoords="offset points", color=colour, fontsize=8.5, **options
    )


def label_end(axes: Axes, x: float, y: float, text: str, colour: str = "black", **options: Any) -> None:
    """Write a name to the right of the end of a line, outside the frame where the line ends there."""
    label_at(axes, x, y, text, colour, offset=(4, 0), va="center", annotation_clip=False, **options)
