"""Tasks and batches for the tests of stores."""

from __future__ import annotations

import numpy as np

from arcwise.domains import Circle, Interval
from arcwise.mechanisms import OptimalPiecewise
from arcwise.server.store import Outcome
from arcwise.tasks import Task
from arcwise.typing import IntArray
from arcwise.wire import Batch, pack_codes

Given = tuple[dict[tuple[bytes, int], IntArray], list[tuple[bytes, int, bytes]]]

DELAY = Task("delay", Interval(0, 1), 1.0)
HEADING = Task("heading", Circle(360), 1.0)
WIDE = Task("wide", Interval(0, 1), 1.0, mechanism=OptimalPiecewise(Interval(0, 1), 1.0, nodes=300))
TASKS = [DELAY, HEADING, WIDE]
NOW = 150 * DELAY.epoch_seconds + 9_000
"""A Unix time some weeks after the epochs of these tests, which are about the 100th."""

COUNTED, REPLAYED, CLOSED = Outcome.COUNTED, Outcome.REPLAYED, Outcome.CLOSED


def batch(task: Task, codes: list[int], *, number: int = 0, epoch: int = 100) -> Batch:
    width = 1 if task.mechanism.kernel.codes <= 256 else 2
    return Batch(bytes.fromhex(task.id), number.to_bytes(16, "big"), epoch, pack_codes(codes, width))


def counted(task: Task, codes: list[int]) -> list[int]:
    counts: list[int] = task.count(codes).tolist()
    return counts


def lake(*batches: Batch) -> Given:
    """Return a source's view of batches: counts, and ids."""
    codes: dict[tuple[bytes, int], IntArray] = {}
    for each in batches:
        task = next(task for task in (DELAY, HEADING, WIDE) if bytes.fromhex(task.id) == each.task_id)
        width = "<u2" if task is WIDE else "u1"
        new = np.bincount(np.frombuffer(each.codes, width), minlength=task.mechanism.kernel.codes)
        codes[each.task_id, each.epoch] = codes.get((each.task_id, each.epoch), 0) + new
    return codes, [(each.task_id, each.epoch, each.batch_id) for each in batches]
