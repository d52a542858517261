"""Deleting the reports of a task: in the store, by the command, and with an archive."""

from __future__ import annotations

import contextlib
import sqlite3
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from arcwise.domains import Interval
from arcwise.errors import ParameterError
from arcwise.server.archive.folder import Folder
from arcwise.server.store import DeletedData, Store, open_store
from arcwise.server.store.sqlite import database
from arcwise.server.store.staging import ArchiveFile, StagingStore, staging
from arcwise.tasks import Task
from tests.support import commands
from tests.support.store_samples import CLOSED, COUNTED, DELAY, HEADING, TASKS, batch, counted
from tests.support.stores import opened

if TYPE_CHECKING:
    from pathlib import Path

HOUR = 3_600


@pytest.fixture
def filled(url: str) -> str:
    with contextlib.closing(open_store(url)) as store:
        if type(store).delete_data is Store.delete_data:
            pytest.skip("stores of this kind delete no data")
        if not isinstance(store, StagingStore):
            pytest.skip("stores of this kind feed no archive")
        store.register(TASKS)
        store.add([batch(DELAY, [1, 1, 2]), batch(DELAY, [5], number=1, epoch=103)])
        staging(store).add_staged([batch(DELAY, [4], number=2)])
        store.add([batch(HEADING, [9])])
    return url


run = partial(commands.run, "store", "delete-data")
good = partial(commands.good, "store", "delete-data")
bad = partial(commands.bad, "store", "delete-data", code=1)


def test_nothing_of_a_closed_task_is_left_and_nothing_else_goes(filled: str) -> None:
    with contextlib.closing(open_store(filled)) as store:
        with pytest.raises(ParameterError, match="is open: close it first"):
            store.delete_data(DELAY.id)
        with pytest.raises(ParameterError, match="has no task"):
            store.delete_data("00" * 32)
        assert store.report_count(DELAY) == 5
        before = store.revision(DELAY)
        store.close_task(DELAY.id, 86_400)
        assert store.delete_data(DELAY.id) == DeletedData(reports=5, batch_ids=3, staged=1)
        assert store.revision(DELAY) != before  # cached results of servers are computed again
        assert store.counts_by_epoch(DELAY) == {}
        assert store.report_count(DELAY) == 0
        assert staging(store).staged_size().batches == 0
        assert store.report_count(HEADING) == 1
        assert store.check() == []
        assert store.delete_data(DELAY.id) == DeletedData(0, 0, 0)
        # A device without an answer sends a batch again, perhaps when the task is open again.
        assert store.add([batch(DELAY, [1, 1, 2])]) == [CLOSED]
        assert store.open_task(DELAY.id)
        again = [batch(DELAY, [1, 1, 2]), batch(DELAY, [5], number=1, epoch=103)]
        assert store.add([*again, batch(DELAY, [7], number=9, epoch=104)]) == [CLOSED, CLOSED, COUNTED]
        np.testing.assert_array_equal(store.counts(DELAY), counted(DELAY, [7]))


def test_the_command_asks_deletes_and_says_what_it_cannot(filled: str) -> None:
    assert "task delay is open: close it first" in bad(filled, "delay", "--yes")
    assert "no task 'dealy'" in bad(filled, "dealy", "--yes")
    with contextlib.closing(open_store(filled)) as store:
        store.close_task(DELAY.id, 86_400)
    assert f"Delete 5 reports of task delay ({DELAY.id})" in bad(filled, "delay", text="n\n")
    with contextlib.closing(open_store(filled)) as store:
        assert store.report_count(DELAY) == 5
    done = good(filled, DELAY.id, text="y\n")
    assert "deleted: 5 reports, 3 batch ids, 1 batches that waited for an archive" in done
    assert "backups and exports" in done
    assert "archives of batches, which need --archive" in done
    with contextlib.closing(open_store(filled)) as store:
        assert store.report_count(DELAY) == 0
        ((_, action),) = store.actions(10)
        assert (action.action, action.subject, action.outcome) == ("delete data", DELAY.id, "done")


def test_two_tasks_of_one_name_need_an_id(url: str) -> None:
    with opened(url, [Task("same", Interval(0, 1), epsilon) for epsilon in (1.0, 2.0)]):
        pass
    assert "TASK must name one task, but 2 have the name 'same': give an id" in bad(url, "same", "--yes")


def test_the_files_of_an_archive_go_too(filled: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "archive"
    with contextlib.closing(open_store(filled)) as store:
        store.close_task(DELAY.id, 86_400)
        folder = Folder(path, staging(store))
        for task in (DELAY, HEADING):
            folder.write(ArchiveFile("aa" * 16, bytes.fromhex(task.id), 100), task, [batch(task, [1])])
        assert folder.lock()
        assert "a server writes to" in bad(filled, "delay", "--yes", "--archive", str(path))
        folder.unlock()
        (other := tmp_path / "other").mkdir()
        assert "is not the archive of this store" in bad(filled, "delay", "--yes", "--archive", str(other))
        assert store.report_count(DELAY) == 5
    assert "copies of the archive" in good(filled, "delay", "--yes", "--archive", str(path))
    assert not (path / DELAY.id).exists()
    assert (path / HEADING.id).exists()


def test_deleted_bytes_are_not_in_the_file(tmp_path: Path) -> None:
    """SQLite's file is rewritten, and its log emptied."""
    file = tmp_path / "arcwise.db"
    ids = [batch(DELAY, [1], number=number) for number in range(50)]
    with opened(f"sqlite:///{file}") as store:
        store.add(ids)
        store.close_task(DELAY.id, 86_400)
    assert ids[7].batch_id in file.read_bytes()
    good(f"sqlite:///{file}", "delay", "--yes")
    for each in tmp_path.glob("arcwise.db*"):
        assert ids[7].batch_id not in each.read_bytes()


def test_bytes_that_a_reader_keeps_in_the_file_are_not_called_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite reports this only in the result of its checkpoint."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.1)
    file = tmp_path / "arcwise.db"
    url = f"sqlite:///{file}"
    with opened(url) as store:
        store.add([batch(DELAY, [1], number=10**37)])
        store.close_task(DELAY.id, 86_400)
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as backup:
        backup.execute("BEGIN")
        backup.execute("SELECT count(*) FROM batch").fetchone()
        done = run(url, "delay", "--yes")
        assert done.exit_code == 1
        assert "deleted: 1 report, 1 batch id" in done.stdout
        assert "still holds deleted data, because a backup" in done.stderr
        assert "Run `arcwise store vacuum` until it succeeds" in done.stderr
        assert "Vacuum again when it is done" in commands.bad("store", "vacuum", url, code=1)
        backup.execute("COMMIT")
    commands.good("store", "vacuum", url)
    for each in tmp_path.glob("arcwise.db*"):
        assert batch(DELAY, [1], number=10**37).batch_id not in each.read_bytes()
