"""How far devices' clocks may be ahead, and how many epochs days are: one rule for a server and its store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.analysis.timeseries.epochs import DAYS_AHEAD, epochs_in

if TYPE_CHECKING:
    from arcwise.tasks import Task

GAP_SECONDS = 600
"""For how long a store may have been without a server before it counts as one that was restored."""

_LEAST_RETENTION_DAYS = 1


def last_closable(task: Task, newest: int) -> int:
    """Return before which epoch a store may close, where `newest` is the newest that has reports.

    The present may lie as far behind it as devices may be ahead, and is never closed.
    """
    return newest - epochs_in(DAYS_AHEAD, task)


def last_taken(task: Task, now: float) -> int:
    """Return the newest epoch whose batches a server takes at a time, in Unix seconds."""
    return task.epoch(now) + epochs_in(DAYS_AHEAD, task)


def last_open_from(task: Task, now: float) -> int:
    """Return before which epoch a server can have closed epochs by a time, whatever its settings."""
    if task.lateness_seconds is not None:
        return task.epoch(now - task.lateness_seconds)
    return task.epoch(now) - epochs_in(_LEAST_RETENTION_DAYS, task)
