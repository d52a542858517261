"""Where the numbers of a logarithmic axis stand, and how they are written. Loads matplotlib."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import LogLocator, MaxNLocator

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOM = {"x": 2.7, "y": 5.5}
"""Decades that have room for three numbers each: beside one another, and one above the other."""
_NARROW = 0.3
"""Decades below which a logarithmic axis is marked like a linear one."""


class RoomyLogLocator(LogLocator):
    """Numbers at 1, 2 and 5 of every decade where there is room, at powers of ten where there is less."""

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        """Return where the numbers stand between two values."""
        decades = math.log10(vmax / vmin)
        if decades < _NARROW:
            return list(MaxNLocator(4).tick_values(vmin, vmax))
        axis: Any = self.axis
        self.set_params(subs=(1.0, 2.0, 5.0) if decades <= _ROOM[axis.axis_name] else (1.0,))
        return super().tick_values(vmin, vmax)


def plain_number(value: float, _position: float = 0.0) -> str:
    """Write a number in plain digits, as a power of ten where they would be many."""
    if 1e-4 <= value < 1e6:
        return f"{value:g}"
    mantissa, exponent = f"{value:e}".split("e")
    factor = "" if float(mantissa) == 1.0 else rf"{float(mantissa):g} \times "
    return f"${factor}10^{{{int(exponent)}}}$"
