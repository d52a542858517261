"""Counts that a command reads: a file of numbers, a file of `arcwise count -o`, or a task in a store.

Files of `arcwise count` hold counts by task and epoch. JSON has a list of all codes for each epoch::

    {"arcwise_counts": 1, "tasks": [{"task": "delay", "task_id": "...", "epochs": {"20000": [3, 0, ...]}}],
     "rejected": [{"reason": "replayed", "batches": 2, "reports": 200}]}

CSV has a line for each code that was reported: task, task_id, epoch, code, reports.
"""

from __future__ import annotations

import csv
import json
import re
from bisect import bisect_right
from contextlib import closing
from typing import TYPE_CHECKING, Any, TextIO

import click
import numpy as np

from arcwise.analysis.csv_rows import write_csv
from arcwise.analysis.timeseries.epochs import Span, epochs_in_step, read_epoch
from arcwise.analysis.timeseries.series import point_spans
from arcwise.cli.stored_tasks import reports_of_namesakes, shows_closed_epochs
from arcwise.errors import ParameterError
from arcwise.server.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from arcwise.analysis import BatchCounts
    from arcwise.tasks import Task
    from arcwise.typing import IntArray

_FORMAT = 1
_COLUMNS = ("task", "task_id", "epoch", "code", "reports")
_LARGEST = np.iinfo(np.int64).max


class CountFile:
    """Counts by task and epoch from a file, checked against a task when they are requested.

    `option` is the option that named the file; errors quote it.
    """

    def __init__(self, text: str, option: str) -> None:
        self._option = option
        self._found: dict[str, dict[int, dict[int, int]]] = {}
        self._sizes: dict[tuple[str, int], int] = {}
        try:
            if text.lstrip().startswith("{"):
                self._read_json(json.loads(text))
            else:
                self._read_csv(text)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, csv.Error) as error:
            raise ParameterError(f"{option} must be a file of arcwise count -o, and is not") from error

    @staticmethod
    def begins(text: str) -> bool:
        """Return whether a file looks like the output of `arcwise count -o`, and not like bare numbers."""
        csv_head = ",".join(_COLUMNS)
        return text.lstrip("\ufeff").startswith(csv_head) or bool(re.match(r'\s*{\s*"arcwise_counts"', text))

    def _read_json(self, document: dict[str, Any]) -> None:
        if document["arcwise_counts"] != _FORMAT:
            raise ValueError
        for entry in document["tasks"]:
            for epoch, counts in entry["epochs"].items():
                self._sizes[entry["task_id"], int(epoch)] = len(counts)
                for code, reports in enumerate(counts):
                    self._add(entry["task_id"], int(epoch), code, reports)

    def _read_csv(self, text: str) -> None:
        for row in csv.DictReader(text.lstrip("\ufeff").splitlines(), strict=True):
            self._add(row["task_id"], int(row["epoch"]), int(row["code"]), int(row["reports"]))

    def _add(self, task_id: str, epoch: int, code: int, reports: int) -> None:
        numbers = self._found.setdefault(task_id, {}).setdefault(epoch, {})
        if (
            type(reports) is not int
            or not 0 <= reports <= _LARGEST
            or epoch < 0
            or code < 0
            or code in numbers
        ):
            raise ValueError
        numbers[code] = reports

    def by_epoch(self, task: Task) -> dict[int, IntArray]:
        """Return the reports per code, shape (K,), of each epoch that the file has of a task.

        Raises `ParameterError` when they do not fit the task.
        """
        codes = task.mechanism.kernel.codes
        found: dict[int, IntArray] = {}
        for epoch, numbers in self._found.get(task.id, {}).items():
            if self._sizes.get((task.id, epoch), codes) != codes or max(numbers, default=0) >= codes:
                raise ParameterError(f"{self._option} must have counts of {codes} codes for {task.name}")
            counts = found[epoch] = np.zeros(codes, np.int64)
            counts[list(numbers)] = list(numbers.values())
        return found


def opened_counts(file: TextIO, option: str) -> str | CountFile:
    """Return a `CountFile` for the output of `arcwise count`; for any other file its text, for `read_counts`.

    `option` is the option that named the file; errors quote it.
    """
    try:
        text = file.read()
    except ValueError:  # not text
        raise _no_counts(option) from None
    return CountFile(text, option) if CountFile.begins(text) else text


def read_counts(text: str, option: str) -> IntArray:
    """Return the counts in a JSON array, or in a text with one number a line; errors quote `option`."""
    try:
        numbers = json.loads(text) if text.lstrip().startswith("[") else [int(line) for line in text.split()]
        array = np.asarray(numbers)
        if array.dtype.kind not in "iu" or array.max() > _LARGEST:
            raise ValueError
    except (ValueError, OverflowError, RecursionError):
        raise _no_counts(option) from None
    return array.astype(np.int64)


def _no_counts(option: str) -> click.ClickException:
    return click.ClickException(
        f"{option} must hold the number of reports of each code, whole numbers below 2^63, as a JSON array "
        "or one a line. To start from values, make reports of them with `arcwise randomize`, and count the "
        "reports with `arcwise count`"
    )


def stored_counts(
    url: str, asked: Iterable[tuple[Task, Span]], step: str | None = None
) -> Iterator[dict[int, IntArray]]:
    """Yield, for each task, the counts of its requested epochs, over one connection to the store.

    The store adds up the epochs of each point of a series, and the sum is under the point's first epoch.
    Without a step, it adds up all epochs but the last, under the first epoch. So memory depends on the number
    of points, not on the number of epochs.
    """
    # Do not create a store if its name is mistyped.
    with closing(open_store(url, create=False)) as store:
        for task, span in asked:
            epochs = list(store.reports_by_epoch(task, *span))
            if not epochs:
                if others := reports_of_namesakes(store, task):
                    click.echo(f"{task.name}: {others}", err=True)
                yield {}
                continue
            if shows_closed_epochs(store, task):
                click.echo(f"{task.name}: live counts, including epochs that are not released", err=True)
            point_of = {**dict.fromkeys(epochs, epochs[0]), epochs[-1]: epochs[-1]}
            if step is not None:
                every = epochs_in_step(task, step, "--by")
                firsts = [point.first for point in point_spans(task, epochs, every=every, span=span)]
                point_of = {epoch: firsts[bisect_right(firsts, epoch) - 1] for epoch in epochs}
            rows = {point: row for row, point in enumerate(dict.fromkeys(point_of.values()))}
            groups = {epoch: rows[point] for epoch, point in point_of.items()}
            yield dict(zip(rows, store.sums(task, groups, len(rows)), strict=True))


def read_span(
    task: Task, start: str | None, end: str | None, *, options: tuple[str, str] = ("--from", "--to")
) -> Span:
    """Return the epochs of a task from one time on and before another; the span may be empty."""
    first = None if start is None else read_epoch(task, start, options[0])
    last = None if end is None else read_epoch(task, end, options[1]) - 1
    return Span(first, last)


def write_counts(path: Path, result: BatchCounts, *, as_csv: bool) -> None:
    """Write counts as CSV, or as JSON together with the rejected rows."""
    if as_csv:
        write_csv(path, _COLUMNS, _rows(result))
        return
    tasks = [
        {
            "task": task.name,
            "task_id": task.id,
            "epochs": {str(epoch): counts.tolist() for epoch, counts in result.by_epoch(task).items()},
        }
        for task in result.tasks
    ]
    rejected = [row._asdict() for row in result.rejected]
    document = {"arcwise_counts": _FORMAT, "tasks": tasks, "rejected": rejected}
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")


def _rows(result: BatchCounts) -> Iterator[dict[str, Any]]:
    for task in result.tasks:
        head = {"task": task.name, "task_id": task.id}
        for epoch, counts in result.by_epoch(task).items():
            for code in np.flatnonzero(counts).tolist():
                yield head | {"epoch": epoch, "code": code, "reports": int(counts[code])}
