"""What is narrower than a point of the screen is drawn together with its neighbours."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def merged(
    points: Sequence[tuple[float, ...]], least: float, *, hull: bool = False
) -> list[tuple[float, ...]]:
    """Return the points, with neighbours merged into blocks of at least the width `least`; holes stay.

    Points are in order: ``(x0, x1, y)``, of which the average is kept, or with `hull`
    ``(x0, x1, low, high)``, of which the outer ends are kept. A block beside a hole may be narrower.
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
