"""The embedded store: one SQLite file in WAL mode, synchronous=FULL."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from contextlib import closing, suppress
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from arcwise.errors import ParameterError, StoreError
from arcwise.server.store.base import Outcome
from arcwise.server.store.counting import count_codes
from arcwise.server.store.problems import key_exists, load_task, refuse_taken_name
from arcwise.server.store.records import StoredKey, StoredTask
from arcwise.server.store.sources import checked_counts, checked_name
from arcwise.server.store.sqlite import access, releases, sources, staging, transfer, upkeep
from arcwise.server.store.sqlite.database import Database
from arcwise.server.store.sqlite.read_only import ReadOnlyDatabase
from arcwise.server.store.sqlite.rows import spread, unpack
from arcwise.server.store.staging import StagingStore

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from arcwise.server.store.export import Record
    from arcwise.server.store.migrations import Migration
    from arcwise.server.store.records import (
        DeletedData,
        SourceReport,
        StoredAction,
        StoredSession,
        StoredSource,
    )
    from arcwise.server.store.releases import Closing, Decided
    from arcwise.server.store.staging import ArchiveFile, Staged, StagedSize
    from arcwise.tasks import Task
    from arcwise.typing import IntArray
    from arcwise.wire import Batch

_LAST_EPOCH = (1 << 63) - 1
_MOST_IDS = 512
"""Of one statement: SQLite before 3.32 takes 999 variables."""
_REGISTER = "INSERT INTO task (id, definition) VALUES (?, ?) ON CONFLICT DO NOTHING"
_NAMES = ("task", "epoch", *(f"id{number}" for number in range(_MOST_IDS)))
"""Of its variables."""


class _NotAllNew(Exception):  # noqa: N818 (a way out of a transaction, not an error)
    pass


class SQLiteStore(StagingStore):
    """Counts in a SQLite file, which is made if missing unless `create` is False.

    Several processes may open one file: every change reads and writes within one immediate transaction, so
    they wait for one another and never overwrite one another's counts. Raises `StoreError` when the file
    cannot be opened, or is a database of another program or version.
    """

    def __init__(self, url: str, *, create: bool = True) -> None:
        self._begin(Database(_path(url), create=create))

    @classmethod
    def open_read_only(cls, url: str) -> SQLiteStore:
        """Open a file that exists, and write nothing; see `Store.open_read_only`."""
        store = cls.__new__(cls)
        store._begin(ReadOnlyDatabase(_path(url)))
        return store

    def _begin(self, database: Database) -> None:
        self._database = database
        self._tasks: dict[bytes, Task] = {}  # loading one checks its certificate: once is enough
        try:
            self._database.require_newest()
        except BaseException:
            self._database.close()
            raise

    @classmethod
    def migrate(cls, url: str, to: int | None, *, dry_run: bool) -> list[Migration]:
        """Bring a file to a newer schema; see `Store.migrate`."""
        with closing(Database(_path(url), create=False)) as database:
            return database.migrate(to, dry_run=dry_run)

    @cached_property
    def secret(self) -> bytes:
        """The store's own 32 random bytes; see `Store.secret`."""
        with self._database.read() as connection:
            (secret,) = connection.execute("SELECT secret FROM state").fetchone()
        return bytes(secret)

    def register(self, tasks: Iterable[Task]) -> None:
        """Make the tasks known; see `Store.register`."""
        with self._database.errors("register tasks in"), self._database.transaction():
            for task in tasks:
                key = bytes.fromhex(task.id)
                self._database.writer.execute(_REGISTER, (key, task.to_bytes()))
                self._tasks[key] = task

    def tasks(self) -> list[StoredTask]:
        """Return every task; see `Store.tasks`."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT id, definition, closed, open_from,"
                " (SELECT max(epoch) FROM counts WHERE task = number) FROM task ORDER BY number"
            ).fetchall()
            return [StoredTask(self._task(key, definition), *state) for key, definition, *state in rows]

    def _task(self, key: bytes, definition: bytes) -> Task:
        if key not in self._tasks:
            self._tasks[key] = load_task(key, definition)
        return self._tasks[key]

    def close_task(self, task_id: str, now: int) -> bool:
        """Take no more reports of a task; see `Store.close_task`."""
        return self._set_closed("UPDATE task SET closed = ? WHERE id = ? AND closed IS NULL", now, task_id)

    def open_task(self, task_id: str) -> bool:
        """Take reports of a closed task again; see `Store.open_task`."""
        return self._set_closed(
            "UPDATE task SET closed = ? WHERE id = ? AND closed IS NOT NULL", None, task_id
        )

    def open_alone(self, task: Task, *, again: bool) -> bool:
        """Open a task unless another open one has its name; see `Store.open_alone`."""
        key = bytes.fromhex(task.id)
        with self._database.errors("write to"), self._database.transaction():
            execute = self._database.writer.execute
            opened = execute("SELECT id, definition FROM task WHERE closed IS NULL").fetchall()
            refuse_taken_name(task, (self._task(*row) for row in opened))
            if again:
                cursor = execute("UPDATE task SET closed = NULL WHERE id = ? AND closed IS NOT NULL", (key,))
            else:
                cursor = execute(_REGISTER, (key, task.to_bytes()))
            self._tasks[key] = task
        return cursor.rowcount == 1

    def _set_closed(self, statement: str, closed: int | None, task_id: str) -> bool:
        with self._database.errors("write to"), self._database.transaction():
            cursor = self._database.writer.execute(statement, (closed, bytes.fromhex(task_id)))
        return cursor.rowcount == 1

    def add(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Count the batches whose id is new, durably, all or none; see `Store.add`."""
        return self._add(batches, stage=False)

    def _add(self, batches: Sequence[Batch], *, stage: bool) -> list[Outcome]:
        with self._database.errors("write to"):
            with suppress(_NotAllNew), self._database.transaction():
                self._add_new(batches, stage=stage)
                return [Outcome.COUNTED] * len(batches)
            with self._database.transaction():
                return self._add_each(batches, stage=stage)

    def _add_new(self, batches: Sequence[Batch], *, stage: bool) -> None:
        """Count batches that are all new, as those of nearly all groups are.

        Raises `_NotAllNew` when some are not, or their task or epoch is closed; the transaction must then be
        undone.
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
                staging.stage(self._database, number, epoch, group)

    def _insert_ids(self, number: int, epoch: int, ids: list[bytes]) -> int:
        """Insert those of the ids that are new; return how many.

        The interpreter goes to the event loop at each statement and must be waited for afterwards: one
        statement for a thousand ids is what keeps a busy loop from slowing down the writer.
        """
        new = 0
        for start in range(0, len(ids), _MOST_IDS):
            part = ids[start : start + _MOST_IDS]
            # Filled up with one that is known by then, so that few statements have to be prepared.
            size = 1 << (len(part) - 1).bit_length()
            part += part[-1:] * (size - len(part))
            values = dict(zip(_NAMES, (number, epoch, *part), strict=False))
            new += self._database.writer.execute(_insert_statement(size), values).rowcount
        return new

    def _add_each(self, batches: Sequence[Batch], *, stage: bool) -> list[Outcome]:
        """Count those of the batches that are new, in their order; return what became of each."""
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
                staging.stage(self._database, states[key][0], epoch, group)
        return outcomes

    def _codes(self, key: bytes) -> int:
        return self._tasks[key].mechanism.kernel.codes

    def _state(self, key: bytes) -> tuple[int, int, int | None]:
        """Return a task's number, first open epoch and closing time, as of this transaction.

        Raises `KeyError` when the store does not know the task.
        """
        execute = self._database.writer.execute
        row = execute("SELECT number, open_from, closed FROM task WHERE id = ?", (key,)).fetchone()
        if row is None:
            raise KeyError(key.hex())
        if key not in self._tasks:  # another process registered it
            self._task(key, execute("SELECT definition FROM task WHERE number = ?", (row[0],)).fetchone()[0])
        number, open_from, closed = row
        return number, open_from, closed

    def counts_by_epoch(self, task: Task) -> dict[int, IntArray]:
        """Return the number of reports per code for every epoch; see `Store.counts_by_epoch`."""
        found: dict[int, IntArray] = {}
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT epoch, codes, per_code FROM counts JOIN task ON number = task WHERE id = ?"
                " ORDER BY epoch",
                (bytes.fromhex(task.id),),
            ).fetchall()
            for epoch, *row in rows:  # an epoch has a row for the server, and one for each source
                counts = spread(task.mechanism.kernel.codes, *row)
                found[epoch] = found[epoch] + counts if epoch in found else counts
        return found

    def reports_by_epoch(
        self, task: Task, first: int | None = None, last: int | None = None
    ) -> dict[int, int]:
        """Return the number of reports of every epoch; see `Store.reports_by_epoch`."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT epoch, sum(reports) FROM counts JOIN task ON number = task"
                " WHERE id = ? AND epoch BETWEEN ? AND ? GROUP BY epoch ORDER BY epoch",
                (bytes.fromhex(task.id), first or 0, _LAST_EPOCH if last is None else last),
            ).fetchall()
        return dict(rows)

    def sums(self, task: Task, groups: Mapping[int, int] | None = None, rows: int = 1) -> IntArray:
        """Return the reports per code of groups of epochs; see `Store.sums`."""
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

    def report_count(self, task: Task) -> int:
        """Return the number of reports counted so far; see `Store.report_count`."""
        return self.revision(task)[0]

    def revision(self, task: Task) -> tuple[int, int]:
        """Return two numbers that stand for the counts of a task; see `Store.revision`."""
        with self._database.read() as connection:
            reports, replaced = connection.execute(
                "SELECT coalesce(sum(reports), 0), (SELECT replaced FROM state) FROM total"
                " JOIN task ON number = task WHERE id = ?",
                (bytes.fromhex(task.id),),
            ).fetchone()
            return int(reports), int(replaced)

    def prune(self, task: Task, before: int) -> int:
        """Forget the ids of batches of old epochs; see `Store.prune`."""
        return upkeep.prune(self._database, task, before)

    def release(self, task: Task, before: int, *, least: int = 1, unsure_before: int = 0) -> Closing:
        """Close epochs, and decide which are released; see `Store.release`."""
        return upkeep.release(self._database, task, before, least=least, unsure_before=unsure_before)

    def decided(self, task: Task) -> Decided:
        """Return how far it is decided what is released; see `Store.decided`."""
        return releases.decided(self._database, task)

    def released(self, task: Task, first: int | None = None, last: int | None = None) -> dict[int, int]:
        """Return the reports of released epochs; see `Store.released`."""
        return releases.released(self._database, task, first, last)

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
        return sources.replace(self._database, checked_name(name), checked, batch_ids, now)

    def sources(self) -> list[StoredSource]:
        """Return the sources; see `Store.sources`."""
        return sources.stored(self._database)

    def drop_source(self, name: str, *, closed_too: bool = False) -> int:
        """Forget a source; see `Store.drop_source`."""
        return sources.drop(self._database, name, closed_too=closed_too)

    def delete_data(self, task_id: str) -> DeletedData:
        """Delete what was reported to a closed task; see `Store.delete_data`."""
        return upkeep.delete_data(self._database, task_id)

    def add_staged(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Do as `add`, and keep what is counted for the archive; see `StagingStore.add_staged`."""
        return self._add(batches, stage=True)

    def staged(self, after: int, most: int, most_bytes: int) -> list[Staged]:
        """Return batches that wait for the archive; see `StagingStore.staged`."""
        return staging.staged(self._database, after, most, most_bytes)

    def staged_size(self) -> StagedSize:
        """Return how much waits for the archive; see `StagingStore.staged_size`."""
        return staging.staged_size(self._database)

    def unstage(self, numbers: Sequence[int], archive: bytes | None) -> None:
        """Forget batches that are in a file; see `StagingStore.unstage`."""
        staging.unstage(self._database, numbers, archive)

    def begin_files(self, files: Iterable[ArchiveFile], archive: bytes | None) -> None:
        """Take note of files that are about to be; see `StagingStore.begin_files`."""
        staging.begin_files(self._database, files, archive)

    def begun_files(self) -> list[ArchiveFile]:
        """Return the files that were begun; see `StagingStore.begun_files`."""
        return staging.begun_files(self._database)

    def end_files(self, archive: bytes | None) -> None:
        """Take note that no file is being written; see `StagingStore.end_files`."""
        staging.end_files(self._database, archive)

    def archive_id(self, new: bytes | None = None) -> bytes | None:
        """Return the id of the archive's folder; see `StagingStore.archive_id`."""
        return staging.archive_id(self._database, new)

    def forget_archive(self, *, begun_too: bool = True) -> bool:
        """Forget the archive's folder; see `StagingStore.forget_archive`."""
        return staging.forget_archive(self._database, begun_too=begun_too)

    def clock(self) -> int | None:
        """Return the latest time that a server believed; see `Store.clock`."""
        with self._database.read() as connection:
            (clock,) = connection.execute("SELECT clock FROM state").fetchone()
        return None if clock is None else int(clock)

    def advance_clock(self, to: int, *, reset: bool = False) -> int:
        """Remember a time that was believed; see `Store.advance_clock`."""
        with self._database.errors("write to"), self._database.transaction():
            execute = self._database.writer.execute
            earlier = "0" if reset else "coalesce(clock, 0)"
            execute(f"UPDATE state SET clock = max({earlier}, ?)", (to,))  # noqa: S608 (a word of ours)
            (clock,) = execute("SELECT clock FROM state").fetchone()
        return int(clock)

    def add_key(self, key: StoredKey) -> None:
        """Keep a key; see `Store.add_key`."""
        tasks = None if key.tasks is None else json.dumps(key.tasks)
        try:
            with self._database.errors("add a key to"), self._database.transaction():
                self._database.writer.execute(
                    "INSERT INTO api_key (id, digest, scope, tasks, label, created, revoked)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (key.id, key.digest, key.scope, tasks, key.label, key.created, key.revoked),
                )
        except StoreError as error:
            if isinstance(error.__cause__, sqlite3.IntegrityError):
                raise key_exists(key) from None
            raise

    def keys(self) -> list[StoredKey]:
        """Return all keys; see `Store.keys`."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT id, digest, scope, tasks, label, created, revoked FROM api_key ORDER BY created, id"
            ).fetchall()
        return [
            StoredKey(name, digest, scope, None if tasks is None else tuple(json.loads(tasks)), *rest)
            for name, digest, scope, tasks, *rest in rows
        ]

    def revoke_key(self, key_id: str, now: int) -> bool:
        """Make a key useless; see `Store.revoke_key`."""
        with self._database.errors("revoke a key in"), self._database.transaction():
            cursor = self._database.writer.execute(
                "UPDATE api_key SET revoked = ? WHERE id = ? AND revoked IS NULL", (now, key_id)
            )
            self._database.writer.execute("DELETE FROM session WHERE api_key = ?", (key_id,))
        return cursor.rowcount == 1

    def add_session(self, session: StoredSession) -> None:
        """Keep a session; see `Access.add_session`."""
        access.add_session(self._database, session)

    def session(self, digest: bytes) -> StoredSession | None:
        """Return a session; see `Access.session`."""
        return access.session(self._database, digest)

    def see_session(self, digest: bytes, now: int) -> None:
        """Note that a session was used; see `Access.see_session`."""
        access.see_session(self._database, digest, now)

    def end_session(self, digest: bytes) -> bool:
        """Forget a session; see `Access.end_session`."""
        return access.end_session(self._database, digest)

    def prune_sessions(self, now: int, idle_seconds: int) -> int:
        """Forget the sessions that are over; see `Access.prune_sessions`."""
        return access.prune_sessions(self._database, now, idle_seconds)

    def begin_action(self, action: StoredAction) -> int:
        """Write an entry into the audit log; see `Access.begin_action`."""
        return access.begin_action(self._database, action)

    def end_action(self, number: int, outcome: str) -> None:
        """Note what became of an action; see `Access.end_action`."""
        access.change(self._database, "UPDATE action SET outcome = ? WHERE number = ?", outcome, number)

    def actions(self, most: int, before: int | None = None) -> list[tuple[int, StoredAction]]:
        """Return entries of the audit log; see `Access.actions`."""
        return access.actions(self._database, most, before)

    def prune_actions(self, before: int) -> int:
        """Forget old entries of the audit log; see `Access.prune_actions`."""
        return access.change(self._database, "DELETE FROM action WHERE time < ?", before)

    def remember(self, name: str, value: int) -> None:
        """Remember a number; see `Access.remember`."""
        access.remember(self._database, name, value)

    def recall(self, name: str) -> int | None:
        """Return a number that is remembered; see `Access.recall`."""
        return access.recall(self._database, name)

    def export(self, *, ids: bool) -> Generator[Record, None, None]:
        """Yield tasks and counts; see `Store.export`."""
        return transfer.export(self._database, ids=ids)

    def merge(self, records: Iterable[Record], now: int) -> int:
        """Add what another store exported; see `Store.merge`."""
        return transfer.merge(self._database, records, now)

    def try_writing(self) -> None:
        """Write something small, where there is room for more; see `Store.try_writing`."""
        self._database.require_place()
        # A log that is there takes a small change on a full disk, too.
        upkeep.require_room(self._database)
        super().try_writing()

    @property
    def size(self) -> int:
        """Bytes of the file and its write-ahead log."""
        return upkeep.size(self._database)

    @property
    def is_readable_by_others(self) -> bool:
        """Whether the file's mode lets its group or everybody in; see `Store.is_readable_by_others`."""
        return os.name == "posix" and bool(self._database.path.stat().st_mode & 0o077)

    def check(self) -> list[str]:
        """Return what is wrong with the store; see `Store.check`."""
        return upkeep.check(self._database)

    def vacuum(self) -> None:
        """Give space back to the file system; see `Store.vacuum`."""
        upkeep.vacuum(self._database)

    def close(self) -> None:
        """Close both connections; the last one to close folds the write-ahead log into the file."""
        self._database.close()


def _path(url: str) -> Path:
    path = url.removeprefix("sqlite:///")
    if path in {url, "", ":memory:"}:
        raise ParameterError(f"store must be sqlite:///FILE, got {url!r}")
    return Path(path)


@cache
def _insert_statement(ids: int) -> str:
    # IGNORE on the whole statement, not ON CONFLICT: what cannot fail half-way keeps no journal of its own.
    # Not "?1" twice: Python 3.12.0 to 3.12.3 take it for a name, and warn.
    values = ", ".join(f"(:task, :{name}, :epoch)" for name in _NAMES[2 : 2 + ids])
    return f"INSERT OR IGNORE INTO batch (task, id, epoch) VALUES {values}"  # noqa: S608 (numbers)
