"""The error of the estimated distribution, which is simulated because it has no closed form.

Surveys of known users are simulated and estimated as `estimate` does. Each estimate is compared with the
values of the same users by the Wasserstein-1 distance. Seeds are fixed and shared by all mechanisms, so
ratios of errors are more certain than the errors themselves.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.estimators.wasserstein import wasserstein
from arcwise.analysis.likelihood.distribution import fit_held_out
from arcwise.analysis.planning.curve import Curve
from arcwise.analysis.simulate import MAX_DEVICES, simulate_counts
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from arcwise.analysis.simulate import Population
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray

FEWEST = 10
"""The fewest reports of a simulated survey."""

_FEWEST_NODES = 32
"""With fewer nodes, rounding spreads values so far that `estimate` warns of it."""

_DRAWN = 1 << 17
"""Up to this many users, values are drawn one by one."""

_GROUPS = 1 << 16
"""The most groups of equal users, for more users than `_DRAWN`."""

_NEAR = 0.7
"""A population gets many surveys if its error is at least this share of the largest error."""

_START = 20_000.0
_TRIES = 10


class Surveys(NamedTuple):
    """The seed and the number of simulated surveys of each population.

    There are `few`, or `many` for a population with an error near the largest.
    """

    few: int
    many: int
    seed: int = 1


class _Point(NamedTuple):
    """The average error by population, and its standard error, at one number of reports."""

    means: dict[str, float]
    errors: dict[str, float]


class SimulatedCurve(Curve):
    """The expected Wasserstein-1 distance between the estimate and the law of the users who report.

    The mechanism is on the unit interval or the circle of circumference 1. The error is the largest of the
    average errors of the `populations`. `tick` is called before the surveys of each number of reports are
    simulated. Raises `ParameterError` if the mechanism is too coarse: it needs at least 32 nodes and 32
    codes. If nothing is rounded to its nodes, it needs as many codes as nodes.
    """

    most = MAX_DEVICES

    def __init__(
        self,
        mechanism: Mechanism,
        populations: Mapping[str, Population],
        surveys: Surveys,
        *,
        tick: Callable[[int], None] | None = None,
    ) -> None:
        kernel = mechanism.kernel
        fewest = _FEWEST_NODES if mechanism.rounds else kernel.nodes
        if min(kernel.nodes, kernel.codes) < fewest:
            raise ParameterError(
                f"{kernel.nodes} nodes and {kernel.codes} codes are too few to show a distribution"
            )
        self._mechanism = mechanism
        self._populations = populations
        self._surveys = surveys
        self._tick = tick
        self._known: dict[int, _Point] = {}

    def error(self, reports: int) -> float:
        """Return the largest of the populations' average errors, in shares of the range or the period."""
        return max(self._at(reports).means.values()) if FEWEST <= reports <= MAX_DEVICES else math.inf

    def reached(self, reports: int) -> float:
        """Return the largest average error, each increased by two standard errors of the simulation."""
        if not FEWEST <= reports <= MAX_DEVICES:
            return math.inf
        point = self._at(reports)
        return max(mean + 2.0 * point.errors[name] for name, mean in point.means.items())

    def details(self, reports: int) -> dict[str, float]:
        """Return the average error by population."""
        return self._at(reports).means

    def points(self, reports: int) -> tuple[tuple[float, float], ...]:
        """Return the pairs (reports, error) that have been simulated."""
        return tuple((float(n), self.error(n)) for n in sorted(self._known))

    def reports(self, error: float) -> int | None:
        """Return a number of reports that reaches an error with a margin of two standard errors.

        The logarithm of the error is nearly linear in that of the number. So the search uses secants until
        the answer lies between two numbers that differ by at most a factor of 4. Then it tries points on the
        line between these two numbers.
        """
        # the logarithms of the reports, and of the reached error over the requested error
        low: tuple[float, float] | None = None
        high: tuple[float, float] | None = None
        at = _START
        slope = -0.4
        for _ in range(_TRIES):
            number = min(max(math.ceil(at), FEWEST), MAX_DEVICES)
            here = math.log(number), math.log(self.reached(number) / error)
            old = (low or high) if not (low and high) else None
            if here[1] <= 0.0:
                high = here
                if number == FEWEST:
                    return FEWEST
            else:
                low = here
                if number == MAX_DEVICES:
                    return None
            if low and high:
                slope = (high[1] - low[1]) / (high[0] - low[0])
                if high[0] - low[0] <= math.log(4.0):
                    break
                at = math.exp(low[0] - low[1] / slope)
                # Move a little to the far side, so that both ends of the bracket close in.
                at *= 1.25 if here is low else 0.8
                at = min(max(at, math.exp(low[0]) * 1.2), math.exp(high[0]) / 1.2)
            else:
                if old is not None and old[0] != here[0]:
                    slope = min(max((here[1] - old[1]) / (here[0] - old[0]), -0.6), -0.1)
                step = min(max(-here[1] / slope, -math.log(50.0)), math.log(50.0))
                at = math.exp(here[0] + step * 1.15)
        return self._settled(low, high, error)

    def _settled(
        self, low: tuple[float, float] | None, high: tuple[float, float] | None, error: float
    ) -> int | None:
        """Return a number of reports that reaches the error, found on the line between two points."""
        if high is None:
            return None
        if low is None:
            return math.ceil(math.exp(high[0]))
        slope = (high[1] - low[1]) / (high[0] - low[0])
        at = low[0] - low[1] / slope
        for _ in range(3):
            number = math.ceil(math.exp(at))
            excess = math.log(self.reached(number) / error)
            if excess <= 0.0:
                return number
            at = min(at + 1.2 * excess / 0.4, high[0])
        return math.ceil(math.exp(high[0]))

    def _at(self, reports: int) -> _Point:
        """Return the errors at one number of reports; its surveys are simulated only once."""
        point = self._known.get(reports)
        if point is None:
            if self._tick is not None:
                self._tick(reports)
            found = {name: self._simulated(name, reports, 0, self._surveys.few) for name in self._populations}
            largest = max(float(np.mean(few)) for few in found.values())
            for name, few in found.items():
                if np.mean(few) >= _NEAR * largest:
                    more = self._simulated(name, reports, self._surveys.few, self._surveys.many)
                    found[name] = few + more
            point = self._known[reports] = _Point(
                {name: float(np.mean(errors)) for name, errors in found.items()},
                {
                    name: float(np.std(errors, ddof=1)) / math.sqrt(len(errors))
                    for name, errors in found.items()
                },
            )
        return point

    def _simulated(self, name: str, reports: int, first: int, last: int) -> list[float]:
        """Return the errors of some surveys of one population, each with its own seed."""
        place = list(self._populations).index(name)
        return [
            survey_error(
                self._mechanism,
                self._populations[name],
                reports,
                np.random.default_rng([self._surveys.seed, place, repeat]),
            )
            for repeat in range(first, last)
        ]


def survey_error(
    mechanism: Mechanism, population: Population, reports: int, generator: np.random.Generator
) -> float:
    """Return the distance between the distribution estimated from one survey and that of its own users.

    The mechanism is on the unit interval or the circle of circumference 1. Each user sends one report; there
    are from 10 to 10**12 users.
    """
    values, each = users(population, reports, generator)
    if mechanism.lattice is not None and not mechanism.rounds:
        # As in `node_law`, devices hold the nearest values.
        places = np.floor(values * mechanism.lattice.steps + 0.5)
        values = (places % mechanism.lattice.size) / mechanism.lattice.steps
    counts = simulate_counts(mechanism, values, values.size * each, generator, fixed=True)
    fitted = fit_held_out(mechanism, counts.astype(np.float64))
    return wasserstein(mechanism, fitted.probabilities, values)


def users(population: Population, reports: int, generator: np.random.Generator) -> tuple[FloatArray, int]:
    """Return the users' values, and how many users have each of them.

    Up to 2^17 users are drawn one by one. A larger number is represented by at most 2^16 groups of equal
    size, with the value of one member for each group. The sorted values of n draws are the quantiles at n
    sorted uniform numbers. Sorted uniform numbers are sums of exponential spacings, divided by the sum of all
    spacings. To get every k-th number, add up k spacings together: their sum is a gamma variable. Users that
    do not fill a group are left out.
    """
    if reports <= _DRAWN:
        return population.draw(reports, generator), 1
    each = math.ceil(reports / _GROUPS)
    sums = np.cumsum(generator.gamma(each, size=reports // each + 1))
    return np.interp(sums[:-1] / sums[-1], *_quantiles(population)), each


@lru_cache(maxsize=8)
def _quantiles(population: Population) -> tuple[FloatArray, FloatArray]:
    """Return levels from 0 to 1 and the population's quantiles there."""
    levels = np.linspace(0.0, 1.0, _GROUPS + 1)
    return levels, population.quantiles(levels)
