"""The domain of a value: a bounded interval or a circle.

A domain checks values and maps them onto the unit interval ``[0, 1]`` (interval) or ``[0, 1)`` (circle). A
mechanism sees only this position. A domain with a step is a lattice of values; a mechanism then sees only a
value's number on this lattice, counted from 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from arcwise.checks import as_float, checked_bool, checked_real, explained
from arcwise.digits import written
from arcwise.errors import DomainError, ParameterError
from arcwise.lattice import MOST_VALUES, ROUNDINGS, TOLERANCE, Lattice, places_of
from arcwise.values import Value

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.lattice import Rounding
    from arcwise.typing import BoolArray, FloatArray


__all__ = ["Circle", "Domain", "Interval"]


def _value(value: object, domain: object) -> float:
    """Return a user's value as a finite float; raise `DomainError` if it is not a finite number."""
    try:
        number = as_float(value)
    except OverflowError:
        raise DomainError(
            f"value must be finite and in {domain}, got an integer beyond the range of a float"
        ) from None
    if number is None:
        raise DomainError(f"value must be a real number in {domain}, got a {type(value).__name__}")
    if not math.isfinite(number):
        raise DomainError(f"value must be finite and in {domain}")
    return number


def _values(values: ArrayLike, domain: object) -> FloatArray:
    """Return values as a float64 array; an error gives the index of the first value that is not finite."""
    import numpy as np

    items = values if isinstance(values, (list, tuple)) else (values,)
    if np.ma.MaskedArray in set(map(type, items)):
        raise DomainError(
            "values must be an array without a mask, got a masked array, whose hidden values would be used: "
            "pass its compressed() values"
        )
    try:
        array = np.asarray(values)
    except Exception:  # lists of unequal lengths, and errors of users' classes
        raise DomainError(
            f"values must be an array of real numbers in {domain}; a {type(values).__name__} fails to convert"
        ) from None
    if array.dtype.kind not in "fiu":
        raise DomainError(f"values must be real numbers in {domain}, got an array of dtype {array.dtype}")
    if not hasattr(values, "__array__"):
        _check_no_bool(values, domain)
    numbers = array.astype(np.float64, copy=False)
    finite = np.isfinite(numbers)
    if not finite.all():
        raise DomainError(f"values must be finite and in {domain}; {places_of(~finite)}")
    return numbers


def _check_no_bool(values: ArrayLike, domain: object) -> None:
    """Refuse a bool in a list, since numpy turns it into a number; an array's dtype is checked elsewhere."""
    import numpy as np

    items = np.asarray(values, dtype=object).ravel().tolist()
    if not {bool, np.bool_}.isdisjoint(map(type, items)):
        first = next(n for n, item in enumerate(items) if isinstance(item, (bool, np.bool_)))
        raise DomainError(f"values must be real numbers in {domain}, got a bool at index {first}")


class _Domain(Value):
    """The common base of intervals and circles, with their lattice if they have a step."""

    __slots__ = ()

    step: float | None
    rounding: Rounding
    lattice: Lattice | None
    """The numbering of the values; None on a continuous domain."""
    circular: ClassVar[bool]
    """Whether values are taken modulo the length."""

    def _set_lattice(self, step: object, rounding: Rounding, farthest: float) -> None:
        step = None if step is None else checked_real("step", step, above=0)
        if not isinstance(rounding, str) or rounding not in ROUNDINGS:
            known = ", ".join(f'"{known}"' for known in ROUNDINGS)
            raise ParameterError(f"rounding must be one of {known}; got {rounding!r}")
        if step is None and rounding != "refuse":
            raise ParameterError(f"rounding needs a step: give step, or leave rounding out; got {rounding!r}")
        lattice = None if step is None else Lattice(step, rounding, self.length, farthest, self.circular)
        self._set(step=step, rounding=rounding, lattice=lattice)

    def __repr__(self) -> str:
        names = self.__match_args__ if self.step is not None else self.__match_args__[:-2]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def __str__(self) -> str:
        return self._bounds() if self.step is None else f"{self._bounds()} in steps of {self.step:.12g}"

    def _bounds(self) -> str:
        raise NotImplementedError

    @property
    def length(self) -> float:
        """The length of the domain, in the unit of the values."""
        raise NotImplementedError

    @property
    def size(self) -> int | None:
        """The number of values; None on a continuous domain."""
        return None if self.lattice is None else self.lattice.size

    @property
    def discrete(self) -> bool:
        """Whether mechanisms have a node for each value: there is a step and at most 1,024 values."""
        return self.lattice is not None and self.lattice.size <= MOST_VALUES

    @property
    def start(self) -> float:
        """The value at 0 on the unit domain: an interval's `low`, 0 on a circle."""
        return 0.0

    def unit(self) -> Domain:
        """Return the domain scaled to length 1, with its values scaled too and the same rounding."""
        raise NotImplementedError

    def values(self) -> FloatArray:
        """Return all values in ascending order, shape (size,).

        Raises
        ------
        ParameterError
            When the domain is continuous.
        """
        import numpy as np

        lattice = self._needed_lattice()
        return self.from_unit(np.arange(lattice.size) / lattice.steps)

    def _needed_lattice(self) -> Lattice:
        if self.lattice is None:
            raise ParameterError(f"domain must have a step, so that it has a list of values; got {self!r}")
        return self.lattice

    def to_place(self, value: Any) -> float:
        """Return the number of a value on the lattice, counted from 0; the domain must have a step.

        The result is a whole number, unless the rounding is "stochastic" and the value is between two values
        of the lattice. Raises `DomainError` for a value that is not in the domain.
        """
        lattice = self._needed_lattice()
        if type(value) is not float or not math.isfinite(value):
            value = _value(value, self)
        return lattice.place(self._steps(value, lattice), self)

    def _steps(self, value: float, lattice: Lattice) -> float:
        """Return a number's distance from the first value in steps; raises `DomainError` if it is outside."""
        raise NotImplementedError

    def to_places(self, values: ArrayLike) -> FloatArray:
        """Return `to_place` of each value, in the same shape; raises `DomainError` if a value is outside."""
        lattice = self._needed_lattice()
        return lattice.places(self._many_steps(_values(values, self), lattice), self)

    def _many_steps(self, numbers: FloatArray, lattice: Lattice) -> FloatArray:
        raise NotImplementedError

    def from_unit(self, unit: FloatArray) -> FloatArray:
        """Map positions on the unit domain to values of this domain; numbers outside are accepted too."""
        return self.start + (self.length * unit if self.lattice is None else self.lattice.scaled(unit))


class Interval(_Domain):
    """The closed interval from `low` to `high`, or a lattice of equally spaced values from `low` to `high`.

    Parameters
    ----------
    low, high
        Finite numbers in the unit of the values, ``low < high``.
    clip
        Treatment of a finite value outside the interval: ``False`` (default) raises `DomainError`; ``True``
        moves it to the nearer end. NaN and infinity are always refused.
    step
        The distance between neighbouring values, which are low, low + step, ..., high: for scores, ages,
        minutes or counts. The step must divide ``high - low`` into whole steps, up to the rounding of floats.
        None (default): every number from `low` to `high` is a value.
    rounding
        Treatment of a number that is more than 2**-16 steps away from every value. "refuse" (default) raises
        `DomainError`. "nearest" takes the nearest value, for example to remove the noise of sensors; it
        biases means. "stochastic" takes one of the two neighbouring values at random, so that means stay
        unbiased; the estimated distribution contains both values.

    Raises
    ------
    ParameterError
        When the bounds are not finite numbers in order, or the step does not divide their distance.

    Examples
    --------
    >>> Interval(0, 180).to_unit(45)
    0.25
    >>> Interval(-60, 180, clip=True).to_unit(1000.0)
    1.0
    >>> ratings = Interval(1, 5, step=0.5)
    >>> ratings.size, ratings.to_place(2.5)
    (9, 3.0)
    """

    circular: ClassVar[Literal[False]] = False
    __match_args__ = ("low", "high", "clip", "step", "rounding")
    __slots__ = (*__match_args__, "lattice")

    low: float
    high: float
    clip: bool
    step: float | None
    rounding: Rounding
    lattice: Lattice | None

    @explained
    def __init__(
        self,
        low: float,
        high: float,
        clip: bool = False,
        step: float | None = None,
        rounding: Rounding = "refuse",
    ) -> None:
        low, high = checked_real("low", low), checked_real("high", high)
        if not low < high:
            raise ParameterError(f"low and high must be finite with low < high, got {low!r} and {high!r}")
        if math.isinf(high - low):
            raise ParameterError(f"high - low must be finite, got {low!r} and {high!r}")
        self._set(low=low, high=high, clip=checked_bool("clip", clip))
        self._set_lattice(step, rounding, max(-low, high))

    def _bounds(self) -> str:
        return f"[{', '.join(written(self.low, self.high, digits=6))}]"

    @property
    def length(self) -> float:
        """``high - low``, in the unit of the values."""
        return self.high - self.low

    @property
    def start(self) -> float:
        """The value at 0 on the unit domain: `low`."""
        return self.low

    def unit(self) -> Interval:
        """Return the domain scaled to length 1, with its values scaled too and the same rounding.

        The result does not clip. A lattice of more than 1,024 values becomes continuous, because mechanisms
        treat it as continuous.
        """
        if self.lattice is None or not self.discrete:
            return Interval(0.0, 1.0)
        return Interval(0.0, 1.0, step=1.0 / self.lattice.steps, rounding=self.rounding)

    def checked(self, value: Any) -> float:
        """Return one value as a float in the domain; raises `DomainError` if it is not in the domain."""
        number = value if type(value) is float and math.isfinite(value) else _value(value, self)
        if self.lattice is not None:
            self.to_place(number)
            return number
        if self.low <= number <= self.high:
            return number
        if not self.clip:
            raise self._outside()
        return self.low if number < self.low else self.high

    def to_unit(self, value: Any) -> float:
        """Map one value to [0, 1]; raises `DomainError` if it is not in the domain."""
        if self.lattice is not None:
            return self.to_place(value) / self.lattice.steps
        return (self.checked(value) - self.low) / (self.high - self.low)

    def to_unit_many(self, values: ArrayLike) -> FloatArray:
        """Map an array of any shape to [0, 1]; raises `DomainError` if a value is not in the domain."""
        if self.lattice is not None:
            return self.to_places(values) / self.lattice.steps
        numbers = _values(values, self)
        if numbers.size and (numbers.min() < self.low or numbers.max() > self.high):
            if not self.clip:
                raise self._outside_many((numbers < self.low) | (numbers > self.high))
            numbers = numbers.clip(self.low, self.high)
        return (numbers - self.low) / self.length

    def _steps(self, value: float, lattice: Lattice) -> float:
        exact = (value - self.low) / lattice.step
        if not -TOLERANCE <= exact <= lattice.steps + TOLERANCE:
            if not self.clip:
                raise self._outside()
            exact = 0.0 if exact < 0.0 else float(lattice.steps)
        return exact

    def _many_steps(self, numbers: FloatArray, lattice: Lattice) -> FloatArray:
        import numpy as np

        with np.errstate(over="ignore"):
            exact = np.asarray((numbers - self.low) / lattice.step)
        if exact.size and (exact.min() < -TOLERANCE or exact.max() > lattice.steps + TOLERANCE):
            outside = (exact < -TOLERANCE) | (exact > lattice.steps + TOLERANCE)
            if not self.clip:
                raise self._outside_many(outside)
            exact[outside] = exact[outside].clip(0.0, lattice.steps)
        return exact

    def _outside(self) -> DomainError:
        return DomainError(f"value must be in {self}: clip it, or give Interval(..., clip=True)")

    def _outside_many(self, outside: BoolArray) -> DomainError:
        return DomainError(
            f"values must be in {self}; {places_of(outside)}: clip them, or give Interval(..., clip=True)"
        )


class Circle(_Domain):
    """A circle of circumference `period`: 360 for headings, 24 for hours of the day, 2 pi for radians.

    Every finite number is on the circle: values are taken modulo the period.

    Parameters
    ----------
    period
        A positive finite number.
    step
        The distance between neighbouring values, which are 0, step, ..., ``period - step``: for whole hours,
        or headings in tens of degrees. The step must divide the period into whole steps, up to the rounding
        of floats. None (default): every number is a value.
    rounding
        Treatment of a number that is more than 2**-16 steps away from every value: as for `Interval`.

    Raises
    ------
    ParameterError
        When the period is not a positive finite number, or the step does not divide it.

    Examples
    --------
    >>> Circle(24).to_unit(30)
    0.25
    >>> Circle(360, step=10).to_place(-30)
    33.0
    """

    circular: ClassVar[Literal[True]] = True
    __match_args__ = ("period", "step", "rounding")
    __slots__ = (*__match_args__, "lattice")

    period: float
    step: float | None
    rounding: Rounding
    lattice: Lattice | None

    @explained
    def __init__(self, period: float, step: float | None = None, rounding: Rounding = "refuse") -> None:
        self._set(period=checked_real("period", period, above=0))
        self._set_lattice(step, rounding, self.period)

    def _bounds(self) -> str:
        return f"[0, {self.period:g}) modulo {self.period:g}"

    @property
    def length(self) -> float:
        """The circumference: the period."""
        return self.period

    def unit(self) -> Circle:
        """Return the domain scaled to length 1, with its values scaled too and the same rounding.

        A lattice of more than 1,024 values becomes continuous, because mechanisms treat it as continuous.
        """
        if self.lattice is None or not self.discrete:
            return Circle(1.0)
        return Circle(1.0, step=1.0 / self.lattice.steps, rounding=self.rounding)

    def checked(self, value: Any) -> float:
        """Return one value as a float; raises `DomainError` if it is not in the domain."""
        number = value if type(value) is float and math.isfinite(value) else _value(value, self)
        if self.lattice is not None:
            self.to_place(number)
        return number

    def to_unit(self, value: Any) -> float:
        """Map one value to [0, 1); raises `DomainError` if it is not in the domain."""
        if self.lattice is not None:
            return self.to_place(value) / self.lattice.steps
        unit = self.checked(value) % self.period / self.period
        return unit if unit < 1.0 else 0.0  # a tiny negative value rounds up to the period itself

    def to_unit_many(self, values: ArrayLike) -> FloatArray:
        """Map an array of any shape to [0, 1); raises `DomainError` if a value is not in the domain."""
        import numpy as np

        if self.lattice is not None:
            return self.to_places(values) / self.lattice.steps
        unit: FloatArray = np.asarray(self._reduced(_values(values, self)) / self.period)
        if unit.size and unit.max() >= 1.0:
            unit[unit >= 1.0] = 0.0
        return unit

    def _reduced(self, numbers: FloatArray) -> FloatArray:
        """Return numbers modulo the period, at least 0; rounding may result in the period itself."""
        import numpy as np

        if numbers.size and (numbers.min() < 0.0 or numbers.max() >= self.period):
            outside = (numbers < 0.0) | (numbers >= self.period)
            numbers = np.array(numbers)  # modulo is ten times slower than the rest: run it only where needed
            numbers[outside] = np.mod(numbers[outside], self.period)
        return numbers

    def _steps(self, value: float, lattice: Lattice) -> float:
        return value % self.period / lattice.step

    def _many_steps(self, numbers: FloatArray, lattice: Lattice) -> FloatArray:
        return self._reduced(numbers) / lattice.step


Domain: TypeAlias = Interval | Circle
"""The values that a task takes: an interval or a circle."""
