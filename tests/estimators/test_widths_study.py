"""The least width of any honest interval (`benchmarks.studies.widths`), compared with exact results."""

import json

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, norm

from arcwise.analysis.simulate import Atoms, code_law, named_population, node_law
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import OptimalCircular, OptimalPiecewise
from benchmarks.studies.coverage_parts import Place, case
from benchmarks.studies.populations import wanted
from benchmarks.studies.widths import BEFORE, GROWN, rows_of
from benchmarks.studies.widths_bounds import least_widths, places_of, power


def test_the_power_is_that_of_the_best_binomial_test() -> None:
    n, level = 5_000, 0.07
    counts = np.arange(n + 1)
    for one, other in ((0.3, 0.31), (0.3, 0.29), (0.02, 0.025)):
        under, over = binom.pmf(counts, n, one), binom.pmf(counts, n, other)
        if other < one:
            under, over = under[::-1], over[::-1]
        sizes, powers = np.cumsum(under[::-1]), np.cumsum(over[::-1])  # of tests that reject large counts
        exact = float(np.interp(level, sizes, powers))  # the best test randomises where it must
        found = power(np.array([one, 1 - one]), np.array([other, 1 - other]), n, level)
        assert exact < found < exact + 0.01


@pytest.mark.parametrize("last", [0.5, 0.47, 0.04, 0.999])
@pytest.mark.parametrize("circular", [False, True])
def test_what_endless_reports_leave_is_all_that_rounding_permits(circular: bool, last: float) -> None:
    # Any population of 241 places, which include nodes, the part's bounds, and points just beyond these.
    nodes = 16
    mechanism = (
        OptimalCircular(Circle(1), 1.0, nodes=nodes)
        if circular
        else OptimalPiecewise(Interval(0, 1), 1.0, nodes=nodes)
    )
    population = named_population("two-directions" if circular else "two-bumps", circular=circular)
    first = 0.013 if circular else 0.0
    law = node_law(mechanism, population)
    bounds = [first, last]
    x = np.concatenate([np.linspace(0.0, 1.0, 241), bounds, bounds])
    hats = np.array([node_law(mechanism, Atoms([each])) for each in x]).T
    inside = (x >= first) & (x <= last)
    inside[-2 if first else -1 :] = False  # just beyond
    ends = [linprog(sign * inside, A_eq=hats, b_eq=law).fun for sign in (1.0, -1.0)]
    found = least_widths(places_of(mechanism, population, first, last), 10**4, 0.05)
    assert found.identified == pytest.approx(-ends[1] - ends[0], abs=1e-6)


def test_two_nodes_have_the_widths_of_a_proportion() -> None:
    # If a share f of people round to node 0, between 0 and 2 f may be in the lower half.
    n, miss, f = 10**6, 0.07, 0.3
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0, nodes=2)
    population = Atoms([0.0, 1.0], [f, 1 - f])
    rows, law = mechanism.kernel.probabilities(np.arange(2)), code_law(mechanism, population)
    error = 2 / np.sqrt(n * ((rows[0] - rows[1]) ** 2 / law).sum())
    z = norm.ppf(1 - miss)
    found = least_widths(places_of(mechanism, population, 0.0, 0.5), n, miss)
    assert found.identified == pytest.approx(2 * f)
    above = error * (z * norm.cdf(z) + norm.pdf(z))  # the integral of P(Z < z - d) over d
    assert 0.85 * above < found.mean - (1 - miss) * 2 * f < above
    furthest = error * (z - norm.isf(0.5 - miss))
    assert 0.8 * furthest < found.median - 2 * f < furthest


def test_no_honest_interval_is_as_narrow_as_those_of_before() -> None:
    (population,) = wanted(["two-bumps"])
    one = case(population, 1.0)
    places = places_of(one.task.mechanism, one.population, *one.shares["middle half"])
    before = json.loads(BEFORE.read_text())["two-bumps, epsilon 1, n = 1000000"]["share middle half"]
    assert least_widths(places, 10**6, 0.07).median > 1.5 * GROWN * before


@pytest.mark.slow
def test_the_study_lays_arcwise_beside_the_bound() -> None:
    before = json.loads(BEFORE.read_text())["beta25, epsilon 4, n = 1000000"]
    (population,) = wanted(["beta25"])
    item = "share middle half"
    (row,) = rows_of(Place(population, 4.0, 10**6), {item: before[item]}, 1, 0.07, 1)
    assert row.median > 1.9 * GROWN * row.before
    assert row.identified < row.median < row.mean < row.now < 1.3 * row.mean


def test_the_whole_domain_has_no_bound() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0, nodes=8)
    with pytest.raises(ValueError, match="must leave a part of the domain out"):
        places_of(mechanism, Atoms([0.5]), 0.0, 1.0)
