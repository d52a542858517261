"""Populations under the optimal mechanisms, and their exact truth, for studies of estimates.

Not a program.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from arcwise.analysis.simulate import Atoms, Mixture, code_law, named_population
from arcwise.analysis.simulate.populations import CIRCLE, INTERVAL
from arcwise.analysis.simulate.truth import SLACK, Truth
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import Mechanism, OptimalCircular, OptimalPiecewise

if TYPE_CHECKING:
    from typing import Literal

    from arcwise.analysis import Value
    from arcwise.analysis.simulate import Population
    from arcwise.typing import FloatArray

__all__ = ["CIRCLES", "INTERVALS", "Case", "atoms", "case", "inside"]

INTERVALS, CIRCLES = tuple(INTERVAL), tuple(CIRCLE)


def atoms(population: Population) -> dict[float, float]:
    """Return the places and the masses of a population's atoms."""
    if isinstance(population, Atoms):
        return dict(zip(population.places.tolist(), population.probabilities.tolist(), strict=True))
    found: dict[float, float] = {}
    if isinstance(population, Mixture):
        for weight, part in zip(population.weights.tolist(), population.parts, strict=True):
            for place, mass in atoms(part).items():
                found[place] = found.get(place, 0.0) + weight * mass
    return dict(sorted(found.items()))


class Case(NamedTuple):
    """A mechanism, the law of its codes, and the exact truth of its population."""

    mechanism: Mechanism
    law: FloatArray
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
    """Return whether an interval contains the truth."""
    if value.low is None or value.high is None:
        return False
    return value.low - SLACK <= truth <= value.high + SLACK
