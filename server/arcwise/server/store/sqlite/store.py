"""The embedded store: one SQLite file in WAL mode, synchronous=FULL."""

from __future__ import annotations

import json
import os
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from arcwise.errors import ParameterError
from arcwise.server.store import releases
from arcwise.server.store.base import Outcome
from arcwise.server.store.counting import count_codes
from arcwise.server.store.releases import Closing
from arcwise.server.store.sql import REGISTER, SqlStore
from arcwise.server.store.sqlite import sources, transfer, upkeep
from arcwise.server.store.sqlite.database import Database, ReadOnlyDatabase
from arcwise.server.store.sqlite.rows import spread, unpack
from arcwise.server.store.staging import Staged
from arcwise.wire import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from arcwise.server.store.export import Record
    from arcwise.server.store.migrations import Migration
    from arcwise.server.store.records import SourceReport, StoredKey
    from arcwise.server.store.sources import Cell
    from arcwise.server.store.sqlite.database import Connection
    from arcwise.tasks import Task
    from arcwise.typing import IntArray

_Result = TypeVar("_Result")
_LAST_EPOCH = (1 << 63) - 1
_MOST_IDS, _MOST_STAGED = 512, 256
"""Most rows in one statement: SQLite before 3.32 takes at most 999 variables."""
_UNSTAGED = 10_000
"""Most rows that are deleted in one transaction, which takes a few milliseconds of the disk's time."""
_NAMES = ("task", "epoch", *(f"id{number}" for number in range(_MOST_IDS)))
"""Names of the variables of the statement that inserts ids."""


class _NotAllNew(Exception):  # noqa: N818 (a way out of a transaction, not an error)
    pass


class SQLiteStore(SqlStore):
    """Counts in a SQLite file, which is made if missing unless `create` is False.

    Several processes may open one file. Every change reads and writes within one immediate transaction, so
    they wait for one another and never overwrite each other's counts. Raises `StoreError` when the file
    cannot be opened, or is a database of another program or version.
    """

    _counts_of_source = "c.source = s.number"
    _database: Database

    def __init__(self, url: str, *, create: bool = True) -> None:
        self._begin(Database(_path(url), create=create))

    @classmethod
    def open_read_only(cls, url: str) -> SQLiteStore:
        store = cls.__new__(cls)
        store._begin(ReadOnlyDatabase(_path(url)))
        return store

    def _begin(self, database: Database) -> None:
        self._database = database
        self._tasks = {}
        try:
            self._database.require_newest()
        except BaseException:
            self._database.close()
            raise

    @classmethod
    def migrate(cls, url: str, to: int | None, *, dry_run: bool) -> list[Migration]:
        with closing(Database(_path(url), create=False)) as database:
            return database.migrate(to, dry_run=dry_run)

    def _read(self, work: Callable[[Connection], _Result]) -> _Result:
        with self._database.read() as connection:
            return work(connection)

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        with self._database.errors("write to"), self._database.transaction():
            yield self._database.writer

    _changing_long = _changing_counts = _changing  # one thread writes at a time; readers never wait

    def register(self, tasks: Iterable[Task]) -> None:
        with self._database.errors("register tasks in"), self._database.transaction():
            for task in tasks:
                key = bytes.fromhex(task.id)
                self._database.writer.change(REGISTER, id=key, definition=task.to_bytes())
                self._tasks[key] = task

    def open_alone(self, task: Task, *, again: bool) -> bool:
        with self._changing() as connection:
            return self._open_alone(connection, task, again=again)

    def _set_closed(self, task_id: str, statement: str, **values: object) -> bool:
        return self._change(statement, id=bytes.fromhex(task_id), **values) == 1

    def _add(self, batches: Sequence[Batch], *, stage: bool) -> list[Outcome]:
        with self._database.errors("write to"):
            with suppress(_NotAllNew), self._database.transaction():
                self._add_new(batches, stage=stage)
                return [Outcome.COUNTED] * len(batches)
            with self._database.transaction():
                return self._add_each(batches, stage=stage)

    def _add_new(self, batches: Sequence[Batch], *, stage: bool) -> None:
        """Count batches that are all new, which is the case for nearly all groups.

        Raises `_NotAllNew` when a batch is not new, or its task or epoch is closed; the transaction must then
        be rolled back.
        """
        groups: dict[tuple[bytes, int], list[Batch]] = {}
        for batch in batches:
            groups.setdefault((batch.task_id, batch.epoch), []).append(batch)
        for (key, epoch), group in groups.items():
            number, open_from, closed = self._state(key)
            if closed is not None or epoch < open_from:
                raise _NotAllNew
            if self._insert_ids(number, epoch, [batch.batch_id for batch in group]) < len(group):
                raise _NotAllNew
            counts = count_codes([batch.codes for batch in group], self._codes(key))
            self._database.add_counts(number, epoch, counts)
            if stage:
                self._stage(number, epoch, group)

    def _insert_ids(self, number: int, epoch: int, ids: list[bytes]) -> int:
        """Insert the ids that are new; return the number of inserted ids.

        At each statement the writer gives the interpreter to the event loop and must wait to get it back.
        With one statement for many ids, a busy loop does not slow down the writer.
        """
        new = 0
        for start in range(0, len(ids), _MOST_IDS):
            part = ids[start : start + _MOST_IDS]
            # Padded with copies of the last id, so that only a few statements have to be prepared.
            size = 1 << (len(part) - 1).bit_length()
            part += part[-1:] * (size - len(part))
            values = dict(zip(_NAMES, (number, epoch, *part), strict=False))
            new += self._database.writer.execute(_insert_statement(size), values).rowcount
        return new

    def _stage(self, number: int, epoch: int, batches: Sequence[Batch]) -> None:
        """Keep batches of an epoch for the archive, in the transaction that counts them."""
        start, left = 0, len(batches)
        while left:  # few statements of few sizes, as in `_insert_ids`
            size = min(_MOST_STAGED, 1 << (left.bit_length() - 1))
            part = batches[start : start + size]
            values: dict[str, bytes | int] = {"task": number, "epoch": epoch}
            for row, batch in enumerate(part):
                values[f"i{row}"], values[f"c{row}"] = batch.batch_id, batch.codes
            self._database.writer.execute(_stage_statement(size), values)
            start, left = start + size, left - size

    def _add_each(self, batches: Sequence[Batch], *, stage: bool) -> list[Outcome]:
        """Count the batches that are new, in order; return the outcome of each."""
        outcomes: list[Outcome] = []
        states: dict[bytes, tuple[int, int, int | None]] = {}
        groups: dict[tuple[bytes, int], list[Batch]] = {}
        for batch in batches:
            state = states.get(batch.task_id)
            if state is None:
                state = states[batch.task_id] = self._state(batch.task_id)
            number, open_from, closed = state
            if closed is not None or batch.epoch < open_from:
                outcomes.append(Outcome.CLOSED)
            elif self._insert_ids(number, batch.epoch, [batch.batch_id]):
                outcomes.append(Outcome.COUNTED)
                groups.setdefault((batch.task_id, batch.epoch), []).append(batch)
            else:
                outcomes.append(Outcome.REPLAYED)
        for (key, epoch), group in groups.items():
            counts = count_codes([batch.codes for batch in group], self._codes(key))
            self._database.add_counts(states[key][0], epoch, counts)
            if stage:
                self._stage(states[key][0], epoch, group)
        return outcomes

    def _codes(self, key: bytes) -> int:
        return self._tasks[key].mechanism.kernel.codes

    def _state(self, key: bytes) -> tuple[int, int, int | None]:
        """Return a task's number, first open epoch and closing time, as this transaction sees them.

        Raises `KeyError` when the store does not know the task.
        """
        execute = self._database.writer.execute
        row = execute("SELECT number, open_from, closed FROM task WHERE id = ?", (key,)).fetchone()
        if row is None:
            raise KeyError(key.hex())
        if key not in self._tasks:  # another process registered the task
            self._task(key, execute("SELECT definition FROM task WHERE number = ?", (row[0],)).fetchone()[0])
        number, open_from, closed = row
        return number, open_from, closed

    def counts_by_epoch(self, task: Task) -> dict[int, IntArray]:
        found: dict[int, IntArray] = {}
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT epoch, codes, per_code FROM counts JOIN task ON number = task WHERE id = ?"
                " ORDER BY epoch",
                (bytes.fromhex(task.id),),
            ).fetchall()
            for epoch, *row in rows:  # an epoch has a row for servers, and one for each source
                counts = spread(task.mechanism.kernel.codes, *row)
                found[epoch] = found[epoch] + counts if epoch in found else counts
        return found

    def sums(self, task: Task, groups: Mapping[int, int] | None = None, rows: int = 1) -> IntArray:
        total = np.zeros((rows, task.mechanism.kernel.codes), np.int64)
        if groups is None:
            first, last = 0, _LAST_EPOCH
        elif groups:
            first, last = min(groups), max(groups)
        else:
            return total
        with self._database.read() as connection:
            for epoch, *row in connection.execute(
                "SELECT epoch, codes, per_code FROM counts JOIN task ON number = task"
                " WHERE id = ? AND epoch BETWEEN ? AND ? ORDER BY epoch",
                (bytes.fromhex(task.id), first, last),
            ):
                if groups is None or epoch in groups:
                    place, numbers = unpack(*row)
                    total[0 if groups is None else groups[epoch], place] += numbers
        return total

    def prune(self, task: Task, before: int) -> int:
        return upkeep.prune(self._database, task, before)

    def release(self, task: Task, before: int, *, least: int = 1, unsure_before: int = 0) -> Closing:
        with self._database.errors("close epochs in"), closing(self._database.connect()) as connection:
            row = connection.row("SELECT number FROM task WHERE id = :id", id=bytes.fromhex(task.id))
            if row is None:
                raise KeyError(task.id)
            (number,) = row
            if not releases.closes(connection, number, before):
                return Closing()
            with self._database.transaction():
                done = releases.close(self._database.writer, number, before, least, unsure_before)
            # The epochs are now closed for all processes.
            upkeep.forget_ids(self._database, connection, number, before)
        return done

    def _replace_source(
        self,
        name: str,
        counts: Mapping[Cell, IntArray],
        batch_ids: Iterable[tuple[bytes, int, bytes]],
        now: int,
    ) -> SourceReport:
        return sources.replace(self._database, name, counts, batch_ids, now)

    def drop_source(self, name: str, *, closed_too: bool = False) -> int:
        with self._changing() as connection:
            return sources.drop(connection, name, closed_too=closed_too)

    def staged(self, after: int, most: int, most_bytes: int) -> list[Staged]:
        found: list[Staged] = []
        with self._database.read() as connection:
            for number, *fields in connection.execute(
                "SELECT s.number, t.id, s.id, s.epoch, s.codes FROM staged s JOIN task t ON t.number = s.task"
                " WHERE s.number > ? ORDER BY s.number LIMIT ?",
                (after, most),
            ):
                found.append(Staged(number, Batch(*fields)))
                most_bytes -= len(found[-1].batch.codes)
                if most_bytes <= 0:
                    break
        return found

    def unstage(self, numbers: Sequence[int], archive: bytes | None) -> None:
        for start in range(0, len(numbers), _UNSTAGED):
            with self._changing() as connection:
                self._require_archive(connection, archive)
                connection.executemany(
                    "DELETE FROM staged WHERE number = ?", [(n,) for n in numbers[start : start + _UNSTAGED]]
                )

    def archive_id(self, new: bytes | None = None) -> bytes | None:
        with self._changing() as connection:
            if new is not None:
                connection.change("UPDATE state SET archive = :new WHERE archive IS NULL", new=new)
            (found,) = connection.row("SELECT archive FROM state")
        return None if found is None else bytes(found)

    def add_key(self, key: StoredKey) -> None:
        with self._database.errors("add a key to"), self._database.transaction():
            self._add_key(self._database.writer, key, None if key.tasks is None else json.dumps(key.tasks))

    def _tasks_of_key(self, kept: Any) -> Iterable[str]:
        tasks: list[str] = json.loads(kept)
        return tasks

    def revoke_key(self, key_id: str, now: int) -> bool:
        with self._database.errors("revoke a key in"), self._database.transaction():
            return self._revoke_key(self._database.writer, key_id, now)

    def export(self, *, ids: bool) -> Generator[Record, None, None]:
        return transfer.export(self._database, ids=ids)

    def merge(self, records: Iterable[Record], now: int) -> int:
        return transfer.merge(self._database, records, now)

    def try_writing(self) -> None:
        self._database.require_place()
        # On a full disk, an existing log still has room for a small change.
        upkeep.require_room(self._database)
        super().try_writing()

    @property
    def size(self) -> int:
        """Bytes of the file and its write-ahead log."""
        return upkeep.size(self._database)

    @property
    def is_readable_by_others(self) -> bool:
        return os.name == "posix" and bool(self._database.path.stat().st_mode & 0o077)

    def check(self) -> list[str]:
        return upkeep.check(self._database)

    def vacuum(self) -> None:
        upkeep.vacuum(self._database)

    def close(self) -> None:
        """Close both connections; the last process to close moves the write-ahead log into the file."""
        self._database.close()


def _path(url: str) -> Path:
    path = url.removeprefix("sqlite:///")
    if path in {url, "", ":memory:"}:
        raise ParameterError(f"store must be sqlite:///FILE, got {url!r}")
    return Path(path)


@cache
def _insert_statement(ids: int) -> str:
    # IGNORE instead of ON CONFLICT, because a statement that cannot fail half-way needs no journal. Names
    # instead of "?1" twice, because Python 3.12.0 to 3.12.3 would take that for a name, and warn.
    values = ", ".join(f"(:task, :{name}, :epoch)" for name in _NAMES[2 : 2 + ids])
    return f"INSERT OR IGNORE INTO batch (task, id, epoch) VALUES {values}"  # noqa: S608 (numbers)


@cache
def _stage_statement(rows: int) -> str:
    values = ", ".join(f"(:task, :epoch, :i{row}, :c{row})" for row in range(rows))
    return f"INSERT INTO staged (task, epoch, id, codes) VALUES {values}"  # noqa: S608 (numbers)
