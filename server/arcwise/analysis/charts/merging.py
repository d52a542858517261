"""What is narrower than a point of the screen is drawn together with its neighbours."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def merged(
    points: Sequence[tuple[float, ...]], least: float, *, hull: bool = False
) -> list[tuple[float, ...]]:
    """Return blocks, each at least as wide as `least` but where there is a hole beside it.

    Parameters
    ----------
    points
        In order, ``(x0, x1, y)``, of which the average is kept, or ``(x0, x1, low, high)``.
    least
        A width, in the unit of x.
    hull
        Whether blocks have two ends, of which the outer ones are kept.
    """
    found: list[tuple[float, ...]] = []
    for point in points:
        last = found[-1] if found else None
        if (
            last is None
            or last[1] - last[0] >= least
            or last[1] != point[0]
            or math.isnan(last[2] + point[2])
        ):
            found.append(point)
        elif hull:
            found[-1] = last[0], point[1], min(last[2], point[2]), max(last[3], point[3])
        else:
            one, two = last[1] - last[0], point[1] - point[0]
            total = one + two
            y = last[2] * (one / total) + point[2] * (two / total) if total else last[2]
            found[-1] = last[0], point[1], y
    return found
