"""Populations from continuous distributions of scipy.stats: cut to an interval or wrapped around a circle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.integrate import quad_vec

from arcwise.analysis.simulate.laws import Population
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from arcwise.domains import Domain
    from arcwise.typing import FloatArray

_MOST_TURNS = 1_000
_TAIL = 1e-15
_ERROR = 1e-9
"""Largest error of an integral of the distribution function."""


class Continuous(Population):
    """A frozen continuous distribution of scipy.stats, such as ``scipy.stats.gamma(3, scale=10)``.

    It is in the unit of the domain. On an interval it is cut to the law given that the value is in the
    domain, of at least 0.001 of the mass. On a circle values are taken modulo the period, over at most 1,000
    turns.
    """

    def __init__(self, distribution: Any, domain: Domain) -> None:
        if not all(hasattr(distribution, name) for name in ("cdf", "ppf", "rvs")) or hasattr(
            distribution, "pmf"
        ):
            raise ParameterError(
                "distribution must be a frozen continuous distribution of scipy.stats, "
                f"got {type(distribution).__name__}; atoms are made with Atoms"
            )
        self._distribution = distribution
        self._length = domain.length
        self._circular = domain.circular
        self._low = domain.start
        if self._circular:
            ends = [float(distribution.ppf(p)) / self._length for p in (_TAIL, 1.0 - _TAIL)]
            if not ends[1] - ends[0] <= _MOST_TURNS:
                raise ParameterError(
                    f"distribution must reach over at most {_MOST_TURNS} turns of the circle, "
                    f"got {ends[1] - ends[0]:g}"
                )
            self._turns = np.arange(np.floor(ends[0]), np.floor(ends[1]) + 1.0)
        else:
            self._turns = np.zeros(1)
        self._start = self._line(self._turns)
        self._inside = float((self._line(self._turns + 1.0) - self._start).sum())
        if self._inside > 1.0 + _ERROR:
            raise ParameterError(
                f"distribution must have a cdf that ends at 1, got {self._inside:g} in the domain; "
                "for scipy.stats.vonmises, which counts on with every turn, there is VonMises"
            )
        if not self._inside >= 1e-3:
            raise ParameterError(
                f"distribution must have at least 0.001 of its mass in the domain, got {self._inside:g}"
            )

    def _line(self, x: FloatArray) -> FloatArray:
        return np.asarray(self._distribution.cdf(self._low + self._length * x), dtype=np.float64)

    def cdf(self, x: FloatArray) -> FloatArray:
        """Return the mass of [0, x]."""
        mass = self._line(np.add.outer(x, self._turns)) - self._start
        return np.asarray(np.clip(mass.sum(axis=-1) / self._inside, 0.0, 1.0))

    def integrated_cdf(self, x: FloatArray) -> FloatArray:
        """Return the integral of the distribution function from 0 to x, exact to 1e-9, by quadrature."""
        ends, inverse = np.unique(np.append(0.0, x), return_inverse=True)
        width = np.diff(ends)

        def means(t: float) -> FloatArray:
            return self.cdf(ends[:-1] + t * width)

        if not width.size:
            return np.zeros(np.shape(x))
        # The mean of F over each piece, all pieces at once: a piece adds at most its width times the error.
        averages, error = quad_vec(means, 0.0, 1.0, epsabs=1e-13, epsrel=0.0, norm="max", limit=200)
        if not error <= _ERROR:
            raise ParameterError(
                f"distribution must have a cdf that can be integrated to {_ERROR:g}; the error is {error:g}"
            )
        integral = np.append(0.0, np.cumsum(averages * width))
        return np.asarray(integral[inverse.ravel()][1:])

    def draw(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Return n independent values: by inversion on an interval, modulo the period on a circle."""
        if self._circular:
            values = np.asarray(self._distribution.rvs(size=n, random_state=generator))
            return np.asarray(np.mod(values / self._length, 1.0))
        values = self._distribution.ppf(self._start[0] + self._inside * generator.random(n))
        return np.asarray(np.clip((values - self._low) / self._length, 0.0, 1.0))
