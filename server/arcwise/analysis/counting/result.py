"""Counts of reports by task and epoch, with the rejected batches."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from arcwise.analysis.estimators.estimation import estimate
from arcwise.analysis.timeseries.epochs import Span, merged, read_epoch
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from arcwise.analysis.counting.rules import Rejected
    from arcwise.analysis.estimators.result import Estimate
    from arcwise.tasks import Task
    from arcwise.typing import IntArray


class BatchCounts:
    """The reports of batches, each batch counted once: the result of `count_batches` and `count_table`.

    Parameters
    ----------
    tasks
        The counted tasks.
    counts
        Counts by task id (hex) and epoch.
    rejected
        Rejected batches by reason.
    read_ids
        A function that returns the task ids (hex), epochs and batch ids of the batches in the counts.

    Attributes
    ----------
    tasks
        The counted tasks, in the given order.
    counts
        Reports per code as an int64 array of shape (K,), by (task id in hex, epoch); only for epochs with
        reports.
    rejected
        Rows (reason, batches, reports) of the batches that were not counted. They also work as rows of a
        table: ``pandas.DataFrame(result.rejected)``.
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        counts: Mapping[tuple[str, int], IntArray],
        rejected: tuple[Rejected, ...],
        read_ids: Callable[[], Iterable[tuple[str, int, bytes]]],
    ) -> None:
        self.tasks = tuple(tasks)
        place = {task.id: number for number, task in enumerate(self.tasks)}
        ordered = sorted(counts.items(), key=lambda each: (place[each[0][0]], each[0][1]))
        self.counts: Mapping[tuple[str, int], IntArray] = MappingProxyType(dict(ordered))
        self.rejected = rejected
        self._read_ids = read_ids

    def __repr__(self) -> str:
        reports, epochs = f"{self.reports:,} reports", f"{len(self.counts):,} epochs"
        lost = f"{sum(row.batches for row in self.rejected):,} batches not counted"
        return f"<BatchCounts: {reports} of {len(self.tasks)} tasks in {epochs}, {lost}>"

    @property
    def reports(self) -> int:
        """The number of counted reports."""
        return sum(int(counts.sum()) for counts in self.counts.values())

    @property
    def batch_ids(self) -> Iterator[tuple[str, int, bytes]]:
        """The batches in the counts: task id (hex), epoch, and batch id (16 bytes), in no particular order.

        The engine of a table is queried for the ids only here, so that counting alone does not take longer.
        If the table has changed since it was counted, the ids differ.
        """
        return iter(self._read_ids())

    def by_epoch(self, task: Task) -> dict[int, IntArray]:
        """Return the counts of a task by epoch, as `arcwise.analysis.series` takes them.

        Raises
        ------
        ParameterError
            When the task was not counted.
        """
        if task.id not in {each.id for each in self.tasks}:
            raise ParameterError(f"task must be one of the counted tasks, got {task.name!r}")
        return {epoch: counts for (name, epoch), counts in self.counts.items() if name == task.id}

    def of(
        self, task: Task, start: str | datetime | None = None, end: str | datetime | None = None
    ) -> IntArray:
        """Return the reports per code of a task, shape (K,), as `arcwise.analysis.estimate` takes them.

        Parameters
        ----------
        task
            The task.
        start, end
            Use only epochs that start at `start` or later, and before `end`: a date or a time in UTC
            (2026-11-01, 2026-11-01T06:00Z), or the number of an epoch as a string. None means no limit.

        Raises
        ------
        ParameterError
            When the task was not counted, or `start` or `end` is not a time.
        """
        first = None if start is None else read_epoch(task, _text(start), "start")
        last = None if end is None else read_epoch(task, _text(end), "end") - 1
        return merged(task, self.by_epoch(task), Span(first, last))

    def estimate(
        self,
        task: Task,
        start: str | datetime | None = None,
        end: str | datetime | None = None,
        **options: Any,
    ) -> Estimate:
        """Return the estimates of a task: `arcwise.analysis.estimate` of `of(task, start, end)`.

        Parameters
        ----------
        task, start, end
            As in `of`.
        options
            Options of `arcwise.analysis.estimate`.

        Raises
        ------
        ParameterError
            When there are no reports, or an argument is out of its bounds.
        """
        return estimate(task, self.of(task, start, end), **options)


def _text(time: str | datetime) -> str:
    return time if isinstance(time, str) else time.isoformat()
