"""The store of several workers: PostgreSQL, to which each adds in shard rows of its own."""

from __future__ import annotations

import secrets
import time
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import psycopg
from psycopg.errors import DeadlockDetected, UniqueViolation

from arcwise.errors import StoreError
from arcwise.server.store.base import Outcome
from arcwise.server.store.counting import summed_counts
from arcwise.server.store.epochs import last_closable
from arcwise.server.store.postgres import access, releases, sources, staging, transfer, upkeep
from arcwise.server.store.postgres.arrays import (
    Array,
    bigint_array,
    bodies_array,
    bytea_array,
    integer_array,
    register_arrays,
)
from arcwise.server.store.postgres.database import Connection, Database, Link
from arcwise.server.store.postgres.locks import alone, let_others_pass
from arcwise.server.store.problems import key_exists, load_task, refuse_taken_name
from arcwise.server.store.records import StoredKey, StoredTask
from arcwise.server.store.releases import Closing
from arcwise.server.store.sources import checked_counts, checked_name
from arcwise.server.store.staging import StagingStore
from arcwise.wire import BATCH_ID_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from arcwise.server.store.export import Record
    from arcwise.server.store.migrations import Migration
    from arcwise.server.store.records import (
        DeletedData,
        SourceReport,
        StoredAction,
        StoredSession,
        StoredSource,
    )
    from arcwise.server.store.releases import Decided
    from arcwise.server.store.staging import ArchiveFile, Staged, StagedSize
    from arcwise.tasks import Task
    from arcwise.typing import IntArray
    from arcwise.wire import Batch

_Result = TypeVar("_Result")
_LAST_EPOCH = (1 << 63) - 1
_FETCHED = 50_000
"""Sums of a code that are in memory as tuples at a time."""
_REGISTER = (
    "INSERT INTO task (id, definition) SELECT %s, %s WHERE NOT EXISTS (SELECT FROM task WHERE id = %s)"
)
_ADD = "SELECT batch_place, batch_counted FROM add_batches(%b::bigint, %b, %b, %b, %b, %b, %b)"
_ADD_NEW = "SELECT add_new_batches(%b::bigint, %b, %b, %b, %b, %b, %b, %b)"
_STAGE = "SELECT batch_place, batch_counted FROM stage_batches(%b::bigint, %b, %b, %b, %b, %b, %b, %b)"
_STAGE_NEW = "SELECT stage_new_batches(%b::bigint, %b, %b, %b, %b, %b, %b, %b, %b)"

_NO_SUMS = (integer_array([]), integer_array([]), integer_array([]))


class PostgresStore(StagingStore):
    """Counts in the tables of a PostgreSQL database, which are made if missing unless `create` is False.

    Any number of processes may open one database. Each adds to counts under a shard of its own, which it
    draws when it opens the store: nothing is ever overwritten by what a process remembers, so a commit whose
    reply was lost stays counted, once. Raises `MissingExtraError` when psycopg is not installed, and
    `StoreError` when the database cannot be reached or holds something else.
    """

    def __init__(self, url: str, *, create: bool = True) -> None:
        self._begin(Database(url), create=create)

    @classmethod
    def open_read_only(cls, url: str) -> PostgresStore:
        """Open a database that holds a store, and write nothing; see `Store.open_read_only`."""
        store = cls.__new__(cls)
        store._begin(Database(url, read_only=True), create=False)
        return store

    def _begin(self, database: Database, *, create: bool) -> None:
        self._database = database
        self._database.prepare(create=create)
        self._shard = secrets.randbits(62) + 1  # 0 is the shard of ended processes
        self._writer = Link(self._connect_writer)
        self._reader = Link(self._database.connect)
        self._counter = Link(self._database.connect)
        self._tasks: dict[bytes, Task] = {}  # loading one checks its certificate: once is enough
        self._numbers: dict[bytes, int] = {}

    @classmethod
    def migrate(cls, url: str, to: int | None, *, dry_run: bool) -> list[Migration]:
        """Bring the tables to a newer schema; see `Store.migrate`."""
        database = Database(url)
        if not database.exists():
            raise StoreError(f"there is no store at {database.name}")
        return database.migrate(to, dry_run=dry_run)

    def _connect_writer(self) -> Connection:
        connection = self._database.connect()
        register_arrays(connection)
        connection.execute("SELECT pg_advisory_lock_shared(%s)", (self._shard,))  # see `upkeep.fold`
        return connection

    def _read(self, work: Callable[[Connection], _Result], link: Link | None = None) -> _Result:
        with self._database.errors("read"):
            return _again_when_lost(link or self._reader, work)

    def _count(self, work: Callable[[Connection], _Result]) -> _Result:
        """Read counts, which can take seconds: nobody waits for that who looks up a key."""
        return self._read(work, self._counter)

    def _write(self, work: Callable[[Connection], _Result]) -> _Result:
        with self._database.errors("write to"), self._writer.use() as connection:
            return work(connection)

    @cached_property
    def secret(self) -> bytes:
        """The store's own 32 random bytes; see `Store.secret`."""
        ((secret,),) = self._read(
            lambda connection: connection.execute("SELECT secret FROM state").fetchall()
        )
        return bytes(secret)

    def register(self, tasks: Iterable[Task]) -> None:
        """Make the tasks known; see `Store.register`."""
        known = {bytes.fromhex(task.id): task for task in tasks}

        with self._database.session("write to") as connection, connection.transaction():
            # Processes that start together register the same tasks: one after another, or they deadlock.
            alone(connection)
            for key, task in known.items():
                connection.execute(_REGISTER, (key, task.to_bytes(), key))
        self._tasks.update(known)

    def tasks(self) -> list[StoredTask]:
        """Return every task; see `Store.tasks`."""
        rows = self._read(
            lambda connection: connection.execute(
                "SELECT id, definition, closed, open_from,"
                " (SELECT max(epoch) FROM counts WHERE task = number) FROM task ORDER BY number"
            ).fetchall()
        )
        return [StoredTask(self._task(key, definition), *state) for key, definition, *state in rows]

    def _task(self, key: bytes, definition: bytes) -> Task:
        if key not in self._tasks:
            self._tasks[key] = load_task(key, definition)
        return self._tasks[key]

    def close_task(self, task_id: str, now: int) -> bool:
        """Take no more reports of a task; see `Store.close_task`."""
        return self._set_closed(
            "UPDATE task SET closed = %s WHERE number = %s AND closed IS NULL", now, task_id
        )

    def open_task(self, task_id: str) -> bool:
        """Take reports of a closed task again; see `Store.open_task`."""
        return self._set_closed(
            "UPDATE task SET closed = %s WHERE number = %s AND closed IS NOT NULL", None, task_id
        )

    def open_alone(self, task: Task, *, again: bool) -> bool:
        """Open a task unless another open one has its name; see `Store.open_alone`."""
        key = bytes.fromhex(task.id)
        with self._database.session("write to") as connection, connection.transaction():
            row = connection.execute("SELECT number FROM task WHERE id = %s", (key,)).fetchone()
            alone(connection, None if row is None else row[0])
            opened = connection.execute("SELECT id, definition FROM task WHERE closed IS NULL").fetchall()
            refuse_taken_name(task, (self._task(*each) for each in opened))
            if again:
                changed = connection.execute(
                    "UPDATE task SET closed = NULL WHERE id = %s AND closed IS NOT NULL", (key,)
                )
            else:
                changed = connection.execute(_REGISTER, (key, task.to_bytes(), key))
        self._tasks[key] = task
        return changed.rowcount == 1

    def _set_closed(self, statement: str, closed: int | None, task_id: str) -> bool:
        with self._database.session("write to") as connection, connection.transaction():
            row = connection.execute(
                "SELECT number FROM task WHERE id = %s", (bytes.fromhex(task_id),)
            ).fetchone()
            if row is None:
                return False
            alone(connection, row[0])
            return connection.execute(statement.encode(), (closed, row[0])).rowcount == 1

    def add(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Count the batches whose id is new, durably, all or none; see `Store.add`."""
        return self._add(batches, stage=False)

    def _add(self, batches: Sequence[Batch], *, stage: bool) -> list[Outcome]:
        if not batches:
            return []
        # Ids make it safe to try again when a lost connection leaves open whether the first try was
        # committed.
        with self._database.errors("write to"):
            if _again_when_lost(self._writer, lambda link: self._add_new(link, batches, stage=stage)):
                return [Outcome.COUNTED] * len(batches)
            return _again_when_lost(self._writer, lambda link: self._add_each(link, batches, stage=stage))

    def _add_new(self, connection: Connection, batches: Sequence[Batch], *, stage: bool) -> bool:
        """Count batches that are all new; return False, having changed nothing, when some are not."""
        # In one order everywhere, or two workers with the same batches deadlock.
        rows = sorted(self._rows(connection, batches))
        packed = (bodies_array([codes for *_, codes in rows]),) if stage else ()
        values = (self._shard, *_ids(rows), *self._sums(connection, batches), *packed)
        return _is_done(connection, _STAGE_NEW if stage else _ADD_NEW, values)

    def _add_each(self, connection: Connection, batches: Sequence[Batch], *, stage: bool) -> list[Outcome]:
        """Count those of the batches that are new; return what became of each."""
        rows = self._rows(connection, batches)
        packed = (bodies_array([codes for *_, codes in rows]),) if stage else ()
        call = _STAGE if stage else _ADD
        outcomes = [Outcome.REPLAYED] * len(batches)
        with connection.transaction():
            # First without their codes: they are added up when it is known which batches are new.
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

    def _rows(self, connection: Connection, batches: Iterable[Batch]) -> list[tuple[int, bytes, int, bytes]]:
        """Return the number of the task, the id, the epoch and the packed codes of each batch."""
        return [
            (self._number(connection, batch.task_id), batch.batch_id, batch.epoch, batch.codes)
            for batch in batches
        ]

    def _sums(self, connection: Connection, batches: Iterable[Batch]) -> tuple[Array, Array, Array, Array]:
        """Return the numbers of tasks, epochs, codes and reports of what batches add up to."""
        groups: dict[tuple[bytes, int], list[Batch]] = {}
        for batch in batches:
            groups.setdefault((batch.task_id, batch.epoch), []).append(batch)
        numbered = {(self._number(connection, key), epoch): each for (key, epoch), each in groups.items()}
        numbers, epochs, codes, reports = summed_counts(numbered, self._tasks)
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
        """Return the number of reports per code for every epoch; see `Store.counts_by_epoch`."""
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

    def reports_by_epoch(
        self, task: Task, first: int | None = None, last: int | None = None
    ) -> dict[int, int]:
        """Return the number of reports of every epoch; see `Store.reports_by_epoch`."""
        return dict(
            self._count(
                lambda connection: connection.execute(
                    "SELECT epoch, sum(reports)::bigint FROM counts"
                    " WHERE task = (SELECT number FROM task WHERE id = %s) AND epoch BETWEEN %s AND %s"
                    " GROUP BY epoch ORDER BY epoch",
                    (bytes.fromhex(task.id), first or 0, _LAST_EPOCH if last is None else last),
                    binary=True,
                ).fetchall()
            )
        )

    def sums(self, task: Task, groups: Mapping[int, int] | None = None, rows: int = 1) -> IntArray:
        """Return the reports per code of groups of epochs; see `Store.sums`."""
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
            # A cursor on the server: a result of many rows is as large again as tuples, many times over.
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

    def report_count(self, task: Task) -> int:
        """Return the number of reports counted so far; see `Store.report_count`."""
        return self.revision(task)[0]

    def revision(self, task: Task) -> tuple[int, int]:
        """Return two numbers that stand for the counts of a task; see `Store.revision`."""
        ((reports, replaced),) = self._read(
            lambda connection: connection.execute(
                "SELECT coalesce(sum(reports), 0)::bigint, (SELECT replaced FROM state) FROM total"
                " WHERE task = (SELECT number FROM task WHERE id = %s)",
                (bytes.fromhex(task.id),),
            ).fetchall()
        )
        return int(reports), int(replaced)

    def prune(self, task: Task, before: int) -> int:
        """Forget the ids of batches of old epochs, and fold shards; see `Store.prune`."""
        # A connection of its own: deleting millions of ids takes longer than a statement of `add` may.
        with self._database.session("prune") as connection:
            number = self._number(connection, bytes.fromhex(task.id))
            upkeep.fold(connection, number)
            # Before the lock: what comes meanwhile can only make the newest newer.
            ((open_from, newest),) = connection.execute(
                "SELECT open_from, (SELECT max(epoch) FROM counts WHERE task = number) FROM task"
                " WHERE number = %s",
                (number,),
            ).fetchall()
            before = open_from if newest is None else min(before, last_closable(task, newest))
            if before <= open_from:
                return 0
            with connection.transaction():
                # Nobody adds meanwhile, or a batch could be counted again whose id is deleted below.
                alone(connection, number)
                closed = connection.execute(
                    "UPDATE task SET open_from = %s WHERE number = %s AND open_from < %s",
                    (before, number, before),
                )
            if not closed.rowcount:  # another process did, and deletes: to do the same would wait for it
                return 0
            # By now the epochs are closed for everybody.
            return upkeep.forget_ids(connection, number, before)

    def release(self, task: Task, before: int, *, least: int = 1, unsure_before: int = 0) -> Closing:
        """Close epochs, and decide which are released; see `Store.release`."""
        with self._database.session("close epochs in") as connection:
            number = self._number(connection, bytes.fromhex(task.id))
            done = releases.release(connection, number, before, least=least, unsure_before=unsure_before)
            if done is not None:  # by now the epochs are closed for everybody
                upkeep.fold(connection, number)
                upkeep.forget_ids(connection, number, before)
        return done or Closing()

    def decided(self, task: Task) -> Decided:
        """Return how far it is decided what is released; see `Store.decided`."""
        return self._read(lambda connection: releases.decided(connection, task))

    def released(self, task: Task, first: int | None = None, last: int | None = None) -> dict[int, int]:
        """Return the reports of released epochs; see `Store.released`."""
        return self._read(lambda connection: releases.released(connection, task, first, last))

    def replace_source(
        self,
        name: str,
        counts: Mapping[tuple[bytes, int], IntArray],
        batch_ids: Iterable[tuple[bytes, int, bytes]],
        *,
        now: int | None = None,
    ) -> SourceReport:
        """Take over the counts of a source; see `Store.replace_source`."""
        now = int(time.time()) if now is None else now
        checked = checked_counts(counts, self.tasks(), now)
        with self._database.session("write to") as connection:
            return sources.replace(connection, checked_name(name), checked, batch_ids, now)

    def sources(self) -> list[StoredSource]:
        """Return the sources; see `Store.sources`."""
        return self._read(sources.stored)

    def drop_source(self, name: str, *, closed_too: bool = False) -> int:
        """Forget a source; see `Store.drop_source`."""
        with self._database.session("write to") as connection:
            return sources.drop(connection, name, closed_too=closed_too)

    def delete_data(self, task_id: str) -> DeletedData:
        """Delete what was reported to a closed task; see `Store.delete_data`."""
        with self._database.session("write to") as connection:
            return upkeep.delete_data(connection, task_id)

    def add_staged(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Do as `add`, and keep what is counted for the archive; see `StagingStore.add_staged`."""
        return self._add(batches, stage=True)

    def staged(self, after: int, most: int, most_bytes: int) -> list[Staged]:
        """Return batches that wait for the archive; see `StagingStore.staged`."""
        return self._read(lambda connection: staging.read(connection, after, most, most_bytes))

    def staged_size(self) -> StagedSize:
        """Return how much waits for the archive; see `StagingStore.staged_size`."""
        return self._read(staging.size)

    def unstage(self, numbers: Sequence[int], archive: bytes | None) -> None:
        """Forget batches that are in a file; see `StagingStore.unstage`."""
        with self._database.session("write to") as connection:
            staging.remove(connection, numbers, archive)

    def begin_files(self, files: Iterable[ArchiveFile], archive: bytes | None) -> None:
        """Take note of files that are about to be; see `StagingStore.begin_files`."""
        with self._database.session("write to") as connection:
            staging.begin_files(connection, files, archive)

    def begun_files(self) -> list[ArchiveFile]:
        """Return the files that were begun; see `StagingStore.begun_files`."""
        return self._read(staging.begun_files)

    def end_files(self, archive: bytes | None) -> None:
        """Take note that no file is being written; see `StagingStore.end_files`."""
        with self._database.session("write to") as connection:
            staging.end_files(connection, archive)

    def archive_id(self, new: bytes | None = None) -> bytes | None:
        """Return the id of the archive's folder; see `StagingStore.archive_id`."""
        return self._read(lambda connection: staging.archive_id(connection, new))

    def forget_archive(self, *, begun_too: bool = True) -> bool:
        """Forget the archive's folder; see `StagingStore.forget_archive`."""
        with self._database.session("write to") as connection:
            return staging.forget_archive(connection, begun_too=begun_too)

    def clock(self) -> int | None:
        """Return the latest time that a server believed; see `Store.clock`."""
        ((clock,),) = self._read(lambda connection: connection.execute("SELECT clock FROM state").fetchall())
        return None if clock is None else int(clock)

    def advance_clock(self, to: int, *, reset: bool = False) -> int:
        """Remember a time that was believed; see `Store.advance_clock`."""
        ((clock,),) = self._write(
            lambda connection: connection.execute(
                "UPDATE state SET clock = greatest(CASE WHEN %s THEN 0 ELSE clock END, %s) RETURNING clock",
                (reset, to),
            ).fetchall()
        )
        return int(clock)

    def add_key(self, key: StoredKey) -> None:
        """Keep a key; see `Store.add_key`."""
        tasks = None if key.tasks is None else list(key.tasks)
        values = (key.id, key.digest, key.scope, tasks, key.label, key.created, key.revoked)
        statement = (
            "INSERT INTO api_key (id, digest, scope, tasks, label, created, revoked)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)"
        )
        try:
            self._write(lambda connection: connection.execute(statement, values))
        except StoreError as error:
            if isinstance(error.__cause__, UniqueViolation):
                raise key_exists(key) from None
            raise

    def keys(self) -> list[StoredKey]:
        """Return all keys; see `Store.keys`."""
        rows = self._read(
            lambda connection: connection.execute(
                "SELECT id, digest, scope, tasks, label, created, revoked FROM api_key ORDER BY created, id"
            ).fetchall()
        )
        return [
            StoredKey(name, digest, scope, None if tasks is None else tuple(tasks), *rest)
            for name, digest, scope, tasks, *rest in rows
        ]

    def revoke_key(self, key_id: str, now: int) -> bool:
        """Make a key useless; see `Store.revoke_key`."""

        def revoke(connection: Connection) -> bool:
            with connection.transaction():
                cursor = connection.execute(
                    "UPDATE api_key SET revoked = %s WHERE id = %s AND revoked IS NULL", (now, key_id)
                )
                connection.execute("DELETE FROM session WHERE api_key = %s", (key_id,))
            return cursor.rowcount == 1

        return self._write(revoke)

    def add_session(self, session: StoredSession) -> None:
        """Keep a session; see `Access.add_session`."""
        self._write(lambda connection: access.add_session(connection, session))

    def session(self, digest: bytes) -> StoredSession | None:
        """Return a session; see `Access.session`."""
        return self._read(lambda connection: access.session(connection, digest))

    def see_session(self, digest: bytes, now: int) -> None:
        """Note that a session was used; see `Access.see_session`."""
        self._write(lambda connection: access.see_session(connection, digest, now))

    def end_session(self, digest: bytes) -> bool:
        """Forget a session; see `Access.end_session`."""
        return self._write(lambda connection: access.end_session(connection, digest))

    def prune_sessions(self, now: int, idle_seconds: int) -> int:
        """Forget the sessions that are over; see `Access.prune_sessions`."""
        return self._write(lambda connection: access.prune_sessions(connection, now, idle_seconds))

    def begin_action(self, action: StoredAction) -> int:
        """Write an entry into the audit log; see `Access.begin_action`."""
        return self._write(lambda connection: access.begin_action(connection, action))

    def end_action(self, number: int, outcome: str) -> None:
        """Note what became of an action; see `Access.end_action`."""
        self._write(lambda connection: access.end_action(connection, number, outcome))

    def actions(self, most: int, before: int | None = None) -> list[tuple[int, StoredAction]]:
        """Return entries of the audit log; see `Access.actions`."""
        return self._read(lambda connection: access.actions(connection, most, before))

    def prune_actions(self, before: int) -> int:
        """Forget old entries of the audit log; see `Access.prune_actions`."""
        return self._write(lambda connection: access.prune_actions(connection, before))

    def remember(self, name: str, value: int) -> None:
        """Remember a number; see `Access.remember`."""
        self._write(lambda connection: access.remember(connection, name, value))

    def recall(self, name: str) -> int | None:
        """Return a number that is remembered; see `Access.recall`."""
        return self._read(lambda connection: access.recall(connection, name))

    def export(self, *, ids: bool) -> Generator[Record, None, None]:
        """Yield tasks and counts; see `Store.export`."""
        with self._database.session("export") as connection:
            yield from transfer.export(connection, ids=ids)

    def merge(self, records: Iterable[Record], now: int) -> int:
        """Add what another store exported; see `Store.merge`."""
        with self._database.session("merge into") as connection:
            return transfer.merge(connection, records, now)

    def try_writing(self) -> None:
        """Write something small, and let a table grow; see `Store.try_writing`."""
        # A row that is overwritten has room on a full disk, too.
        self._write(upkeep.grow)
        super().try_writing()

    @property
    def size(self) -> int:
        """Bytes of the tables and their indexes."""
        return self._read(upkeep.size)

    def check(self) -> list[str]:
        """Return what is wrong with the store; see `Store.check`."""
        with self._database.session("check") as connection:
            return upkeep.check(connection)

    def vacuum(self) -> None:
        """Fold the shards of ended processes and free space; see `Store.vacuum`."""
        with self._database.session("vacuum") as connection:
            upkeep.vacuum(connection)

    def close(self) -> None:
        """Close the connections. May be repeated."""
        self._database.close()
        for link in (self._writer, self._reader, self._counter):
            link.close()


def _again_when_lost(link: Link, work: Callable[[Connection], _Result]) -> _Result:
    """Do `work`, and once more where the connection was lost, or the work was in the way of another's."""
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


def _is_done(connection: Connection, call: str, values: tuple[int | Array, ...]) -> bool:
    """Call a function that says whether it did its work."""
    row = connection.execute(call, values, prepare=True, binary=True).fetchone()
    return row is not None and bool(row[0])
