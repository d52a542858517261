"""Batches as a lake holds them, good and bad, and their correct counts, computed by plain loops."""

from __future__ import annotations

import random
from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.domains import Circle, Interval
from arcwise.tasks import Task
from arcwise.wire import MAX_EPOCH, Batch, code_width, encode_batch, pack_codes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from arcwise.analysis import BatchCounts

__all__ = [
    "MOST_CODES",
    "NOW",
    "Row",
    "arrow_table",
    "bodies",
    "expected",
    "on_the_wire",
    "same_counts",
    "some_rows",
    "tasks",
]

NOW = 20_010 * 86_400.0
MOST_CODES = 12


class Row(NamedTuple):
    """A row in the column layout; anything may be None."""

    task_id: str | None
    epoch: int | None
    batch_id: bytes | None
    codes: tuple[int | None, ...] | None


@cache
def tasks() -> tuple[Task, ...]:
    """Return tasks of several numbers of codes, one of them of two bytes each, and an hourly one."""
    return (
        Task("heading", Circle(360), epsilon=1.0),
        Task("delay", Interval(0, 600, step=1), epsilon=1.0),
        Task("speed", Interval(0, 100), epsilon=1.0, epoch_seconds=3600),
    )


def some_rows(seed: int, count: int = 300, *, nulls: bool = True) -> list[Row]:
    """Return rows with every kind of fault, replays, and batches that have an id and other content."""
    generator = random.Random(seed)
    each = tasks()
    rows: list[Row] = []
    for _ in range(count):
        task = generator.choice(each)
        size = task.mechanism.kernel.codes
        epoch = task.epoch(NOW) - generator.randrange(3)
        codes = tuple(generator.randrange(size) for _ in range(generator.randint(1, 8)))
        rows.append(Row(task.id, epoch, generator.randbytes(16), codes))
    good = rows.copy()

    def other() -> Row:
        return generator.choice(good)

    rows += [other() for _ in range(count // 20)]  # replays
    for _ in range(count // 20):  # other content under an id, of an earlier or a later place in the order
        row = other()
        rows.append(
            row._replace(epoch=(row.epoch or 0) + generator.choice([-1, 0]), codes=(generator.randrange(9),))
        )
    one, two = other(), next(row for row in good if row.task_id == each[2].id)
    rows += [
        one._replace(task_id=two.task_id, epoch=two.epoch),  # the id of another task's batch
        one._replace(task_id="0" * 64),
        one._replace(task_id="0" * 64),
        one._replace(batch_id=generator.randbytes(16), epoch=-1),
        one._replace(batch_id=generator.randbytes(16), epoch=MAX_EPOCH),
        one._replace(batch_id=generator.randbytes(16), epoch=MAX_EPOCH + 1),
        two._replace(batch_id=generator.randbytes(16), epoch=each[2].epoch(NOW) + 24),
        two._replace(batch_id=generator.randbytes(16), epoch=each[2].epoch(NOW) + 25),
        one._replace(codes=(each[0].mechanism.kernel.codes, 1), task_id=each[0].id),
        Row(each[1].id, 20_000, generator.randbytes(16), (each[1].mechanism.kernel.codes,)),
        Row(each[1].id, 20_000, generator.randbytes(16), (each[0].mechanism.kernel.codes,)),
        one._replace(codes=(1,) * (MOST_CODES + 1)),
        one._replace(codes=()),
        one._replace(batch_id=b"short"),
        one._replace(batch_id=b""),
    ]
    if nulls:
        rows += [one._replace(**{name: None}) for name in Row._fields]
        rows += [
            Row(None, None, None, None),
            one._replace(codes=(1, None)),
            one._replace(batch_id=generator.randbytes(16), codes=(-1,)),
        ]
    generator.shuffle(rows)
    return rows


def expected(
    rows: Iterable[Row], *, ordered: bool = False
) -> tuple[dict[tuple[str, int], list[int]], dict[str, tuple[int, int]]]:
    """Return the counts by task and epoch, and (batches, reports) by reason.

    With `ordered`, the first of several good batches of one id counts, otherwise the smallest.
    """
    known = {task.id: task for task in tasks()}
    counts: dict[tuple[str, int], list[int]] = {}
    rejected: dict[str, tuple[int, int]] = {}
    by_id = defaultdict(list)

    def reject(reason: str, row: Row) -> None:
        batches, reports = rejected.get(reason, (0, 0))
        rejected[reason] = (batches + 1, reports + len(row.codes or ()))

    for row in rows:
        reason = _reason(row, known)
        if reason is None:
            by_id[row.task_id, row.batch_id].append(row)
        else:
            reject(reason, row)
    for same in by_id.values():
        first = same[0] if ordered else min(same, key=lambda row: (row.epoch, row.codes))
        assert first.task_id is not None
        assert first.epoch is not None
        size = known[first.task_id].mechanism.kernel.codes
        total = counts.setdefault((first.task_id, first.epoch), [0] * size)
        for code in first.codes or ():
            assert code is not None
            total[code] += 1
        same.remove(first)
        for row in same:
            reject("replayed" if row == first else "conflicting-batch", row)
    return counts, rejected


def _reason(row: Row, known: dict[str, Task]) -> str | None:
    task_id, epoch, batch_id, codes = row
    if task_id is None or epoch is None or batch_id is None or not codes:
        return "malformed-batch"
    if len(batch_id) != 16 or not 0 <= epoch <= MAX_EPOCH:
        return "malformed-batch"
    if task_id not in known:
        return "unknown-task"
    task = known[task_id]
    if epoch > task.epoch(NOW + 86_400):
        return "epoch-ahead"
    if len(codes) > MOST_CODES:
        return "too-many-codes"
    if any(code is None or not 0 <= code < task.mechanism.kernel.codes for code in codes):
        return "bad-codes"
    return None


def arrow_table(rows: Sequence[Row], *, text: bool = False) -> Any:
    """Return rows as an Arrow table; with `text` the ids of batches in hex."""
    import pyarrow as pa

    ids = [row.batch_id for row in rows]
    names = [None if each is None else each.hex() for each in ids] if text else ids
    return pa.table(
        {
            "task_id": pa.array([row.task_id for row in rows], pa.string()),
            "epoch": pa.array([row.epoch for row in rows], pa.int64()),
            "batch_id": pa.array(names, pa.string() if text else pa.binary()),
            "codes": pa.array(
                [None if row.codes is None else list(row.codes) for row in rows], pa.list_(pa.int32())
            ),
        }
    )


def on_the_wire(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that a body can hold completely, with codes that fit their bytes."""
    return [
        row._replace(codes=tuple((code or 0) % 256 ** _width(row) for code in row.codes or ()))
        for row in rows
        if None not in row and row.epoch is not None and row.epoch >= 0
    ]


def bodies(rows: Iterable[Row]) -> list[bytes]:
    """Return the wire bodies of such rows."""
    return [
        encode_batch(
            Batch(
                bytes.fromhex(row.task_id or ""),
                row.batch_id or b"",
                row.epoch or 0,
                pack_codes([code or 0 for code in row.codes or ()], _width(row)),
            )
        )
        for row in rows
    ]


def _width(row: Row) -> int:
    return next((code_width(task.mechanism.kernel.codes) for task in tasks() if task.id == row.task_id), 1)


def same_counts(
    result: BatchCounts, counts: dict[tuple[str, int], list[int]], rejected: dict[str, tuple[int, int]]
) -> None:
    """Assert that a result has these counts and rejects, and the ids of as many batches as it must."""
    assert set(result.counts) == set(counts)
    for key, numbers in counts.items():
        assert result.counts[key].dtype == np.int64
        assert result.counts[key].tolist() == numbers
    assert {row.reason: (row.batches, row.reports) for row in result.rejected} == rejected
