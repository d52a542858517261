"""Forked children: a check that runs in one, and a fork that Python does not know of."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["fork_unseen", "in_child"]


def in_child(check: Callable[[], bool]) -> bool:
    """Fork, run `check` in the child and return its result; return False if it raised or hung."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # this test is about forks with threads
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if check() else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.005)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return False


def fork_unseen() -> int:
    """Fork as a C library does, without Python's hooks; return 0 in the child, which ends within two minutes.

    The child has only this thread. If another thread had asked for the interpreter's lock, the child would
    wait for ever for that thread to take it. So no thread may ask meanwhile, and none may wake by itself.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    quiet = 0
    while quiet < 3:
        time.sleep(0.02)  # any thread that has asked gets the lock
        quiet = 0 if _others_run() else quiet + 1
    pid: int = ctypes.PyDLL(None).fork()
    if pid == 0:
        signal.alarm(120)
    else:
        sys.setswitchinterval(interval)
    return pid


def _others_run() -> bool:
    """Return whether another thread of this process waits for a processor, if the system shows it."""
    if sys.platform != "linux":
        return False
    for stat in Path("/proc/self/task").glob("*/stat"):
        if stat.parent.name != str(threading.get_native_id()):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if stat.read_text().rpartition(") ")[2].startswith("R"):
                    return True
    return False
