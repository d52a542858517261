"""Estimates over time: points are merged epochs, gaps are gaps, directions go across the wrap."""

import json
import re
from collections.abc import Callable
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, f_oneway, ttest_ind_from_stats

from arcwise.analysis import Value, estimate, series
from arcwise.analysis.plotting.pictures import plot_rows
from arcwise.analysis.timeseries.change import change
from arcwise.analysis.timeseries.epochs import Span, epochs_in_step
from arcwise.analysis.timeseries.result import Series, unwrapped
from arcwise.analysis.timeseries.series import point_spans
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.kernels.table import TableKernel
from arcwise.mechanisms.additive.pure import LaplaceMechanism
from arcwise.tasks import DAY, Task
from tests.support.known import there
from tests.support.strategies import tasks
from tests.support.surveys import drawn_counts, expected_counts, node_distribution

UNIT = Interval(0, 1)
DELAY = Task("delay <min>", Interval(0, 100), 2.0)
RATING = Task("rating", Interval(0, 10), 2.0, goal="value")
HEADING = Task("heading", Circle(360), 2.0)
HOURLY = Task("hourly", Interval(0, 1), 2.0, epoch_seconds=3600)
SUNDAY = 20_758
"""The day number of 2026-11-01."""


def counts_of(task: Task, at: list[float] | Any, n: int, seed: int) -> Any:
    nodes = node_distribution(task.mechanism, at)
    return drawn_counts(task.mechanism, nodes, n, seed).astype(np.int64)


def headings(directions: list[float], n: int = 4000, start: int = SUNDAY) -> Series:
    """Return a series of days with people within 20 degrees of these directions."""
    spread = np.linspace(-20, 20, 41)
    counts = {
        start + day: counts_of(HEADING, (at + spread) % 360, n, day) for day, at in enumerate(directions)
    }
    return series(HEADING, counts)


def test_points_are_the_estimates_of_their_merged_epochs() -> None:
    counts = {SUNDAY + day: counts_of(DELAY, [10.0, 20.0 + day], 500 + day, day) for day in range(10)}
    result = series(DELAY, counts, every=3, first=SUNDAY)
    assert [(point.first - SUNDAY, point.last - SUNDAY) for point in result.points] == [
        (0, 2), (3, 5), (6, 8), (9, 11),
    ]  # fmt: skip
    for point in result.points:
        whole = sum(counts[epoch] for epoch in range(point.first, point.last + 1) if epoch in counts)
        expected = estimate(DELAY, whole, epochs=3)
        assert (point.n, point.mean) == (expected.n, expected.mean)
    assert result.n == sum(point.n for point in result.points) == sum(500 + day for day in range(10))
    (all_of_it,) = series(DELAY, counts, every=10, first=SUNDAY).points
    assert all_of_it.mean == estimate(DELAY, sum(counts.values()), epochs=10).mean


def test_expected_counts_give_the_truth_at_every_point() -> None:
    counts = {}
    for day, at in enumerate((10.0, 50.0, 90.0)):
        nodes = node_distribution(DELAY.mechanism, [at])
        counts[SUNDAY + day] = np.rint(expected_counts(DELAY.mechanism, nodes, 1e12)).astype(np.int64)
    result = series(DELAY, counts)
    np.testing.assert_allclose(result.numbers("mean")[:, 0], [10, 50, 90], rtol=1e-8)
    assert there(result.change).p < 1e-100


def test_epochs_without_reports_are_gaps() -> None:
    counts = counts_of(DELAY, [30.0], 100, 1)
    result = series(DELAY, {SUNDAY: counts, SUNDAY + 1: 0 * counts, SUNDAY + 4: counts}, last=SUNDAY + 5)
    assert [point.n for point in result.points] == [100, 0, 0, 0, 100, 0]
    for point in result.points:
        assert (point.mean is None) == (point.n == 0)
    document = result.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["points"][1] == {
        "first": SUNDAY + 1,
        "last": SUNDAY + 1,
        "start": "2026-11-02",
        "end": "2026-11-03",
        "n": 0,
    }
    assert np.isnan(result.numbers("mean")[[1, 2, 3, 5]]).all()
    assert result._repr_html_().count("<tr>") == 1 + 4
    lines = str(result).splitlines()
    rows = [line.split() for line in lines if line.startswith("2026")]
    assert [(row[0], row[1]) for row in rows] == [
        ("2026-11-01", "100"),
        ("2026-11-02", "0"),
        ("2026-11-05", "100"),
        ("2026-11-06", "0"),
    ]
    assert rows[1][2:] == ["3", "points"]


@pytest.mark.parametrize(
    ("task", "every", "weekday"), [(DELAY, 7, 0), (HOURLY, 168, 0), (HOURLY, 24, None), (HOURLY, 8, None)]
)
def test_points_stay_where_they_are_when_epochs_are_added(
    task: Task, every: int, weekday: int | None
) -> None:
    counts = counts_of(task, [0.5], 50, 1)
    now = SUNDAY * 86_400 // task.epoch_seconds
    starts = []
    for back in (0, 5, 3 * every + 1):
        result = series(task, {now - back: counts, now: counts}, every=every)
        assert result.points[0].first <= now - back <= result.points[0].last
        starts.append({point.start for point in result.points})
        for point in result.points:
            assert point.start.hour % (every * task.epoch_seconds / 3600) == 0
            assert weekday is None or point.start.weekday() == weekday
            assert point.start.timestamp() == point.first * task.epoch_seconds
            assert point.end.timestamp() == (point.last + 1) * task.epoch_seconds
    assert starts[0] <= starts[1] <= starts[2]
    assert len(starts[2]) >= 4


def test_a_range_cuts_the_points_at_its_ends() -> None:
    counts = {SUNDAY + day: counts_of(DELAY, [30.0], 10 + day, day) for day in range(10)}
    result = series(DELAY, counts, every=4, first=SUNDAY + 2, last=SUNDAY + 7)
    assert [(point.first - SUNDAY, point.last - SUNDAY, point.n) for point in result.points] == [
        (2, 5, 12 + 13 + 14 + 15), (6, 7, 16 + 17),
    ]  # fmt: skip
    assert result.points[-1].end == datetime(2026, 11, 9, tzinfo=timezone.utc)


def test_directions_are_unwrapped_around_the_circle() -> None:
    result = headings([340, 350, 0, 10, 20, 40])
    numbers = result.numbers("direction")
    # 4,000 reports within 20 degrees: 5 degrees are more than 5 standard errors.
    np.testing.assert_allclose(numbers[:, 0], np.array([340, 350, 360, 370, 380, 400]) - 360, atol=5)
    assert (numbers[:, 1] < numbers[:, 0]).all()
    assert (numbers[:, 0] < numbers[:, 2]).all()
    for point, unwound in zip(result.points, numbers[:, 0], strict=True):
        assert there(point.direction).value == pytest.approx(unwound % 360)


@given(st.lists(st.none() | st.tuples(st.floats(0, 24, exclude_max=True), st.floats(0, 13)), max_size=20))
def test_unwrapped_directions_never_jump(points: list[tuple[float, float] | None]) -> None:
    values = [None if p is None else Value(p[0], p[0] - p[1], p[0] + p[1], "") for p in points]
    rows = unwrapped(values, 24.0)
    known = [p is not None and 2 * p[1] < 23.999 for p in points]
    np.testing.assert_array_equal(~np.isnan(rows[:, 0]), known)
    assert (np.abs(np.diff(rows[known, 0])) <= 12 + 1e-9).all()
    for row, value in zip(rows[known], [v for v, k in zip(values, known, strict=True) if k], strict=True):
        assert value is not None
        assert value.value is not None
        assert row[2] - row[1] == pytest.approx(value.high - value.low)  # type: ignore[operator]
        assert (row[0] - value.value) / 24 == pytest.approx(round((row[0] - value.value) / 24), abs=1e-9)
    if any(known):
        assert -1e-9 <= np.nanmedian(rows[:, 0]) < 24 + 1e-9


def test_a_direction_that_is_not_determined_is_no_jump() -> None:
    counts = {
        SUNDAY: counts_of(HEADING, [350.0], 4000, 1),
        SUNDAY + 1: counts_of(HEADING, np.arange(360.0), 4000, 2),
        SUNDAY + 2: counts_of(HEADING, [10.0], 4000, 3),
    }
    result = series(HEADING, counts)
    first, middle, last = result.numbers("direction")[:, 0]
    assert np.isnan(middle)
    assert abs(last - first) < 40
    assert "undetermined" in str(result)


def test_quantiles_of_a_circle_are_unwrapped_too() -> None:
    counts = {SUNDAY + day: counts_of(HEADING, [at], 3000, day) for day, at in enumerate((340.0, 20.0))}
    result = series(HEADING, counts, origin=180)
    first, second = result.numbers("quantile 0.5")[:, 0]
    # The fit is smoothed; 15 degrees are half of a day's movement.
    assert second - first == pytest.approx(40, abs=15)
    formatter: Any = result.plot().axes[-1].yaxis.get_major_formatter()
    assert formatter(-20.0, 0) == "340"


def test_simultaneous_intervals_are_bonferroni() -> None:
    counts = {SUNDAY + day: counts_of(DELAY, [30.0], 500, day) for day in (0, 1, 2, 5)}
    for point in series(DELAY, counts, level=0.9, simultaneous=True).points:
        if point.n:
            assert point.mean == estimate(DELAY, counts[point.first], level=1 - 0.1 / 4).mean


def test_shares_and_quantiles_where_they_are_asked_for() -> None:
    counts = {SUNDAY: counts_of(DELAY, [10.0, 60.0], 3000, 1)}
    (point,) = series(DELAY, counts, between=[(0, 30)], quantiles=True).points
    whole = estimate(DELAY, counts[SUNDAY], between=[(0, 30)])
    assert (point.shares, point.quantiles) == (whole.shares, whole.quantiles)
    assert {"share 0:30", "quantile 0.5", "mean"} <= set(point.values())
    (point,) = series(DELAY, counts, between=[(0, 30)]).points
    assert not point.quantiles
    (point,) = series(DELAY, counts).points
    assert set(point.to_dict()) == {"first", "last", "start", "end", "n", "mean"}
    headed = counts_of(HEADING, [350.0, 60.0], 3000, 1)
    (point,) = series(HEADING, {SUNDAY: headed}, between=[(300, 20)], origin=180).points
    whole = estimate(HEADING, headed, between=[(300, 20)], origin=180)
    assert (point.shares, point.quantiles) == (whole.shares, whole.quantiles)
    assert len(point.shares) == 1
    assert len(point.quantiles) == 5
    many = {SUNDAY + day: counts[SUNDAY] for day in range(600)}
    with pytest.raises(
        ParameterError, match="simultaneous must be False with between, quantiles or target 'users', at 600"
    ):
        series(DELAY, many, quantiles=True, simultaneous=True)


def test_points_of_few_reports_say_so() -> None:
    counts = {SUNDAY: counts_of(DELAY, [30.0], 1000, 1), SUNDAY + 1: counts_of(DELAY, [30.0], 4, 1)}
    result = series(DELAY, counts)
    assert result.points[1].mean is not None
    assert "few reports" in result.points[1].mean.note
    text = str(result)
    assert "*4" in text
    assert "* fewer than 30 reports" in text
    assert "few reports: with fewer than 30 the interval's level is rough (1 of 2 points)" in text
    assert result.change is None  # one point is not enough


# The test of a change ---------------------------------------------------------------------------------------


def test_two_points_are_compared_as_by_welch_and_by_student() -> None:
    generator = np.random.default_rng(1)
    x, y = generator.normal(0, 1, 40), generator.normal(0.3, 3, 90)
    moments = [(a.mean(), a.std(ddof=1), len(a)) for a in (x, y)]
    values = np.array([[m] for m, _, _ in moments])
    covariances = np.array([[[s**2 / n]] for _, s, n in moments])
    reports = np.array([float(n) for _, _, n in moments])
    expected = max(ttest_ind_from_stats(*moments[0], *moments[1], equal_var=e).pvalue for e in (True, False))
    assert change("", values, covariances, reports).p == pytest.approx(expected)


def test_many_points_of_one_spread_are_compared_as_by_fisher() -> None:
    generator = np.random.default_rng(2)
    groups = [generator.normal(0.1 * i, 1, 1000) for i in range(4)]
    groups = [(g - g.mean()) / g.std() + g.mean() for g in groups]
    values = np.array([[g.mean()] for g in groups])
    covariances = np.array([[[g.var(ddof=1) / len(g)]] for g in groups])
    p = change("", values, covariances, np.full(4, 1000.0)).p
    assert p == pytest.approx(f_oneway(*groups).pvalue, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "at", "moved"),
    [
        pytest.param(DELAY, 30.0, 40.0, id="interval"),
        pytest.param(HEADING, 350.0, 20.0, id="circle", marks=pytest.mark.slow),
    ],
)
def test_a_change_is_found_and_chance_is_not(task: Task, at: float, moved: float) -> None:
    alarms = 0
    for seed in range(200):
        counts = {SUNDAY + day: counts_of(task, [at], 300, 10 * seed + day) for day in range(5)}
        result = series(task, counts)
        alarms += there(result.change).p < 0.05
    # A test of level 0.05 raises more alarms than this once in a million.
    assert alarms <= binom.isf(1e-6, 200, 0.05)
    counts = {SUNDAY + day: counts_of(task, [at if day < 5 else moved], 3000, day) for day in range(10)}
    result = series(task, counts)
    assert there(result.change).p < 1e-6
    assert "a change of" in str(result)


def test_a_range_of_means_has_no_test() -> None:
    counts = {SUNDAY + day: counts_of(RATING, [5.0], 1000, day) for day in range(3)}
    result = series(RATING, counts)
    assert result.change is None
    assert "change" not in result.to_dict()
    assert all("[" in line for line in str(result).splitlines() if line.startswith("2026"))


# How it shows itself ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [DELAY, RATING, HEADING, HOURLY], ids=lambda task: task.name)
@pytest.mark.parametrize("n", [1, 20, 3000])
def test_tables_fit_a_terminal(task: Task, n: int) -> None:
    start = 86_400 * SUNDAY // task.epoch_seconds
    counts = {start + day: counts_of(task, [0.5, 1.0], n, day) for day in (0, 1, 2, 3, 7, 9)}
    result = series(task, counts)
    lines = [line for line in str(result).splitlines() if not line.startswith("note: ")]
    assert max(map(len, lines)) <= 79
    assert sum(line.startswith("2026") for line in lines) == 8 * len(result.columns())
    assert json.dumps(result.to_dict(), allow_nan=False)


@settings(max_examples=40)
@given(task=tasks(), seed=st.integers(0, 2**32), n=st.sampled_from([1, 2, 5, 300, 10**6, 10**10]))
def test_every_task_and_number_of_reports_gives_text_and_plain_json(task: Task, seed: int, n: int) -> None:
    generator = np.random.default_rng(seed)
    laws = generator.dirichlet(np.full(task.mechanism.kernel.codes, 0.3), 3)
    counts = {100 + 2 * place: generator.multinomial(n, law) for place, law in enumerate(laws)}
    result = series(task, counts)
    document = result.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    rows = [line for line in str(result).splitlines() if re.match(r"\d{4}-\d\d-\d\d ", line)]
    assert len(rows) == 5 * len(result.columns())
    assert all(len(row) <= 100 for row in rows)
    assert (result.change is None) == (
        n < 30 or result.points[0].values()[next(iter(result.columns()))].value is None
    )


def test_bars_stand_where_the_numbers_are() -> None:
    counts = {SUNDAY + day: counts_of(DELAY, [10.0 + 20 * day], 30_000, day) for day in range(4)}
    rows = [line for line in str(series(DELAY, counts)).splitlines() if line.startswith("2026")]
    places = [row.index("o", row.index("]")) for row in rows]
    steps = np.diff(places)
    assert (steps > 3).all()
    assert steps.max() - steps.min() <= 2


def test_the_picture_shows_bands_gaps_and_the_wrap() -> None:
    result = headings([340, 350, 0, 10])
    figure = result.plot()
    directions, lengths = figure.axes
    assert [axes.get_ylabel() for axes in (directions, lengths)] == ["direction", "resultant length"]
    formatter: Any = directions.yaxis.get_major_formatter()
    assert [formatter(tick, 0) for tick in (-20.0, 0.0, 10.0, 360.0)] == ["340", "0", "10", "0"]
    (band,) = [each for each in directions.collections if each.get_label() == "interval, 95 %"]
    top = max(path.vertices[:, 1].max() for path in band.get_paths())  # type: ignore[union-attr, index]
    assert top == pytest.approx(result.numbers("direction")[:, 2].max())

    counts = {SUNDAY + day: counts_of(DELAY, [30.0], 500, day) for day in (0, 1, 4)}
    gapped = series(DELAY, counts)
    (axes,) = gapped.plot().axes
    (band,) = [each for each in axes.collections if each.get_label() == "interval, 95 %"]
    assert len(band.get_paths()) == 2
    both = plot_rows([gapped, estimate(HEADING, counts_of(HEADING, [20.0], 500, 1)), result])
    assert len(both.axes) == 4


@pytest.mark.slow
def test_points_share_what_is_the_same_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    # Laplace noise on 33 nodes: reports decode with a bias, and unbiased numbers need a decomposition.
    task = Task("noise", UNIT, 1.0, mechanism=LaplaceMechanism(UNIT, 1.0))
    codes = task.mechanism.kernel.codes
    counts = {day: np.random.default_rng(day).poisson(2, codes) for day in range(40)}
    alone = [estimate(task, each).mean for each in counts.values()]
    again = Task.from_bytes(task.to_bytes())  # whose decomposition is not cached yet
    made: list[str] = []

    def watched(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def called(*args: Any, **options: Any) -> Any:
            made.append(name)
            return function(*args, **options)

        return called

    monkeypatch.setattr(np.linalg, "svd", watched(np.linalg.svd, "svd"))
    monkeypatch.setattr(TableKernel, "matrix", watched(TableKernel.matrix, "matrix"))
    result = series(again, counts, every=1, first=0)
    assert [point.mean for point in result.points] == alone
    assert result.change is not None
    assert sorted(made) == ["matrix", "svd"]


# Arguments --------------------------------------------------------------------------------------------------


def test_arguments_out_of_bounds() -> None:
    good, k = counts_of(DELAY, [30.0], 100, 1), DELAY.mechanism.kernel.codes
    by_epoch: dict[int, Any]
    options: dict[str, Any]
    for by_epoch, options, message in (
        ({SUNDAY: good}, {"level": 0.3}, r"level must be from 0\.5 to 0\.9999, got 0\.3"),
        ({SUNDAY: good}, {"every": 0}, "every must be an integer of at least 1, got 0"),
        ({SUNDAY: good}, {"every": 1.5}, r"every must be an integer of at least 1, got 1\.5"),
        ({SUNDAY: good}, {"first": SUNDAY + 1}, "at least one report in the range, got none"),
        ({SUNDAY: good}, {"first": SUNDAY, "last": SUNDAY - 1}, "at least one report in the range, got none"),
        ({SUNDAY: good}, {"first": 0, "last": 200_000}, "at most 100000 points; got 1, giving 200001"),
        ({SUNDAY: good}, {"last": 10**9}, "at most 100000 points"),
        ({SUNDAY: good}, {"origin": 3}, "origin must be None on an interval, got 3"),
        ({10**9: good}, {}, "year 9999"),
        ({SUNDAY: np.zeros(k + 1, np.int64)}, {}, rf"shape \({k},\)"),
        ({SUNDAY: np.ones(k)}, {}, "must be integers"),
        ({SUNDAY: good, SUNDAY + 1: -good}, {}, "at least 0"),
    ):
        with pytest.raises(ParameterError, match=message):
            series(DELAY, by_epoch, **options)
    with pytest.raises(ParameterError, match="origin must be given for quantiles on a circle"):
        series(HEADING, {SUNDAY: counts_of(HEADING, [30.0], 100, 1)}, quantiles=True)


HOURS = Task("hours", Interval(0, 1), 1.0, epoch_seconds=3600)


def epoch_of(*date: int) -> int:
    return HOURS.epoch(datetime(*date, tzinfo=timezone.utc).timestamp())  # type: ignore[arg-type,misc]


def test_months_begin_on_their_first_day() -> None:
    counts = np.ones(HOURS.mechanism.kernel.codes, np.int64)
    by_epoch = {epoch_of(*date): counts for date in ((2027, 12, 31, 23), (2028, 1, 1), (2028, 2, 29, 5))}
    points = series(HOURS, by_epoch, every="month").points
    starts = [point.start.date().isoformat() for point in points]
    assert starts == ["2027-12-01", "2028-01-01", "2028-02-01"]
    assert [point.end.date().isoformat() for point in points] == [*starts[1:], "2028-03-01"]
    assert [point.n for point in points] == [204, 204, 204]


def test_a_range_cuts_the_first_and_the_last_month() -> None:
    span = Span(epoch_of(2026, 1, 20), epoch_of(2026, 3, 2, 23))
    spans = point_spans(HOURS, [], every="month", span=span)
    assert [(each.first, each.last) for each in spans] == [
        (epoch_of(2026, 1, 20), epoch_of(2026, 2, 1) - 1),
        (epoch_of(2026, 2, 1), epoch_of(2026, 3, 1) - 1),
        (epoch_of(2026, 3, 1), epoch_of(2026, 3, 2, 23)),
    ]


@given(
    seconds=st.sampled_from([60, 3600, DAY // 2, DAY]),
    epochs=st.lists(st.integers(0, 30_000), min_size=1, max_size=5),
    every=st.sampled_from(["month", 1, 7, 1000]),
    open_start=st.booleans(),
    open_end=st.booleans(),
)
def test_points_cover_the_range_without_holes(
    seconds: int, epochs: list[int], every: int | str, open_start: bool, open_end: bool
) -> None:
    task = Task("any", Interval(0, 1), 1.0, epoch_seconds=seconds)
    span = Span(None if open_start else min(epochs), None if open_end else max(epochs))
    spans = point_spans(task, epochs, every=every, span=span)  # type: ignore[arg-type]
    assert spans[0].first <= min(epochs) <= max(epochs) <= spans[-1].last
    assert all(one.last + 1 == other.first for one, other in pairwise(spans))
    assert all(each.first <= each.last for each in spans)
    assert open_start or spans[0].first == min(epochs)
    assert open_end or spans[-1].last == max(epochs)


@pytest.mark.parametrize("seconds", [7 * DAY, DAY + 1, 2 * DAY, 7 * 3600])
def test_epochs_that_do_not_begin_with_days_have_no_months(seconds: int) -> None:
    task = Task("weeks", Interval(0, 1), 1.0, epoch_seconds=seconds)
    with pytest.raises(ParameterError, match="every must be a number of epochs for this task"):
        epochs_in_step(task, "month", "every")
    with pytest.raises(ParameterError, match="every must be a number of epochs"):
        series(task, {5: np.ones(task.mechanism.kernel.codes, np.int64)}, every="month")


def test_months_end_in_the_year_9999() -> None:
    day = Task("day", Interval(0, 1), 1.0)
    last = day.epoch(datetime(9999, 12, 30, tzinfo=timezone.utc).timestamp())
    assert len(point_spans(day, [last], every="month", span=Span(last, last))) == 1
    with pytest.raises(ParameterError, match="epoch must lie from 1970 to the year 9999"):
        point_spans(day, [last], every="month", span=Span())
