"""What every population is: a law on the unit domain, by its distribution function and the integral of it.

Laws stand in files of their own. Positions are on the unit domain, [0, 1] or the circle of circumference 1,
as `Domain.to_unit` makes them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from scipy.integrate import quad_vec

from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.typing import FloatArray


class Population(ABC):
    """A law of values on the unit domain.

    On a circle 0 is where the distribution function starts to count: ``F(x)`` is the mass of [0, x].
    """

    @abstractmethod
    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the mass of [0, x] for each x in [0, 1], any shape."""

    @abstractmethod
    def integrated_cdf(self, x: FloatArray) -> FloatArray:
        """Return the integral of the distribution function from 0 to each x in [0, 1], shape (m,).

        It is ``E max(x - X, 0)``. Expectations of piecewise linear functions are differences of it, so it
        gives the law of the rounded values without an approximation.
        """

    @abstractmethod
    def draw(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Return n independent values, shape (n,), in [0, 1]."""

    def mean(self) -> float:
        """Return the mean of the values: ``1 - integral of F`` over [0, 1]."""
        return 1.0 - float(self.integrated_cdf(np.ones(1))[0])

    def trigonometric_moment(self) -> complex:
        """Return ``E exp(2 pi i X)``: its argument is the mean direction, its modulus the resultant length.

        By parts it is ``1 - 2 pi i`` times the integral of ``F(x) exp(2 pi i x)``.
        """

        def integrand(x: float) -> FloatArray:
            turn = np.array([np.cos(2 * np.pi * x), np.sin(2 * np.pi * x)])
            return np.asarray(self.cdf(np.array([x])) * turn)

        (real, imaginary), _ = quad_vec(integrand, 0.0, 1.0, epsabs=1e-12, epsrel=1e-12, limit=2_000)
        return 1.0 - 2j * np.pi * complex(real, imaginary)

    def quantiles(self, levels: ArrayLike) -> FloatArray:
        """Return the smallest x with ``F(x) >= level`` for each level from 0 to 1, to 2**-60."""
        wanted = np.asarray(levels, dtype=np.float64)
        if not np.all((wanted >= 0.0) & (wanted <= 1.0)):
            raise ParameterError(f"levels must be from 0 to 1, got {levels!r}")
        # A mixture's weights may add up to 1 - 2**-53, and nowhere would F reach the level 1.
        flat = np.minimum(wanted.ravel(), self.cdf(np.ones(1)))
        low, high = np.zeros(flat.shape), np.ones(flat.shape)
        for _ in range(60):
            middle = (low + high) / 2
            reached = self.cdf(middle) >= flat
            high = np.where(reached, middle, high)
            low = np.where(reached, low, middle)
        found: FloatArray = np.where(self.cdf(np.zeros(1)) >= flat, 0.0, high)
        return found.reshape(wanted.shape)
