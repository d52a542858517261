"""Goals: what a task's reports are for, and the mechanism that serves it best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from arcwise.domains import Circle, Interval
from arcwise.errors import TaskError

if TYPE_CHECKING:
    from arcwise.domains import Domain
    from arcwise.mechanisms.base import Mechanism

__all__ = ["checked_goal", "mechanism_for"]

_GOALS: Final = {Interval: ("distribution", "mean", "value"), Circle: ("direction", "distribution")}
_MANY_REPORTS: Final = 1_000_000


def checked_goal(goal: str | None, domain: Domain, mechanism: Mechanism | None) -> str:
    """Return the goal, or the default one of the mechanism or the domain where none is given."""
    goals = _GOALS[type(domain)]
    if goal is None:
        return goals[0] if mechanism is None else mechanism.default_goal
    if goal not in goals:
        known = ", ".join(f'"{known}"' for known in goals)
        raise TaskError(f"goal on {type(domain).__name__} must be one of {known}; got {goal!r}")
    return goal


def mechanism_for(goal: str, domain: Domain, epsilon: float, expected_reports: int | None) -> Mechanism:
    """Return the mechanism that serves a goal; raises `TaskError` where a solver has to design it."""
    if goal == "mean":
        raise TaskError(
            'goal "mean" needs a mechanism that a solver designs: write the task with '
            "`arcwise task new --goal mean`, or give it mechanism=arcwise.server.design.minimax(domain, "
            'epsilon); the default goal "distribution" gives an unbiased mean too'
        )
    # Here, because a task that is loaded names its mechanism.
    from arcwise.mechanisms.optimal import OptimalCircular, OptimalPiecewise
    from arcwise.mechanisms.window import DEFAULT_NODES

    if isinstance(domain, Circle):
        return OptimalCircular(domain, epsilon)
    if goal == "value":
        return OptimalPiecewise(domain, epsilon, placement="clamp")
    many = expected_reports is not None and expected_reports >= _MANY_REPORTS
    return OptimalPiecewise(
        domain, epsilon, nodes=2 * DEFAULT_NODES if many and not domain.discrete else None
    )
