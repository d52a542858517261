"""Batches that wait for the archive, in a SQLite file."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from arcwise.server.store.staging import ROW_BYTES, ArchiveFile, Staged, StagedSize, require_archive
from arcwise.wire import Batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from arcwise.server.store.sqlite.database import Database

_MOST_ROWS = 256
"""Of one statement: SQLite before 3.32 takes 999 variables."""
_STEP = 10_000
"""Rows that are deleted in one transaction: a few milliseconds of the disk's time."""


def stage(database: Database, number: int, epoch: int, batches: Sequence[Batch]) -> None:
    """Keep batches of an epoch of the task of this number; in the transaction that counts them."""
    start, left = 0, len(batches)
    while left:  # in few statements, for which see `SQLiteStore._insert_ids`, of few sizes
        size = min(_MOST_ROWS, 1 << (left.bit_length() - 1))
        part = batches[start : start + size]
        values: dict[str, bytes | int] = {"task": number, "epoch": epoch}
        for row, batch in enumerate(part):
            values[f"i{row}"], values[f"c{row}"] = batch.batch_id, batch.codes
        database.writer.execute(_insert_statement(size), values)
        start, left = start + size, left - size


@cache
def _insert_statement(rows: int) -> str:
    values = ", ".join(f"(:task, :epoch, :i{row}, :c{row})" for row in range(rows))
    return f"INSERT INTO staged (task, epoch, id, codes) VALUES {values}"  # noqa: S608 (numbers)


def staged(database: Database, after: int, most: int, most_bytes: int) -> list[Staged]:
    """Return batches that wait; see `StagingStore.staged`."""
    found: list[Staged] = []
    with database.read() as connection:
        for number, *fields in connection.execute(
            "SELECT s.number, t.id, s.id, s.epoch, s.codes FROM staged s JOIN task t ON t.number = s.task"
            " WHERE s.number > ? ORDER BY s.number LIMIT ?",
            (after, most),
        ):
            found.append(Staged(number, Batch(*fields)))
            most_bytes -= len(found[-1].batch.codes)
            if most_bytes <= 0:
                break
    return found


def staged_size(database: Database) -> StagedSize:
    """Return how much waits; see `StagingStore.staged_size`."""
    with database.read() as connection:
        batches, codes = connection.execute(
            "SELECT count(*), coalesce(sum(length(codes)), 0) FROM staged"
        ).fetchone()
    return StagedSize(batches, codes + ROW_BYTES * batches)


def unstage(database: Database, numbers: Sequence[int], archive: bytes | None) -> None:
    """Forget batches, while others add; see `StagingStore.unstage`."""
    for start in range(0, len(numbers), _STEP):
        with database.errors("write to"), database.transaction():
            require_archive(_archive(database), archive)
            database.writer.executemany(
                "DELETE FROM staged WHERE number = ?", [(n,) for n in numbers[start : start + _STEP]]
            )


def begin_files(database: Database, files: Iterable[ArchiveFile], archive: bytes | None) -> None:
    """Take note of files; see `StagingStore.begin_files`."""
    with database.errors("write to"), database.transaction():
        require_archive(_archive(database), archive)
        database.writer.executemany(
            "INSERT INTO archive_file (name, task, epoch) SELECT ?, number, ? FROM task WHERE id = ?",
            [(name, epoch, task_id) for name, task_id, epoch in files],
        )


def begun_files(database: Database) -> list[ArchiveFile]:
    """Return the files that were begun; see `StagingStore.begun_files`."""
    with database.read() as connection:
        rows = connection.execute("SELECT name, id, epoch FROM archive_file JOIN task ON number = task")
        return [ArchiveFile(*row) for row in rows.fetchall()]


def end_files(database: Database, archive: bytes | None) -> None:
    """Forget the files that were begun; see `StagingStore.end_files`."""
    with database.errors("write to"), database.transaction():
        require_archive(_archive(database), archive)
        database.writer.execute("DELETE FROM archive_file")


def archive_id(database: Database, new: bytes | None) -> bytes | None:
    """Return the id of the folder; see `StagingStore.archive_id`."""
    with database.errors("write to"), database.transaction():
        if new is not None:
            database.writer.execute("UPDATE state SET archive = ? WHERE archive IS NULL", (new,))
        return _archive(database)


def _archive(database: Database) -> bytes | None:
    """Return the id of the folder, in a transaction."""
    (found,) = database.writer.execute("SELECT archive FROM state").fetchone()
    return None if found is None else bytes(found)


def forget_archive(database: Database, *, begun_too: bool) -> bool:
    """Forget the folder; see `StagingStore.forget_archive`."""
    with database.errors("write to"), database.transaction():
        (begun,) = database.writer.execute("SELECT count(*) FROM archive_file").fetchone()
        if begun and not begun_too:
            return False
        database.writer.execute("UPDATE state SET archive = NULL")
        database.writer.execute("DELETE FROM archive_file")
    return True
