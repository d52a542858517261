"""The store for several workers: PostgreSQL, where each worker adds in its own shard rows."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import psycopg
from psycopg.errors import DeadlockDetected

from arcwise.errors import StoreError
from arcwise.server.store import releases
from arcwise.server.store.base import Outcome
from arcwise.server.store.counting import count_codes
from arcwise.server.store.epochs import last_closable
from arcwise.server.store.postgres import sources, transfer, upkeep
from arcwise.server.store.postgres.arrays import (
    Array,
    bigint_array,
    bodies_array,
    bytea_array,
    integer_array,
    register_arrays,
)
from arcwise.server.store.postgres.database import Connection, Database, Link
from arcwise.server.store.postgres.locks import alone, let_others_pass, lock_folding, lock_sources
from arcwise.server.store.releases import Closing
from arcwise.server.store.sql import REGISTER, SqlStore
from arcwise.server.store.staging import Staged
from arcwise.wire import BATCH_ID_BYTES, Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from arcwise.server.store.export import Record
    from arcwise.server.store.migrations import Migration
    from arcwise.server.store.records import SourceReport, StoredKey, StoredTask
    from arcwise.server.store.sources import Cell
    from arcwise.tasks import Task
    from arcwise.typing import IntArray

_Result = TypeVar("_Result")
_FETCHED = 50_000
"""Most rows, each with the sum of a code, that are in memory as tuples at the same time."""
_ADD = "SELECT batch_place, batch_counted FROM add_batches(%b::bigint, %b, %b, %b, %b, %b, %b)"
_ADD_NEW = "SELECT add_new_batches(%b::bigint, %b, %b, %b, %b, %b, %b, %b)"
_STAGE = "SELECT batch_place, batch_counted FROM stage_batches(%b::bigint, %b, %b, %b, %b, %b, %b, %b)"
_STAGE_NEW = "SELECT stage_new_batches(%b::bigint, %b, %b, %b, %b, %b, %b, %b, %b)"

_STAGED = """
    SELECT s.number, t.id, s.id, s.epoch, s.codes FROM staged s JOIN task t ON t.number = s.task
    JOIN (SELECT number, sum(size) OVER (ORDER BY number) - size AS before FROM (
        SELECT number, length(codes) AS size FROM staged WHERE number > %s ORDER BY number LIMIT %s) AS f
    ) AS g ON g.number = s.number AND g.before < %s ORDER BY s.number
"""
_NO_SUMS = (integer_array([]), integer_array([]), integer_array([]))


class PostgresStore(SqlStore):
    """Counts in the tables of a PostgreSQL database, which are made if missing unless `create` is False.

    Any number of processes may open one database. Each adds counts under its own shard, which it draws when
    it opens the store. No process overwrites counts with numbers from memory. So if the reply to a commit is
    lost, its reports are still counted once. Raises `MissingExtraError` when psycopg is not installed, and
    `StoreError` when the database cannot be reached or holds something else.
    """

    _counts_of_source = "c.shard = -s.number AND c.shard < 0"
    _database: Database

    def __init__(self, url: str, *, create: bool = True) -> None:
        self._begin(Database(url, primary=create), create=create)  # without this, a command may only read

    @classmethod
    def open_read_only(cls, url: str) -> PostgresStore:
        store = cls.__new__(cls)
        store._begin(Database(url, read_only=True), create=False)
        return store

    def _begin(self, database: Database, *, create: bool) -> None:
        self._database = database
        database.prepare(create=create)
        self._shard = secrets.randbits(62) + 1  # 0 is the shard of ended processes
        self._writer = Link(database, self._connect_writer)
        self._reader = Link(database, database.connect)
        self._counter = Link(database, database.connect)
        self._tasks = {}
        self._numbers: dict[bytes, int] = {}

    @classmethod
    def migrate(cls, url: str, to: int | None, *, dry_run: bool) -> list[Migration]:
        database = Database(url)
        if not database.exists():
            raise StoreError(f"there is no store at {database.name}")
        return database.migrate(to, dry_run=dry_run)

    def _connect_writer(self) -> Connection:
        connection = self._database.connect()
        self._numbers = {}  # a standby that took over may lack a task, and give its number to another task
        register_arrays(connection)
        connection.execute("SELECT pg_advisory_lock_shared(%s)", (self._shard,))  # see `upkeep.fold`
        return connection

    def _read(self, work: Callable[[Connection], _Result], link: Link | None = None) -> _Result:
        with self._database.errors("read"):
            return _again_when_lost(link or self._reader, work)

    def _count(self, work: Callable[[Connection], _Result]) -> _Result:
        """Read counts on a separate connection, so that looking up a key does not wait for it."""
        return self._read(work, self._counter)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._database.errors("write to"), self._writer.use() as connection:
            yield connection

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        with self._writing() as connection, connection.transaction():
            yield connection

    def _change(self, statement: str, /, **values: object) -> int:
        with self._writing() as connection:  # one statement needs no BEGIN and no COMMIT
            return connection.change(statement, **values)

    @contextmanager
    def _changing_long(self) -> Iterator[Connection]:
        with self._database.session("write to") as connection, connection.transaction():
            yield connection

    @contextmanager
    def _changing_counts(self) -> Iterator[Connection]:
        with self._changing_long() as connection:
            lock_sources(connection)
            lock_folding(connection)
            yield connection

    def tasks(self) -> list[StoredTask]:
        # Another worker may have registered tasks again that a failover lost.
        numbers = {bytes(key): number for key, number in self._rows("SELECT id, number FROM task")}
        if any(numbers.get(key) != number for key, number in self._numbers.items()):
            self._numbers = {}
        return super().tasks()

    def register(self, tasks: Iterable[Task]) -> None:
        known = {bytes.fromhex(task.id): task for task in tasks}
        with self._changing_long() as connection:
            # Processes that start together register the same tasks. They must do so one after another, or
            # they deadlock.
            alone(connection)
            for key, task in known.items():
                connection.change(REGISTER, id=key, definition=task.to_bytes())
        self._tasks.update(known)
        self._numbers = {}  # a task that is registered again has another number

    def open_alone(self, task: Task, *, again: bool) -> bool:
        with self._changing_long() as connection:
            row = connection.row("SELECT number FROM task WHERE id = :id", id=bytes.fromhex(task.id))
            alone(connection, None if row is None else row[0])
            return self._open_alone(connection, task, again=again)

    def _set_closed(self, task_id: str, statement: str, **values: object) -> bool:
        key = bytes.fromhex(task_id)
        with self._changing_long() as connection:
            row = connection.row("SELECT number FROM task WHERE id = :id", id=key)
            if row is None:
                return False
            alone(connection, row[0])
            return connection.change(statement, id=key, **values) == 1

    def _add(self, batches: Sequence[Batch], *, stage: bool) -> list[Outcome]:
        if not batches:
            return []
        # Ids make it safe to try again when a connection is lost and it is unknown whether the first attempt
        # was committed.
        with self._database.errors("write to"):
            if _again_when_lost(self._writer, lambda link: self._add_new(link, batches, stage=stage)):
                return [Outcome.COUNTED] * len(batches)
            return _again_when_lost(self._writer, lambda link: self._add_each(link, batches, stage=stage))

    def _add_new(self, connection: Connection, batches: Sequence[Batch], *, stage: bool) -> bool:
        """Count batches that are all new; return False, without a change, if some are not."""
        # Every worker uses the same order, or two workers with the same batches deadlock.
        rows = sorted(self._numbered(connection, batches))
        packed = (bodies_array([codes for *_, codes in rows]),) if stage else ()
        values = (self._shard, *_ids(rows), *self._sums(connection, batches), *packed)
        return _is_done(connection, _STAGE_NEW if stage else _ADD_NEW, values)

    def _add_each(self, connection: Connection, batches: Sequence[Batch], *, stage: bool) -> list[Outcome]:
        """Count the batches that are new; return the outcome of each."""
        rows = self._numbered(connection, batches)
        packed = (bodies_array([codes for *_, codes in rows]),) if stage else ()
        call = _STAGE if stage else _ADD
        outcomes = [Outcome.REPLAYED] * len(batches)
        with connection.transaction():
            self._check_numbers(connection, batches)
            # First without codes: codes are added up once it is known which batches are new.
            values = (self._shard, *_ids(rows), *_NO_SUMS, *packed)
            for place, counted in connection.execute(call, values, prepare=True, binary=True).fetchall():
                outcomes[place - 1] = Outcome.COUNTED if counted else Outcome.CLOSED
            new = [
                batch for batch, outcome in zip(batches, outcomes, strict=True) if outcome is Outcome.COUNTED
            ]
            if new and not _is_done(
                connection, _ADD_NEW, (self._shard, *_ids([]), *self._sums(connection, new))
            ):
                raise StoreError("a task was closed while its reports were being counted")
        return outcomes

    def _numbered(
        self, connection: Connection, batches: Iterable[Batch]
    ) -> list[tuple[int, bytes, int, bytes]]:
        """Return the number of the task, the id, the epoch and the packed codes of each batch."""
        return [
            (self._number(connection, batch.task_id), batch.batch_id, batch.epoch, batch.codes)
            for batch in batches
        ]

    def _check_numbers(self, connection: Connection, batches: Iterable[Batch]) -> None:
        """Raise `StoreError` if the database no longer has these batches' tasks under their known numbers."""
        known = {batch.task_id: self._number(connection, batch.task_id) for batch in batches}
        rows = connection.execute("SELECT id, number FROM task WHERE id = ANY(%s)", (list(known),))
        if known != {bytes(key): int(number) for key, number in rows.fetchall()}:
            self._numbers = {}
            raise StoreError("the database has lost a task: it has gone back to an earlier state")

    def _sums(self, connection: Connection, batches: Iterable[Batch]) -> tuple[Array, Array, Array, Array]:
        """Return the sums over batches: the numbers of tasks, epochs, codes and reports."""
        groups: dict[tuple[bytes, int], list[Batch]] = {}
        for batch in batches:
            groups.setdefault((batch.task_id, batch.epoch), []).append(batch)
        parts = []
        for (key, epoch), group in groups.items():
            number = self._number(connection, key)
            counts = count_codes([batch.codes for batch in group], self._tasks[key].mechanism.kernel.codes)
            found = np.flatnonzero(counts)
            parts.append((np.full(len(found), number), np.full(len(found), epoch), found, counts[found]))
        numbers, epochs, codes, reports = (np.concatenate(column) for column in zip(*parts, strict=True))
        return integer_array(numbers), bigint_array(epochs), integer_array(codes), bigint_array(reports)

    def _number(self, connection: Connection, key: bytes) -> int:
        """Return the number of a task, which never changes; raise `KeyError` for an unknown task."""
        number = self._numbers.get(key)
        if number is None:
            row = connection.execute("SELECT number, definition FROM task WHERE id = %s", (key,)).fetchone()
            if row is None:
                raise KeyError(key.hex())
            self._task(key, row[1])
            number = self._numbers[key] = int(row[0])
        return number

    def counts_by_epoch(self, task: Task) -> dict[int, IntArray]:
        rows = self._count(
            lambda connection: connection.execute(
                "SELECT epoch, array_agg(code), array_agg(reports) FROM counts"
                " WHERE task = (SELECT number FROM task WHERE id = %s) GROUP BY epoch ORDER BY epoch",
                (bytes.fromhex(task.id),),
                binary=True,
            ).fetchall()
        )
        found = {}
        for epoch, codes, reports in rows:
            found[epoch] = np.zeros(task.mechanism.kernel.codes, np.int64)
            np.add.at(found[epoch], codes, reports)  # a code has a row per shard
        return found

    def sums(self, task: Task, groups: Mapping[int, int] | None = None, rows: int = 1) -> IntArray:
        codes = task.mechanism.kernel.codes
        places, chosen = ("0", "")
        values: dict[str, object] = {"id": bytes.fromhex(task.id)}
        if groups is not None:
            places = "place"
            chosen = (
                "JOIN unnest(%(epochs)s::bigint[], %(places)s::integer[]) AS g (epoch, place) USING (epoch)"
            )
            values |= {"epochs": list(groups), "places": list(groups.values())}

        def add_up(connection: Connection) -> IntArray:
            total = np.zeros((rows, codes), np.int64)
            # A cursor on the server: a result with many rows would take many times the memory as tuples.
            with connection.transaction(), connection.cursor("sums", binary=True) as cursor:
                cursor.execute(
                    f"SELECT {places}, code, sum(reports)::bigint FROM counts {chosen}"  # noqa: S608 (words)
                    " WHERE task = (SELECT number FROM task WHERE id = %(id)s) GROUP BY 1, 2".encode(),
                    values,
                )
                while found := cursor.fetchmany(_FETCHED):
                    place, code, reports = np.array(found, np.int64).T
                    total[place, code] = reports
            return total

        return self._count(add_up)

    def prune(self, task: Task, before: int) -> int:
        # A separate connection: deleting millions of ids takes longer than a statement of `add` may.
        with self._database.session("prune") as connection:
            number = _number_of(connection, task)
            upkeep.fold(connection, number)
            # Read before the lock is taken: reports that come meanwhile can only make the newest epoch newer.
            ((open_from, newest),) = connection.execute(
                "SELECT open_from, (SELECT max(epoch) FROM counts WHERE task = number) FROM task"
                " WHERE number = %s",
                (number,),
            ).fetchall()
            before = open_from if newest is None else min(before, last_closable(task, newest))
            if before <= open_from:
                return 0
            with connection.transaction():
                # Nobody may add meanwhile, or a batch whose id is deleted below could be counted again.
                alone(connection, number)
                closed = connection.execute(
                    "UPDATE task SET open_from = %s WHERE number = %s AND open_from < %s",
                    (before, number, before),
                )
            if not closed.rowcount:  # another process closed them and deletes the ids
                return 0
            # The epochs are now closed for all processes.
            return upkeep.forget_ids(connection, number, before)

    def release(self, task: Task, before: int, *, least: int = 1, unsure_before: int = 0) -> Closing:
        with self._database.session("close epochs in") as connection:
            number = _number_of(connection, task)
            if not releases.closes(connection, number, before):
                return Closing()
            with connection.transaction():
                alone(connection, number)
                done = releases.close(connection, number, before, least, unsure_before)
            # The epochs are now closed for all processes.
            upkeep.fold(connection, number)
            upkeep.forget_ids(connection, number, before)
        return done

    def _replace_source(
        self,
        name: str,
        counts: Mapping[Cell, IntArray],
        batch_ids: Iterable[tuple[bytes, int, bytes]],
        now: int,
    ) -> SourceReport:
        with self._database.session("write to") as connection:
            return sources.replace(connection, name, counts, batch_ids, now)

    def drop_source(self, name: str, *, closed_too: bool = False) -> int:
        with self._database.session("write to") as connection:
            return sources.drop(connection, name, closed_too=closed_too)

    def staged(self, after: int, most: int, most_bytes: int) -> list[Staged]:
        rows = self._read(
            lambda connection: connection.execute(_STAGED, (after, most, most_bytes), binary=True).fetchall()
        )
        return [Staged(number, Batch(*fields)) for number, *fields in rows]

    def unstage(self, numbers: Sequence[int], archive: bytes | None) -> None:
        with self._changing_long() as connection:
            self._require_archive(connection, archive)
            connection.execute("DELETE FROM staged WHERE number = ANY (%s)", (list(numbers),))

    def archive_id(self, new: bytes | None = None) -> bytes | None:
        def work(connection: Connection) -> bytes | None:
            if new is not None:
                connection.change("UPDATE state SET archive = :new WHERE archive IS NULL", new=new)
            (found,) = connection.row("SELECT archive FROM state")
            return None if found is None else bytes(found)

        return self._read(work)

    def add_key(self, key: StoredKey) -> None:
        with self._changing() as connection:
            self._add_key(connection, key, None if key.tasks is None else list(key.tasks))

    def _tasks_of_key(self, kept: Any) -> Iterable[str]:
        tasks: list[str] = kept
        return tasks

    def revoke_key(self, key_id: str, now: int) -> bool:
        with self._changing() as connection:
            return self._revoke_key(connection, key_id, now)

    def export(self, *, ids: bool) -> Generator[Record, None, None]:
        with self._database.session("export") as connection:
            yield from transfer.export(connection, ids=ids)

    def merge(self, records: Iterable[Record], now: int) -> int:
        with self._database.session("merge into") as connection:
            return transfer.merge(connection, records, now)

    def try_writing(self) -> None:
        # On a full disk, there is still room to overwrite a row, so this also needs room for a new page.
        with self._writing() as connection:
            upkeep.grow(connection)
        super().try_writing()

    @property
    def size(self) -> int:
        """Bytes of the tables and their indexes."""
        return self._read(upkeep.size)

    def check(self) -> list[str]:
        with self._database.session("check") as connection:
            return upkeep.check(connection)

    def vacuum(self) -> None:
        with self._database.session("vacuum") as connection:
            upkeep.vacuum(connection)

    def close(self) -> None:
        """Close the connections. May be repeated."""
        self._database.close()
        for link in (self._writer, self._reader, self._counter):
            link.close()


def _again_when_lost(link: Link, work: Callable[[Connection], _Result]) -> _Result:
    """Do `work`, and repeat it if the connection was lost or the work blocked other work."""
    with link.use() as connection:
        try:
            return work(connection)
        except psycopg.OperationalError as error:
            if isinstance(error, DeadlockDetected):
                let_others_pass()
            elif not connection.closed:
                raise
    with link.use() as connection:
        return work(connection)


def _ids(rows: Sequence[tuple[int, bytes, int, bytes]]) -> tuple[Array, Array, Array]:
    """Return the numbers of tasks, ids and epochs of batches."""
    return (
        integer_array([number for number, *_ in rows]),
        bytea_array([identity for _, identity, *_ in rows], BATCH_ID_BYTES),
        bigint_array([epoch for _, _, epoch, _ in rows]),
    )


def _number_in(connection: Connection, task_id: str) -> int | None:
    """Return the number of a task in the database of this connection, or None if it has no such task."""
    row = connection.row("SELECT number FROM task WHERE id = :id", id=bytes.fromhex(task_id))
    return None if row is None else int(row[0])


def _number_of(connection: Connection, task: Task) -> int:
    """Return `_number_in` of a task that this process has registered."""
    number = _number_in(connection, task.id)
    if number is None:
        raise StoreError(f"the database has lost task {task.name!r}: it has gone back to an earlier state")
    return number


def _is_done(connection: Connection, call: str, values: tuple[int | Array, ...]) -> bool:
    """Call a function that returns whether it did its work."""
    row = connection.execute(call, values, prepare=True, binary=True).fetchone()
    return row is not None and bool(row[0])
