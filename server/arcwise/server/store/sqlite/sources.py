"""Replaces and drops the sources of a SQLite file."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from arcwise.server.store.sources import SqlSource, TaskRow, checked_ids, refuse_twice
from arcwise.server.store.sqlite.rows import pack, spread

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

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


class _Source(SqlSource):
    where = "c.source = :place"
    # Stored ids stay: when a lake has grown, only the new ids are written.
    forget = """
        DELETE FROM batch WHERE source = :source AND EXISTS (
            SELECT 1 FROM replaced r WHERE r.task = batch.task AND r.epoch = batch.epoch AND NOT EXISTS (
                SELECT 1 FROM incoming i WHERE i.task = r.key AND i.id = batch.id AND i.epoch = batch.epoch))
    """
    insert = """
        INSERT OR IGNORE INTO batch (task, id, epoch, source)
        SELECT r.task, i.id, i.epoch, :source
        FROM incoming i JOIN replaced r ON r.key = i.task AND r.epoch = i.epoch
    """
    connection: Connection

    def batches(self, cells: Collection[Cell]) -> dict[Cell, int]:
        return {
            (key, epoch): self.connection.row(
                "SELECT count(*) FROM task t JOIN batch b ON b.task = t.number"
                " WHERE t.id = :key AND b.epoch = :epoch AND b.source = :source",
                key=key,
                epoch=epoch,
                source=self.source,
            )[0]
            for key, epoch in cells
        }

    def held(self, counts: Mapping[Cell, IntArray]) -> dict[Cell, IntArray]:
        held = {}
        for (key, epoch), new in counts.items():
            row = self.connection.execute(
                "SELECT codes, per_code FROM counts JOIN task ON number = task"
                " WHERE id = ? AND epoch = ? AND source = ?",
                (key, epoch, self.place),
            ).fetchone()
            if row is not None:
                held[key, epoch] = spread(len(new), *row)
        return held

    def replace_counts(self, plan: Plan, numbers: Mapping[bytes, int]) -> None:
        for (key, epoch), counts in plan.changed.items():
            place = (numbers[key], epoch, self.place)
            self.connection.execute("DELETE FROM counts WHERE task = ? AND epoch = ? AND source = ?", place)
            if counts.any():
                self.connection.execute(
                    "INSERT INTO counts (task, epoch, source, reports, codes, per_code)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    (*place, int(counts.sum()), *pack(counts)),
                )
        self.connection.executemany(
            "INSERT INTO total (task, source, reports) VALUES (?, ?, ?)"
            " ON CONFLICT (task, source) DO UPDATE SET reports = reports + excluded.reports",
            [(numbers[key], self.place, added) for key, added in plan.added.items()],
        )


def replace(
    database: Database,
    name: str,
    counts: Mapping[Cell, IntArray],
    batch_ids: Iterable[tuple[bytes, int, bytes]],
    now: int,
) -> SourceReport:
    """Replace the counts of a source by checked counts; see `Store.replace_source`.

    This uses its own connection: the ids are put into temporary tables while servers go on.
    """
    with database.errors("write to"), closing(database.connect()) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        ids = _bring(connection, batch_ids)
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            source = _Source(connection, name, make=True)
            tasks = connection.rows("SELECT number, id, open_from, closed FROM task")
            plan = source.replace(counts, ids, [TaskRow(*task) for task in tasks])
            source.end_replacing(now)
    return plan.report


def _bring(connection: Connection, batch_ids: Iterable[tuple[bytes, int, bytes]]) -> dict[Cell, int]:
    """Put the ids into a temporary table; return the number of ids of each epoch."""
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


def drop(connection: Connection, name: str, *, closed_too: bool) -> int:
    """Delete a source; see `Store.drop_source`."""
    source = _Source(connection, name)
    reports = source.drop_data(closed_too=closed_too)
    source.end_dropping()
    return reports
