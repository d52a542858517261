"""A ledger keeps its file locked despite other uses by its process, and releases it on closing."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from arcwise.client import FileLedger, Outcome, inspect
from arcwise.client.file import held
from arcwise.errors import LedgerError
from tests.support.forks import fork_unseen
from tests.support.stepped import stepped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.tasks import Task
    from tests.support.recorder import Recorder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has locks that outlast a close")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "ledger.db"
    path.parent.mkdir()
    FileLedger(path, create=True).close()
    return path


def elsewhere(path: Path, program: str) -> str:
    """Run a program in another process with the path as its argument, and return its output."""
    return subprocess.run(command(path, program), check=True, capture_output=True, text=True).stdout


def command(path: Path, program: str) -> list[str]:
    imports = "import sqlite3, sys\nfrom arcwise.client import FileLedger, inspect\npath = sys.argv[1]\n"
    return [sys.executable, "-c", imports + program, str(path)]


@contextlib.contextmanager
def beside(path: Path, program: str) -> Iterator[None]:
    """Run a program in another process, up to a line that it prints; let it end after the block."""
    with subprocess.Popen(command(path, program), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        yield
        other.communicate()
    assert other.returncode == 0


OPEN_AND_CLOSE = "FileLedger(path).close(); inspect(path)"
WRITE = """
connection = sqlite3.connect(path, isolation_level=None, timeout=0)
try: connection.execute("BEGIN IMMEDIATE"); print("wrote")
except sqlite3.OperationalError as error: print(error)
"""
TAKE_ALONE = """
connection = sqlite3.connect(path, isolation_level=None, timeout=0)
try: print(connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0])
except sqlite3.OperationalError as error: print(error)
"""
OUR_WRITE = """
with FileLedger(path, busy_timeout=0.05) as ledger:
    try:
        with ledger._database.writing(durable=True): print("wrote")
    except Exception as error: print(str(error).rpartition(": ")[2])
"""


def files(path: Path) -> set[str]:
    return {each.name.removeprefix(path.name) for each in path.parent.iterdir()}


def read_all(path: Path) -> None:
    for each in path.parent.iterdir():
        each.read_bytes()


@pytest.mark.parametrize("how", ["file", "index", "archive"])
def test_the_app_reads_the_files_while_another_process_comes_and_goes(
    path: Path, recorder: Recorder, heading: Task, how: str
) -> None:
    with FileLedger(path) as ledger:
        client, _ = stepped(ledger, recorder, heading)
        assert client.report("heading", 1.0)
        if how == "archive":
            shutil.make_archive(str(path.parent.with_name("export")), "zip", path.parent)
        else:
            path.with_name(path.name + ("-shm" if how == "index" else "")).read_bytes()
        elsewhere(path, OPEN_AND_CLOSE)
        assert files(path) == {"", "-wal", "-shm"}
        assert client.report("heading", 1.0)
        assert elsewhere(path, TAKE_ALONE) == "database is locked\n"
    assert inspect(path).accounts[0].epsilon == 2.0


@pytest.mark.parametrize("ledgers", [1, 2])
def test_the_last_to_close_leaves_one_file(
    path: Path, recorder: Recorder, heading: Task, ledgers: int
) -> None:
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    opened = [FileLedger(path) for _ in range(ledgers)]
    for ledger in opened:
        assert files(path) == {"", "-wal", "-shm"}
        assert stepped(ledger, recorder, heading)[0].report("heading", 1.0)
        inspect(path)
        read_all(path)
        ledger.close()
    assert files(path) == {""}
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before
    assert elsewhere(path, TAKE_ALONE) == "delete\n"


def test_another_process_that_closes_leaves_the_log(path: Path) -> None:
    with FileLedger(path):
        with beside(path, "ledger = FileLedger(path); print(flush=True); sys.stdin.read(); ledger.close()"):
            read_all(path)
        assert files(path) == {"", "-wal", "-shm"}
    assert files(path) == {""}


@pytest.mark.parametrize("other", ["ledger", "inspection"])
def test_closing_one_connection_lets_go_of_no_transaction_of_another(path: Path, other: str) -> None:
    with FileLedger(path) as ledger:
        second = FileLedger(path)
        with ledger._database.writing(durable=True):
            if other == "ledger":
                second.close()
            else:
                inspect(path)
            assert elsewhere(path, WRITE) == "database is locked\n"
        assert elsewhere(path, WRITE) == "wrote\n"
        second.close()


def test_a_transaction_stays_alone_when_the_app_reads_the_index(path: Path) -> None:
    """SQLite's own locks of a transaction are on the index; a second transaction would overwrite its log."""
    with FileLedger(path) as ledger:
        with ledger._database.writing(durable=True) as connection:
            connection.execute("SELECT * FROM state").fetchone()
            read_all(path)
            assert elsewhere(path, OUR_WRITE) == "database is locked\n"
        assert elsewhere(path, OUR_WRITE) == "wrote\n"
        with ledger._database.reading():
            assert elsewhere(path, OUR_WRITE) == "wrote\n"


def test_a_call_waits_for_another_process_in_whose_turn_the_index_was_read(
    path: Path, recorder: Recorder, heading: Task
) -> None:
    program = """
with FileLedger(path) as ledger, ledger._database.writing(durable=True):
    open(path + "-shm").close()
    print(flush=True)
    sys.stdin.read()
"""
    with FileLedger(path, busy_timeout=0.2) as ledger:
        client, _ = stepped(ledger, recorder, heading)
        with beside(path, program):
            begun = time.monotonic()
            assert client.report("heading", 1.0) is Outcome.FAILED
            assert 0.2 <= time.monotonic() - begun < 2
            assert inspect(path).accounts == ()
        assert client.report("heading", 1.0)


def test_a_file_that_is_opened_again_and_again_takes_no_more_descriptors(path: Path) -> None:
    with FileLedger(path):
        for _ in range(10):
            FileLedger(path).close()
            counted = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(20):
            FileLedger(path).close()
        assert len(list(Path("/proc/self/fd").iterdir())) == counted


def test_a_child_that_python_does_not_know_of_lets_go_of_nothing(path: Path) -> None:
    with FileLedger(path) as ledger:
        read_all(path)
        pid = fork_unseen()
        if pid == 0:
            assert ledger._database._connection is not None
            ledger._database._connection.close()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        elsewhere(path, OPEN_AND_CLOSE)
        assert files(path) == {"", "-wal", "-shm"}


def test_a_child_that_outlives_its_parents_ledger_holds_nothing(path: Path) -> None:
    ledger = FileLedger(path)
    pid = fork_unseen()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    try:
        ledger.close()
        assert files(path) == {""}
        assert elsewhere(path, TAKE_ALONE) == "delete\n"
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOLCK, errno.ENOTSUP])
def test_a_file_system_without_these_locks(
    path: Path, recorder: Recorder, heading: Task, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(held, "_set_lock", refuse)
    with FileLedger(path) as ledger:
        assert stepped(ledger, recorder, heading)[0].report("heading", 1.0)
    assert files(path) == {""}
    assert inspect(path).accounts[0].epsilon == 1.0


@pytest.mark.parametrize("spare", range(10))
def test_a_ledger_without_a_descriptor_for_its_locks_is_not_used(path: Path, spare: int) -> None:
    """With fewer descriptors SQLite still opens the file, but loses its locks if somebody reads it."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        taken: list[int] = []
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        try:
            for _ in range(spare):
                os.close(taken.pop())
            stack.enter_context(FileLedger(path))
        except LedgerError:
            assert spare < 5
            return
        finally:
            for descriptor in taken:
                os.close(descriptor)
        read_all(path)
        assert elsewhere(path, TAKE_ALONE) == "database is locked\n"


def test_a_file_that_is_no_ledger_keeps_its_locks(path: Path) -> None:
    """An app may give the path of its own database by mistake."""
    with contextlib.closing(sqlite3.connect(path.with_name("app.db"), isolation_level=None)) as connection:
        connection.execute("CREATE TABLE notes (text)")
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(Exception, match="not an arcwise ledger"):
            FileLedger(path.with_name("app.db"))
        assert elsewhere(path.with_name("app.db"), WRITE) == "database is locked\n"
