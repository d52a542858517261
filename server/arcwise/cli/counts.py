"""Where a command's counts come from: a file of numbers, or the epochs of a task in a store."""

from __future__ import annotations

import json
from bisect import bisect_right
from contextlib import closing
from io import StringIO
from typing import TYPE_CHECKING, TextIO

import click
import numpy as np

from arcwise.analysis.timeseries.epochs import Span, epochs_in_step, read_epoch
from arcwise.analysis.timeseries.series import point_spans
from arcwise.cli.count_file import CountFile
from arcwise.digits import counted
from arcwise.server.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from arcwise.server.store import Store
    from arcwise.tasks import Task
    from arcwise.typing import IntArray


def opened_counts(file: TextIO, option: str) -> TextIO | CountFile:
    """Return a file of `arcwise count`, or a file that `read_counts` is for; `option` named it."""
    try:
        text = file.read()
    except ValueError:  # bytes that are no text
        raise _no_counts(option) from None
    return CountFile(text, option) if CountFile.begins(text) else StringIO(text)


def read_counts(file: TextIO, option: str) -> IntArray:
    """Return counts from a JSON array, or from one number a line; `option` named the file."""
    try:
        text = file.read()
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
        "or one a line. From values: `arcwise randomize` makes reports of them, `arcwise count` counts these"
    )


_LARGEST = np.iinfo(np.int64).max


def stored_counts(
    url: str, asked: Iterable[tuple[Task, Span]], step: str | None = None
) -> Iterator[dict[int, IntArray]]:
    """Yield the counts of the epochs that are asked for of each task, over one connection to the store.

    They are added up in the store, under the first epoch of each point of a series; without a step, all
    but the last epoch's under the first. So memory is bounded by the points, whatever the number of epochs.
    """
    # An empty store helps nobody who mistyped its name.
    with closing(open_store(url, create=False)) as store:
        for task, span in asked:
            epochs = list(store.reports_by_epoch(task, *span))
            if not epochs:
                if others := reports_of_namesakes(store, task):
                    click.echo(f"{task.name}: {others}", err=True)
                yield {}
                continue
            if shows_closed_epochs(store, task):
                click.echo(f"{task.name}: live counts, of epochs that are not released, too", err=True)
            point_of = {**dict.fromkeys(epochs, epochs[0]), epochs[-1]: epochs[-1]}
            if step is not None:
                every = epochs_in_step(task, step, "--by")
                firsts = [point.first for point in point_spans(task, epochs, every=every, span=span)]
                point_of = {epoch: firsts[bisect_right(firsts, epoch) - 1] for epoch in epochs}
            rows = {point: row for row, point in enumerate(dict.fromkeys(point_of.values()))}
            groups = {epoch: rows[point] for epoch, point in point_of.items()}
            yield dict(zip(rows, store.sums(task, groups, len(rows)), strict=True))


def shows_closed_epochs(store: Store, task: Task) -> bool:
    """Return whether readers see closed epochs of a task alone: it says so, or the server that ran last."""
    return bool(task.releases_closed_epochs or store.recall("closed_epochs") or store.decided(task).before)


def reports_of_namesakes(store: Store, task: Task) -> str:
    """Return that a store has reports only of other tasks of this name; "" if that is not so.

    A new version of a task is another task, and its file may have replaced that of the one with reports.
    """
    if store.report_count(task):
        return ""
    counts = {
        each.task.id: store.report_count(each.task)
        for each in store.tasks()
        if each.task.name == task.name and each.task.id != task.id
    }
    others = [f"{key} ({counted(count, 'report')})" for key, count in counts.items() if count]
    if not others:
        return ""
    return (
        f"the store has no report of the task {task.id} in this file, but of another task with this name: "
        f"{', '.join(others)}. Give that task's file; GET /v1/tasks/ID returns it"
    )


def read_span(
    task: Task, start: str | None, end: str | None, *, options: tuple[str, str] = ("--from", "--to")
) -> Span:
    """Return the epochs of a task that start at one time or later, and before another; there may be none."""
    first = None if start is None else read_epoch(task, start, options[0])
    last = None if end is None else read_epoch(task, end, options[1]) - 1
    return Span(first, last)
