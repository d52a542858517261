"""Export from a SQLite file, and merging records into one."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from arcwise.errors import StoreError
from arcwise.server.store import releases
from arcwise.server.store.counting import exact_sum
from arcwise.server.store.epochs import last_open_from
from arcwise.server.store.export import Counts, Header, TaskState
from arcwise.server.store.incoming import checked_incoming, taken_clock
from arcwise.server.store.problems import (
    refuse_known_batches,
    refuse_known_origins,
    refuse_more_than_most,
)
from arcwise.server.store.sources import refuse_known_sources
from arcwise.server.store.sql import exported
from arcwise.server.store.sqlite.rows import row_problem, spread

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from arcwise.server.store.export import Record
    from arcwise.server.store.sqlite.database import Database
    from arcwise.tasks import Task

_CHUNK = 4096


def export(database: Database, *, ids: bool) -> Generator[Record, None, None]:
    """Yield tasks and counts, all of one moment; see `Store.export`."""
    with database.errors("export"), closing(database.connect()) as connection:
        connection.execute("BEGIN")

        def counts(number: int, task: Task) -> Iterator[Counts]:
            codes = task.mechanism.kernel.codes
            for epoch, source, *row in connection.execute(
                "SELECT epoch, name, codes, per_code FROM counts LEFT JOIN source ON number = source"
                " WHERE task = ? ORDER BY epoch, source",
                (number,),
            ):
                if wrong := row_problem(codes, *row):
                    raise StoreError(f"cannot export {database.path}: task {task.id}, epoch {epoch}: {wrong}")
                yield Counts(epoch, spread(codes, *row), source)

        def id_chunks(number: int) -> Iterator[list[tuple[int, str, bytes]]]:
            rows = connection.execute(
                "SELECT epoch, coalesce(name, ''), id FROM batch LEFT JOIN source ON number = source"
                " WHERE task = ? ORDER BY id",
                (number,),
            )
            return iter(partial(rows.fetchmany, _CHUNK), [])

        yield from exported(connection, counts, id_chunks if ids else None)


def merge(database: Database, records: Iterable[Record], now: int) -> int:
    """Merge records, all or nothing; see `Store.merge`."""
    number = left_out = 0
    frozen: frozenset[int] = frozenset()
    key = b""
    sources: dict[str | None, int] = {}
    clock: int | None = None
    decides = False
    with database.errors("merge into"), database.transaction():
        execute = database.writer.execute
        for record in checked_incoming(records, now):
            if isinstance(record, Header):
                known = execute("SELECT id, merged FROM origin").fetchall()
                refuse_known_origins(record.origins, dict(known))
                database.writer.executemany(
                    "INSERT INTO origin (id, own, merged) VALUES (?, 0, ?)",
                    [(origin, now) for origin in record.origins],
                )
                names = [name for (name,) in execute("SELECT name FROM source").fetchall()]
                refuse_known_sources((name for name, _ in record.sources), names)
                for name, replaced in record.sources:
                    execute("INSERT INTO source (name, replaced) VALUES (?, ?)", (name, replaced))
                sources = dict(execute("SELECT name, number FROM source").fetchall())
                clock = record.clock
            elif isinstance(record, TaskState):
                key = bytes.fromhex(record.task.id)
                execute(
                    "INSERT INTO task (id, definition, closed, open_from) VALUES (?, ?, ?, ?)"
                    " ON CONFLICT DO NOTHING",
                    (key, record.task.to_bytes(), record.closed, record.open_from),
                )
                (number,) = execute("SELECT number FROM task WHERE id = ?", (key,)).fetchone()
                execute(
                    "UPDATE task SET open_from = max(open_from, ?) WHERE number = ?",
                    (min(record.open_from, last_open_from(record.task, now)), number),
                )
                decides |= record.decided > 0
                frozen = releases.bring(database.writer, number, record)
            elif isinstance(record, Counts):
                if record.epoch in frozen:
                    left_out += exact_sum(record.counts)
                    continue
                database.add_counts(number, record.epoch, record.counts, sources.get(record.source, 0))
                (total,) = execute("SELECT sum(reports) FROM total WHERE task = ?", (number,)).fetchone()
                refuse_more_than_most(key.hex(), total)
            elif record.epoch not in frozen:
                cursor = database.writer.executemany(
                    "INSERT INTO batch (task, id, epoch, source) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                    [(number, name, record.epoch, sources.get(record.source)) for name in record.ids],
                )
                refuse_known_batches(len(record.ids) - cursor.rowcount)
        if decides:
            execute("UPDATE state SET clock = coalesce(clock, ?)", (taken_clock(clock, now),))
    return left_out
