"""The planned error of means: exact by brute force, and by surveys. False alarms: 1e-6 a case."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from arcwise.analysis.design import minimax
from arcwise.analysis.estimators.mean import mean
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.estimators.unbiasing import mean_numbers
from arcwise.analysis.planning import plan
from arcwise.analysis.planning.mean import MeanCurve, number_moments, worst_variance
from arcwise.analysis.simulate import Atoms, as_population, simulate_counts
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms import (
    BoundedLaplaceMechanism,
    Duchi,
    Mechanism,
    OptimalPiecewise,
    RandomizedResponse,
    SquareWave,
    StaircaseMechanism,
)
from arcwise.mechanisms.moments import variances
from tests.support.cases import mostly_slow
from tests.support.known import bounded, there
from tests.support.surveys import many_counts

UNIT = Interval(0, 1)
MAKERS: dict[str, Any] = {
    "inset": lambda epsilon: OptimalPiecewise(UNIT, epsilon),
    "design": lambda epsilon: minimax(UNIT, epsilon),
    "duchi": lambda epsilon: Duchi(UNIT, epsilon),
    "response": lambda epsilon: RandomizedResponse(UNIT, epsilon),
    "wave": lambda epsilon: SquareWave(UNIT, epsilon),
    "staircase": lambda epsilon: StaircaseMechanism(UNIT, epsilon),
}
SURVEYS = 3000


@cache
def made(name: str, epsilon: float) -> Mechanism:
    mechanism: Mechanism = MAKERS[name](epsilon)
    return mechanism


def within_chance(simulated: float, predicted: float, repeats: int = SURVEYS) -> bool:
    """Return whether an average of squared errors agrees with normal errors, up to a chance of 1e-6."""
    low, high = chi2.ppf([5e-7, 1 - 5e-7], repeats) / repeats
    return bool(low <= simulated / predicted**2 <= high)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("population", ["beta:2,5", "0.3*atom:0 + 0.2*atom:1 + rest*uniform"])
def test_surveys_have_the_planned_error(name: str, epsilon: float, population: str) -> None:
    mechanism = made(name, epsilon)
    law, n = as_population(population, UNIT), 4000
    curve = MeanCurve(mechanism, law, "population")
    counts = many_counts(mechanism, law, n, SURVEYS, seed=1)
    values = mean_numbers(mechanism, n).values
    estimates = counts @ values / n
    assert within_chance(float(((estimates - law.mean()) ** 2).mean()), curve.error(n))
    # The estimator's own average, and its interval.
    result = bounded(mean(Survey(mechanism, counts[0].astype(np.float64))))
    assert result.value == pytest.approx(estimates[0], abs=1e-12)
    half = curve.half_width(n, 0.95)
    # A sample variance of n numbers without outliers is right within a tenth.
    assert estimates[0] - result.low == pytest.approx(half, rel=0.1)


@pytest.mark.parametrize("name", MAKERS)
def test_the_planned_number_of_reports_reaches_the_error(name: str) -> None:
    mechanism, law = made(name, 1.0), as_population("beta:2,5", UNIT)
    curve = MeanCurve(mechanism, law, "population")
    n = there(curve.reports(0.02))
    assert curve.error(n) <= 0.02 < curve.error(n - 1)
    counts = many_counts(mechanism, law, n, SURVEYS, seed=2)
    estimates = counts @ mean_numbers(mechanism, n).values / n
    assert within_chance(float(((estimates - law.mean()) ** 2).mean()), 0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_the_error_for_users_has_no_part_of_sampling(name: str) -> None:
    mechanism = made(name, 2.0)
    values = np.random.default_rng(3).beta(2, 5, 50)
    curve = MeanCurve(mechanism, Atoms(values), "users")
    generator, n, repeats = np.random.default_rng(4), 500, 1000
    numbers = mean_numbers(mechanism, n).values
    found = [
        (simulate_counts(mechanism, values, n, generator, fixed=True) @ numbers / n - values.mean()) ** 2
        for _ in range(repeats)
    ]
    assert within_chance(float(np.mean(found)), curve.error(n), repeats)
    assert curve.error(n) < MeanCurve(mechanism, Atoms(values), "population").error(n)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("epsilon", mostly_slow([1.0, 0.5, 4.0], every=3))
def test_the_worst_population_is_the_worst_of_two_nodes(name: str, epsilon: float) -> None:
    """Every law of nodes has a mean m, and two nodes reach the largest second moment at m."""
    first, second = number_moments(made(name, epsilon))
    i, j = np.triu_indices(len(first))
    share = np.linspace(0, 1, 201)[:, None]
    a = (1 - share) * first[i] + share * first[j]
    brute = float(((1 - share) * second[i] + share * second[j] - a**2).max())
    worst = worst_variance(first, second, "population")
    assert brute <= worst * (1 + 1e-12)
    assert worst == pytest.approx(brute, rel=1e-4)  # shares are 1/200 apart: a parabola is off by its square


@given(data=st.data(), name=st.sampled_from(["inset", "design", "wave"]))
def test_no_population_is_worse_than_the_worst(data: st.DataObject, name: str) -> None:
    mechanism = made(name, 1.0)
    places = data.draw(st.lists(st.floats(0, 1), min_size=1, max_size=6))
    weights = np.array(data.draw(st.lists(st.integers(1, 9), min_size=len(places), max_size=len(places))))
    law = Atoms(np.array(places), weights / weights.sum())
    for target in ("population", "users"):
        worst = MeanCurve(mechanism, None, target).variance
        assert MeanCurve(mechanism, law, target).variance <= worst * (1 + 1e-12)


@pytest.mark.parametrize("name", ["inset", "design", "duchi"])
def test_the_worst_value_is_that_of_the_decoded_reports(name: str) -> None:
    mechanism = made(name, 1.0)
    grid = np.linspace(0, 1, 12_801)
    dense = float(variances(mechanism, grid).max())
    worst = worst_variance(*number_moments(mechanism), "users")
    assert dense <= worst * (1 + 1e-12)
    assert worst == pytest.approx(dense, rel=1e-5)


def test_the_square_of_populations_is_that_of_their_formulas() -> None:
    """E x^2 enters the users' error: for beta(a, b) it is a (a+1) / ((a+b) (a+b+1))."""
    mechanism = made("duchi", 1.0)  # decodes to +-c about 1/2: the variance is c^2 - E (x - 1/2)^2
    c2 = float((mechanism.code_units()[0] - 0.5) ** 2)
    for text, square in {"beta:2,5": 6 / 56, "uniform": 1 / 3, "atom:0.3": 0.09}.items():
        law = as_population(text, UNIT)
        expected = c2 - (square - law.mean() + 0.25)
        assert MeanCurve(mechanism, law, "users").variance == pytest.approx(expected, abs=1e-8)


def test_clamped_reports_tell_no_mean() -> None:
    with pytest.raises(ParameterError, match="a range of means, not a mean"):
        MeanCurve(OptimalPiecewise(UNIT, 1.0, placement="clamp"), None, "population")


def test_reports_are_enough_for_the_estimate_to_be_a_mean() -> None:
    """Wide clamped noise has huge unbiased numbers, so with few reports the estimate is a range of means."""
    mechanism = BoundedLaplaceMechanism(UNIT, 0.3)
    law = as_population("uniform", UNIT)
    curve = MeanCurve(mechanism, law, "population")
    fewest = there(curve.reports(1.0))
    assert fewest > curve.variance  # more than the error alone would need
    assert math.isinf(curve.error(fewest - 1))
    for n, told in ((fewest, True), (fewest - 1, False)):
        counts = simulate_counts(mechanism, law, n, np.random.default_rng(5)).astype(np.float64)
        assert (mean(Survey(mechanism, counts)).value is not None) is told


def test_more_reports_than_can_be_counted_are_none() -> None:
    curve = MeanCurve(made("duchi", 1.0), None, "population")
    assert curve.reports(1e-9) is None
    assert curve.reports(10.0) == 1


@pytest.mark.slow
def test_a_plan_for_a_population_takes_the_design_for_it() -> None:
    made = plan(Interval(0, 100), epsilon=2, error=0.5, population="normal:40,5", compare=True)
    assert made.chosen == made.best
    assert made.chosen.label == "LP design, population"
    assert made.chosen.command.endswith("--epsilon 2 --goal mean --population normal:40,5")
    curve = MeanCurve(
        minimax(UNIT, 2.0, population="normal:0.4,0.05"), as_population("normal:0.4,0.05", UNIT), "population"
    )
    assert made.reports == curve.reports(0.005)
    general = next(row for row in made.rows if row.label == "LP design, mean")
    assert general.reports / made.reports == pytest.approx(1.57, abs=0.01)
    assert general.command.endswith("--goal mean")


@pytest.mark.slow
def test_several_populations_count_alike() -> None:
    lines = ["beta:2,5", "0.5*atom:0 + 0.5*atom:100", "beta:2,5"]
    made = plan(Interval(0, 100), epsilon=2, reports=1000, population=lines, compare=False)
    assert made.holds == f"on average for {' and '.join(lines)}"
    assert made.chosen.command.count("--population") == 3
    assert "--population '0.5*atom:0 + 0.5*atom:100'" in made.chosen.command
    mechanism = minimax(Interval(0, 100), 2.0, population=lines)
    each = [MeanCurve(mechanism, as_population(line, Interval(0, 100)), "population") for line in lines]
    expected = 100 * math.sqrt(sum(curve.variance for curve in each) / 3000)
    assert made.error == pytest.approx(expected, rel=1e-9)
    # A list of values is one population, and no command can write it: it comes with its own design.
    values = plan(Interval(0, 100), epsilon=2, reports=1000, population=[10.0, 20.0])
    assert (values.holds, values.chosen.label) == ("for the given population", "LP design, mean")
    assert next(row.command for row in values.rows if row.label == "LP design, population") == ""
    with pytest.raises(ParameterError, match="population must be a single one for a direction, got 2"):
        plan(Circle(1), epsilon=1, reports=10, population=["vonmises:0,1", "vonmises:0.5,1"])
