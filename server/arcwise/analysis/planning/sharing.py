"""The best way for the tasks of a group to share one epsilon.

`best_sample` finds how many tasks a device should report, and `best_shares` the share of each task. Both
minimise a sum of normalised errors of the tasks, computed from the integers that devices sample from. On an
interval, errors are shares of its range. On a circle, they are shares of half the period, the largest
distance.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np

from arcwise.analysis.planning.direction import DirectionCurve
from arcwise.analysis.planning.mean import number_moments, worst_variance
from arcwise.analysis.planning.request import DEFAULT_LENGTH
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import EPSILON_MAX, EPSILON_MIN
from arcwise.tasks import Task
from arcwise.tasks.group_budget import epsilon_shares, micro_budget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from arcwise.domains import Domain
    from arcwise.mechanisms import Mechanism
    from arcwise.mechanisms.circular import CircularMechanism
    from arcwise.typing import FloatArray

Measure: TypeAlias = Literal["estimate", "value", "average"]
"""The kind of error that is added up, see `report_error`."""

_MEASURES = ("estimate", "value", "average")
_MANY = 1e12
"""The number of reports at which the error of a direction equals that of the delta method."""

_PLACES = 8
"""Values tried per node for the worst case. Between two such values, the error is a flat parabola."""

_STEPS = 100
"""The first search for shares divides epsilon into this many steps; the second divides each step by ten."""


class SampleError(NamedTuple):
    """The error of the estimates if a device reports `sample` of the d tasks.

    `error` is the sum over the tasks of n times the squared normalised error of the estimate from n devices.
    It is infinite if a task's epsilon would be out of bounds.
    """

    sample: int
    error: float


def report_error(
    domain: Domain, epsilon: float, *, goal: str | None = None, measure: Measure = "estimate"
) -> float:
    """Return the normalised error of one report of a task with a goal, by default the domain's default goal.

    "estimate" is n times the squared standard error of the mean from n reports, for the worst population. On
    a circle, the standard error is that of the mean direction, for the worst population with a resultant
    length of 0.5. "value" is the expected distance of one decoded report from the value, for the worst value.
    "average" is this distance averaged over evenly spread values. If the domain has a step, only its values
    are considered.

    Examples
    --------
    >>> from arcwise.domains import Circle
    >>> round(report_error(Circle(360), 1.0, measure="value"), 3)
    0.378
    >>> round(1 / (1 + math.exp(0.5)), 3)  # the closed form of the continuous mechanism
    0.378
    """
    if measure not in _MEASURES:
        known = ", ".join(f'"{name}"' for name in _MEASURES)
        raise ParameterError(f"measure must be one of {known}; got {measure!r}")
    circular = domain.circular
    if goal == "mean" and not circular:
        from arcwise.analysis.design import minimax

        mechanism: Mechanism = minimax(domain.unit(), epsilon, goal="mean")
    else:
        mechanism = Task("planned", domain.unit(), epsilon, goal=goal).mechanism
    if measure == "estimate" and circular:
        turns = DirectionCurve(cast("CircularMechanism", mechanism), None, DEFAULT_LENGTH).error(int(_MANY))
        return (2.0 * turns) ** 2 * _MANY
    if measure == "estimate":
        return worst_variance(*number_moments(mechanism), "population")
    if not mechanism.rounds:
        errors = mechanism.expected_errors(mechanism.domain.values())
        total = float(errors.max() if measure == "value" else errors.mean())
        return 2.0 * total if circular else total
    nodes = mechanism.kernel.nodes
    steps = _PLACES * (nodes if circular else nodes - 1)
    errors = mechanism.expected_errors(np.linspace(0.0, 1.0, steps + 1))
    total = float(errors.max()) if measure == "value" else float((errors[1:] + errors[:-1]).mean()) / 2
    return 2.0 * total if circular else total


def sample_errors(
    domains: Mapping[str, Domain], epsilon: float, *, goals: Mapping[str, str] | None = None
) -> tuple[SampleError, ...]:
    """Return the error of the estimates if devices report k of the d tasks, for every k from 1 to d.

    The arguments are as for `Group.share_budget`. Each reported task gets epsilon/k.

    From n devices, a task gets n k/d reports. So its squared error is ``d/k`` times the squared error of n
    reports.
    """
    goals = {} if goals is None else goals
    found = []
    for k in range(1, len(domains) + 1):
        if not EPSILON_MIN <= epsilon / k <= EPSILON_MAX:
            found.append(SampleError(k, math.inf))
            continue
        _, shares = epsilon_shares(domains, epsilon, sample=k)
        total = sum(report_error(domains[name], shares[name], goal=goals.get(name)) for name in domains)
        found.append(SampleError(k, total * len(domains) / k))
    return tuple(found)


def best_sample(
    domains: Mapping[str, Domain], epsilon: float, *, goals: Mapping[str, str] | None = None
) -> int:
    """Return the number of tasks that a device should report: the k with the least error of the estimates.

    Examples
    --------
    >>> from arcwise.domains import Circle, Interval
    >>> domains = {"heading": Circle(360), "speed": Interval(0, 180)}
    >>> [best_sample(domains, epsilon) for epsilon in (1.0, 8.0)]
    [1, 2]
    """
    best = min(sample_errors(domains, epsilon, goals=goals), key=lambda each: each.error)
    if best.error == math.inf:
        raise ParameterError(
            f"epsilon must be from {EPSILON_MIN:g} to {EPSILON_MAX * len(domains):g}, got {epsilon!r}"
        )
    return best.sample


def best_shares(
    domains: Mapping[str, Domain],
    epsilon: float,
    *,
    goals: Mapping[str, str] | None = None,
    measure: Measure = "estimate",
) -> dict[str, float]:
    """Return the shares of epsilon with the least sum of normalised errors, if every task is reported.

    `domains` and `goals` map the names of tasks to domains and goals. The goal "mean" is refused, because it
    needs a solver for every share that is tried. Use "value" for tasks in which single reports should be near
    their values. `measure` is as in `report_error`. The result maps each name to its epsilon, a multiple of
    one millionth. Use it as the ``weights`` of `Group.share_budget`.

    The search is exhaustive (dynamic programming over the tasks), first in steps of a hundredth of epsilon,
    then in steps of a thousandth around the best shares. Since mechanisms have grids of nodes, errors fall in
    small steps, and a descent could stop at such a step.

    Examples
    --------
    >>> from arcwise.domains import Circle, Interval
    >>> from arcwise.tasks import Group
    >>> domains = {"direction": Circle(360), "distance": Interval(0, 50)}
    >>> shares = best_shares(domains, 2.0)
    >>> shares["direction"] > shares["distance"]
    True
    >>> group = Group.share_budget("walk", domains, 2.0, sample=None, weights=shares)
    """
    goals = {} if goals is None else goals
    if "mean" in goals.values():
        raise ParameterError(
            'goals must not be "mean", which needs a solver for every share: give "distribution" instead'
        )
    if measure != "estimate":
        for name, domain in domains.items():
            if not domain.circular and goals.get(name) != "value":
                raise ParameterError(
                    f'goals must be "value" for {name!r} with measure {measure!r}, which is about '
                    "single reports: other goals make reports for averages"
                )
    names = list(domains)
    if not names or not EPSILON_MIN * len(names) <= epsilon <= EPSILON_MAX * len(names):
        raise ParameterError(
            f"epsilon must be from {EPSILON_MIN:g} to {EPSILON_MAX:g} for each of the tasks, got {epsilon!r} "
            f"for {len(names)}"
        )

    def errors(name: str, shares: NDArray[Any]) -> FloatArray:
        return np.array(
            [
                report_error(domains[name], share, goal=goals.get(name), measure=measure)
                if EPSILON_MIN <= share <= EPSILON_MAX
                else math.inf
                for share in (float(share) for share in shares)
            ]
        )

    micro = micro_budget(epsilon)
    step = micro / _STEPS
    parts = _least([errors(name, np.arange(_STEPS + 1) * step / 1e6) for name in names])
    # Try all shares from ten finer steps below the best to ten above, counted from the lowest.
    starts = [part * step - step for part in parts]
    fine = np.arange(2 * 10 + 1) * step / 10
    finer = _least(
        [errors(name, (start + fine) / 1e6) for name, start in zip(names, starts, strict=True)],
        total=10 * len(names),
    )
    return {
        name: math.floor(start + part * step / 10 + 1e-6) / 1e6
        for name, start, part in zip(names, starts, finer, strict=True)
    }


def _least(errors: list[FloatArray], total: int | None = None) -> list[int]:
    """Return one index into each array, with the given sum of indices and the least sum of entries."""
    total = len(errors[0]) - 1 if total is None else total
    sums = np.full(total + 1, math.inf)
    sums[0] = 0.0
    choices = []
    for each in errors:
        table = np.full((total + 1, len(each)), math.inf)
        for part, error in enumerate(each[: total + 1]):
            table[part:, part] = sums[: total + 1 - part] + error
        choices.append(table.argmin(axis=1))
        sums = table.min(axis=1)
    parts, left = [], total
    for choice in reversed(choices):
        parts.append(int(choice[left]))
        left -= parts[-1]
    return parts[::-1]
