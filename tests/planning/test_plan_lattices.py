"""Plans, comparisons and splits on lattices: exact by brute force over the values, and against surveys."""

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from arcwise.analysis import estimate
from arcwise.analysis.design import minimax, worst_case
from arcwise.analysis.estimators.direction import direction
from arcwise.analysis.estimators.mean import mean
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.estimators.wasserstein import wasserstein
from arcwise.analysis.grid import first_cell
from arcwise.analysis.likelihood.distribution import fit_held_out
from arcwise.analysis.mechanism_table import compare
from arcwise.analysis.planning import best_sample, best_shares, plan, report_error
from arcwise.analysis.planning.direction import DirectionCurve
from arcwise.analysis.planning.distribution import survey_error
from arcwise.analysis.planning.mean import MeanCurve
from arcwise.analysis.simulate import as_population, code_law, simulate_counts
from arcwise.domains import Circle, Domain, Interval
from arcwise.mechanisms import Duchi, OptimalCircular, OptimalPiecewise, RandomizedResponse
from arcwise.mechanisms.moments import variances
from arcwise.tasks import Task
from tests.planning.test_plan_mean import within_chance
from tests.support.cases import mostly_slow
from tests.support.commands import good, run
from tests.support.known import bounded, there
from tests.support.surveys import many_counts, turns_of

RATINGS = Interval(0, 10, step=1)
HOURS = Circle(24, step=1)
SURVEYS = 3000


@pytest.mark.parametrize(
    "domain", [RATINGS, HOURS, Interval(-1, 2, step=0.05), Circle(360, step=10, rounding="nearest")], ids=str
)
def test_the_unit_domain_has_the_same_values(domain: Domain) -> None:
    unit = domain.unit()
    assert (type(unit), unit.length, unit.size) == (type(domain), 1.0, domain.size)
    assert unit.rounding == domain.rounding
    assert [unit.to_place(value) for value in unit.values()] == list(range(unit.size or 0))


def test_the_unit_domain_of_others_is_continuous() -> None:
    assert Interval(3, 7, clip=True).unit() == Interval(0, 2000, step=1).unit() == Interval(0, 1)
    assert Circle(360).unit() == Circle(1025, step=1).unit() == Circle(1)


# --- means -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["inset", "design", "response"])
@pytest.mark.parametrize("population", ["0.3*atom:2 + 0.2*atom:3 + 0.5*atom:9", "normal:4,1", "atom:6"])
def test_surveys_have_the_planned_error(name: str, population: str) -> None:
    """A ratio of chi-squares over 3,000: false alarms 1e-6 a case."""
    make: Any = {"inset": OptimalPiecewise, "design": minimax, "response": RandomizedResponse}[name]
    mechanism, n = make(RATINGS, 2.0), 4000
    law = as_population(population, RATINGS)
    curve = MeanCurve(mechanism, law, "population")
    # The law of the values: by their nearest values, summed one by one.
    values = law.quantiles((np.arange(200_000) + 0.5) / 200_000)
    truth = float(np.rint(10 * values).mean())
    counts = many_counts(mechanism, law, n, SURVEYS, seed=1)
    results = [mean(Survey(mechanism, row.astype(np.float64))) for row in counts[:5]]
    numbers = np.array([result.value for result in results], dtype=np.float64)
    decoded = counts @ mechanism.values / n
    assert numbers == pytest.approx(decoded[:5], abs=1e-9)
    assert within_chance(float(((decoded - truth) ** 2).mean()), 10 * curve.error(n))


@pytest.mark.parametrize("rounding", ["refuse", "stochastic"])
def test_the_worst_value_is_one_of_the_values(rounding: Any) -> None:
    mechanism = RandomizedResponse(Interval(0, 4, step=1, rounding=rounding), 4.0)
    worst = MeanCurve(mechanism, None, "users").variance
    at_values = float(variances(mechanism, np.arange(5) / 4).max())
    anywhere = float(variances(mechanism, np.linspace(0, 1, 4001)).max()) if rounding != "refuse" else 0.0
    assert worst == pytest.approx(max(at_values, anywhere), rel=1e-6)
    assert (worst > 1.2 * at_values) == (rounding == "stochastic")


def test_the_error_for_users_has_no_rounding() -> None:
    """At one value only the mechanism varies, with the same number of reports from each user."""
    mechanism, n = OptimalPiecewise(Interval(0, 4, step=1), 4.0), 1000
    values = np.array([1.0, 1.0, 2.0, 4.0])
    curve = MeanCurve(mechanism, as_population(values, mechanism.domain), "users")
    expected = np.mean([mechanism.variance(value) for value in values]) / 16
    assert curve.variance == pytest.approx(expected, rel=1e-9)
    generator = np.random.default_rng(4)
    counts = [simulate_counts(mechanism, values, n, generator, fixed=True) for _ in range(1500)]
    squares = (np.array(counts) @ mechanism.values / n - 2.0) ** 2
    assert within_chance(float(squares.mean()), 4 * curve.error(n), 1500)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_a_plan_for_ratings_takes_the_design_on_its_values(epsilon: float) -> None:
    made = plan(RATINGS, epsilon=epsilon, error=0.05, target="users")
    chosen = made.chosen
    assert (chosen.label, chosen.nodes) == ("LP design, mean", 11)
    assert made.best.label == chosen.label
    assert chosen.command.startswith("arcwise task new NAME --domain 0:10 --step 1 --epsilon")
    variance = worst_case(minimax(RATINGS, epsilon))
    assert made.reports == math.ceil(variance / 0.05**2)
    default = next(row for row in made.rows if row.label == "optimal-piecewise, inset")
    most = max(OptimalPiecewise(RATINGS, epsilon).variance(value) for value in range(11))
    assert default.reports == math.ceil(most / 0.05**2)
    assert "three-outputs" in made.left_out
    assert "leave out the step" in made.left_out["three-outputs"]


def test_beyond_what_is_designed_the_plan_takes_the_default_mechanism() -> None:
    domain = Interval(0, 300, step=1, rounding="nearest")
    made = plan(domain, epsilon=1, error=1.0, compare=False)
    assert (made.chosen.label, made.chosen.nodes) == ("optimal-piecewise, inset", 301)
    assert "--step 1 --rounding nearest" in made.chosen.command
    assert "--mechanism optimal-piecewise" in made.chosen.command


# --- directions and distributions ------------------------------------------------------------------------


@pytest.mark.parametrize("step", mostly_slow([1, 3, 6], every=3))
@pytest.mark.parametrize("population", ["vonmises:7,2", "0.7*atom:6 + 0.3*atom:18"])
def test_directions_have_the_planned_error(step: int, population: str) -> None:
    domain, n = Circle(24, step=step), 20_000
    mechanism = OptimalCircular(domain, 2.0)
    law = as_population(population, domain)
    curve = DirectionCurve(mechanism, law, 0.5)
    codes = code_law(mechanism, law)
    exact = there(direction(Survey(mechanism, codes * 1e12), level=0.95).value)
    turns = turns_of(mechanism, many_counts(mechanism, law, n, SURVEYS, seed=2)[:1500])
    squares = [math.remainder(turn - exact / 24, 1.0) ** 2 for turn in turns]
    chance = 4.9 * np.std(squares, ddof=1) / math.sqrt(len(squares))  # 1e-6
    assert abs(np.mean(squares) - curve.error(n) ** 2) <= chance


def test_a_direction_is_not_shortened_by_a_rounding_that_is_none() -> None:
    rounded = OptimalCircular(Circle(8, step=1, rounding="stochastic"), 1.0)
    exact = OptimalCircular(Circle(8, step=1), 1.0)
    lost = math.cos(math.pi / 8)
    assert DirectionCurve(exact, None, 0.5 * lost).error(10**6) == pytest.approx(
        DirectionCurve(rounded, None, 0.5).error(10**6), rel=1e-9
    )


@pytest.mark.parametrize("domain", [RATINGS, HOURS], ids=str)
def test_the_distance_is_between_the_values(domain: Domain) -> None:
    mechanism = Task("x", domain, 2.0).mechanism
    generator = np.random.default_rng(3)
    size = domain.size or 0
    for _ in range(20):
        probabilities, users = generator.dirichlet(np.ones(size)), generator.integers(size, size=50)
        at = mechanism.node_places() / (size - isinstance(domain, Interval))
        values = users / (size - isinstance(domain, Interval))
        found = wasserstein(mechanism, probabilities, values)
        if isinstance(domain, Interval):
            assert found == pytest.approx(wasserstein_distance(at, values, probabilities), abs=1e-12)
            continue
        shares = np.bincount(users, minlength=size) / 50
        difference = np.cumsum(np.roll(probabilities, -first_cell(mechanism)) - shares)
        # Around a circle: the least over all starting points, which is at one of the differences.
        assert found == pytest.approx(min(np.abs(difference - c).mean() for c in difference), abs=1e-12)


@pytest.mark.slow
def test_a_distribution_of_few_values_is_planned_and_reached() -> None:
    """New surveys and seeds. The plan allowed for two standard errors, this for three more: 1 in 10^5."""
    population = "0.3*atom:2 + 0.2*atom:3 + 0.5*atom:9"
    made = plan(RATINGS, goal="distribution", epsilon=2.0, error=0.1, population=population, compare=False)
    assert made.chosen.nodes == 11
    mechanism = OptimalPiecewise(RATINGS, 2.0)
    generator = np.random.default_rng(77)
    found = []
    for _ in range(60):
        users = generator.choice([2, 3, 9], p=[0.3, 0.2, 0.5], size=made.reports)
        counts = simulate_counts(mechanism, users, made.reports, generator, fixed=True)
        fitted = fit_held_out(mechanism, counts.astype(np.float64)).probabilities
        found.append(wasserstein_distance(np.arange(11), users, fitted))
    chance = np.std(found, ddof=1) / math.sqrt(60)
    assert np.mean(found) <= 0.1 + 3 * chance
    assert np.mean(found) >= 0.07 - 5 * chance


def test_a_survey_of_any_population_has_values_only() -> None:
    for mechanism in (OptimalPiecewise(RATINGS.unit(), 4.0), OptimalCircular(HOURS.unit(), 4.0)):
        law = as_population("uniform", mechanism.domain)
        assert 0 < survey_error(mechanism, law, 200_000, np.random.default_rng(1)) < 0.01


# --- compare and sharing -----------------------------------------------------------------------------------


def test_rows_are_sums_over_the_values() -> None:
    table = compare(RATINGS, 2.0, delta=0.01)
    rows = {row.label: row for row in table.rows}
    values = np.arange(11.0)
    for label, mechanism in {
        "optimal-piecewise, inset": OptimalPiecewise(RATINGS, 2.0),
        "randomized-response": RandomizedResponse(RATINGS, 2.0),
        "LP design, mean": minimax(RATINGS, 2.0),
        "LP design, value": minimax(RATINGS, 2.0, goal="value"),
    }.items():
        absolute, squared = mechanism.expected_errors(values), mechanism.expected_errors(values, 2.0)
        row = rows[label]
        assert (row.worst_absolute, row.mean_absolute) == pytest.approx((absolute.max(), absolute.mean()))
        assert (row.worst_squared, row.mean_squared) == pytest.approx((squared.max(), squared.mean()))
    unbiased = [row for row in table.rows if row.unbiased]
    assert min(unbiased, key=lambda row: row.worst_squared).label == "LP design, mean"
    assert min(table.rows, key=lambda row: row.worst_absolute).label == "LP design, value"
    assert {"duchi", "three-outputs"} <= set(table.left_out)


@pytest.mark.parametrize("domain", [RATINGS, HOURS], ids=str)
def test_splits_are_of_the_errors_at_the_values(domain: Domain) -> None:
    goal = "value" if isinstance(domain, Interval) else None
    mechanism = Task("x", domain, 1.5, goal=goal).mechanism
    errors = mechanism.expected_errors(domain.values())
    length = domain.length if isinstance(domain, Interval) else domain.length / 2
    assert report_error(domain, 1.5, goal=goal, measure="value") == pytest.approx(errors.max() / length)
    assert report_error(domain, 1.5, goal=goal, measure="average") == pytest.approx(errors.mean() / length)


def test_an_estimate_on_a_lattice_costs_its_own_variance() -> None:
    coarse = report_error(Interval(0, 4, step=1), 4.0)
    assert coarse < 0.95 * report_error(Interval(0, 4), 4.0)
    assert report_error(Interval(0, 4, step=1), 4.0, goal="mean") < coarse
    domains: dict[str, Domain] = {"rating": Interval(1, 5, step=1), "hour": HOURS}
    assert best_sample(domains, 8.0) == 2
    shares = best_shares(domains, 2.0)
    assert sum(shares.values()) == pytest.approx(2.0)
    total = sum(report_error(domains[name], share) for name, share in shares.items())
    assert total <= sum(report_error(domain, 1.0) for domain in domains.values()) * (1 + 1e-9)


def test_the_commands_take_a_step() -> None:
    args = ["--domain", "0:10", "--step", "1", "--epsilon", "1"]
    answer = json.loads(good("plan", *args, "--error", "0.1", "--json", "--no-compare"))
    assert answer["domain"] == "[0, 10] in steps of 1"
    assert answer["reports"] == plan(RATINGS, epsilon=1, error=0.1, compare=False).reports
    said = good("compare", *args, "--rounding", "nearest", "--no-designs")
    assert "values in [0, 10] in steps of 1" in said
    assert "Left out: three-outputs: ThreeOutputs must have 11 nodes" in said.replace("\n", " ")
    done = run("plan", *args[:2], "--rounding", "nearest", "--epsilon", "1", "--error", "0.1")
    assert done.exit_code == 2
    assert "--rounding is for a domain with a --step" in done.output


def test_a_planned_task_is_the_one_that_is_estimated() -> None:
    made = plan(RATINGS, epsilon=2.0, error=0.1, compare=False)
    task = Task("x", RATINGS, 2.0, goal="mean", mechanism=minimax(RATINGS, 2.0))
    counts = simulate_counts(task, "0.5*atom:0 + 0.5*atom:10", made.reports, np.random.default_rng(8))
    found = bounded(estimate(task, counts).mean)
    assert made.chosen.half_width == pytest.approx((found.high - found.low) / 2, rel=0.1)
    assert Duchi.name not in made.summary()
