"""What is exactly true of populations, for studies that compare estimates with it.

Not a program. Positions and values are on the unit domain, [0, 1] or the circle of circumference 1. Truths
are strict: the distribution function at x is P(X <= x), a share is P(low <= X <= high), both with what stands
at the very place, and the quantile of level tau is the smallest x with P(X <= x) >= tau. Where a flat piece
of the distribution function makes all of it quantiles, the smallest is the one to hold: an interval that each
quantile is in with its level holds that one too, and it is what the quantile of a lattice is.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.domains import Circle, Interval
from arcwise.mechanisms import Mechanism, OptimalCircular, OptimalPiecewise
from arcwise.server.simulate import Atoms, Mixture, code_law, named_population
from arcwise.server.simulate.populations import CIRCLE, INTERVAL
from arcwise.server.simulate.rounded import rounded

if TYPE_CHECKING:
    from typing import Literal

    from numpy.typing import NDArray

    from arcwise.domains import Domain
    from arcwise.server.estimators import Value
    from arcwise.server.simulate import Population

__all__ = ["CIRCLES", "INTERVALS", "SLACK", "Case", "Truth", "atoms", "case", "inside", "on_lattice"]

INTERVALS, CIRCLES = tuple(INTERVAL), tuple(CIRCLE)

SLACK = 1e-9
"""Places that are nearer are one: floats."""

_FINE = 1 << 16


class Truth:
    """Mean, variance, moment, quantiles and shares of a population."""

    def __init__(self, population: Population) -> None:
        self.population = population
        self.mean = population.mean()
        self.variance = _square(population) - self.mean**2
        self.moment = population.trigonometric_moment()

    def quantile(self, level: float) -> float:
        """Return the smallest x with ``P(X <= x) >= level``."""
        return float(self.population.quantiles([max(level - 1e-12, 0.0)])[0])

    def below(self, x: float, *, at: bool = True) -> float:
        """Return ``P(X <= x)``, or ``P(X < x)``: with or without an atom at x."""
        place = x + SLACK if at else x - SLACK
        return float(self.population.cdf(np.array([min(place, 1.0)]))[0]) if place >= 0.0 else 0.0

    def share(self, low: float, high: float) -> float:
        """Return ``P(low <= X <= high)``."""
        return self.below(high) - self.below(low, at=False)

    def arc(self, low: float, high: float) -> float:
        """Return the mass of the arc from `low` upwards to `high`, any turns; its ends belong to it."""
        start = low % 1.0
        if start > 1.0 - SLACK:
            start = 0.0
        end = start + (high - low if 0 <= high - low <= 1 else (high - low) % 1.0)
        if end < 1.0 - SLACK:
            return self.share(start, end)
        return min(self.share(start, 1.0) + self.below(end - 1.0), 1.0)  # place 1 is place 0

    def quantile_above(self, origin: float, level: float) -> float:
        """Return the quantile counted upwards from a place of a circle, which comes first, in turns."""
        wanted = self.below(origin % 1.0, at=False) + level
        return self.quantile(wanted - (wanted > 1.0 + 1e-12)) % 1.0


def _square(population: Population) -> float:
    """Return the mean of the squares."""
    if isinstance(population, Mixture):
        return float(population.weights @ [_square(part) for part in population.parts])
    if isinstance(population, Atoms):
        return float(population.places**2 @ population.probabilities)
    # E X^2 = 1 - 2 I(1) + 2 (integral of I), I the integral of F; trapezoids err by at most 1/(6 m^2).
    integral = population.integrated_cdf(np.linspace(0.0, 1.0, _FINE + 1))
    inner = float(integral.sum() - (integral[0] + integral[-1]) / 2) / _FINE
    return 1.0 - 2.0 * float(integral[-1]) + 2.0 * inner


def atoms(population: Population) -> dict[float, float]:
    """Return the places of a population's atoms and how much is there."""
    if isinstance(population, Atoms):
        return dict(zip(population.places.tolist(), population.probabilities.tolist(), strict=True))
    found: dict[float, float] = {}
    if isinstance(population, Mixture):
        for weight, part in zip(population.weights.tolist(), population.parts, strict=True):
            for place, mass in atoms(part).items():
                found[place] = found.get(place, 0.0) + weight * mass
    return dict(sorted(found.items()))


def on_lattice(population: Population, domain: Domain) -> Population:
    """Return the law of the values that devices have: the nearest ones of a lattice."""
    if domain.lattice is None:
        return population
    places = np.arange(domain.lattice.size) / domain.lattice.steps
    return rounded(population, places, circular=isinstance(domain, Circle))


class Case(NamedTuple):
    """A mechanism, the law of its codes, and what is true of the population behind it."""

    mechanism: Mechanism
    law: NDArray[np.float64]
    truth: Truth


@cache
def _truth(name: str, *, circular: bool) -> Truth:
    return Truth(named_population(name, circular=circular))


@cache
def case(
    name: str,
    epsilon: float,
    *,
    circular: bool,
    placement: Literal["inset", "clamp"] = "inset",
    nodes: int = 128,
) -> Case:
    """Return a named population under the optimal mechanism."""
    truth = _truth(name, circular=circular)
    mechanism: Mechanism = (
        OptimalCircular(Circle(1), epsilon, nodes=nodes)
        if circular
        else OptimalPiecewise(Interval(0, 1), epsilon, placement=placement, nodes=nodes)
    )
    return Case(mechanism, code_law(mechanism, truth.population), truth)


def inside(value: Value, truth: float) -> bool:
    """Return whether an interval holds what is true."""
    if value.low is None or value.high is None:
        return False
    return value.low - SLACK <= truth <= value.high + SLACK
