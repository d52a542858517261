"""Maintenance of a PostgreSQL store: folding, pruning, its size, vacuuming and checks."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from psycopg.errors import InsufficientPrivilege

from arcwise.server.store.postgres.locks import lock_folding, lock_sources
from arcwise.server.store.problems import MOST_REPORTS
from arcwise.server.store.sql import checked_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.server.store.postgres.database import Connection
    from arcwise.tasks import Task
    from arcwise.typing import IntArray


def grow(connection: Connection) -> None:
    """Let a table grow by a page on the disk, and shrink again; this raises an error if the disk is full.

    The table belongs to this connection. A role that may not create temporary tables raises no error.
    """
    with suppress(InsufficientPrivilege), connection.transaction():
        connection.execute(
            "CREATE TEMPORARY TABLE IF NOT EXISTS tried (number integer) ON COMMIT DELETE ROWS"
        )
        connection.execute("INSERT INTO tried VALUES (0)")


def fold(connection: Connection, task: int | None = None) -> None:
    """Add the shards of ended processes to shard 0, for one task (its number) or all tasks.

    A process holds a lock under its shard's number while it is connected. If a process is only disconnected
    for a moment, nothing is lost: when it is back, it adds to new rows of its shard.
    """
    with connection.transaction():
        lock_folding(connection)
        shards = connection.execute("SELECT DISTINCT shard FROM total WHERE shard > 0").fetchall()
        dead = [
            shard
            for (shard,) in shards
            if connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (shard,)).fetchone() == (True,)
        ]
        if dead:
            connection.execute(_FOLD_COUNTS, {"dead": dead, "task": task})
            connection.execute(_FOLD_TOTAL, {"dead": dead, "task": task})


def forget_ids(connection: Connection, task: int, before: int) -> int:
    """Delete the batch ids of a task's closed epochs; return the number of deleted ids.

    No source may change meanwhile: replacing a source deletes ids in another order, which would deadlock.
    """
    with connection.transaction():
        lock_sources(connection, patient=True)
        return connection.execute("DELETE FROM batch WHERE task = %s AND epoch < %s", (task, before)).rowcount


_FOLD_COUNTS = """
    WITH gone AS (
        DELETE FROM counts WHERE shard = ANY (%(dead)s) AND (%(task)s::integer IS NULL OR task = %(task)s)
        RETURNING task, epoch, code, reports
    )
    INSERT INTO counts AS c (task, epoch, shard, code, reports)
    SELECT task, epoch, 0, code, sum(reports)::bigint FROM gone GROUP BY task, epoch, code
    ON CONFLICT (task, epoch, shard, code) DO UPDATE SET reports = c.reports + excluded.reports
"""
_FOLD_TOTAL = """
    WITH gone AS (
        DELETE FROM total WHERE shard = ANY (%(dead)s) AND (%(task)s::integer IS NULL OR task = %(task)s)
        RETURNING task, reports
    )
    INSERT INTO total AS t (task, shard, reports)
    SELECT task, 0, sum(reports)::bigint FROM gone GROUP BY task
    ON CONFLICT (task, shard) DO UPDATE SET reports = t.reports + excluded.reports
"""


_TABLES = (
    b"task, batch, counts, total, api_key, origin, state, source, staged, archive_file, session, action,"
    b" remembered, decided, released"
)


def size(connection: Connection) -> int:
    """Return the bytes of the tables and their indexes."""
    row = connection.execute(
        b"SELECT sum(pg_total_relation_size(name::regclass))::bigint FROM unnest('{%b}'::text[]) AS name"
        % _TABLES
    ).fetchone()
    return int(row[0]) if row else 0


def vacuum(connection: Connection) -> None:
    """Fold the shards of ended processes, and let PostgreSQL reuse the space of deleted rows."""
    fold(connection)
    connection.execute(b"VACUUM (ANALYZE) " + _TABLES)


def check(connection: Connection) -> list[str]:
    """Return the problems of the store; see `Store.check`."""
    problems: list[str] = []
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")  # all of one moment
        for table in (b"batch", b"counts", b"total"):
            query = b"SELECT DISTINCT task FROM %s WHERE task NOT IN (SELECT number FROM task)" % table
            problems += [
                f"table {table.decode()} names task {number}, which does not exist"
                for (number,) in connection.execute(query).fetchall()
            ]
        problems += [
            f"table {table} names source {number}, which does not exist"
            for table, number in connection.execute(_STRANGE_SOURCES).fetchall()
        ]
        return problems + checked_tasks(connection, partial(_counts, connection))


_STRANGE_SOURCES = """
    SELECT DISTINCT 'batch', source FROM batch
    WHERE source IS NOT NULL AND source NOT IN (SELECT number FROM source)
    UNION SELECT DISTINCT 'counts', -shard FROM counts
    WHERE shard < 0 AND -shard NOT IN (SELECT number FROM source)
    UNION SELECT DISTINCT 'total', -shard FROM total
    WHERE shard < 0 AND -shard NOT IN (SELECT number FROM source)
"""


def _counts(
    connection: Connection, number: int, task: Task, problems: list[str]
) -> Iterator[tuple[int, IntArray]]:
    """Yield the epochs of a task with their counts; add the problems of its rows to `problems`."""
    codes = task.mechanism.kernel.codes
    strange = connection.execute(
        "SELECT DISTINCT code FROM counts WHERE task = %s AND (code < 0 OR code >= %s)", (number, codes)
    ).fetchall()
    problems += [f"task {task.id}: counts of code {code}, which the task lacks" for (code,) in strange]
    # Row by row, because errors in several shards could hide one another.
    strange = connection.execute(
        "SELECT DISTINCT epoch FROM counts WHERE task = %s AND reports NOT BETWEEN 0 AND %s ORDER BY epoch",
        (number, MOST_REPORTS),
    ).fetchall()
    problems += [
        f"task {task.id}, epoch {epoch}: negative counts in a shard, or counts above 2^53"
        for (epoch,) in strange
    ]
    rows = connection.execute(
        "SELECT epoch, array_agg(code), array_agg(reports) FROM counts"
        " WHERE task = %s AND code >= 0 AND code < %s GROUP BY epoch",
        (number, codes),
    ).fetchall()
    for epoch, names, reports in rows:
        counts = np.zeros(codes, np.int64)
        np.add.at(counts, names, reports)
        yield epoch, counts
