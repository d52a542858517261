"""The batches that a server's writer commits together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from arcwise.server.store import Busy, Outcome, Store, Writer, writer
from arcwise.server.store.writer import batch_bytes
from tests.support.store_samples import COUNTED, DELAY, TASKS, WIDE, batch
from tests.support.stores import opened

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from arcwise.wire import Batch

CODES = WIDE.mechanism.kernel.codes
SUMS = 2 * CODES


class Recording:
    """A store that records the numbers of the batches in each group."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.groups: list[list[int]] = []

    def add(self, batches: Sequence[Batch]) -> list[Outcome]:
        self.groups.append([int.from_bytes(each.batch_id, "big") for each in batches])
        return self._store.add(batches)


def wide(number: int, epoch: int, codes: int) -> Batch:
    return batch(WIDE, list(range(codes)), number=number, epoch=epoch)


@pytest.mark.parametrize(
    ("batches", "groups"),
    [
        # All of one epoch add up to no more sums than the task has codes.
        ([wide(number, 100, CODES) for number in range(9)], [[*range(9)]]),
        # Of many epochs, each adds its own sums: the oldest batch goes first, and then as many as there is
        # room for.
        ([wide(number, 100 + number, CODES) for number in range(5)], [[0, 1], [2, 3], [4]]),
        # Small batches do not wait for them, nor do they wait for small ones.
        (
            [*(wide(number, 100 + number, CODES) for number in range(4)), batch(DELAY, [1], number=9)],
            [[0, 9], [1, 2], [3]],
        ),
        (
            [
                *(batch(DELAY, [1], number=number, epoch=100 + number) for number in range(3)),
                wide(9, 100, CODES),
                wide(10, 101, CODES),
            ],
            [[0, 1, 2, 9], [10]],
        ),
    ],
    ids=["one epoch", "many epochs", "small ones first", "no more than fits"],
)
def test_a_group_is_as_large_as_a_commit_takes_in_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: list[Batch], groups: list[list[int]]
) -> None:
    monkeypatch.setattr(writer, "_MAX_SUMS", SUMS)
    assert written(tmp_path, batches) == groups


def test_every_second_group_has_small_batches_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_MAX_SUMS", SUMS)
    large = [wide(number, 100 + number, CODES) for number in range(2)]
    small = [batch(DELAY, [1], number=number, epoch=number) for number in range(10, 310)]
    first, second, third = written(tmp_path, large + small)
    assert first[0] == 0
    assert set(first[1:] + second) == set(range(10, 310))
    assert third == [1]


def written(folder: Path, batches: list[Batch]) -> list[list[int]]:
    """Let all batches wait together, and return the numbers of those that were committed together."""
    codes = {bytes.fromhex(task.id): task.mechanism.kernel.codes for task in TASKS}

    async def main(store: Recording) -> None:
        writes = Writer(store, max_waiting_bytes=1 << 20)
        added = [writes.add(each, codes[each.task_id]) for each in batches]
        assert await asyncio.gather(*added) == [COUNTED] * len(batches)
        await writes.close()

    with opened(f"sqlite:///{folder / 'counts.db'}") as store:
        recording = Recording(store)
        asyncio.run(main(recording))
        assert sum(store.report_count(task) for task in TASKS) == sum(
            len(each.codes) // (2 if each.task_id.hex() == WIDE.id else 1) for each in batches
        )
    return recording.groups


def test_large_batches_leave_room_for_small_ones(tmp_path: Path) -> None:
    """Large batches fill at most half of a group; the first one always fits."""
    size = 20_000
    most = 3 * batch_bytes(size)

    async def main(store: Store) -> None:
        writes = Writer(store, max_waiting_bytes=most)
        writes.add(batch(WIDE, [1] * (size // 2), number=0), CODES)
        writes.add(batch(WIDE, [1] * (size // 2), number=1), CODES)
        with pytest.raises(Busy):
            writes.add(batch(WIDE, [1] * (size // 2), number=2), CODES)
        small = 0
        while True:
            try:
                writes.add(batch(DELAY, [1], number=100 + small), DELAY.mechanism.kernel.codes)
            except Busy:
                break
            small += 1
        assert small == batch_bytes(size) // batch_bytes(1)
        await writes.close()
        assert writes.waiting_bytes == 0
