"""Replaces and drops the sources of a PostgreSQL store. The counts of source n are in shard -n."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from psycopg.errors import DeadlockDetected

from arcwise.server.store.postgres.locks import keep_open, let_others_pass, lock_sources
from arcwise.server.store.sources import SqlSource, TaskRow, checked_ids, refuse_twice

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from arcwise.server.store.postgres.database import Connection
    from arcwise.server.store.records import SourceReport
    from arcwise.server.store.sources import Cell, Plan
    from arcwise.typing import IntArray

_Result = TypeVar("_Result")


class _Closed(Exception):  # noqa: N818 (undoes a change)
    """A task or an epoch was closed in the meantime."""


_INCOMING = """
    CREATE TEMPORARY TABLE incoming (task bytea, epoch bigint, id bytea) ON COMMIT DROP;
    CREATE TEMPORARY TABLE replaced (task integer, key bytea, epoch bigint) ON COMMIT DROP;
"""
_TWICE = "SELECT count(*) - count(DISTINCT (task, id)) FROM incoming"
_BATCHES = """
    SELECT t.id, b.epoch, count(*) FROM batch b JOIN task t ON t.number = b.task
    JOIN unnest(%(keys)s::bytea[], %(epochs)s::bigint[]) AS g (id, epoch) ON g.id = t.id AND g.epoch = b.epoch
    WHERE b.source = %(source)s GROUP BY 1, 2
"""
_TOTALS = """
    INSERT INTO total AS t (task, shard, reports)
    SELECT task, %(shard)s, added FROM unnest(%(tasks)s::integer[], %(added)s::bigint[]) AS g (task, added)
    ON CONFLICT (task, shard) DO UPDATE SET reports = t.reports + excluded.reports
"""


class _Source(SqlSource):
    where = "c.shard = :place AND c.shard < 0"
    # Stored ids stay: when a lake has grown, only the new ids are written, in the same order in which every
    # process inserts ids.
    forget = """
        DELETE FROM batch b USING replaced r
        WHERE b.source = :source AND b.task = r.task AND b.epoch = r.epoch AND NOT EXISTS (
            SELECT FROM incoming i WHERE i.task = r.key AND i.id = b.id AND i.epoch = b.epoch)
    """
    insert = """
        INSERT INTO batch (task, id, epoch, source)
        SELECT r.task, i.id, i.epoch, :source
        FROM incoming i JOIN replaced r ON r.key = i.task AND r.epoch = i.epoch
        WHERE NOT EXISTS (SELECT FROM batch b WHERE b.task = r.task AND b.id = i.id)
        ORDER BY r.task, i.id
        ON CONFLICT DO NOTHING
    """
    connection: Connection

    def __init__(self, connection: Connection, name: str, *, make: bool = False) -> None:
        super().__init__(connection, name, make=make)
        self.place = -self.source

    def batches(self, cells: Collection[Cell]) -> dict[Cell, int]:
        keys, epochs = [key for key, _ in cells], [epoch for _, epoch in cells]
        rows = self.connection.execute(_BATCHES, {"keys": keys, "epochs": epochs, "source": self.source})
        return {(key, epoch): batches for key, epoch, batches in rows.fetchall()}

    def held(self, counts: Mapping[Cell, IntArray]) -> dict[Cell, IntArray]:
        held = {}
        rows = self.connection.execute(
            "SELECT t.id, c.epoch, array_agg(c.code), array_agg(c.reports) FROM counts c"
            " JOIN task t ON t.number = c.task"
            " JOIN unnest(%s::bytea[], %s::bigint[]) AS g (id, epoch) ON g.id = t.id AND g.epoch = c.epoch"
            " WHERE c.shard = %s AND c.shard < 0 GROUP BY t.id, c.epoch",
            ([key for key, _ in counts], [epoch for _, epoch in counts], self.place),
        )
        for key, epoch, codes, reports in rows:
            row = held[key, epoch] = np.zeros(len(counts[key, epoch]), np.int64)
            row[codes] = reports
        return held

    def replace_counts(self, plan: Plan, numbers: Mapping[bytes, int]) -> None:
        self.connection.execute(
            "DELETE FROM counts c USING unnest(%s::integer[], %s::bigint[]) AS g (task, epoch)"
            " WHERE c.shard = %s AND c.shard < 0 AND c.task = g.task AND c.epoch = g.epoch",
            ([numbers[key] for key, _ in plan.changed], [epoch for _, epoch in plan.changed], self.place),
        )
        for (key, epoch), counts in plan.changed.items():
            codes = np.flatnonzero(counts)
            self.connection.execute(
                "INSERT INTO counts (task, epoch, shard, code, reports) SELECT %s, %s, %s, code, reports"
                " FROM unnest(%s::integer[], %s::bigint[]) AS new (code, reports)",
                (numbers[key], epoch, self.place, codes.tolist(), counts[codes].tolist()),
            )
        tasks, added = [numbers[key] for key in plan.added], list(plan.added.values())
        self.connection.execute(_TOTALS, {"shard": self.place, "tasks": tasks, "added": added})

    def analyze(self) -> None:
        self.connection.execute("ANALYZE replaced")


def replace(
    connection: Connection,
    name: str,
    counts: Mapping[Cell, IntArray],
    batch_ids: Iterable[tuple[bytes, int, bytes]],
    now: int,
) -> SourceReport:
    """Replace the counts of a source by checked counts; see `Store.replace_source`."""
    with connection.transaction():
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        ids = _bring(connection, batch_ids)  # this comes before taking locks, because it may take long
        lock_sources(connection, patient=True)
        source = _Source(connection, name, make=True)
        plan = _while_open(
            connection, {key for key, _ in counts}, lambda tasks: source.replace(counts, ids, tasks)
        )
        source.end_replacing(now)
    return plan.report


def _while_open(
    connection: Connection, used: Collection[bytes], change: Callable[[Sequence[TaskRow]], _Result]
) -> _Result:
    """Make a change that relies on the state of tasks (ids `used`), without delaying their closing.

    If a task was closed meanwhile, the change is made again, and further closings wait for it. The same
    happens if the change blocked reports with the same batch ids, which reports insert in another order.
    """
    before = _tasks(connection, used)
    try:
        with connection.transaction():
            result = change(before)
            keep_open(connection)
            if _tasks(connection, used) == before:
                return result
            raise _Closed
    except DeadlockDetected:
        let_others_pass()
    except _Closed:
        pass
    keep_open(connection)
    return change(_tasks(connection, used))


def _tasks(connection: Connection, used: Collection[bytes]) -> list[TaskRow]:
    rows = connection.execute(
        "SELECT number, id, open_from, closed FROM task WHERE id = ANY (%s) ORDER BY number", (list(used),)
    )
    return [TaskRow(*row) for row in rows.fetchall()]


def _bring(connection: Connection, batch_ids: Iterable[tuple[bytes, int, bytes]]) -> dict[Cell, int]:
    """Put the ids into a temporary table; return the number of ids of each epoch."""
    connection.execute(_INCOMING)
    with connection.cursor() as cursor, cursor.copy("COPY incoming FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["bytea", "int8", "bytea"])
        for chunk in checked_ids(batch_ids):
            for row in chunk:
                copy.write_row(row)
    connection.execute("ANALYZE incoming")
    ((twice,),) = connection.execute(_TWICE).fetchall()
    refuse_twice(twice)
    rows = connection.execute("SELECT task, epoch, count(*) FROM incoming GROUP BY 1, 2").fetchall()
    return {(key, epoch): batches for key, epoch, batches in rows}


def drop(connection: Connection, name: str, *, closed_too: bool) -> int:
    """Delete a source; see `Store.drop_source`."""
    with connection.transaction():
        lock_sources(connection)
        source = _Source(connection, name)
        used = connection.execute(
            "SELECT DISTINCT t.id FROM counts c JOIN task t ON t.number = c.task"
            " WHERE c.shard = %s AND c.shard < 0",
            (source.place,),
        ).fetchall()
        keys = [key for (key,) in used]
        reports = _while_open(connection, keys, lambda _: source.drop_data(closed_too=closed_too))
        source.end_dropping()
    return reports
