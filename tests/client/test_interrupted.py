"""Interruptions: signal handlers that report, interrupts, forks of several threads, odd callbacks."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from arcwise.client import Counters, FileLedger, Outcome, Uplink, inspect
from arcwise.client.ledger import Send, Wait
from arcwise.randomness import SystemRandomness
from tests.support.forks import in_child
from tests.support.stepped import SteppedUplink, stepped
from tests.support.unlimited import Client
from tests.support.waiting import Started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from arcwise.client import Event, Ledger
    from arcwise.tasks import Task
    from tests.support.recorder import Recorder

URL = "http://127.0.0.1:1"


class Interrupting(SystemRandomness):
    """Does something in the middle of a report, once."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self.act: Callable[[], object] | None = act

    def draw(self) -> tuple[int, int]:
        act, self.act = self.act, None
        if act is not None:
            act()
        return super().draw()


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Make SIGINT an interrupt, even if a shell that started the tests in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_signal_handler_cannot_report_in_the_middle_of_a_report(
    ledger: Ledger, recorder: Recorder, delay: Task
) -> None:
    """The handler would see the caps from before the charge that it interrupts, or undo the charge."""
    inner: list[Outcome] = []
    randomness = Interrupting(lambda: signal.raise_signal(signal.SIGINT))
    with Client(URL, tasks=[delay], ledger=ledger, transport=recorder, randomness=randomness) as client:
        before = signal.signal(signal.SIGINT, lambda *_: inner.append(client.report("delay", 1.0)))
        try:
            outer = client.report("delay", 1.0)
        finally:
            signal.signal(signal.SIGINT, before)
        assert outer is Outcome.ACCEPTED
        assert inner == [Outcome.FAILED]
        assert client.budget("delay").epsilon == 2.0
        assert client.report("delay", 1.0) is Outcome.ACCEPTED  # and nothing is broken by it
        assert client.flush(60)
        assert client.counters == Counters(sent=2, refused={"failed": 1})


def test_an_interrupt_in_the_middle_of_a_report_leaves_nothing_locked(
    ledger: Ledger, recorder: Recorder, delay: Task
) -> None:
    randomness = Interrupting(lambda: signal.raise_signal(signal.SIGINT))
    with Client(URL, tasks=[delay], ledger=ledger, transport=recorder, randomness=randomness) as client:
        with pytest.raises(KeyboardInterrupt):
            client.report("delay", 1.0)
        assert Started(lambda: client.report("delay", 1.0)).result() is Outcome.ACCEPTED
        assert client.flush(60)
        assert client.counters.sent == 1


def test_an_interrupt_while_the_file_is_busy_leaves_no_transaction_open(
    tmp_path: Path, recorder: Recorder, heading: Task
) -> None:
    """The interrupt arrives just after the transaction has begun, and ends it."""
    with (
        FileLedger(tmp_path / "ledger.db", create=True) as ledger,
        Client(URL, tasks=[heading], ledger=ledger, transport=recorder) as client,
        contextlib.closing(
            sqlite3.connect(ledger.path, isolation_level=None, check_same_thread=False)
        ) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        timers = [
            threading.Timer(0.2, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)),
            threading.Timer(0.5, other.execute, ("COMMIT",)),
        ]
        for timer in timers:
            timer.start()
        with pytest.raises(KeyboardInterrupt):
            client.report("heading", 1.0)
        for timer in timers:
            timer.join()
        assert ledger._database._connection is not None
        assert not ledger._database._connection.in_transaction
        other.execute("BEGIN IMMEDIATE")  # nobody holds the lock
        other.execute("ROLLBACK")
        assert client.report("heading", 1.0) is Outcome.ACCEPTED


class Odd:
    """A transport that returns each kind of invalid answer once."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.posts = 0

    def post(
        self, url: str, body: bytes, headers: Mapping[str, str], timeout: float
    ) -> tuple[int, str | None]:
        self.posts += 1
        return self.answers.pop(0) if self.answers else (204, None)  # type: ignore[return-value]

    def close(self) -> None:
        pass


@pytest.mark.usefixtures("quick")
def test_a_transport_that_returns_nonsense_is_network_trouble(ledger: Ledger, heading: Task) -> None:
    odd = Odd((204, 0), (503, 60), ("204", None), None, (True, None))
    with Client(URL, tasks=[heading], ledger=ledger, transport=odd) as client:
        assert client.report("heading", 1.0)
        assert client.flush(60)
        assert odd.posts == 6
        assert client.counters == Counters(sent=1)


@pytest.mark.usefixtures("quick")
def test_a_transport_may_return_its_status_as_an_enum(ledger: Ledger, heading: Task) -> None:
    odd = Odd((HTTPStatus.NO_CONTENT, None), (HTTPStatus.BAD_REQUEST, None))
    with Client(URL, tasks=[heading], ledger=ledger, transport=odd) as client:
        for _ in range(2):
            assert client.report("heading", 1.0)
            assert client.flush(60)
        assert odd.posts == 2
        assert client.counters == Counters(sent=1, dropped={"400": 1})


def test_an_app_that_exits_in_its_callback_does_not_end_the_sender(
    ledger: Ledger, recorder: Recorder, heading: Task
) -> None:
    def leave(_event: Event) -> None:
        raise SystemExit(3)

    with Client(URL, tasks=[heading], ledger=ledger, transport=recorder, on_event=leave) as client:
        for sent in (1, 2):
            assert client.report("heading", 1.0)
            assert client.flush(60)
            assert client.counters.sent == sent


def test_without_threads_reports_wait_for_one(
    recorder: Recorder, heading: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Uplink(URL, transport=recorder) as uplink:
        client = Client(uplink, tasks=[heading])
        with monkeypatch.context() as patch:

            def start(_thread: threading.Thread) -> None:
                raise RuntimeError("can't start new thread")

            patch.setattr(threading.Thread, "start", start)
            assert client.report("heading", 1.0) is Outcome.ACCEPTED
        assert client.report("heading", 1.0) is Outcome.ACCEPTED
        assert client.flush(60)
        assert uplink.counters.sent == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_child_of_a_fork_reports_and_sends_from_other_threads(
    tmp_path: Path, recorder: Recorder, heading: Task
) -> None:
    """The lock that the forking thread held during the fork must be free in the child."""
    with (
        FileLedger(tmp_path / "ledger.db", create=True) as ledger,
        Client(URL, tasks=[heading], ledger=ledger, transport=recorder) as client,
    ):
        assert client.report("heading", 1.0)

        def child() -> bool:
            outcome = Started(lambda: client.report("heading", 1.0)).result(30)
            return outcome is Outcome.ACCEPTED and client.flush(30)

        assert in_child(child)
        assert client.counters.sent == 2


def test_two_clients_of_one_process_on_one_file_do_not_send_the_same(
    tmp_path: Path, recorder: Recorder, heading: Task
) -> None:
    recorder.go.clear()
    with FileLedger(tmp_path / "ledger.db", create=True) as ledger:
        first = Client(URL, tasks=[heading], ledger=ledger, transport=recorder, interval=0)
        assert first.report("heading", 1.0)
        assert recorder.busy.wait(60)  # it is being sent
        uplink = Uplink(URL, ledger=ledger, transport=recorder)
        assert isinstance(uplink._next(), Wait)  # so the other sender has nothing to send
        recorder.go.set()
        assert first.close(20)
        assert uplink.close(20)
    assert len(recorder.posts) == 1


def test_a_batch_that_a_closed_client_left_is_free(tmp_path: Path, recorder: Recorder, heading: Task) -> None:
    recorder.go.clear()
    with FileLedger(tmp_path / "ledger.db", create=True) as ledger:
        first = Client(URL, tasks=[heading], ledger=ledger, transport=recorder, interval=0)
        assert first.report("heading", 1.0)
        assert recorder.busy.wait(60)
        assert not first.close(0)
        uplink = Uplink(URL, ledger=ledger, transport=recorder)
        assert isinstance(uplink._next(), Send)
        recorder.go.set()
        uplink.close(0)


@pytest.mark.parametrize("relaxed", [False, True])
def test_a_file_without_its_log_knows_what_was_sent_before_a_crash(
    path: Path, recorder: Recorder, heading: Task, relaxed: bool
) -> None:
    """This is the case if a container mounts the file alone."""
    open_at_the_end: list[FileLedger] = []

    def crash() -> bool:
        ledger = FileLedger(path, relaxed=relaxed)
        open_at_the_end.append(ledger)
        client, uplink = stepped(ledger, recorder, heading)
        client.report("heading", 1.0)
        client.report("heading", 1.0)
        uplink.expedite()
        return client.counters.sent == 2

    assert in_child(crash)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink()
    with (
        FileLedger(path) as ledger,
        Client(URL, tasks=[heading], ledger=ledger, transport=recorder) as client,
    ):
        assert client.budget("heading").epsilon == 2 * heading.epsilon


def test_what_a_crash_left_in_the_log_is_in_the_file_once_it_is_opened(
    path: Path, recorder: Recorder, heading: Task
) -> None:
    def crash() -> bool:
        ledger = FileLedger(path)
        return bool(Client(URL, tasks=[heading], ledger=ledger, transport=recorder).report("heading", 1.0))

    assert in_child(crash)
    copy = path.with_name("copy.db")
    with FileLedger(path):
        copy.write_bytes(path.read_bytes())  # of the file alone
    assert inspect(copy).accounts[0].epsilon == 1.0


def test_opting_out_is_on_the_disk_and_leaves_no_code_in_the_log(
    tmp_path: Path, recorder: Recorder, heading: Task
) -> None:
    with FileLedger(tmp_path / "ledger.db", create=True, relaxed=True) as ledger:
        client = Client(URL, tasks=[heading], ledger=ledger, transport=recorder)
        assert client.report("heading", 1.0)
        assert ledger._database._connection is not None
        assert ledger._database._connection.execute("PRAGMA secure_delete").fetchone() == (1,)
        said: list[str] = []
        ledger._database._connection.set_trace_callback(said.append)
        client.opt_out()
        ledger._database._connection.set_trace_callback(None)
        full = next(n for n, statement in enumerate(said) if "synchronous = FULL" in statement)
        assert full < said.index("BEGIN IMMEDIATE")
        assert not any("synchronous = NORMAL" in statement for statement in said)
        assert (tmp_path / "ledger.db-wal").stat().st_size == 0
        client.close(0)


def test_what_another_process_left_is_found_without_any_news(
    path: Path, recorder: Recorder, heading: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcwise.client.uplink._LOOK_SECONDS", 0.02)

    def leave() -> bool:
        with FileLedger(path) as ledger:
            uplink = SteppedUplink(URL, ledger=ledger, transport=recorder)  # it sends nothing itself
            return bool(Client(uplink, tasks=[heading], ledger=ledger).report("heading", 1.0))

    with (
        FileLedger(path) as ledger,
        Client(URL, tasks=[heading], ledger=ledger, transport=recorder, interval=0) as client,
    ):
        client._uplink._start()  # and it has nothing to do
        assert in_child(leave)
        assert recorder.busy.wait(60)


def test_a_flush_without_time_starts_the_sending(ledger: Ledger, recorder: Recorder, heading: Task) -> None:
    with Client(URL, tasks=[heading], ledger=ledger, transport=recorder, interval=600) as client:
        assert client.report("heading", 1.0)
        client.flush(0)
        assert recorder.busy.wait(60)
