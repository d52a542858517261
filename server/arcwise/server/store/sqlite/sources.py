"""Sources of a SQLite file: replaced, listed, dropped."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from arcwise.server.store.merging import refuse_more_than_most
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
from arcwise.server.store.sqlite.rows import pack, spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from arcwise.server.store.records import SourceReport
    from arcwise.server.store.sources import Cell, Plan
    from arcwise.server.store.sqlite.database import Connection, Database
    from arcwise.typing import IntArray

_INCOMING = (
    "CREATE TEMPORARY TABLE incoming (task BLOB NOT NULL, id BLOB NOT NULL, epoch INTEGER NOT NULL,"
    " PRIMARY KEY (task, id)) WITHOUT ROWID",
    "CREATE TEMPORARY TABLE replaced (task INTEGER NOT NULL, key BLOB NOT NULL, epoch INTEGER NOT NULL,"
    " PRIMARY KEY (key, epoch), UNIQUE (task, epoch))",
)
# Of the epochs that are replaced. What is there already stays: of a lake that has grown, only the new ids are
# written. SQLite takes the tables of a CROSS JOIN in their order: another one would be quadratic.
_FORGET = """
    DELETE FROM batch WHERE source = :source AND EXISTS (
        SELECT 1 FROM replaced r WHERE r.task = batch.task AND r.epoch = batch.epoch AND NOT EXISTS (
            SELECT 1 FROM incoming i WHERE i.task = r.key AND i.id = batch.id AND i.epoch = batch.epoch))
"""
_INSERT = """
    INSERT OR IGNORE INTO batch (task, id, epoch, source)
    SELECT r.task, i.id, i.epoch, :source
    FROM incoming i CROSS JOIN replaced r ON r.key = i.task AND r.epoch = i.epoch
"""
_KNOWN = """
    SELECT (SELECT name FROM source WHERE number = b.source), i.task, i.epoch, count(*)
    FROM incoming i CROSS JOIN replaced r ON r.key = i.task AND r.epoch = i.epoch
    CROSS JOIN batch b ON b.task = r.task AND b.id = i.id
    WHERE b.source IS NOT :source OR b.epoch <> i.epoch
    GROUP BY 1, 2, 3
"""
_MOVED = """
    SELECT i.task, i.epoch, b.epoch, count(*)
    FROM incoming i CROSS JOIN task t ON t.id = i.task CROSS JOIN batch b ON b.task = t.number AND b.id = i.id
    WHERE b.source = :source AND b.epoch <> i.epoch
    GROUP BY 1, 2, 3
"""


def replace(
    database: Database,
    name: str,
    counts: Mapping[Cell, IntArray],
    batch_ids: Iterable[tuple[bytes, int, bytes]],
    now: int,
) -> SourceReport:
    """Take over checked counts; see `Store.replace_source`.

    On a connection of its own, whose temporary tables take the ids while servers go on.
    """
    with database.errors("write to"), closing(database.connect()) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        ids = _bring(connection, batch_ids)
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            number = _number(connection, name)
            tasks = connection.execute("SELECT number, id, open_from, closed FROM task").fetchall()
            states = {key: (open_from, closed) for _, key, open_from, closed in tasks}
            counts = {**counts, **_left(connection, number, counts, states)}
            plan = plan_changes(name, counts, _held(connection, number, counts), states)
            refuse_ids_without_counts(plan, counts, ids)
            numbers = {key: task for task, key, *_ in tasks}
            _replace_ids(connection, number, name, plan, numbers)
            _replace_counts(connection, number, plan, numbers)
            connection.execute("UPDATE source SET replaced = ? WHERE number = ?", (now, number))
            connection.execute("UPDATE state SET replaced = replaced + 1")
    return plan.report


def _bring(connection: Connection, batch_ids: Iterable[tuple[bytes, int, bytes]]) -> dict[Cell, int]:
    """Put the ids into a temporary table; return how many each epoch has."""
    for statement in _INCOMING:
        connection.execute(statement)
    twice = 0
    with connection:
        connection.execute("BEGIN")
        for chunk in checked_ids(batch_ids):
            cursor = connection.executemany(
                "INSERT OR IGNORE INTO incoming (task, epoch, id) VALUES (?, ?, ?)", chunk
            )
            twice += len(chunk) - cursor.rowcount
    refuse_twice(twice)
    rows = connection.execute("SELECT task, epoch, count(*) FROM incoming GROUP BY 1, 2")
    return {(key, epoch): batches for key, epoch, batches in rows}


def _number(connection: Connection, name: str) -> int:
    connection.execute("INSERT OR IGNORE INTO source (name, replaced) VALUES (?, 0)", (name,))
    (number,) = connection.execute("SELECT number FROM source WHERE name = ?", (name,)).fetchone()
    return int(number)


def _left(
    connection: Connection,
    number: int,
    counts: Mapping[Cell, IntArray],
    states: Mapping[bytes, tuple[int, int | None]],
) -> dict[Cell, IntArray]:
    moved = connection.execute(_MOVED, {"source": number}).fetchall()
    batches = {}
    for key, before in {(key, before) for key, _, before, _ in moved}:
        (batches[key, before],) = connection.execute(
            "SELECT count(*) FROM batch b JOIN task t ON t.number = b.task"
            " WHERE t.id = ? AND b.epoch = ? AND b.source = ?",
            (key, before, number),
        ).fetchone()
    return left_epochs(moved, batches, counts, states)


def _held(connection: Connection, number: int, counts: Mapping[Cell, IntArray]) -> dict[Cell, IntArray]:
    held = {}
    for (key, epoch), new in counts.items():
        row = connection.execute(
            "SELECT codes, per_code FROM counts JOIN task ON number = task"
            " WHERE id = ? AND epoch = ? AND source = ?",
            (key, epoch, number),
        ).fetchone()
        if row is not None:
            held[key, epoch] = spread(len(new), *row)
    return held


def _replace_ids(
    connection: Connection, number: int, name: str, plan: Plan, numbers: Mapping[bytes, int]
) -> None:
    connection.executemany(
        "INSERT INTO replaced (task, key, epoch) VALUES (?, ?, ?)",
        [(numbers[key], key, epoch) for key, epoch in plan.open],
    )
    connection.execute(_FORGET, {"source": number})
    connection.execute(_INSERT, {"source": number})
    if rows := connection.execute(_KNOWN, {"source": number}).fetchall():
        raise known_batches(rows, name)


def _replace_counts(connection: Connection, number: int, plan: Plan, numbers: Mapping[bytes, int]) -> None:
    for (key, epoch), counts in plan.changed.items():
        place = (numbers[key], epoch, number)
        connection.execute("DELETE FROM counts WHERE task = ? AND epoch = ? AND source = ?", place)
        if counts.any():
            connection.execute(
                "INSERT INTO counts (task, epoch, source, reports, codes, per_code)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (*place, int(counts.sum()), *pack(counts)),
            )
    for key, added in plan.added.items():
        connection.execute(
            "INSERT INTO total (task, source, reports) VALUES (?, ?, ?)"
            " ON CONFLICT (task, source) DO UPDATE SET reports = reports + excluded.reports",
            (numbers[key], number, added),
        )
        (total,) = connection.execute(
            "SELECT sum(reports) FROM total WHERE task = ?", (numbers[key],)
        ).fetchone()
        refuse_more_than_most(key.hex(), total)


def drop(database: Database, name: str, *, closed_too: bool) -> int:
    """Forget a source; see `Store.drop_source`."""
    with database.errors("write to"), database.transaction():
        execute = database.writer.execute
        row = execute("SELECT number FROM source WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise unknown_source(name)
        (closed,) = execute(
            "SELECT count(*) FROM counts JOIN task ON number = task"
            " WHERE source = ? AND (closed IS NOT NULL OR epoch < open_from)",
            row,
        ).fetchone()
        (released,) = execute(
            "SELECT count(*) FROM counts JOIN released USING (task, epoch) WHERE source = ?", row
        ).fetchone()
        refuse_to_drop_closed(name, 0 if closed_too else closed)
        refuse_to_drop_released(name, released)
        (reports,) = execute("SELECT coalesce(sum(reports), 0) FROM total WHERE source = ?", row).fetchone()
        for table in ("counts", "total", "batch"):
            execute(f"DELETE FROM {table} WHERE source = ?", row)  # noqa: S608 (words of ours)
        execute("DELETE FROM source WHERE number = ?", row)
        execute("UPDATE state SET replaced = replaced + 1")
    return int(reports)
