"""The base classes of noise distributions, of noise with a density and of noise on the integers.

All noise here is symmetric about 0 and one-dimensional.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, overload

import numpy as np

from arcwise.checks import checked_integer, checked_real, explained
from arcwise.errors import ParameterError
from arcwise.noise.expectation import checked_function, even_part, integral, series_sum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from arcwise.noise.expectation import Function, Values
    from arcwise.typing import BoolArray, FloatArray

    Numbers: TypeAlias = NDArray[Any] | Sequence[Any]
    Size: TypeAlias = int | tuple[int, ...]

NOISE_EPSILON_MAX = 50.0
"""The largest epsilon. Beyond it, e^-epsilon is less than the rounding error of 1."""

CHUNK = 2**14  # samples per block, so that a sampler's intermediate arrays stay in the cache


def checked_epsilon(epsilon: object, *, zero: bool = False) -> float:
    """Return epsilon as a float in (0, 50], or in [0, 50] if `zero`."""
    if zero:
        return checked_real("epsilon", epsilon, least=0, most=NOISE_EPSILON_MAX)
    return checked_real("epsilon", epsilon, above=0, most=NOISE_EPSILON_MAX)


def checked_delta(delta: object, most: float) -> float:
    """Return delta as a float in (0, 1), or in (0, most] if `most` is below 1."""
    if most < 1:
        return checked_real("delta", delta, above=0, most=most)
    return checked_real("delta", delta, above=0, below=1)


def elementwise(function: Callable[[FloatArray], Any], x: Any) -> Any:
    """Return `function` of the numbers x in float64: a float for a scalar, else an array shaped like x."""
    try:
        array = np.asarray(x)
    except ValueError as error:  # lists of unequal lengths
        raise ParameterError(f"arguments must be an array of real numbers: {error}") from None
    if array.dtype.kind not in "fiu":
        raise ParameterError(f"arguments must be real numbers, got {x!r}")
    result = np.asarray(function(np.atleast_1d(array.astype(np.float64)))).reshape(array.shape)
    return result.item() if result.ndim == 0 else result


def checked_shape(size: Size | None, generator: object) -> tuple[int, ...]:
    """Return the shape of samples, () without a size; refuse a `generator` that is not a numpy generator."""
    if not isinstance(generator, np.random.Generator):
        raise ParameterError(f"generator must be a numpy.random.Generator, got {generator!r}")
    shape = size if isinstance(size, tuple) else () if size is None else (size,)
    return tuple(checked_integer("size", length, 0) for length in shape)


def least_whole(
    enough: Callable[[FloatArray], BoolArray], guess: FloatArray, *, least: float | None = None
) -> FloatArray:
    """Return the least whole number that is enough at each place, by doubling brackets and bisection.

    `enough` takes a whole number for each place and is true from some number on. Numbers below `least` are
    never enough.
    """
    low, high = guess.copy() if least is None else np.full(guess.shape, least - 1.0), guess.copy()
    step = 1.0
    while least is None and (found := enough(low)).any():
        high[found] = low[found]
        low[found] -= step
        step *= 2.0
    step = 1.0
    while (missing := ~enough(high)).any():
        low[missing] = high[missing]
        high[missing] += step
        step *= 2.0
    while True:
        middle = np.floor((low + high) / 2.0)
        active = (low < middle) & (middle < high)
        if not active.any():
            return np.asarray(high + 0.0)
        found = enough(middle)
        low, high = np.where(active & ~found, middle, low), np.where(active & found, middle, high)


def geometric_rvs(rate: float, count: int, generator: np.random.Generator) -> FloatArray:
    """Return geometric numbers with ``P(G >= k) = e^(-rate k)`` as whole floats.

    They are the integer parts of exponential numbers, computed from log(1 - u) for uniform u. 1 - u is exact,
    and numpy's logarithm of an array is several times faster than its log1p and its exponential generator.
    """
    x = generator.random(count)
    np.subtract(1.0, x, out=x)
    np.log(x, out=x)
    x *= -1.0 / rate
    return np.floor(x, out=x)


class Noise(ABC):
    """A distribution of additive noise, symmetric about 0.

    Functions of x take scalars (and return Python numbers) or arrays of any shape. NaN gives NaN.
    """

    __slots__ = ()

    _dtype: ClassVar[type[np.number[Any]]] = np.float64

    def __init_subclass__(cls) -> None:
        if "__init__" in vars(cls):  # only a constructor of its own
            cls.__init__ = explained(cls.__init__)  # type: ignore[method-assign]

    @abstractmethod
    def _tail_at(self, x: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return the smaller of P(X <= x) and P(X > x), and whether it is P(X <= x)."""

    @abstractmethod
    def _ppf(self, q: FloatArray) -> FloatArray:
        """Return the least x with P(X <= x) >= q, for q in [0, 1]."""

    @abstractmethod
    def _abs_moment(self, power: float) -> float:
        """Return E|X|^power."""

    @abstractmethod
    def _rvs(self, count: int, generator: np.random.Generator) -> NDArray[Any]:
        """Return `count` samples."""

    @property
    @abstractmethod
    def support(self) -> tuple[float, float]:
        """The ends of the smallest closed interval that contains all of the noise."""

    @overload
    def cdf(self, x: float) -> float: ...
    @overload
    def cdf(self, x: Numbers) -> FloatArray: ...
    def cdf(self, x: Any) -> Any:
        """Return ``P(X <= x)``."""
        return elementwise(self._cdf, x)

    def _cdf(self, x: FloatArray) -> FloatArray:
        tail, lower = self._tail_at(x)
        return np.where(lower, tail, 1.0 - tail)

    @overload
    def sf(self, x: float) -> float: ...
    @overload
    def sf(self, x: Numbers) -> FloatArray: ...
    def sf(self, x: Any) -> Any:
        """Return ``P(X > x)``, precise in the upper tail where ``1 - cdf(x)`` is not."""
        return elementwise(self._sf, x)

    def _sf(self, x: FloatArray) -> FloatArray:
        tail, lower = self._tail_at(x)
        return np.where(lower, 1.0 - tail, tail)

    @overload
    def ppf(self, q: float) -> float: ...
    @overload
    def ppf(self, q: Numbers) -> FloatArray: ...
    def ppf(self, q: Any) -> Any:
        """Return the q-quantile, the least x with ``cdf(x) >= q``; NaN where q is not in [0, 1]."""
        return elementwise(self._checked_ppf, q)

    def _checked_ppf(self, q: FloatArray) -> FloatArray:
        inside = (q >= 0.0) & (q <= 1.0)
        return np.where(inside, self._ppf(np.where(inside, q, 0.5)), np.nan)

    def abs_moment(self, power: float) -> float:
        """Return ``E|X|^power`` for any real power > 0; infinite beyond the range of a float.

        This is the expected loss of the noise if the loss is ``|x|^power``.
        """
        with np.errstate(over="ignore"):
            return float(self._abs_moment(checked_real("power", power, above=0)))

    def expect(self, function: Function, *, points: Sequence[float] = ()) -> float:
        """Return ``E f(X)``.

        Parameters
        ----------
        function
            A function of an array of shape (n,), in the unit of the noise, which returns n real numbers.
            Where the noise has a probability below 1e-24, the function's values matter only if it grows.
        points
            Places where the function jumps or has a kink. The method searches for other such places, but a
            jump very near the edge of a step of the noise may be missed. For noise on the integers, no search
            is needed and no jump is missed.

        Raises
        ------
        ParameterError
            When a value is not finite, or the error of the expectation exceeds a billionth of ``E|f(X)|``,
            because the function grows too fast or jumps too often.

        Examples
        --------
        >>> from arcwise.noise import Laplace
        >>> noise = Laplace(1.0)
        >>> round(noise.expect(lambda x: abs(x) > 1, points=[1]), 6)  # e^-1
        0.367879
        """
        places = np.array([checked_real("points", point) for point in points], dtype=np.float64)
        return self._expect(checked_function("function", function), np.abs(places))

    @abstractmethod
    def _expect(self, function: Values, points: FloatArray) -> float:
        """Return E f(X) for a checked function, which is smooth on both sides of 0 except at some places."""

    def moment(self, order: int) -> float:
        """Return ``E X^order`` for an integer order >= 0; 0 for odd orders, because of the symmetry."""
        order = checked_integer("order", order, 0)
        if order == 0:
            return 1.0
        return 0.0 if order % 2 else self.abs_moment(order)

    def mean(self) -> float:
        """Return the mean, 0."""
        return 0.0

    def var(self) -> float:
        """Return the variance."""
        return self.abs_moment(2.0)

    def std(self) -> float:
        """Return the standard deviation."""
        return math.sqrt(self.var())

    def interval(self, level: float) -> tuple[float, float]:
        """Return the ends of the central interval with this probability.

        For noise on the integers, it is the smallest central interval with at least this probability.
        """
        low = self.ppf((1.0 - checked_real("level", level, above=0, below=1)) / 2.0)
        return low, 0.0 - low

    @overload
    def rvs(self, size: None = None, *, generator: np.random.Generator) -> float: ...
    @overload
    def rvs(self, size: Size, *, generator: np.random.Generator) -> NDArray[Any]: ...
    def rvs(self, size: Size | None = None, *, generator: np.random.Generator) -> Any:
        """Return samples for experiments, of shape `size`, or one number without a size.

        Do not use them for privacy. A numpy generator can be predicted from its outputs. Also, if float noise
        is added to a value, the floats that can occur as the sum depend on the value (Mironov 2012, "On
        significance of the least significant bits for differential privacy"). To release numbers, draw from a
        `GridNoise`, or use a local mechanism of `arcwise.mechanisms`.
        """
        shape = checked_shape(size, generator)
        if size is None:
            return self._rvs(1, generator)[0].item()
        count = math.prod(shape)
        out = np.empty(count, self._dtype)
        for start in range(0, count, CHUNK):
            stop = min(start + CHUNK, count)
            out[start:stop] = self._rvs(stop - start, generator)
        return out.reshape(shape)


class ContinuousNoise(Noise):
    """Noise with a symmetric density (and, for `UniformAtom`, an atom at 0).

    Each subclass gives the density, the survival function of ``|X|`` and its inverse. Both sides of 0 share
    one computation, and both tails keep their relative precision.
    """

    __slots__ = ()

    @abstractmethod
    def _abs_pdf(self, z: FloatArray) -> FloatArray:
        """Return the density of X at z >= 0."""

    @abstractmethod
    def _abs_sf(self, z: FloatArray) -> FloatArray:
        """Return P(|X| > z) for z >= 0."""

    @abstractmethod
    def _abs_isf(self, s: FloatArray) -> FloatArray:
        """Return the least z >= 0 with P(|X| > z) <= s, for s in [0, 1]."""

    @overload
    def pdf(self, x: float) -> float: ...
    @overload
    def pdf(self, x: Numbers) -> FloatArray: ...
    def pdf(self, x: Any) -> Any:
        """Return the density at x, per unit of x."""
        return elementwise(lambda x: self._abs_pdf(np.abs(x)), x)

    @overload
    def isf(self, s: float) -> float: ...
    @overload
    def isf(self, s: Numbers) -> FloatArray: ...
    def isf(self, s: Any) -> Any:
        """Return x with ``sf(x) = s``, precise in the upper tail; NaN where s is not in [0, 1]."""
        return elementwise(lambda s: 0.0 - self._checked_ppf(s), s)

    def half_width(self, level: float) -> float:
        """Return h with ``P(|X| <= h) = level``, half the width of the symmetric confidence interval."""
        return float(self._abs_isf(np.array([1.0 - checked_real("level", level, above=0, below=1)]))[0])

    def _expect(self, function: Values, points: FloatArray) -> float:
        even = even_part(function)

        def weighted(z: FloatArray) -> FloatArray:
            return 2.0 * self._abs_pdf(z) * even(z)

        return integral(weighted, self._pieces(), points, endless=math.isinf(self.support[1]))

    def _pieces(self) -> Iterator[tuple[float, float]]:
        """Yield pieces of the range of ``|X|``; in the first pieces the density falls only a little."""
        low, high, end = 0.0, self.abs_moment(1.0) / 8.0, float(self._abs_isf(np.array([1e-300]))[0])
        while low < end:
            yield low, min(high, end)
            low, high = high, 2.0 * high

    def _tail_at(self, x: FloatArray) -> tuple[FloatArray, BoolArray]:
        return 0.5 * self._abs_sf(np.abs(x)), x < 0.0

    def _ppf(self, q: FloatArray) -> FloatArray:
        # 2q below and 2(1 - q) above the median are exact in floats.
        lower = q < 0.5
        z = self._abs_isf(2.0 * np.where(lower, q, 1.0 - q))
        return np.where(lower, -z, z)


class EndlessNoise(ContinuousNoise):
    """Noise with a density on the whole line."""

    __slots__ = ()

    @property
    def support(self) -> tuple[float, float]:
        """The whole line."""
        return -math.inf, math.inf


class DiscreteNoise(Noise):
    """Noise with a symmetric probability mass function on the integers."""

    __slots__ = ()

    _dtype: ClassVar[type[np.number[Any]]] = np.int64

    @abstractmethod
    def _abs_pmf(self, n: FloatArray) -> FloatArray:
        """Return P(X = n) for whole n >= 0."""

    @abstractmethod
    def _tail(self, n: FloatArray) -> FloatArray:
        """Return P(X >= n) for whole n >= 1."""

    @property
    @abstractmethod
    def _decay(self) -> float:
        """The mean rate at which the logarithm of the tail falls, per integer."""

    @property
    def support(self) -> tuple[float, float]:
        """All integers."""
        return -math.inf, math.inf

    @overload
    def pmf(self, n: float) -> float: ...
    @overload
    def pmf(self, n: Numbers) -> FloatArray: ...
    def pmf(self, n: Any) -> Any:
        """Return ``P(X = n)``; 0 if n is not an integer."""

        def mass(n: FloatArray) -> FloatArray:
            whole = np.floor(n) == n
            z = np.abs(np.where(whole & np.isfinite(n), n, 0.0))
            values = np.where(whole & np.isfinite(n), self._abs_pmf(z), 0.0)
            return np.where(np.isnan(n), np.nan, values)

        return elementwise(mass, n)

    def _expect(self, function: Values, _points: FloatArray) -> float:
        even = even_part(function)

        def blocks() -> Iterator[tuple[FloatArray, bool]]:
            yield self._abs_pmf(np.zeros(1)) * function(np.zeros(1)), False
            first, size = 1, 2**3
            while self._abs_pmf(np.array([float(first)]))[0] > 0.0:
                n = np.arange(first, first + size, dtype=np.float64)
                yield 2.0 * self._abs_pmf(n) * even(n), bool(self._tail(n[:1])[0] < 1e-24)
                first, size = first + size, min(2 * size, 2**16)

        return series_sum(blocks())

    def _tail_at(self, x: FloatArray) -> tuple[FloatArray, BoolArray]:
        n = np.floor(x)
        return self._tail(np.where(n < 0.0, -n, n + 1.0)), n < 0.0

    def _ppf(self, q: FloatArray) -> FloatArray:
        # The first guess comes from the mean decay. The result is the least n for which the computed cdf(n)
        # is at least q. If q is 0 or 1, such an n may not exist, so 1/2 replaces q.
        inside = np.where((q > 0.0) & (q < 1.0), q, 0.5)
        s = np.clip(np.where(inside < 0.5, inside, 1.0 - inside), 1e-300, None)
        guess = np.floor(np.log(2.0 * s) / self._decay)
        n = least_whole(lambda n: self._cdf(n) >= inside, np.where(inside < 0.5, guess, -guess))
        low_end, high_end = self.support
        return np.where(q == 0.0, low_end, np.where(q == 1.0, high_end, n))
