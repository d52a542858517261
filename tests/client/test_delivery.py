"""The meaning of each answer for a batch, and how long a client waits after it."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.client.delivery import (
    Schedule,
    Verdict,
    asked_seconds,
    backoff_seconds,
    classify,
    retry_after_seconds,
)
from tests.vectors.make import FOLDER

HOUR, DAY = 3600.0, 86_400.0
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "protocol.md"


@given(st.integers(-10, 1000))
def test_only_204_counts_as_sent_and_only_an_error_is_no_trouble(status: int) -> None:
    """A status below 400 comes from a captive portal, a proxy or a wrong host."""
    assert (classify(status) is Verdict.SENT) == (status == 204)
    if status < 400:
        assert classify(status) in (Verdict.SENT, Verdict.RETRY)


def test_the_vectors_say_the_same() -> None:
    answers = json.loads((FOLDER / "answers.json").read_text(encoding="ascii"))
    for status, verdict in answers["statuses"].items():
        assert classify(int(status)).value == verdict
    assert set(answers["statuses"].values()) == {verdict.value for verdict in Verdict}
    for case in answers["retry_after"]:
        assert retry_after_seconds(case["text"]) == case["seconds"], case["text"]
    for case in answers["backoff"]:
        assert backoff_seconds(case["failures"], case["uniform"]) == case["seconds"]


def test_the_page_says_the_same() -> None:
    """Each row that names only statuses says in bold what a client does."""
    rows = re.findall(r"^\| ([0-9, ]+) \|.*\*\*(\w+)\*\*.*\|$", PAGE.read_text("utf-8"), re.MULTILINE)
    stated = {int(status): verdict for statuses, verdict in rows for status in statuses.split(",")}
    assert len(stated) == 12
    assert stated == {status: classify(status).value for status in stated}
    assert set(stated.values()) == {verdict.value for verdict in Verdict}


def test_backoff_doubles_from_a_second_to_an_hour() -> None:
    ceilings = [backoff_seconds(failures, 1.0) for failures in range(1, 15)]
    assert ceilings[:12] == [2.0**n for n in range(12)]
    assert ceilings[12:] == [HOUR, HOUR]


@given(st.integers(1, 10**9), st.floats(0, 1, exclude_max=True))
def test_backoff_is_full_jitter(failures: int, uniform: float) -> None:
    assert backoff_seconds(failures, uniform) == pytest.approx(uniform * backoff_seconds(failures, 1.0))
    assert 0 <= backoff_seconds(failures, uniform) < HOUR


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("9" * 5000, DAY),
        ("²", 0.0),
    ],
)
def test_retry_after_beside_the_vectors(text: str, seconds: float) -> None:
    assert retry_after_seconds(text) == seconds


@given(st.text())
def test_retry_after_survives_any_text(text: str) -> None:
    assert 0.0 <= retry_after_seconds(text) <= DAY


def test_trouble_holds_everything_back_until_an_answer() -> None:
    schedule = Schedule(uniform=lambda: 0.5)
    schedule.record(Verdict.RETRY, "a", now=100.0, retry_after=0.0)
    assert schedule.ready_at("a") == schedule.ready_at("b") == 100.5
    schedule.record(Verdict.RETRY, "a", now=101.0, retry_after=0.0)
    assert schedule.ready_at("b") == 102.0
    schedule.record(Verdict.SENT, "b", now=103.0, retry_after=0.0)
    assert schedule.ready_at("a") <= 103.0
    schedule.record(Verdict.RETRY, "a", now=104.0, retry_after=0.0)
    assert schedule.ready_at("a") == 104.5  # starts again from one


def test_an_unknown_task_holds_back_itself_only() -> None:
    schedule = Schedule(uniform=lambda: 0.5)
    schedule.record(Verdict.KEEP, "a", now=100.0, retry_after=0.0)
    schedule.record(Verdict.KEEP, "a", now=101.0, retry_after=0.0)
    schedule.record(Verdict.SENT, "b", now=101.0, retry_after=0.0)
    assert schedule.ready_at("a") == 102.0
    assert schedule.ready_at("b") <= 101.0
    schedule.record(Verdict.SENT, "a", now=101.5, retry_after=0.0)
    assert schedule.ready_at("a") <= 101.5
    schedule.record(Verdict.KEEP, "a", now=103.0, retry_after=0.0)
    assert schedule.ready_at("a") == 103.5  # starts again from one


def test_a_refusal_pauses_everything_for_long() -> None:
    schedule = Schedule(uniform=lambda: 0.0)
    schedule.record(Verdict.PAUSE, "a", now=0.0, retry_after=0.0)
    assert schedule.ready_at("b") == HOUR / 2


@given(
    attempts=st.lists(st.tuples(st.sampled_from(Verdict), st.floats(0, DAY), st.floats(0, 100)), min_size=1)
)
def test_what_the_server_asked_for_outlives_a_flush(attempts: list[tuple[Verdict, float, float]]) -> None:
    schedule, now, asked = Schedule(lambda: 0.25), 0.0, -math.inf
    for verdict, retry_after, step in attempts:
        now += step
        if retry_after:
            asked = max(asked, now + asked_seconds(retry_after, 0.25))
        schedule.record(verdict, "a", now, retry_after)
        assert asked <= schedule.ready_at("a") <= max(asked, now + HOUR)
    schedule.expedite()
    assert schedule.ready_at("a") == schedule.ready_at("another") == asked


VERDICTS = st.sampled_from([Verdict.RETRY, Verdict.PAUSE, Verdict.KEEP, Verdict.SENT, Verdict.DROP])
TASKS = ("a", "b", "c")


@given(
    attempts=st.lists(st.tuples(VERDICTS, st.sampled_from(TASKS), st.floats(0, DAY), st.floats(0, HOUR))),
    pause=st.floats(0, 3 * DAY),
    after=st.lists(VERDICTS, max_size=3),
)
def test_a_schedule_that_was_written_down_goes_on_as_if_it_had_not_been(
    attempts: list[tuple[Verdict, str, float, float]], pause: float, after: list[Verdict]
) -> None:
    """In another process, whose monotonic clock starts again; this many seconds have passed meanwhile."""
    first, second, now = Schedule(lambda: 0.5), Schedule(lambda: 0.5), 1000.0
    for verdict, task, retry_after, step in attempts:
        now += step
        first.record(verdict, task, now, retry_after)
    written = list(first.remaining(now))
    assert all(failures >= 0 and own >= 0 and asked >= 0 for _, failures, own, asked in written)
    now, begun = now + pause, 5.0
    for scope, failures, own, asked in written:
        second.restore(scope, failures, own - pause, asked - pause, begun)
    for later in [None, *after]:
        if later is not None:
            first.record(later, "a", now, 0.0)
            second.record(later, "a", begun, 0.0)
        for task in TASKS:
            left = max(0.0, first.ready_at(task) - now)
            assert max(0.0, second.ready_at(task) - begun) == pytest.approx(left, abs=1e-6)


@given(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12), st.sampled_from(["", "a"]))
def test_no_wait_is_restored_that_is_longer_than_any_is(own: float, asked: float, scope: str) -> None:
    """A clock that was set back made the wait longer. Cut to the maximum, it would restart every time."""
    schedule = Schedule()
    schedule.restore(scope, 3, own, asked, now=50.0)
    own, asked = own if own <= HOUR else 0.0, asked if asked <= 2 * DAY else 0.0
    assert schedule.ready_at("a") - 50.0 == pytest.approx(max(own, asked), rel=1e-6, abs=1e-3)
    schedule.expedite()
    assert schedule.ready_at("a") - 50.0 == pytest.approx(asked, rel=1e-6, abs=1e-3)


def test_a_wait_that_an_earlier_version_kept_for_one_task_holds_all() -> None:
    schedule = Schedule()
    for scope, asked in (("", 0.0), ("a", 100.0), ("b", 60.0)):
        schedule.restore(scope, 0, 0.0, asked, now=50.0)
    assert schedule.ready_at("a") == schedule.ready_at("b") == schedule.ready_at("c") == 150.0


def test_a_flush_ends_our_own_waits() -> None:
    schedule = Schedule(uniform=lambda: 0.5)
    for _ in range(20):
        schedule.record(Verdict.RETRY, "a", now=0.0, retry_after=0.0)
    schedule.record(Verdict.PAUSE, "a", now=0.0, retry_after=0.0)
    schedule.expedite()
    assert schedule.ready_at("a") <= 0.0
    schedule.record(Verdict.RETRY, "a", now=0.0, retry_after=0.0)
    assert schedule.ready_at("a") == 0.5
