"""Export from a PostgreSQL store, and merging records into one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from arcwise.server.store import releases
from arcwise.server.store.epochs import last_open_from
from arcwise.server.store.export import Counts, Header, TaskState
from arcwise.server.store.incoming import checked_incoming, taken_clock
from arcwise.server.store.postgres.locks import alone, lock_folding, lock_sources
from arcwise.server.store.problems import (
    MOST_MERGED,
    refuse_known_batches,
    refuse_known_origins,
    refuse_more_than_most,
)
from arcwise.server.store.sources import refuse_known_sources
from arcwise.server.store.sql import exported

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from arcwise.server.store.export import Record
    from arcwise.server.store.postgres.database import Connection
    from arcwise.tasks import Task

_CHUNK = 4096


def export(connection: Connection, *, ids: bool) -> Generator[Record, None, None]:
    """Yield tasks and counts, all of one moment; see `Store.export`."""

    def counts(number: int, task: Task) -> Iterator[Counts]:
        rows = connection.execute(
            "SELECT epoch, name, array_agg(code), array_agg(reports)"
            " FROM counts LEFT JOIN source ON number = -shard AND shard < 0 WHERE task = %s"
            " GROUP BY epoch, number ORDER BY epoch, number NULLS FIRST",
            (number,),
        )
        for epoch, source, codes, reports in rows:
            per_code = np.zeros(task.mechanism.kernel.codes, np.int64)
            np.add.at(per_code, codes, reports)  # a code has a row per shard
            yield Counts(epoch, per_code, source)

    def id_chunks(number: int) -> Iterator[list[tuple[int, str, bytes]]]:
        with connection.cursor("ids") as cursor:  # on the server: there may be hundreds of millions of ids
            cursor.execute(
                "SELECT epoch, coalesce(name, ''), id FROM batch LEFT JOIN source ON number = source"
                " WHERE task = %s",
                (number,),
            )
            yield from iter(partial(cursor.fetchmany, _CHUNK), [])

    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # the reader sets the pace
        yield from exported(connection, counts, id_chunks if ids else None)


def merge(connection: Connection, records: Iterable[Record], now: int) -> int:
    """Add records to shard 0 or to the shards of sources, all or nothing; see `Store.merge`.

    First everything is put into temporary tables of this transaction, while workers go on. The workers wait
    only for the statements at the end, and answer "later" if these take too long.
    """
    origins: list[bytes] = []
    sources: list[tuple[str, int]] = []
    clock: int | None = None
    states: list[TaskState] = []
    ids = 0
    with connection.transaction():
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        connection.execute(_INCOMING)
        for record in checked_incoming(records, now):
            if isinstance(record, Header):
                origins += record.origins
                sources += record.sources
                clock = record.clock
                _refuse_known(connection, origins, sources)  # fail early, as the rest may take an hour
            elif isinstance(record, TaskState):
                states.append(record)
                _bring_task(connection, len(states), record, now)
            elif isinstance(record, Counts):
                _bring_counts(connection, len(states), record)
            else:
                ids += len(record.ids)
                connection.execute(
                    "INSERT INTO incoming_batch SELECT %s, id, %s, %s FROM unnest(%s::bytea[]) AS id",
                    (len(states), record.epoch, record.source, record.ids),
                )
        connection.execute("ANALYZE incoming_task, incoming_batch, incoming_counts")
        # From here on nobody merges, folds or adds. The locks are taken in this order so that no report waits
        # for a fold.
        lock_sources(connection, patient=True)
        lock_folding(connection)
        alone(connection)
        _refuse_known(connection, origins, sources)
        connection.execute(
            "INSERT INTO origin (id, own, merged) SELECT id, false, %s FROM unnest(%s::bytea[]) id",
            (now, origins),
        )
        for name, replaced in sources:
            connection.execute("INSERT INTO source (name, replaced) VALUES (%s, %s)", (name, replaced))
        if any(state.decided for state in states):
            connection.execute("UPDATE state SET clock = coalesce(clock, %s)", (taken_clock(clock, now),))
        connection.execute(_TASKS)
        left_out, without_ids = _bring_releases(connection, states)
        connection.execute(_COUNTS)
        for key, total in connection.execute(_LARGEST, (MOST_MERGED,)).fetchall():
            refuse_more_than_most(key.hex(), int(total))
        refuse_known_batches(ids - without_ids - connection.execute(_BATCHES).rowcount)
    return left_out


_INCOMING = """
    CREATE TEMPORARY TABLE incoming_task
        (place integer, id bytea, definition bytea, closed bigint, open_from bigint, known_from bigint)
        ON COMMIT DROP;
    CREATE TEMPORARY TABLE incoming_batch
        (place integer, id bytea, epoch bigint, source text) ON COMMIT DROP;
    CREATE TEMPORARY TABLE incoming_counts
        (place integer, epoch bigint, source text, code integer, reports bigint) ON COMMIT DROP;
"""
_TASKS = """
    INSERT INTO task (id, definition, closed, open_from)
    SELECT id, definition, closed, open_from FROM incoming_task ORDER BY place
    ON CONFLICT DO NOTHING;
    UPDATE task t SET open_from = i.known_from FROM incoming_task i
    WHERE i.id = t.id AND i.known_from > t.open_from;
"""
_COUNTS = """
    INSERT INTO counts AS c (task, epoch, shard, code, reports)
    SELECT t.number, n.epoch, coalesce(-s.number, 0) AS shard, n.code, sum(n.reports)::bigint
    FROM incoming_counts n JOIN incoming_task i ON i.place = n.place JOIN task t ON t.id = i.id
    LEFT JOIN source s ON s.name = n.source
    GROUP BY t.number, n.epoch, s.number, n.code
    ON CONFLICT (task, epoch, shard, code) DO UPDATE SET reports = c.reports + excluded.reports;
    INSERT INTO total AS o (task, shard, reports)
    SELECT t.number, coalesce(-s.number, 0), sum(n.reports)::bigint
    FROM incoming_counts n JOIN incoming_task i ON i.place = n.place JOIN task t ON t.id = i.id
    LEFT JOIN source s ON s.name = n.source
    GROUP BY t.number, s.number
    ON CONFLICT (task, shard) DO UPDATE SET reports = o.reports + excluded.reports;
"""
_LARGEST = """
    SELECT t.id, sum(o.reports) FROM total o JOIN task t ON t.number = o.task
    GROUP BY t.id HAVING sum(o.reports) > %s
"""
_FROZEN_COUNTS = """
    WITH gone AS (DELETE FROM incoming_counts WHERE place = %s AND epoch = ANY (%s) RETURNING reports)
    SELECT coalesce(sum(reports), 0)::bigint FROM gone
"""
_BATCHES = """
    INSERT INTO batch (task, id, epoch, source)
    SELECT t.number, b.id, b.epoch, s.number
    FROM incoming_batch b JOIN incoming_task i ON i.place = b.place JOIN task t ON t.id = i.id
    LEFT JOIN source s ON s.name = b.source
    ORDER BY t.number, b.id
    ON CONFLICT DO NOTHING
"""


def _bring_releases(connection: Connection, states: Iterable[TaskState]) -> tuple[int, int]:
    """Take over releases; return the numbers of reports and batch ids of epochs released in this store."""
    left_out = without_ids = 0
    for place, record in enumerate(states, start=1):
        ((number,),) = connection.execute(
            "SELECT number FROM task WHERE id = %s", (bytes.fromhex(record.task.id),)
        ).fetchall()
        if frozen := list(releases.bring(connection, number, record)):
            ((reports,),) = connection.execute(_FROZEN_COUNTS, (place, frozen)).fetchall()
            left_out += reports
            without_ids += connection.execute(
                "DELETE FROM incoming_batch WHERE place = %s AND epoch = ANY (%s)", (place, frozen)
            ).rowcount
    return left_out, without_ids


def _refuse_known(
    connection: Connection, origins: Iterable[bytes], sources: Iterable[tuple[str, int]]
) -> None:
    names = [name for (name,) in connection.execute("SELECT name FROM source").fetchall()]
    refuse_known_sources((name for name, _ in sources), names)
    refuse_known_origins(origins, dict(connection.execute("SELECT id, merged FROM origin").fetchall()))


def _bring_task(connection: Connection, place: int, record: TaskState, now: int) -> None:
    task, open_from = record.task, record.open_from
    known_from = min(open_from, last_open_from(task, now))  # if this store has the task, perhaps open
    connection.execute(
        "INSERT INTO incoming_task VALUES (%s, %s, %s, %s, %s, %s)",
        (place, bytes.fromhex(task.id), task.to_bytes(), record.closed, open_from, known_from),
    )


def _bring_counts(connection: Connection, place: int, record: Counts) -> None:
    codes = np.flatnonzero(record.counts)
    connection.execute(
        "INSERT INTO incoming_counts SELECT %s, %s, %s, code, reports"
        " FROM unnest(%s::integer[], %s::bigint[]) AS new (code, reports)",
        (place, record.epoch, record.source, codes.tolist(), record.counts[codes].tolist()),
    )
