"""Batches that wait for the archive, in a PostgreSQL store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.server.store.staging import ROW_BYTES, ArchiveFile, Staged, StagedSize, require_archive
from arcwise.wire import Batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from arcwise.server.store.postgres.database import Connection


def read(connection: Connection, after: int, most: int, most_bytes: int) -> list[Staged]:
    """Return batches that wait; see `StagingStore.staged`."""
    rows = connection.execute(
        "SELECT s.number, t.id, s.id, s.epoch, s.codes FROM staged s JOIN task t ON t.number = s.task"
        " JOIN (SELECT number, sum(size) OVER (ORDER BY number) - size AS before FROM ("
        "  SELECT number, length(codes) AS size FROM staged WHERE number > %s ORDER BY number LIMIT %s) AS f"
        " ) AS g ON g.number = s.number AND g.before < %s ORDER BY s.number",
        (after, most, most_bytes),
        binary=True,
    ).fetchall()
    return [Staged(number, Batch(*fields)) for number, *fields in rows]


def size(connection: Connection) -> StagedSize:
    """Return how much waits; see `StagingStore.staged_size`."""
    ((batches, codes),) = connection.execute(
        "SELECT count(*), coalesce(sum(length(codes)), 0)::bigint FROM staged"
    ).fetchall()
    return StagedSize(batches, codes + ROW_BYTES * batches)


def remove(connection: Connection, numbers: Sequence[int], archive: bytes | None) -> None:
    """Forget batches, while others add; see `StagingStore.unstage`."""
    with connection.transaction():
        _require_archive(connection, archive)
        connection.execute("DELETE FROM staged WHERE number = ANY (%s)", (list(numbers),))


def begin_files(connection: Connection, files: Iterable[ArchiveFile], archive: bytes | None) -> None:
    """Take note of files; see `StagingStore.begin_files`."""
    with connection.transaction():
        _require_archive(connection, archive)
        for name, task_id, epoch in files:
            connection.execute(
                "INSERT INTO archive_file (name, task, epoch) SELECT %s, number, %s FROM task WHERE id = %s",
                (name, epoch, task_id),
            )


def begun_files(connection: Connection) -> list[ArchiveFile]:
    """Return the files that were begun; see `StagingStore.begun_files`."""
    rows = connection.execute("SELECT name, id, epoch FROM archive_file JOIN task ON number = task")
    return [ArchiveFile(*row) for row in rows.fetchall()]


def end_files(connection: Connection, archive: bytes | None) -> None:
    """Forget the files that were begun; see `StagingStore.end_files`."""
    with connection.transaction():
        _require_archive(connection, archive)
        connection.execute("DELETE FROM archive_file")


def _require_archive(connection: Connection, archive: bytes | None) -> None:
    """Raise `StoreError` unless this is the folder's id; it stays so until the transaction ends."""
    ((found,),) = connection.execute("SELECT archive FROM state FOR SHARE").fetchall()
    require_archive(None if found is None else bytes(found), archive)


def archive_id(connection: Connection, new: bytes | None) -> bytes | None:
    """Return the id of the folder; see `StagingStore.archive_id`."""
    if new is not None:
        connection.execute("UPDATE state SET archive = %s WHERE archive IS NULL", (new,))
    ((found,),) = connection.execute("SELECT archive FROM state").fetchall()
    return None if found is None else bytes(found)


def forget_archive(connection: Connection, *, begun_too: bool) -> bool:
    """Forget the folder; see `StagingStore.forget_archive`."""
    with connection.transaction():
        connection.execute("SELECT FROM state FOR UPDATE")  # before the look: nobody begins a file then
        ((begun,),) = connection.execute("SELECT count(*) FROM archive_file").fetchall()
        if begun and not begun_too:
            return False
        connection.execute("UPDATE state SET archive = NULL")
        connection.execute("DELETE FROM archive_file")
    return True
