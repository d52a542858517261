"""A worker's activity in the last minutes, as the operator page shows it."""

from __future__ import annotations

import random
import statistics

import pytest

from arcwise.server.process.recent import RecentSlots


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=[0.0, 1e9])
def clock(request: pytest.FixtureRequest) -> Clock:
    made = Clock()
    made.now = request.param
    return made


def test_nothing_happened(clock: Clock) -> None:
    recent = RecentSlots(clock).read(300)
    assert (recent.seconds, recent.reports, recent.refused, recent.commits) == (0, 0, {}, 0)
    assert recent.commit_median is None
    assert recent.commit_worst is None


def test_a_minute_is_added_up_and_forgotten(clock: Clock) -> None:
    slots, start = RecentSlots(clock), clock.now
    for second in range(120):
        clock.now = start + second
        slots.added(5, 2, 1, 0.001)
        slots.refused("media-type")
        if second % 2:
            slots.refused("bad-codes")
    slots.failed()
    recent = slots.read(60)
    # Whole slots: five of them, and nine seconds of the unfinished one.
    assert recent.seconds == 59
    assert (recent.reports, recent.batches, recent.replayed, recent.commits) == (300, 120, 60, 60)
    assert recent.failed == 1
    assert list(recent.refused.items()) == [("media-type", 60), ("bad-codes", 30)]
    clock.now = start + 300
    later = slots.read(60)
    assert (later.reports, later.refused, later.commits, later.failed) == (0, {}, 0, 0)
    assert slots.read(300).reports == 550  # without the first 10 s


def test_slots_are_bounded(clock: Clock) -> None:
    slots, start = RecentSlots(clock), clock.now
    for number in range(1000):
        clock.now = start + 10.0 * number
        slots.added(1, 1, 0, 0.001)
    assert slots.read(1e9).reports == 90
    assert len(slots._slots) == 90


@pytest.mark.parametrize("typical", [1e-6, 0.0003, 0.02, 3.0, 1000.0])
def test_the_median_is_near_and_the_worst_exact(clock: Clock, typical: float) -> None:
    slots, draw = RecentSlots(clock), random.Random(1)
    seconds = [typical * draw.lognormvariate(0, 1) for _ in range(1001)]
    for each in seconds:
        slots.added(1, 1, 0, each)
    recent = slots.read(60)
    assert recent.commit_worst == max(seconds)
    assert recent.commit_median is not None
    if typical == 1e-6:
        assert recent.commit_median < 60e-6
    elif typical == 1000.0:
        assert 180 < recent.commit_median < 250  # beyond the last bin
    else:
        assert recent.commit_median == pytest.approx(statistics.median(seconds), rel=0.1)
