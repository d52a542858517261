"""Subclasses of matplotlib classes for pictures: the figure, and tick places on a log axis."""

from __future__ import annotations

import io
import math
from html import escape
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOM = {"x": 2.7, "y": 5.5}
"""Most decades with three numbers each: on a horizontal axis, and on a vertical axis."""
_NARROW = 0.3
"""A logarithmic axis with fewer decades is marked like a linear axis."""


class Picture(Figure):
    """A matplotlib figure that a notebook shows sharply, without pyplot, and only once.

    pyplot does not know the figure, so the inline backend does not show it a second time. The figure is saved
    in the style in which it was drawn: the same numbers give the same bytes.
    """

    def __init__(self, *args: Any, style: Any, **options: Any) -> None:
        self._style = style
        super().__init__(*args, **options)

    def savefig(self, *args: Any, **options: Any) -> None:
        """Save the figure, as `Figure.savefig` does."""
        with mpl.rc_context(self._style):
            super().savefig(*args, **options)

    def _repr_svg_(self) -> str:
        """Return the picture as an ``<svg>`` element for a page."""
        buffer = io.StringIO()
        self.savefig(buffer, format="svg", metadata={"Date": None})
        text = buffer.getvalue()
        title = escape(" ".join(self.get_suptitle().split()).replace(r"\$", "$"))
        return f'<svg role="img" aria-label="{title}"' + text[text.index("<svg") + len("<svg") :].rstrip()


class RoomyLogLocator(LogLocator):
    """Numbers at 1, 2 and 5 of every decade if they fit, otherwise at powers of ten."""

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        """Return the places of the numbers between two values."""
        decades = math.log10(vmax / vmin)
        if decades < _NARROW:
            return list(MaxNLocator(4).tick_values(vmin, vmax))
        axis: Any = self.axis
        self.set_params(subs=(1.0, 2.0, 5.0) if decades <= _ROOM[axis.axis_name] else (1.0,))
        return super().tick_values(vmin, vmax)
