"""The figure that pictures are drawn on: notebooks show it by itself, as SVG. Loads matplotlib."""

from __future__ import annotations

import io
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure


class Picture(Figure):
    """A matplotlib figure that a notebook shows sharply, without pyplot, and once.

    pyplot does not know it, so the inline backend does not show it a second time. It is saved in the style in
    which it was drawn: the same numbers give the same bytes.
    """

    def __init__(self, *args: Any, style: Any, **options: Any) -> None:
        self._style = style
        super().__init__(*args, **options)

    def savefig(self, *args: Any, **options: Any) -> None:
        """Save the figure, as `Figure.savefig` does."""
        with mpl.rc_context(self._style):
            super().savefig(*args, **options)

    def _repr_svg_(self) -> str:
        """Return the picture as an ``<svg>`` element that can stand in a page."""
        buffer = io.StringIO()
        self.savefig(buffer, format="svg", metadata={"Date": None})
        text = buffer.getvalue()
        title = escape(" ".join(self.get_suptitle().split()).replace(r"\$", "$"))
        return f'<svg role="img" aria-label="{title}"' + text[text.index("<svg") + len("<svg") :].rstrip()
