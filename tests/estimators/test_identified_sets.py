"""Reports of the clamp placement: means and quantiles are the sets that are compatible with the reports.

Run the study with ``python -m benchmarks.studies.clamped``.
"""

import numpy as np
import pytest
from scipy.stats import binom

from arcwise.analysis import estimate
from arcwise.analysis.estimators.mean import mean
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.simulate import code_law, multinomial, parse_population
from arcwise.analysis.simulate.truth import Truth
from arcwise.domains import Interval
from arcwise.tasks import Task
from arcwise.typing import IntArray
from benchmarks.studies.clamped import covers, errors, populations, possible, zone
from tests.support.known import bounded, width

NAMES = tuple(populations(0.1))


def clamped(epsilon: float) -> Task:
    return Task("a", Interval(0, 1), epsilon, goal="value")


def drawn(task: Task, name: str) -> IntArray:
    """Return the counts of 100,000 reports of one of the populations."""
    law = code_law(task.mechanism, populations(zone(task))[name])
    return multinomial(np.int64(100_000), law, np.random.default_rng(1))


@pytest.mark.slow
def test_sets_hold_the_truth() -> None:
    # 3 x 6 x 2 surveys. If each held the truth in 0.95 of them, fewer than this would in 1e-4 of runs;
    # quantiles of one survey are correlated, so their average counts as one coin.
    means, quantiles = [], []
    for epsilon in (0.5, 1.0, 4.0):
        task = Task("a", Interval(0, 1), epsilon, goal="value")
        for name, population in populations(zone(task)).items():
            truth, law = Truth(population), code_law(task.mechanism, population)
            generator = np.random.default_rng([NAMES.index(name), round(10 * epsilon)])
            for _ in range(2):
                of_mean, of_quantiles = covers(
                    estimate(task, multinomial(np.int64(10_000), law, generator)), truth
                )
                means.append(of_mean)
                quantiles.append(np.mean(of_quantiles))
    fewest = binom.ppf(1e-4, len(means), 0.95)
    assert sum(means) >= fewest
    assert sum(quantiles) >= fewest


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("name", NAMES)
def test_many_reports_leave_the_identified_set_and_no_more(epsilon: float, name: str) -> None:
    task = clamped(epsilon)
    population = populations(zone(task))[name]
    law = code_law(task.mechanism, population)
    counts = np.rint(1e14 * law)
    told = bounded(mean(Survey(task.mechanism, counts)))
    assert told.value is None
    assert told.low <= population.mean() <= told.high
    width = possible(population, zone(task))
    # Each end lies 1.96 standard errors out; nodes at the zone's inner edge round values into it or out of
    # it.
    nodes = 1 / task.mechanism.kernel.codes
    assert width - 2 * zone(task) * nodes <= told.high - told.low
    assert told.high - told.low <= width + 2 * errors(task, law, 10**14) + 2 * zone(task) * nodes


def test_a_mean_in_the_middle_is_nearly_a_point() -> None:
    task, name = clamped(2.0), "around the middle"
    law = code_law(task.mechanism, populations(zone(task))[name])
    assert width(mean(Survey.of(task, drawn(task, name)))) <= 6 * errors(task, law, 100_000) < 0.025


def test_quantiles_of_a_pile_in_an_end_zone_take_in_the_zone() -> None:
    task = clamped(1.0)
    told = []
    for name in ("spread in the low zone", "at its inner edge"):
        result = estimate(task, drawn(task, name))
        for value in list(result.quantiles.values())[:3]:
            assert value.value is None
            assert value.low == 0.0
            assert value.high is not None
            assert value.high >= zone(task)
        told.append(result.quantile(0.5))
    assert told[0] == told[1]  # the reports have one law, so equal seeds give equal sets


def test_half_at_each_end_leaves_the_median_open() -> None:
    task = clamped(2.0)
    result = estimate(task, drawn(task, "half at each end"))
    low, median, high = (result.quantile(level) for level in (0.05, 0.5, 0.95))
    assert median.low is not None
    assert median.high is not None
    assert median.high - median.low > 1 - 2 * zone(task) - 0.1  # any number between the zones is a median
    assert low.high is not None
    assert high.low is not None
    assert low.high < 0.3 < 0.7 < high.low


@pytest.mark.parametrize(("low", "high"), [(1, 2), (2, 2), (18, 19)])
def test_a_share_inside_an_end_zone_may_be_all_of_it(low: int, high: int) -> None:
    task = Task("a", Interval(0, 20, step=1), 1.0, goal="value")
    first, last = task.mechanism.node_places()[[0, -1]].tolist()
    assert high < first or low > last
    law = code_law(task.mechanism, parse_population(f"0.6*atom:{low} + rest*uniform", task.domain))
    counts = multinomial(np.int64(10_000), law, np.random.default_rng(1))
    found = bounded(estimate(task, counts, between=[(low, high)]).share(low, high))
    assert (found.value, found.low) == (None, 0.0)
    assert found.high > 0.6
    assert "end zone" in found.note


@pytest.mark.parametrize(("epsilon", "n"), [(0.1, 30), (0.1, 300), (1.0, 30)])
@pytest.mark.parametrize("line", ["atom:0", "0.5*atom:0 + 0.5*atom:1", "uniform"])
def test_few_honest_reports_are_held_and_not_accused(epsilon: float, n: int, line: str) -> None:
    """60 surveys: at 0.95, more than 11 misses have a probability of 5e-5; a note has one of 3e-4."""
    task = clamped(epsilon)
    population = parse_population(line, task.domain)
    law, generator = code_law(task.mechanism, population), np.random.default_rng(n)
    surveys = [
        Survey(task.mechanism, multinomial(np.int64(n), law, generator).astype(float)) for _ in range(60)
    ]
    for level in (0.5, 0.95):
        found = [mean(each, level=level) for each in surveys]
        assert not any("manipulated" in each.note for each in found)
    assert sum(each.contains(population.mean()) for each in found) >= 49


def test_counts_of_no_population_are_named() -> None:
    task = clamped(2.0)
    counts = np.zeros(task.mechanism.kernel.codes)
    counts[1:-1] = 1000.0
    assert "manipulated" in mean(Survey(task.mechanism, counts)).note
