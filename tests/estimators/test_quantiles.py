"""Quantiles of an interval: the point, fine grids, end zones and atoms at the ends, and coverage."""

from typing import Any, Literal

import numpy as np
import pytest

from arcwise.analysis import estimate, post_stratify, series
from arcwise.analysis.estimators.bounds import Average, Bounds
from arcwise.analysis.estimators.quantiles import LEVELS, _End, _Line, point, quantiles
from arcwise.analysis.estimators.shares import share
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.likelihood.linear_maps import code_laws
from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms import OptimalPiecewise
from arcwise.tasks import Task
from arcwise.typing import IntArray
from tests.support.known import known, there, width
from tests.support.surveys import drawn_counts, node_distribution, surveyed


def test_points_of_a_known_distribution() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0, nodes=5)  # cells end at 1/8, 3/8, 5/8, 7/8
    f = np.array([0.2, 0.3, 0.1, 0.0, 0.4])
    assert point(mechanism, f, 0.1) == 0.0  # inside the atom at 0
    assert point(mechanism, f, 0.2) == 0.0
    assert point(mechanism, f, 0.35) == pytest.approx(0.25)  # half way through the second cell
    assert point(mechanism, f, 0.5) == pytest.approx(0.375)
    assert point(mechanism, f, 0.61) == 1.0


@pytest.mark.slow
def test_more_nodes_than_needed_do_no_harm() -> None:
    """At 0.95, a median is missed in more than 3 of 16 surveys with probability 0.007.

    From 288 nodes on, weights are constant on blocks of codes.
    """
    values = np.random.default_rng(1).beta(2, 5, 5000)
    widths, missed = [], []
    for nodes in (128, 600):
        mechanism = OptimalPiecewise(Interval(0, 1), 2.0, nodes=nodes)
        truth = node_distribution(mechanism, values)
        intervals = []
        for seed in range(16):
            counts = drawn_counts(mechanism, truth, 20_000, seed)
            intervals.append(quantiles(Survey(mechanism, counts, probabilities=truth))["0.5"])
        missed.append(sum(not each.contains(float(np.median(values))) for each in intervals))
        widths.append(np.mean([width(each) for each in intervals]))
    assert max(missed) <= 3
    assert widths[1] < 1.5 * widths[0]


@pytest.mark.parametrize("placement", ["inset", "clamp"])
def test_a_fine_grid_keeps_what_is_at_the_ends(placement: Literal["inset", "clamp"]) -> None:
    """Uses the expected reports: chance plays no part, and an interval without the truth is wrong."""
    mechanism = OptimalPiecewise(Interval(0, 1), 4.0, nodes=1024, placement=placement)
    truth = np.full(1024, 0.5 / 1024)
    truth[0] += 0.3
    truth[-1] += 0.2
    counts = np.rint(1e6 * code_laws(mechanism.kernel, truth[None])[0])
    survey = Survey(mechanism, counts, probabilities=truth)
    at = survey.bounds.places.at
    for unit in np.linspace(at[16], at[-17], 7):
        found = share(survey, 0.0, float(unit))
        assert found.contains(float(truth[at <= unit + 1e-12].sum()))
        assert width(found) < 0.05


def test_quantiles_are_ordered_and_inside_their_intervals() -> None:
    mechanism = OptimalPiecewise(Interval(-10, 30), 1.0)
    values = 40 * np.random.default_rng(1).beta(2, 5, 5000) - 10
    result = quantiles(surveyed(mechanism, values, 10_000, 3))
    assert list(result) == ["0.05", "0.25", "0.5", "0.75", "0.95"]
    points = [value.value for value in result.values()]
    for value in map(known, result.values()):
        assert value.contains(value.value)
        assert -10 <= value.low < value.high <= 30
    assert points == sorted(points, key=float)  # type: ignore[arg-type]


def slope(task: Task) -> IntArray:
    """Return the counts of 5,000 reports from a population with a straight line as its density."""
    nodes = np.arange(task.mechanism.kernel.nodes) + 1.0
    return drawn_counts(task.mechanism, nodes / nodes.sum(), 5000, 1).astype(np.int64)


@pytest.mark.parametrize("domain", [Interval(0, 10), Interval(0, 10, step=1), Circle(10)], ids=str)
def test_further_levels_change_no_other_quantile(domain: Domain) -> None:
    task = Task("waits", domain, 2.0)
    counts = slope(task)
    asked: dict[str, Any] = {"origin": 0.0} if domain.circular else {}
    plain = estimate(task, counts, **asked).quantiles
    one, some = (estimate(task, counts, quantiles=q, **asked).quantiles for q in ([0.1], (0.999, 0.1, 0.5)))
    assert list(plain) == [f"{each:g}" for each in LEVELS]
    assert list(some) == ["0.05", "0.1", "0.25", "0.5", "0.75", "0.95", "0.999"]
    assert some == {**plain, **one, "0.999": some["0.999"]}
    assert all(value.contains(value.value) for value in map(known, some.values()))


def test_further_levels_on_a_circle_are_counted_from_opposite_the_direction() -> None:
    task = Task("turns", Circle(10), 2.0)
    counts = slope(task)
    assert not estimate(task, counts).quantiles
    banded = estimate(task, counts, bands=True).quantiles
    assert estimate(task, counts, quantiles=[0.5]).quantiles == banded


@pytest.mark.parametrize("bad", [0.9, "0.9", [0], [1.0], [float("nan")], [None], [0.1234567], [90]])
def test_bad_levels_are_refused(bad: Any) -> None:
    task = Task("waits", Interval(0, 10), 2.0)
    counts = np.ones(task.mechanism.kernel.codes, dtype=int)
    ways: list[Any] = [estimate, lambda *a, **k: post_stratify(task, {"a": counts}, {"a": 1.0}, **k)]
    ways.append(lambda *a, **k: series(task, {5: counts}, **k))
    for way in ways:
        with pytest.raises(ParameterError, match=r"^quantiles must hold numbers between 0 and 1"):
            way(task, counts, quantiles=bad)
    with pytest.raises(ParameterError, match=r"^quantiles must hold at most 20 numbers, got 21"):
        estimate(task, counts, quantiles=[k / 100 for k in range(1, 22)])


def test_quantiles_in_an_end_zone_of_clamp_are_ranges() -> None:
    mechanism = OptimalPiecewise(Interval(0, 100), 1.0, placement="clamp")
    zone = 100 * mechanism.kernel.window / (2 * mechanism.kernel.codes)
    for at, truth in ((0.0, 0.0), (zone / 2, zone / 2), (100.0, 100.0)):
        median = quantiles(surveyed(mechanism, [at], 20_000, 3))["0.5"]
        assert median.value is None
        assert median.contains(truth)
        assert "end zone" in median.note


def test_an_atom_at_an_end_is_found() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 4.0)
    values = np.concatenate([np.zeros(400), np.linspace(0, 1, 600)])
    result = quantiles(surveyed(mechanism, values, 50_000, 3))
    assert result["0.05"].value == 0.0
    assert result["0.05"].low == 0.0
    assert result["0.25"].contains(0.0)
    assert result["0.75"].contains(0.583)


@pytest.mark.slow
def test_coverage_of_quantiles() -> None:
    # 40 surveys and 5 quantiles. At a coverage of 0.95 each, fewer than 33 of 40 have probability 7e-4 (4e-3
    # for any of the five). The study with 200 surveys of 10^4 is benchmarks/studies/coverage.py.
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0, nodes=48)
    values = np.sort(np.random.default_rng(1).beta(2, 5, 4000))
    nodes = node_distribution(mechanism, values)
    covered = dict.fromkeys(LEVELS, 0)
    for seed in range(40):
        counts = drawn_counts(mechanism, nodes, 2000, seed)
        for tau, found in zip(
            LEVELS, quantiles(Survey(mechanism, counts, probabilities=nodes)).values(), strict=True
        ):
            covered[tau] += found.contains(float(np.quantile(values, tau)))
    assert min(covered.values()) >= 33


def nearly(value: float) -> Average:
    """Return an average with almost no error."""
    return Average(value, np.zeros((2, 1)), np.array([1e-6]), 2.0, 1e6, 0.0)


def test_an_end_is_not_beyond_a_place_whose_bound_fails() -> None:
    """Bounds jump, so the furthest of many places that pass would be the luckiest one."""
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0, nodes=32)
    line = _Line(Bounds(mechanism, np.full(mechanism.kernel.codes, 100.0)), 0.0)
    end = _End(0, 20, 0.5, 1.96)
    found = {20: 0.9, 4: 0.2, 16: 0.1, 8: 0.3, 12: 0.6}
    line._averages[0] = {k: nearly(value) for k, value in found.items()}
    assert line._between(end) == (8, 12)
    at = there(line._next(end))
    assert 8 < at < 12
    line._averages[0] |= {at: nearly(0.7)}
    assert line._between(end) == (8, at)


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.slow
def test_the_smallest_median_is_held_where_half_are_on_either_side_of_a_gap(epsilon: float) -> None:
    """At 0.95, it is missed in more than 11 of 100 surveys with probability 0.004."""
    mechanism = OptimalPiecewise(Interval(0, 1), epsilon, nodes=41)
    values = np.concatenate([np.linspace(0.0, 0.3, 500), np.linspace(0.7, 1.0, 500)])
    nodes = node_distribution(mechanism, values)
    found = [
        quantiles(Survey(mechanism, drawn_counts(mechanism, nodes, 20_000, seed), probabilities=nodes))["0.5"]
        for seed in range(100)
    ]
    assert sum(not each.contains(0.3) for each in found) <= 11
