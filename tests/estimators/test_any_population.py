"""Intervals on populations that are not smooth: atoms, whole numbers, gaps.

Each test counts the surveys with intervals that hold the exact truth (`truths`). At a coverage of 0.93 each
count is below its bound with probability 1e-4 at most, so these tests find gross failures only. The study
finds the rest (``python -m benchmarks.studies.coverage``).
"""

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import binom

from arcwise.analysis import estimate
from arcwise.analysis.estimators.shares import cdf_band
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.simulate import code_law, multinomial
from arcwise.typing import IntArray
from benchmarks.studies.coverage_parts import Case, case, holds_everywhere
from benchmarks.studies.populations import Named
from benchmarks.studies.truths import inside

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)

ATOM = Named("atom-inside", "0 to 1", "0.6*atom:0.3137 + rest*normal:0.55,0.15")

TEN = (
    ATOM,
    Named("one-value", "0 to 1", "atom:0.37"),
    Named("two-atoms", "0 to 1", "0.5*atom:0.2531 + 0.5*atom:0.75"),
    Named("rare-values", "0 to 1", "0.97*atom:0 + rest*uniform:0.5,1"),
    Named("twenty-atoms", "0 to 1", "comb:0.0237,0.05,20"),
    Named("two-percent", "0 to 1", "uniform:0.613,0.633"),
    Named("gap", "0 to 1", "0.37*uniform:0,0.3 + rest*uniform:0.7,1"),
    Named("spike-on-a-slope", "0 to 1", "0.2*uniform:0.42,0.421 + rest*beta:1,3"),
    Named("whole-scores", "0 to 100", "normal:60,15@1"),
    Named("eleven-values", "0 to 10", "uniform@1"),
)


def fewest(surveys: int) -> int:
    """Return the least number of surveys that must hold the truth, out of this many."""
    return int(binom.ppf(1e-4, surveys, 0.93))


def drawn(one: Case, n: int, surveys: int) -> Iterator[IntArray]:
    """Return the counts of surveys of n reports."""
    law = code_law(one.task.mechanism, one.population)
    generator = np.random.default_rng([n, surveys])
    return iter(multinomial(np.full(surveys, n), np.broadcast_to(law, (surveys, len(law))), generator))


def band_holds(one: Case, counts: IntArray) -> bool:
    numbers, mechanism = counts.astype(np.float64), one.task.mechanism
    return holds_everywhere(one, cdf_band(Survey(mechanism, numbers)))


@pytest.mark.parametrize(("epsilon", "n"), [(1.0, 100_000), (4.0, 100_000)])
@pytest.mark.slow
def test_bands_of_an_atom_between_two_nodes(epsilon: float, n: int) -> None:
    one = case(ATOM, epsilon)
    assert sum(band_holds(one, counts) for counts in drawn(one, n, 10)) >= fewest(10)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "n"), [(1.0, 100_000), (4.0, 100_000), (8.0, 10_000)])
def test_bands_of_ten_populations(epsilon: float, n: int) -> None:
    places = [case(named, epsilon) for named in TEN]
    held = [band_holds(one, counts) for one in places for counts in drawn(one, n, 2)]
    assert sum(held) >= fewest(len(held))


@pytest.mark.slow
def test_quantiles_that_are_on_an_atom() -> None:
    one = case(ATOM, 4.0)
    surveys, held = 10, dict.fromkeys(LEVELS, 0)
    assert one.truth.quantile(0.05) == one.truth.quantile(0.5) == pytest.approx(0.3137)
    for counts in drawn(one, 100_000, surveys):
        found = estimate(one.task, counts).quantiles
        for level in LEVELS:
            held[level] += inside(found[f"{level:g}"], one.truth.quantile(level))
    assert min(held.values()) >= fewest(surveys)


@pytest.mark.slow
@pytest.mark.parametrize("origin", [0.0, 45.0])
def test_quantiles_of_a_circle_with_four_atoms(origin: float) -> None:
    four = Named("round-angles", "circle 360", "0.25*atom:0 + 0.25*atom:90 + 0.25*atom:180 + rest*atom:270")
    one = case(four, 4.0)
    surveys, held = 10, dict.fromkeys(LEVELS, 0)
    truths = {level: 360 * one.truth.quantile_above(origin / 360, level) for level in LEVELS}
    for counts in drawn(one, 10_000, surveys):
        found = estimate(one.task, counts, origin=origin).quantiles
        for level, truth in truths.items():
            held[level] += found[f"{level:g}"].contains(truth, period=360)
    assert min(held.values()) >= fewest(surveys)


@pytest.mark.parametrize(("n", "surveys"), [(1_000_000, 8), (100_000, 30)])
@pytest.mark.slow
def test_a_share_of_whole_numbers_holds_what_is_at_its_end(n: int, surveys: int) -> None:
    """P(X <= 59) of whole scores whose task does not declare a step."""
    one = case(Named("whole-scores", "0 to 100", "normal:60,15@1"), 4.0)
    truth = one.truth.below(0.59)
    assert truth > one.truth.below(0.59, at=False) + 0.02
    found = [estimate(one.task, counts, between=[(0, 59)]) for counts in drawn(one, n, surveys)]
    assert sum(inside(each.share(0, 59), truth) for each in found) >= fewest(surveys)


@pytest.mark.parametrize(("epsilon", "surveys"), [(8.0, 10), (4.0, 40)])
@pytest.mark.slow
def test_a_share_of_a_place_where_nobody_is(epsilon: float, surveys: int) -> None:
    one = case(Named("two-percent", "0 to 1", "uniform:0.613,0.633"), epsilon)
    found = [estimate(one.task, counts, between=[(0, 0.5)]) for counts in drawn(one, 10_000, surveys)]
    shares = [each.share(0, 0.5) for each in found]
    assert sum(inside(each, 0.0) for each in shares) >= fewest(surveys)
    assert np.mean([each.high for each in shares]) < 0.05
