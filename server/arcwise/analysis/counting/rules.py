"""The conditions under which a batch is counted, and the reasons for rejection, as on a server."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from arcwise.analysis.timeseries.epochs import DAYS_AHEAD, epochs_in
from arcwise.checks import checked_integer, checked_real, shown
from arcwise.errors import ParameterError
from arcwise.tasks import Task
from arcwise.wire import MAX_BODY_BYTES, MAX_EPOCH, code_width

if TYPE_CHECKING:
    from arcwise.typing import IntArray

ACCEPTED: Final = 0
MALFORMED, UNKNOWN_TASK, AHEAD, TOO_MANY, BAD_CODES, REPLAYED, CONFLICTING = range(1, 8)

REASONS: Final = {
    MALFORMED: "malformed-batch",
    UNKNOWN_TASK: "unknown-task",
    AHEAD: "epoch-ahead",
    TOO_MANY: "too-many-codes",
    BAD_CODES: "bad-codes",
    REPLAYED: "replayed",
    CONFLICTING: "conflicting-batch",
}
"""Reasons for rejection: the first that applies is used. All but the last two are those of a server."""


class Rejected(NamedTuple):
    """Batches that were not counted for one reason, and the reports in them if their number is known.

    Attributes
    ----------
    reason
        The reason, such as "replayed".
    batches
        The number of batches.
    reports
        The number of reports in these batches; 0 for an unreadable body or an unknown task.
    """

    reason: str
    batches: int
    reports: int


class Rules(NamedTuple):
    """The counted tasks, and the limits for their batches.

    Arrays have the shape (T,), in the order of the tasks: `codes` holds the numbers of codes K, `widths` the
    numbers of bytes of a packed code, and `last` the newest accepted epochs.
    """

    tasks: tuple[Task, ...]
    codes: IntArray
    widths: IntArray
    last: IntArray
    max_batch_codes: int


def make_rules(tasks: Task | Iterable[Task], now: float | None, max_batch_codes: int) -> Rules:
    """Return the rules for one or several tasks; see `arcwise.analysis.count_batches` for the arguments."""
    each = (tasks,) if isinstance(tasks, Task) else tuple(tasks) if isinstance(tasks, Iterable) else ()
    if not each or not all(isinstance(task, Task) for task in each):
        raise ParameterError(f"tasks must be a Task or a non-empty iterable of Tasks, got {shown(tasks)}")
    if len({task.id for task in each}) < len(each):
        raise ParameterError("tasks must differ: one of them is given twice")
    if now != math.inf:
        now = checked_real("now", time.time() if now is None else now, least=0.0)
    codes = [task.mechanism.kernel.codes for task in each]
    last = [MAX_EPOCH if now == math.inf else task.epoch(now) + epochs_in(DAYS_AHEAD, task) for task in each]
    return Rules(
        each,
        np.array(codes, np.int64),
        np.array([code_width(size) for size in codes], np.int64),
        np.array(last, np.int64),
        checked_integer("max_batch_codes", max_batch_codes, 1, MAX_BODY_BYTES),
    )


def tally(found: Iterable[tuple[int, int, int]]) -> tuple[Rejected, ...]:
    """Return the sums of (reason, batches, reports) per reason, in the order of `REASONS`."""
    batches, reports = dict.fromkeys(REASONS, 0), dict.fromkeys(REASONS, 0)
    for reason, some, their in found:
        batches[reason] += some
        reports[reason] += their
    return tuple(
        Rejected(words, batches[reason], reports[reason])
        for reason, words in REASONS.items()
        if batches[reason]
    )
