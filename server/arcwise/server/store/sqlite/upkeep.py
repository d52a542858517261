"""Maintenance of a SQLite file: pruning, its size, vacuuming and checks."""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from arcwise.errors import StoreError
from arcwise.server.store.counting import exact_sum
from arcwise.server.store.epochs import last_closable
from arcwise.server.store.sql import checked_tasks
from arcwise.server.store.sqlite.database import LOG_PAGES, build
from arcwise.server.store.sqlite.rows import row_problem, spread
from arcwise.wire import BATCH_ID_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from arcwise.server.store.sqlite.database import Connection, Database
    from arcwise.tasks import Task
    from arcwise.typing import IntArray

_ROOM = LOG_PAGES * 4096
"""Size of the write-ahead log, in bytes, at which it is written back."""

_STEP = 10_000
"""Ids that are examined in one transaction of pruning, which takes a few milliseconds of the disk's time."""
_BEYOND = b"\xff" * (BATCH_ID_BYTES + 1)


def prune(
    database: Database, task: Task, before: int, *, pause: Callable[[float], object] = time.sleep
) -> int:
    """Delete the ids of batches of old epochs, while others add; see `Store.prune`.

    `pause` is called with the seconds between two steps. Raises `KeyError` when the store does not know the
    task.
    """
    with database.errors("prune"), closing(database.connect()) as connection:
        row = connection.execute(
            "SELECT number, open_from, (SELECT max(epoch) FROM counts WHERE task = number)"
            " FROM task WHERE id = ?",
            (bytes.fromhex(task.id),),
        ).fetchone()
        if row is None:
            raise KeyError(task.id)
        number, open_from, newest = row
        # Read before the lock is taken: reports that come meanwhile can only make the newest epoch newer.
        before = open_from if newest is None else min(before, last_closable(task, newest))
        if before <= open_from:
            return 0
        with database.transaction():
            database.writer.execute(
                "UPDATE task SET open_from = max(open_from, ?) WHERE number = ?", (before, number)
            )
        # The epochs are now closed for all processes, so their ids can be deleted step by step. If the
        # process ends before all are deleted, the remaining ids are deleted with those of the next epoch.
        return forget_ids(database, connection, number, before, pause)


def forget_ids(
    database: Database,
    connection: Connection,
    number: int,
    before: int,
    pause: Callable[[float], object] = time.sleep,
) -> int:
    """Delete the ids of a task's closed epochs in steps, between which others add; return their number."""
    forgotten, last = 0, b""
    while True:
        # Each step takes rows in the order of their ids, which are random: the rows of a step are adjacent,
        # though their epochs differ. An index on the epoch would make every report slower.
        row = connection.execute(
            "SELECT id FROM batch WHERE task = ? AND id > ? ORDER BY id LIMIT 1 OFFSET ?",
            (number, last, _STEP - 1),
        ).fetchone()
        first, last = last, _BEYOND if row is None else row[0]
        start = time.monotonic()
        with database.transaction():
            forgotten += database.writer.execute(
                "DELETE FROM batch WHERE task = ? AND id > ? AND id <= ? AND epoch < ?",
                (number, first, last, before),
            ).rowcount
        if row is None:
            return forgotten
        # SQLite gives the lock to the first connection that asks for it; pause so that writers of reports get
        # it, too.
        pause(time.monotonic() - start)


def size(database: Database) -> int:
    """Return the bytes of the file and its write-ahead log."""
    log = database.path.with_name(database.path.name + "-wal")
    return sum(file.stat().st_size for file in (database.path, log) if file.exists())


def require_room(database: Database) -> None:
    """Raise `StoreError` if the disk has less room than the write-ahead log may take."""
    try:
        free = shutil.disk_usage(database.path.parent).free
    except OSError as error:
        raise StoreError(f"cannot read the free space of {database.path}: {error.strerror}") from error
    if free < _ROOM:
        raise StoreError(
            f"the disk of {database.path} has {free / 1e6:.1f} MB free, but the log of the store may take "
            f"{_ROOM / 1e6:.1f} MB: free space"
        )


def vacuum(database: Database) -> None:
    """Rewrite the file without its free pages, and empty the write-ahead log.

    Raises `StoreError` when somebody read the store for too long, so that the log could not be emptied.
    """
    with database.errors("vacuum"), database.alone() as connection:
        connection.execute("VACUUM")
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:  # SQLite itself raises nothing in this case
        raise StoreError(
            f"{database.path} or its log still holds deleted data, because a backup, an export or something "
            "else is reading the store. Vacuum again when it is done"
        )


def check(database: Database) -> list[str]:
    """Return the problems of the file; see `Store.check`."""
    # This uses its own connection: checking a large file takes minutes, and `read` must not wait that long.
    with database.errors("check"), closing(database.connect()) as connection:
        connection.execute("BEGIN")  # all of one moment
        damage = [text for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]
        if damage:
            return damage
        problems = [
            f"row {row} of table {table} refers to a missing row of table {parent}"
            for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check")
        ]
        if strange := list(_strangers(connection)):
            return [*problems, *strange]  # a table that is not arcwise's has unknown names and types
        if strange := list(_strange_types(connection)):
            return [*problems, *strange]
        problems += [
            f"table {table} names source {source}, which does not exist"
            for table, source in connection.execute(_STRANGE_SOURCES)
        ]
        return problems + checked_tasks(connection, partial(_counts, connection))


_NOT_SQLITES = "substr(name, 1, 7) <> 'sqlite_'"
"""Only SQLite can use names that begin like this; in LIKE, the underscore would match any character."""


def _strangers(connection: Connection) -> Iterator[str]:
    """Yield differences from arcwise's schema: a foreign trigger, for example, could change written data."""
    statement = f"SELECT type, name, sql FROM sqlite_schema WHERE {_NOT_SQLITES} ORDER BY 1, 2"  # noqa: S608
    with closing(sqlite3.connect(":memory:")) as ours:
        build(ours)
        known = {(kind, name): sql for kind, name, sql in ours.execute(statement)}
    for kind, name, sql in connection.execute(statement).fetchall():
        if (kind, name) not in known:
            yield f"{kind} {name!r} does not belong to arcwise: drop it"
        elif sql != known.pop((kind, name)):
            yield f"{kind} {name!r} is not defined as arcwise defines it"
    for kind, name in known:
        yield f"{kind} {name!r} is missing"


def _strange_types(connection: Connection) -> Iterator[str]:
    """Yield the columns with values of another type than the type of the column, which SQLite allows."""
    tables = connection.execute(
        f"SELECT name FROM sqlite_schema WHERE type = 'table' AND {_NOT_SQLITES}"  # noqa: S608
    ).fetchall()
    for (table,) in tables:
        columns = [(name, kind) for _, name, kind, *_ in connection.execute(f"PRAGMA table_info({table})")]
        wrong = ", ".join(f"sum(typeof({name}) NOT IN ('null', lower('{kind}')))" for name, kind in columns)
        (counts,) = connection.execute(f"SELECT {wrong} FROM {table}")  # noqa: S608 (names of our schema)
        for (name, kind), count in zip(columns, counts, strict=True):
            if count:
                yield f"{count} rows of table {table} hold values that are not {kind} in column {name}"


_STRANGE_SOURCES = """
    SELECT DISTINCT 'counts', source FROM counts
    WHERE source <> 0 AND source NOT IN (SELECT number FROM source)
    UNION SELECT DISTINCT 'total', source FROM total
    WHERE source <> 0 AND source NOT IN (SELECT number FROM source)
"""


def _counts(
    connection: Connection, number: int, task: Task, problems: list[str]
) -> Iterator[tuple[int, IntArray]]:
    """Yield the epochs of a task with their counts; add the problems of its rows to `problems`."""
    rows = connection.execute("SELECT epoch, reports, codes, per_code FROM counts WHERE task = ?", (number,))
    for epoch, reports, *row in rows:
        wrong = row_problem(task.mechanism.kernel.codes, *row)
        if wrong is not None:
            problems.append(f"task {task.id}, epoch {epoch}: {wrong}")
            continue
        counts = spread(task.mechanism.kernel.codes, *row)
        if (found := exact_sum(counts)) != reports:
            problems.append(f"task {task.id}, epoch {epoch}: {found:,} reports, but its row says {reports:,}")
        yield epoch, counts
