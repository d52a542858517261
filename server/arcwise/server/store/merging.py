"""What every store refuses to merge: reports that would count twice, and more than it can add up."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from arcwise.errors import ParameterError
from arcwise.server.store.counting import exact_sum

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from arcwise.tasks import Task

MOST_REPORTS = 2**53
"""Of a task. Floats hold whole numbers up to here exactly, and far beyond it sums wrap. No server takes as
many: they are a thousand million reports a second for a hundred days."""

MOST_MERGED = MOST_REPORTS // 2
"""The rest is left to reports that devices send afterwards."""


class Brought:
    """The reports of the tasks that are brought, added up before anything of the store is changed."""

    def __init__(self) -> None:
        self._reports: dict[str, int] = {}

    def add(self, task: Task, counts: NDArray[np.int64]) -> None:
        """Add the counts of an epoch of a task to those that a merge brings.

        Raises `ParameterError` when counts are negative, or the task has more than `MOST_MERGED` reports.
        """
        if counts.min() < 0:
            raise ParameterError(f"counts must be at least 0, got {counts.min()} of task {task.id}")
        self._reports[task.id] = self._reports.get(task.id, 0) + exact_sum(counts)
        refuse_more_than_most(task.id, self._reports[task.id])


def refuse_more_than_most(task_id: str, reports: int) -> None:
    """Raise `ParameterError` when a task would have more reports than can be added up."""
    if reports > MOST_MERGED:
        raise ParameterError(
            f"task {task_id} would have {reports:,} reports; a merge may bring a task to at most "
            f"2^52 = {MOST_MERGED:,}. Nothing was merged"
        )


def refuse_known_origins(origins: Iterable[bytes], known: Mapping[bytes, int | None]) -> None:
    """Raise `ParameterError` when the reports of one of the origins are in the store already.

    `known` says when the reports of each origin were merged, in Unix seconds, or None for the store's own.
    """
    for origin in origins:
        if origin in known:
            merged = known[origin]
            if merged is None:
                raise ParameterError("these reports come from this very store and would count twice")
            date = datetime.fromtimestamp(merged, timezone.utc).date()
            raise ParameterError(
                f"reports of store {origin.hex()} were merged on {date}; merging them again would count them "
                "twice. Merge a store once, when its servers have stopped"
            )


def refuse_known_batches(known: int) -> None:
    """Raise `ParameterError` when some of the batches to be merged are in the store already."""
    if known:
        raise ParameterError(
            f"at least {known:,} batches are in both stores: devices sent them to both. Nothing was merged. "
            "A merge without batch ids counts them twice"
        )
