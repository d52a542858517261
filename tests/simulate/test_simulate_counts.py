"""Simulated counts: exact expectations, the multinomial law, agreement with devices that really report."""

import itertools
import math
import time
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial.legendre import leggauss
from scipy import stats

from arcwise.analysis.simulate import (
    Atoms,
    Beta,
    CutNormal,
    Histogram,
    Mixture,
    Population,
    VonMises,
    WrappedNormal,
    as_population,
    code_law,
    multinomial,
    node_law,
    simulate_counts,
)
from arcwise.domains import Circle, Interval
from arcwise.errors import DomainError, ParameterError
from arcwise.mechanisms import Mechanism, OptimalCircular, OptimalPiecewise
from arcwise.randomness import InsecureSeededRandomness
from arcwise.tasks import Task
from arcwise.typing import FloatArray
from tests.support.strategies import ALL_EXAMPLES, Example
from tests.support.surveys import node_distribution

Density: TypeAlias = Callable[[FloatArray], FloatArray]
LINE = OptimalPiecewise(Interval(-20, 180), 1.0, nodes=40)
CLAMP = OptimalPiecewise(Interval(-20, 180), 1.0, placement="clamp", nodes=40)
TURN = OptimalCircular(Circle(360), 1.0, nodes=45)


def by_quadrature(mechanism: Mechanism, density: Density) -> FloatArray:
    """Return the law of the node by integrating the rounding rule itself, between the kinks of its shares."""
    kernel = mechanism.kernel
    kinks = np.mod(
        mechanism.node_units(np.arange(kernel.nodes, dtype=float)), 1.0 if kernel.circular else 2.0
    )
    edges = np.unique(np.concatenate([[0.0, 1.0], kinks]))
    edges = np.concatenate([np.linspace(a, b, 9)[:-1] for a, b in itertools.pairwise(edges)] + [[1.0]])
    at, weights = leggauss(12)
    width = np.diff(edges)[:, None]
    x = (edges[:-1, None] + width * (at + 1) / 2).ravel()
    mass = (width * weights / 2).ravel() * np.asarray(density(x))
    position = mechanism.positions(x)
    below = position.astype(int)
    law = np.zeros(kernel.nodes + 1)
    np.add.at(law, below, mass * (1 - (position - below)))
    np.add.at(law, below + 1, mass * (position - below))
    law[0] += law[-1] * kernel.circular
    return law[:-1]


@pytest.mark.parametrize("mechanism", [LINE, CLAMP], ids=["inset", "clamp"])
@pytest.mark.parametrize(
    ("population", "density"),
    [
        (Beta(2.0, 5.0), stats.beta(2, 5).pdf),
        (CutNormal(0.9, 0.15), stats.truncnorm(-6, 1 / 1.5, loc=0.9, scale=0.15).pdf),
        (Histogram([0.0, 1.0], [1.0]), np.ones_like),
    ],
    ids=["beta", "normal", "uniform"],
)
def test_the_law_of_the_node_on_an_interval(
    mechanism: Mechanism, population: Population, density: Density
) -> None:
    np.testing.assert_allclose(
        node_law(mechanism, population), by_quadrature(mechanism, density), rtol=1e-10, atol=1e-13
    )


@pytest.mark.parametrize(
    ("population", "density"),
    [
        (VonMises(0.02, 3.0), lambda x: 2 * math.pi * stats.vonmises(3).pdf(2 * math.pi * (x - 0.02))),
        (WrappedNormal(0.97, 0.2), lambda x: sum(stats.norm(0.97 + k, 0.2).pdf(x) for k in range(-3, 4))),
        (Histogram([0.0, 1.0], [1.0]), np.ones_like),
    ],
    ids=["von Mises", "wrapped normal", "uniform"],
)
def test_the_law_of_the_node_on_a_circle(population: Population, density: Density) -> None:
    np.testing.assert_allclose(
        node_law(TURN, population), by_quadrature(TURN, density), rtol=1e-10, atol=1e-13
    )


@pytest.mark.parametrize("example", ALL_EXAMPLES, ids=repr)
def test_every_mechanism_has_the_law_of_its_devices(example: Example) -> None:
    """A histogram by its integral, and by the rounding of half a million values that represent it."""
    mechanism = example.make(1.0)
    bins = Histogram([0.0, 0.1, 0.35, 1.0], [0.5, 0.2, 0.3])
    units = np.concatenate(
        [
            a + (b - a) * (np.arange(m) + 0.5) / m
            for a, b, m in ((0, 0.1, 250_000), (0.1, 0.35, 100_000), (0.35, 1, 150_000))
        ]
    )
    nodes = node_distribution(mechanism, mechanism.domain.from_unit(units))
    np.testing.assert_allclose(node_law(mechanism, bins), nodes, atol=1e-8)
    codes = code_law(mechanism, bins)
    assert codes.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(codes, node_law(mechanism, bins) @ mechanism.kernel.matrix(), atol=1e-14)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=9),
    st.lists(st.floats(1e-3, 1), min_size=1, max_size=9),
    st.floats(0, 1),
)
def test_stochastic_rounding_keeps_means(places: list[float], bins: list[float], share: float) -> None:
    shares = np.array(bins) / sum(bins)
    edges = np.linspace(0.0, 1.0, len(bins) + 1)
    population = Mixture([share, 1 - share], (Atoms(places), Histogram(edges, shares)))
    law = node_law(LINE, population)
    assert (law >= 0).all()
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    assert law @ LINE.node_units(np.arange(40.0)) == pytest.approx(population.mean(), abs=1e-12)


def test_values_are_rounded_as_devices_round_them() -> None:
    for mechanism, values in (
        (LINE, [-20, 3.7, 180, 99]),
        (CLAMP, [-20, 3.7, 180, 99]),
        (TURN, [359.9, 0.0]),
    ):
        law = node_law(mechanism, as_population(values, mechanism.domain))
        np.testing.assert_allclose(law, node_distribution(mechanism, values), atol=1e-14)


def test_the_multinomial_law_outcome_by_outcome() -> None:
    """60,000 draws of 4 among 3 codes, over all 15 outcomes: chi-square, false alarm in 10^4 runs; seeded."""
    weights = np.array([5.0, 1.0, 2.0])
    drawn = multinomial(np.full(60_000, 4), np.broadcast_to(weights, (60_000, 3)), np.random.default_rng(3))
    assert (drawn.sum(axis=1) == 4).all()
    outcomes = [o for o in itertools.product(range(5), repeat=3) if sum(o) == 4]
    observed = [(drawn == outcome).all(axis=1).sum() for outcome in outcomes]
    expected = 60_000 * stats.multinomial(4, weights / 8).pmf(outcomes)
    assert stats.chisquare(observed, expected).pvalue > 1e-4


def test_codes_without_weight_get_nothing_and_rare_ones_their_share() -> None:
    generator = np.random.default_rng(4)
    # The rare codes come last, where the rest of a running sum would be rounding error.
    weights = np.concatenate([np.full(1000, 1e-3), [0.0, 2e-12, 5e-13, 0.0]])
    drawn = np.array([multinomial(10**12, weights, generator) for _ in range(500)])
    assert (drawn.sum(axis=1) == 10**12).all()
    assert not drawn[:, [1000, 1003]].any()
    # Sums of 500 Poisson counts; 5 standard errors, a false alarm in 10^6 runs; seeded.
    for code, mean in ((1001, 2.0), (1002, 0.5)):
        assert abs(drawn[:, code].sum() - 500 * mean) < 5 * math.sqrt(500 * mean)


@pytest.mark.parametrize("example", ALL_EXAMPLES, ids=repr)
@pytest.mark.parametrize("n", [10**6, 10**12])
def test_counts_follow_the_expected_ones(example: Example, n: int) -> None:
    """Chi-square of the counts; a false alarm in 10^5 runs each, of 60 or so; seeded."""
    mechanism = example.make(1.0)
    circular = isinstance(mechanism.domain, Circle)
    line = "0.3*atom:90 + rest*" + ("normal:350,40" if circular else "normal:10,40")
    started = time.process_time()
    counts = simulate_counts(mechanism, line, n, np.random.default_rng(6))
    assert time.process_time() - started < 1.0
    assert counts.dtype == np.int64
    assert counts.sum() == n
    expected = n * node_law(mechanism, as_population(line, mechanism.domain)) @ mechanism.kernel.matrix()
    common = expected >= 10
    assert abs(counts[~common].sum() - expected[~common].sum()) <= 10 + 10 * math.sqrt(
        expected[~common].sum()
    )
    statistic = ((counts - expected)[common] ** 2 / expected[common]).sum()
    assert stats.chi2(common.sum() - 1).sf(statistic) > 1e-5


@pytest.mark.parametrize(
    ("mechanism", "line"),
    [(LINE, "0.3*atom:-20 + rest*normal:60,30"), (CLAMP, "beta:0.5,0.5"), (TURN, "two-directions")],
    ids=["inset", "clamp", "wrap"],
)
@pytest.mark.parametrize("fixed", [False, True])
def test_simulated_devices_are_like_real_ones(mechanism: Mechanism, line: str, fixed: bool) -> None:
    """Two-sample chi-square against 200,000 devices that randomise; a false alarm in 10^4 runs; seeded."""
    n = 200_000
    generator = np.random.default_rng(7)
    values = mechanism.domain.from_unit(as_population(line, mechanism.domain).draw(n, generator))
    codes = mechanism.randomize_many(values, randomness=InsecureSeededRandomness(8))
    real = np.bincount(codes, minlength=mechanism.kernel.codes)
    simulated = simulate_counts(mechanism, values if fixed else line, n, generator, fixed=fixed)
    statistic = ((real - simulated) ** 2 / (real + simulated)).sum()
    assert stats.chi2(mechanism.kernel.codes - 1).sf(statistic) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 40, 10**5])
def test_fixed_devices_vary_by_their_own_randomness_only(devices: int) -> None:
    """Means and variances of 4,000 surveys of the same devices: 5 standard errors over 90 numbers; seeded.

    Reports of a device at x have the mixed row P(x): code j varies by P(x)_j (1 - P(x)_j), less than the
    binomial variance of newly drawn devices.
    """
    mechanism = OptimalCircular(Circle(1), 6.0, nodes=15)
    values = [0.05, 0.05, 0.41, 0.99]
    surveys, generator = 4000, np.random.default_rng(9)
    counts = np.array(
        [simulate_counts(mechanism, values, 4 * devices, generator, fixed=True) for _ in range(surveys)]
    )
    rows = np.array([node_distribution(mechanism, [x]) for x in values]) @ mechanism.kernel.matrix()
    mean, variance = devices * rows.sum(axis=0), devices * (rows * (1 - rows)).sum(axis=0)
    assert (counts.sum(axis=1) == 4 * devices).all()
    assert (np.abs(counts.mean(axis=0) - mean) < 5 * np.sqrt(variance / surveys)).all()
    # The variance of a sample variance: 2/n, plus the part of a Poisson-like count, 1/(n variance).
    error = variance * np.sqrt((2 + 1 / variance) / surveys)
    assert (np.abs(counts.var(axis=0) - variance) < 5 * error).all()
    # At most codes around the values, the variance of drawn devices would be far outside.
    drawn = mean * (1 - mean / (4 * devices))
    assert (drawn - variance > 5 * error).sum() >= 3


def test_a_seed_gives_the_same_counts_and_a_task_those_of_its_mechanism() -> None:
    task = Task("age", LINE.domain, LINE.epsilon, mechanism=LINE)
    first, second = (
        simulate_counts(each, "uniform", 10**9, np.random.default_rng(1)) for each in (task, LINE)
    )
    np.testing.assert_array_equal(first, second)
    other = simulate_counts(task, "uniform", 10**9, np.random.default_rng(2))
    assert (first != other).any()


def test_many_nodes_cost_no_more_than_their_number() -> None:
    wide = OptimalCircular(Circle(360), 1.0, nodes=65_536)
    started = time.process_time()
    counts = simulate_counts(wide, "vonmises:90,2", 10**12, np.random.default_rng(1))
    assert counts.sum() == 10**12
    assert simulate_counts(wide, [1.0, 2.0], 20, np.random.default_rng(1), fixed=True).sum() == 20
    assert (
        simulate_counts(wide, [1.0, 2.0], 2 * 10**6, np.random.default_rng(1), fixed=True).sum() == 2 * 10**6
    )
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("population", "n", "fixed", "error", "message"),
    [
        ("uniform", 0, False, ParameterError, "n must be an integer from 1 to 1000000000000, got 0"),
        ("uniform", 10**12 + 1, False, ParameterError, "got 1000000000001"),
        ("uniform", 1.5, False, ParameterError, "got 1.5"),
        ("uniform", True, False, ParameterError, "got True"),
        ("uniform", 10, True, ParameterError, "fixed must come with an array of values"),
        (Beta(1, 1), 10, True, ParameterError, "fixed must come with an array of values"),
        (stats.norm(), 10, True, ParameterError, "fixed must come with an array of values"),
        ([1, 2, 3], 10, True, ParameterError, "multiple of the 3 values"),
        ([], 10, True, ParameterError, "multiple of the 0 values"),
        ([], 10, False, ParameterError, "places must be at least one number"),
        ([1, 200], 10, False, DomainError, r"wrong at index 1"),
    ],
)
def test_what_cannot_be_simulated_is_refused(
    population: object, n: int, fixed: bool, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        simulate_counts(LINE, population, n, np.random.default_rng(1), fixed=fixed)


def test_the_generator_is_explicit() -> None:
    with pytest.raises(ParameterError, match=r"generator must be a numpy\.random\.Generator, got 7"):
        simulate_counts(LINE, "uniform", 10, 7)  # type: ignore[arg-type]


@pytest.mark.parametrize("mechanism", [LINE, CLAMP], ids=["inset", "clamp"])
def test_distributions_of_scipy_have_the_law_of_their_closed_form(mechanism: Mechanism) -> None:
    pairs = [
        (stats.norm(60, 30), CutNormal(0.4, 0.15)),
        (stats.beta(0.5, 0.5, loc=-20, scale=200), Beta(0.5, 0.5)),
        (stats.uniform(13, 60), Histogram([33 / 200, 93 / 200], [1.0])),
    ]
    for frozen, closed in pairs:
        law = node_law(mechanism, as_population(frozen, mechanism.domain))
        np.testing.assert_allclose(law, node_law(mechanism, closed), atol=1e-12)


def test_distributions_of_scipy_are_wrapped() -> None:
    law = node_law(TURN, as_population(stats.norm(350, 72), TURN.domain))
    np.testing.assert_allclose(law, node_law(TURN, WrappedNormal(350 / 360, 0.2)), atol=1e-12)
    law = node_law(TURN, as_population(stats.uniform(300, 100), TURN.domain))
    np.testing.assert_allclose(law, node_law(TURN, as_population("uniform:300,40", TURN.domain)), atol=1e-12)


@pytest.mark.parametrize("turns", [-2, -1, 1, 3])
def test_on_which_turn_nodes_are_counted_does_not_matter(turns: int) -> None:
    class Turned(OptimalCircular):
        __slots__ = ()

        def node_units(self, nodes: FloatArray) -> FloatArray:
            return super().node_units(nodes) + turns

    population = VonMises(0.02, 3.0)
    law = node_law(Turned(Circle(360), 1.0, nodes=45), population)
    np.testing.assert_allclose(law, node_law(TURN, population), atol=1e-13)
