"""The embedded store: one SQLite file in WAL mode, synchronous=FULL."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from arcwise.errors import StoreError
from arcwise.server.store.base import Outcome, Store
from arcwise.wire import code_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from arcwise.tasks import Task
    from arcwise.wire import Batch

__all__ = ["SQLiteStore"]

_SCHEMA_VERSION = 1
_BUSY_SECONDS = 10.0
_SLICE = 1 << 18


class SQLiteStore(Store):
    """Counts in a SQLite file; made when it does not exist, unless `create` is False.

    Several processes may open one file: every change reads and writes within one immediate transaction, so
    they wait for one another and never overwrite one another's counts.

    Raises
    ------
    StoreError
        When the file cannot be opened, or is a database of another program or version.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        if not create and not path.exists():
            raise StoreError(f"there is no store at {path}")
        self._path = path
        self._numbers: dict[bytes, tuple[int, int]] = {}  # task id -> (number, K)
        self._reading = threading.Lock()
        with self._errors("open"):
            self._writer = self._connect()
            try:
                self._prepare()
                self._reader = self._connect()
            except BaseException:
                self._writer.close()
                raise

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )

    def _prepare(self) -> None:
        # FULL: a commit returns only after the write-ahead log is on the disk.
        self._writer.execute("PRAGMA synchronous = FULL")
        version, tables = self._state()
        if version == 0:
            if tables:
                raise StoreError(f"{self._path} is a SQLite database, but not one of arcwise")
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._create()
        elif version != _SCHEMA_VERSION:
            raise StoreError(
                f"{self._path} has schema {version}; this arcwise knows schema {_SCHEMA_VERSION}"
            )

    def _state(self) -> tuple[int, int]:
        """Return the schema version and the number of tables, both of one moment."""
        self._writer.execute("BEGIN")
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        (tables,) = self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()
        self._writer.execute("COMMIT")
        return version, tables

    def _create(self) -> None:
        schema = files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")
        # One transaction: a crash leaves no half schema, and of two processes that start at the same moment
        # the second finds the version set.
        with self._transaction():
            (version,) = self._writer.execute("PRAGMA user_version").fetchone()
            if version == 0:
                for statement in _statements(schema):
                    self._writer.execute(statement)
                self._writer.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"cannot {doing} {self._path}: {error}") from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._writer.execute("COMMIT")
        except BaseException:
            # A failed COMMIT (disk full) may or may not have ended the transaction already.
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    def register(self, tasks: Iterable[Task]) -> None:
        """Make the tasks known; see `Store.register`."""
        with self._errors("register tasks in"), self._transaction():
            for task in tasks:
                key = bytes.fromhex(task.id)
                self._writer.execute(
                    "INSERT INTO task (id, definition) VALUES (?, ?) ON CONFLICT DO NOTHING",
                    (key, task.to_bytes()),
                )
                (number,) = self._writer.execute("SELECT number FROM task WHERE id = ?", (key,)).fetchone()
                self._numbers[key] = number, task.mechanism.kernel.codes

    def add(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Count the batches whose id is new, durably, all or none; see `Store.add`."""
        outcomes: list[Outcome] = []
        groups: dict[tuple[int, int, int], list[bytes]] = {}
        with self._errors("write to"), self._transaction():
            execute = self._writer.execute
            open_from = dict(execute("SELECT number, open_from FROM task").fetchall())
            for batch in batches:
                number, codes = self._numbers[batch.task_id]
                if batch.epoch < open_from[number]:
                    outcomes.append(Outcome.CLOSED)
                    continue
                cursor = execute(
                    "INSERT INTO batch (task, id, epoch) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                    (number, batch.batch_id, batch.epoch),
                )
                if cursor.rowcount == 0:
                    outcomes.append(Outcome.REPLAYED)
                else:
                    outcomes.append(Outcome.COUNTED)
                    groups.setdefault((number, batch.epoch, codes), []).append(batch.codes)
            for (number, epoch, codes), packed in groups.items():
                counts = _count(packed, codes)
                row = execute(
                    "SELECT codes FROM counts WHERE task = ? AND epoch = ?", (number, epoch)
                ).fetchone()
                if row is not None:
                    counts = counts + np.frombuffer(row[0], "<i8")
                execute(
                    "INSERT OR REPLACE INTO counts (task, epoch, codes) VALUES (?, ?, ?)",
                    (number, epoch, counts.astype("<i8").tobytes()),
                )
        return outcomes

    def counts_by_epoch(self, task: Task) -> dict[int, NDArray[np.int64]]:
        """Return the number of reports per code for every epoch; see `Store.counts_by_epoch`."""
        with self._errors("read"), self._reading:
            rows = self._reader.execute(
                "SELECT epoch, codes FROM counts JOIN task ON number = task WHERE id = ? ORDER BY epoch",
                (bytes.fromhex(task.id),),
            ).fetchall()
        return {epoch: np.frombuffer(codes, "<i8").astype(np.int64) for epoch, codes in rows}

    def prune(self, task: Task, before: int) -> int:
        """Forget the ids of batches of old epochs; see `Store.prune`."""
        number, _ = self._numbers[bytes.fromhex(task.id)]
        with self._errors("prune"), self._transaction():
            # Scans: pruning runs once in a while, an index on the epoch would cost every report.
            (newest,) = self._writer.execute(
                "SELECT max(epoch) FROM batch WHERE task = ?", (number,)
            ).fetchone()
            if newest is None:
                return 0
            before = min(before, newest)
            self._writer.execute(
                "UPDATE task SET open_from = max(open_from, ?) WHERE number = ?", (before, number)
            )
            cursor = self._writer.execute("DELETE FROM batch WHERE task = ? AND epoch < ?", (number, before))
        return cursor.rowcount

    def close(self) -> None:
        """Close both connections; the last one to close folds the write-ahead log into the file."""
        self._reader.close()
        self._writer.close()


def _count(packed: list[bytes], codes: int) -> NDArray[np.int64]:
    """Return how often each code occurs; in slices, because numpy widens what it counts to 64 bits."""
    array = np.frombuffer(b"".join(packed), code_format(codes))
    total = np.zeros(codes, np.int64)
    for start in range(0, len(array), _SLICE):
        total += np.bincount(array[start : start + _SLICE], minlength=codes)
    return total


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
