"""A ledger's file as an app meets it: created once, opened, lost, locked, shared by threads and forks."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from arcwise.client import Counters, Event, FileLedger, MemoryLedger, Outcome, Uplink, inspect
from arcwise.client.file import database
from arcwise.errors import LedgerError, ParameterError
from arcwise.tasks import Caps
from tests.support.forks import fork_unseen, in_child
from tests.support.stepped import stepped
from tests.support.unlimited import Client
from tests.support.waiting import in_threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.tasks import Task
    from tests.support.recorder import Recorder

URL = "http://127.0.0.1:1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def file(path: Path) -> Iterator[FileLedger]:
    with FileLedger(path, create=True, busy_timeout=0.01) as ledger:
        yield ledger


def test_a_ledger_is_made_once_and_then_opened(path: Path) -> None:
    with pytest.raises(
        LedgerError, match=r"no ledger at .*ledger\.db\. If this device never had one, create it"
    ):
        FileLedger(path)
    assert not path.exists()
    FileLedger(path, create=True).close()
    FileLedger(path).close()
    with pytest.raises(LedgerError, match=r"a file at .*ledger\.db already: create=True makes the first"):
        FileLedger(path, create=True)
    assert [each.name for each in path.parent.iterdir()] == ["ledger.db"]


@pytest.mark.parametrize("kind", ["empty", "text", "folder", "dangling"])
def test_create_leaves_alone_whatever_is_there(path: Path, kind: str) -> None:
    if kind == "folder":
        path.mkdir()
    elif kind == "dangling":
        path.symlink_to(path.with_name("nowhere"))
    else:
        path.write_text("" if kind == "empty" else "somebody's notes\n" * 999)
    with pytest.raises(LedgerError, match=r"a file at .* already"):
        FileLedger(path, create=True)
    with pytest.raises(LedgerError, match=r"not an arcwise ledger|damaged|cannot be opened|no ledger"):
        FileLedger(path)
    assert len(list(path.parent.iterdir())) == 1


def test_only_its_owner_reads_it(path: Path, recorder: Recorder, heading: Task) -> None:
    before = os.umask(0)
    try:
        with FileLedger(path, create=True) as ledger:
            stepped(ledger, recorder, heading)[0].report("heading", 1.0)
            modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {f"ledger.db{suffix}": 0o600 for suffix in ("", "-wal", "-shm")}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_folder_that_takes_no_files() -> None:
    def refuses(path: Path, create: str, opening: str) -> bool:
        if os.getuid() == 0:  # root may write anywhere
            os.setgid(65_534)
            os.setuid(65_534)
        with pytest.raises(LedgerError, match=rf"cannot be created: .*{create}") as caught:
            FileLedger(path.with_name("new.db"), create=True)
        assert ".new" not in str(caught.value)  # the name of its draft
        with pytest.raises(LedgerError, match=rf"cannot be opened: .*{opening}"):
            FileLedger(path)
        return True

    with tempfile.TemporaryDirectory() as name:  # a folder that another user can reach
        top, folder = Path(name), Path(name) / "folder"
        file = folder / "ledger.db"
        with pytest.raises(LedgerError) as caught:
            FileLedger(file, create=True)
        message = f"the ledger {file} cannot be created: the folder {folder} does not exist"
        assert str(caught.value) == message
        folder.mkdir()
        FileLedger(file, create=True).close()
        file.chmod(0o444)
        top.chmod(0o755)
        folder.chmod(0o555)
        assert in_child(lambda: refuses(file, "denied", "(readonly|unable to open)"))
        folder.chmod(0o000)
        assert in_child(lambda: refuses(file, "denied", "denied"))
        folder.chmod(0o755)
        assert [each.name for each in folder.iterdir()] == ["ledger.db"]


def test_a_ledger_that_goes_away_makes_reports_fail(
    path: Path, file: FileLedger, recorder: Recorder, heading: Task
) -> None:
    client, _ = stepped(file, recorder, heading)
    assert client.report("heading", 1.0)
    away = path.with_name("away.db")
    path.rename(away)
    assert client.report("heading", 1.0) is Outcome.FAILED
    with pytest.raises(LedgerError, match=r"ledger\.db was removed"):
        client.budget("heading")
    FileLedger(path.with_name("other.db"), create=True).close()
    path.with_name("other.db").rename(path)  # a new budget under the old name
    assert client.report("heading", 1.0) is Outcome.FAILED
    with pytest.raises(LedgerError, match="was replaced by another file"):
        _ = client.pending
    away.replace(path)
    assert client.report("heading", 1.0) is Outcome.ACCEPTED
    assert client.budget("heading").epsilon == 2.0


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
@pytest.mark.parametrize("opened", ["by a link", "by its name"])
def test_a_ledger_that_is_renamed_and_found_by_a_link_makes_reports_fail(
    path: Path, recorder: Recorder, heading: Task, opened: str
) -> None:
    """Another process would find the old name and keep a second log, named after the new name."""
    FileLedger(path, create=True).close()
    link = path.with_name("link.db") if opened == "by a link" else path
    if link != path:
        link.symlink_to(path.name)
    with FileLedger(link) as ledger:
        client, _ = stepped(ledger, recorder, heading)
        assert client.report("heading", 1.0)
        renamed = path.rename(path.with_name("renamed.db"))
        link.unlink(missing_ok=True)
        link.symlink_to(renamed.name)
        assert client.report("heading", 1.0) is Outcome.FAILED
        with pytest.raises(LedgerError, match=r"was renamed while it was in use"):
            client.budget()
        link.unlink()
        renamed.rename(path)
        if link != path:
            link.symlink_to(path.name)
        assert client.report("heading", 1.0)


def test_a_closed_ledger_makes_reports_fail(file: FileLedger, recorder: Recorder, heading: Task) -> None:
    client, _ = stepped(file, recorder, heading)
    file.close()
    file.close()  # a second close does nothing
    assert client.report("heading", 1.0) is Outcome.FAILED
    for use in (client.budget, lambda: client.pending, client.opt_out, client.opt_in):
        with pytest.raises(LedgerError, match=r"ledger\.db is closed"):
            use()


def test_a_ledger_that_another_process_holds(
    path: Path, file: FileLedger, recorder: Recorder, heading: Task
) -> None:
    events: list[Event] = []
    client, uplink = stepped(file, recorder, heading, interval=0, on_event=events.append)
    assert client.report("heading", 1.0)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert client.report("heading", 1.0) is Outcome.FAILED
    assert uplink.send() == 60.0  # no unsealed batch leaves
    assert recorder.posts == []
    assert client.budget("heading").epsilon == 1.0  # reading does not wait for the lock
    assert [event.kind for event in events] == ["failed", "failed"]
    assert "database is locked" in events[0].detail
    holder.execute("ROLLBACK")
    holder.close()
    assert client.report("heading", 1.0)
    assert uplink.send() > 60.0
    assert client.counters == Counters(sent=2, refused={"failed": 1})


def test_the_folder_that_the_app_goes_to_does_not_matter(
    tmp_path: Path, recorder: Recorder, heading: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with FileLedger("ledger.db", create=True) as ledger:
        client, _ = stepped(ledger, recorder, heading)
        monkeypatch.chdir("/")
        assert client.report("heading", 1.0)
        assert in_child(lambda: client.report("heading", 1.0) is Outcome.ACCEPTED)
        assert client.budget("heading").epsilon == 2.0


any_bytes = pytest.mark.skipif(sys.platform != "linux", reason="where a name may be any bytes")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("part", ["", "-wal", "-shm", "-journal"])
def test_a_pipe_is_no_part_of_a_ledger(path: Path, part: str) -> None:
    """Nobody writes to the pipe, so SQLite would wait for ever."""
    FileLedger(path, create=True).close()
    if not part:
        path.unlink()
    os.mkfifo(f"{path}{part}")
    with pytest.raises(LedgerError, match="is not a file"):
        FileLedger(path)


@pytest.mark.parametrize(
    "name",
    [
        "with space",
        "100%41",
        "a?mode=ro",
        "a#b",
        "émigré",
        pytest.param(os.fsdecode(b"caf\xe9"), marks=any_bytes),
    ],
)
def test_any_name_will_do(tmp_path: Path, name: str) -> None:
    FileLedger(tmp_path / name, create=True).close()
    FileLedger(tmp_path / name).close()
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert inspect(tmp_path / name).pending == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_shares_what_is_spent_and_what_is_queued(
    file: FileLedger, recorder: Recorder, delay: Task
) -> None:
    client, _ = stepped(file, recorder, delay)
    assert client.report("delay", 1.0)
    locked, release = threading.Event(), threading.Event()

    def hold() -> None:  # another thread is in the middle of a transaction at the fork
        with file._database.writing(durable=False):
            locked.set()
            release.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    assert locked.wait(60)
    threading.Timer(0.05, release.set).start()
    assert in_child(lambda: client.pending == 1 and client.report("delay", 1.0) is Outcome.ACCEPTED)
    holder.join()
    assert client.pending == 2
    assert [client.report("delay", 1.0) for _ in range(2)] == [Outcome.ACCEPTED, Outcome.CAPPED]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_in_the_middle_of_a_call_ends_that_call_alone(
    file: FileLedger, recorder: Recorder, heading: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler forks like this: the child closes the file during the call, and its log is gone."""
    client, _ = stepped(file, recorder, heading)
    assert client.report("heading", 1.0)
    look = database._identity_of
    forked: list[bool] = []

    def fork_first(path: Path, *, follow: bool = True) -> tuple[int, int] | None:
        if not forked:
            forked.append(True)
            assert in_child(lambda: True)
        return look(path, follow=follow)

    monkeypatch.setattr(database, "_identity_of", fork_first)
    assert client.report("heading", 1.0) is Outcome.FAILED
    assert client.report("heading", 1.0) is Outcome.ACCEPTED
    assert client.budget().epsilon == 2.0


@pytest.mark.parametrize("busy_timeout", [0.0, 0.4])
def test_threads_wait_for_another_process_all_at_once(
    path: Path, recorder: Recorder, heading: Task, busy_timeout: float
) -> None:
    """If they waited one after another, the last would wait once per thread. The test counts waits."""
    FileLedger(path, create=True).close()
    waits: list[float] = []
    with FileLedger(path, busy_timeout=busy_timeout) as file:
        client, _ = stepped(file, recorder, heading)
        waiting = file._database._wait_for_others

        def note(connection: sqlite3.Connection, waited: float) -> None:
            waiting(connection, waited)
            waits.append(connection.execute("PRAGMA busy_timeout").fetchone()[0])

        file._database._wait_for_others = note  # type: ignore[method-assign]
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with ThreadPoolExecutor(4) as threads:
                reports = [threads.submit(client.report, "heading", 1.0) for _ in range(4)]
            assert [report.result() for report in reports] == [Outcome.FAILED] * 4
            other.execute("ROLLBACK")
        assert sum(waits) < 2 * 1000 * busy_timeout + 1
        assert client.report("heading", 1.0) is Outcome.ACCEPTED
        assert waits[-1] == 1000 * busy_timeout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("ids", ["different", "same"])
def test_a_fork_that_python_does_not_know_of(
    file: FileLedger, recorder: Recorder, heading: Task, ids: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A C library can fork so. SQLite's locks would not hold in the child, so the child reports nothing.

    The child can have its parent's process id if each is the first process of a PID namespace.
    """
    if ids == "same":
        if sys.platform != "linux":
            pytest.skip("only Linux distinguishes such a child from its parent")
        same = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: same)
        file.close()
        file = FileLedger(file.path)
    client, _ = stepped(file, recorder, heading)
    assert client.report("heading", 1.0)
    pid = fork_unseen()
    if pid == 0:
        outcome = client.report("heading", 1.0)
        message = ""
        try:
            client.budget()
        except LedgerError as error:
            message = str(error)
        os._exit(0 if outcome is Outcome.FAILED and "carried over a fork" in message else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert client.report("heading", 1.0)
    assert client.budget().epsilon == 2.0


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("relaxed", [False, True])
def test_threads_add_up_exactly(path: Path, recorder: Recorder, heading: Task, relaxed: bool) -> None:
    with FileLedger(path, create=True, relaxed=relaxed) as ledger:
        uplink = Uplink(URL, ledger=ledger, transport=recorder, batch_size=7, interval=0.001)
        with uplink, Client(uplink, tasks=[heading], ledger=ledger, caps=Caps(rolling=150.0)) as client:
            told = in_threads(*[lambda: [client.report("heading", n) for n in range(25)]] * 8)
            outcomes = [outcome for each in told for outcome in each]
            assert client.flush(60)
            assert outcomes.count(Outcome.ACCEPTED) == 150
            assert outcomes.count(Outcome.CAPPED) == 50
            assert client.budget("heading").epsilon == client.budget().epsilon == 150.0
            assert client.counters == Counters(sent=150, refused={"capped": 50})
    assert recorder.codes == 150


def test_a_queue_belongs_to_its_ledger(file: FileLedger, recorder: Recorder, heading: Task) -> None:
    with Uplink(URL, transport=recorder) as in_memory, Uplink(URL, ledger=file, transport=recorder) as uplink:
        with pytest.raises(ParameterError, match="a FileLedger holds the queue too"):
            Client(in_memory, tasks=[heading], ledger=file)
        with pytest.raises(ParameterError, match="ledger must be the FileLedger that the shared Uplink"):
            Client(uplink, tasks=[heading], ledger=MemoryLedger())
        with pytest.raises(
            ParameterError, match=r"ledger must be None, a FileLedger or a MemoryLedger, got '"
        ):
            Client(URL, tasks=[heading], ledger="ledger.db")
        assert Client(uplink, tasks=[heading], ledger=file).report("heading", 1.0)
