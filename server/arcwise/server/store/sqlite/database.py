"""The SQLite file: its two connections, transactions that one thread writes at a time, and its schema."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
from contextlib import closing, contextmanager, suppress
from functools import cache
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from arcwise.errors import ArcwiseError, StoreError
from arcwise.server.store.connection import SqlConnection
from arcwise.server.store.migrations import Migration, pending, read_migrations, refuse_version
from arcwise.server.store.sqlite.rows import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from arcwise.typing import IntArray

BUSY_SECONDS = 10.0
_TRY_MILLISECONDS = 5
LOG_PAGES = 8000
"""Pages of 4 KiB after which the write-ahead log is written back. Each random id touches a page, and a page
that many groups touch is written back only once. With SQLite's default of 1000 pages, a report takes 1.5
times as long."""


_DIALECT = (
    (r" FOR (NO KEY UPDATE|UPDATE|SHARE)$", ""),
    (r"IS DISTINCT FROM", "IS NOT"),
    # With CROSS JOIN, SQLite joins tables in the order of the statement: another order could be quadratic.
    (r"(?<!LEFT )JOIN", "CROSS JOIN"),
)
"""Patterns in shared statements, and their replacements for SQLite."""


class Connection(SqlConnection, sqlite3.Connection):
    """A connection to a file."""

    def _run(self, statement: str, values: Mapping[str, object]) -> sqlite3.Cursor:
        return self.execute(_translated(statement), values)

    def change_each(self, statement: str, values: Iterable[Mapping[str, object]]) -> None:
        """Run a statement once for each of the values."""
        self.executemany(_translated(statement), values)

    def insert(self, statement: str, /, **values: object) -> int:
        """Insert a row into a table with numbered rows; return the number."""
        return int(self.execute(statement, values).lastrowid or 0)


@cache
def _translated(statement: str) -> str:
    for pattern, here in _DIALECT:
        statement = re.sub(pattern, here, statement)
    return statement


class _DryRun(Exception):  # noqa: N818 (a way out of a transaction, not an error)
    pass


class Database:
    """A store's file in WAL mode with synchronous=FULL, with any schema until `require_newest` is called.

    `path` is the file itself, after following all links. Changes use `writer`, within `transaction`; `read`
    uses `reader`, which never waits for the writer. Raises `StoreError` when the file cannot be opened, or is
    a database of another program.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.url = f"sqlite:///{path}"
        self._given = path.absolute()
        # SQLite names its log after the real file, and `size` looks for the log under that name.
        self.path = Path(os.path.realpath(self._given))
        if not self.path.exists():
            if not create:
                raise StoreError(f"there is no store at {path}: check the path; `arcwise serve` makes one")
            _make_private(self.path)
        _refuse_links(self.path)
        self._reading = threading.Lock()
        self._writing = threading.Lock()
        self._opened: list[os.stat_result] = []
        with self.errors("open"):
            self.writer = self.connect()
            try:
                self._prepare()
                self._opened = self._files()
                self.reader = self.connect()
            except BaseException:
                self.writer.close()
                raise

    def connect(self) -> Connection:
        """Return a new connection; the caller closes it."""
        return self._connect(str(self.path))

    def _connect(self, name: str, *, uri: bool = False) -> Connection:
        found: Connection = sqlite3.connect(
            name,
            uri=uri,
            factory=Connection,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        return found

    def _prepare(self) -> None:
        # FULL: a commit returns only after the write-ahead log is on the disk.
        self.writer.execute("PRAGMA synchronous = FULL")
        self.writer.execute("PRAGMA fullfsync = ON")  # on macOS a plain fsync does not reach the disk
        self.writer.execute("PRAGMA checkpoint_fullfsync = ON")
        self.writer.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
        # Overlapping reads may make the log larger; SQLite cuts it back to this size when it next begins a
        # new log.
        self.writer.execute(f"PRAGMA journal_size_limit = {LOG_PAGES * 4096}")
        _create_functions(self.writer)
        version, tables = self._state()
        if version == 0:
            if tables:
                raise StoreError(f"{self.path} is a SQLite database, but not one of arcwise")
            self._keep_a_log()
            # If two processes start at the same moment, the second process finds nothing to do.
            self.migrate()
        else:
            self._keep_a_log()  # some ways of copying the file lose this setting

    def _keep_a_log(self) -> None:
        """Change to a write-ahead log; SQLite does not wait if another process makes the same change."""
        self._try("PRAGMA journal_mode = WAL", 0.005)

    def _try(self, statement: str, pause: float = 0.0) -> None:
        """Execute a statement repeatedly while another process has locked the file."""
        deadline = time.monotonic() + BUSY_SECONDS
        while not self._executed(statement, last_try=time.monotonic() > deadline):
            time.sleep(pause)

    def _executed(self, statement: str, *, last_try: bool) -> bool:
        try:
            self.writer.execute(statement)
        except sqlite3.OperationalError as error:
            if last_try or "locked" not in str(error):
                raise
            return False
        return True

    def _state(self) -> tuple[int, int]:
        """Return the schema's version and the number of tables, both of one moment."""
        self.writer.execute("BEGIN")
        (version,) = self.writer.execute("PRAGMA user_version").fetchone()
        (tables,) = self.writer.execute("SELECT count(*) FROM sqlite_master").fetchone()
        self.writer.execute("COMMIT")
        return version, tables

    @property
    def version(self) -> int:
        """The version of the schema."""
        with self.errors("read"):
            (version,) = self.writer.execute("PRAGMA user_version").fetchone()
        return int(version)

    def require_newest(self) -> None:
        """Raise `StoreError` with the command to run unless the schema is the newest."""
        refuse_version(self.url, self.version, _MIGRATIONS[-1].version)

    def migrate(self, to: int | None = None, *, dry_run: bool = False) -> list[Migration]:
        """Apply migrations to schema `to` in one transaction; see `arcwise.server.store.migrate_store`."""
        steps: list[Migration] = []
        try:
            with self.errors("migrate"), self.transaction():
                (version,) = self.writer.execute("PRAGMA user_version").fetchone()
                steps = pending(_MIGRATIONS, version, to)
                for step in steps:
                    _apply(self.writer, step)
                if dry_run:
                    raise _DryRun
        except _DryRun:
            pass
        return steps

    @contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Turn SQLite's errors into `StoreError`.

        While reading, this includes errors from values that arcwise did not write, because SQLite keeps any
        value.
        """
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter comes from a damaged file
            raise StoreError(f"cannot {doing} {self.path}: {error}") from error
        except (TypeError, ValueError, OverflowError) as error:
            if doing not in {"read", "export"} or isinstance(error, ArcwiseError):
                raise
            raise StoreError(
                f"cannot {doing} {self.path}: it has values that arcwise did not write "
                "(`arcwise store check`)"
            ) from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write in a transaction: other threads and processes wait, and all changes are kept or none."""
        with self._writing:
            self._begin()
            try:
                yield
                self.require_place()
                self.writer.execute("COMMIT")
            except BaseException:
                # A failed COMMIT (disk full) may or may not have ended the transaction already.
                if self.writer.in_transaction:
                    self.writer.execute("ROLLBACK")
                raise

    def _files(self) -> list[os.stat_result]:
        """Return the state of the paths of the file, its log and the log's index; empty if one is missing.

        A link at a path is not the file that was opened: the next process that follows it looks for the log
        next to the link's target.
        """
        try:
            return [os.lstat(f"{self.path}{part}") for part in ("", "-wal", "-shm")]
        except OSError:
            return []

    def require_place(self) -> None:
        """Raise `StoreError` when the opened file is no longer at its path, where others look for it.

        This costs some microseconds; SQLite itself does not look at the path again.
        """
        found = self._files()
        if self._opened and not (found and all(map(os.path.samestat, found, self._opened))):
            raise StoreError(
                f"{self.path}, its -wal or its -shm was removed or replaced while it was in use, so nothing "
                "is written: stop every server of the store, put the file back together with its -wal, or a "
                "backup without one, and start the servers again"
            )
        if self._opened and not self._is_led_to():
            raise StoreError(
                f"{self._given} no longer leads to {self.path}, which is in use, so nothing is written: make "
                "it lead there again, or stop every server of the store and start them with the present "
                "file, which may lack reports that the old file has"
            )

    def _is_led_to(self) -> bool:
        """Return whether the given path, after following all links, leads to the opened file."""
        try:
            found = os.stat(self._given)  # noqa: PTH116 (before each commit)
        except OSError:
            return False
        # No other file has the inode number of an open file, and a file with one name has no other path: stat
        # is enough.
        return os.path.samestat(found, self._opened[0]) and (
            found.st_nlink == 1 or os.path.realpath(self._given) == str(self.path)
        )

    def _begin(self) -> None:
        """Begin a transaction that writes, when no other process is writing.

        SQLite itself waits longer and longer between its attempts. While other processes write again and
        again, it would hardly ever find the file free.
        """
        self.writer.execute(f"PRAGMA busy_timeout = {_TRY_MILLISECONDS}")
        try:
            self._try("BEGIN IMMEDIATE")
        finally:
            self.writer.execute(f"PRAGMA busy_timeout = {int(1000 * BUSY_SECONDS)}")

    def add_counts(self, number: int, epoch: int, counts: IntArray, source: int = 0) -> None:
        """Add to the counts of an epoch of the task with this number, and to its total, in a transaction.

        `source` is the number of the source of the counts; 0 stands for servers.
        """
        reports = int(counts.sum())
        row = self.writer.execute(
            "SELECT rowid, codes, per_code FROM counts WHERE task = ? AND epoch = ? AND source = ?",
            (number, epoch, source),
        ).fetchone()
        if row is None:
            self.writer.execute(
                "INSERT INTO counts (task, epoch, source, reports, codes, per_code)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (number, epoch, source, reports, *pack(counts)),
            )
        else:
            counts = counts.copy()
            place, numbers = unpack(*row[1:])
            counts[place] += numbers
            self.writer.execute(
                "UPDATE counts SET reports = reports + ?, codes = ?, per_code = ? WHERE rowid = ?",
                (reports, *pack(counts, dense=row[1] is None), row[0]),
            )
        self.writer.execute(
            "INSERT INTO total (task, source, reports) VALUES (?, ?, ?)"
            " ON CONFLICT (task, source) DO UPDATE SET reports = reports + excluded.reports",
            (number, source, reports),
        )

    @contextmanager
    def alone(self) -> Iterator[Connection]:
        """Lend the writer outside a transaction, while no other thread of this process writes."""
        with self._writing:
            yield self.writer

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Lend a connection that reads committed data, to one thread at a time."""
        with self.errors("read"), self._reading:
            yield self.reader

    def close(self) -> None:
        """Close both connections; the last process to close moves the write-ahead log into the file."""
        with self._reading:
            self.reader.close()
        with self._writing:  # a running prune ends its step first, and then fails
            self.writer.close()


class ReadOnlyDatabase(Database):
    """A store's file, which is opened for each reading and then closed.

    An open connection would keep the last server from moving its log into the file. If there is no log next
    to the file, nobody writes the file. SQLite then opens it as immutable, because otherwise SQLite would
    make a log.
    """

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self.path = Path(os.path.realpath(path))
        if not self.path.exists():
            raise StoreError(f"there is no store at {path}: check the path; `arcwise serve` makes one")
        _refuse_names(self.path)
        self._log = self.path.with_name(f"{self.path.name}-wal")
        self._reading = threading.Lock()
        if self.version == 0:
            raise StoreError(f"{self.path} is not a store of arcwise")

    def connect(self) -> Connection:
        """Return a new connection that cannot write; the caller closes it."""
        quiet = "" if self._log.exists() else "&immutable=1"
        return self._connect(f"{self.path.as_uri()}?mode=ro{quiet}", uri=True)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Lend a connection that reads committed data, to one thread at a time.

        It also raises `StoreError` when a server begins to write the file meanwhile: the data may then be
        from two different moments.
        """
        with self.errors("read"), self._reading:
            before = self._moment()
            with closing(self.connect()) as connection:
                yield connection
            if before is not None and before != self._moment():
                raise StoreError(f"a server began to write {self.path} while it was being read; try again")

    def _moment(self) -> tuple[int, int] | None:
        """Return the size and time of the file, which change when it is written; None if there is a log."""
        if self._log.exists():
            return None
        try:
            found = self.path.stat()
        except OSError as error:
            raise StoreError(f"cannot read {self.path}: {error.strerror}") from error
        return found.st_size, found.st_mtime_ns

    @property
    def version(self) -> int:
        """The version of the schema."""
        with self.read() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
        return int(version)

    def transaction(self) -> NoReturn:
        """Raise `StoreError`, because this store is opened for reading only."""
        raise StoreError(f"{self.path} is open for reading only")

    alone = transaction

    def close(self) -> None:
        """Do nothing: no connection is open between two readings."""


def _make_private(path: Path) -> None:
    """Make an empty file that only its owner may read, unless the file exists.

    SQLite would make the file with the permissions of the umask; the log gets the permissions of the file. If
    the file cannot be made, SQLite cannot open it either and reports why; only a missing folder raises
    `StoreError` here.
    """
    draft = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
    with suppress(OSError):
        try:
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileNotFoundError:
            raise StoreError(
                f"cannot make a store at {path}: the folder {path.parent} does not exist"
            ) from None
        try:
            # Closing a descriptor of the file itself would release the locks of processes that opened it.
            os.link(draft, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without links, such as FAT
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        finally:
            draft.unlink(missing_ok=True)  # a process that opened the file may have removed it already


def _refuse_links(path: Path) -> None:
    """Raise when a file has a second name.

    A process that opened the file under the second name would keep another log next to that name, and each
    process would overwrite the data of the other.
    """
    with suppress(FileNotFoundError):  # SQLite will report why the file could not be made
        if path.stat().st_nlink > 1:
            for draft in path.parent.glob(f".{escape(path.name)}.*.new"):  # left by a killed process
                with suppress(FileNotFoundError):
                    if draft.samefile(path):
                        draft.unlink()
        _refuse_names(path)


def _refuse_names(path: Path) -> None:
    """Raise `StoreError` when a file that exists has a second name."""
    if (names := path.stat().st_nlink) > 1:
        raise StoreError(
            f"{path} has {names} names (hard links), and SQLite treats each as a separate file: remove the "
            "others; to make a copy, use VACUUM INTO"
        )


def build(connection: sqlite3.Connection) -> None:
    """Make the newest schema in an empty database."""
    _create_functions(connection)
    for step in _MIGRATIONS:
        _apply(connection, step)


def _create_functions(connection: sqlite3.Connection) -> None:
    """Create the functions that the scripts of migrations call."""
    for function in (_reports_in, _codes_in, _per_code_in):
        connection.create_function(function.__name__[1:], 1, function, deterministic=True)


def _apply(connection: sqlite3.Connection, step: Migration) -> None:
    for statement in _statements(step.script):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {step.version}")


def _reports_in(dense: bytes) -> int:
    return int(np.frombuffer(dense, "<i8").sum())


def _codes_in(dense: bytes) -> bytes | None:
    return pack(np.frombuffer(dense, "<i8")).codes


def _per_code_in(dense: bytes) -> bytes:
    return pack(np.frombuffer(dense, "<i8")).per_code


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


_MIGRATIONS = read_migrations(__package__)
