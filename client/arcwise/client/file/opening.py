"""Create, recognise and open a ledger's file."""

from __future__ import annotations

import contextlib
import glob
import os
import sqlite3
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from arcwise.checks import shown
from arcwise.client.file.held import HeldConnection
from arcwise.client.file.schema import APPLICATION_ID, INDEXES, SCHEMA, TABLES, VERSION
from arcwise.errors import LedgerError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable


def real_path(path: Path) -> Path:
    """Return a ledger's real location: SQLite names its companion files after the file, not after a link."""
    return Path(os.path.realpath(path))


def log_path(path: Path) -> Path:
    """Return the path of SQLite's write-ahead log for a file, given the file's real path."""
    return path.with_name(f"{path.name}-wal")


def log_index_path(path: Path) -> Path:
    """Return the path of the log's index, through which processes see each other's commits."""
    return path.with_name(f"{path.name}-shm")


def _beside(path: Path) -> tuple[Path, ...]:
    return log_path(path), log_index_path(path), path.with_name(f"{path.name}-journal")


def checked_path(path: object) -> Path:
    """Return the path of a ledger; raise `ParameterError` for anything else, such as a store's URL."""
    if not isinstance(path, (str, os.PathLike)) or not str(path) or "://" in str(path):
        raise ParameterError(f"path must be the path of a file, such as 'telemetry.db', got {shown(path)}")
    return Path(path)


def create_file(path: Path) -> None:
    """Create a new ledger atomically: even if the process is killed, the path has a whole ledger or none.

    Raises `LedgerError` if the path exists already or the file cannot be created.
    """
    if os.path.lexists(path):
        raise _exists(path)
    for left in _beside(path):
        if os.path.lexists(left):  # SQLite would treat it as part of the new file
            raise LedgerError(
                f"{left} is left over from a ledger that was at {path}, so the device's spending is unknown. "
                "Remove it too if the device may start with a new budget"
            )
    draft = path.with_name(f"{path.name}.{os.urandom(6).hex()}{_DRAFT}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with contextlib.closing(sqlite3.connect(draft)) as connection:
            connection.executescript(f"""PRAGMA synchronous = FULL; BEGIN;
                PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};
                {SCHEMA} {";".join(INDEXES.values())}; COMMIT;""")
            connection.execute("PRAGMA journal_mode = WAL")
        try:
            _move(draft, path)
        except FileExistsError:
            raise _exists(path) from None
    except FileNotFoundError as error:
        raise LedgerError(
            f"the ledger {path} cannot be created: the folder {path.parent} does not exist"
        ) from error
    except OSError as error:  # its full message would name the draft
        raise LedgerError(f"the ledger {path} cannot be created: {error.strerror}") from error
    except sqlite3.Error as error:
        raise LedgerError(f"the ledger {path} cannot be created: {error}") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


_DRAFT = ".new"


def _exists(path: Path) -> LedgerError:
    return LedgerError(
        f"there is a file at {path} already: create=True makes the first ledger of a device; open this one "
        "without it"
    )


def _move(draft: Path, path: Path) -> None:
    """Rename the draft unless the name is taken, and sync the folder to the disk."""
    if os.name == "nt":
        draft.rename(path)  # on Windows, this refuses to replace a file
        return
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:  # no hard links, as on FAT: rename, although that could replace a file
        draft.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def open_file(
    path: Path, busy_timeout: float, *, check: bool = True
) -> tuple[HeldConnection, tuple[int, int]]:
    """Open the existing ledger at a real path; return the connection and the file's (device, inode).

    `busy_timeout` is the longest wait, in seconds, while another process writes. With `check`, the whole file
    is read, so that damage shows before anything is spent. Raises `LedgerError` if there is no ledger, or if
    it cannot be opened or is damaged.
    """
    try:
        found = path.stat()
        if _has_more_names(found):
            _remove_drafts(path)
            found = path.stat()
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise LedgerError(
                f"there is no ledger at {path}: the folder {path.parent} does not exist"
            ) from None
        raise LedgerError(
            f"there is no ledger at {path}. If this device never had one, create it with create=True or "
            "`python -m arcwise.client create FILE`; if it had one, its spending is unknown, and it must not "
            "report"
        ) from None
    except OSError as error:
        raise LedgerError(f"the ledger {path} cannot be opened: {error.strerror}") from error
    if stat.S_ISDIR(found.st_mode):
        raise LedgerError(f"the ledger {path} cannot be opened: it is a folder; give a file in it")
    for part in (path, *_beside(path)):
        if part.exists() and not part.is_file():  # SQLite would wait for ever on a pipe
            raise LedgerError(f"the ledger {path} cannot be opened: {part} is not a file")
    if _has_more_names(found):  # SQLite would keep a log for each name
        raise LedgerError(
            f"the ledger {path} has a second name (a hard link), so charges under one would not be "
            "seen under the other: remove all names but one"
        )

    def set_up(connection: HeldConnection) -> None:
        _check_kind(connection, path)
        connection.hold(log_index_path(path))  # only for a ledger: this could break a file's locks
        _check(connection, path, whole=check)
        _configure(connection, path)
        if connection.take_turn(0.0):  # otherwise another process is writing, and will do this
            # Write the log that a crash left behind back to the file.
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        connection.end_turn()
        _add_indexes(connection, busy_timeout)

    # mode=rw does not create a file
    return _connect(path, "mode=rw", busy_timeout, set_up), (found.st_dev, found.st_ino)


def _has_more_names(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 1


def _remove_drafts(path: Path) -> None:
    """Remove this file's second names: drafts that remain if a process is killed within `create_file`."""
    for draft in path.parent.glob(f"{glob.escape(path.name)}.*{_DRAFT}"):
        with contextlib.suppress(OSError):
            if draft.samefile(path):
                draft.unlink()


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open a ledger for inspection; it may be in use, or a copy on a read-only medium.

    Raises `LedgerError` as `open_file` does.
    """
    if os.path.lexists(path):  # otherwise the error message shows the path as given
        path = real_path(path)
    try:
        return open_file(path, 5.0)[0]
    except LedgerError:
        log = log_path(path)
        writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
        if writable or not path.exists() or (log.exists() and log.stat().st_size):
            raise

    def set_up(connection: HeldConnection) -> None:
        _check_kind(connection, path)
        _check(connection, path, whole=True)

    return _connect(path, "mode=ro&immutable=1", 0.0, set_up)


def _connect(
    path: Path, mode: str, busy_timeout: float, set_up: Callable[[HeldConnection], None]
) -> HeldConnection:
    connection = None
    try:
        connection = HeldConnection(path, mode, busy_timeout)
        set_up(connection)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, OSError):
            raise LedgerError(f"the ledger {path} cannot be opened: {error.strerror}") from error
        if isinstance(error, sqlite3.OperationalError):
            raise LedgerError(f"the ledger {path} cannot be opened: {error}") from error
        if isinstance(error, (sqlite3.Error, UnicodeDecodeError)):
            raise LedgerError(f"the ledger {path} is damaged: {error}") from error
        raise
    return connection


def _check_kind(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `LedgerError` if the file is not a ledger or has another version."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    if application_id != APPLICATION_ID:
        raise LedgerError(f"{path} is not an arcwise ledger, or it is damaged")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != VERSION:
        raise LedgerError(f"the ledger {path} has version {version}; this arcwise supports version {VERSION}")


def _check(connection: sqlite3.Connection, path: Path, *, whole: bool) -> None:
    """Raise `LedgerError` if the ledger is damaged."""
    if whole:
        (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if verdict != "ok":
            raise LedgerError(f"the ledger {path} is damaged: {verdict}")
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables >= TABLES or connection.execute("SELECT count(*) FROM state").fetchone() != (1,):
        raise LedgerError(f"the ledger {path} is damaged: a table or its state is missing")


def _configure(connection: sqlite3.Connection, path: Path) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        raise LedgerError(f"the ledger {path} is on a file system without shared memory: use a local disk")
    for pragma in (
        "fullfsync = ON",  # on macOS, a plain fsync does not reach the disk
        "checkpoint_fullfsync = ON",
        "trusted_schema = OFF",
        "secure_delete = ON",  # deleted codes do not stay in the file
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _add_indexes(connection: HeldConnection, busy_timeout: float) -> None:
    """Add the indexes that are missing in a ledger of an earlier version."""
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    if found >= INDEXES.keys():
        return
    if not connection.take_turn(busy_timeout):
        raise sqlite3.OperationalError("database is locked")
    connection.execute("BEGIN IMMEDIATE")
    for name, statement in INDEXES.items():
        if name not in found:
            connection.execute(statement.replace("INDEX", "INDEX IF NOT EXISTS"))
    connection.execute("COMMIT")
    connection.end_turn()
