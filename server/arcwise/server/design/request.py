"""What may be asked of `minimax`: goals, sizes and their bounds, checked once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import check_epsilon

if TYPE_CHECKING:
    from arcwise.domains import Domain

__all__ = ["Request", "check_goal", "check_request"]

_SIZES = {"interval": (2, 257), "circle": (3, 4096)}
"""Least and largest number of nodes and of outputs."""

_SMALL = 5.0
"""Up to this epsilon 17 nodes and 16 outputs; above it rounding to 17 nodes would cost too much."""


class Request(NamedTuple):
    """A checked request. What it holds and the version of the search determine a design.

    Attributes
    ----------
    domain
        "interval" or "circle": designs are on the unit domain.
    epsilon, goal, outputs, nodes
        As for `minimax`.
    power
        The exponent of the loss; None for "direction".
    """

    domain: str
    epsilon: float
    goal: str
    power: float | None
    outputs: int
    nodes: int

    @property
    def loss_power(self) -> float:
        """The exponent of the loss where there is one."""
        assert self.power is not None  # noqa: S101 -- for the type checker; intervals always have one
        return self.power


def check_goal(domain: Domain, goal: str, power: Any) -> float | None:
    """Return the exponent of the loss, or None for "direction".

    Raises
    ------
    ParameterError
        When the goal is none of the domain's, or the power is out of its bounds or has no meaning.
    """
    if not isinstance(domain, (Interval, Circle)):
        raise ParameterError(f"domain must be an Interval or a Circle, got {domain!r}")
    goals = ("value", "direction") if isinstance(domain, Circle) else ("mean", "value")
    if goal not in goals:
        names = " or ".join(f'"{name}"' for name in goals)
        raise ParameterError(f"goal must be {names} on {type(domain).__name__}, got {goal!r}")
    if goal != "value":
        if power is not None:
            raise ParameterError(f'power is for the goal "value" only, got {power!r} for {goal!r}')
        return 2.0 if goal == "mean" else None
    if power is None:
        return 1.0
    if isinstance(power, bool) or not isinstance(power, (int, float)) or not 1.0 <= power < math.inf:
        raise ParameterError(f"power must be finite and at least 1, got {power!r}")
    return float(power)


def check_request(
    domain: Domain, epsilon: float, *, goal: str, outputs: int | None, nodes: int | None, power: float | None
) -> Request:
    """Return a request with its defaults filled in, or raise `ParameterError`."""
    exponent = check_goal(domain, goal, power)
    number = check_epsilon(epsilon)
    if isinstance(domain, Circle):
        kind = "circle"
        outputs = next((size for size in (outputs, nodes) if size is not None), 128)
        nodes = outputs if nodes is None else nodes
    else:
        kind = "interval"
        outputs = (16 if number <= _SMALL else 32) if outputs is None else outputs
        nodes = (17 if number <= _SMALL else 33) if nodes is None else nodes
    low, high = _SIZES[kind]
    for name, size in (("outputs", outputs), ("nodes", nodes)):
        if type(size) is not int or not low <= size <= high:
            raise ParameterError(f"{name} must be an integer from {low} to {high}, got {size!r}")
    if kind == "circle" and outputs != nodes:
        raise ParameterError(f"outputs and nodes must be equal on a Circle, got {outputs} and {nodes}")
    return Request(kind, number, goal, exponent, outputs, nodes)
