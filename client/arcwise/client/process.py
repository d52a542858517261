"""Which process this is: for what must not be carried over a fork.

A process id does not say it: the first process of a container has the number 1, and so has a child that it
forks into a new PID namespace.
"""

from __future__ import annotations

import os
import sys

_mark = object()
_pid = 0
_page: bytearray | mmap.mmap = bytearray(1)
"""Its first byte is 1; in a forked child it is 0 until it is noticed, where the system can do that."""
if sys.platform == "linux":
    import mmap

    _wiped = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        _wiped.madvise(18)  # MADV_WIPEONFORK, which mmap does not name; from Linux 4.14 on
    except OSError:
        _wiped.close()
    else:
        _page = _wiped


def current_process() -> object:
    """Return an object that stands for this process, and is another one in every forked child.

    Three things give a child away: Python's own hooks, its id, and on Linux a page of memory that the kernel
    empties. What none of them sees: a process that C code forks with its parent's id on another system than
    Linux, and a process that was restored from a snapshot.
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
