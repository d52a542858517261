"""Tests of one population: levels over populations and mechanisms, power, and their components."""

import numpy as np
import pytest
from scipy.stats import binom

from arcwise.analysis.estimators.same_population import SmoothTest, _scores, same_as, same_population
from arcwise.analysis.likelihood.linear_maps import code_laws
from arcwise.analysis.simulate import as_population, node_law, simulate_counts
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms import Mechanism, OptimalCircular, OptimalPiecewise
from arcwise.tasks import Task
from tests.support.strategies import ALL_EXAMPLES, LATTICE_EXAMPLES, Example

LINE, CIRCLE = Interval(0, 100), Circle(360)
SURVEYS = 60
MOST = int(binom.isf(1e-4, SURVEYS, 0.05))
"""More false alarms than this in 60 surveys at level 0.05 have a probability below 1e-4."""


@pytest.mark.parametrize(
    ("mechanism", "population", "sizes"),
    [
        (OptimalPiecewise(LINE, 1.0), "normal:40,12", (2000, 500)),
        (OptimalPiecewise(LINE, 8.0), "0.5*atom:20 + 0.5*atom:80", (30, 30)),
        (OptimalPiecewise(Interval(0, 10, step=1), 4.0), "0.9*atom:0 + 0.1*uniform", (300, 5000)),
        (OptimalCircular(CIRCLE, 2.0), "0.5*atom:0 + 0.5*vonmises:90,3", (1000, 1000)),
    ],
    ids=repr,
)
@pytest.mark.slow
def test_one_population_is_seldom_rejected(
    mechanism: Mechanism, population: str, sizes: tuple[int, int]
) -> None:
    law = node_law(mechanism, as_population(population, mechanism.domain))
    generator = np.random.default_rng(1)
    alarms = np.zeros(2, np.int64)
    for _ in range(SURVEYS):
        first, second = (simulate_counts(mechanism, population, n, generator) for n in sizes)
        alarms += [
            same_population(mechanism, first, second).p <= 0.05,
            same_as(mechanism, first, law).p <= 0.05,
        ]
    assert alarms.max() <= MOST


@pytest.mark.parametrize(
    ("mechanism", "populations", "n"),
    [
        (OptimalPiecewise(LINE, 1.0), ("normal:40,12", "normal:45,12"), 10_000),
        pytest.param(
            OptimalPiecewise(LINE, 1.0), ("normal:50,10", "normal:50,20"), 10_000, marks=pytest.mark.slow
        ),
        pytest.param(
            OptimalPiecewise(LINE, 8.0),
            ("0.5*atom:40 + 0.5*atom:60", "0.5*atom:41 + 0.5*atom:60"),
            3000,
            marks=pytest.mark.slow,
        ),
        (OptimalPiecewise(LINE, 4.0), ("uniform:0,50", "0.9*uniform:0,50 + 0.1*atom:80"), 1000),
        pytest.param(
            OptimalCircular(CIRCLE, 2.0), ("uniform", "vonmises:200,0.5"), 3000, marks=pytest.mark.slow
        ),
        (OptimalCircular(CIRCLE, 4.0), ("uniform", "0.5*vonmises:0,2 + 0.5*vonmises:180,2"), 3000),
    ],
    ids=repr,
)
def test_other_populations_are_found(mechanism: Mechanism, populations: tuple[str, str], n: int) -> None:
    """At least 8 of 10 surveys; each has a power above 0.97, so fewer have a probability below 0.003."""
    law = node_law(mechanism, as_population(populations[0], mechanism.domain))
    generator = np.random.default_rng(2)
    found = np.zeros(2, np.int64)
    for _ in range(10):
        first, second = (simulate_counts(mechanism, each, n, generator) for each in populations)
        found += [
            same_population(mechanism, first, second).p <= 0.05,
            same_as(mechanism, second, law).p <= 0.05,
        ]
    assert found.min() >= 8


@pytest.mark.parametrize("example", [*ALL_EXAMPLES, *LATTICE_EXAMPLES], ids=repr)
def test_waves_are_uncorrelated_under_the_hypothesis(example: Example) -> None:
    mechanism = example.make(2.0)
    nodes = mechanism.kernel.nodes
    fitted = np.random.default_rng(1).dirichlet(np.full(nodes, 0.5)) * 0.9 + 0.1 / nodes
    codes = code_laws(mechanism.kernel, fitted[None])[0]
    codes /= codes.sum()
    scores = _scores(mechanism, fitted, codes)
    assert scores.shape[0] == mechanism.kernel.codes
    assert 1 <= scores.shape[1] <= 32
    np.testing.assert_allclose(codes @ scores, 0.0, atol=1e-6)
    if np.ptp(scores):
        np.testing.assert_allclose((scores.T * codes) @ scores, np.eye(scores.shape[1]), atol=1e-5)


def test_equal_counts_give_equal_answers_and_words_say_which() -> None:
    task = Task("a", LINE, epsilon=2.0)
    generator = np.random.default_rng(3)
    first, second = (simulate_counts(task, f"normal:{m},10", 5000, generator) for m in (40, 60))
    found = same_population(task.mechanism, first, second)
    assert found == same_population(task.mechanism, first, second)
    assert found.p == 1 / (found.draws + 1)
    assert (
        found.words(0.95)
        == "both samples come from one population: the reports speak against it (p <= 0.001)"
    )
    assert "no sign against it" in same_population(task.mechanism, first, first).words(0.95)
    assert set(found.to_dict()) == {"hypothesis", "p", "statistic", "waves", "draws"}


def test_more_reports_than_can_be_divided_one_by_one() -> None:
    task = Task("a", LINE, epsilon=1.0)
    generator = np.random.default_rng(4)
    law = node_law(task.mechanism, as_population("normal:40,12", LINE))
    first, second = (simulate_counts(task, "normal:40,12", 10**10, generator) for _ in range(2))
    third = simulate_counts(task, "normal:40.1,12", 10**10, generator)
    assert same_population(task.mechanism, first, second).p > 0.01
    assert same_population(task.mechanism, first, third).p <= 0.01
    assert same_as(task.mechanism, first, law).p > 0.01
    assert same_as(task.mechanism, third, law).p <= 0.01


def test_a_wave_that_the_window_hides_does_not_hide_shorter_ones() -> None:
    """At epsilon 1, the window is 48 of 128 codes long: three waves of 16. Shorter waves are seen."""
    mechanism = OptimalCircular(CIRCLE, 1.0)
    law = node_law(mechanism, as_population("uniform", CIRCLE))
    nine = "comb:0,40,9"
    generator = np.random.default_rng(5)
    counts = simulate_counts(mechanism, nine, 10**8, generator)
    uniform = simulate_counts(mechanism, "uniform", 10**8, generator)
    assert same_as(mechanism, counts, law).waves > 14
    assert same_as(mechanism, counts, law).p <= 0.001
    assert same_population(mechanism, counts, uniform).p <= 0.001


@pytest.mark.slow
def test_a_handful_beside_a_billion_is_not_normal() -> None:
    """Of 100 surveys at level 0.05, more than 12 alarms have probability 0.0015; 13 once occurred."""
    mechanism = OptimalPiecewise(LINE, 8.0, nodes=32)
    generator = np.random.default_rng(6)
    rare = "0.999*atom:20 + 0.001*atom:80"
    alarms = 0
    for survey in range(100):
        few, many = (simulate_counts(mechanism, rare, n, generator) for n in (30, 2 * 10**9))
        found = same_population(mechanism, few, many)
        if survey % 10 == 0:
            assert same_population(mechanism, many, few).p == pytest.approx(found.p, abs=0.1)
        alarms += found.p <= 0.05
    assert alarms <= 9


def test_a_report_that_the_population_cannot_give_speaks_against_it() -> None:
    (example,) = (each for each in ALL_EXAMPLES if repr(each) == "truncated-laplace")
    mechanism = example.make(2.0)
    law = np.zeros(mechanism.kernel.nodes)
    law[0] = 1.0
    start = mechanism.domain.from_unit(np.zeros(1))
    counts = simulate_counts(mechanism, start, 1000, np.random.default_rng(7))
    assert same_as(mechanism, counts, law).p > 0.01
    impossible = np.flatnonzero(mechanism.kernel.matrix()[0] == 0.0)
    for code in impossible[[0, -1]]:
        one_more = counts.copy()
        one_more[code] += 1
        assert same_as(mechanism, one_more, law).p == 0.001


def test_a_level_beyond_the_draws_is_not_decided() -> None:
    found = SmoothTest("both samples come from one population", 0.001, 900.0, 1, 999)
    assert "speak against it (p <= 0.001)" in found.words(0.999)
    assert "999 draws are too few to decide at level 0.9999 (p <= 0.001)" in found.words(0.9999)
    assert "no sign against it (p = 0.3)" in SmoothTest("", 0.3, 1.0, 1, 999).words(0.9999)


def test_samples_without_reports_are_refused() -> None:
    mechanism = OptimalPiecewise(LINE, 1.0)
    none, one = np.zeros(mechanism.kernel.codes), np.ones(mechanism.kernel.codes)
    with pytest.raises(ParameterError, match="at least one report each"):
        same_population(mechanism, none, one)
    with pytest.raises(ParameterError, match="at least one report"):
        same_as(mechanism, none, np.full(mechanism.kernel.nodes, 1 / mechanism.kernel.nodes))
