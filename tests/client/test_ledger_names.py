"""A ledger under several names: like SQLite's log, the ledger's log is named after the file's real path."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.client import FileLedger, Outcome, RecordingTransport, inspect
from arcwise.domains import Circle
from arcwise.errors import LedgerError
from arcwise.tasks import Caps, Task
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from pathlib import Path

URL = "http://127.0.0.1:1"
LIFETIME = 6
TASK = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=float(LIFETIME)))

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs links, and files removed while in use")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "ledger.db"
    FileLedger(path, create=True).close()
    return path


@pytest.fixture(params=["itself", "link", "chain", "folder"])
def name(request: pytest.FixtureRequest, path: Path, tmp_path: Path) -> Path:
    """Give a name of the ledger."""
    link = tmp_path / "link.db"
    if request.param == "itself":
        return path
    if request.param == "folder":
        (tmp_path / "folder").symlink_to("data")
        return tmp_path / "folder" / "ledger.db"
    link.symlink_to("data/ledger.db")
    if request.param == "link":
        return link
    (tmp_path / "chain.db").symlink_to("link.db")
    return tmp_path / "chain.db"


def spend(path: Path, attempts: int = 2 * LIFETIME) -> tuple[list[str], int]:
    """Report, send and close; return the outcomes and the number of released codes."""
    transport = RecordingTransport()
    with (
        FileLedger(path) as ledger,
        Client(URL, tasks=[TASK], ledger=ledger, transport=transport) as client,
    ):
        outcomes = [client.report("heading", 1.0).value for _ in range(attempts)]
    return outcomes, sum(len(batch.codes) for batch in transport.batches)


def released_elsewhere(path: Path) -> int:
    """Let another process spend as much as it can; return how many codes it released."""
    code = "import sys; from pathlib import Path; from test_ledger_names import spend\n"
    code += "print(spend(Path(sys.argv[1]))[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return int(done.stdout or 0)


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_part_that_is_removed_in_use_ends_reporting(name: Path, path: Path, suffix: str) -> None:
    """No more is released than the cap allows, in any process that spends afterwards."""
    transport = RecordingTransport()
    with FileLedger(name) as ledger, Client(URL, tasks=[TASK], ledger=ledger, transport=transport) as client:
        assert client.report("heading", 1.0)
        assert client.flush(60)
        part, away = path.with_name(f"ledger.db{suffix}"), path.with_name("away")
        part.rename(away)
        elsewhere = 0 if suffix == "-wal" else released_elsewhere(path)
        assert [client.report("heading", 1.0) for _ in range(LIFETIME)] == [Outcome.FAILED] * LIFETIME
        away.replace(part)  # spending in the meantime is unknown
        assert client.report("heading", 1.0) is Outcome.FAILED
        with pytest.raises(LedgerError, match=rf"the log .*ledger\.db{suffix} of the ledger was removed"):
            client.budget()
        assert not client.close(0)
    assert elsewhere + sum(len(batch.codes) for batch in transport.batches) <= LIFETIME


def test_two_openings_by_different_names_spend_one_budget(name: Path, path: Path) -> None:
    options: Any = {"transport": RecordingTransport(), "interval": 600}
    with FileLedger(name) as ledger, Client(URL, tasks=[TASK], ledger=ledger, **options) as client:
        assert client.report("heading", 1.0)
        assert spend(path)[0].count("accepted") == LIFETIME - 1
        assert client.report("heading", 1.0) is Outcome.CAPPED
        assert inspect(name).accounts == inspect(path).accounts
        client.close(0)


@pytest.mark.parametrize("turned", ["link.db", "current"])
def test_a_link_that_is_turned_to_another_ledger_ends_reporting(
    path: Path, tmp_path: Path, turned: str
) -> None:
    other = tmp_path / "other" / path.name
    other.parent.mkdir()
    FileLedger(other, create=True).close()
    link, is_folder = tmp_path / turned, turned == "current"
    link.symlink_to(path.parent if is_folder else path)
    with (
        FileLedger(link / path.name if is_folder else link) as ledger,
        Client(URL, tasks=[TASK], ledger=ledger) as client,
    ):
        assert client.report("heading", 1.0)
        link.unlink()
        link.symlink_to(other.parent if is_folder else other)
        assert client.report("heading", 1.0) is Outcome.FAILED
        client.close(0)
    assert inspect(path).accounts[0].epsilon == 1.0


def test_a_second_name_is_refused(path: Path, tmp_path: Path) -> None:
    """SQLite would keep a log for each name, and neither process would see the other's charges."""
    with FileLedger(path) as ledger, Client(URL, tasks=[TASK], ledger=ledger, interval=600) as client:
        assert client.report("heading", 1.0)
        os.link(path, tmp_path / "second.db")
        for each in (tmp_path / "second.db", path):
            with pytest.raises(LedgerError, match=r"has a second name \(a hard link\)"):
                FileLedger(each)
        client.close(0)
    (tmp_path / "second.db").unlink()
    assert spend(path)[0].count("accepted") == LIFETIME - 1


def test_the_draft_of_a_process_that_was_killed_is_no_second_name(path: Path) -> None:
    draft = path.with_name("ledger.db.0123456789ab.new")
    os.link(path, draft)
    FileLedger(path).close()
    assert not draft.exists()


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_what_is_left_of_a_ledger_is_in_no_new_one(tmp_path: Path, suffix: str) -> None:
    left = tmp_path / f"new.db{suffix}"
    left.touch()
    with pytest.raises(LedgerError, match=rf"new\.db{suffix} is left over from a ledger .* Remove it too"):
        FileLedger(tmp_path / "new.db", create=True)
    assert not (tmp_path / "new.db").exists()
    left.unlink()
    FileLedger(tmp_path / "new.db", create=True).close()


def test_a_link_to_nothing_opens_nothing(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to("nothing.db")
    with pytest.raises(LedgerError, match=r"no ledger at .*nothing\.db"):
        FileLedger(link)
    with pytest.raises(LedgerError, match=r"no ledger at .*nothing\.db"):
        inspect(link)
    loop = tmp_path / "loop.db"
    loop.symlink_to("loop.db")
    with pytest.raises(LedgerError, match="cannot be opened"):
        FileLedger(loop)
