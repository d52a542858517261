"""Sending from a ledger's file: what survives a restart, and what other processes may do meanwhile."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.client import Counters, Event, FileLedger
from arcwise.client.ledger import Send
from arcwise.domains import Circle
from arcwise.tasks import DAY, Task
from tests.support.clock import Clock
from tests.support.ledgers import ledger_opener
from tests.support.stepped import SteppedUplink, stepped
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.support.recorder import Recorder
    from tests.support.twins import Twin

URL = "http://127.0.0.1:1"
HOUR = 3600.0


class App:
    """One run of an app: its ledger, its uplink without a thread, its client."""

    def __init__(self, path: Path, recorder: Recorder, tasks: list[Task], **options: Any) -> None:
        self.events: list[Event] = []
        self.ledger = FileLedger(path, relaxed=True)
        self.uplink = SteppedUplink(
            URL, ledger=self.ledger, transport=recorder, on_event=self.events.append, **options
        )
        self.client = Client(self.uplink, tasks=tasks, ledger=self.ledger)


class Drawing(Clock):
    """An environment that draws these numbers first, and then always the largest possible number."""

    def __init__(self, draws: list[float]) -> None:
        super().__init__()
        self._draws = chain(draws, repeat(1 - 2**-53))

    def uniform(self) -> float:
        return next(self._draws)


class Interrupted(Clock):
    """An environment in which something happens right after the clock is read; its draws are the largest."""

    then: Callable[[], object] | None = None

    def uniform(self) -> float:
        return 1 - 2**-53

    def time(self) -> float:
        now, then, self.then = super().time(), self.then, None
        if then is not None:
            self.wait(0.001)
            then()
        return now


@contextmanager
def running(path: Path, recorder: Recorder, *tasks: Task, **options: Any) -> Iterator[App]:
    """Run an app and close only its file, as when a process is killed."""
    app = App(path, recorder, list(tasks), **options)
    try:
        yield app
    finally:
        app.ledger.close()


@pytest.fixture(scope="module")
def speed() -> Task:
    return Task("speed", Circle(10), 1.0)


def test_a_sealed_batch_goes_out_again_with_the_same_bytes(
    path: Path, recorder: Recorder, heading: Task, clock: Clock
) -> None:
    recorder.script.extend([OSError("down"), 503])
    with running(path, recorder, heading, environment=clock) as app:
        app.client.report("heading", 1.0)
        app.client.report("heading", 2.0)
    for run in range(1, 4):
        with running(path, recorder, heading, environment=clock) as app:
            app.uplink.expedite()
            assert len(recorder.posts) == run
            assert app.client.counters == (Counters(sent=2) if run == 3 else Counters(pending=2))
        clock.restart()
    assert len({post.body for post in recorder.posts}) == 1


@pytest.mark.parametrize("status", [429, 503, 404, 401, 204])
def test_what_the_server_asked_for_outlives_a_restart(
    path: Path, recorder: Recorder, heading: Task, speed: Task, status: int
) -> None:
    """All batches wait, for two days at most, and a flush does not shorten the wait."""
    clock = Drawing([])
    recorder.script.append((status, str(10 * DAY)))
    with running(path, recorder, heading, speed, environment=clock) as app:
        app.client.report("heading", 1.0)
        app.uplink.expedite()
    clock.restart()
    clock.wait(HOUR)
    with running(path, recorder, heading, speed, environment=clock) as app:
        app.client.report("heading", 1.0)
        app.client.report("speed", 1.0)
        app.uplink.expedite()
        assert len(recorder.posts) == 1
        assert app.uplink.send() == pytest.approx(2 * DAY - HOUR)
    clock.restart()
    clock.wait(2 * DAY - HOUR - 1)
    with running(path, recorder, heading, speed, environment=clock) as app:
        before = len(recorder.posts)
        app.uplink.expedite()
        assert len(recorder.posts) == before
        clock.wait(1)
        app.uplink.expedite()
        assert app.client.pending == 0
        assert app.client.counters == Counters(sent=3)


def test_our_own_backoff_outlives_a_restart_and_goes_on_doubling(
    path: Path, recorder: Recorder, heading: Task
) -> None:
    clock = Drawing([])
    recorder.script.extend([503] * 20)
    waits: list[float] = []
    for _ in range(14):
        with running(path, recorder, heading, interval=0, environment=clock) as app:
            if not waits:
                app.client.report("heading", 1.0)
            elif waits[-1]:
                clock.wait(waits[-1] - 0.5)
                assert app.uplink.send() == pytest.approx(0.5)
                clock.wait(0.5)
            waits.append(app.uplink.send())
        clock.restart()
    assert waits == pytest.approx([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600])


def test_a_wait_that_a_server_asks_for_holds_all_processes(
    path: Path, recorder: Recorder, heading: Task
) -> None:
    clock = Drawing([])
    options: dict[str, Any] = {"interval": 0, "batch_size": 1, "environment": clock}
    recorder.script.extend([503, (503, "3600")])
    with (
        running(path, recorder, heading, **options) as one,
        running(path, recorder, heading, **options) as other,
    ):
        for _ in range(2):
            one.client.report("heading", 1.0)
        other.uplink.expedite()  # its own failure comes first
        one.uplink.expedite()
        assert len(recorder.posts) == 2
        other.uplink.expedite()
        other.uplink._outbox.save(other.uplink._schedule)
        assert len(recorder.posts) == 2
    clock.restart()
    with running(path, recorder, heading, **options) as app:
        app.uplink.expedite()
        assert len(recorder.posts) == 2
        clock.wait(7200)
        app.uplink.expedite()
        assert app.client.counters == Counters(sent=2)


@pytest.mark.parametrize("ahead", [600.0, 170_000.0])
def test_a_clock_that_was_ahead_at_a_failure_holds_nothing_up(
    path: Path, recorder: Recorder, heading: Task, ahead: float
) -> None:
    clock = Drawing([])
    clock.step(ahead)
    recorder.script.append(503)
    with running(path, recorder, heading, environment=clock) as app:
        app.client.report("heading", 1.0)
        app.uplink.expedite()
    clock.restart()
    clock.step(-ahead)
    with running(path, recorder, heading, environment=clock) as app:
        app.uplink.expedite()
        assert app.client.counters == Counters(sent=1)


def test_a_clock_that_was_set_back_by_more_than_a_wait_takes_ends_it(
    path: Path, recorder: Recorder, heading: Task
) -> None:
    clock = Drawing([])
    recorder.script.append((503, str(DAY)))
    with running(path, recorder, heading, environment=clock) as app:
        app.client.report("heading", 1.0)
        app.uplink.expedite()
    clock.restart()
    clock.step(-400 * DAY)
    with running(path, recorder, heading, environment=clock) as app:
        app.uplink.expedite()
        assert app.client.counters == Counters(sent=1)


@pytest.mark.parametrize("answer", [204, 400, 503])
def test_an_answer_to_a_batch_concerns_no_other_that_has_its_number(
    path: Path, recorder: Recorder, heading: Task, answer: int
) -> None:
    """After a failover to an older state, the number may be used again while the request is in progress."""
    with running(path, recorder, heading, interval=0) as app:
        app.client.report("heading", 1.0)
        step = app.uplink._next()
        assert isinstance(step, Send)
        with app.ledger._database.writing(durable=False) as connection:
            connection.execute("UPDATE batches SET body = x'00'")
        recorder.script.append(answer)
        app.uplink._send(step.parcel)
        assert app.client.counters == Counters(pending=1)
        with app.ledger._database.reading() as connection:
            ((leased,),) = connection.execute("SELECT leased_until FROM batches").fetchall()
            assert leased > 0


def test_the_interval_is_counted_over_a_restart(
    path: Path, recorder: Recorder, heading: Task, clock: Clock
) -> None:
    for n in range(3):
        with running(path, recorder, heading, interval=60, environment=clock) as app:
            app.client.report("heading", 1.0)
            assert app.uplink.send() == pytest.approx(60 - 20 * n)
        clock.restart()
        clock.wait(20)
    with running(path, recorder, heading, interval=60, environment=clock) as app:
        app.uplink.send()
    (post,) = recorder.posts
    assert len(post.batch.codes) == 3


@pytest.mark.parametrize("delay", [0.0, 1000.0])
def test_a_report_made_while_the_sender_looks_waits_like_any_other(
    path: Path, recorder: Recorder, heading: Task, delay: float
) -> None:
    clock = Interrupted()
    options: dict[str, Any] = {"environment": clock, "interval": 3600.0, "delay": delay}
    with (
        running(path, recorder, heading, **options) as looking,
        running(path, recorder, heading, **options) as other,
    ):
        looking.uplink.send()
        clock.then = lambda: other.client.report("heading", 1.0)
        assert looking.uplink.send() > 0
        assert looking.uplink.pending == 1
    assert recorder.posts == []


def test_a_full_batch_goes_at_once(path: Path, recorder: Recorder, heading: Task, clock: Clock) -> None:
    with running(path, recorder, heading, interval=60, batch_size=4, environment=clock) as app:
        for _ in range(11):
            app.client.report("heading", 1.0)
        app.uplink.send()
        assert [len(post.batch.codes) for post in recorder.posts] == [4, 4]
        clock.wait(60)
        app.uplink.send()
        assert [len(post.batch.codes) for post in recorder.posts] == [4, 4, 3]


def test_a_client_without_delay_leaves_those_of_another_one_alone(
    path: Path, recorder: Recorder, heading: Task
) -> None:
    clock = Drawing([0.9])
    with running(path, recorder, heading, interval=0, delay=100.0, environment=clock) as app:
        app.client.report("heading", 1.0)
    clock.wait(1.0)
    with running(path, recorder, heading, interval=0, environment=clock) as app:
        app.client.report("heading", 1.0)
        app.uplink.send()
        assert recorder.codes == 1
        clock.wait(90.0)
        app.uplink.send()
        assert recorder.codes == 2


@pytest.mark.parametrize(("behind", "sent"), [(90.0, 0), (3000.0, 0), (10_000.0, 1)])
def test_a_delay_ends_only_where_a_clock_was_set_back_by_hours(
    path: Path, recorder: Recorder, heading: Task, behind: float, sent: int
) -> None:
    """Clocks of machines that share a ledger differ by less than that."""
    clock = Drawing([0.9])
    with running(path, recorder, heading, interval=0, delay=36_000.0, environment=clock) as app:
        app.client.report("heading", 1.0)
        clock.step(-behind)
        app.uplink.send()
        assert recorder.codes == sent


@pytest.mark.parametrize("size", [1, 2, 10_000])
def test_a_report_leaves_when_its_random_delay_ends(
    path: Path, recorder: Recorder, heading: Task, size: int
) -> None:
    """Nor does it leave with an earlier report that has a longer delay."""
    clock = Drawing([0.9, 0.1, 0.5, *[0.5] * 8])
    options: dict[str, Any] = {"interval": 0, "delay": 100.0, "batch_size": size, "environment": clock}
    with running(path, recorder, heading, **options) as app:
        for _ in range(3):
            app.client.report("heading", 1.0)
        assert app.uplink.send() == pytest.approx(10)
    clock.restart()
    clock.wait(9.9)
    with running(path, recorder, heading, **options) as app:
        sent = []
        for wait in (0.0, 0.2, 39.8, 0.2, 39.8, 0.2):
            clock.wait(wait)
            app.uplink.send()
            sent.append(recorder.codes)
        assert sent == [0, 1, 1, 2, 2, 3]
        app.client.report("heading", 1.0)
        app.uplink.send()
        assert recorder.codes == 3
        app.uplink.expedite()  # a flush ends the delay
        assert recorder.codes == 4


def test_what_an_earlier_process_left_is_sent_without_a_report(
    twin: Twin, path: Path, recorder: Recorder, heading: Task
) -> None:
    with running(path, recorder, heading) as app:
        app.client.report("heading", 1.0)
    options = {"transport": twin.transport(recorder), "interval": 0}
    with FileLedger(path) as ledger, twin.client(URL, tasks=[heading], ledger=ledger, **options) as client:
        twin.until(lambda: client.counters == Counters(sent=1))


def test_what_the_app_no_longer_knows_is_sent_all_the_same(
    path: Path, recorder: Recorder, heading: Task, speed: Task
) -> None:
    with running(path, recorder, heading) as app:
        app.client.report("heading", 1.0)
    with running(path, recorder, speed) as app:
        app.uplink.expedite()
        assert app.events == [Event("sent", "heading", 1, "status 204")]
    assert recorder.posts[0].url == f"{URL}/v1/tasks/{heading.id}/reports"


def test_an_unknown_task_is_kept_until_it_expires(
    path: Path, recorder: Recorder, heading: Task, speed: Task, clock: Clock
) -> None:
    recorder.by_task[heading.id] = 404
    with running(path, recorder, heading, speed, environment=clock) as app:
        for name in ("heading", "heading", "speed"):
            app.client.report(name, 1.0)
        app.uplink.expedite()
        assert app.client.counters == Counters(pending=2, sent=1)
    clock.wait(7 * DAY - 1)
    with running(path, recorder, heading, speed, environment=clock) as app:
        app.uplink.expedite()
        assert app.client.pending == 2
        app.client.report("heading", 1.0)
        clock.wait(61)  # the sender checks once a minute
        app.uplink.expedite()
        assert app.client.counters == Counters(pending=1, sent=1, dropped={"expired": 2})
        assert app.events[-2:][0] == Event("expired", None, 2, "could not be sent in time")


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize("status", [410, 400, 413, 422, 501])
def test_what_will_never_be_taken_is_dropped_and_counted_for_ever(
    tmp_path: Path, recorder: Recorder, heading: Task, kind: str, status: int
) -> None:
    events: list[Event] = []
    recorder.script.append(status)
    with ledger_opener(kind, tmp_path / "ledger.db") as open_ledger:
        ledger, _ = open_ledger()
        client, uplink = stepped(ledger, recorder, heading, on_event=events.append)
        assert [bool(client.report("heading", 1.0)) for _ in range(2)] == [True, True]
        uplink.expedite()
        assert events == [Event("dropped", "heading", 2, f"status {status}")]
        assert client.report("heading", 1.0)
        uplink.expedite()
        if kind == "file":
            ledger, _ = open_ledger()
            client, _ = stepped(ledger, recorder, heading)
        assert client.counters == Counters(sent=1, dropped={str(status): 2})
        assert client.budget("heading").epsilon == 3.0


@pytest.mark.parametrize("verdict", [204, 410, 503, OSError()], ids=repr)
def test_no_answer_is_a_failure_once_all_is_closed(
    path: Path, recorder: Recorder, heading: Task, verdict: int | OSError, caplog: pytest.LogCaptureFixture
) -> None:
    """The batch stays in the file and is sent again; the app asked for the ledger to be closed."""
    app = App(path, recorder, [heading], interval=0)
    assert app.client.report("heading", 1.0)
    step = app.uplink._next()
    assert isinstance(step, Send)
    assert not app.uplink.close(0)
    app.ledger.close()
    recorder.script.append(verdict)
    app.uplink._send(step.parcel)
    app.uplink._emit_events()
    assert [event.kind for event in app.events] == ["closed"]
    assert "is closed" not in caplog.text
    with running(path, recorder, heading) as app:
        app.uplink.expedite()
    first, second = recorder.posts
    assert first.body == second.body


def test_a_ledger_that_is_closed_before_the_uplink_is_a_failure(
    path: Path, recorder: Recorder, heading: Task
) -> None:
    app = App(path, recorder, [heading], interval=0)
    assert app.client.report("heading", 1.0)
    app.ledger.close()
    assert not app.uplink.close(0)
    assert "failed" in [event.kind for event in app.events]


def test_the_queue_is_bounded_over_a_restart(
    path: Path, recorder: Recorder, heading: Task, clock: Clock
) -> None:
    recorder.script.append(503)
    with running(path, recorder, heading, max_pending=3, environment=clock) as app:
        assert all(app.client.report("heading", 1.0) for _ in range(2))
        app.uplink.expedite()  # a sealed batch also takes room
    with running(path, recorder, heading, max_pending=3, environment=clock) as app:
        assert [bool(app.client.report("heading", 1.0)) for _ in range(3)] == [True, False, False]
        assert app.client.counters == Counters(pending=3, refused={"full": 2})
        assert app.client.budget("heading").epsilon == 3.0


LEASE = """
import os, sys
from pathlib import Path
from arcwise.client import FileLedger
ledger = FileLedger(Path(sys.argv[1]))
from arcwise.client.ledger import OutboxOptions
outbox = ledger._open_outbox(OutboxOptions(batch_size=10, capacity=10, lease=20.0))
parcel = outbox.take(0.0, 0.0, lambda task: 0.0).parcel
print(parcel.body.hex(), flush=True)
sys.stdin.read()
"""


def test_what_another_process_is_sending_is_left_alone_while_it_lives(
    path: Path, recorder: Recorder, heading: Task
) -> None:
    with running(path, recorder, heading, interval=0) as app:
        app.client.report("heading", 1.0)
        other = subprocess.Popen(
            [sys.executable, "-c", LEASE, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        with other:
            assert other.stdout is not None
            body = other.stdout.readline().strip()
            assert 0 < app.uplink.expedite() <= 20
            assert recorder.posts == []
            app.client.report("heading", 2.0)  # later reports are not held up
            app.uplink.send()
            assert len(recorder.posts) == 1
            other.kill()
        app.uplink.send()  # the other process is dead: its batch is sent immediately and unchanged
        assert [post.body.hex() for post in recorder.posts[1:]] == [body]
        assert app.client.counters == Counters(sent=2)


def test_a_lease_of_the_future_was_made_before_the_clock_was_set_back(
    path: Path, recorder: Recorder, heading: Task, clock: Clock
) -> None:
    with running(path, recorder, heading, interval=0, environment=clock) as app:
        app.client.report("heading", 1.0)
        assert isinstance(app.uplink._next(), Send)
        # As if another process were still running:
        with app.ledger._database.writing(durable=False) as connection:
            connection.execute("UPDATE batches SET leased_by = 1, owner = 1")
        assert app.uplink.send() == pytest.approx(20)
        clock.step(-HOUR)
        app.uplink.send()
        assert app.client.counters == Counters(sent=1)


class Trace:
    """The statements that a ledger's connection executes and the requests that leave, in order.

    "report" and "seal" are commits of such transactions, with a "!" if SQLite then waits for the disk.
    """

    def __init__(self, ledger: FileLedger, recorder: Recorder) -> None:
        self.events: list[str] = []
        self._full = True  # SQLite's default
        self._changes = ""
        self._recorder = recorder
        with ledger._database.reading() as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
            connection.set_trace_callback(self._statement)

    def _statement(self, statement: str) -> None:
        if found := re.fullmatch(r"PRAGMA synchronous = (\w+)", statement):
            self._full = found[1] == "FULL"
        elif statement.startswith("BEGIN"):
            self._changes = ""
        elif statement.startswith("INSERT INTO reports"):
            self._changes = "report"
        elif statement.startswith("UPDATE batches SET leased_until") and "leased_by" in statement:
            self._changes = "seal"
        elif statement == "COMMIT" and self._changes:
            self.events.append(self._changes + "!" * self._full)

    def post(
        self, url: str, body: bytes, headers: Mapping[str, str], timeout: float
    ) -> tuple[int, str | None]:
        self.events.append("send")
        return self._recorder.post(url, body, headers, timeout)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("relaxed", "report"), [(False, "report!"), (True, "report")], ids=["strict", "relaxed"]
)
def test_every_send_follows_a_commit_that_waited_for_the_disk(
    tmp_path: Path, recorder: Recorder, heading: Task, delay: Task, relaxed: bool, report: str
) -> None:
    with FileLedger(tmp_path / "ledger.db", create=True, relaxed=relaxed) as ledger:
        trace = Trace(ledger, recorder)
        client, uplink = stepped(ledger, trace, heading, delay, interval=0, batch_size=2)
        expected: list[str] = []
        for name, answer in (("heading", 204), ("delay", 503), ("heading", 204), ("delay", 410)):
            recorder.script.append(answer)
            client.report(name, 1.0)
            expected += [report, "seal!", "send"]
            uplink.send()
            if answer == 503:
                uplink.expedite()  # the attempt that follows is preceded by its own commit
                expected += ["seal!", "send"]
        client.report("heading", 1.0)
        assert trace.events == [*expected, report]
