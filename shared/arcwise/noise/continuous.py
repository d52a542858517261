"""Noise with a density: everything follows from the distribution of ``|X|``."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from arcwise.checks import checked_real
from arcwise.noise.base import Noise, elementwise
from arcwise.noise.expectation import even_part, integral

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.noise.base import Numbers
    from arcwise.noise.expectation import Values
    from arcwise.typing import FloatArray


class ContinuousNoise(Noise):
    """Noise with a symmetric density (and, for `UniformAtom`, an atom at 0).

    A family gives the density, the survival function of ``|X|`` and its inverse; the two sides are one
    computation, and both tails keep their relative precision.
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
        """Return h with ``P(|X| <= h) = level``: half the symmetric confidence interval."""
        return float(self._abs_isf(np.array([1.0 - checked_real("level", level, above=0, below=1)]))[0])

    def _expect(self, function: Values, points: FloatArray) -> float:
        even = even_part(function)

        def weighted(z: FloatArray) -> FloatArray:
            return 2.0 * self._abs_pdf(z) * even(z)

        return integral(weighted, self._pieces(), points, endless=math.isinf(self.support[1]))

    def _pieces(self) -> Iterator[tuple[float, float]]:
        """Yield stretches of ``|X|`` in which the density falls by little, at first, up to where it ends."""
        low, high, end = 0.0, self.abs_moment(1.0) / 8.0, float(self._abs_isf(np.array([1e-300]))[0])
        while low < end:
            yield low, min(high, end)
            low, high = high, 2.0 * high

    def _cdf(self, x: FloatArray) -> FloatArray:
        tail = 0.5 * self._abs_sf(np.abs(x))
        return np.where(x < 0.0, tail, 1.0 - tail)

    def _sf(self, x: FloatArray) -> FloatArray:
        tail = 0.5 * self._abs_sf(np.abs(x))
        return np.where(x < 0.0, 1.0 - tail, tail)

    def _ppf(self, q: FloatArray) -> FloatArray:
        # 2q below and 2(1 - q) above the median are exact in floats.
        lower = q < 0.5
        z = self._abs_isf(2.0 * np.where(lower, q, 1.0 - q))
        return np.where(lower, -z, z)
