"""Sources of a PostgreSQL store: replaced, listed, dropped. The counts of source n lie in shard -n."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from psycopg.errors import DeadlockDetected

from arcwise.server.store.merging import refuse_more_than_most
from arcwise.server.store.postgres.locks import keep_open, let_others_pass, lock_sources
from arcwise.server.store.releases import refuse_to_drop_released
from arcwise.server.store.sources import (
    checked_ids,
    known_batches,
    left_epochs,
    plan_changes,
    refuse_ids_without_counts,
    refuse_to_drop_closed,
    refuse_twice,
    unknown_source,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from arcwise.server.store.postgres.database import Connection
    from arcwise.server.store.records import SourceReport
    from arcwise.server.store.sources import Cell, Plan
    from arcwise.typing import IntArray

_Result = TypeVar("_Result")


class _Closed(Exception):  # noqa: N818 (takes back a change)
    """A task or an epoch was closed meanwhile."""


class _Task(NamedTuple):
    """Its number and id, its first open epoch, and when it was closed."""

    number: int
    id: bytes
    open_from: int
    closed: int | None


_INCOMING = """
    CREATE TEMPORARY TABLE incoming (task bytea, epoch bigint, id bytea) ON COMMIT DROP;
    CREATE TEMPORARY TABLE replaced (task integer, key bytea, epoch bigint) ON COMMIT DROP;
"""
_TWICE = "SELECT count(*) - count(DISTINCT (task, id)) FROM incoming"
# Of the epochs that are replaced. What is there already stays: of a lake that has grown, only the new ids are
# written, in the order in which everybody inserts ids.
_FORGET = """
    DELETE FROM batch b USING replaced r
    WHERE b.source = %(source)s AND b.task = r.task AND b.epoch = r.epoch AND NOT EXISTS (
        SELECT FROM incoming i WHERE i.task = r.key AND i.id = b.id AND i.epoch = b.epoch)
"""
_INSERT = """
    INSERT INTO batch (task, id, epoch, source)
    SELECT r.task, i.id, i.epoch, %(source)s
    FROM incoming i JOIN replaced r ON r.key = i.task AND r.epoch = i.epoch
    WHERE NOT EXISTS (SELECT FROM batch b WHERE b.task = r.task AND b.id = i.id)
    ORDER BY r.task, i.id
    ON CONFLICT DO NOTHING
"""
_KNOWN = """
    SELECT (SELECT name FROM source WHERE number = b.source), i.task, i.epoch, count(*)
    FROM incoming i JOIN replaced r ON r.key = i.task AND r.epoch = i.epoch
    JOIN batch b ON b.task = r.task AND b.id = i.id
    WHERE b.source IS DISTINCT FROM %(source)s OR b.epoch <> i.epoch
    GROUP BY 1, 2, 3
"""
_MOVED = """
    SELECT i.task, i.epoch, b.epoch, count(*)
    FROM incoming i JOIN task t ON t.id = i.task JOIN batch b ON b.task = t.number AND b.id = i.id
    WHERE b.source = %(source)s AND b.epoch <> i.epoch
    GROUP BY 1, 2, 3
"""
_BATCHES = """
    SELECT t.id, b.epoch, count(*) FROM batch b JOIN task t ON t.number = b.task
    JOIN unnest(%(keys)s::bytea[], %(epochs)s::bigint[]) AS g (id, epoch) ON g.id = t.id AND g.epoch = b.epoch
    WHERE b.source = %(source)s GROUP BY 1, 2
"""
_CLOSED = """
    SELECT count(DISTINCT (c.task, c.epoch)) FROM counts c JOIN task t ON t.number = c.task
    WHERE c.shard = %(shard)s AND c.shard < 0 AND (t.closed IS NOT NULL OR c.epoch < t.open_from)
"""
_RELEASED = """
    SELECT count(DISTINCT (task, epoch)) FROM counts JOIN released USING (task, epoch)
    WHERE shard = %(shard)s AND shard < 0
"""
_TOTALS = """
    INSERT INTO total AS t (task, shard, reports)
    SELECT task, %(shard)s, added FROM unnest(%(tasks)s::integer[], %(added)s::bigint[]) AS g (task, added)
    ON CONFLICT (task, shard) DO UPDATE SET reports = t.reports + excluded.reports
"""


def replace(
    connection: Connection,
    name: str,
    counts: Mapping[Cell, IntArray],
    batch_ids: Iterable[tuple[bytes, int, bytes]],
    now: int,
) -> SourceReport:
    """Take over checked counts; see `Store.replace_source`."""
    with connection.transaction():
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        ids = _bring(connection, batch_ids)  # before anybody waits: it may take long
        lock_sources(connection, patient=True)
        number = _number(connection, name)
        used = {key for key, _ in counts}

        def change(tasks: Sequence[_Task]) -> Plan:
            states = {task.id: (task.open_from, task.closed) for task in tasks}
            cells = {**counts, **_left(connection, number, counts, states)}
            plan = plan_changes(name, cells, _held(connection, number, cells), states)
            refuse_ids_without_counts(plan, cells, ids)
            numbers = {task.id: task.number for task in tasks}
            _replace_counts(connection, number, plan, numbers)
            _replace_ids(connection, number, name, plan, numbers)  # last: senders of these ids wait from here
            return plan

        plan = _while_open(connection, used, change)
        connection.execute("UPDATE source SET replaced = %s WHERE number = %s", (now, number))
        connection.execute("UPDATE state SET replaced = replaced + 1")
    return plan.report


def _while_open(
    connection: Connection, used: Collection[bytes], change: Callable[[Sequence[_Task]], _Result]
) -> _Result:
    """Make a change that uses tasks (their ids) as they are; whoever closes one of them need not wait for it.

    It is made again when somebody did, and the next is kept waiting; or when it was in the way of reports
    with the ids that it forgets and brings, which insert them in another order.
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


def _tasks(connection: Connection, used: Collection[bytes]) -> list[_Task]:
    rows = connection.execute(
        "SELECT number, id, open_from, closed FROM task WHERE id = ANY (%s) ORDER BY number", (list(used),)
    )
    return [_Task(*row) for row in rows.fetchall()]


def _bring(connection: Connection, batch_ids: Iterable[tuple[bytes, int, bytes]]) -> dict[Cell, int]:
    """Put the ids into a temporary table; return how many each epoch has."""
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


def _number(connection: Connection, name: str) -> int:
    connection.execute(
        "INSERT INTO source (name, replaced) SELECT %s, 0"
        " WHERE NOT EXISTS (SELECT FROM source WHERE name = %s)",
        (name, name),
    )
    ((number,),) = connection.execute("SELECT number FROM source WHERE name = %s", (name,)).fetchall()
    return int(number)


def _left(
    connection: Connection,
    number: int,
    counts: Mapping[Cell, IntArray],
    states: Mapping[bytes, tuple[int, int | None]],
) -> dict[Cell, IntArray]:
    moved = connection.execute(_MOVED, {"source": number}).fetchall()
    cells = list({(key, before) for key, _, before, _ in moved})
    rows = connection.execute(
        _BATCHES,
        {"keys": [key for key, _ in cells], "epochs": [before for _, before in cells], "source": number},
    ).fetchall()
    return left_epochs(moved, {(key, epoch): batches for key, epoch, batches in rows}, counts, states)


def _held(connection: Connection, number: int, counts: Mapping[Cell, IntArray]) -> dict[Cell, IntArray]:
    held = {}
    rows = connection.execute(
        "SELECT t.id, c.epoch, array_agg(c.code), array_agg(c.reports) FROM counts c"
        " JOIN task t ON t.number = c.task"
        " JOIN unnest(%s::bytea[], %s::bigint[]) AS g (id, epoch) ON g.id = t.id AND g.epoch = c.epoch"
        " WHERE c.shard = %s AND c.shard < 0 GROUP BY t.id, c.epoch",
        ([key for key, _ in counts], [epoch for _, epoch in counts], -number),
    )
    for key, epoch, codes, reports in rows:
        row = held[key, epoch] = np.zeros(len(counts[key, epoch]), np.int64)
        row[codes] = reports
    return held


def _replace_counts(connection: Connection, number: int, plan: Plan, numbers: Mapping[bytes, int]) -> None:
    connection.execute(
        "DELETE FROM counts c USING unnest(%s::integer[], %s::bigint[]) AS g (task, epoch)"
        " WHERE c.shard = %s AND c.shard < 0 AND c.task = g.task AND c.epoch = g.epoch",
        ([numbers[key] for key, _ in plan.changed], [epoch for _, epoch in plan.changed], -number),
    )
    for (key, epoch), counts in plan.changed.items():
        codes = np.flatnonzero(counts)
        connection.execute(
            "INSERT INTO counts (task, epoch, shard, code, reports) SELECT %s, %s, %s, code, reports"
            " FROM unnest(%s::integer[], %s::bigint[]) AS new (code, reports)",
            (numbers[key], epoch, -number, codes.tolist(), counts[codes].tolist()),
        )
    connection.execute(
        _TOTALS,
        {
            "shard": -number,
            "tasks": [numbers[key] for key in plan.added],
            "added": list(plan.added.values()),
        },
    )
    for key in plan.added:
        ((total,),) = connection.execute(
            "SELECT sum(reports)::bigint FROM total WHERE task = %s", (numbers[key],)
        ).fetchall()
        refuse_more_than_most(key.hex(), total)


def _replace_ids(
    connection: Connection, number: int, name: str, plan: Plan, numbers: Mapping[bytes, int]
) -> None:
    cells = list(plan.open)
    connection.execute(
        "INSERT INTO replaced SELECT * FROM unnest(%s::integer[], %s::bytea[], %s::bigint[])",
        ([numbers[key] for key, _ in cells], [key for key, _ in cells], [epoch for _, epoch in cells]),
    )
    connection.execute("ANALYZE replaced")
    connection.execute(_FORGET, {"source": number})
    connection.execute(_INSERT, {"source": number})
    if rows := connection.execute(_KNOWN, {"source": number}).fetchall():
        raise known_batches(rows, name)


def drop(connection: Connection, name: str, *, closed_too: bool) -> int:
    """Forget a source; see `Store.drop_source`."""
    with connection.transaction():
        lock_sources(connection)
        row = connection.execute("SELECT number FROM source WHERE name = %s", (name,)).fetchone()
        if row is None:
            raise unknown_source(name)
        source = {"source": row[0], "shard": -row[0]}
        used = connection.execute(
            "SELECT DISTINCT t.id FROM counts c JOIN task t ON t.number = c.task"
            " WHERE c.shard = %(shard)s AND c.shard < 0",
            source,
        ).fetchall()

        def forget(_tasks: object) -> int:
            ((closed,),) = connection.execute(_CLOSED, source).fetchall()
            ((released,),) = connection.execute(_RELEASED, source).fetchall()
            refuse_to_drop_closed(name, 0 if closed_too else closed)
            refuse_to_drop_released(name, released)
            ((reports,),) = connection.execute(
                "SELECT coalesce(sum(reports), 0)::bigint FROM total WHERE shard = %(shard)s", source
            ).fetchall()
            connection.execute("DELETE FROM counts WHERE shard = %(shard)s AND shard < 0", source)
            connection.execute("DELETE FROM total WHERE shard = %(shard)s", source)
            connection.execute("DELETE FROM batch WHERE source = %(source)s", source)
            return int(reports)

        reports = _while_open(connection, [key for (key,) in used], forget)
        connection.execute("DELETE FROM source WHERE number = %(source)s", source)
        connection.execute("UPDATE state SET replaced = replaced + 1")
    return reports
