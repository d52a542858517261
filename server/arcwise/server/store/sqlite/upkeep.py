"""What an operator asks of a SQLite file: is it whole, how large is it, can it be smaller."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from arcwise.server.store.problems import counts_problems, task_problems

if TYPE_CHECKING:
    from arcwise.server.store.sqlite.database import Database

__all__ = ["check", "size", "vacuum"]


def size(database: Database) -> int:
    """Return the bytes of the file and its write-ahead log."""
    log = database.path.with_name(database.path.name + "-wal")
    return sum(file.stat().st_size for file in (database.path, log) if file.exists())


def vacuum(database: Database) -> None:
    """Rewrite the file without its free pages, and empty the write-ahead log."""
    with database.errors("vacuum"), database.alone() as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def check(database: Database) -> list[str]:
    """Return what is wrong with the file; see `Store.check`."""
    # A connection of its own: a large file takes minutes, and `read` must not wait for them.
    with database.errors("check"), closing(database.connect()) as connection:
        connection.execute("BEGIN")  # all of one moment
        damage = [text for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]
        if damage:
            return damage
        problems = [
            f"row {row} of table {table} names no row of table {parent}"
            for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check")
        ]
        totals = dict(connection.execute("SELECT task, reports FROM total").fetchall())
        for number, key, definition in connection.execute("SELECT number, id, definition FROM task"):
            task, found = task_problems(key, definition)
            problems += found
            if task is not None:
                rows = connection.execute("SELECT epoch, codes FROM counts WHERE task = ?", (number,))
                problems += counts_problems(task, rows, totals.get(number, 0))
        return problems
