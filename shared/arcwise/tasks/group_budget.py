"""The division of one epsilon among a group's tasks: how many tasks a device reports, and the cost of each.

Everything is rounded down in rational arithmetic, so a round never costs more than the budget.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from arcwise.checks import real_or_nan
from arcwise.digits import rounded_up
from arcwise.errors import TaskError
from arcwise.kernels.certificate import EPSILON_MAX, EPSILON_MIN, exact_epsilon

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Sample: TypeAlias = int | Literal["auto"] | None

_WANG_EPSILON: Final = Fraction(5, 2)


def wang_sample(epsilon: float, tasks: int) -> int:
    """Return k, the number of tasks out of d that a device reports, by the rule of Wang et al. (ICDE 2019).

    ``k = max(1, min(d, floor(epsilon / 2.5)))``: the number of the d = `tasks` tasks that can have an epsilon
    of 2.5 each, but at least 1.

    Examples
    --------
    >>> [wang_sample(epsilon, 3) for epsilon in (1.0, 4.9, 5.0, 100.0)]
    [1, 1, 2, 3]
    """
    return max(1, min(tasks, math.floor(exact_epsilon(epsilon) / _WANG_EPSILON)))


def epsilon_shares(
    names: Iterable[str],
    epsilon: float,
    *,
    sample: Sample = "auto",
    weights: Mapping[str, float] | None = None,
) -> tuple[int | None, dict[str, float]]:
    """Return the number k of a group's tasks that a device reports in a round, and the epsilon of each task.

    k is None if all tasks are reported. The epsilons are given by task name, in whole millionths. `epsilon`
    is the cost of a round. `sample` is k, or "auto" for the k of `wang_sample`; None, or the number of tasks,
    means all tasks. Each task gets the epsilon ``epsilon / k``. If all tasks are reported and weights are
    given, the shares are in proportion to the weights. Raises `TaskError` if a task would have an epsilon
    below 0.01 or above 20.

    Examples
    --------
    >>> epsilon_shares(["heading", "speed"], 2.0)
    (1, {'heading': 2.0, 'speed': 2.0})
    >>> epsilon_shares(["heading", "speed"], 2.0, sample=None, weights={"heading": 2, "speed": 1})
    (None, {'heading': 1.333333, 'speed': 0.666666})
    """
    names = list(names)
    micro = micro_budget(epsilon)
    if not names:
        raise TaskError("names must hold the names of the tasks, got none")
    if sample == "auto":
        sample = wang_sample(epsilon, len(names))
    k = len(names) if sample is None else sample
    if type(k) is not int or not 1 <= k <= len(names):
        raise TaskError(
            f'sample must be "auto", None or an integer from 1 to {len(names)}, the tasks; got {sample!r}'
        )
    if weights is not None and k < len(names):
        raise TaskError(
            f"weights need a group whose tasks are all reported, but {k} of {len(names)} are: give "
            "sample=None, or no weights"
        )
    parts = dict.fromkeys(names, Fraction(1, k)) if weights is None else _parts(names, weights)
    shares = {name: math.floor(micro * part) / 1_000_000 for name, part in parts.items()}
    for name, share in shares.items():
        if not EPSILON_MIN <= share <= EPSILON_MAX:
            better = "fewer" if share < EPSILON_MIN else "more"
            raise TaskError(
                f"task {name!r} would have epsilon = {rounded_up(share, 15)}, and a task takes "
                f"{EPSILON_MIN:g} to {EPSILON_MAX:g}: take another epsilon, or let a "
                f"device report {better} tasks in a round"
            )
    return (None if k == len(names) else k), shares


def micro_budget(epsilon: object) -> int:
    """Return a budget in whole millionths, rounded down, so that charges within it never exceed epsilon."""
    number = real_or_nan(epsilon)
    if not 0 < number <= 1e9:
        raise TaskError(f"epsilon must be a number above 0, the most that a round costs; got {epsilon!r}")
    return math.floor(exact_epsilon(number) * 1_000_000)


def _parts(names: list[str], weights: Mapping[str, float]) -> dict[str, Fraction]:
    if set(weights) != set(names):
        raise TaskError(f"weights must name every task once, {sorted(names)}; got {sorted(weights)}")
    for name in names:
        if not 0 < real_or_nan(weights[name]) < math.inf:
            raise TaskError(f"weights must be positive numbers, got {weights[name]!r} for {name!r}")
    # Read as decimals, as people and `best_shares` mean them: 0.7 and 0.3 then add up to exactly 1.
    exact = {name: Fraction(repr(float(weights[name]))) for name in names}
    total = sum(exact.values())
    return {name: weight / total for name, weight in exact.items()}
