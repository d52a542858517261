"""Variance and standard deviation: exact expectations, rounding, ranges by brute force, coverage."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.estimators.unbiasing import _Solver, moment_numbers
from arcwise.analysis.estimators.variance import spread
from arcwise.analysis.likelihood.distribution import uniform_start
from arcwise.domains import Interval
from arcwise.mechanisms import Duchi, Mechanism, OptimalPiecewise, RandomizedResponse, SquareWave
from arcwise.mechanisms.registry import MECHANISMS
from arcwise.typing import FloatArray
from tests.support.known import ends
from tests.support.strategies import ALL_EXAMPLES, EXAMPLES, Example, epsilons
from tests.support.surveys import (
    clamped_normal,
    covered,
    drawn_counts,
    expected_counts,
    node_distribution,
    surveyed,
)

UNIT = Interval(0, 1)
DOMAIN = Interval(-20, 180)
INTERVALS = [
    example
    for key, examples in EXAMPLES.items()
    for example in examples
    if example in ALL_EXAMPLES and MECHANISMS[key].domain_type is Interval
]

MANY = 1e18
"""This many reports make a standard error negligible."""


@pytest.mark.parametrize("example", INTERVALS, ids=repr)
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_numbers_are_as_unbiased_as_they_say(example: Example, epsilon: float) -> None:
    mechanism = example.make(epsilon)
    matrix = mechanism.kernel.matrix()
    at = mechanism.node_units(np.arange(mechanism.kernel.nodes, dtype=np.float64))
    for power, numbers in enumerate(moment_numbers(mechanism, 1e5), start=1):
        np.testing.assert_allclose(matrix @ numbers.values, at**power, atol=max(numbers.bias, 1e-9))


@given(epsilon=epsilons, nodes=st.integers(2, 60), make=st.sampled_from([OptimalPiecewise, SquareWave]))
def test_the_closed_form_for_windows_varies_least(
    epsilon: float, nodes: int, make: Callable[..., Mechanism]
) -> None:
    mechanism = make(UNIT, epsilon, nodes=nodes)
    at = np.linspace(0, 1, nodes)
    population = uniform_start(mechanism)
    solver = _Solver(mechanism.kernel.matrix(), population)  # by singular values, for any kernel
    codes = population @ mechanism.kernel.matrix()
    for power, numbers in enumerate(moment_numbers(mechanism, 1e30), start=1):
        expected = solver.numbers(at**power, 1e30).values
        assert codes @ numbers.values**2 == pytest.approx(codes @ expected**2, rel=1e-9)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(numbers.values / scale, expected / scale, atol=1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("between", [0.0, 0.5, None])
def test_expected_counts_give_back_the_variance(epsilon: float, between: float | None) -> None:
    # Rounding adds t (1-t) h^2, which is 0 at nodes, h^2/4 half way, and 1/6 of h^2 on average.
    mechanism = OptimalPiecewise(DOMAIN, epsilon, nodes=41)
    h = 200 / 40
    if between is None:
        values = np.linspace(-20, 180, 40_001)
    else:
        values = -20 + h * (np.array([3, 5, 8, 9, 20, 31, 31, 35]) + between)
    found = spread(Survey(mechanism, expected_counts(mechanism, node_distribution(mechanism, values), MANY)))
    added = values.var() + h**2 * {0.0: 0.0, 0.5: 0.25, None: 1 / 6}[between]
    assert found.variance.value == pytest.approx(added - h**2 / 6, abs=1e-3)
    assert found.standard_deviation.value == pytest.approx(math.sqrt(added - h**2 / 6), abs=1e-3)
    low, high = ends(found.variance)
    assert low - 1e-3 <= values.var() <= high + 1e-3
    assert high - low == pytest.approx(h**2 / 4, abs=1e-3)


def test_two_nodes_tell_a_range_only() -> None:
    # The reports show only the mean m of the values: the variance is between 0 and m (1 - m).
    mechanism = Duchi(UNIT, 1.0)
    law = node_distribution(mechanism, [0.1, 0.2, 0.6])
    found = spread(Survey(mechanism, expected_counts(mechanism, law, MANY))).variance
    assert found.value is None
    assert ends(found) == pytest.approx((0.0, 0.3 * 0.7), abs=1e-5)
    assert "rounding to few nodes" in found.note


def largest_variance(values: FloatArray, c: float) -> float:
    """Return the largest variance with values below c and above 1 - c moved within their zones.

    It is convex in each value, so each is at an end of its zone; the function tries every number at each end.
    """
    first, last = np.count_nonzero(values <= c), np.count_nonzero(values >= 1 - c)
    inner = values[(values > c) & (values < 1 - c)]
    return max(
        float(np.r_[np.zeros(i), np.full(first - i, c), inner, np.full(last - j, 1 - c), np.ones(j)].var())
        for i in range(first + 1)
        for j in range(last + 1)
    )


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("place", ["start", "end", "both", "middle", "one end and middle"])
def test_clamp_has_the_range_of_variances_that_brute_force_finds(epsilon: float, place: str) -> None:
    mechanism = OptimalPiecewise(UNIT, epsilon, placement="clamp", nodes=65)
    kernel = mechanism.kernel
    c = kernel.window / (2 * kernel.codes)
    at = mechanism.node_units(np.array([5.0, 20.0, 32.0, 60.0]))
    values = {
        "start": np.zeros(40),
        "end": np.ones(40),
        "both": np.r_[np.zeros(13), np.ones(27)],
        "middle": np.repeat(at, 3),
        "one end and middle": np.r_[np.zeros(35), at[:3]],
    }[place]
    law = node_distribution(mechanism, values)
    found = spread(Survey(mechanism, expected_counts(mechanism, law, MANY))).variance
    assert found.value is None
    assert "no single variance" in found.note
    least = float(np.clip(values, c, 1 - c).var())
    low, high = ends(found)
    assert low == pytest.approx(max(least - 1 / kernel.codes**2 / 4, 0.0), abs=1e-5)
    # The brute force moves a 40th of the people at a time.
    assert -1e-5 <= high - largest_variance(values, c) <= 1e-3
    drawn = spread(Survey(mechanism, drawn_counts(mechanism, law, 20_000, 3))).variance
    assert ends(drawn)[0] <= least
    assert ends(drawn)[1] >= largest_variance(values, c)


@pytest.mark.parametrize("reports", [300, 100_000])
@pytest.mark.parametrize("pile", [[0.0], [1.0], [0.3], [0.0, 1.0], [0.1, 0.3, 0.35]])
def test_a_bounded_bias_gives_a_range_that_holds_the_truth(pile: list[float], reports: int) -> None:
    # 10 ranges at 0.95, of fixed seeds; the bias alone makes them wider than the errors do.
    mechanism = clamped_normal(0.5)
    found = spread(surveyed(mechanism, pile, reports, 5))
    low, high = ends(found.variance)
    assert found.variance.value is None
    assert "no numbers per code" in found.variance.note
    assert low <= np.var(pile) <= high
    assert ends(found.standard_deviation) == pytest.approx((math.sqrt(low), math.sqrt(high)))
    if reports > 300:
        assert high - low < 0.15


@pytest.mark.parametrize(
    "mechanism",
    [
        OptimalPiecewise(UNIT, 1.0),
        pytest.param(OptimalPiecewise(UNIT, 6.0, nodes=64), marks=pytest.mark.slow),
        pytest.param(SquareWave(UNIT, 2.0, nodes=33), marks=pytest.mark.slow),
        RandomizedResponse(UNIT, 2.0, nodes=20),
    ],
    ids=repr,
)
@pytest.mark.parametrize("population", ["skewed", pytest.param("uniform", marks=pytest.mark.slow)])
def test_coverage_of_the_variance(mechanism: Mechanism, population: str) -> None:
    """Of 300 surveys; at a coverage of 0.95, fewer than 269 have probability 7e-5, tried 8 times."""
    generator = np.random.default_rng(3)
    values = generator.beta(2, 5, 5000) if population == "skewed" else generator.uniform(size=5000)
    law = node_distribution(mechanism, values)
    found = [spread(Survey(mechanism, drawn_counts(mechanism, law, 3000, seed))) for seed in range(300)]
    assert covered([each.variance for each in found], float(values.var())) >= 269
    assert covered([each.standard_deviation for each in found], float(values.std())) >= 269
    # The point is unbiased except for rounding beyond h^2/6: 4 standard errors of the average.
    points = np.array([each.variance.value for each in found if each.variance.value is not None])
    assert len(points) == 300
    error = 4 * points.std() / math.sqrt(300) + 1 / (mechanism.kernel.nodes - 1) ** 2 / 6
    assert abs(points.mean() - values.var()) < error


def test_one_report_and_reports_of_no_population() -> None:
    mechanism = OptimalPiecewise(DOMAIN, 1.0)
    counts = np.zeros(mechanism.kernel.codes)
    counts[50] = 1
    one = spread(Survey(mechanism, counts))
    assert one.variance.value is None
    assert ends(one.variance) == (0.0, 10_000.0)
    assert ends(one.standard_deviation) == (0.0, 100.0)
    counts[50] = 100_000  # as if values were equal and unrandomised
    agreed = spread(Survey(mechanism, counts)).variance
    assert agreed.value == 0.0
    assert ends(agreed)[1] > 0.0
    assert "no population is likely to produce these counts" in agreed.note
    assert "clipped" in agreed.note


@pytest.mark.parametrize("domain", [Interval(0.0, 1e200), Interval(-8e307, 8e307), Interval(0.0, 1e-200)])
@pytest.mark.parametrize("placement", ["inset", "clamp"])
def test_extreme_domains_keep_the_deviation_and_tell_no_variance(domain: Interval, placement: str) -> None:
    extreme, plain = (OptimalPiecewise(each, 1.0, placement=placement) for each in (domain, UNIT))  # type: ignore[arg-type]
    counts = surveyed(plain, np.linspace(0.2, 0.9, 99), 10_000, 1).counts
    one, other = spread(Survey(plain, counts)).standard_deviation, spread(Survey(extreme, counts))
    assert np.divide(ends(other.standard_deviation), domain.length) == pytest.approx(ends(one))
    assert (other.variance.value, other.variance.low, other.variance.high) == (None, None, None)
    assert "exceed the range of a float" in other.variance.note
