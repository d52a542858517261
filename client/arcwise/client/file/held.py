"""A connection to a ledger's file that keeps its locks even if other code closes a descriptor of the file.

SQLite's locks belong to the process, and the system releases all of them when the process closes any
descriptor of the file, for example after copying it. Another process then treats the ledger as unused. It
removes the log and truncates the log's index while other processes have it mapped, or it writes to the log in
the middle of an open transaction. Linux also has locks of an open file description, which last until their
own descriptor is closed. So a connection takes the two SQLite locks that mark the file as in use a second
time, on its own descriptors. A third lock of this kind makes writers take turns.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import struct
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING
from urllib.parse import quote

from arcwise.client.interruptions import Pause, pause_for_forks
from arcwise.client.process import current_process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

if sys.platform == "linux":
    import fcntl

_FILE_IN_USE = (0x4000_0002, 510)
"""Start and length of the bytes that every SQLite connection with a log locks; see SQLite's file format."""
_INDEX_IN_USE = (128, 1)
"""The byte of the log's index that every process locks while it has the index mapped."""
_F_OFD_SETLK = 37
"""The number is the same on every Linux processor; `fcntl` lacks it if Python was built on an old system."""
_TAKEN = (errno.EAGAIN, errno.EACCES)
_NO_SUCH_LOCKS = (errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT)
"""Errors of opening a ledger's file that this process cannot write, or a log's index that does not exist."""
_TURN = (0x4000_0200, 1)
"""A byte after those that SQLite locks, where no data lies; a process that changes the file locks it."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.005
"""Seconds between two attempts to take a turn; a turn is usually as short as a commit."""


class HeldConnection(sqlite3.Connection):
    """A connection to the file at this real path; call `hold` once it is known to be a ledger."""

    def __init__(self, path: Path, mode: str, busy_timeout: float) -> None:
        self._path = path
        self._process = current_process()
        self._held: list[int] = []
        self._in_turn = False
        found = path.stat()
        with _changing:
            same = (self._process, found.st_dev, found.st_ino)
            self._descriptors = _open.setdefault(same, _Descriptors())
        super().__init__(
            f"file:{quote(os.fsencode(path.absolute()))}?{mode}",
            uri=True,
            timeout=busy_timeout,
            isolation_level=None,
            check_same_thread=False,
        )

    def hold(self, index: Path) -> None:
        """Lock the file and the given index of its log, if the system has locks of open file descriptions.

        Call this after the first statement, because SQLite then opens the log and the index. Raises
        `sqlite3.OperationalError` if no descriptor is left for the locks, or if another process has exclusive
        access. The latter is possible only if SQLite's own lock was lost.
        """
        if sys.platform == "linux":
            for path, part in ((self._path, _FILE_IN_USE), (index, _INDEX_IN_USE)):
                try:
                    self._held.append(self._descriptors.take(path))
                except OSError as error:
                    if error.errno in _NOT_WRITABLE:
                        return
                    raise sqlite3.OperationalError(f"it cannot be held: {error.strerror}") from error
                if not _has_locked(self._held[-1], fcntl.F_RDLCK, *part):
                    raise sqlite3.OperationalError("database is locked")

    def take_turn(self, seconds: float) -> bool:
        """Keep other processes from changing the file; return False if that fails within `seconds`."""
        pause, deadline = _SHORTEST_PAUSE, time.monotonic() + seconds
        while not self._try_turn():
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return True

    def _try_turn(self) -> bool:
        if sys.platform == "linux":
            self._in_turn = True  # first: a signal handler may raise
            for descriptor in self._held[:1]:  # empty if nothing is held
                return _has_locked(descriptor, fcntl.F_WRLCK, *_TURN)
        return True

    def end_turn(self) -> None:
        """End this connection's turn, if it has one."""
        if sys.platform == "linux" and self._in_turn:
            with contextlib.suppress(OSError):
                for descriptor in self._held[:1]:
                    _set_lock(descriptor, fcntl.F_UNLCK, *_TURN)
            self._in_turn = False

    def close(self) -> None:
        """Release the locks and close: SQLite can then get exclusive access if no other process has locks."""
        if sys.platform == "linux" and self._process is current_process():  # not in a forked child
            while self._held:
                with contextlib.suppress(OSError):
                    # Unlock explicitly: a child that was forked meanwhile may also have the descriptor.
                    _set_lock(self._held[-1], fcntl.F_UNLCK, 0, 0)
                with _changing:
                    self._descriptors.free += (self._held.pop(),)
        super().close()
        with _changing:
            self._descriptors = _Descriptors()


def _set_lock(descriptor: int, kind: int, start: int, length: int) -> None:
    """Change the lock of an open file description on some bytes; length 0 means up to the end."""
    if sys.platform == "linux":
        fcntl.fcntl(descriptor, _F_OFD_SETLK, struct.pack("hhqqi0q", kind, os.SEEK_SET, start, length, 0))


def _has_locked(descriptor: int, kind: int, start: int, length: int) -> bool:
    """Take a lock and return whether that worked; on a system without such locks, return True."""
    try:
        _set_lock(descriptor, kind, start, length)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        if error.errno not in _NO_SUCH_LOCKS:
            raise sqlite3.OperationalError(f"it cannot be locked: {error.strerror}") from error
    return True


class _Descriptors(list[int]):
    """Our descriptors of one file; they are closed with the process's last connection to that file.

    Closing a descriptor earlier would release SQLite's locks of another connection, so the next connection
    reuses the descriptor.
    """

    free: tuple[int, ...] = ()
    """The descriptors that hold no lock."""

    def take(self, path: Path) -> int:
        """Return a descriptor of this file that holds no lock."""
        with _changing:
            found = path.stat()
            for descriptor in self.free:
                with contextlib.suppress(OSError):  # other code of the process closed it
                    if os.path.samestat(os.fstat(descriptor), found):
                        self.free = tuple(other for other in self.free if other != descriptor)
                        return descriptor
            self.append(os.open(path, os.O_RDWR))
            return self[-1]

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        for descriptor in self:
            with contextlib.suppress(OSError):  # other code of the process closed it
                close(descriptor)


_open: weakref.WeakValueDictionary[tuple[object, int, int], _Descriptors] = weakref.WeakValueDictionary()
_changing = threading.RLock()
"""Held while a connection to a file is created, and while the last connection's descriptors are closed."""


def _unchanging() -> Pause:
    with _changing:
        yield


fork_hooks = pause_for_forks(lambda: [_unchanging()])
