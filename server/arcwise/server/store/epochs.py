"""Limits on the epochs that a server accepts and a store closes; they follow from devices' clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.analysis.timeseries.epochs import DAYS_AHEAD, epochs_in

if TYPE_CHECKING:
    from arcwise.tasks import Task

GAP_SECONDS = 600
"""Seconds that a store may be without a server before it is treated as restored from a backup."""

_LEAST_RETENTION_DAYS = 1


def last_closable(task: Task, newest: int) -> int:
    """Return the first epoch that a store may not close, if `newest` is its newest epoch with reports.

    The present epoch is never closed. It may be below `newest`, because devices' clocks may be ahead.
    """
    return newest - epochs_in(DAYS_AHEAD, task)


def last_taken(task: Task, now: float) -> int:
    """Return the newest epoch whose batches a server accepts at the time `now`, in Unix seconds."""
    return task.epoch(now) + epochs_in(DAYS_AHEAD, task)


def last_open_from(task: Task, now: float) -> int:
    """Return the first epoch that no server can have closed by the time `now`, with any settings."""
    if task.lateness_seconds is not None:
        return task.epoch(now - task.lateness_seconds)
    return task.epoch(now) - epochs_in(_LEAST_RETENTION_DAYS, task)
