"""Points of calendar months: where they begin, and that each epoch is in one of them."""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.analysis import series
from arcwise.analysis.timeseries.epochs import Span, epochs_in_step
from arcwise.analysis.timeseries.series import point_spans
from arcwise.domains import Interval
from arcwise.errors import ParameterError
from arcwise.tasks import DAY, Task

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
