"""One SQLite file with what a device has spent and what it has not sent yet.

A report is one transaction: caps are checked, the charge is entered, the code is drawn and queued, and either
all of it is in the file or nothing. Only a later transaction, durable on the disk, lets it leave.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from arcwise.client.accounts import budget
from arcwise.client.checks import checked_number
from arcwise.client.file.opening import create_file, log_index_path, log_path, open_file, real_path
from arcwise.client.file.outbox import FileOutbox, drop
from arcwise.client.file.transaction import FileTransaction, read_balances
from arcwise.client.ledger import Ledger
from arcwise.client.process import current_process
from arcwise.errors import LedgerError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

    from arcwise.client.accounts import Bill, Budget
    from arcwise.client.outbox import Outbox

__all__ = ["FileLedger"]


class FileLedger(Ledger):
    """A device's spending and its queue in one SQLite file, which outlive the process.

    Safe to use from several threads, from several clients and from several processes; a forked child opens
    the file anew.

    Parameters
    ----------
    path
        The file, or a symbolic link to it; SQLite keeps two more beside the file while it is open (``-wal``
        and ``-shm``). It must have no second name (hard link).
    create
        Make the file, which must not exist: once in the life of a device, such as when somebody agrees to
        telemetry. Without it (default) the file must exist. Whoever creates a ledger because there is none
        hands out the whole budget again.
    relaxed
        False (default): every report is on the disk before `Client.report` returns, which takes as long as
        the disk takes. True: a loss of power can undo the last reports together with their charges, as long
        as nothing of them has left; what a report costs is then one write to the file system's cache.
        A crash of the process loses nothing either way.
    busy_timeout
        For how many seconds to wait while another process writes.

    Raises
    ------
    LedgerError
        When there is no file (or, with `create`, when there is one), when it is damaged, or no ledger.

    Notes
    -----
    The file holds codes, charges and times, never a value. For memoised tasks it holds the nodes that values
    were rounded to: protect it as the app's own data. A copy of a ledger is a copy of its budget: keep it out
    of backups and of what is synchronised between devices.

    Examples
    --------
    >>> from arcwise.client import Client
    >>> from arcwise.domains import Circle
    >>> from arcwise.tasks import Caps, Task
    >>> heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=2.0))
    >>> with FileLedger("telemetry.db", create=True) as ledger:
    ...     client = Client("http://127.0.0.1:8000", tasks=[heading], ledger=ledger)
    ...     accepted = client.report("heading", 350.5)
    ...     client.close(0)  # what is not sent stays in the file
    False
    >>> with FileLedger("telemetry.db") as ledger:
    ...     client = Client("http://127.0.0.1:8000", tasks=[heading], ledger=ledger)
    ...     client.budget("heading").reports_left, client.pending()
    ...     client.close(0)
    (1, 1)
    False
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = False,
        relaxed: bool = False,
        busy_timeout: float = 5.0,
    ) -> None:
        self.path = Path(path).absolute()  # of now, whatever folder the app goes to
        self.relaxed = relaxed
        self._busy_timeout = min(checked_number("busy_timeout", busy_timeout), 86_400.0)
        self._lock = threading.RLock()
        self._in_use = False
        self._sound = False  # whether the whole file was checked, and nothing has happened to it since
        self._connection: sqlite3.Connection | None = None
        self._process: object = None
        self._full: bool | None = None  # what the connection's PRAGMA synchronous is set to
        self._identity: tuple[int, int] | None = None
        self._beside: dict[Path, tuple[int, int] | None] = {}
        self._broken: str | None = None
        self._closed = False
        if create:
            create_file(Path(path))
        with self._lock:
            self._connect()
        _living.add(self)

    def _connect(self) -> sqlite3.Connection:
        real = real_path(self.path)
        connection, identity = open_file(real, self._busy_timeout, check=not self._sound)
        if self._identity not in (None, identity):
            connection.close()
            raise LedgerError(f"the ledger {self.path} was replaced by another file while it was in use")
        self._connection, self._identity, self._full = connection, identity, None
        self._process = current_process()
        self._beside = {path: _identity_of(path) for path in (log_path(real), log_index_path(real))}
        self._sound = True
        return connection

    def _checked(self) -> sqlite3.Connection:
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
            raise LedgerError(f"the ledger {self.path} is gone")
        if found != self._identity:
            raise LedgerError(f"the ledger {self.path} was replaced by another file while it was in use")
        for path, identity in self._beside.items():
            if _identity_of(path) != identity:
                # What was committed to the log and not yet written back is lost; without its index, processes
                # do not see what others commit. Nobody knows what was spent.
                self._broken = f"the log {path} of the ledger was removed while it was in use"
                raise LedgerError(self._broken)
        return connection

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        """Open a transaction that writes; with `durable`, it and all before it are on the disk at its end.

        Raises
        ------
        LedgerError
            When the file cannot be written, is gone or is damaged; nothing has changed then.
        """
        with self._alone() as connection:
            full = durable or not self.relaxed
            if full != self._full:
                connection.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
                self._full = full
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Let several queries see one state of the file."""
        with self._alone() as connection:
            connection.execute("BEGIN")
            yield connection

    @contextmanager
    def _alone(self) -> Iterator[sqlite3.Connection]:
        """Hold the connection, against other threads and a signal handler of the thread that has it.

        A transaction that is open at the end has failed, or only read, or was interrupted: it is undone.
        """
        with self._lock:
            if self._in_use:
                raise LedgerError(f"the ledger {self.path} is in use by what this call interrupts")
            self._in_use = True
            try:
                with self._errors():
                    yield self._checked()
            finally:
                self._undo()
                self._in_use = False

    def _undo(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # some errors have rolled back already
                self._connection.execute("ROLLBACK")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.OperationalError, sqlite3.ProgrammingError, sqlite3.InterfaceError) as error:
            # It may pass. Unless it is another writer or a full disk, the file is checked anew before it is
            # used again.
            if not _is_harmless(error):
                self._sound = False
                self._disconnect()
            raise LedgerError(f"the ledger {self.path} cannot be used now: {error}") from error
        except (sqlite3.Error, UnicodeDecodeError) as error:  # damage does not pass: who knows what was spent
            self._broken = f"the ledger {self.path} is damaged: {error}"
            raise LedgerError(self._broken) from error

    def check_outbox(self, outbox: Outbox[Any]) -> None:
        """Raise `ParameterError` for a queue that is not in this file."""
        if not isinstance(outbox, FileOutbox) or outbox.ledger is not self:
            raise ParameterError(
                "a FileLedger holds the queue too: give a URL, or an Uplink that was made with this ledger"
            )

    @contextmanager
    def transaction(self, outbox: Outbox[Any], now: float) -> Iterator[FileTransaction]:
        """Open the transaction at the Unix time `now`, with `outbox` as the queue that reports go to."""
        outbox = cast("FileOutbox", outbox)
        try:
            with self.writing(durable=False) as connection:
                transaction = FileTransaction(connection, outbox, now)
                yield transaction
                transaction.finish()
        except BaseException:
            outbox.forget_seen()  # what it took note of was not written
            raise

    def outbox(self, *, batch_size: int, capacity: int, delay: float, lease: float) -> FileOutbox:
        """Return the queue in this file, as an uplink of these options uses it."""
        return FileOutbox(self, batch_size=batch_size, capacity=capacity, delay=delay, lease=lease)

    def budget(self, bill: Bill, about: int, now: float) -> Budget:
        """Return the budget of one account of a bill."""
        with self.reading() as connection:
            return budget(read_balances(connection, bill, now), about)

    def opt_out(self, outbox: Outbox[Any] | None = None) -> int:
        """Remember that the device has opted out and empty the queue; return how many reports were in it."""
        with self.writing(durable=True) as connection:
            connection.execute("UPDATE state SET opted_out = 1")
            dropped = drop(connection, "opted-out")
        with contextlib.suppress(LedgerError), self._alone() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # what was queued is in the log, too
        return dropped

    def opt_in(self) -> None:
        """Remember that the device reports again."""
        with self.writing(durable=True) as connection:
            connection.execute("UPDATE state SET opted_out = 0")

    def close(self) -> None:
        """Close the file. Clients that use it must be closed first: their reports fail from here on."""
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"FileLedger({str(self.path)!r}, relaxed={self.relaxed!r})"


def _identity_of(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from any other of the same name; None when there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_harmless(error: sqlite3.Error) -> bool:
    """Return whether another writer or a full disk is all there is to an error."""
    return any(words in str(error) for words in ("locked", "is full"))  # its code: from Python 3.11 on


_living: weakref.WeakSet[FileLedger] = weakref.WeakSet()
_held: list[FileLedger] = []
_forking = threading.Lock()  # two threads can be on their way to a fork at the same moment


def _before_fork() -> None:
    # SQLite's locks belong to a process, and what it knows of them would be wrong in the child. So nothing is
    # open while the process forks: parent and child open the file anew, each by itself.
    _forking.acquire()
    _held[:] = list(_living)
    for ledger in _held:
        ledger._lock.acquire()
        ledger._disconnect()


def _after_fork_in_parent() -> None:
    for ledger in _held:
        ledger._lock.release()
    _held.clear()
    _forking.release()


def _after_fork_in_child() -> None:
    global _forking  # noqa: PLW0603 (another thread of the parent may wait for it)
    for ledger in _held:
        ledger._lock = threading.RLock()
        ledger._in_use = False
    _held.clear()
    _forking = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )
