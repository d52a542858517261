"""A SQLite file as records, and records into a SQLite file."""

from __future__ import annotations

from contextlib import closing
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from arcwise.server.store.export import BatchIds, Counts, Header, TaskState
from arcwise.server.store.merging import (
    Brought,
    refuse_known_batches,
    refuse_known_origins,
    refuse_more_than_most,
)
from arcwise.server.store.sqlite.rows import spread
from arcwise.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from arcwise.server.store.export import Record
    from arcwise.server.store.sqlite.database import Database

__all__ = ["export", "merge"]

_CHUNK = 4096


def export(database: Database, *, ids: bool) -> Generator[Record, None, None]:
    """Yield everything but keys, all of one moment; see `Store.export`."""
    with database.errors("export"), closing(database.connect()) as connection:
        connection.execute("BEGIN")
        origins = connection.execute("SELECT id FROM origin ORDER BY own DESC, id").fetchall()
        (reports,) = connection.execute("SELECT coalesce(sum(reports), 0) FROM total").fetchone()
        yield Header(tuple(origin for (origin,) in origins), reports, ids)
        tasks = connection.execute("SELECT number, definition, closed, open_from FROM task ORDER BY number")
        for number, definition, closed, open_from in tasks.fetchall():
            task = Task.from_bytes(definition)
            yield TaskState(task, closed, open_from)
            for epoch, *row in connection.execute(
                "SELECT epoch, codes, per_code FROM counts WHERE task = ? ORDER BY epoch", (number,)
            ):
                yield Counts(epoch, spread(task.mechanism.kernel.codes, *row))
            if not ids:
                continue
            rows = connection.execute("SELECT epoch, id FROM batch WHERE task = ? ORDER BY id", (number,))
            while chunk := rows.fetchmany(_CHUNK):
                for epoch, members in groupby(sorted(chunk), itemgetter(0)):
                    yield BatchIds(epoch, [name for _, name in members])


def merge(database: Database, records: Iterable[Record], now: int) -> None:
    """Add what records hold, all or nothing; see `Store.merge`."""
    number, brought = 0, Brought()
    task: Task | None = None
    with database.errors("merge into"), database.transaction():
        execute = database.writer.execute
        for record in records:
            if isinstance(record, Header):
                known = execute("SELECT id, merged FROM origin").fetchall()
                refuse_known_origins(record.origins, dict(known))
                database.writer.executemany(
                    "INSERT INTO origin (id, own, merged) VALUES (?, 0, ?)",
                    [(origin, now) for origin in record.origins],
                )
            elif isinstance(record, TaskState):
                task = record.task
                key = bytes.fromhex(task.id)
                execute(
                    "INSERT INTO task (id, definition, closed) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                    (key, task.to_bytes(), record.closed),
                )
                (number,) = execute("SELECT number FROM task WHERE id = ?", (key,)).fetchone()
                execute(
                    "UPDATE task SET open_from = max(open_from, ?) WHERE number = ?",
                    (record.open_from, number),
                )
            elif isinstance(record, Counts):
                assert task is not None  # noqa: S101 (narrows the type for the checker)
                brought.add(task, record.counts)
                database.add_counts(number, record.epoch, record.counts)
                (total,) = execute("SELECT reports FROM total WHERE task = ?", (number,)).fetchone()
                refuse_more_than_most(task.id, total)
            else:
                cursor = database.writer.executemany(
                    "INSERT INTO batch (task, id, epoch) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                    [(number, name, record.epoch) for name in record.ids],
                )
                refuse_known_batches(len(record.ids) - cursor.rowcount)
