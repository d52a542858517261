"""Where a command's counts come from: a file of numbers, or the epochs of a task in a store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TextIO

import click
import numpy as np

from arcwise.analysis.timeseries.epochs import Span, read_epoch
from arcwise.server.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from arcwise.tasks import Task
    from arcwise.typing import IntArray

__all__ = ["read_counts", "read_span", "stored_counts"]


def read_counts(file: TextIO, option: str) -> IntArray:
    """Return counts from a JSON array, or from one number a line; `option` named the file."""
    try:
        text = file.read()
        numbers = json.loads(text) if text.lstrip().startswith("[") else [int(line) for line in text.split()]
        array = np.asarray(numbers)
        if array.dtype.kind not in "iu" or array.max() > _LARGEST:
            raise ValueError
    except (ValueError, OverflowError, RecursionError):  # bytes that are no text are a ValueError, too
        raise click.ClickException(
            f"{option} must hold whole numbers below 2^63, as a JSON array or one a line"
        ) from None
    return array.astype(np.int64)


_LARGEST = np.iinfo(np.int64).max


def stored_counts(url: str, tasks: Sequence[Task]) -> Iterator[dict[int, IntArray]]:
    """Yield the counts by epoch of each task, over one connection to the store."""
    store = open_store(url, create=False)  # an empty one helps nobody who mistyped its name
    try:
        for task in tasks:
            yield store.counts_by_epoch(task)
    finally:
        store.close()


def read_span(
    task: Task, start: str | None, end: str | None, *, options: tuple[str, str] = ("--from", "--to")
) -> Span:
    """Return the epochs of a task that start at one time or later, and before another; there may be none."""
    first = None if start is None else read_epoch(task, start, options[0])
    last = None if end is None else read_epoch(task, end, options[1]) - 1
    return Span(first, last)
