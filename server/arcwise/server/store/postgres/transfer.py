"""A PostgreSQL store as records, and records into a PostgreSQL store."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.server.store.export import BatchIds, Counts, Header, TaskState
from arcwise.server.store.merging import refuse_known_batches, refuse_known_origins
from arcwise.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from arcwise.server.store.export import Record
    from arcwise.server.store.postgres.database import Connection

__all__ = ["export", "merge"]

_CHUNK = 4096


def export(connection: Connection, *, ids: bool) -> Generator[Record, None, None]:
    """Yield everything but keys, all of one moment; see `Store.export`."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # the reader sets the pace
        origins = connection.execute("SELECT id FROM origin ORDER BY own DESC, id").fetchall()
        ((reports,),) = connection.execute("SELECT coalesce(sum(reports), 0)::bigint FROM total").fetchall()
        yield Header(tuple(origin for (origin,) in origins), reports, ids)
        tasks = connection.execute("SELECT number, definition, closed, open_from FROM task ORDER BY number")
        for number, definition, closed, open_from in tasks.fetchall():
            task = Task.from_bytes(definition)
            yield TaskState(task, closed, open_from)
            yield from _counts(connection, number, task)
            if ids:
                yield from _ids(connection, number)


def _counts(connection: Connection, number: int, task: Task) -> Iterator[Counts]:
    rows = connection.execute(
        "SELECT epoch, array_agg(code), array_agg(reports) FROM counts WHERE task = %s"
        " GROUP BY epoch ORDER BY epoch",
        (number,),
    )
    for epoch, codes, reports in rows:
        counts = np.zeros(task.mechanism.kernel.codes, np.int64)
        np.add.at(counts, codes, reports)  # a code has a row per shard
        yield Counts(epoch, counts)


def _ids(connection: Connection, number: int) -> Iterator[BatchIds]:
    with connection.cursor("ids") as cursor:  # on the server: there may be hundreds of millions
        cursor.execute("SELECT epoch, id FROM batch WHERE task = %s", (number,))
        while chunk := cursor.fetchmany(_CHUNK):
            for epoch, members in groupby(sorted(chunk), itemgetter(0)):
                yield BatchIds(epoch, [name for _, name in members])


def merge(connection: Connection, records: Iterable[Record], now: int) -> None:
    """Add what records hold to shard 0, all or nothing; see `Store.merge`."""
    number = 0
    with connection.transaction():
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        # Nobody adds and nobody folds meanwhile: workers answer "later" if it takes longer than they wait.
        connection.execute("SELECT pg_advisory_xact_lock(7241, 'task'::regclass::oid::integer)")
        connection.execute("SELECT pg_advisory_xact_lock(7243, 'task'::regclass::oid::integer)")
        for record in records:
            if isinstance(record, Header):
                known = connection.execute("SELECT id, merged FROM origin").fetchall()
                refuse_known_origins(record.origins, dict(known))
                connection.execute(
                    "INSERT INTO origin (id, own, merged) SELECT id, false, %s FROM unnest(%s::bytea[]) id",
                    (now, list(record.origins)),
                )
            elif isinstance(record, TaskState):
                number = _task_number(connection, record)
            elif isinstance(record, Counts):
                _add_counts(connection, number, record)
            else:
                cursor = connection.execute(
                    "INSERT INTO batch (task, id, epoch) SELECT %s, id, %s FROM unnest(%s::bytea[]) AS id"
                    " ON CONFLICT DO NOTHING",
                    (number, record.epoch, record.ids),
                )
                refuse_known_batches(len(record.ids) - cursor.rowcount)


def _task_number(connection: Connection, record: TaskState) -> int:
    key = bytes.fromhex(record.task.id)
    connection.execute(
        "INSERT INTO task (id, definition, closed) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
        (key, record.task.to_bytes(), record.closed),
    )
    row: Any = connection.execute(
        "UPDATE task SET open_from = greatest(open_from, %s) WHERE id = %s RETURNING number",
        (record.open_from, key),
    ).fetchone()
    return int(row[0])


def _add_counts(connection: Connection, number: int, record: Counts) -> None:
    codes = np.flatnonzero(record.counts)
    connection.execute(
        "INSERT INTO counts AS c (task, epoch, shard, code, reports)"
        " SELECT %s, %s, 0, code, reports FROM unnest(%s::integer[], %s::bigint[]) AS new (code, reports)"
        " ON CONFLICT (task, epoch, shard, code) DO UPDATE SET reports = c.reports + excluded.reports",
        (number, record.epoch, codes.tolist(), record.counts[codes].tolist()),
    )
    connection.execute(
        "INSERT INTO total AS t (task, shard, reports) VALUES (%s, 0, %s)"
        " ON CONFLICT (task, shard) DO UPDATE SET reports = t.reports + excluded.reports",
        (number, int(record.counts.sum())),
    )
