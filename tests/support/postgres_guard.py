"""Ends a PostgreSQL server when the process that started this one is gone for any reason.

``python postgres_guard.py FOLDER``, with a pipe as standard input that only that process holds open.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

PATIENCE = 60.0


def is_there(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # it ended just now, or this system has no /proc
        return not Path("/proc/self/stat").exists()


def end(folder: Path) -> None:
    """Stop the server of a folder immediately, and remove the folder; do nothing if it is gone already."""
    with contextlib.suppress(FileNotFoundError):
        pid = int((folder / "postmaster.pid").read_text("ascii").split()[0])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGQUIT)
        until = time.monotonic() + PATIENCE
        while is_there(pid) and time.monotonic() < until:
            time.sleep(0.02)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end(Path(sys.argv[1]))
