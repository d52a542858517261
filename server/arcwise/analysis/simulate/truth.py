"""Exact properties of a population: its moments, its quantiles, and shares of any part of the domain.

Positions and values are on the unit domain, [0, 1] or the circle of circumference 1. The definitions include
atoms at the ends: the distribution function at x is P(X <= x), and a share is P(low <= X <= high). The
quantile of level tau is the smallest x with P(X <= x) >= tau. If the distribution function is flat, many
places can be quantiles of one level, and an interval should contain the smallest of these places. If a
confidence interval holds for each of these places, it also holds for the smallest, which is the quantile on a
lattice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.simulate.laws import Atoms, Mixture, rounded

if TYPE_CHECKING:
    from arcwise.analysis.simulate.laws import Population
    from arcwise.domains import Domain

SLACK = 1e-9
"""Places closer than this count as equal, because of float errors."""

NO_DIRECTION = 1e-12
"""A resultant length below this is only a rounding error."""

_FINE = 1 << 16


class Truth:
    """The exact mean, variance, trigonometric moment, quantiles and shares of a population."""

    def __init__(self, population: Population) -> None:
        self.population = population
        self.mean = population.mean()
        self.variance = _square(population) - self.mean**2
        self.moment = population.trigonometric_moment()

    def quantile(self, level: float) -> float:
        """Return the smallest x with ``P(X <= x) >= level``."""
        return float(self.population.quantiles([max(level - 1e-12, 0.0)])[0])

    def below(self, x: float, *, at: bool = True) -> float:
        """Return ``P(X <= x)``; if `at` is false, ``P(X < x)``, which leaves out an atom at x."""
        place = x + SLACK if at else x - SLACK
        return float(self.population.cdf(np.array([min(place, 1.0)]))[0]) if place >= 0.0 else 0.0

    def share(self, low: float, high: float) -> float:
        """Return ``P(low <= X <= high)``."""
        return self.below(high) - self.below(low, at=False)

    def arc(self, low: float, high: float) -> float:
        """Return the mass of the arc from `low` upwards to `high`, in any turn, including its ends."""
        start = low % 1.0
        if start > 1.0 - SLACK:
            start = 0.0
        end = start + (high - low if 0 <= high - low <= 1 else (high - low) % 1.0)
        if end < 1.0 - SLACK:
            return self.share(start, end)
        return min(self.share(start, 1.0) + self.below(end - 1.0), 1.0)  # 1 is the same place as 0

    def quantile_above(self, origin: float, level: float) -> float:
        """Return the quantile counted upwards from `origin`, the first place on the circle, in turns."""
        wanted = self.below(origin % 1.0, at=False) + level
        return self.quantile(wanted - (wanted > 1.0 + 1e-12)) % 1.0


def _square(population: Population) -> float:
    """Return the mean of the squares."""
    if isinstance(population, Mixture):
        return float(population.weights @ [_square(part) for part in population.parts])
    if isinstance(population, Atoms):
        return float(population.places**2 @ population.probabilities)
    # E X^2 = 1 - 2 I(1) + 2 (integral of I), with I the integral of F. Trapezoids err by at most 1/(6 m^2).
    integral = population.integrated_cdf(np.linspace(0.0, 1.0, _FINE + 1))
    inner = float(integral.sum() - (integral[0] + integral[-1]) / 2) / _FINE
    return 1.0 - 2.0 * float(integral[-1]) + 2.0 * inner


def on_lattice(population: Population, domain: Domain) -> Population:
    """Return the law of the values that devices hold: the nearest values of a lattice.

    With the rounding "stochastic", devices may hold any values, and only their reports are rounded.
    """
    if domain.lattice is None or domain.rounding == "stochastic":
        return population
    places = np.arange(domain.lattice.size) / domain.lattice.steps
    return rounded(population, places, circular=domain.circular)
