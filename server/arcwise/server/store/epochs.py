"""How far devices' clocks may be ahead, and how many epochs days are: one rule for a server and its store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.analysis.timeseries.epochs import DAYS_AHEAD, epochs_in

if TYPE_CHECKING:
    from arcwise.tasks import Task

__all__ = ["DAYS_AHEAD", "epochs_in", "last_closable"]


def last_closable(task: Task, newest: int) -> int:
    """Return before which epoch a store may close, where `newest` is the newest that has reports.

    The present may lie as far behind it as devices may be ahead, and is never closed.
    """
    return newest - epochs_in(DAYS_AHEAD, task)
