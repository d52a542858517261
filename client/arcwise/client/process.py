"""The identity of the current process, for resources that must not be used after a fork.

A process id is not enough: the first process of a container has the id 1, and so has a child that it forks
into a new PID namespace.
"""

from __future__ import annotations

import os
import sys

_mark = object()
_pid = 0
_page: bytearray | mmap.mmap = bytearray(1)
"""Memory whose first byte is 1. In a forked child the kernel may clear it, and `_renew` sets it again."""
if sys.platform == "linux":
    import mmap

    _wiped = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        _wiped.madvise(18)  # MADV_WIPEONFORK, which mmap does not define; since Linux 4.14
    except OSError:
        _wiped.close()
    else:
        _page = _wiped


def current_process() -> object:
    """Return an object that identifies this process; every forked child gets another object.

    A fork is detected by Python's own hooks, by the process id, and on Linux by a page of memory that the
    kernel clears. Two cases are not detected: a process that was restored from a snapshot and, on systems
    other than Linux, a process that C code forks and that gets its parent's id.
    """
    if not _page[0] or _pid != os.getpid():
        _renew()
    return _mark


def _renew() -> None:
    global _mark, _pid
    _mark, _pid = object(), os.getpid()
    _page[0] = 1


_renew()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
