"""The connection to a ledger's file: transactions, and protection against changes of the file or forks."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from typing import TYPE_CHECKING

from arcwise.client.file.opening import log_index_path, log_path, open_file, real_path
from arcwise.client.interruptions import Pause, holding, pause_for_forks, renew_in_children
from arcwise.client.process import current_process
from arcwise.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from pathlib import Path

    from arcwise.client.file.held import HeldConnection

_SHORT = 0.1
"""Shorter waits, in seconds, are ignored."""
_DISK_FULL = "is full"
"""Part of SQLite's error message for a full disk."""


class Database:
    """A ledger's file, used by one transaction at a time. See `FileLedger` for the parameters."""

    def __init__(self, path: Path, *, relaxed: bool, busy_timeout: float) -> None:
        self.path = path.absolute()  # absolute, since the app may change its working directory
        self.relaxed = relaxed
        self.busy_timeout = busy_timeout
        self._lock = threading.RLock()
        self._in_use = False
        self._sound = False  # whether the whole file was checked, with no trouble since
        self._connection: HeldConnection | None = None
        self._process: object = None
        self._full: bool | None = None  # whether the connection has PRAGMA synchronous = FULL
        self._patience: float | None = None  # its PRAGMA busy_timeout, in seconds
        self._identity: tuple[int, int] | None = None
        self._real = self.path  # the real path, after which SQLite names its log
        self._beside: dict[Path, tuple[int, int] | None] = {}
        self._filled = False  # whether the disk was full at the last call
        self._broken: str | None = None
        self._closed = False
        with self._lock:
            self._connect()
        _living.add(self)

    @property
    def place(self) -> Hashable:
        """A key that is equal for all users of the same file; None once this connection is closed."""
        return None if self._closed else self._identity

    def _connect(self) -> HeldConnection:
        real = real_path(self.path)
        connection, identity = open_file(real, self.busy_timeout, check=not self._sound)
        if self._identity not in (None, identity):
            connection.close()
            raise LedgerError(f"the ledger {self.path} was replaced by another file while it was in use")
        self._connection, self._identity, self._full = connection, identity, None
        self._real = real
        self._patience = self.busy_timeout
        self._process = current_process()
        self._beside = {path: _identity_of(path) for path in (log_path(real), log_index_path(real))}
        self._sound = True
        return connection

    def _checked(self) -> HeldConnection:
        """Return the connection, after checking that the file is still the same."""
        if self._broken is not None:
            raise LedgerError(self._broken)
        if self._closed:
            raise LedgerError(f"the ledger {self.path} is closed")
        connection = self._connection
        if connection is None:
            return self._connect()
        if self._process is not current_process():
            # Python did not notice this fork, so SQLite's locks would not hold.
            self._broken = f"the ledger {self.path} was carried over a fork; open it after the fork"
            raise LedgerError(self._broken)
        found = _identity_of(self.path)
        if found is None:
            raise LedgerError(f"the ledger {self.path} was removed")
        if found != self._identity:
            raise LedgerError(f"the ledger {self.path} was replaced by another file while it was in use")
        if _identity_of(self._real, follow=False) != found:
            raise LedgerError(f"the ledger {self.path} was renamed while it was in use")
        for path, identity in self._beside.items():
            if _identity_of(path) != identity:
                if self._connection is not connection:
                    raise LedgerError(f"the ledger {self.path} was closed for a fork during a call")
                # Without the log, commits that were not yet written back are lost. Without its index,
                # processes do not see each other's commits. Either way the spending is unknown.
                self._broken = f"the log {path} of the ledger was removed while it was in use"
                raise LedgerError(self._broken)
        self._undo()  # a signal handler may have raised before the last call rolled back
        return connection

    @holding
    def writing(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        """Open a write transaction; if `durable`, it and all earlier transactions are on the disk afterwards.

        Raises `LedgerError` and changes nothing if the file cannot be written, is missing or is damaged.
        """
        with self._alone() as connection:
            full = durable or not self.relaxed
            if full != self._full:
                connection.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
                self._full = full
            if self._filled:  # the log may fill the disk; writing it back makes room
                self._filled = False
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @holding
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open a read transaction, in which all queries see the same state of the file."""
        with self._alone(changing=False) as connection:
            connection.execute("BEGIN")
            yield connection

    @holding
    def _alone(self, *, changing: bool = True) -> Iterator[sqlite3.Connection]:
        """Hold the connection exclusively, against other threads and signal handlers of the same thread.

        With `changing`, no other process changes the file meanwhile.

        A transaction that is still open at the end is rolled back: it failed, was interrupted, or only read.
        """
        begun = time.monotonic()
        with self._lock:
            if self._in_use:
                raise LedgerError(f"the ledger {self.path} is in use by the call that this call interrupts")
            self._in_use = True
            try:
                connection = self._checked()
                left = self.busy_timeout - (time.monotonic() - begun)
                if changing and not connection.take_turn(left):
                    raise sqlite3.OperationalError("database is locked")
                self._wait_for_others(connection, time.monotonic() - begun)
                yield connection
            except (sqlite3.OperationalError, sqlite3.ProgrammingError, sqlite3.InterfaceError) as error:
                # The trouble may be temporary. Unless the cause is another writer or a full disk, the file is
                # checked again before its next use.
                self._filled = _DISK_FULL in str(error)
                if not _is_harmless(error):
                    self._sound = False
                    self._disconnect()
                raise LedgerError(f"the ledger {self.path} cannot be used now: {error}") from error
            except (sqlite3.Error, UnicodeDecodeError) as error:
                # Damage is permanent: the spending is unknown.
                self._broken = f"the ledger {self.path} is damaged: {error}"
                raise LedgerError(self._broken) from error
            finally:
                self._in_use = False  # set first, because a signal handler may raise at the next call
                try:
                    self._undo()
                except BaseException:  # also from a handler: end the turn, for which others wait
                    self._undo()
                    raise

    def _wait_for_others(self, connection: sqlite3.Connection, waited: float) -> None:
        """Reduce SQLite's busy timeout by the time that this call has waited for threads of this process.

        Those threads may all have waited for the same other process, one after the other.
        """
        left = max(0.0, self.busy_timeout - waited) if waited > _SHORT else self.busy_timeout
        if left != self._patience:
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * left)}")
            self._patience = left

    def _undo(self) -> None:
        """Roll back an open transaction and end this connection's turn."""
        if self._connection is not None:
            if self._connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # some errors have rolled back already
                    self._connection.execute("ROLLBACK")
            self._connection.end_turn()

    def empty_log(self) -> None:
        """Write the whole log back to the file and empty it, unless another process is reading."""
        with contextlib.suppress(LedgerError), self._alone() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def write_back(self) -> None:
        """Write the log back to the file as far as possible without waiting for others."""
        with contextlib.suppress(LedgerError), self._alone() as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def closed_for_a_fork(self) -> Pause:
        """Keep the file closed during a fork: SQLite's record of its locks would be wrong in the child."""
        with self._lock:
            self._disconnect()
            yield

    def renew(self) -> None:
        """Reset the state in a forked child, where no other thread runs."""
        self._lock = threading.RLock()
        self._in_use = False

    def close(self) -> None:
        """Close the file permanently."""
        with self._lock:
            self._closed = True
            self._disconnect()

    def _disconnect(self) -> None:
        if self._process is not current_process():
            return  # closing the parent's connection here would release the parent's locks
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def _identity_of(path: Path, *, follow: bool = True) -> tuple[int, int] | None:
    """Return the device and inode of a file, or of a link itself unless `follow`; None if it is missing."""
    try:
        found = os.stat(path, follow_symlinks=follow)  # noqa: PTH116 (a report makes four of these calls)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_harmless(error: sqlite3.Error) -> bool:
    """Return whether an error only means another writer or a full disk."""
    return any(words in str(error) for words in ("locked", _DISK_FULL))  # error codes need Python 3.11


_living: weakref.WeakSet[Database] = weakref.WeakSet()

fork_hooks = pause_for_forks(lambda: [database.closed_for_a_fork() for database in list(_living)])
renew_in_children(_living, Database.renew)
