"""The target of an interval: the mean, variance, direction and length of these users or of the population."""

import math
from typing import Any

import numpy as np
import pytest

from arcwise.analysis import estimate
from arcwise.analysis.estimators.differences import mean_difference
from arcwise.analysis.estimators.direction import direction, first_moment, resultant_length
from arcwise.analysis.estimators.inference_target import device_variance
from arcwise.analysis.estimators.mean import mean
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.estimators.variance import spread
from arcwise.analysis.simulate import simulate_counts
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms import Mechanism, OptimalCircular, OptimalPiecewise
from arcwise.mechanisms.circular import CircularMechanism
from arcwise.tasks import Task
from arcwise.typing import FloatArray
from tests.support.cases import mostly_slow
from tests.support.known import there
from tests.support.strategies import ALL_EXAMPLES, Example
from tests.support.surveys import drawn_counts, node_distribution

UNIT = Interval(0, 1)


def reported(mechanism: Mechanism, values: FloatArray, seed: int) -> FloatArray:
    """Return the counts of one report of each of these values."""
    generator = np.random.default_rng(seed)
    return simulate_counts(mechanism, values, len(values), generator, fixed=True).astype(np.float64)


@pytest.mark.slow
def test_coverage_of_the_mean_of_these_users() -> None:
    """300 surveys of the same users; at 0.95 fewer than 269, or more than 298, have probability 1e-4."""
    mechanism = OptimalPiecewise(UNIT, 6.0)
    values = np.random.default_rng(4).beta(2, 5, 2000)
    users = population = 0
    for seed in range(300):
        counts = reported(mechanism, values, seed)
        users += mean(Survey(mechanism, counts, target="users")).contains(float(values.mean()))
        population += mean(Survey(mechanism, counts)).contains(float(values.mean()))
    assert 269 <= users <= 298
    # Two thirds of the reports' variance come from the values, so the wider interval is hardly ever wrong.
    assert population == 300


@pytest.mark.slow
def test_coverage_of_the_population_that_users_are_drawn_from() -> None:
    """300 surveys, each of different users: the interval for these users is too short for a population.

    At 0.95, fewer than 269 or more than 298 have probability 1e-4; at 0.8, 269 or more have 1e-5.
    """
    mechanism = OptimalPiecewise(UNIT, 6.0)
    users = population = 0
    for seed in range(300):
        generator = np.random.default_rng([seed, 1])
        values = generator.beta(2, 5, 1000)
        counts = simulate_counts(mechanism, values, 1000, generator, fixed=True).astype(np.float64)
        users += mean(Survey(mechanism, counts, target="users")).contains(2 / 7)
        population += mean(Survey(mechanism, counts)).contains(2 / 7)
    assert 269 <= population <= 298
    assert users < 269


@pytest.mark.slow
def test_coverage_of_direction_and_length_of_these_users() -> None:
    """200 surveys of the same users; at 0.95 fewer than 177 or more than 199 have probability 1e-4."""
    task = Task("heading", Circle(360), epsilon=4.0)
    mechanism = OptimalCircular(Circle(360), 4.0)
    values = np.degrees(np.random.default_rng(4).vonmises(1.0, 1.0, 2000)) % 360
    moment = complex(np.exp(1j * np.radians(values)).mean())
    angle = math.degrees(math.atan2(moment.imag, moment.real))
    directions = lengths = population = 0
    for seed in range(200):
        counts = reported(mechanism, values, seed)
        users = Survey(mechanism, counts, target="users")
        heading, shaft = direction(users), resultant_length(users)
        directions += heading.contains(angle, period=360)
        lengths += shaft.contains(abs(moment))
        population += direction(Survey(mechanism, counts)).contains(angle, period=360)
        if seed < 5:  # an estimate says the same
            found = estimate(task, counts.astype(np.int64), target="users")
            assert (found.direction, found.resultant_length) == (heading.on_circle(360), shaft)
            assert there(found.circular_variance).contains(1 - abs(moment)) == shaft.contains(abs(moment))
    assert 177 <= directions <= 199
    assert 177 <= lengths <= 199
    assert population == 200


@pytest.mark.parametrize("example", mostly_slow(ALL_EXAMPLES, every=2, ids=repr))
@pytest.mark.parametrize("n", [3, 10_000])
def test_no_mechanism_tells_less_of_its_users_than_of_a_population(example: Example, n: int) -> None:
    mechanism = example.make(2.0)
    law = node_distribution(mechanism, mechanism.domain.from_unit(np.random.default_rng(1).beta(2, 4, 5000)))
    counts = drawn_counts(mechanism, law, n, 3)
    users, population = Survey(mechanism, counts, target="users"), Survey(mechanism, counts)
    if isinstance(mechanism, CircularMechanism):
        # Of two dimensions, one may gain and the other lose by the errors of the estimated covariances.
        if n > 3:
            narrow, wide = direction(users), direction(population)
            assert length(narrow) <= 1.02 * length(wide)
        return
    narrow, wide = mean(users), mean(population)
    assert length(narrow) <= length(wide) * (1 + 1e-12)
    assert narrow.value == wide.value
    narrow, wide = (spread(each).variance for each in (users, population))
    assert length(narrow) <= length(wide) * (1 + 1e-12)


def length(value: Any) -> float:
    return float(value.high - value.low)


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 12.0])
def test_the_variance_of_devices_is_that_of_their_reports(epsilon: float) -> None:
    mechanism = OptimalPiecewise(UNIT, epsilon, nodes=33)
    kernel, numbers = mechanism.kernel, mechanism.code_units()
    matrix = kernel.matrix()

    def of_reports(x: float) -> float:
        row = node_distribution(mechanism, [x]) @ matrix
        return float(row @ numbers**2 - (row @ numbers) ** 2)

    at_nodes, between = np.array([2, 2, 9, 30]) / 32, (np.array([2, 2, 9, 30]) + 0.5) / 32
    for values, rounding in ((at_nodes, 1 / 32**2 / 4), (between, 0.0)):
        law = node_distribution(mechanism, values)
        expected = np.mean([of_reports(x) for x in values]) + rounding  # counted even if there is no rounding
        assert device_variance(kernel, numbers, law) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_covariance_of_devices_is_that_of_their_reports(epsilon: float) -> None:
    mechanism = OptimalCircular(Circle(1), epsilon, nodes=32)
    law = np.random.default_rng(1).dirichlet(np.ones(32) / 4)
    turns = np.exp(2j * np.pi * mechanism.code_units())
    points = np.stack([turns.real, turns.imag])
    expected = np.zeros((2, 2))
    for node, weight in enumerate(law):
        row = mechanism.kernel.probabilities([node])[0]
        centred = points - (points @ row)[:, None]
        expected += weight * (centred * row) @ centred.T
    expected /= mechanism.attenuation() ** 2
    counts = drawn_counts(mechanism, law, 1000, 1)
    got = 1000 * first_moment(Survey(mechanism, counts, target="users", probabilities=law)).covariance
    extra = np.linalg.eigvalsh(got - expected)
    # The rest is at most the maximum effect of rounding to nodes: (2 sin(pi/N))^2 / 4 in all.
    assert extra.min() >= -1e-9
    assert extra.sum() == pytest.approx(math.sin(math.pi / 32) ** 2, rel=1e-6)


def test_reports_that_agree_do_not_make_users_certain() -> None:
    mechanism = OptimalPiecewise(UNIT, 1.0)
    counts = np.zeros(mechanism.kernel.codes)
    counts[60] = 3
    found = mean(Survey(mechanism, counts, target="users"))
    assert length(found) > 1.0
    assert "of the devices that reported, not of the population" in found.note


def test_a_clamped_task_has_a_shorter_range_for_its_users() -> None:
    task = Task("rating", Interval(0, 10), epsilon=6.0, goal="value")
    counts = reported(task.mechanism, np.random.default_rng(1).uniform(1, 9, 5000), 1).astype(np.int64)
    wide, narrow = (estimate(task, counts, target=target).mean for target in ("population", "users"))
    assert narrow is not None
    assert narrow.value is None
    assert length(narrow) < length(wide)


def test_differences_for_these_users() -> None:
    mechanism = OptimalPiecewise(UNIT, 6.0)
    generator = np.random.default_rng(1)
    samples = [reported(mechanism, generator.beta(a, 5, 3000), 2) for a in (2, 3)]
    wide = mean_difference(*(Survey(mechanism, each) for each in samples))
    narrow = mean_difference(*(Survey(mechanism, each, target="users") for each in samples))
    assert narrow.value == wide.value
    assert length(narrow) < 0.7 * length(wide)
    assert "devices" in narrow.method
    assert "not of the populations" in narrow.note
    unknown: Any = "everybody"
    with pytest.raises(ParameterError, match='target must be "population" or "users", got \'everybody\''):
        Survey(mechanism, samples[0], target=unknown)


def test_the_result_says_whom_it_speaks_about() -> None:
    task = Task("age", Interval(0, 100), epsilon=1.0)
    counts = reported(task.mechanism, np.random.default_rng(1).uniform(0, 100, 500), 1).astype(np.int64)
    assert "the population" in estimate(task, counts).target
    users = estimate(task, counts, target="users")
    assert users.target in str(users)
    assert "quantiles, shares and mode are the population's" in users.to_dict()["target"]
    assert users.quantiles == estimate(task, counts).quantiles
    unknown: Any = "everybody"
    with pytest.raises(ParameterError, match='target must be "population" or "users"'):
        estimate(task, counts, target=unknown)
