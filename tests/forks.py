"""A check that runs in a forked child."""

from __future__ import annotations

import os
import time
import traceback
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["in_child"]


def in_child(check: Callable[[], bool]) -> bool:
    """Fork, run `check` in the child, return what it said; False if it raised or hung."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads is what is tested
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if check() else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.005)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return False
