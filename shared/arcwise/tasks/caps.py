"""What one device may spend on a task, and how spending is counted: in whole millionths of epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Final

from arcwise.errors import ParameterError
from arcwise.kernels.certificate import exact_epsilon

__all__ = ["DAY", "MAX_PERIOD", "Caps", "micro_epsilon"]

DAY: Final = 86_400
MAX_PERIOD: Final = 366 * DAY


def micro_epsilon(epsilon: float) -> int:
    """Return what a privacy loss of `epsilon` is charged as: millionths, rounded up."""
    return math.ceil(exact_epsilon(epsilon) * 1_000_000)


@dataclass(frozen=True, slots=True)
class Caps:
    """How much epsilon one device may spend on a task; a report that would exceed a cap is not made.

    Parameters
    ----------
    lifetime
        Epsilon in all, for ever. ``None`` (default): no cap.
    rolling
        Epsilon within any `window` seconds. ``None`` (default): no cap.
    window
        Length of the rolling window in seconds.

    Raises
    ------
    ParameterError
        When a cap is not a positive number, or the window not a positive integer.
    """

    lifetime: float | None = None
    rolling: float | None = None
    window: int = DAY

    def __post_init__(self) -> None:
        for name in ("lifetime", "rolling"):
            cap = getattr(self, name)
            if cap is None:
                continue
            try:
                number = math.nan if isinstance(cap, bool) or not isinstance(cap, Real) else float(cap)
            except OverflowError:  # an integer beyond the range of a float
                number = math.inf
            if not 0 < number <= 1e9:
                raise ParameterError(f"{name} must be None or an epsilon above 0 and up to 1e9, got {cap!r}")
            # Kept as the float nearest to a whole number of micro-epsilon: what is compared with charges.
            object.__setattr__(self, name, micro_epsilon(number) / 1_000_000)
        if type(self.window) is not int or not 1 <= self.window <= MAX_PERIOD:
            raise ParameterError(f"window must be whole seconds, from 1 to a year, got {self.window!r}")

    @property
    def lifetime_micro(self) -> int | None:
        """The lifetime cap in micro-epsilon."""
        return None if self.lifetime is None else round(self.lifetime * 1_000_000)

    @property
    def rolling_micro(self) -> int | None:
        """The rolling cap in micro-epsilon."""
        return None if self.rolling is None else round(self.rolling * 1_000_000)
