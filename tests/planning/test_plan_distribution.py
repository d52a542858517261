"""The planned error of distributions: the distance, the users, and whether surveys reach the plan."""

import math

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from arcwise.analysis.estimators.wasserstein import histogram_distance, wasserstein
from arcwise.analysis.grid import cell_edges, first_cell
from arcwise.analysis.planning import plan
from arcwise.analysis.planning.distribution import SimulatedCurve, Surveys, survey_error, users
from arcwise.analysis.simulate import as_population
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms import Duchi, Mechanism, OptimalCircular, OptimalPiecewise
from tests.support.known import there

LINE, TURN = Interval(0, 1), Circle(1)


def spread(mechanism: Mechanism, probabilities: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a node distribution as many small atoms: places and weights."""
    edges = cell_edges(mechanism)
    order = np.roll(probabilities, -first_cell(mechanism)) if mechanism.kernel.circular else probabilities
    places = (edges[:-1, None] + np.diff(edges)[:, None] * (np.arange(parts) + 0.5) / parts).ravel()
    if not mechanism.kernel.circular:  # the end nodes' masses are atoms
        places[:parts], places[-parts:] = 0.0, 1.0
    return places, np.repeat(order / parts, parts)


@pytest.mark.parametrize("seed", range(5))
def test_the_distance_on_a_line_is_that_of_scipy(seed: int) -> None:
    generator = np.random.default_rng(seed)
    mechanism = OptimalPiecewise(LINE, 1.0, nodes=9)
    probabilities, values = generator.dirichlet(np.ones(9)), generator.beta(2, 3, 5000)
    places, weights = spread(mechanism, probabilities, 4000)
    expected = wasserstein_distance(values, places, v_weights=weights)
    assert wasserstein(mechanism, probabilities, values) == pytest.approx(
        expected, abs=1e-4
    )  # atoms are 1/32,000 apart, users about 1/5,000


@pytest.mark.parametrize("seed", range(5))
def test_the_distance_on_a_circle_is_the_least_over_all_cuts(seed: int) -> None:
    generator = np.random.default_rng(seed)
    mechanism = OptimalCircular(TURN, 1.0, nodes=9)
    probabilities, values = generator.dirichlet(np.ones(9)), generator.vonmises(0, 1, 2000) / 7 % 1.0
    places, weights = spread(mechanism, probabilities, 500)
    cuts = np.linspace(0, 1, 200, endpoint=False)
    cut = min(
        wasserstein_distance((values - at) % 1.0, (places - at) % 1.0, v_weights=weights) for at in cuts
    )
    found = wasserstein(mechanism, probabilities, values)
    assert found <= cut + 5e-4
    assert found == pytest.approx(cut, abs=0.005)  # cuts are 1/200 apart


@pytest.mark.parametrize("seed", range(3))
def test_the_distance_of_a_histogram_is_that_of_scipy(seed: int) -> None:
    generator = np.random.default_rng(seed)
    shares, values = generator.dirichlet(np.ones(7)), generator.beta(2, 3, 5000)
    edges = np.sort(np.append(generator.random(6), [0.0, 1.0]))
    places = (edges[:-1, None] + np.diff(edges)[:, None] * (np.arange(4000) + 0.5) / 4000).ravel()
    weights = np.repeat(shares / 4000, 4000)
    expected = wasserstein_distance(values, places, v_weights=weights)
    found = histogram_distance(edges, shares, values, circular=False)
    assert found == pytest.approx(expected, abs=1e-4)
    around = histogram_distance(edges, shares, values, circular=True)
    assert around <= found
    turned = histogram_distance(edges + 0.3, shares, (values + 0.3) % 1.0, circular=True)
    assert turned == pytest.approx(around, abs=1e-9)


def test_many_users_are_a_sample_of_their_population() -> None:
    """Above 2^17, users come in groups; their law differs from the population's like that of n draws."""
    population, n = as_population("beta:2,5", LINE), 10**7
    values, each = users(population, n, np.random.default_rng(1))
    assert n - each < values.size * each <= n
    distance = []
    for seed in range(60):
        values, _ = users(population, n, np.random.default_rng(seed))
        steps = np.arange(values.size + 1) / values.size
        below = population.cdf(values)
        largest = max((below - steps[:-1]).max(), (steps[1:] - below).max())  # Kolmogorov and Smirnov's D
        distance.append(math.sqrt(n) * largest)
    # sqrt(n) D has the mean sqrt(pi/2) log 2 = 0.869 and the deviation 0.26 (Kolmogorov's law): 5 standard
    # errors. Groups of 153 users add at most sqrt(n) / m = 0.05 to each.
    assert 0.869 - 5 * 0.26 / math.sqrt(60) <= np.mean(distance) <= 0.869 + 0.05 + 5 * 0.26 / math.sqrt(60)


def test_few_users_are_drawn_one_by_one() -> None:
    population = as_population("uniform", LINE)
    values, each = users(population, 1000, np.random.default_rng(1))
    assert (values.size, each) == (1000, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("domain", "error", "population"),
    [(LINE, "2%", "two-bumps"), (TURN, "2%", "two-directions"), (Interval(0, 180), 2.0, "beta:2,5")],
)
def test_the_planned_number_of_reports_reaches_the_error(
    domain: Interval | Circle, error: float | str, population: str
) -> None:
    """New surveys and seeds. The plan allowed for two standard errors, this for three more: 1 in 10^5."""
    made = plan(domain, goal="distribution", epsilon=2.0, error=error, population=population, compare=False)
    mechanism = OptimalPiecewise(LINE, 2.0) if isinstance(domain, Interval) else OptimalCircular(TURN, 2.0)
    law = as_population(population, domain)
    found = domain.length * np.array(
        [survey_error(mechanism, law, made.reports, np.random.default_rng([99, k])) for k in range(60)]
    )
    chance = found.std(ddof=1) / math.sqrt(found.size)
    assert found.mean() <= there(made.asked) + 3 * chance
    # And the number of reports is not far too large: the margins explain the difference.
    assert found.mean() >= 0.7 * there(made.asked) - 5 * chance


def test_the_error_is_the_largest_of_the_populations() -> None:
    populations = {name: as_population(name, LINE) for name in ("uniform", "two-bumps")}
    ticks: list[int] = []
    curve = SimulatedCurve(
        OptimalPiecewise(LINE, 4.0), populations, Surveys(few=3, many=5), tick=ticks.append
    )
    details = curve.details(2000)
    assert curve.error(2000) == max(details.values()) == details["two-bumps"] > details["uniform"]
    assert curve.reached(2000) > curve.error(2000)
    assert ticks == [2000]  # simulated once
    assert curve.points(2000) == ((2000.0, curve.error(2000)),)
    assert math.isinf(curve.error(5))
    assert curve.half_width(2000, 0.95) is None


@pytest.mark.slow
def test_an_error_below_the_grid_is_reached_by_none() -> None:
    populations = {"two-bumps": as_population("two-bumps", LINE)}
    curve = SimulatedCurve(OptimalPiecewise(LINE, 6.0, nodes=32), populations, Surveys(few=2, many=2))
    assert curve.reports(1e-5) is None
    assert curve.reports(0.9) == 10


def test_coarse_mechanisms_show_no_distribution() -> None:
    with pytest.raises(ParameterError, match="2 nodes and 2 codes are too few"):
        SimulatedCurve(Duchi(LINE, 1.0), {}, Surveys(few=2, many=2))
