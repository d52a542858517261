"""The connection to a ledger's file: transactions, and what may happen to a file or its process meanwhile."""

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
"""Seconds of a wait that are not worth counting."""
_DISK_FULL = "is full"
"""What SQLite says then."""


class Database:
    """A ledger's file, open for one transaction at a time. See `FileLedger` for the parameters."""

    def __init__(self, path: Path, *, relaxed: bool, busy_timeout: float) -> None:
        self.path = path.absolute()  # of now, whatever folder the app goes to
        self.relaxed = relaxed
        self.busy_timeout = busy_timeout
        self._lock = threading.RLock()
        self._in_use = False
        self._sound = False  # whether the whole file was checked, and nothing has happened to it since
        self._connection: HeldConnection | None = None
        self._process: object = None
        self._full: bool | None = None  # what the connection's PRAGMA synchronous is set to
        self._patience: float | None = None  # what its PRAGMA busy_timeout is set to, in seconds
        self._identity: tuple[int, int] | None = None
        self._real = self.path  # where the file lies, after which SQLite names its log
        self._beside: dict[Path, tuple[int, int] | None] = {}
        self._filled = False  # whether the disk was full
        self._broken: str | None = None
        self._closed = False
        with self._lock:
            self._connect()
        _living.add(self)

    @property
    def place(self) -> Hashable:
        """What is equal for everyone who has this file open; None once it is closed."""
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
        """Return the connection, if the file is still what it was."""
        if self._broken is not None:
            raise LedgerError(self._broken)
        if self._closed:
            raise LedgerError(f"the ledger {self.path} is closed")
        connection = self._connection
        if connection is None:
            return self._connect()
        if self._process is not current_process():
            # Made by a fork that Python does not know of: SQLite's locks would not hold.
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
                # What was committed to the log and not yet written back is lost; without its index, processes
                # do not see what others commit. Nobody knows what was spent.
                self._broken = f"the log {path} of the ledger was removed while it was in use"
                raise LedgerError(self._broken)
        self._undo()  # a signal handler may have raised before the last call did
        return connection

    @holding
    def writing(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        """Open a transaction that writes; if `durable`, it and all earlier ones are on the disk when it ends.

        Raises `LedgerError`, with nothing changed, if the file cannot be written, is gone or is damaged.
        """
        with self._alone() as connection:
            full = durable or not self.relaxed
            if full != self._full:
                connection.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
                self._full = full
            if self._filled:  # perhaps by the log: what the file holds of it makes room there
                self._filled = False
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @holding
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Let several queries see one state of the file."""
        with self._alone(changing=False) as connection:
            connection.execute("BEGIN")
            yield connection

    @holding
    def _alone(self, *, changing: bool = True) -> Iterator[sqlite3.Connection]:
        """Hold the connection, against other threads and a signal handler of the thread that has it.

        With `changing`, no other process changes the file meanwhile.

        A transaction that is open at the end has failed, or only read, or was interrupted: it is undone.
        """
        begun = time.monotonic()
        with self._lock:
            if self._in_use:
                raise LedgerError(f"the ledger {self.path} is in use by the call that this one interrupts")
            self._in_use = True
            try:
                connection = self._checked()
                left = self.busy_timeout - (time.monotonic() - begun)
                if changing and not connection.take_turn(left):
                    raise sqlite3.OperationalError("database is locked")
                self._wait_for_others(connection, time.monotonic() - begun)
                yield connection
            except (sqlite3.OperationalError, sqlite3.ProgrammingError, sqlite3.InterfaceError) as error:
                # It may pass. Unless it is another writer or a full disk, the file is checked anew before it
                # is used again.
                self._filled = _DISK_FULL in str(error)
                if not _is_harmless(error):
                    self._sound = False
                    self._disconnect()
                raise LedgerError(f"the ledger {self.path} cannot be used now: {error}") from error
            except (sqlite3.Error, UnicodeDecodeError) as error:
                # Damage does not pass: who knows what was spent.
                self._broken = f"the ledger {self.path} is damaged: {error}"
                raise LedgerError(self._broken) from error
            finally:
                self._in_use = False  # first: a signal handler may raise at the first call
                try:
                    self._undo()
                except BaseException:  # of such a handler, too: other processes wait for their turn
                    self._undo()
                    raise

    def _wait_for_others(self, connection: sqlite3.Connection, waited: float) -> None:
        """Let a call wait for another process for what is left of its time after it waited for threads here.

        They may all have waited for that process, one after the other.
        """
        left = max(0.0, self.busy_timeout - waited) if waited > _SHORT else self.busy_timeout
        if left != self._patience:
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * left)}")
            self._patience = left

    def _undo(self) -> None:
        """Roll back what is open, and let others have their turn."""
        if self._connection is not None:
            if self._connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # some errors have rolled back already
                    self._connection.execute("ROLLBACK")
            self._connection.end_turn()

    def empty_log(self) -> None:
        """Let the file hold all that is in the log, unless somebody reads it now."""
        with contextlib.suppress(LedgerError), self._alone() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def write_back(self) -> None:
        """Let the file hold what is in the log, as far as nobody is in the way; nobody waits for it."""
        with contextlib.suppress(LedgerError), self._alone() as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def closed_for_a_fork(self) -> Pause:
        """Keep the file closed: what SQLite knows of the locks of a process is wrong in its child."""
        with self._lock:
            self._disconnect()
            yield

    def renew(self) -> None:
        """Begin anew in a forked child, where no other thread runs."""
        self._lock = threading.RLock()
        self._in_use = False

    def close(self) -> None:
        """Close the file for good."""
        with self._lock:
            self._closed = True
            self._disconnect()

    def _disconnect(self) -> None:
        if self._process is not current_process():
            return  # closing the parent's connection, too, would let go of what the parent holds
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def _identity_of(path: Path, *, follow: bool = True) -> tuple[int, int] | None:
    """Return what tells a file, or else a link, from any other of the same name; None when there is none."""
    try:
        found = os.stat(path, follow_symlinks=follow)  # noqa: PTH116 (a report makes four of these calls)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_harmless(error: sqlite3.Error) -> bool:
    """Return whether another writer or a full disk is all there is to an error."""
    return any(words in str(error) for words in ("locked", _DISK_FULL))  # its code: from Python 3.11 on


_living: weakref.WeakSet[Database] = weakref.WeakSet()

fork_hooks = pause_for_forks(lambda: [database.closed_for_a_fork() for database in list(_living)])
renew_in_children(_living, Database.renew)
