"""What all pictures of circles share: north at the top, clockwise, compass points, hours and units."""

from __future__ import annotations

from typing import Any

import numpy as np

from arcwise.analysis.charts.look import circle_marks
from arcwise.analysis.plotting.style import literal


def labels(period: float, unit: str | None) -> list[str]:
    """Return `circle_marks` in which matplotlib sees no formula."""
    return [literal(mark) for mark in circle_marks(period, unit)]


def as_circle(axes: Any, period: float, unit: str | None) -> None:
    """Turn polar axes so that 0 is at the top and values grow clockwise, and label them."""
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    marks = labels(period, unit)
    axes.set_xticks(2 * np.pi * np.arange(len(marks)) / len(marks), marks)
    axes.set_yticks([])
