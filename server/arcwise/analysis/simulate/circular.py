"""Populations on a circle with a closed form: von Mises and wrapped normal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ive, ndtr

from arcwise.analysis.simulate.laws import Population, integrated_normal
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from arcwise.typing import FloatArray

_BLOCK = 1 << 20
"""Sines and cosines at a time."""


class VonMises(Population):
    """The von Mises distribution on the circle of circumference 1.

    The mean direction is in turns; the concentration kappa is from 0 (uniform) to 10**4 (a standard deviation
    of 0.57 degrees).

    With ``a_k = I_k(kappa) / I_0(kappa)`` the density is ``1 + 2 sum_k a_k cos(2 pi k (x - direction))``
    (Mardia and Jupp, Directional Statistics, 3.5.4); it is integrated term by term. The a_k fall like
    ``exp(-k^2 / (2 kappa))``, and terms below 2**-60 are left out.
    """

    def __init__(self, direction: float, concentration: float) -> None:
        if not 0 <= concentration <= 1e4:
            raise ParameterError(
                f"concentration of a von Mises distribution must be from 0 to 10000, got {concentration!r}"
            )
        if not np.isfinite(direction):
            raise ParameterError(f"direction must be finite, got {direction!r}")
        self.direction, self.concentration = float(direction) % 1.0, float(concentration)
        k = np.arange(1, int(40 + 10 * np.sqrt(concentration)))
        terms = ive(k, concentration) / ive(0, concentration)
        self._k = 2 * np.pi * k[terms > 2.0**-60]
        self._terms = terms[terms > 2.0**-60]

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the mass of [0, x]."""
        flat = np.ravel(x)
        sums = self._series(np.sin, 2 * self._terms / self._k, np.append(0.0, flat))
        share = np.clip(flat + sums[1:] - sums[0], 0.0, 1.0)
        return np.asarray(share.reshape(np.shape(x)))

    def integrated_cdf(self, x: FloatArray) -> FloatArray:
        """Return the integral of the distribution function from 0 to x."""
        start = self._series(np.sin, 2 * self._terms / self._k, np.zeros(1))
        waves = self._series(np.cos, 2 * self._terms / self._k**2, np.append(0.0, x))
        return np.asarray(x**2 / 2 - (waves[1:] - waves[0]) - x * start)

    def draw(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Return n independent values."""
        turns = generator.vonmises(0.0, self.concentration, n) / (2 * np.pi) + self.direction
        return np.asarray(np.mod(turns, 1.0))

    def trigonometric_moment(self) -> complex:
        """Return ``E exp(2 pi i X) = I_1 / I_0 exp(2 pi i direction)``."""
        length = ive(1, self.concentration) / ive(0, self.concentration)
        return complex(length * np.exp(2j * np.pi * self.direction))

    def _series(self, wave: np.ufunc, terms: FloatArray, x: FloatArray) -> FloatArray:
        """Return ``sum_k terms_k wave(2 pi k (x - direction))``, in blocks of x."""
        result = np.zeros(x.size)
        step = max(1, _BLOCK // max(self._k.size, 1))
        for start in range(0, x.size, step):
            part = slice(start, start + step)
            result[part] = wave(np.multiply.outer(x[part] - self.direction, self._k)) @ terms
        return result


class WrappedNormal(Population):
    """A normal distribution, modulo 1.

    The mean direction is in turns, and so is the standard deviation on the line, from 1e-6 to 2. A wider
    distribution is uniform to 2**-53.
    """

    def __init__(self, direction: float, sd: float) -> None:
        if not 1e-6 <= sd <= 2:
            raise ParameterError(
                f"sd of a normal on a circle must be from 1e-6 to 2 periods, got {sd!r}; "
                "one above 2 is the uniform distribution"
            )
        if not np.isfinite(direction):
            raise ParameterError(f"direction must be finite, got {direction!r}")
        self.direction, self.sd = float(direction) % 1.0, float(sd)
        reach = int(np.ceil(9 * self.sd)) + 1  # of turns beyond it the mass is below 2**-60
        self._turns = np.arange(-reach, reach + 1) - self.direction

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the mass of [0, x]."""
        mass = ndtr(np.add.outer(x, self._turns) / self.sd) - ndtr(self._turns / self.sd)
        return np.asarray(np.clip(mass.sum(axis=-1), 0.0, 1.0))

    def integrated_cdf(self, x: FloatArray) -> FloatArray:
        """Return the integral of the distribution function from 0 to x."""
        start = np.asarray(self._turns / self.sd, np.float64)
        z: FloatArray = np.add.outer(x, self._turns) / self.sd
        parts = self.sd * np.subtract(integrated_normal(z), integrated_normal(start))
        return np.asarray(parts.sum(axis=-1) - x * ndtr(start).sum())

    def draw(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Return n independent values."""
        return np.asarray(np.mod(generator.normal(self.direction, self.sd, n), 1.0))

    def trigonometric_moment(self) -> complex:
        """Return ``E exp(2 pi i X) = exp(-2 pi^2 sd^2) exp(2 pi i direction)``."""
        return complex(np.exp(-2 * np.pi**2 * self.sd**2 + 2j * np.pi * self.direction))
