"""Values: numbers, formats, refused arithmetic, places on circles, one line as repr."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.analysis import (
    Value,
    compare_reference,
    compare_samples,
    estimate,
    fit_test,
    plan,
    post_stratify,
    series,
    simulate_counts,
)
from arcwise.analysis.estimators.direction import direction
from arcwise.analysis.estimators.survey import Survey
from arcwise.domains import Circle, Interval
from arcwise.tasks import Task
from tests.support.known import bounded, there

KNOWN = Value(52.694123, 51.9, 53.5, "a method")
RANGE = Value(None, 40.0, 60.0, "a range")
HEADING = Task("heading", Circle(360), 2.0)
DELAY = Task("delay", Interval(0, 100), 2.0)
PERIOD = 360.0


def drawn(task: Task, population: str, n: int = 20_000, seed: int = 1) -> Any:
    return simulate_counts(task, population, n, np.random.default_rng(seed))


def test_a_value_is_a_number_and_is_written_like_one() -> None:
    assert float(KNOWN) == 52.694123
    assert math.sqrt(KNOWN) == math.sqrt(52.694123)
    assert f"{KNOWN:.2f}|{KNOWN:>9.1f}|{KNOWN:g}" == "52.69|     52.7|52.6941"
    assert f"{KNOWN}" == str(KNOWN) == "52.694 [51.9, 53.5]"
    assert np.array([KNOWN, KNOWN], np.float64).tolist() == [52.694123] * 2


def test_a_range_is_no_number() -> None:
    assert f"{RANGE}" == "between 40 and 60"
    for asked in (float, "{:.2f}".format):
        with pytest.raises(TypeError, match=r"only a range: between 40 and 60; use \.low and \.high"):
            asked(RANGE)


ARITHMETIC: list[Callable[[Any], Any]] = [
    lambda value: value + 1,
    lambda value: 1 + value,
    lambda value: value - value,
    lambda value: np.float64(1) - value,
    lambda value: np.ones(3) * value,
    lambda value: value / 60,
    lambda value: value // 60,
    lambda value: value % 360,
    lambda value: value**2,
    lambda value: -value,
    abs,
    lambda value: sum([value, value]),
    lambda value: np.mean([value, value]),
    lambda value: value < 60,
    lambda value: value >= 60,
    lambda value: sorted([value, value]),
    int,
    round,
    lambda value: round(value, 1),
    math.trunc,
    math.floor,
    math.ceil,
]


@pytest.mark.parametrize("place", range(len(ARITHMETIC)))
def test_arithmetic_is_refused_with_a_word_about_intervals(place: int) -> None:
    with pytest.raises(TypeError, match="would lose its interval"):
        ARITHMETIC[place](KNOWN)


def test_values_are_equal_as_before() -> None:
    assert Value(52.694123, 51.9, 53.5, "a method") == KNOWN
    assert len({KNOWN, RANGE, KNOWN}) == 2


@given(
    st.floats(0, PERIOD, exclude_max=True),
    st.floats(0, 250),
    st.floats(0, 250),
    st.integers(-2, 2),
)
def test_a_place_on_a_circle_lies_in_the_domain(point: float, below: float, above: float, turns: int) -> None:
    there = point + turns * PERIOD
    unwrapped = Value(there, there - below, there + above, "")
    found = unwrapped.on_circle(PERIOD)
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert 0.0 <= found.value < PERIOD
    assert 0.0 <= found.low <= PERIOD
    assert 0.0 <= found.high <= PERIOD
    ends = found.ends()
    assert ends is not None
    low, high = ends
    if (found.low, found.high) != (0.0, PERIOD):  # the whole circle
        assert low - 1e-9 <= found.value <= high + 1e-9
        assert high - low == pytest.approx(below + above, abs=1e-9)
    assert found.through_origin == (found.low > found.high)
    for x in np.linspace(0, PERIOD, 37) + 0.123:
        edge = min(abs((x - end + 180) % 360 - 180) for end in (there - below, there + above))
        if edge > 1e-6:
            assert found.contains(x) == found.contains(x - PERIOD) == unwrapped.contains(x, period=PERIOD)


def test_what_lies_in_the_domain_is_not_touched() -> None:
    for value in (Value(10.1, 3.3, 359.9, ""), Value(0.3, 0.0, 360.0, ""), Value(5.5, None, None, "")):
        found = value.on_circle(PERIOD)
        assert (found.value, found.low, found.high) == (value.value, value.low, value.high)
        assert not found.through_origin


def test_a_tiny_negative_end_stays_below_the_period() -> None:
    found = bounded(Value(1.0, -1e-30, 2.0, "").on_circle(PERIOD))
    assert 359.9 < found.low < PERIOD
    assert found.through_origin


def test_an_arc_through_the_origin_is_told_as_one() -> None:
    found = Value(1.7986, -0.20906, 3.8054, "").on_circle(PERIOD)
    assert str(found) == "1.7986 [359.79 to 3.8054 (through 0)]"
    assert repr(found) == "<Value 1.7986 [359.79 to 3.8054 (through 0)]>"
    assert found.to_dict()["through_origin"] is True
    assert "through_origin" not in KNOWN.to_dict()
    close = Value(1e-4, -1e-4, 3e-4, "").on_circle(PERIOD)  # as many digits as its length requires
    assert close.written()[1] == "359.9999"
    assert str(Value(None, -10.0, 10.0, "").on_circle(PERIOD)) == "between 350 and 10 (through 0)"


def test_an_estimate_moves_what_the_estimators_give() -> None:
    counts = drawn(HEADING, "vonmises:0.3,4", 5000)
    result = estimate(HEADING, counts, bands=True, origin=180)
    before = bounded(direction(Survey(HEADING.mechanism, counts.astype(np.float64))))
    found = there(result.direction)
    assert before.low < 0.0  # otherwise this shows nothing
    assert (found.value, found.low, found.high) == (before.value, before.low % 360, before.high)
    assert found.through_origin
    assert found.contains(359.99)
    assert found.contains(0.0)
    for value in map(there, (found, result.mode, *result.quantiles.values())):
        assert value.period == 360.0
        assert 0 <= value.low <= 360  # type: ignore[operator]
        assert 0 <= value.high <= 360  # type: ignore[operator]
        ends = there(value.ends())
        assert ends[0] - 1e-9 <= float(value) <= ends[1] + 1e-9
    assert there(result.resultant_length).period is None


def test_series_and_strata_move_them_too() -> None:
    counts = drawn(HEADING, "vonmises:0.3,4", 5000)
    over_time = series(HEADING, {20_758: counts, 20_759: counts})
    for point in over_time.points:
        assert there(point.direction).through_origin
    assert "[LOW to HIGH] (through 0)" in str(over_time)
    assert f"[{over_time.points[0].direction.written()[1]} to " in str(over_time)  # type: ignore[union-attr]
    low, high = over_time.numbers("direction")[0, 1:]
    assert low < 0 < high  # pictures continue across 0
    whole = post_stratify(HEADING, {"a": counts, "b": counts}, {"a": 1, "b": 2}, bands=True)
    assert there(whole.direction).through_origin


def test_differences_of_directions_are_not_places() -> None:
    result = compare_reference(HEADING, drawn(HEADING, "vonmises:1,4"), "vonmises:359,4", bands=True)
    assert result.direction is not None
    assert result.direction.contains(-2.0, period=360)
    assert result.direction.period is None
    assert abs(float(result.direction)) < 10
    assert result.direction.low < result.direction.high  # type: ignore[operator]


def test_reprs_are_one_line() -> None:
    counts, other = drawn(DELAY, "normal:40,10"), drawn(DELAY, "normal:45,10", seed=2)
    result = estimate(DELAY, counts, bands=True, between=[(0, 30)])
    over_time = series(DELAY, {20_758: counts, 20_760: other})
    shown = [
        result,
        result.mean,
        result.band,
        result.distribution,
        over_time,
        *over_time.points,
        compare_samples(DELAY, counts, other, bands=True),
        Survey(DELAY.mechanism, counts.astype(np.float64)),
        fit_test(DELAY, counts),
        plan(DELAY.domain, reports=1000, epsilon=1.0),
        DELAY,
    ]
    for each in shown:
        assert len(repr(each)) < 130, repr(each)
        assert "\n" not in repr(each)
    assert repr(result).startswith("<Estimate of 'delay', 20,000 reports: mean ")
