"""Which epochs of a SQLite file are released: decided when they close, and never again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.server.store.releases import Decided, brought_releases, decide

if TYPE_CHECKING:
    import sqlite3

    from arcwise.server.store.export import TaskState
    from arcwise.server.store.releases import Closing
    from arcwise.server.store.sqlite.database import Database
    from arcwise.tasks import Task

_LAST_EPOCH = (1 << 63) - 1


def close(
    connection: sqlite3.Connection, number: int, before: int, least: int, unsure_before: int
) -> Closing:
    """Close epochs and decide which are released, within a transaction; see `Store.release`."""
    known = decided_of(connection, number)  # another process may have been first
    found = connection.execute(
        "SELECT epoch, sum(reports) FROM counts WHERE task = ? AND epoch >= ? AND epoch < ? GROUP BY epoch",
        (number, known.before, before),
    ).fetchall()
    chosen, done = decide(dict(found), least, unsure_before)
    _insert(connection, number, chosen)
    _set_decided(connection, number, Decided(max(before, known.before), known.changes))
    return done


def bring(database: Database, number: int, record: TaskState) -> frozenset[int]:
    """Take over the releases of a merged task; return the epochs whose counts are not to be added.

    Within the transaction of the merge, before its counts.
    """
    execute = database.writer.execute
    frozen = frozenset(_released(database.writer, number))
    if record.decided:
        known = decided_of(database.writer, number)
        held = {
            epoch for (epoch,) in execute("SELECT epoch FROM counts WHERE task = ?", (number,)).fetchall()
        }
        _insert(database.writer, number, brought_releases(record.released, frozen, held))
        _set_decided(database.writer, number, Decided(max(known.before, record.decided), known.changes + 1))
    return frozen


def decided(database: Database, task: Task) -> Decided:
    """Return how far it is decided; see `Store.decided`."""
    with database.read() as connection:
        row = connection.execute("SELECT number FROM task WHERE id = ?", (bytes.fromhex(task.id),)).fetchone()
        return Decided(0, 0) if row is None else decided_of(connection, row[0])


def released(database: Database, task: Task, first: int | None, last: int | None) -> dict[int, int]:
    """Return what is released; see `Store.released`."""
    with database.read() as connection:
        rows = connection.execute(
            "SELECT epoch, reports FROM released JOIN task ON number = task"
            " WHERE id = ? AND epoch BETWEEN ? AND ? ORDER BY epoch",
            (bytes.fromhex(task.id), first or 0, _LAST_EPOCH if last is None else last),
        ).fetchall()
    return dict(rows)


def state(connection: sqlite3.Connection, number: int) -> tuple[int, dict[int, int]]:
    """Return up to where it is decided what is released, and what is: what a `TaskState` has of it."""
    return decided_of(connection, number).before, _released(connection, number)


def _released(connection: sqlite3.Connection, number: int) -> dict[int, int]:
    rows = connection.execute(
        "SELECT epoch, reports FROM released WHERE task = ? ORDER BY epoch", (number,)
    ).fetchall()
    return dict(rows)


def decided_of(connection: sqlite3.Connection, number: int) -> Decided:
    """Return how far it is decided what is released of the task of a number."""
    row = connection.execute("SELECT before, changes FROM decided WHERE task = ?", (number,)).fetchone()
    return Decided(0, 0) if row is None else Decided(*row)


def _set_decided(connection: sqlite3.Connection, number: int, to: Decided) -> None:
    """Decide up to an epoch, before which no batch is taken from then on."""
    connection.execute(
        "INSERT OR REPLACE INTO decided (task, before, changes) VALUES (?, ?, ?)", (number, *to)
    )
    connection.execute("UPDATE task SET open_from = max(open_from, ?) WHERE number = ?", (to.before, number))


def _insert(connection: sqlite3.Connection, number: int, chosen: dict[int, int]) -> None:
    connection.executemany(
        "INSERT INTO released (task, epoch, reports) VALUES (?, ?, ?)",
        [(number, epoch, n) for epoch, n in chosen.items()],
    )
