"""What all pictures of circles share: north at the top, clockwise, compass points, hours and units."""

from __future__ import annotations

from typing import Any

import numpy as np

from arcwise.analysis.plotting.style import literal

__all__ = ["as_circle", "labels"]

_DEGREES = frozenset({"°", "deg", "degree", "degrees"})
_HOURS = frozenset({"h", "hr", "hour", "hours"})
_MARKS = 8
_SHORT = 4
"""Letters of a unit that has room at every mark."""


def labels(period: float, unit: str | None) -> list[str]:
    """Return the labels of eight equally spaced marks, the first at 0.

    Compass points at the quarters of 360 degrees, times on a day of 24 hours, else numbers with a short unit.

    Examples
    --------
    >>> labels(360.0, "°")[:4], labels(24.0, "h")[:3], labels(60.0, "min")[1]
    (['N', '45°', 'E', '135°'], ['00:00', '03:00', '06:00'], '7.5 min')
    """
    marks = [period * place / _MARKS for place in range(_MARKS)]
    if period == 360.0 and unit in _DEGREES:
        return [f"{mark:g}°" if place % 2 else "NESW"[place // 2] for place, mark in enumerate(marks)]
    if period == 24.0 and unit in _HOURS:
        return [f"{mark:02.0f}:00" for mark in marks]
    short = f" {unit}" if unit is not None and len(unit) <= _SHORT else ""
    return [literal(f"{mark:g}{short}") for mark in marks]


def as_circle(axes: Any, period: float, unit: str | None) -> None:
    """Turn polar axes so that 0 is at the top and values grow clockwise, and label them."""
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    axes.set_xticks(2 * np.pi * np.arange(_MARKS) / _MARKS, labels(period, unit))
    axes.set_yticks([])
