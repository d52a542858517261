"""Epochs as times, counts over a range of epochs, and the blocks in which epochs are shown.

An epoch of a task is the number of a period since 1970-01-01 00:00 UTC; devices report no finer time.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from arcwise.analysis.counts import shape_error
from arcwise.errors import ParameterError
from arcwise.tasks import DAY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from arcwise.tasks import Task
    from arcwise.typing import IntArray

DAYS_AHEAD = 1
"""Most days that a batch may be ahead of the present, since devices' clocks and time zones differ."""

MONTH: Final = "month"

Every: TypeAlias = int | Literal["month"]
"""The length of a point of a series: a number of epochs, or a calendar month in UTC."""

_ORIGIN = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LAST = datetime.max.replace(tzinfo=timezone.utc)
_WEEK = 7 * DAY


class Span(NamedTuple):
    """Epochs from `first` to `last`, both included; None means no limit."""

    first: int | None = None
    last: int | None = None

    def __contains__(self, epoch: object) -> bool:
        assert isinstance(epoch, int)  # noqa: S101 (narrows the type for the checker)
        return (self.first is None or epoch >= self.first) and (self.last is None or epoch <= self.last)


def epochs_in(days: int, task: Task) -> int:
    """Return the number of epochs of the task that cover `days` days, at least one."""
    return max(1, -(-days * DAY // task.epoch_seconds))


def epoch_start(task: Task, epoch: int) -> datetime:
    """Return the start of an epoch of the task, in UTC. Raises `ParameterError` beyond the year 9999."""
    if not 0 <= epoch <= (_LAST - _ORIGIN) // timedelta(seconds=task.epoch_seconds):
        raise ParameterError(f"epoch must lie from 1970 to the year 9999, got {epoch!r}")
    return _ORIGIN + epoch * timedelta(seconds=task.epoch_seconds)


def utc(time: datetime) -> str:
    """Return a time in UTC as ISO 8601, as short as possible: 2026-11-01, 2026-11-01T06:30Z."""
    if time.time() == time.min.time():
        return f"{time:%Y-%m-%d}"
    return f"{time:%Y-%m-%dT%H:%M:%SZ}" if time.second else f"{time:%Y-%m-%dT%H:%MZ}"


def read_utc(text: str) -> datetime:
    """Return the time that `utc` wrote."""
    return datetime.fromisoformat(text.replace("Z", "")).replace(tzinfo=timezone.utc)


def check_months(task: Task, name: str) -> None:
    """Raise `ParameterError` unless a day is a whole number of the task's epochs, as months require."""
    if DAY % task.epoch_seconds:
        raise ParameterError(
            f"{name} must be a number of epochs for this task: an epoch lasts {task.epoch_seconds} seconds, "
            "and for months a whole number of epochs must last a day"
        )


def month_starts(task: Task, first: int, last: int) -> list[int]:
    """Return the first epoch of each month from the month of `first` to the month after that of `last`."""
    times = epoch_start(task, first), epoch_start(task, last)
    start, end = (12 * (time.year - _ORIGIN.year) + time.month - 1 for time in times)
    months = np.arange(start, end + 2).astype("datetime64[M]")
    days: list[int] = months.astype("datetime64[D]").astype(np.int64).tolist()
    return [day * (DAY // task.epoch_seconds) for day in days]


def read_epoch(task: Task, text: str, name: str) -> int:
    """Return the first epoch of the task that starts at a time or later.

    The text is a date or a time in ISO 8601, in UTC unless it has an offset, or the number of an epoch.
    `name` is the name of the argument, for the error message.

    A range from one time up to another time, which is excluded, consists of the epochs that *start* in it. So
    consecutive ranges contain every epoch exactly once, for any length of an epoch.
    """
    try:
        if re.fullmatch(r"[0-9]{1,18}", text):
            epoch = int(text)
        else:
            # Python 3.10 does not read the Z.
            time = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text))
            time = time if time.tzinfo else time.replace(tzinfo=timezone.utc)
            epoch = -(-(time - _ORIGIN) // timedelta(seconds=task.epoch_seconds))
        epoch_start(task, epoch)
    except ValueError:  # a ParameterError is a ValueError too
        raise ParameterError(
            f"{name} must be a date (2026-11-01), a time (2026-11-01T06:00Z) or the number of an epoch, "
            f"from 1970 to the year 9999; got {text!r}"
        ) from None
    return epoch


def epochs_in_step(task: Task, step: str, name: str) -> Every:
    """Return the number of epochs of the task in an "epoch", a "day", a "week" or a number of epochs.

    "month" is returned unchanged, because calendar months differ in length.
    """
    if step == MONTH:
        check_months(task, name)
        return MONTH
    if re.fullmatch(r"[0-9]{1,9}", step) and int(step):
        return int(step)
    seconds = {"epoch": task.epoch_seconds, "day": DAY, "week": _WEEK}.get(step)
    if seconds is None:
        raise ParameterError(
            f"{name} must be epoch, day, week, month or a whole number of epochs from 1 on, got {step!r}"
        )
    if seconds % task.epoch_seconds:
        raise ParameterError(
            f"{name} must be a whole number of epochs: an epoch of this task lasts "
            f"{task.epoch_seconds} seconds, so no number of epochs lasts a {step}"
        )
    return seconds // task.epoch_seconds


def merged(task: Task, counts_by_epoch: Mapping[int, IntArray], span: Span) -> IntArray:
    """Return the number of reports per code over the epochs of a range, shape (K,)."""
    total = np.zeros(task.mechanism.kernel.codes, np.int64)
    for epoch, counts in counts_by_epoch.items():
        if counts.shape != total.shape:
            raise shape_error("counts", len(total), counts.shape)
        if epoch in span:
            total += counts
    return total


def epochs_across(epochs: Iterable[int], span: Span | None = None) -> int:
    """Return the number of epochs from the first to the last epoch in a range, or 1 if the range has none."""
    found = [epoch for epoch in epochs if span is None or epoch in span]
    return max(found) - min(found) + 1 if found else 1


def span_to_dict(task: Task, span: Span) -> dict[str, Any]:
    """Return a range as a JSON object: epochs, both included, and times, the end excluded; None: no limit."""
    start = None if span.first is None else utc(epoch_start(task, span.first))
    end = None if span.last is None else utc(epoch_start(task, span.last + 1))
    return {"first": span.first, "last": span.last, "start": start, "end": end}


class Block(NamedTuple):
    """Epochs from `first` to `last`, both included, and the number of their reports, at least one."""

    first: int
    last: int
    n: int

    def __contains__(self, epoch: object) -> bool:
        assert isinstance(epoch, int)  # noqa: S101 (narrows the type for the checker)
        return self.first <= epoch <= self.last


def blocks_of(reports: Mapping[int, int], least: int, *, size: int = 1, anchor: int = 0) -> list[Block]:
    """Return the blocks in which epochs are shown, in order; epochs outside all blocks are withheld.

    A reader who may ask for any range can subtract one sum from another, so the difference counts as shown,
    too. If only whole blocks with at least the minimum of reports are shown, the difference also consists of
    whole blocks. The places of blocks are fixed, independent of the reports. If they depended on the numbers
    of reports, blocks would be split as reports arrive, and an old epoch would be the difference of two
    answers.

    `reports` is the number of reports by epoch, and `least` the least number of reports of a block. With a
    minimum of up to 1, every epoch with reports is a block, for any `size`. A block has `size` epochs; one
    starts at the epoch `anchor`, and the others at whole numbers of blocks from it.

    Examples
    --------
    >>> blocks_of({8: 50, 9: 60, 10: 30, 12: 200}, 100, size=2)
    [Block(first=8, last=9, n=110), Block(first=12, last=13, n=200)]
    """
    filled = sorted((epoch, n) for epoch, n in reports.items() if n)
    if least <= 1:
        return [Block(epoch, epoch, n) for epoch, n in filled]
    blocks = []
    for number, inside in groupby(filled, lambda each: (each[0] - anchor) // size):
        start = anchor + number * size
        blocks.append(Block(max(start, 0), start + size - 1, sum(n for _, n in inside)))
    return [block for block in blocks if block.n >= least]
