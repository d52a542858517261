"""The mechanism of a new task: a registered mechanism by its name, or one designed for the task's goal."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from arcwise.analysis.design.request import designable
from arcwise.analysis.planning.fineness import worst_unit_variance
from arcwise.analysis.planning.mean import MeanCurve
from arcwise.analysis.simulate import as_populations
from arcwise.cli.terminal import progress_bar
from arcwise.digits import rounded_up
from arcwise.mechanisms import OptimalPiecewise
from arcwise.mechanisms.registry import MECHANISMS
from arcwise.tasks.goals import checked_goal
from arcwise.tasks.goals import mechanism_for as goal_mechanism

if TYPE_CHECKING:
    from arcwise.domains import Domain, Interval
    from arcwise.mechanisms import Mechanism

# A designed mechanism has no defaults. Later versions of a name replace earlier ones for new tasks.
_NEWEST = {name: version for name, version in sorted(MECHANISMS) if not name.startswith("designed-")}

NAMES = tuple(_NEWEST)

_DESIGNS_ARE_BEST_TO = 8.0
"""Up to this epsilon, `arcwise design` checks that no published mechanism is better."""
_WORTH_DESIGNING = 0.99
"""A design for single values is used if its error is below this share of the usual mechanism's error."""
_BETWEEN = 8
"""Parts into which the distance between two codes is divided to find the worst error."""
_FINE = ("piecewise-sub", "piecewise-opt", "piecewise-transformation", "randomized-response")
"""The published mechanisms with an error that keeps falling as epsilon grows and the grid gets finer."""


def mechanism_for(
    domain: Domain,
    epsilon: float,
    *,
    goal: str | None,
    name: str | None,
    delta: float | None,
    populations: tuple[str, ...] = (),
    nodes: int | None = None,
    power: float | None = None,
) -> Mechanism | None:
    """Return the requested mechanism, or None if the task is to pick the mechanism of its goal."""
    if populations and (name is not None or goal != "mean" or domain.circular):
        raise click.UsageError("--population is for --goal mean on an interval, without --mechanism")
    if name is None:
        if delta is not None:
            raise click.UsageError("--delta is for a --mechanism that spends one")
        if nodes is not None or power is not None:
            return _of_goal(domain, epsilon, goal, nodes, power)
        if domain.circular or goal not in ("mean", "value"):
            return None
        return _designed(domain, epsilon, populations) if goal == "mean" else _nearest(domain, epsilon)
    return _named(name, domain, epsilon, {"delta": delta, "nodes": nodes, "power": power})


def _named(name: str, domain: Domain, epsilon: float, options: dict[str, Any]) -> Mechanism:
    """Return a mechanism of the registry with these options; options that are None were not given."""
    cls: Any = MECHANISMS[name, _NEWEST[name]]
    takes = inspect.signature(cls).parameters
    given = {option: value for option, value in options.items() if value is not None}
    if "delta" in takes and "delta" not in given:
        raise click.UsageError(f"--mechanism {name} spends a delta: give --delta, for example 1e-6")
    for option in given:
        if option not in takes:
            has = "spends no delta" if option == "delta" else f"has no {option}"
            raise click.UsageError(f"--mechanism {name} {has}: leave --{option} out")
    if "epsilon" in takes:
        given["epsilon"] = epsilon
    elif epsilon:
        raise click.UsageError(f"--mechanism {name} spends a delta only: give --epsilon 0")
    mechanism: Mechanism = cls(domain, **given)
    return mechanism


def _of_goal(
    domain: Domain, epsilon: float, goal: str | None, nodes: int | None, power: float | None
) -> Mechanism:
    """Return the goal's own mechanism with another number of nodes, or for another loss."""
    goal = checked_goal(goal, domain, None)
    if goal == "mean":
        raise click.UsageError(
            "--nodes and --power are not for --goal mean, which designs its mechanism: in Python "
            "arcwise.analysis.design.minimax takes nodes"
        )
    return goal_mechanism(goal, domain, epsilon, nodes=nodes, power=power)


def _designed(domain: Interval, epsilon: float, populations: tuple[str, ...]) -> Mechanism:
    """Return the mechanism that the solver designs for means."""
    if domain.discrete and not designable(domain):
        raise click.UsageError(
            f"--goal mean has no design with a node for each of {domain.size} values: leave --goal out, as "
            "the mean of the default goal is unbiased too, or leave --step out"
        )
    designed = _solved(domain, epsilon, "mean", populations)
    if populations:
        general = _solved(domain, epsilon, "mean")
        right = _variance(general, populations) / _variance(designed, populations)
        wrong = worst_unit_variance(designed) / worst_unit_variance(general)
        click.echo(
            f"note: without --population, {right:.3g} times as many reports are needed in this population; "
            f"with it, up to {wrong:.3g} times as many are needed at values where the population has nobody\n"
            "note: the task is public and reveals the population: do not take it from collected data unless "
            "it may be revealed",
            err=True,
        )
    if epsilon > _DESIGNS_ARE_BEST_TO:
        _warn_where_others_are_better(designed, domain, epsilon, populations)
    return designed


def _variance(mechanism: Mechanism, populations: tuple[str, ...]) -> float:
    """Return the variance of a report: the average over the populations, or the worst case without them."""
    if not populations:
        return worst_unit_variance(mechanism)
    return MeanCurve(mechanism, as_populations(populations, mechanism.domain), "population").variance


def _nearest(domain: Interval, epsilon: float) -> Mechanism | None:
    """Return a design for single values on a lattice, if its worst error is below the usual mechanism's.

    Returns None if it is not: the goal then chooses the mechanism.
    """
    if not designable(domain):
        return None
    from arcwise.analysis.design import worst_case

    designed = _solved(domain, epsilon, "value")
    usual = OptimalPiecewise(domain, epsilon, placement="clamp")
    steps = 1 if not usual.rounds else _BETWEEN
    places = np.linspace(0.0, domain.length, steps * (usual.kernel.codes - 1) + 1)
    worst = float(usual.expected_errors(domain.low + places).max())
    return designed if worst_case(designed, goal="value") < _WORTH_DESIGNING * worst else None


def _solved(domain: Interval, epsilon: float, goal: str, populations: tuple[str, ...] = ()) -> Mechanism:
    """Return the mechanism that the solver designs, and show a progress bar meanwhile."""
    from arcwise.analysis.design import minimax

    with progress_bar("designing the mechanism", counted=False) as progress:
        return minimax(
            domain,
            epsilon,
            goal=goal,
            population=populations or None,
            progress=lambda share, text: progress(share, 1.0, text),
        )


def _warn_where_others_are_better(
    designed: Mechanism, domain: Interval, epsilon: float, populations: tuple[str, ...]
) -> None:
    """Warn if a published mechanism on a finer grid needs fewer reports than a table of few codes."""
    others: dict[str, float] = {}
    for name in _FINE:
        cls: Any = MECHANISMS[name, _NEWEST[name]]
        others[name] = _variance(cls(domain, epsilon), populations)
    best = min(others, key=others.__getitem__)
    share = others[best] / _variance(designed, populations)
    if share < 1.0:
        click.echo(
            f"note: at epsilon {rounded_up(epsilon)} --mechanism {best} needs only {share:.2g} times as many "
            "reports: a designed table is too coarse for so large an epsilon",
            err=True,
        )
