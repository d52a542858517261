"""Comparisons of two samples, or of one with a given population: bounds by brute force, coverage, output."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from arcwise.analysis import Value
from arcwise.analysis.estimators.bounds import USUAL, Average, Bounds, Samples
from arcwise.analysis.estimators.comparison import Comparison, compare_reference, compare_samples
from arcwise.analysis.estimators.differences import (
    direction_difference,
    length_difference,
    quantile_differences,
    share_difference,
)
from arcwise.analysis.estimators.quantiles import LEVELS, quantile_ends, quantiles
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.grid import first_cell
from arcwise.analysis.likelihood.distribution import fit_held_out
from arcwise.analysis.simulate import as_population, simulate_counts
from arcwise.analysis.simulate.truth import Truth, on_lattice
from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms import OptimalCircular, OptimalPiecewise
from arcwise.tasks import Task
from tests.support.known import bounded, there, width
from tests.support.strategies import ALL_EXAMPLES, Example
from tests.support.surveys import drawn_counts

LINE, CIRCLE, SCORES = Interval(0, 100), Circle(360), Interval(0, 10, step=1)
GAP = "0.5*uniform:0,20 + 0.5*uniform:80,100"


def truth_of(domain: Domain, population: str) -> Truth:
    return Truth(on_lattice(as_population(population, domain), domain))


def numbers(value: Value | None) -> Any:
    """Return value, low and high."""
    return np.array([there(value).value, bounded(value).low, bounded(value).high], np.float64)


@settings(max_examples=60, deadline=None)
@given(
    example=st.sampled_from(ALL_EXAMPLES),
    ends=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    sizes=st.tuples(st.sampled_from([2, 300, 10**5]), st.sampled_from([30, 10**4])),
    seed=st.integers(0, 2**32),
)
@pytest.mark.slow
def test_sums_of_averages_are_above_differences_of_all_populations(
    example: Example, ends: tuple[float, float], sizes: tuple[int, int], seed: int
) -> None:
    """Each sample's weights have means above its functional at every node, so their sum is always above."""
    mechanism = example.make(2.0)
    generator = np.random.default_rng(seed)
    nodes = mechanism.kernel.nodes
    bounds = [
        Bounds(
            mechanism, drawn_counts(mechanism, generator.dirichlet(np.full(nodes, 0.1) + 1e-3), n, seed + k)
        )
        for k, n in enumerate(sizes)
    ]
    functionals = bounds[0].places.between(*sorted(ends))
    total = Samples(bounds, [1.0, 1.0]).totals([functionals], USUAL)[0]
    assert total.variance == pytest.approx(float(total.errors @ total.errors))
    uppers = [total.upper(root) for root in (0.0, 0.5, 2.0, 4.0)]
    assert uppers == sorted(uppers)
    assert total.value <= uppers[0] * (1.0 + 1e-9)  # few reports: half of the tail is above the average
    if uppers[0] < uppers[2] - 1e-6:
        assert total.roots(uppers[2]) == pytest.approx(2.0, abs=1e-3)
    for average, rows in zip(total.averages, functionals, strict=True):
        for weights in average.weights:
            block = -(-mechanism.kernel.codes // len(weights))
            means = mechanism.kernel.matrix() @ np.repeat(weights, block)[: mechanism.kernel.codes]
            lacks = [float((np.roll(row, first_cell(mechanism)) - means).max()) for row in rows]
            assert min(lacks) <= 1e-9 * max(1.0, float(np.abs(weights).max()))


@settings(max_examples=60, deadline=None)
@given(value=st.floats(-1, 1), up=st.floats(1e-6, 3), seed=st.integers(0, 2**32))
def test_roots_undo_upper(value: float, up: float, seed: int) -> None:
    generator = np.random.default_rng(seed)
    errors = generator.normal(size=3) * 0.01
    average = Average(value, np.zeros((3, 1)), errors, value + 5.0, 1000.0, 0.0)
    root = average.roots(value + up)
    assert root > 0.0
    # No level needs more than 8; at 20 two formulas of the tail meet with a step.
    assume(root < 15.0)
    assert average.upper(root) == pytest.approx(value + up, rel=1e-6)
    assert average.roots(value) == average.roots(value - 1.0) == 0.0


@pytest.mark.parametrize(
    ("domain", "epsilon", "populations", "sizes"),
    [
        (LINE, 1.0, ("normal:40,12", "normal:45,12"), (3000, 1000)),
        (LINE, 4.0, (GAP, GAP), (500, 500)),
        (LINE, 8.0, ("atom:31.4", "0.5*atom:31.4 + 0.5*atom:70"), (300, 300)),
        (SCORES, 2.0, ("0.5*atom:2 + 0.5*atom:8", "0.4*atom:2 + 0.6*atom:8"), (2000, 1000)),
        (CIRCLE, 2.0, ("vonmises:10,2", "0.5*atom:0 + 0.5*atom:90"), (1000, 1000)),
    ],
)
@pytest.mark.slow
def test_coverage_of_comparisons(
    domain: Domain, epsilon: float, populations: tuple[str, str], sizes: tuple[int, int]
) -> None:
    """12 surveys: at 0.95, more than 4 misses of an interval have a probability of 2e-4."""
    mechanism = None
    if domain.lattice is None:
        mechanism = (OptimalCircular if domain is CIRCLE else OptimalPiecewise)(domain, epsilon, nodes=48)  # type: ignore[arg-type]
    task = Task("a", domain, epsilon, mechanism=mechanism)
    first, second = (truth_of(domain, each) for each in populations)
    low, length = float(domain.from_unit(np.float64(0.0))), domain.length
    part, circular = (0.2, 0.6), domain is CIRCLE
    generator = np.random.default_rng(5)
    missed: dict[str, int] = {}

    def count(name: str, *, held: bool) -> None:
        missed[name] = missed.get(name, 0) + (not held)

    def judge(name: str, value: Value | None, truth: float, period: float | None = None) -> None:
        count(name, held=there(value).contains(truth, period=period))

    def near(value: Value, truth: float, slack: float) -> bool:
        return bounded(value).low - slack <= truth <= bounded(value).high + slack

    for _ in range(12):
        counts = [
            simulate_counts(task, each, n, generator) for each, n in zip(populations, sizes, strict=True)
        ]
        ask: dict[str, Any] = {
            "between": [(low + part[0] * length, low + part[1] * length)],
            "bands": True,
            "origin": 0.0 if circular else None,
        }
        told = {
            "difference": compare_samples(task, counts[0], counts[1], **ask),
            "reference": compare_reference(task, counts[0], second.population, **ask),
        }
        for which, result in told.items():
            for tau in LEVELS:
                ends = [t.quantile_above(0.0, tau) if circular else t.quantile(tau) for t in (first, second)]
                # Up to a rounding error of the truths.
                count(f"{which} {tau}", held=near(result.quantile(tau), length * (ends[1] - ends[0]), 1e-6))
            (share,) = result.shares.values()
            mass = [t.arc(*part) if circular else t.share(*part) for t in (first, second)]
            judge(f"{which} share", share, mass[1] - mass[0])
            if circular:
                angle = np.angle(second.moment / first.moment) / (2 * np.pi) * length
                judge(f"{which} direction", result.direction, float(angle), length)
                judge(f"{which} length", result.resultant_length, abs(second.moment) - abs(first.moment))
            else:
                judge(f"{which} mean", result.mean, length * (second.mean - first.mean))
                units = {(float(place) - low) / length: value for place, value in result.cdf.items()}
                held = [near(value, second.below(x) - first.below(x), 1e-7) for x, value in units.items()]
                count(f"{which} cdf", held=all(held))
    assert max(missed.values()) <= 4, missed


@pytest.mark.slow
def test_few_reports_at_the_last_value_of_a_lattice() -> None:
    task = Task("a", Interval(0, 100, step=1), epsilon=12.0)
    generator = np.random.default_rng(21)
    for _ in range(5):
        first, second = (
            simulate_counts(task, "0.3*atom:100 + rest*normal:45,20", 30, generator) for _ in range(2)
        )
        assert set(compare_samples(task, first, second).quantiles) == {f"{tau:g}" for tau in LEVELS}


@pytest.mark.slow
def test_turned_round_a_comparison_changes_its_sign() -> None:
    task = Task("a", LINE, epsilon=2.0)
    generator = np.random.default_rng(6)
    first, second = (simulate_counts(task, f"normal:{m},10", 2000, generator) for m in (40, 50))
    ahead = compare_samples(task, first, second, between=[(0, 45)])
    back = compare_samples(task, second, first, between=[(0, 45)])
    pairs = [(ahead.mean, back.mean), (ahead.share(0, 45), back.share(0, 45))]
    pairs += [(ahead.quantiles[tau], back.quantiles[tau]) for tau in ahead.quantiles]
    for one, other in pairs:
        assert numbers(one) == pytest.approx(-numbers(other)[[0, 2, 1]], abs=1e-9)
    assert there(ahead.mean).contains(10.0)
    wider = compare_samples(task, first, second, level=0.99)
    for name, value in ahead.quantiles.items():
        assert width(wider.quantiles[name]) >= width(value)


def test_steps_of_quantile_ends_go_inwards() -> None:
    task = Task("a", LINE, epsilon=2.0)
    sample = Survey.of(task, simulate_counts(task, GAP, 3000, np.random.default_rng(7)))
    known = quantiles(sample)
    for tau, ends in zip(LEVELS, quantile_ends(sample.bounds, 0.95, 2.5), strict=True):
        assert np.all(np.diff(ends.low.at) >= 0.0)
        assert np.all(np.diff(ends.high.at) <= 0.0)
        for steps in ends[:2]:
            assert np.all(np.diff(steps.roots) <= 0.0)
            assert steps.roots[-1] == 0.0
            assert len(steps.roots) == len(steps.at)
        outermost = 100 * ends.low.at[0], 100 * ends.high.at[0]
        value = known[f"{tau:g}"]
        assert outermost[0] <= value.low
        assert value.high <= outermost[1]


def test_no_bound_of_a_quantile_is_computed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task("a", LINE, epsilon=2.0)
    counts = simulate_counts(task, "normal:40,12", 5000, np.random.default_rng(20)).astype(np.float64)
    bounds = Bounds(task.mechanism, counts)
    plain = bounds.averages
    asked: list[tuple[bytes, float]] = []

    def averages(several: Any, root: float) -> Any:
        asked.extend((functionals.tobytes(), root) for functionals in several)
        return plain(several, root)

    monkeypatch.setattr(bounds, "averages", averages)
    monkeypatch.setattr("arcwise.analysis.estimators.quantiles.LEVELS", (0.5,))
    assert len(quantile_ends(bounds, 0.95, 2.5)) == 1
    assert len(asked) == len(set(asked)) > 10


@pytest.mark.parametrize("domain", [LINE, CIRCLE])
def test_each_sample_is_fitted_once(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task("a", domain, epsilon=2.0)
    generator = np.random.default_rng(21)
    first, second = (
        simulate_counts(task, "uniform", 500, generator),
        simulate_counts(task, "uniform", 400, generator),
    )
    fitted = []

    def fit(mechanism: Any, counts: Any) -> Any:
        fitted.append(int(counts.sum()))
        return fit_held_out(mechanism, counts)

    monkeypatch.setattr("arcwise.analysis.estimators.survey.fit_held_out", fit)
    compare_samples(task, first, second, target="users", bands=True)
    assert sorted(fitted) == [400, 500]


@pytest.mark.slow
def test_coverage_of_differences_of_lengths_at_their_ends() -> None:
    """100 surveys: at 0.95, more than 13 misses have a probability below 0.001; counted both ways."""
    mechanism = OptimalCircular(CIRCLE, 0.5)
    generator = np.random.default_rng(17)
    for populations in (("uniform:350,360", "vonmises:355,8"), ("uniform", "vonmises:10,1")):
        first, second = (abs(truth_of(CIRCLE, each).moment) for each in populations)
        missed = 0
        for _ in range(100):
            pair = [
                Survey(mechanism, simulate_counts(mechanism, each, n, generator).astype(np.float64))
                for each, n in zip(populations, (100, 10_000), strict=True)
            ]
            for one, other, apart in ((0, 1, second - first), (1, 0, first - second)):
                value = length_difference(pair[one], pair[other])
                missed += not value.contains(apart)
                assert -1.0 <= numbers(value)[1] <= numbers(value)[2] <= 1.0
        assert missed <= 26


@pytest.mark.slow
def test_samples_of_two_mechanisms_are_compared_without_a_test() -> None:
    task, other = Task("a", LINE, epsilon=4.0), Task("a", LINE, epsilon=1.0)
    generator = np.random.default_rng(8)
    first, second = (
        simulate_counts(task, "normal:40,12", 3000, generator),
        simulate_counts(other, "normal:60,12", 20_000, generator),
    )
    result = compare_samples(task, first, second, other_task=other, between=[(0, 50)], bands=True)
    assert result.test is None
    assert there(result.mean).contains(20.0)
    assert bounded(result.mean).low > 0.0
    assert bounded(result.share(0, 50)).high < 0.0
    assert bounded(result.quantile(0.5)).low > 0.0
    assert min(bounded(value).high for value in result.cdf.values()) < 0.0


def test_a_kernel_placed_otherwise_is_another_mechanism() -> None:
    inset, clamp = (
        Task("a", LINE, 2.0, mechanism=OptimalPiecewise(LINE, 2.0, placement=placement))
        for placement in ("inset", "clamp")
    )
    assert inset.mechanism.kernel == clamp.mechanism.kernel
    generator = np.random.default_rng(18)
    first, second = (simulate_counts(task, "normal:20,5", 20_000, generator) for task in (inset, clamp))
    assert compare_samples(inset, first, second, other_task=clamp).test is None
    assert compare_samples(inset, first, first, other_task=Task("b", LINE, 2.0)).test is not None


def test_a_task_without_a_unit_is_in_that_of_the_other() -> None:
    hours, unnamed = (Task("a", LINE, 2.0, unit=unit) for unit in ("h", None))
    assert compare_samples(hours, [5] * 174, [5] * 174, other_task=unnamed).unit == "h"


@pytest.mark.parametrize("population", ["atom:3.4", "normal:5.2,0.4"])
def test_a_reference_is_not_rounded_where_devices_round_by_chance(population: str) -> None:
    task = Task("a", Interval(0, 10, step=1, rounding="stochastic"), epsilon=4.0)
    counts = simulate_counts(task, population, 20_000, np.random.default_rng(19))
    result = compare_reference(task, counts, population, bands=True)
    assert there(result.mean).contains(0.0)
    assert there(result.test).p > 0.01
    assert all(value.contains(0.0) for value in result.quantiles.values())


@pytest.mark.parametrize("domain", [LINE, CIRCLE, SCORES])
def test_no_shares_are_further_apart_than_all_people(domain: Domain) -> None:
    task = Task("a", domain, epsilon=8.0)
    first, second = np.zeros((2, task.mechanism.kernel.codes), np.int64)
    first[3] = second[-3] = 2
    result = compare_samples(task, first, second, between=[(0, domain.length / 2)], bands=True)
    for value in [*result.shares.values(), *result.bins.values(), *result.cdf.values()]:
        assert -1.0 <= numbers(value)[1] <= numbers(value)[2] <= 1.0


def test_directions_that_are_not_determined_have_no_difference() -> None:
    task = Task("a", CIRCLE, epsilon=1.0)
    generator = np.random.default_rng(9)
    plain, wind = (
        simulate_counts(task, "uniform", 300, generator),
        simulate_counts(task, "vonmises:90,4", 3000, generator),
    )
    pair = [Survey.of(task, each) for each in (plain, wind)]
    value = direction_difference(pair[0], pair[1])
    assert width(value) == pytest.approx(360.0)
    assert "not determined" in value.note
    assert bounded(length_difference(pair[0], pair[1])).low > 0.3
    given = compare_reference(task, plain, "vonmises:100,2").direction
    assert given is not None
    assert given.value is not None
    assert numbers(given)[1:] == pytest.approx([given.value - 180, given.value + 180])
    around = [simulate_counts(task, f"vonmises:{at},8", 20_000, generator) for at in (350, 10)]
    over = direction_difference(*(Survey.of(task, each) for each in around))
    assert over.contains(20.0)
    assert width(over) < 30


def test_what_is_shown_of_a_comparison() -> None:
    task = Task("age", LINE, epsilon=2.0)
    generator = np.random.default_rng(10)
    first, second = (simulate_counts(task, f"normal:{m},10", 5000, generator) for m in (40, 60))
    result = compare_samples(task, first, second, between=[(0, 50)], bands=True)
    text = str(result)
    assert text.splitlines()[0] == "5,000 other reports minus age's 5,000 reports:"
    for word in ("mean", "quantile 0.5", "share 0:50", "bin 10:20", "speak against it"):
        assert word in text
    shown = result.to_dict()
    assert set(shown) == {"other", "n", "level", "mean", "quantiles", "shares", "bins", "cdf", "test"}
    assert set(shown["cdf"][next(iter(shown["cdf"]))]) == {"value", "low", "high", "method", "note", "notes"}
    reference = compare_reference(task, first, "normal:40,10", bands=True)
    assert reference.other == "normal:40,10"
    assert reference.other_n is None
    assert there(reference.test).p > 0.001
    assert set(reference.bins) == set(result.bins)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"other_task": Task("b", LINE, 2.0, unit="min")}, "other_task must be in h, got min"),
        ({"level": 0.3}, "level must be from"),
        ({"target": "people"}, "target must be"),
        ({"origin": 3.0}, "origin must be None on an interval"),
        ({"between": [(50, 40)]}, "low and high"),
        ({"other": [1] + [0] * 173}, "other must hold at least 2 reports"),
        ({"other": [1, 2]}, "other must have the shape"),
        ({"other": [0] * 174}, "other must hold at least one report"),
        ({"other_task": Task("b", Interval(0, 50), epsilon=2.0)}, "other_task must be on"),
    ],
)
def test_what_cannot_be_compared(change: dict[str, Any], message: str) -> None:
    task = Task("a", LINE, epsilon=2.0, unit="h")
    arguments: dict[str, Any] = {"counts": [5] * 174, "other": [4] * 174, **change}
    with pytest.raises(ParameterError, match=message):
        compare_samples(task, **arguments)


def test_circles_need_an_origin_for_quantiles() -> None:
    task = Task("a", CIRCLE, epsilon=2.0)
    generator = np.random.default_rng(11)
    counts = [simulate_counts(task, "vonmises:90,2", 500, generator) for _ in range(2)]
    samples = [Survey.of(task, each) for each in counts]
    with pytest.raises(ParameterError, match="origin must be a point"):
        quantile_differences(samples[0], samples[1])
    assert isinstance(compare_samples(task, *counts), Comparison)
    assert share_difference(samples[0], samples[1], 350, 10).contains(0.0)


@pytest.mark.slow
def test_pictures_of_comparisons_show_every_difference() -> None:
    generator = np.random.default_rng(16)
    for domain, ask in ((LINE, {"bands": True}), (CIRCLE, {"between": [(0, 90)]}), (LINE, {})):
        task = Task("a$b$", domain, epsilon=2.0, unit="min")
        first, second = (
            simulate_counts(task, "uniform", 500, generator),
            simulate_counts(task, "uniform", 500, generator),
        )
        result = compare_samples(task, first, second, **ask)
        figure = result.plot()
        figure.canvas.draw()
        left, *right = figure.axes
        assert len(left.get_yticklabels()) == 1 + len(result.quantiles)
        assert "(min)" in left.get_xlabel()
        assert len(right) == bool(result.cdf or result.shares)
