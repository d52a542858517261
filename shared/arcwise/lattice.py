"""The values of a domain with a step, and a rule that maps numbers to them identically in all clients.

A number v is ``q = (v - low) / step`` steps from the first value. It counts as the value
``k = floor(q + 1/2)`` if q and k differ by at most 2**-16. The rule uses floor because languages round halves
differently. It has a tolerance because 0.3 / 0.1 < 3 in floats.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from arcwise.errors import DomainError, ParameterError

if TYPE_CHECKING:
    from arcwise.typing import BoolArray, FloatArray


Rounding: TypeAlias = Literal["refuse", "nearest", "stochastic"]

MOST_VALUES: Final = 1024
"""Up to this many values, a mechanism has a node for each value. A larger lattice is treated as continuous.
"""

TOLERANCE: Final = 2.0**-16
"""The largest distance, in steps, between a number and the value that it counts as."""

_FARTHEST: Final = 2.0**32
"""The largest absolute value of a bound, in steps. Up to this size, numbers are exact to 2**-18 steps, a
quarter of the tolerance."""

ROUNDINGS: Final[tuple[Rounding, ...]] = ("refuse", "nearest", "stochastic")
_BETWEEN: Final = 'it is between two steps: round it, or give the domain rounding="nearest" or "stochastic"'


class Lattice:
    """The values of a domain with a step: equally spaced and numbered from 0.

    The length of the domain is a whole number of steps, by the rule of this module, and `farthest` is the
    largest absolute value of a bound. A number between two values is refused, rounded to the nearest or
    rounded at random, as `rounding` specifies. The number of values, `size`, is at least 2. On a circle it
    equals the number of steps; on an interval it is larger by 1.
    """

    __slots__ = ("_circular", "_length", "_rounding", "size", "step", "steps")

    def __init__(
        self, step: float, rounding: Rounding, length: float, farthest: float, circular: bool
    ) -> None:
        if farthest > step * _FARTHEST:
            raise ParameterError(
                f"step must be at least 2**-32 of the largest bound, {farthest!r}, since floats do not "
                f"distinguish finer values; got {step!r}"
            )
        exact = length / step
        self.step = step
        self.steps = math.floor(exact + 0.5)
        if not abs(exact - self.steps) <= TOLERANCE:
            raise ParameterError(
                f"step must divide the length of the domain, {length!r}, into whole steps; got {step!r}, "
                f"which makes {exact:.6g}: change the step or the domain"
            )
        self.size = self.steps + (not circular)
        if self.size < 2:
            raise ParameterError(f"step must be small enough for 2 values, got {step!r}")
        self._rounding, self._length, self._circular = rounding, length, circular

    def place(self, exact: float, domain: object) -> float:
        """Return the number of the value that is `exact` steps from the first, from 0 to ``size - 1``.

        For a position between two values, rounding "stochastic" returns `exact` itself, and rounding "refuse"
        raises a `DomainError` that names `domain`.
        """
        whole = math.floor(exact + 0.5)
        if self._rounding != "nearest" and abs(exact - whole) > TOLERANCE:
            if self._rounding == "refuse":
                raise DomainError(f"value must be in {domain}: {_BETWEEN}")
            return exact
        return 0.0 if self._circular and whole == self.size else float(whole)

    def places(self, exact: FloatArray, domain: object) -> FloatArray:
        """Return `place` for each number of an array, in its shape."""
        import numpy as np

        whole: FloatArray = np.asarray(exact + 0.5)
        np.floor(whole, out=whole)
        apart = np.abs(exact - whole)
        if self._circular and whole.size and whole.max() == self.size:
            whole[whole == self.size] = 0.0
        if self._rounding == "nearest" or not apart.size or apart.max() <= TOLERANCE:
            return whole
        between = apart > TOLERANCE
        if self._rounding == "refuse":
            raise DomainError(f"values must be in {domain}; {places_of(between)}: {_BETWEEN}")
        return np.asarray(np.where(between, exact, whole))

    def unit_place(self, unit: Any) -> Any:
        """Return positions on the unit domain, a float or an array, in steps.

        A position within the tolerance of a value becomes a whole number of steps. With the rounding
        "nearest" every position becomes a whole number.
        """
        import numpy as np

        exact = unit * self.steps
        whole = np.floor(exact + 0.5)
        if self._rounding == "nearest":
            return whole
        return np.where(np.abs(exact - whole) <= TOLERANCE, whole, exact)

    def scaled(self, unit: FloatArray) -> FloatArray:
        """Return ``length * unit``, exactly the length of k steps if `unit` is ``k / steps`` in floats."""
        import numpy as np

        exact = unit * self.steps
        whole = np.rint(exact)
        # In floats, 29 / 100 * 100 < 29. Means also pass through this function, so only errors of this size
        # are rounded away.
        exact = np.where(np.abs(exact - whole) <= 2.0**-50 * self.size, whole, exact)
        scaled: FloatArray = self._length * exact / self.steps
        return scaled


def places_of(wrong: BoolArray) -> str:
    """Return in words the index of the first wrong value and the number of others, without any value."""
    first, more = int(wrong.argmax()), int(wrong.sum()) - 1
    return f"wrong at index {first}{f' and {more:,} more' if more else ''}"
