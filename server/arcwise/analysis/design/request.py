"""Requests for designs: goals, sizes and their bounds, checked once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from arcwise.analysis.simulate import as_populations, node_law
from arcwise.checks import checked_integer, checked_real
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms import OptimalPiecewise

if TYPE_CHECKING:
    from arcwise.analysis.simulate import Population
    from arcwise.domains import Domain

MOST_DESIGNED = 257
"""The most values of an interval with a step for which a design has a node for each value.

A design with this many values takes 6 seconds of one core for "mean", and half a minute for "value".
"""

_SIZES = {"interval": (2, 257), "circle": (3, 4096)}
"""Least and largest number of nodes and of outputs."""

_VERSION = 1
"""Version of the search. It increases when the same request would give other integers."""

_SMALL = 5.0
"""Up to this epsilon, designs have 17 nodes and 16 outputs; above, rounding to 17 nodes costs too much."""

UNIFORM = 0.05
"""The share of the uniform population in a design's prior.

If the population is right, this share increases the variance by 0.05 % at small epsilon, and by up to 1.5 %
at epsilon 4. It halves the variance at values that do not occur in the population.
"""


class Request(NamedTuple):
    """A checked request; together with the version of the search it determines a design.

    Designs are on the unit domain, so `domain` is only "interval" or "circle". `power` is the exponent of the
    loss, None for "direction". `rounds` is False if the nodes are the values of a lattice; otherwise inputs
    may be between two nodes. `prior` is the probability of each node; with a prior, the expected loss is
    minimised.
    """

    domain: str
    epsilon: float
    goal: str
    power: float | None
    outputs: int
    nodes: int
    rounds: bool
    prior: tuple[float, ...] | None = None

    @property
    def unit(self) -> Domain:
        """The unit domain of the design, with a step if each node is a value."""
        step = None if self.rounds else 1.0 / (self.nodes - (self.domain == "interval"))
        return Circle(1.0, step) if self.domain == "circle" else Interval(0.0, 1.0, step=step)

    @property
    def key(self) -> dict[str, Any]:
        """The key under which a design is cached, as JSON."""
        prior = None if self.prior is None else list(self.prior)
        return {**self._asdict(), "prior": prior, "version": _VERSION}


def designable(domain: Domain) -> bool:
    """Return whether the domain is a lattice with few enough values for one node for each value."""
    return domain.discrete and (domain.size or 0) <= MOST_DESIGNED


def check_goal(domain: Domain, goal: str, power: Any) -> float | None:
    """Return the exponent of the loss, or None for "direction", after checking goal and power."""
    if not isinstance(domain, (Interval, Circle)):
        raise ParameterError(f"domain must be an Interval or a Circle, got {domain!r}")
    goals = ("value", "direction") if domain.circular else ("mean", "value")
    if goal not in goals:
        names = " or ".join(f'"{name}"' for name in goals)
        raise ParameterError(f"goal must be {names} on {type(domain).__name__}, got {goal!r}")
    if goal != "value":
        if power is not None:
            raise ParameterError(f'power is for the goal "value" only, got {power!r} for {goal!r}')
        return 2.0 if goal == "mean" else None
    if power is None:
        return 1.0
    return checked_real("power", power, least=1)


def check_request(
    domain: Domain,
    epsilon: float,
    *,
    goal: str,
    outputs: int | None,
    nodes: int | None,
    power: float | None,
    population: Any = None,
) -> Request:
    """Return a request with its defaults filled in, or raise `ParameterError`."""
    exponent = check_goal(domain, goal, power)
    number = check_epsilon(epsilon)
    if population is not None and goal != "mean":
        raise ParameterError(f'population is for the goal "mean" only, got one for {goal!r}')
    size = domain.size if domain.discrete else None
    if size is not None and nodes not in (None, size):
        raise ParameterError(f"nodes must be left out if the domain has {size} values, got {nodes!r}")
    kind = "circle" if domain.circular else "interval"
    low, high = _SIZES[kind]
    most = high if kind == "circle" else MOST_DESIGNED
    if size is not None and not low <= size <= most:
        raise ParameterError(
            f"domain must have from {low} to {most} values for a design with a node for each, got {size}: "
            "take another mechanism, or leave the step out"
        )
    if kind == "circle":
        outputs = next((count for count in (outputs, nodes, size) if count is not None), 128)
        nodes = (outputs if size is None else size) if nodes is None else nodes
    else:
        if outputs is None:
            outputs = 16 if number <= _SMALL else 32
            if exponent == 1.0 and size is not None:
                outputs = max(outputs, size)
        if nodes is None:
            few = number <= _SMALL and population is None
            nodes = size if size is not None else 17 if few else 33
    outputs = checked_integer("outputs", outputs, low, high)
    nodes = checked_integer("nodes", nodes, low, high)
    if kind == "circle" and outputs != nodes:
        raise ParameterError(f"outputs and nodes must be equal on a Circle, got {outputs} and {nodes}")
    rounds = size is None or domain.rounding == "stochastic"
    request = Request(kind, number, goal, exponent, outputs, nodes, rounds)
    if population is None:
        return request
    populations = as_populations(population, domain)
    return request._replace(prior=node_prior(populations, cast("Interval", request.unit), nodes))


def node_prior(populations: tuple[Population, ...], unit: Interval, nodes: int) -> tuple[float, ...]:
    """Return the probability of each of N nodes: 5 % is uniform, the rest is the mean of the populations.

    The populations are on the unit interval; `unit` has a step if every value has a node of its own.
    """
    mechanism = OptimalPiecewise(unit, 1.0, nodes=None if unit.discrete else nodes)
    law = np.mean([node_law(mechanism, population) for population in populations], axis=0)
    return tuple(((1.0 - UNIFORM) * law + UNIFORM / nodes).tolist())
