"""What a batch must satisfy to be counted, and the reasons why it is not: those of a server's answers."""

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
"""Why a batch is not counted. The first that applies is given; all but the last two have a server's words."""


class Rejected(NamedTuple):
    """Batches that were not counted for one reason, and the reports in them as far as that can be told.

    Attributes
    ----------
    reason
        Why, such as "replayed".
    batches
        How many there were.
    reports
        The reports in them; 0 for a body that cannot be read, or whose task is unknown.
    """

    reason: str
    batches: int
    reports: int


class Rules(NamedTuple):
    """The tasks that are counted, and the limits that their batches must keep.

    Arrays have the shape (T,), in the order of the tasks: `codes` holds K, `widths` the bytes of a packed
    code and `last` the newest epoch that is accepted.
    """

    tasks: tuple[Task, ...]
    codes: IntArray
    widths: IntArray
    last: IntArray
    max_batch_codes: int


def make_rules(tasks: Task | Iterable[Task], now: float | None, max_batch_codes: int) -> Rules:
    """Return the rules for one task or several; see `arcwise.analysis.count_batches` for the arguments."""
    each = (tasks,) if isinstance(tasks, Task) else tuple(tasks) if isinstance(tasks, Iterable) else ()
    if not each or not all(isinstance(task, Task) for task in each):
        raise ParameterError(f"tasks must be a Task, or at least one of them; got {shown(tasks)}")
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
    """Return numbers of (reason, batches, reports) added up, in the order of `REASONS`."""
    batches, reports = dict.fromkeys(REASONS, 0), dict.fromkeys(REASONS, 0)
    for reason, some, their in found:
        batches[reason] += some
        reports[reason] += their
    return tuple(
        Rejected(words, batches[reason], reports[reason])
        for reason, words in REASONS.items()
        if batches[reason]
    )
