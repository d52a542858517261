"""The look of pictures in every library: colours, typefaces, and the marks of circles."""

from __future__ import annotations

from functools import cache
from pathlib import Path

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d", "#b8a200")
"""Colours that colour-blind readers can distinguish (Okabe and Ito 2008), arcwise's own first."""

INK, GRID = "#22313f", "#e3e6e9"
"""The colours of texts and axes, and of grid lines."""

ROLES = {"fit": COLOURS[0], "mark": COLOURS[1], "truth": INK, "none": "#8a949e", "hover": INK}
"""The colours of layers by their role."""

FONT = ("system-ui", "DejaVu Sans", "sans-serif")
"""Typefaces in the order of preference; matplotlib includes the second."""

_DEGREES = frozenset({"°", "deg", "degree", "degrees"})
_HOURS = frozenset({"h", "hr", "hour", "hours"})
_MARKS = 8
_SHORT = 4
"""Most letters of a unit that is written at every mark."""


@cache
def stylesheet() -> str:
    """Return `charts.css`: the colours of all classes in light and dark, on paper and with forced colours."""
    return (Path(__file__).parent / "charts.css").read_text(encoding="utf-8")


def circle_marks(period: float, unit: str | None) -> list[str]:
    """Return the labels of eight equally spaced marks, the first at 0.

    They are compass points at the quarters of 360 degrees, times on a day of 24 hours, and otherwise numbers
    with a short unit.

    Examples
    --------
    >>> circle_marks(360.0, "°")[:4], circle_marks(24.0, "h")[:3], circle_marks(60.0, "min")[1]
    (['N', '45°', 'E', '135°'], ['00:00', '03:00', '06:00'], '7.5 min')
    """
    marks = [period * place / _MARKS for place in range(_MARKS)]
    if period == 360.0 and unit in _DEGREES:
        return [f"{mark:g}°" if place % 2 else "NESW"[place // 2] for place, mark in enumerate(marks)]
    if period == 24.0 and unit in _HOURS:
        return [f"{mark:02.0f}:00" for mark in marks]
    short = f" {unit}" if unit is not None and len(unit) <= _SHORT else ""
    return [f"{mark:g}{short}" for mark in marks]
