"""Where a value lives: a bounded interval or a circle.

A domain checks values and maps them onto the unit interval ``[0, 1]`` (interval) or ``[0, 1)``
(circle), which is all that a mechanism sees. Mechanisms do not live here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

from arcwise.checks import as_float, shown
from arcwise.digits import written
from arcwise.errors import DomainError, ParameterError
from arcwise.values import Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    FloatArray = NDArray[np.float64]

__all__ = ["Circle", "Domain", "Interval"]


def _real(value: object, name: str) -> float:
    """Return `value` as a float; a bool, a string and anything else that is not a number is refused."""
    try:
        number = as_float(value)
    except OverflowError:
        raise ParameterError(f"{name} must be finite, got an integer beyond the range of a float") from None
    if number is None:
        raise ParameterError(f"{name} must be a real number, got {shown(value)}")
    return number + 0.0  # -0.0 becomes 0.0, so that equal domains have equal bytes


def _value(value: object, domain: object) -> float:
    """Return a user's value as a finite float, or say why it is none."""
    try:
        number = as_float(value)
    except OverflowError:
        raise DomainError(f"value must be finite and in {domain}, got an integer beyond a float") from None
    if number is None:
        raise DomainError(f"value must be a real number in {domain}, got {shown(value)}")
    if not math.isfinite(number):
        raise DomainError(f"value must be finite and in {domain}, got {number!r}")
    return number


def _values(values: ArrayLike, domain: object) -> FloatArray:
    """Return users' values as a float64 array, or name the first that is no finite number."""
    import numpy as np

    if isinstance(values, np.ma.MaskedArray):
        raise DomainError(
            "values must be an array without a mask, got a masked array, whose hidden values would be taken: "
            "give its compressed() values"
        )
    try:
        array = np.asarray(values)
    except Exception as error:  # lists of unequal lengths; and what somebody's class raises
        raise DomainError(f"values must be an array of real numbers in {domain}: {error}") from None
    if array.dtype.kind not in "fiu":
        raise DomainError(f"values must be real numbers in {domain}, got an array of dtype {array.dtype}")
    if not hasattr(values, "__array__"):
        _check_no_bool(values, domain)
    numbers = array.astype(np.float64, copy=False)
    if not np.isfinite(numbers).all():
        first = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise DomainError(
            f"values must be finite and in {domain}, got {float(numbers.flat[first])!r} at index {first}"
        )
    return numbers


def _check_no_bool(values: ArrayLike, domain: object) -> None:
    """Refuse a bool among numbers in a list, which numpy turns into a number. An array has its dtype."""
    import numpy as np

    items = np.asarray(values, dtype=object).ravel().tolist()
    if not {bool, np.bool_}.isdisjoint(map(type, items)):
        first, item = next((n, item) for n, item in enumerate(items) if isinstance(item, (bool, np.bool_)))
        raise DomainError(f"values must be real numbers in {domain}, got {item!r} at index {first}")


class Interval(Value):
    """The closed interval from `low` to `high`.

    Parameters
    ----------
    low, high
        Finite numbers in the unit of the values, ``low < high``.
    clip
        What to do with a finite value outside: ``False`` (default) raises `DomainError`; ``True`` moves
        it to the nearer end. NaN and infinity are refused either way.

    Raises
    ------
    ParameterError
        When the bounds are not finite numbers in order.

    Examples
    --------
    >>> Interval(0, 180).to_unit(45)
    0.25
    >>> Interval(-60, 180, clip=True).to_unit(1000.0)
    1.0
    """

    __slots__ = __match_args__ = ("low", "high", "clip")

    low: float
    high: float
    clip: bool

    def __init__(self, low: float, high: float, clip: bool = False) -> None:
        low, high = _real(low, "low"), _real(high, "high")
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ParameterError(f"low and high must be finite with low < high, got {low!r} and {high!r}")
        if math.isinf(high - low):
            raise ParameterError(f"high - low must be finite, got {low!r} and {high!r}")
        if not isinstance(clip, bool):
            raise ParameterError(f"clip must be True or False, got {clip!r}")
        self._set(low=low, high=high, clip=clip)

    def __str__(self) -> str:
        return f"[{', '.join(written(self.low, self.high, digits=6))}]"

    @property
    def length(self) -> float:
        """``high - low``, in the unit of the values."""
        return self.high - self.low

    def checked(self, value: Any) -> float:
        """Return one value as a float in the domain; raises `DomainError` for one that is not in it."""
        number = value if type(value) is float and math.isfinite(value) else _value(value, self)
        if self.low <= number <= self.high:
            return number
        if not self.clip:
            raise DomainError(
                f"value must be in {self}, got {number!r}; clip it, or give Interval(..., clip=True)"
            )
        return self.low if number < self.low else self.high

    def to_unit(self, value: Any) -> float:
        """Map one value to [0, 1]; raises `DomainError` for one that is not in the domain."""
        return (self.checked(value) - self.low) / (self.high - self.low)

    def to_unit_many(self, values: ArrayLike) -> FloatArray:
        """Map an array of values to [0, 1], any shape; raises `DomainError` for one outside."""
        import numpy as np

        numbers = _values(values, self)
        if numbers.size and (numbers.min() < self.low or numbers.max() > self.high):
            if not self.clip:
                first = int(np.flatnonzero((numbers < self.low) | (numbers > self.high))[0])
                raise DomainError(
                    f"values must be in {self}, got {float(numbers.flat[first])!r} at index {first}; "
                    "clip them, or give Interval(..., clip=True)"
                )
            numbers = numbers.clip(self.low, self.high)
        return (numbers - self.low) / self.length

    def from_unit(self, unit: FloatArray) -> FloatArray:
        """Map positions on [0, 1] back to the unit of the values (no bounds are applied)."""
        return self.low + self.length * unit


class Circle(Value):
    """A circle of circumference `period`: 360 for headings, 24 for hours of the day, 2 pi for radians.

    Every finite number is on the circle: values are taken modulo the period.

    Raises
    ------
    ParameterError
        When the period is not a positive finite number.

    Examples
    --------
    >>> Circle(24).to_unit(30)
    0.25
    """

    __slots__ = __match_args__ = ("period",)

    period: float

    def __init__(self, period: float) -> None:
        period = _real(period, "period")
        if not (math.isfinite(period) and period > 0):
            raise ParameterError(f"period must be positive and finite, got {period!r}")
        self._set(period=period)

    def __str__(self) -> str:
        return f"[0, {self.period:g}) modulo {self.period:g}"

    @property
    def length(self) -> float:
        """The circumference: the period."""
        return self.period

    def checked(self, value: Any) -> float:
        """Return one value as a float; raises `DomainError` for one that is not a finite number."""
        return value if type(value) is float and math.isfinite(value) else _value(value, self)

    def to_unit(self, value: Any) -> float:
        """Map one value to [0, 1); raises `DomainError` for one that is not a finite number."""
        unit = self.checked(value) % self.period / self.period
        return unit if unit < 1.0 else 0.0  # a tiny negative value rounds up to the period itself

    def to_unit_many(self, values: ArrayLike) -> FloatArray:
        """Map an array of values to [0, 1), any shape; raises `DomainError` for one not finite."""
        import numpy as np

        numbers = _values(values, self)
        outside = (numbers < 0.0) | (numbers >= self.period)
        if outside.any():
            numbers = np.array(numbers)  # modulo costs ten times the rest: only where it changes anything
            numbers[outside] = np.mod(numbers[outside], self.period)
        # asarray, because numpy turns results of shape () into scalars, which have no items to set.
        unit: FloatArray = np.asarray(numbers / self.period)
        unit[unit >= 1.0] = 0.0
        return unit

    def from_unit(self, unit: FloatArray) -> FloatArray:
        """Map positions on [0, 1) back to the unit of the values."""
        return self.period * unit


Domain: TypeAlias = Interval | Circle
