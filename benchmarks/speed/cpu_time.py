"""CPU time of other processes in nanoseconds, which Linux's scheduler records for every thread."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["children_of", "cpu_seconds", "parent_of"]


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the seconds of CPU, user and system, that all threads of some processes have used.

    Ended threads are not counted: PostgreSQL's helpers come and go.
    """
    nanoseconds = 0
    for thread in (path for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/schedstat")):
        with suppress(OSError):
            nanoseconds += int(thread.read_text("ascii").split()[0])
    return nanoseconds / 1e9


def parent_of(pid: int) -> int:
    """Return the process that started a process."""
    return int(Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[1])


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started and that still run."""
    lists = [path.read_text("ascii").split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for found in lists for child in found]
