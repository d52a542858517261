"""Packed codes to counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from arcwise.wire import code_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from arcwise.tasks import Task
    from arcwise.typing import IntArray
    from arcwise.wire import Batch

_SLICE = 1 << 18


def count_codes(packed: Iterable[bytes], codes: int) -> IntArray:
    """Return how often each of `codes` codes occurs in packed codes, shape (K,)."""
    array = np.frombuffer(b"".join(packed), code_format(codes))
    total = np.zeros(codes, np.int64)
    for start in range(0, len(array), _SLICE):  # in slices, because numpy widens what it counts to 64 bits
        total += np.bincount(array[start : start + _SLICE], minlength=codes)
    return total


def exact_sum(counts: IntArray) -> int:
    """Return the sum of counts that were not made here; numpy's own wraps beyond 64 bits."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())


def summed_counts(
    groups: Mapping[tuple[int, int], Sequence[Batch]], tasks: Mapping[bytes, Task]
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return the task number, epoch, code and number of reports of each code in batches, as four arrays.

    `groups` holds the batches by the number of their task and their epoch, and `tasks` the tasks by id.
    """
    parts = []
    for (number, epoch), batches in groups.items():
        kernel = tasks[batches[0].task_id].mechanism.kernel
        counts = count_codes([batch.codes for batch in batches], kernel.codes)
        found = np.flatnonzero(counts)
        parts.append((np.full(len(found), number), np.full(len(found), epoch), found, counts[found]))
    numbers, epochs, codes, reports = (np.concatenate(column) for column in zip(*parts, strict=True))
    return numbers, epochs, codes, reports
