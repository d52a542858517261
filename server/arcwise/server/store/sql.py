"""The statements that SQLite and PostgreSQL share, and the store methods that use them."""

from __future__ import annotations

import time
from abc import abstractmethod
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, ClassVar, TypeVar

from arcwise.errors import ParameterError, StoreError
from arcwise.server.store import releases
from arcwise.server.store.base import MOST_SESSIONS
from arcwise.server.store.export import BatchIds, Header, TaskState
from arcwise.server.store.problems import (
    counts_problems,
    key_exists,
    load_task,
    refuse_taken_name,
    task_problems,
    time_problems,
)
from arcwise.server.store.records import DeletedData, StoredAction, StoredKey, StoredSession, StoredTask
from arcwise.server.store.releases import Decided, release_problems
from arcwise.server.store.sources import checked_counts, checked_name, stored_sources
from arcwise.server.store.staging import ROW_BYTES, ArchiveFile, StagedSize, StagingStore

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, Protocol

    from arcwise.server.store.base import Outcome
    from arcwise.server.store.connection import SqlConnection
    from arcwise.server.store.export import Counts, Record
    from arcwise.server.store.records import SourceReport, StoredSource
    from arcwise.server.store.sources import Cell
    from arcwise.tasks import Task
    from arcwise.typing import IntArray
    from arcwise.wire import Batch

    class _Database(Protocol):
        def errors(self, doing: str) -> AbstractContextManager[None]: ...


_Result = TypeVar("_Result")
_LAST = (1 << 63) - 1
REGISTER = (
    "INSERT INTO task (id, definition) SELECT :id, :definition"
    " WHERE NOT EXISTS (SELECT 1 FROM task WHERE id = :id)"
)
_OPEN = "UPDATE task SET closed = NULL WHERE id = :id AND closed IS NOT NULL"


class SqlStore(StagingStore):
    """The operations that have the same statements in both databases; `Store` documents them.

    A subclass provides transactions and locks, and everything that depends on the layout of counts.
    """

    _database: _Database
    _tasks: dict[bytes, Task]
    """Tasks by id. Loading a task checks its certificate, so each task is loaded only once."""
    _counts_of_source: ClassVar[str]
    """The condition that joins a row `c` of counts to its source `s`."""

    @abstractmethod
    def _read(self, work: Callable[[SqlConnection], _Result]) -> _Result:
        """Do work that reads committed data."""

    def _count(self, work: Callable[[SqlConnection], _Result]) -> _Result:
        """Do work that reads counts; this can take seconds."""
        return self._read(work)

    @abstractmethod
    def _changing(self) -> AbstractContextManager[SqlConnection]:
        """Lend a connection in a short transaction that writes."""

    @abstractmethod
    def _changing_long(self) -> AbstractContextManager[SqlConnection]:
        """Like `_changing`, for work that may take long, so that reports do not wait for this work."""

    @abstractmethod
    def _changing_counts(self) -> AbstractContextManager[SqlConnection]:
        """Like `_changing_long`; meanwhile nobody else changes sources or moves counts."""

    def _change(self, statement: str, /, **values: object) -> int:
        """Run one statement that changes something; return the number of changed rows."""
        with self._changing() as connection:
            return connection.change(statement, **values)

    def _rows(self, statement: str, /, **values: object) -> list[Any]:
        return self._read(lambda connection: connection.rows(statement, **values))

    def _row(self, statement: str, /, **values: object) -> Any:
        return self._read(lambda connection: connection.row(statement, **values))

    @cached_property
    def secret(self) -> bytes:
        return bytes(self._row("SELECT secret FROM state")[0])

    # Tasks

    def tasks(self) -> list[StoredTask]:
        rows = self._rows(
            "SELECT id, definition, closed, open_from, (SELECT max(epoch) FROM counts WHERE task = number)"
            " FROM task ORDER BY number"
        )
        with self._database.errors("read"):
            return [StoredTask(self._task(key, definition), *state) for key, definition, *state in rows]

    def _task(self, key: bytes, definition: bytes) -> Task:
        if key not in self._tasks:
            self._tasks[key] = load_task(key, definition)
        return self._tasks[key]

    def close_task(self, task_id: str, now: int) -> bool:
        statement = "UPDATE task SET closed = :now WHERE id = :id AND closed IS NULL"
        return self._set_closed(task_id, statement, now=now)

    def open_task(self, task_id: str) -> bool:
        return self._set_closed(task_id, _OPEN)

    @abstractmethod
    def _set_closed(self, task_id: str, statement: str, **values: object) -> bool:
        """Run a statement that closes or opens a task while nobody adds; return whether it changed a task."""

    def _open_alone(self, connection: SqlConnection, task: Task, *, again: bool) -> bool:
        """Implement `open_alone` within a transaction in which nobody else opens a task."""
        key = bytes.fromhex(task.id)
        opened = connection.rows("SELECT id, definition FROM task WHERE closed IS NULL")
        refuse_taken_name(task, (self._task(*row) for row in opened))
        self._tasks[key] = task
        if again:
            return connection.change(_OPEN, id=key) == 1
        return connection.change(REGISTER, id=key, definition=task.to_bytes()) == 1

    # Counts

    def add(self, batches: Sequence[Batch]) -> list[Outcome]:
        return self._add(batches, stage=False)

    def add_staged(self, batches: Sequence[Batch]) -> list[Outcome]:
        return self._add(batches, stage=True)

    @abstractmethod
    def _add(self, batches: Sequence[Batch], *, stage: bool) -> list[Outcome]: ...

    def reports_by_epoch(
        self, task: Task, first: int | None = None, last: int | None = None
    ) -> dict[int, int]:
        return self._count(
            lambda connection: dict(
                connection.rows(
                    "SELECT epoch, cast(sum(reports) AS bigint) FROM counts"
                    " WHERE task = (SELECT number FROM task WHERE id = :id)"
                    " AND epoch BETWEEN :first AND :last GROUP BY epoch ORDER BY epoch",
                    id=bytes.fromhex(task.id),
                    first=first or 0,
                    last=_LAST if last is None else last,
                )
            )
        )

    def report_count(self, task: Task) -> int:
        return self.revision(task)[0]

    def revision(self, task: Task) -> tuple[int, int]:
        reports, replaced = self._row(
            "SELECT cast(coalesce(sum(reports), 0) AS bigint), (SELECT replaced FROM state) FROM total"
            " WHERE task = (SELECT number FROM task WHERE id = :id)",
            id=bytes.fromhex(task.id),
        )
        with self._database.errors("read"):
            return int(reports), int(replaced)

    def decided(self, task: Task) -> Decided:
        row = self._row(
            "SELECT before, changes FROM decided WHERE task = (SELECT number FROM task WHERE id = :id)",
            id=bytes.fromhex(task.id),
        )
        return Decided(0, 0) if row is None else Decided(*row)

    def released(self, task: Task, first: int | None = None, last: int | None = None) -> dict[int, int]:
        rows = self._rows(
            "SELECT epoch, reports FROM released WHERE task = (SELECT number FROM task WHERE id = :id)"
            " AND epoch BETWEEN :first AND :last ORDER BY epoch",
            id=bytes.fromhex(task.id),
            first=first or 0,
            last=_LAST if last is None else last,
        )
        return dict(rows)

    def delete_data(self, task_id: str) -> DeletedData:
        with self._changing_counts() as connection:
            # Nobody adds reports to a closed task.
            row = connection.row(
                "SELECT number, closed, open_from FROM task WHERE id = :id FOR NO KEY UPDATE",
                id=bytes.fromhex(task_id),
            )
            if row is None:
                raise ParameterError(f"the store has no task {task_id}")
            number, closed, open_from = row
            if closed is None:
                raise ParameterError(
                    f"task {task_id} is open: close it first, so that no reports arrive meanwhile"
                )
            *deleted, counted, known = connection.row(
                "SELECT (SELECT cast(coalesce(sum(reports), 0) AS bigint) FROM total WHERE task = :task),"
                " (SELECT count(*) FROM batch WHERE task = :task),"
                " (SELECT count(*) FROM staged WHERE task = :task),"
                " (SELECT max(epoch) FROM counts WHERE task = :task),"
                " (SELECT max(epoch) FROM batch WHERE task = :task)",
                task=number,
            )
            newest = max(epoch for epoch in (-1, counted, known) if epoch is not None)
            connection.change(
                "UPDATE task SET open_from = :open_from WHERE number = :task",
                task=number,
                open_from=max(open_from, newest + 1),
            )
            for table in ("counts", "total", "batch", "staged", "archive_file", "released"):
                connection.change(f"DELETE FROM {table} WHERE task = :task", task=number)  # noqa: S608 (our table)
            connection.change("UPDATE decided SET changes = changes + 1 WHERE task = :task", task=number)
            connection.change("UPDATE state SET replaced = replaced + 1")
        return DeletedData(*deleted)

    # Sources

    def replace_source(
        self,
        name: str,
        counts: Mapping[tuple[bytes, int], IntArray],
        batch_ids: Iterable[tuple[bytes, int, bytes]],
        *,
        now: int | None = None,
    ) -> SourceReport:
        now = int(time.time()) if now is None else now
        checked = checked_counts(counts, self.tasks(), now)
        return self._replace_source(checked_name(name), checked, batch_ids, now)

    @abstractmethod
    def _replace_source(
        self,
        name: str,
        counts: Mapping[Cell, IntArray],
        batch_ids: Iterable[tuple[bytes, int, bytes]],
        now: int,
    ) -> SourceReport: ...

    def sources(self) -> list[StoredSource]:
        statement = (
            "SELECT s.name, s.replaced, t.id, min(c.epoch), max(c.epoch), count(DISTINCT c.epoch),"  # noqa: S608
            f" sum(c.reports) FROM source s LEFT JOIN counts c ON {self._counts_of_source}"
            " LEFT JOIN task t ON t.number = c.task GROUP BY s.number, t.number ORDER BY t.number"
        )
        rows = self._count(lambda connection: connection.rows(statement))
        with self._database.errors("read"):
            return sorted(stored_sources(rows), key=lambda source: source.name)

    # Batches that wait for an archive

    def staged_size(self) -> StagedSize:
        batches, codes = self._row(
            "SELECT count(*), cast(coalesce(sum(length(codes)), 0) AS bigint) FROM staged"
        )
        return StagedSize(batches, codes + ROW_BYTES * batches)

    def begin_files(self, files: Iterable[ArchiveFile], archive: bytes | None) -> None:
        with self._changing_long() as connection:
            self._require_archive(connection, archive)
            connection.change_each(
                "INSERT INTO archive_file (name, task, epoch)"
                " SELECT :name, number, :epoch FROM task WHERE id = :task_id",
                [file._asdict() for file in files],
            )

    def begun_files(self) -> list[ArchiveFile]:
        rows = self._rows("SELECT name, id, epoch FROM archive_file JOIN task ON number = task")
        with self._database.errors("read"):
            return [ArchiveFile(*row) for row in rows]

    def end_files(self, archive: bytes | None) -> None:
        with self._changing_long() as connection:
            self._require_archive(connection, archive)
            connection.change("DELETE FROM archive_file")

    def _require_archive(self, connection: SqlConnection, archive: bytes | None) -> None:
        """Raise `StoreError` unless this is the archive's id, which then stays until the transaction ends."""
        (found,) = connection.row("SELECT archive FROM state FOR SHARE")
        if found != archive:
            raise StoreError(
                "the store has forgotten this archive (`arcwise store forget-archive`), and its batches go "
                "to another archive: restart this worker with the folder of the new archive"
            )

    def forget_archive(self, *, begun_too: bool = True) -> bool:
        with self._changing_long() as connection:
            connection.row("SELECT 1 FROM state FOR UPDATE")  # locks, so that nobody begins a file
            (begun,) = connection.row("SELECT count(*) FROM archive_file")
            if begun and not begun_too:
                return False
            connection.change("UPDATE state SET archive = NULL")
            connection.change("DELETE FROM archive_file")
        return True

    # Keys

    def keys(self) -> list[StoredKey]:
        rows = self._rows(
            "SELECT id, digest, scope, tasks, label, created, revoked FROM api_key ORDER BY created, id"
        )
        return [
            StoredKey(name, digest, scope, None if kept is None else tuple(self._tasks_of_key(kept)), *rest)
            for name, digest, scope, kept, *rest in rows
        ]

    @abstractmethod
    def _tasks_of_key(self, kept: Any) -> Iterable[str]:
        """Return the ids of the tasks that are stored with a key."""

    def _add_key(self, connection: SqlConnection, key: StoredKey, kept: object) -> None:
        """Store a key, with the ids of its tasks in this database's format."""
        added = connection.change(
            "INSERT INTO api_key (id, digest, scope, tasks, label, created, revoked)"
            " VALUES (:id, :digest, :scope, :tasks, :label, :created, :revoked) ON CONFLICT DO NOTHING",
            **{**vars(key), "tasks": kept},
        )
        if not added:
            raise key_exists(key)

    def _revoke_key(self, connection: SqlConnection, key_id: str, now: int) -> bool:
        revoked = connection.change(
            "UPDATE api_key SET revoked = :now WHERE id = :id AND revoked IS NULL", id=key_id, now=now
        )
        connection.change("DELETE FROM session WHERE api_key = :id", id=key_id)
        return revoked == 1

    # The clock, sessions, the audit log, and stored numbers

    def clock(self) -> int | None:
        (clock,) = self._row("SELECT clock FROM state")
        return None if clock is None else int(clock)

    def advance_clock(self, to: int, *, reset: bool = False) -> int:
        with self._changing() as connection:
            connection.change(
                "UPDATE state SET clock = :to WHERE :reset OR clock IS NULL OR clock < :to",
                to=to,
                reset=reset,
            )
            return int(connection.row("SELECT clock FROM state")[0])

    def add_session(self, session: StoredSession) -> None:
        with self._changing() as connection:
            connection.change(
                "INSERT INTO session (digest, api_key, created, seen, ends)"
                " VALUES (:digest, :key_id, :created, :seen, :ends)",
                **vars(session),
            )
            # Two simultaneous logins with one key may both leave one session too many; the next login ends
            # it.
            connection.change(
                "DELETE FROM session WHERE api_key = :key AND digest NOT IN ("
                "SELECT digest FROM session WHERE api_key = :key"
                " ORDER BY digest = :digest DESC, created DESC, digest LIMIT :most)",
                key=session.key_id,
                digest=session.digest,
                most=MOST_SESSIONS,
            )

    def session(self, digest: bytes) -> StoredSession | None:
        row = self._row(
            "SELECT digest, api_key, created, seen, ends FROM session WHERE digest = :digest", digest=digest
        )
        return None if row is None else StoredSession(*row)

    def see_session(self, digest: bytes, now: int) -> None:
        self._change(
            "UPDATE session SET seen = :now WHERE digest = :digest AND seen < :now", digest=digest, now=now
        )

    def end_session(self, digest: bytes) -> bool:
        return self._change("DELETE FROM session WHERE digest = :digest", digest=digest) == 1

    def prune_sessions(self, now: int, idle_seconds: int) -> int:
        return self._change(
            "DELETE FROM session WHERE ends <= :now OR seen <= :idle", now=now, idle=now - idle_seconds
        )

    def begin_action(self, action: StoredAction) -> int:
        with self._changing() as connection:
            return connection.insert(
                "INSERT INTO action (time, api_key, action, subject, outcome)"
                " VALUES (:time, :key_id, :action, :subject, :outcome)",
                **vars(action),
            )

    def end_action(self, number: int, outcome: str) -> None:
        self._change(
            "UPDATE action SET outcome = :outcome WHERE number = :number", number=number, outcome=outcome
        )

    def actions(self, most: int, before: int | None = None) -> list[tuple[int, StoredAction]]:
        rows = self._rows(
            "SELECT number, time, api_key, action, subject, outcome FROM action"
            " WHERE number < :before ORDER BY number DESC LIMIT :most",
            before=_LAST if before is None else before,
            most=most,
        )
        return [(number, StoredAction(*row)) for number, *row in rows]

    def prune_actions(self, before: int) -> int:
        return self._change("DELETE FROM action WHERE time < :before", before=before)

    def remember(self, name: str, value: int) -> None:
        self._change(
            "INSERT INTO remembered (name, value) VALUES (:name, :value)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            name=name,
            value=value,
        )

    def recall(self, name: str) -> int | None:
        row = self._row("SELECT value FROM remembered WHERE name = :name", name=name)
        return None if row is None else int(row[0])


def exported(
    connection: SqlConnection,
    counts: Callable[[int, Task], Iterable[Counts]],
    id_chunks: Callable[[int], Iterable[list[tuple[int, str, bytes]]]] | None,
) -> Generator[Record, None, None]:
    """Yield the records of `Store.export`, in a transaction that sees one moment.

    `counts` returns the counts of a task, by its number. `id_chunks` returns a row for each batch of the
    task, some thousand at a time: epoch, source ("" for servers) and id.
    """
    origins = connection.rows("SELECT id FROM origin ORDER BY own DESC, id")
    (reports,) = connection.row("SELECT cast(coalesce(sum(reports), 0) AS bigint) FROM total")
    sources = sorted(connection.rows("SELECT name, replaced FROM source"))
    (clock,) = connection.row("SELECT CASE WHEN EXISTS (SELECT 1 FROM decided) THEN clock END FROM state")
    yield Header(
        tuple(origin for (origin,) in origins), reports, id_chunks is not None, tuple(sources), clock
    )
    for number, key, definition, closed, open_from in connection.rows(
        "SELECT number, id, definition, closed, open_from FROM task ORDER BY number"
    ):
        task = load_task(key, definition)
        yield TaskState(task, closed, open_from, *releases.state(connection, number))
        yield from counts(number, task)
        for chunk in id_chunks(number) if id_chunks is not None else ():
            for (epoch, source), members in groupby(sorted(chunk), itemgetter(0, 1)):
                yield BatchIds(epoch, [batch_id for *_, batch_id in members], source or None)


def checked_tasks(
    connection: SqlConnection, counts: Callable[[int, Task, list[str]], Iterable[tuple[int, IntArray]]]
) -> list[str]:
    """Return the problems of tasks, their counts and releases, in a transaction that sees one moment.

    `counts` yields the epochs of a task, by its number, with their counts, and adds the problems of its rows
    to the list that it is given.
    """
    # Numbers of PostgreSQL come as decimals, because they may be out of the range of a bigint.
    totals = dict(connection.rows("SELECT task, sum(reports) FROM total GROUP BY task"))
    problems: list[str] = []
    for number, key, closed, open_from, definition in connection.rows(
        "SELECT number, id, closed, open_from, definition FROM task"
    ):
        task, found = task_problems(key, definition)
        problems += found
        if task is not None:
            rows = connection.rows(
                "SELECT epoch, sum(reports) FROM counts WHERE task = :task GROUP BY epoch", task=number
            )
            reports = {epoch: int(n) for epoch, n in rows}
            problems += release_problems(task, open_from, *releases.state(connection, number), reports)
            problems += time_problems(task, closed, open_from, max(reports, default=None), time.time())
            problems += counts_problems(task, counts(number, task, problems), int(totals.get(number, 0)))
    return problems
