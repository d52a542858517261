"""Designs on the values of a lattice: exact, optimal by the dual bound, and their gains."""

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from arcwise.analysis import estimate
from arcwise.analysis.design import designer as module
from arcwise.analysis.design import lower_bound, minimax, worst_case
from arcwise.analysis.design.integers import exact_bias
from arcwise.analysis.design.request import MOST_DESIGNED
from arcwise.analysis.simulate import simulate_counts
from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import UNIT, exp_lower_bound
from arcwise.mechanisms import DesignedCircular, DesignedTable, OptimalPiecewise
from arcwise.tasks import Task
from tests.support.known import bounded

RATINGS, LIKERT = Interval(0, 10, step=1), Interval(1, 5, step=1)


@cache
def designed(domain: Domain, epsilon: float, goal: str = "mean", power: float | None = None) -> Any:
    return minimax(domain, epsilon, goal=goal, power=power, cache=False)


def exact_losses(mechanism: DesignedTable, power: int) -> list[Fraction]:
    """Return ``E|y-x|^power`` at each value in exact arithmetic, from the integers and the output values."""
    low, length = Fraction(mechanism.domain.low), Fraction(mechanism.domain.length)
    outputs = [low + length * Fraction(float(unit)) for unit in mechanism.code_units()]
    values = [Fraction(float(value)) for value in mechanism.domain.values()]
    return [
        sum((w * abs(y - x) ** power for w, y in zip(row, outputs, strict=True)), Fraction(0)) / UNIT
        for row, x in zip(mechanism.kernel.rows, values, strict=True)
    ]


@pytest.mark.parametrize(
    "epsilon", [0.5, 2.0, 8.0, *(pytest.param(each, marks=pytest.mark.slow) for each in (1.0, 4.0))]
)
@pytest.mark.parametrize(
    "domain",
    [pytest.param(RATINGS, marks=pytest.mark.slow), LIKERT, Interval(0, 1, step=1), Interval(-2, 3, step=1)],
    ids=str,
)
def test_the_table_is_exact_at_every_value(domain: Interval, epsilon: float) -> None:
    mechanism = designed(domain, epsilon)
    assert mechanism.kernel.nodes == domain.size
    ratio = mechanism.kernel.ratio()
    assert exp_lower_bound(epsilon) * (1 - Fraction(1, 10**7)) < ratio <= exp_lower_bound(epsilon)
    assert exact_bias(mechanism.kernel.rows, mechanism.code_units().tolist()) < 1e-15
    assert mechanism.unbiased
    assert float(max(exact_losses(mechanism, 2))) == pytest.approx(worst_case(mechanism), rel=1e-9)
    for value in domain.values().tolist():
        assert mechanism.mean(value) == pytest.approx(value, abs=1e-12)


# Reports that the default goal's mean needs per report of the design, at the worst value.
GAINS = {
    RATINGS: {0.5: 1.318, 1.0: 1.308, 2.0: 1.362, 4.0: 2.426},
    LIKERT: {0.5: 1.307, 1.0: 1.360, 2.0: 1.728, 4.0: 1.220},
}


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("domain", [pytest.param(RATINGS, marks=pytest.mark.slow), LIKERT], ids=str)
def test_no_mechanism_is_better_and_the_default_needs_more_reports(domain: Interval, epsilon: float) -> None:
    worst = worst_case(designed(domain, epsilon))
    bound = lower_bound(domain, epsilon)
    assert bound <= worst <= bound * 1.002
    default = OptimalPiecewise(domain, epsilon)
    most = max(default.variance(value) for value in domain.values().tolist())
    assert most / worst == pytest.approx(GAINS[domain][epsilon], abs=0.002)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("domain", [RATINGS, LIKERT], ids=str)
def test_single_values_are_nearer_than_with_the_default(domain: Interval, epsilon: float) -> None:
    mechanism = designed(domain, epsilon, "value")
    worst, bound = worst_case(mechanism, goal="value"), lower_bound(domain, epsilon, "value")
    assert bound <= worst <= bound * (1 + 1e-5)
    assert float(max(exact_losses(mechanism, 1))) == pytest.approx(worst, rel=1e-9)
    assert set(mechanism.values.tolist()) <= set(domain.values().tolist())
    clamp = OptimalPiecewise(domain, epsilon, placement="clamp").expected_errors(domain.values()).max()
    assert worst < 0.97 * clamp


def test_squared_errors_have_outputs_between_values() -> None:
    mechanism = designed(LIKERT, 1.0, "value", 2.0)
    worst = worst_case(mechanism, goal="value", power=2.0)
    assert lower_bound(LIKERT, 1.0, "value", power=2.0) == pytest.approx(worst, rel=1e-3)
    assert float(max(exact_losses(mechanism, 2))) == pytest.approx(worst, rel=1e-9)


@pytest.mark.parametrize("goal", ["direction", "value"])
@pytest.mark.parametrize("size", [3, 7, 8, 24])
def test_circles(size: int, goal: str) -> None:
    """Each row falls away from the value: compared with all windows around it, by brute force."""
    domain = Circle(360, step=360 / size)
    mechanism = designed(domain, 1.5, goal)
    assert isinstance(mechanism, DesignedCircular)
    turns = np.arange(size) / size
    loss = 1 - np.cos(2 * np.pi * turns) if goal == "direction" else 360 * np.minimum(turns, 1 - turns)
    order = np.argsort(loss, kind="stable")
    best = math.inf
    for inside in range(1, size):
        row = np.ones(size)
        row[order[:inside]] = math.exp(1.5)
        best = min(best, float(row @ loss / row.sum()))
    assert worst_case(mechanism, goal=goal) == pytest.approx(best, rel=1e-6)
    errors = mechanism.expected_errors(domain.values())
    assert goal == "direction" or errors == pytest.approx(np.full(size, best), rel=1e-6)


@pytest.mark.slow
def test_numbers_between_values_count_where_they_are_rounded_by_chance() -> None:
    stochastic = Interval(0, 10, step=1, rounding="stochastic")
    mechanism = designed(stochastic, 4.0)
    worst = worst_case(mechanism)
    errors = mechanism.expected_errors(np.linspace(0, 10, 641), 2.0)
    assert worst * (1 - 1e-3) <= errors.max() <= worst * (1 + 1e-9)
    assert worst > 1.02 * worst_case(designed(RATINGS, 4.0))


def test_the_estimate_of_a_survey() -> None:
    task = Task("rating", RATINGS, 1.0, goal="mean", mechanism=designed(RATINGS, 1.0))
    again = Task.from_bytes(task.to_bytes())
    assert again.mechanism.kernel == task.mechanism.kernel
    population = "0.3*atom:2 + 0.2*atom:3 + 0.5*atom:9"
    counts = simulate_counts(again, population, 100_000, np.random.default_rng(5))
    mean = bounded(estimate(again, counts).mean)
    assert mean.low < 5.7 < mean.high
    assert mean.high - mean.low < 2 * 2.1 * math.sqrt((worst_case(designed(RATINGS, 1.0)) + 12) / 1e5)


@pytest.mark.slow
def test_a_lattice_and_its_nodes_without_values_between_are_other_designs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    continuous = minimax(Interval(0, 10), 4.0, nodes=11)
    lattice = minimax(RATINGS, 4.0)
    assert continuous.kernel != lattice.kernel
    monkeypatch.setattr(module, "find_table", None)
    assert minimax(Interval(0, 100, step=10), 4.0).kernel == lattice.kernel  # from the cache


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: minimax(Interval(0, MOST_DESIGNED, step=1), 1.0),
            "domain must have from 2 to 257 values for a design with a node for each, got 258: take another",
        ),
        (lambda: minimax(Circle(2, step=1), 1.0, goal="value"), "from 3 to 4096 values .* got 2"),
        (lambda: minimax(RATINGS, 1.0, nodes=17), "nodes must be left out if .* 11 values, got 17"),
        (lambda: minimax(Circle(8, step=1), 1.0, goal="value", outputs=9), "must be equal on a Circle"),
        (lambda: lower_bound(Circle(8, step=1), 1.0, "value"), "domain must be an Interval"),
        (lambda: lower_bound(RATINGS, 1.0, inputs=33), "inputs must be left out if the domain has a step"),
        (lambda: lower_bound(Interval(0, 1, step=0.2), 1.0), "domain must have an odd number of values"),
    ],
)
def test_what_cannot_be_designed_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


def test_more_than_1024_values_are_continuous() -> None:
    mechanism = minimax(Interval(0, 2000, step=1), 1.0, nodes=5, outputs=4, cache=False)
    assert (mechanism.lattice, mechanism.kernel.nodes) == (None, 5)
