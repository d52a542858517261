"""Few reports at a large epsilon: intervals of averages cover skewed populations and unseen values.

Surveys are seeded. At a coverage of 0.95, fewer than 177 of 200 and fewer than 86 of 100 each have
probability 1e-4. There are 72 such counts, so chance fails this file for one seed in 140.
"""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import lognorm

from arcwise.analysis import Value
from arcwise.analysis.estimators.differences import mean_difference
from arcwise.analysis.estimators.direction import direction, resultant_length
from arcwise.analysis.estimators.empirical import empirical_reach
from arcwise.analysis.estimators.inference_target import device_reach, device_variance, two_sided
from arcwise.analysis.estimators.mean import average, mean
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.estimators.unbiasing import mean_numbers
from arcwise.analysis.estimators.variance import spread
from arcwise.analysis.likelihood.maximum import largest_probabilities
from arcwise.analysis.simulate import (
    Histogram,
    Population,
    as_population,
    code_law,
    multinomial,
    simulate_counts,
)
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import LaplaceMechanism, Mechanism, OptimalCircular, OptimalPiecewise
from arcwise.typing import FloatArray
from tests.support.cases import mostly_slow
from tests.support.known import bounded, ends

UNIT, TURN = Interval(0, 1), Circle(1)
FINE = np.linspace(0.0, 1.0, 20_001)


def lognormal() -> Population:
    """Return exp(N(ln 0.05, 1)), conditioned on at most 1."""
    edges = np.linspace(0, 1, 2001)
    masses = np.diff(lognorm(1.0, scale=0.05).cdf(edges))
    return Histogram(edges, masses / masses.sum())


POPULATIONS = {
    "lognormal": lognormal(),
    "one value": "atom:0.3137",
    "2 % of the domain": "uniform:0.613,0.633",
    "at an end": "uniform:0,0.02",
    "1 % far": "0.99*normal:0.1,0.02 + 0.01*atom:1",
    "3 % far": "0.97*atom:0.2 + 0.03*atom:1",
}


@cache
def interval(name: str, epsilon: float) -> tuple[Mechanism, FloatArray, float, float]:
    """Return a mechanism, the law of its codes, and the population's mean and variance."""
    mechanism = OptimalPiecewise(UNIT, epsilon)
    population = as_population(POPULATIONS[name], UNIT)
    below = population.integrated_cdf(FINE)
    centre = population.mean()
    # E X^2 by parts, with trapezoids of 1/20,000.
    square = 1.0 - 2.0 * below[-1] + 2.0 * float(below.sum() - (below[0] + below[-1]) / 2) / (FINE.size - 1)
    return mechanism, code_law(mechanism, population), centre, square - centre**2


def surveys(law: FloatArray, n: int, many: int) -> FloatArray:
    generator = np.random.default_rng([7, n])
    return multinomial(np.full(many, n), np.tile(law, (many, 1)), generator).astype(np.float64)


@pytest.mark.parametrize("name", mostly_slow(POPULATIONS, every=3))
@pytest.mark.parametrize(
    ("epsilon", "n"), [(8.0, 30), pytest.param(12.0, 30, marks=pytest.mark.slow), (8.0, 100)]
)
def test_mean_and_variance_are_covered(name: str, epsilon: float, n: int) -> None:
    mechanism, law, centre, variance = interval(name, epsilon)
    means = variances = deviations = 0
    for counts in surveys(law, n, 100):
        found = spread(Survey(mechanism, counts))
        means += mean(Survey(mechanism, counts)).contains(centre)
        variances += found.variance.contains(variance)
        deviations += found.standard_deviation.contains(math.sqrt(variance))
    assert min(means, variances, deviations) >= 86


@pytest.mark.parametrize("name", ["lognormal", "3 % far"])
def test_differences_are_covered(name: str) -> None:
    mechanism, law, centre, _ = interval(name, 8.0)
    other, other_law, other_centre, _ = interval("one value", 8.0)
    pairs = zip(surveys(law, 30, 200), surveys(other_law, 100, 200), strict=True)
    found = [mean_difference(Survey(mechanism, one), Survey(other, two)) for one, two in pairs]
    assert sum(each.contains(other_centre - centre) for each in found) >= 177


@pytest.mark.parametrize("population", ["uniform:0,0.02", "beta:2,5"])
@pytest.mark.parametrize("n", [30, 200])
@pytest.mark.slow
def test_mean_and_variance_of_these_users_are_covered(population: str, n: int) -> None:
    mechanism, drawn = OptimalPiecewise(UNIT, 8.0), as_population(population, UNIT)
    means = variances = 0
    for seed in range(100):
        generator = np.random.default_rng([seed, n])
        values = drawn.draw(n, generator)
        counts = simulate_counts(mechanism, values, n, generator, fixed=True).astype(np.float64)
        users = Survey(mechanism, counts, target="users")
        means += mean(users).contains(float(values.mean()))
        variances += spread(users).variance.contains(float(values.var()))
    assert min(means, variances) >= 86


@pytest.mark.slow
@pytest.mark.parametrize(
    ("population", "epsilon", "n"),
    [
        ("atom:0.13", 8.0, 30),
        ("0.95*atom:0.1 + 0.05*atom:0.4", 12.0, 30),
        ("0.99*normal:0.1,0.02 + 0.01*atom:0.35", 8.0, 100),
        # Along one line, |Z|^2 has one degree of freedom, not two.
        ("0.52*atom:0 + 0.48*atom:0.5", 12.0, 1000),
    ],
)
def test_direction_and_length_are_covered(population: str, epsilon: float, n: int) -> None:
    mechanism = OptimalCircular(TURN, epsilon)
    of = as_population(population, TURN)
    truth = of.trigonometric_moment()
    angle = math.atan2(truth.imag, truth.real) / (2 * math.pi)
    directions = lengths = 0
    for counts in surveys(code_law(mechanism, of), n, 200):
        directions += direction(Survey(mechanism, counts)).contains(angle, period=1.0)
        length = bounded(resultant_length(Survey(mechanism, counts)))
        # Rounding to nodes shrinks it by up to (pi/K)^2 / 2.
        lengths += length.low <= abs(truth) <= length.high + (math.pi / 128) ** 2 / 2
    assert min(directions, lengths) >= 177


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_with_many_reports_the_interval_is_students(epsilon: float) -> None:
    mechanism, n = OptimalPiecewise(UNIT, epsilon), 10_000
    numbers = mean_numbers(mechanism, n).values
    for population in ("uniform", "beta:2,5", "0.5*normal:0.3,0.05 + 0.5*normal:0.7,0.08"):
        (counts,) = surveys(code_law(mechanism, as_population(population, UNIT)), n, 1)
        survey = Survey(mechanism, counts)
        found = bounded(mean(survey))
        width = 2 * two_sided(0.95, n) * average(survey, numbers)[1]
        assert found.high - found.low == pytest.approx(width, rel=0.005)


def test_what_is_not_seen_yet_is_reckoned_with() -> None:
    """All n reports are equal: a distant share s is excluded only if (1-s)^n is too small."""
    mechanism = OptimalPiecewise(UNIT, 12.0)
    numbers = mean_numbers(mechanism, 100).values
    counts = np.zeros(mechanism.kernel.codes)
    counts[0] = 100
    found = empirical_reach(mechanism.kernel, numbers, counts, 1.96)
    share = found.distance / (numbers.max() - numbers[0])
    assert 0.025 < (1 - share) ** 100 < 0.05
    assert found.law.sum() == pytest.approx(1.0)
    assert found.law @ numbers == pytest.approx(numbers[0] + found.distance)
    # On the other side there is no code.
    assert empirical_reach(mechanism.kernel, -numbers, counts, 1.96).distance == 0.0


@pytest.mark.parametrize(("most", "counts_much"), [(1e-4, False), (1.0, True)])
def test_a_code_that_hardly_any_device_sends_counts_if_its_number_is_huge(
    most: float, counts_much: bool
) -> None:
    mechanism = LaplaceMechanism(UNIT, 2.0)
    numbers = mean_numbers(mechanism, 100).values
    law = code_law(mechanism, as_population("uniform", UNIT))
    (counts,) = surveys(law, 100, 1)
    plain = empirical_reach(mechanism.kernel, numbers, counts, 2.0).distance
    share = float(largest_probabilities(mechanism.kernel)[-1])
    assert 100 * share < 0.5
    numbers[-1] += most / share  # its possible effect on a population's average
    beyond = empirical_reach(mechanism.kernel, numbers, counts, 2.0).distance
    assert (beyond > 1.5 * plain) == counts_much


def codes_of(mechanism: Mechanism) -> st.SearchStrategy[dict[int, int]]:
    codes = st.integers(0, mechanism.kernel.codes - 1)
    return st.dictionaries(codes, st.integers(1, 10**6), min_size=1, max_size=6)


SMALL = {epsilon: OptimalPiecewise(UNIT, epsilon, nodes=32) for epsilon in (0.5, 4.0, 12.0)}
EPSILONS = st.sampled_from(sorted(SMALL))


def counted(mechanism: Mechanism, piles: dict[int, int]) -> FloatArray:
    counts = np.zeros(mechanism.kernel.codes)
    counts[list(piles)] = list(piles.values())
    return counts


@given(epsilon=EPSILONS, data=st.data())
def test_intervals_hold_their_values_and_widen_with_the_level(epsilon: float, data: st.DataObject) -> None:
    mechanism = SMALL[epsilon]
    survey = Survey(mechanism, counted(mechanism, data.draw(codes_of(mechanism))))
    for estimator in (mean, variance_of):
        low, high = around(estimator(survey, level=0.8))
        wide_low, wide_high = around(estimator(survey, level=0.99))
        slack = 1e-6 * (wide_high - wide_low)
        assert wide_low <= low + slack
        assert high <= wide_high + slack


def variance_of(survey: Survey, *, level: float) -> Value:
    return spread(survey, level=level).variance


def around(value: Value) -> tuple[float, float]:
    """Return the interval that must contain the number."""
    low, high = ends(value)
    assert value.value is None or low <= value.value <= high
    return low, high


@given(epsilon=EPSILONS, data=st.data())
def test_reflected_counts_have_reflected_reaches(epsilon: float, data: st.DataObject) -> None:
    mechanism = SMALL[epsilon]
    counts = counted(mechanism, data.draw(codes_of(mechanism)))
    numbers = mean_numbers(mechanism, counts.sum()).values
    up = empirical_reach(mechanism.kernel, numbers, counts, 2.0).distance
    down = empirical_reach(mechanism.kernel, -numbers, counts[::-1], 2.0).distance
    assert down == pytest.approx(up, rel=1e-6, abs=1e-12)


@given(epsilon=EPSILONS, data=st.data(), scale=st.floats(1e-3, 1e3), shift=st.floats(-10, 10))
def test_reaches_scale_with_the_numbers(
    epsilon: float, data: st.DataObject, scale: float, shift: float
) -> None:
    mechanism = SMALL[epsilon]
    counts = counted(mechanism, data.draw(codes_of(mechanism)))
    numbers = mean_numbers(mechanism, counts.sum()).values
    plain = empirical_reach(mechanism.kernel, numbers, counts, 2.0).distance
    other = empirical_reach(mechanism.kernel, scale * numbers + shift, counts, 2.0).distance
    assert other == pytest.approx(scale * plain, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 12.0])
def test_the_devices_reach_is_normal_with_many_reports(epsilon: float) -> None:
    mechanism = OptimalPiecewise(UNIT, epsilon)
    numbers, law = mean_numbers(mechanism, 1e9).values, np.full(128, 1 / 128)
    expected = 2.0 * math.sqrt(device_variance(mechanism.kernel, numbers, law) / 1e9)
    for sign in (-1, 1):
        assert device_reach(mechanism.kernel, sign * numbers, law, 2.0**52, 2.0) > 0.0  # rounding errors
        assert device_reach(mechanism.kernel, sign * numbers, law, 1e9, 2.0) == pytest.approx(
            expected, rel=1e-3
        )
