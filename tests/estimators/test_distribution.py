"""The fitted distribution: its grid, its bins, thinning, and its distance to the population."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.analysis.estimators.histogram import histogram
from arcwise.analysis.estimators.mean import mean
from arcwise.analysis.estimators.quantiles import quantiles
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.estimators.wasserstein import wasserstein
from arcwise.analysis.grid import cell_edges, first_cell
from arcwise.analysis.likelihood.alternatives import plain_em
from arcwise.analysis.likelihood.distribution import fit_held_out, thin, uniform_start
from arcwise.analysis.simulate import as_population, simulate_counts
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import Mechanism, OptimalCircular, OptimalPiecewise
from tests.support.known import there
from tests.support.strategies import WINDOW_EXAMPLES, WindowExample, mechanisms
from tests.support.surveys import drawn_counts, em_fit, node_distribution, surveyed


@given(mechanism=mechanisms(max_nodes=80))
def test_a_value_at_a_nodes_place_gives_that_node_and_lies_in_its_bin(mechanism: Mechanism) -> None:
    kernel = mechanism.kernel
    nodes = np.arange(kernel.nodes, dtype=np.float64)
    units = mechanism.node_units(nodes)
    positions = mechanism.positions(units % 1.0 if kernel.circular else units)
    if kernel.circular:
        positions[positions > kernel.nodes - 0.5] -= kernel.nodes  # K-1e-12 is node 0
    np.testing.assert_allclose(positions, nodes, atol=1e-9 * kernel.nodes)

    edges = cell_edges(mechanism)
    assert edges.shape == (kernel.nodes + 1,)
    assert edges[-1] - edges[0] == pytest.approx(1.0)
    assert -0.5 / kernel.nodes <= edges[0] <= 0
    assert (np.diff(edges) > 0).all()
    order = (np.arange(kernel.nodes) + first_cell(mechanism)) % kernel.nodes
    placed = units[order]
    if kernel.circular:
        placed = (placed - edges[0]) % 1.0 + edges[0]
    assert (edges[:-1] <= placed + 1e-12).all()
    assert (placed <= edges[1:] + 1e-12).all()


def test_bins_of_an_interval_and_of_a_circle() -> None:
    inset = cell_edges(OptimalPiecewise(Interval(0, 1), 1.0, nodes=5))
    np.testing.assert_allclose(inset, [0, 0.125, 0.375, 0.625, 0.875, 1])
    odd = OptimalCircular(Circle(1), 1.0, nodes=8)
    assert odd.kernel.window == 3
    np.testing.assert_allclose(cell_edges(odd), np.arange(9) / 8)
    even = OptimalCircular(Circle(1), 1.0, nodes=5)
    assert even.kernel.window == 2
    np.testing.assert_allclose(cell_edges(even), (np.arange(6) - 0.5) / 5)


@pytest.mark.parametrize("example", WINDOW_EXAMPLES, ids=repr)
def test_a_pile_is_found_in_the_bin_that_holds_it(example: WindowExample) -> None:
    mechanism = example.make(4.0, 40)
    middle = float(mechanism.domain.from_unit(np.float64(0.43)))
    result = histogram(mechanism, fit_held_out(mechanism, surveyed(mechanism, [middle], 200_000, 1).counts))
    probabilities, edges = np.array(result.probabilities), np.array(result.edges)
    assert probabilities.sum() == pytest.approx(1.0)
    around = 0.05 * mechanism.domain.length
    near = (edges[1:] > middle - around) & (edges[:-1] < middle + around)
    assert probabilities[near].sum() > 0.9


def test_clamp_has_wide_end_bins_with_a_note() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0, placement="clamp")
    kernel = mechanism.kernel
    result = histogram(mechanism, fit_held_out(mechanism, surveyed(mechanism, [0.0], 10_000, 1).counts))
    assert result.edges[1] == pytest.approx((kernel.window / 2 + 0.5) / kernel.codes)
    assert "end zones" in result.note


@given(seed=st.integers(0, 2**32), scale=st.floats(0.01, 1e6))
def test_thinning_splits_every_report_once_and_the_same_way(seed: int, scale: float) -> None:
    counts = np.random.default_rng(seed).poisson(scale, 50).astype(np.float64)
    parts = thin(counts, 5)
    np.testing.assert_array_equal(parts.sum(axis=0), counts)
    assert parts.min() >= 0
    np.testing.assert_array_equal(parts, thin(counts, 5))


def test_folds_are_of_equal_size() -> None:
    # Five binomial sums of 10^6 reports, each at 6 standard deviations: false alarms below 1e-8.
    parts = thin(np.full(100, 10_000.0), 5).sum(axis=1)
    assert np.abs(parts - 200_000).max() < 6 * np.sqrt(1e6 * 0.2 * 0.8)


def test_uniform_start_is_a_uniform_population() -> None:
    for mechanism in (
        OptimalPiecewise(Interval(0, 1), 1.0, nodes=16),
        OptimalCircular(Circle(1), 1.0, nodes=16),
    ):
        many = (np.arange(16_000) + 0.5) / 16_000
        np.testing.assert_allclose(uniform_start(mechanism), node_distribution(mechanism, many), atol=1e-6)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_stopping_early_is_nearer_to_a_smooth_population(epsilon: float) -> None:
    # One fixed survey; benchmarks/studies/accuracy.py covers many.
    mechanism = OptimalPiecewise(Interval(0, 1), epsilon)
    truth = node_distribution(mechanism, np.random.default_rng(0).beta(2, 5, 200_000))
    counts = drawn_counts(mechanism, truth, 100_000, 5)
    chosen = fit_held_out(mechanism, counts)
    converged = em_fit(mechanism.kernel, counts, iterations=5000, start=uniform_start(mechanism))
    assert chosen.log_likelihood < converged.log_likelihood

    def distance(f: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        return float(np.abs(np.cumsum(f - truth)).mean())

    assert distance(chosen.probabilities) < distance(converged.probabilities)
    assert distance(chosen.probabilities) < {1.0: 0.012, 4.0: 0.003}[epsilon]


@pytest.mark.parametrize("epsilon", [12.0, 20.0])
def test_few_reports_at_a_large_epsilon_are_not_a_uniform_population(epsilon: float) -> None:
    # Reports here are nearly exact values, yet some of the 20 that are held out have a code of their own.
    mechanism = OptimalPiecewise(Interval(-60, 180), epsilon)
    values = np.random.default_rng(0).laplace(-2, 18, 5000).clip(-60, 180)
    survey = surveyed(mechanism, values, 100, 1)
    assert fit_held_out(mechanism, survey.counts).iterations > 0
    assert quantiles(survey)["0.5"].value == pytest.approx(-2, abs=5)


def test_notes_say_that_bins_have_no_band_and_when_nodes_are_few() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0, nodes=8)
    counts = np.full(mechanism.kernel.codes, 10.0)
    note = histogram(mechanism, em_fit(mechanism.kernel, counts, iterations=0)).note
    assert note.startswith("uniform: there are too few reports")
    assert "no band" in note
    assert "only 8 nodes" in note
    wide = OptimalPiecewise(Interval(0, 1), 1.0, nodes=32)
    fitted = em_fit(wide.kernel, np.ones(wide.kernel.codes), iterations=1)
    assert "nodes" not in histogram(wide, fitted).note


@pytest.mark.parametrize("epsilon", [pytest.param(0.5, marks=pytest.mark.slow), 4.0])
def test_uniform_populations_are_found_to_be_nearly_uniform(epsilon: float) -> None:
    # 0.2 to 0.6 of plain EM's distance. Here the distance is to the population, not to its users.
    for mechanism in (
        OptimalPiecewise(Interval(0, 1), epsilon, nodes=64),
        OptimalCircular(Circle(1), epsilon, nodes=64),
    ):
        truth = uniform_start(mechanism)
        ours, plain = 0.0, 0.0
        for seed in range(20):
            counts = drawn_counts(mechanism, truth, 20_000, seed)
            fits = fit_held_out(mechanism, counts), plain_em(mechanism, counts.astype(np.int64))
            near, far = (np.abs(np.cumsum(fitted.probabilities - truth)).mean() for fitted in fits)
            ours, plain = ours + near, plain + far
        assert ours < 0.7 * plain


@pytest.mark.parametrize("circular", [False, True])
def test_reports_that_are_as_good_as_values_are_believed(circular: bool) -> None:
    """At epsilon 8, the reports describe their users better than the population that the users come from."""
    mechanism = (
        OptimalCircular(Circle(1), 8.0, nodes=128) if circular else OptimalPiecewise(Interval(0, 1), 8.0)
    )
    generator = np.random.default_rng(1)
    found = []
    for _ in range(10):
        units = generator.beta(1.0, 1.2, 1000)  # a slope, close to uniform
        counts = simulate_counts(mechanism, units, 1000, generator, fixed=True)
        fits = fit_held_out(mechanism, counts.astype(np.float64)), plain_em(mechanism, counts)
        found.append([wasserstein(mechanism, fitted.probabilities, units) for fitted in fits])
    ours, plain = np.mean(found, axis=0)
    assert ours < 1.2 * plain
    assert ours < 0.004


def test_few_reports_at_a_small_epsilon_are_not_given_up() -> None:
    """Ten surveys of ages, 1,000 reports, epsilon 1/4: closer than plain EM and than the uniform start."""
    mechanism = OptimalPiecewise(Interval(0, 1), 0.25)
    population = as_population("normal:0.38,0.2", mechanism.domain)
    start = uniform_start(mechanism)
    found = []
    for seed in range(20):
        generator = np.random.default_rng(seed)
        units = population.draw(1000, generator)
        counts = simulate_counts(mechanism, units, 1000, generator, fixed=True)
        fits = (fit_held_out(mechanism, counts.astype(np.float64)), plain_em(mechanism, counts))
        every = [*(fitted.probabilities for fitted in fits), start]
        found.append([wasserstein(mechanism, probabilities, units) for probabilities in every])
    ours, plain, uniform = np.mean(found, axis=0)
    assert ours < 0.95 * plain
    assert ours < 0.9 * uniform


def test_a_population_that_is_not_uniform_is_left_as_soon_as_it_shows() -> None:
    # A density from 0.8 to 1.2 shows with 10^5 reports at epsilon 1: six standard errors or more.
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0, nodes=64)
    truth = uniform_start(mechanism) * np.linspace(0.8, 1.2, 64)
    truth /= truth.sum()
    counts = drawn_counts(mechanism, truth, 100_000, 1)
    fitted = fit_held_out(mechanism, counts).probabilities
    near, far = (np.abs(np.cumsum(law - truth)).mean() for law in (fitted, uniform_start(mechanism)))
    assert near < 0.25 * far


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_fitted_mean_is_that_of_the_histogram(epsilon: float) -> None:
    mechanism = OptimalPiecewise(Interval(-10, 30), epsilon, nodes=33)
    counts = drawn_counts(mechanism, node_distribution(mechanism, [0.0, 5.0, 25.0]), 5000, 1)
    result = histogram(mechanism, fit_held_out(mechanism, counts))
    nodes = np.linspace(-10, 30, 33)
    assert result.fitted_mean == pytest.approx(np.array(result.probabilities) @ nodes)
    assert result.to_dict()["fitted_mean"] == result.fitted_mean
    assert "fitted_mean is biased" in result.note


def test_the_fitted_mean_of_a_lattice_is_of_its_values() -> None:
    mechanism = OptimalPiecewise(Interval(0, 10, step=1), 2.0)
    counts = drawn_counts(mechanism, np.eye(11)[3] * 0.5 + np.eye(11)[8] * 0.5, 5000, 1)
    result = histogram(mechanism, fit_held_out(mechanism, counts))
    assert result.values == tuple(range(11))
    assert result.fitted_mean == pytest.approx(np.array(result.probabilities) @ np.arange(11))


def test_there_is_no_fitted_mean_on_a_circle_or_where_end_zones_hold_many_values() -> None:
    for mechanism in (
        OptimalCircular(Circle(360), 1.0),
        OptimalPiecewise(Interval(0, 1), 1.0, placement="clamp"),
    ):
        counts = np.ones(mechanism.kernel.codes)
        result = histogram(mechanism, fit_held_out(mechanism, counts))
        assert result.fitted_mean is None
        assert "fitted_mean" not in str(result.to_dict())


@pytest.mark.slow
def test_the_fitted_mean_errs_less_than_the_unbiased_one_at_a_small_epsilon() -> None:
    """Twenty surveys of three populations, 1,000 reports at epsilon 1/2; means of squared errors."""
    mechanism = OptimalPiecewise(Interval(0, 1), 0.5)
    ours, unbiased = 0.0, 0.0
    for line in ("beta:2,5", "normal:0.55,0.15", "0.3*atom:0 + rest*uniform"):
        population = as_population(line, mechanism.domain)
        for seed in range(20):
            counts = simulate_counts(mechanism, population, 1000, np.random.default_rng(seed))
            fitted = there(
                histogram(mechanism, fit_held_out(mechanism, counts.astype(np.float64))).fitted_mean
            )
            point = there(mean(Survey(mechanism, counts.astype(np.float64))).value)
            ours += (fitted - population.mean()) ** 2
            unbiased += (point - population.mean()) ** 2
    assert ours < 0.8 * unbiased


def test_a_single_report_leaves_the_start() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0)
    counts = np.zeros(mechanism.kernel.codes)
    counts[0] = 1
    fitted = fit_held_out(mechanism, counts)
    assert fitted.iterations == 0
    assert "uniform" in histogram(mechanism, fitted).note


def test_very_many_reports_are_not_held_back_by_a_limit_of_steps() -> None:
    """At 10^9 reports a limit of 3,000 steps would leave 0.0065; the surveys' own error is about 0.0005."""
    mechanism = OptimalCircular(Circle(360), 0.5)
    generator = np.random.default_rng(5)
    values = np.where(
        generator.random(400_000) < 0.6,
        generator.vonmises(0.0, 4.0, 400_000),
        generator.vonmises(2.5, 8.0, 400_000),
    )
    units = values / (2 * np.pi) % 1.0
    fitted = fit_held_out(mechanism, surveyed(mechanism, 360 * units, 10**9, 1).counts)
    assert wasserstein(mechanism, fitted.probabilities, units) < 0.002
