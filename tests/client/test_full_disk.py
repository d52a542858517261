"""A disk that is really full: in a forked child, the system refuses to let the ledger's files grow."""

from __future__ import annotations

import os
import resource
import sqlite3
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.client import Counters, Event, FileLedger, Outcome, Uplink
from arcwise.errors import LedgerError
from tests.support.disks import small_disk
from tests.support.forks import in_child
from tests.support.stepped import stepped
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from arcwise.tasks import Task
    from tests.support.recorder import Recorder

URL = "http://127.0.0.1:1"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@contextmanager
def full(largest: int = 0) -> Iterator[None]:
    """Let no file of this process grow beyond this many bytes; writing fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def check_sums(client: Client, accepted: int, sent: int = 0) -> None:
    """Check that exactly the accepted reports are charged, and queued or sent."""
    assert client.budget("heading").epsilon == client.budget().epsilon == accepted
    assert (client.counters.pending, client.counters.sent) == (accepted - sent, sent)


@pytest.mark.parametrize("relaxed", [False, True])
def test_reports_fail_and_cost_nothing_until_there_is_room(
    tmp_path: Path, recorder: Recorder, heading: Task, relaxed: bool
) -> None:
    def check() -> bool:
        events: list[Event] = []
        path = tmp_path / "ledger.db"
        with FileLedger(path, create=True, relaxed=relaxed) as ledger:
            client, uplink = stepped(ledger, recorder, heading, on_event=events.append)
            with full(100_000):  # a little room, and again when the log has been written back
                outcomes = [client.report("heading", 1.0) for _ in range(60)]
                accepted = outcomes.count(Outcome.ACCEPTED)
                assert 0 < accepted < 60
                check_sums(client, accepted)
            with full():
                outcomes += [client.report("heading", 1.0) for _ in range(20)]
                assert outcomes[60:] == [Outcome.FAILED] * 20
                for use in (client.opt_out, client.budget):
                    with pytest.raises(LedgerError, match="cannot be opened: disk I/O error"):
                        use()
            check_sums(client, accepted)
            assert client.counters.refused == {"failed": 80 - accepted}
            assert [event.kind for event in events] == ["failed"] * (80 - accepted)
            for _ in range(10):
                assert client.report("heading", 1.0) is Outcome.ACCEPTED
            check_sums(client, accepted + 10)
            uplink.expedite()
            check_sums(client, accepted + 10, sent=accepted + 10)
        assert recorder.codes == accepted + 10
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return True

    assert in_child(check)


@pytest.mark.parametrize("relaxed", [False, True])
def test_a_log_that_has_filled_the_disk_makes_room(
    tmp_path: Path, recorder: Recorder, heading: Task, relaxed: bool
) -> None:
    """The log is written back when a batch is sent, for which there was no room either."""
    with (
        small_disk(tmp_path / "disk", "400k") as disk,
        FileLedger(disk / "ledger.db", create=True, relaxed=relaxed) as ledger,
    ):
        client, uplink = stepped(ledger, recorder, heading)
        outcomes = [client.report("heading", 1.0) for _ in range(60)]
        accepted = outcomes.count(Outcome.ACCEPTED)
        assert accepted < 60
        assert (Outcome.FAILED, Outcome.FAILED) not in pairwise(outcomes)
        check_sums(client, accepted)
        while client.report("heading", 1.0):
            accepted += 1
        uplink.expedite()
        check_sums(client, accepted, sent=accepted)


def test_nothing_is_sent_that_cannot_be_sealed(tmp_path: Path, recorder: Recorder, heading: Task) -> None:
    """The charge of a queued code might not be on the disk."""

    def check() -> bool:
        with FileLedger(tmp_path / "ledger.db", create=True, relaxed=True) as ledger:
            client, uplink = stepped(ledger, recorder, heading)
            assert client.report("heading", 1.0)
            with full():
                assert uplink.expedite() == 60.0
            assert recorder.posts == []
            uplink.expedite()
            check_sums(client, 1, sent=1)
        return True

    assert in_child(check)


@pytest.mark.parametrize("status", [204, 410, 503])
@pytest.mark.parametrize("trouble", ["full", "locked"])
def test_an_answer_that_cannot_be_written_down(
    tmp_path: Path, recorder: Recorder, heading: Task, status: int, trouble: str
) -> None:
    """The same bytes are sent again, so the server counts them once, and not in a tight loop."""
    path = tmp_path / "ledger.db"

    class Troubled:
        """Puts the ledger into trouble while its first request is in progress."""

        def __init__(self) -> None:
            self.trouble = ExitStack()

        def post(self, *request: Any) -> tuple[int, str | None]:
            if not recorder.posts:
                if trouble == "full":
                    self.trouble.enter_context(full())
                else:
                    holder = self.trouble.enter_context(closing(sqlite3.connect(path)))
                    holder.execute("BEGIN IMMEDIATE")
            return recorder.post(*request)

        def close(self) -> None:
            pass

    def check() -> bool:
        events: list[Event] = []
        recorder.script.append(status)
        with FileLedger(path, create=True, busy_timeout=0.01) as ledger:
            transport = Troubled()
            client, uplink = stepped(ledger, transport, heading, interval=0, on_event=events.append)
            assert client.report("heading", 1.0)
            assert 0 < uplink.send() <= 60  # a backoff, or the rest period of a ledger in trouble
            assert len(recorder.posts) == 1
            assert {event.kind for event in events} == {"failed"}
            transport.trouble.close()
            assert client.counters == Counters(pending=1)
            events.clear()
            uplink.expedite()
            assert client.counters == Counters(sent=1)
            assert [event.kind for event in events] == ["sent"]
        first, second = recorder.posts
        return first.body == second.body

    assert in_child(check)


def test_a_report_after_one_that_failed_wakes_the_sender(
    tmp_path: Path, recorder: Recorder, heading: Task
) -> None:
    def check() -> bool:
        with FileLedger(tmp_path / "ledger.db", create=True) as ledger:
            uplink = Uplink(URL, ledger=ledger, transport=recorder, interval=0)
            with uplink, Client(uplink, tasks=[heading], ledger=ledger) as client:
                assert uplink.flush(60)
                uplink._start()
                with full():
                    assert client.report("heading", 1.0) is Outcome.FAILED
                assert client.report("heading", 1.0) is Outcome.ACCEPTED
                assert recorder.busy.wait(60)  # without a flush
        return True

    assert in_child(check)


def test_a_ledger_that_has_no_room_to_begin(tmp_path: Path) -> None:
    def check() -> bool:
        with full(8192), pytest.raises(LedgerError, match="cannot be created: disk I/O error"):
            FileLedger(tmp_path / "ledger.db", create=True)
        assert list(tmp_path.iterdir()) == []
        FileLedger(tmp_path / "ledger.db", create=True).close()
        with full(), pytest.raises(LedgerError, match="cannot be opened: disk I/O error"):
            FileLedger(tmp_path / "ledger.db")
        FileLedger(tmp_path / "ledger.db").close()
        return True

    assert in_child(check)


@pytest.mark.slow
def test_the_limit_of_the_file_system_is_told_apart_from_damage(
    tmp_path: Path, recorder: Recorder, heading: Task
) -> None:
    """SQLite's own error for a full disk: the file may not have more pages than it has."""
    with FileLedger(tmp_path / "ledger.db", create=True, relaxed=True) as ledger:
        client, _ = stepped(ledger, recorder, heading)
        with ledger._database.reading() as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
        with ledger._database.writing(durable=False) as connection:
            connection.execute(f"PRAGMA max_page_count = {pages}")
        outcomes = [client.report("heading", 1.0) for _ in range(2000)]
        accepted = outcomes.count(Outcome.ACCEPTED)
        assert 0 < accepted < 2000
        assert outcomes[-1] is Outcome.FAILED
        # The same connection: a full disk is no reason to open another.
        with ledger._database.writing(durable=False) as connection:
            connection.execute(f"PRAGMA max_page_count = {100 * pages}")
        assert client.report("heading", 1.0) is Outcome.ACCEPTED
        check_sums(client, accepted + 1)
