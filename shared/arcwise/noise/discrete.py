"""Noise on the integers: everything follows from the mass at 0 and the tail ``P(X >= n)``."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np

from arcwise.noise.base import Noise, elementwise
from arcwise.noise.expectation import even_part, series_sum

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.noise.base import Numbers
    from arcwise.noise.expectation import Values
    from arcwise.typing import FloatArray


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
        """Return ``P(X = n)``; 0 where n is no integer."""

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

    def _cdf(self, x: FloatArray) -> FloatArray:
        n = np.floor(x)
        tail = self._tail(np.where(n < 0.0, -n, n + 1.0))
        return np.where(n < 0.0, tail, 1.0 - tail)

    def _sf(self, x: FloatArray) -> FloatArray:
        n = np.floor(x)
        tail = self._tail(np.where(n < 0.0, -n, n + 1.0))
        return np.where(n < 0.0, 1.0 - tail, tail)

    def _ppf(self, q: FloatArray) -> FloatArray:
        # A guess from the mean decay; then brackets that double, and bisection over integers. The result is
        # the least n of which cdf(n), as computed here, is at least q.
        s = np.clip(np.where(q < 0.5, q, 1.0 - q), 1e-300, None)
        guess = np.floor(np.log(2.0 * s) / self._decay)
        low = np.where(q < 0.5, guess, -guess)
        high = low.copy()
        for ends, step, wrong in ((low, -1.0, np.greater_equal), (high, 1.0, np.less)):
            width = step
            open_ends = wrong(self._cdf(ends), q)
            while open_ends.any():
                ends[open_ends] += width
                width *= 2.0
                # At q = 1 no integer is enough: the answer is infinite and set below.
                open_ends &= wrong(self._cdf(ends), q) & (q < 1.0) & (q > 0.0)
        while True:
            middle = np.floor((low + high) / 2.0)
            active = middle > low
            if not active.any():
                break
            enough = self._cdf(middle) >= q
            high = np.where(active & enough, middle, high)
            low = np.where(active & ~enough, middle, low)
        low_end, high_end = self.support
        return np.where(q == 0.0, low_end, np.where(q == 1.0, high_end, high + 0.0))
