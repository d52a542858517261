"""What is exactly true of the named populations, for studies that compare estimates with it.

Not a program. Positions and values are on the unit domain, [0, 1] or the circle of circumference 1. Where
more than one number is true, because a quantile falls on a flat piece of the distribution function or a point
of it on an atom, the truth is a range, and an interval covers it when the two meet.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.domains import Circle, Interval
from arcwise.mechanisms import Mechanism, OptimalCircular, OptimalPiecewise
from arcwise.server.simulate import code_law, named_population
from arcwise.server.simulate.populations import CIRCLE, INTERVAL

if TYPE_CHECKING:
    from typing import Literal

    from numpy.typing import NDArray

    from arcwise.server.estimators import Value
    from arcwise.server.simulate import Population

__all__ = ["CIRCLES", "INTERVALS", "Case", "Range", "Truth", "case", "inside"]

INTERVALS, CIRCLES = tuple(INTERVAL), tuple(CIRCLE)

_FINE = 1 << 16


class Range(NamedTuple):
    """From the smallest to the largest number that is true; mostly the same."""

    low: float
    high: float


class Truth:
    """Mean, variance, moment, quantiles and shares of a population."""

    def __init__(self, population: Population) -> None:
        self.population = population
        self.mean = population.mean()
        # E X^2 = 1 - 2 I(1) + 2 (integral of I), I the integral of F; trapezoids err by at most 1/(6 m^2).
        integral = population.integrated_cdf(np.linspace(0.0, 1.0, _FINE + 1))
        inner = float(integral.sum() - (integral[0] + integral[-1]) / 2) / _FINE
        self.variance = 1.0 - 2.0 * float(integral[-1]) + 2.0 * inner - self.mean**2
        self.moment = population.trigonometric_moment()

    def quantile(self, level: float) -> Range:
        """Return all x with ``P(X < x) <= level <= P(X <= x)``."""
        low, high = 0.0, 1.0
        for _ in range(60):  # the smallest x beyond which F exceeds the level
            middle = (low + high) / 2
            exceeds = self._below(middle) > level + 1e-12
            low, high = (low, middle) if exceeds else (middle, high)
        return Range(min(float(self.population.quantiles([level])[0]), high), high)

    def share(self, low: float, high: float) -> Range:
        """Return the mass between two positions, without and with their own."""
        least = self._below(np.nextafter(high, 0.0)) - (self._below(low) if low > 0.0 else 0.0)
        most = self._below(high) - (self._below(np.nextafter(low, 0.0)) if low > 0.0 else 0.0)
        return Range(least, most)

    def arc(self, low: float, high: float) -> Range:
        """Return the mass of the arc from `low` upwards to `high` of a circle, both from 0 to 1."""
        if low <= high:
            return self.share(low, high)
        rest = self.share(high, low)
        return Range(1.0 - rest.high, 1.0 - rest.low)

    def quantile_above(self, origin: float, level: float) -> Range:
        """Return the quantile counted upwards from a place of a circle without an atom, in turns from 0."""
        return self.quantile((level + self._below(origin)) % 1.0)

    def _below(self, x: float) -> float:
        return float(self.population.cdf(np.array([x]))[0])


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


def inside(value: Value, truth: Range | float) -> bool:
    """Return whether an interval meets what is true."""
    low, high = truth if isinstance(truth, Range) else (truth, truth)
    return value.low is not None and value.high is not None and value.low <= high and low <= value.high
