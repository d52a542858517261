"""Shares of one epsilon: the best number of tasks in a round, and the best split between tasks."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcwise.analysis.estimators.mean import mean
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.planning import best_sample, best_shares, report_error, sample_errors
from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import ParameterError, TaskError
from arcwise.kernels.certificate import exact_epsilon
from arcwise.randomness import InsecureSeededRandomness
from arcwise.tasks import Group, Task
from arcwise.tasks.group_budget import wang_sample
from tests.support.cases import mostly_slow
from tests.support.known import bounded, there

DOMAINS: dict[str, Domain] = {"direction": Circle(360), "distance": Interval(-5, 45)}
VALUE = {"distance": "value"}
MEASURES = ["estimate", "value", "average"]


def closed_form(epsilon: float) -> float:
    """Return the worst expected distance of the continuous mechanism: of the range, or of half a circle."""
    return 1 / (1 + math.exp(epsilon / 2))


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=str)
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0])
def test_the_error_of_a_value_is_the_published_one(domain: Domain, epsilon: float) -> None:
    """Interval and circle have one error: by the closed form, the best split is the equal one.

    ``1 / (1 + e^(x/2))`` is convex for positive x, so of all splits the equal one has the least sum.
    """
    goal = "value" if isinstance(domain, Interval) else None
    found = report_error(domain, epsilon, goal=goal, measure="value")
    assert found == pytest.approx(closed_form(epsilon), rel=0.01)
    task = Task("x", domain, epsilon, goal=goal)
    length = domain.length if isinstance(domain, Interval) else domain.length / 2
    low = domain.low if isinstance(domain, Interval) else 0.0
    worst = max(task.mechanism.expected_error(low + domain.length * i / 54) for i in range(55))
    assert worst / length <= found * (1 + 1e-6)
    assert report_error(domain, epsilon, goal=goal, measure="average") <= found * (1 + 1e-12)


def test_the_error_of_an_estimate_is_that_of_many_reports() -> None:
    """The error of an interval is the worst variance; at the ends of the range it is reached at epsilon 1."""
    task = Task("x", Interval(0, 1), 1.0)
    counts = np.array([0.0, 1.0]) @ task.mechanism.kernel.probabilities([0, 127]) * 5e8
    counts += np.array([1.0, 0.0]) @ task.mechanism.kernel.probabilities([0, 127]) * 5e8
    found = bounded(mean(Survey(task.mechanism, counts)))
    error = (found.high - found.low) / 2 / 1.959964
    assert report_error(Interval(3, 7), 1.0) == pytest.approx(1e9 * error**2, rel=1e-4)


@pytest.mark.parametrize("sample", [1, 2])
def test_the_error_of_a_number_of_tasks_against_surveys(sample: int) -> None:
    """400 surveys of 2,000 devices with two tasks, half of the values at each end: the worst population.

    The sum of the two squared errors has a relative standard deviation of 0.05; 0.2 off has probability 1e-4.
    """
    domains: dict[str, Domain] = {"a": Interval(0, 1), "b": Interval(0, 1)}
    group = Group.share_budget("g", domains, 4.0, sample=sample)
    generator = np.random.default_rng(sample)
    squares = 0.0
    for _ in range(400):
        first = generator.binomial(2000, 0.5)
        devices = (first, 2000 - first) if sample == 1 else (2000, 2000)
        for task, number in zip(group.tasks, devices, strict=True):
            rows = task.mechanism.kernel.probabilities([0, task.mechanism.kernel.nodes - 1]).mean(axis=0)
            counts = generator.multinomial(number, rows / rows.sum()).astype(np.float64)
            value = there(mean(Survey(task.mechanism, counts)).value)
            squares += (value - 0.5) ** 2
    expected = sample_errors(domains, 4.0)[sample - 1]
    assert expected.sample == sample
    assert 2000 * squares / 400 == pytest.approx(expected.error, rel=0.2)


@pytest.mark.parametrize(("epsilon", "best", "wang"), [(1.0, 1, 1), (4.0, 2, 1), (6.0, 3, 2), (9.0, 4, 3)])
def test_where_the_rule_of_wang_is_not_the_best(epsilon: float, best: int, wang: int) -> None:
    domains: dict[str, Domain] = {name: Interval(0, 1) for name in "abcd"}
    errors = sample_errors(domains, epsilon)
    assert [each.sample for each in errors] == [1, 2, 3, 4]
    assert best_sample(domains, epsilon) == best
    assert wang_sample(epsilon, 4) == wang
    assert errors[wang - 1].error <= 1.25 * errors[best - 1].error


@pytest.mark.slow
def test_goals_have_a_part_in_the_best_number() -> None:
    goals = {"distance": "mean"}
    with_design = sample_errors(DOMAINS, 2.0, goals=goals)
    plain = sample_errors(DOMAINS, 2.0)
    assert all(one.error < other.error for one, other in zip(with_design, plain, strict=True))
    with pytest.raises(ParameterError, match="they determine a range of means, not a mean"):
        best_sample(DOMAINS, 2.0, goals={"distance": "value"})


def test_numbers_of_tasks_that_no_task_allows_are_left_out() -> None:
    errors = sample_errors(DOMAINS, 30.0)
    assert errors[0].error == math.inf
    assert best_sample(DOMAINS, 30.0) == 2
    assert best_sample(DOMAINS, 0.015) == 1
    for epsilon in (0.001, 41.0):
        with pytest.raises(ParameterError, match=r"epsilon must be from 0\.01 to 40, got"):
            best_sample(DOMAINS, epsilon)


# --- shares ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    epsilon=st.floats(0.1, 12.0),
    measure=st.sampled_from(MEASURES),
    kinds=st.sampled_from(["circle interval", "interval interval", "circle circle"]),
)
@settings(max_examples=12)
def test_no_split_on_a_grid_is_better(epsilon: float, measure: Any, kinds: str) -> None:
    """Over all shares in hundredths of epsilon, which the first search uses, and over random ones."""
    domains: dict[str, Domain] = {
        str(place): Circle(24) if kind == "circle" else Interval(0, 3)
        for place, kind in enumerate(kinds.split())
    }

    goals = {
        name: "value"
        for name, domain in domains.items()
        if measure != "estimate" and isinstance(domain, Interval)
    }

    def total(*shares: float) -> float:
        pairs = zip(domains.items(), shares, strict=True)
        return sum(
            report_error(domain, share, goal=goals.get(name), measure=measure)
            for (name, domain), share in pairs
        )

    shares = best_shares(domains, epsilon, goals=goals, measure=measure)
    assert sum(map(exact_epsilon, shares.values())) <= exact_epsilon(epsilon)
    assert sum(shares.values()) >= epsilon - 3e-6
    least = total(*shares.values())
    for part in range(1, 100, 3):
        one = epsilon * part / 100
        if 0.01 <= one <= epsilon - 0.01:
            assert least <= total(one, epsilon - one) * (1 + 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", mostly_slow([2.0, 0.5, 6.0], every=3))
def test_direction_and_distance_share_alike_for_values(epsilon: float) -> None:
    """As in the closed form, up to the effect of the grid of nodes."""
    shares = best_shares(DOMAINS, epsilon, goals=VALUE, measure="value")
    assert shares["direction"] == pytest.approx(epsilon / 2, rel=0.05)
    total = sum(
        report_error(DOMAINS[name], share, goal=VALUE.get(name), measure="value")
        for name, share in shares.items()
    )
    assert total == pytest.approx(2 * closed_form(epsilon / 2), rel=0.01)


def test_directions_need_more_for_estimates() -> None:
    shares = best_shares(DOMAINS, 2.0)
    assert shares["direction"] > 1.03
    group = Group.share_budget("walk", DOMAINS, 2.0, sample=None, weights=shares)
    assert [task.epsilon for task in group.tasks] == pytest.approx(list(shares.values()), abs=2e-6)
    assert group.charge.micro_epsilon <= 2_000_000


def test_three_tasks_share_too() -> None:
    domains = {**DOMAINS, "time": Circle(24)}
    shares = best_shares(domains, 3.0)
    assert shares["direction"] == pytest.approx(shares["time"], abs=0.07)
    assert shares["distance"] < shares["direction"]
    assert sum(shares.values()) == pytest.approx(3.0, abs=4e-6)


def test_bad_arguments_are_refused() -> None:
    nonsense: Any = "median"
    with pytest.raises(ParameterError, match='measure must be one of "estimate", "value", "average"; got'):
        report_error(Circle(1), 1.0, measure=nonsense)
    with pytest.raises(ParameterError, match='goals must not be "mean"'):
        best_shares(DOMAINS, 1.0, goals={"distance": "mean"})
    for domains, epsilon in ((DOMAINS, 0.015), (DOMAINS, 41.0), ({}, 1.0)):
        with pytest.raises(ParameterError, match="for each of the tasks, got"):
            best_shares(domains, epsilon)
    with pytest.raises(TaskError, match="goal on Circle"):
        report_error(Circle(1), 1.0, goal="value")


def test_choices_are_made_from_the_shares() -> None:
    group = Group.share_budget("walk", DOMAINS, 4.0, sample=best_sample(DOMAINS, 4.0))
    assert (group.sample, group.share) == (None, 1.0)
    assert len(group.choose(InsecureSeededRandomness(1))) == 2


@pytest.mark.parametrize("measure", ["value", "average"])
def test_single_reports_of_a_task_for_averages_are_not_compared(measure: Any) -> None:
    """Decoded reports lie far outside the range, so nearly all of epsilon would go to the distance."""
    for goals in (None, {"distance": "distribution"}):
        with pytest.raises(ParameterError, match="goals must be \"value\" for 'distance' with measure"):
            best_shares(DOMAINS, 2.0, goals=goals, measure=measure)
