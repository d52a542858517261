"""Reports of the same devices: intervals that allow for it, their notes, and their widths."""

import math
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from arcwise.analysis import Comparison, compare_reference, compare_samples, estimate, post_stratify, series
from arcwise.analysis.estimators.survey import most_reports, whole_counts
from arcwise.analysis.simulate import simulate_counts
from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import ParameterError
from arcwise.tasks import DAY, Caps, Task
from benchmarks.studies.same_devices import (
    HABITS,
    OFTEN,
    POPULATIONS,
    Habit,
    drawn,
    reported,
    survey,
    tasks_of,
)
from tests.support.cases import mostly_slow
from tests.support.known import there
from tests.support.strategies import ALL_EXAMPLES, LATTICE_EXAMPLES, Example

ALARM = 1e-6
"""The probability that a family of surveys is rejected by chance if its intervals hold as promised."""


SURVEYS = 8
"""Of 125 for each habit, in a random order; the study `same_devices` has them all."""


@pytest.mark.parametrize("habit", mostly_slow([(each,) for each in HABITS], every=3))
def test_intervals_hold_though_devices_report_again(habit: Habit) -> None:
    """Each sort of interval misses at most 7 % of surveys, over populations, epsilons and frequencies."""
    rng = np.random.default_rng(HABITS.index(habit))
    populations = {name: drawn(name, 10**6, rng) for name in POPULATIONS}
    found: dict[str, list[bool]] = {}
    cells = list(product(populations, tasks_of(habit), OFTEN))
    for place in rng.permutation(len(cells))[:SURVEYS]:
        name, task, often = cells[place]
        for sort, holds in survey(habit, task, name, often, populations[name], rng):
            found.setdefault(sort, []).append(holds)
    for sort, each in found.items():
        assert len(each) - sum(each) <= binom.ppf(1.0 - ALARM, len(each), 0.07), sort


def test_without_it_intervals_of_habits_do_not_hold() -> None:
    """The test above would fail for intervals that treat each report as another device's."""
    rng = np.random.default_rng(1)
    task = Task("habits", Interval(0.0, 1.0), 4.0, goal="distribution")
    truth = drawn("normal", 10**6, rng).mean()
    means = [
        estimate(task, reported(task, "normal", "all", 30, 100, rng, memoised=False)).mean for _ in range(40)
    ]
    assert sum(mean is not None and mean.contains(truth) for mean in means) < 30


@pytest.mark.parametrize("example", mostly_slow([*ALL_EXAMPLES, *LATTICE_EXAMPLES], every=4, ids=repr))
def test_a_memoised_answer_counts_once_however_often_it_came(example: Example) -> None:
    mechanism = example.make(2.0)
    task = Task("again", mechanism.domain, mechanism.epsilon, mechanism=mechanism)
    counts = np.random.default_rng(3).multinomial(400, mechanism.kernel.probabilities([1])[0])
    once = estimate(task, counts, bands=True).to_dict()
    often = estimate(task, counts * 7, reports_per_device=7, memoised=True, bands=True).to_dict()
    assert often.pop("devices") == once["n"]
    assert often.pop("n") == 7 * once.pop("n")
    assert often == once


@pytest.mark.parametrize("example", mostly_slow([*ALL_EXAMPLES, *LATTICE_EXAMPLES], every=4, ids=repr))
def test_intervals_grow_with_the_reports_of_a_device(example: Example) -> None:
    """Fresh answers carry more information than repeated ones, and reports of other devices the most."""
    mechanism = example.make(2.0)
    task = Task("again", mechanism.domain, mechanism.epsilon, mechanism=mechanism)
    middle = float(task.domain.from_unit(np.float64(0.4)))
    counts = simulate_counts(
        task, f"0.5*uniform + 0.5*normal:{middle},{task.domain.length / 10}", 6000, np.random.default_rng(5)
    )

    def width(**options: Any) -> float:
        result = estimate(task, counts, **options)
        value = there(result.mean or result.resultant_length)
        low, high = value.ends() or (0.0, math.inf)
        return high - low

    fresh, more = width(reports_per_device=5), width(reports_per_device=30)
    slack = 1.0 + 1e-9
    assert width() <= fresh * slack
    assert fresh <= more * slack
    assert more <= width(reports_per_device=30, memoised=True) * 1.1


def test_one_report_per_device_changes_nothing() -> None:
    task = Task("again", Interval(0, 100), 1.0)
    counts = simulate_counts(task, "normal:40,10", 3000, np.random.default_rng(2))
    assert estimate(task, counts, reports_per_device=1).to_dict() == estimate(task, counts).to_dict()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"reports_per_device": 0.5}, "reports_per_device must be a number of at least 1"),
        ({"reports_per_device": math.inf}, "reports_per_device must be a number of at least 1"),
        ({"reports_per_device": "7"}, "reports_per_device must be a number of at least 1"),
        ({"memoised": True}, "memoised needs reports_per_device"),
    ],
)
def test_options_out_of_their_bounds_are_named(options: dict[str, Any], words: str) -> None:
    task = Task("again", Interval(0, 100), 1.0)
    counts = [1] * task.mechanism.kernel.codes
    with pytest.raises(ParameterError, match=words):
        estimate(task, counts, **options)
    with pytest.raises(ParameterError, match=words):
        series(task, {1: counts}, **options)


def test_a_single_device_shows_no_population() -> None:
    task = Task("again", Interval(0.0, 100.0), 4.0, goal="distribution")
    counts = simulate_counts(task, "atom:40", 500, np.random.default_rng(2))
    result = estimate(task, counts, reports_per_device=500)
    assert there(result.mean).ends() == (0.0, 100.0)
    assert result.devices == 1
    with pytest.raises(
        ParameterError, match=r"counts must hold .* at least 2 devices, got 500 of at least 1"
    ):
        compare_samples(task, counts, counts, reports_per_device=500)


def test_the_result_says_of_how_many_devices() -> None:
    task = Task("again", Interval(0, 100), 1.0)
    counts = simulate_counts(task, "normal:40,10", 3000, np.random.default_rng(2))
    result = estimate(task, counts, reports_per_device=7)
    assert result.devices == 429
    assert "3,000 reports of at least 429 devices" in str(result)
    assert type(result).from_dict(result.to_dict()) == result
    assert estimate(task, counts).devices is None
    both = compare_samples(task, counts, 2 * counts, reports_per_device=7)
    assert (both.devices, both.other_devices) == (429, 858)
    assert str(both).startswith(
        "6,000 other reports of at least 858 devices minus again's 3,000 reports of at least 429 devices:"
    )
    assert Comparison.from_dict(both.to_document()) == both
    assert compare_reference(task, counts, "uniform", reports_per_device=7).devices == 429
    over_time = series(task, {1: counts, 2: task.count([0] * 50)}, reports_per_device=7)
    assert [point.devices for point in over_time.points] == [429, 8]
    for words in ("\nreports of at least 8 devices in each point\n", " *50 ", "\n* fewer than 30 devices\n"):
        assert words in str(over_time)
    assert "3,000 reports of at least 429 devices: mean" in repr(over_time.points[0])
    assert type(over_time).from_dict(over_time.to_dict()) == over_time


def test_comparisons_and_series_allow_for_it() -> None:
    task = Task("again", Interval(0, 100), 2.0, goal="distribution")
    rng = np.random.default_rng(4)
    one, two = (simulate_counts(task, f"normal:{mean},10", 3000, rng) for mean in (40, 44))
    plain, again = (compare_samples(task, one, two, reports_per_device=m) for m in (1.0, 30.0))
    known = compare_reference(task, one, "normal:40,10", reports_per_device=30.0)
    assert plain.test is not None
    assert again.test is None
    assert known.test is None
    points = [series(task, {1: one, 2: two}, reports_per_device=m).points[0].mean for m in (1.0, 30.0)]
    for narrow, wide in ((plain.mean, again.mean), (points[0], points[1])):
        assert narrow is not None
        assert wide is not None
        (low, high), (lower, higher) = narrow.ends() or (0.0, 0.0), wide.ends() or (0.0, 0.0)
        assert higher - lower > 1.2 * (high - low)


@pytest.mark.parametrize(
    ("caps", "epochs", "most"),
    [
        (Caps(), 1, 1),
        (Caps(), 2, math.inf),
        (Caps(lifetime=5.0), 30, 5),
        (Caps(rolling=1.0, window=DAY), 1, 1),
        (Caps(rolling=1.0, window=DAY), 30, 30),
        (Caps(rolling=2.0, window=7 * DAY), 30, 10),
        (Caps(lifetime=5.0, rolling=2.0, window=DAY), 30, 5),
    ],
)
def test_how_often_caps_allow_a_device_to_report(caps: Caps, epochs: int, most: float) -> None:
    assert most_reports(Task("again", Interval(0, 100), 1.0, caps=caps), epochs) == most


@pytest.mark.parametrize(
    ("caps", "epochs", "words"),
    [
        (Caps(), 1, None),
        (Caps(rolling=1.0, window=DAY), 1, None),
        (Caps(lifetime=1.0), 30, None),
        (Caps(), 30, "the task has no caps: set reports_per_device"),
        (Caps(rolling=1.0, window=DAY), 30, "send 30 of these, with which the interval would be "),
        (Caps(rolling=2.0, window=DAY), 1, "send 2 of these, with which the interval would be "),
    ],
)
def test_a_note_says_what_caps_allow_where_nobody_says_it(caps: Caps, epochs: int, words: str | None) -> None:
    for domain in (Interval(0, 10, step=1), Circle(24, step=1)):
        task = Task("again", domain, 1.0, caps=caps)
        counts = simulate_counts(task, "normal:4,2", 3000, np.random.default_rng(2))
        value = there((result := estimate(task, counts, epochs=epochs)).mean or result.direction)
        assert (words or "another device") in value.note if words else "another device" not in value.note
        ask: Any
        for ask in (
            partial(estimate, task, counts),
            partial(compare_samples, task, counts, counts),
            partial(compare_reference, task, counts, "uniform"),
            partial(post_stratify, task, {"a": counts, "b": counts}, {"a": 1, "b": 2}),
        ):
            assert ("another device" in str(ask(epochs=epochs))) == (words is not None)
            assert "another device" not in str(ask(epochs=epochs, reports_per_device=1))
        for between in ([], [(2, 8)]):
            over_time = str(series(task, {0: counts, epochs: counts}, every=epochs, between=between))
            assert ("another device" in over_time) == (words is not None)


def test_a_test_of_devices_that_may_report_again_says_what_it_assumes() -> None:
    line = Interval(0, 10, step=1)
    often, once = (Task("again", line, 4.0, caps=Caps(rolling=cap, window=DAY)) for cap in (120.0, 4.0))
    rng = np.random.default_rng(3)
    one, two = (rng.multinomial(300, np.full(k := once.mechanism.kernel.codes, 1 / k)) for _ in range(2))
    plain = compare_samples(once, one, two)
    assert plain.test is not None
    assert "note" not in plain.test.to_dict()
    for again in (
        compare_samples(often, one, two),
        compare_samples(once, one, two, other_task=often),
        compare_samples(once, one, two, other_epochs=30),
        compare_samples(once, one, two, epochs=30, other_epochs=1),
    ):
        assert again.test is not None
        assert again.test.p == plain.test.p
        assert "let a device send 30 of these: set" in again.test.note
        assert there(again.mean).notes[-1] == again.test.note
        assert f"p = {plain.test.p:.2g}), if each report is from another device\n" in str(again)
        assert Comparison.from_dict(again.to_document()) == again


def test_no_width_is_told_that_is_none() -> None:
    task = Task("again", Interval(0, 100), 1.0, caps=Caps(lifetime=30.0))
    mean = there(estimate(task, task.count([3, 90, 150]), epochs=30).mean)
    assert mean.notes[-1].endswith("let a device send 30 of these: set reports_per_device")


@pytest.mark.parametrize("domain", [Interval(0, 100), Circle(360)], ids=str)
def test_all_reports_may_be_one_code(domain: Domain) -> None:
    task = Task("again", domain, 2.0)
    for code in (0, 9, task.mechanism.kernel.codes - 1):
        counts = task.count([code] * 40)
        result = estimate(task, counts, reports_per_device=2)
        value, alone = (each.mean or each.direction for each in (result, estimate(task, counts)))
        assert value is not None
        assert alone is not None
        (low, high), (least, most) = value.ends() or (0.0, 0.0), alone.ends() or (0.0, 0.0)
        assert high - low >= most - least


def test_counts_are_divided_in_whole_numbers() -> None:
    rng = np.random.default_rng(1)
    for most in (1.0, 2.0, 2.5, 30.0):
        counts = rng.integers(0, 50, 100).astype(np.float64)
        whole = whole_counts(counts, most)
        assert np.array_equal(whole, np.rint(whole))
        assert whole.min() >= 0.0
        assert np.abs(np.cumsum(whole) - np.cumsum(counts) / most).max() <= 0.5
    assert whole_counts(np.array([1.0, 0.0]), 100.0).sum() == 1.0
