"""Batches with unique codes, so that counts show the fate of every batch.

A batch holds one code once and the next one three times, and no other batch of its task and epoch has them. A
count of 0 is a loss, 2 is a double count, anything but 1 and 3 is a part of a batch. Errors cannot cancel. A
batch also holds one of a few codes that many batches share, to detect code that overwrites a count instead of
adding.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.domains import Interval
from arcwise.mechanisms import OptimalPiecewise
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE, Batch, encode_batch, pack_codes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from arcwise.typing import IntArray


_DOMAIN = Interval(0, 1)
TASKS = [
    Task(name, _DOMAIN, 1.0, epoch_seconds=3600, mechanism=OptimalPiecewise(_DOMAIN, 1.0, nodes=12_000))
    for name in ("left", "right")
]
_CODES = TASKS[0].mechanism.kernel.codes
_SHARED = 4
"""The last codes, which batches share."""
_SLOTS = (_CODES - _SHARED) // 2
_EPOCHS = 240
"""Hours, which lie within a server's retention."""
CAPACITY = _EPOCHS * _SLOTS * len(TASKS)
"""The number of batches."""
REPORTS = 5
"""In each of them."""


class Batches(NamedTuple):
    """Batches by number, from 0 to below `CAPACITY`; each request for one gives the same bytes."""

    newest: int
    """The epoch of the first batches; later batches belong to the epochs before."""
    seed: int
    """Of the batches' ids."""

    def _place(self, number: int) -> tuple[int, int, int]:
        """Return a batch's task by its place in `TASKS`, its epoch and its first code."""
        rest, task = divmod(number, len(TASKS))
        back, slot = divmod(rest, _SLOTS)
        return task, self.newest - back, 2 * slot

    def batch_id(self, number: int) -> bytes:
        """Return the id of a batch."""
        return hashlib.blake2b(b"%d %d" % (self.seed, number), digest_size=16).digest()

    def request(self, number: int) -> bytes:
        """Return the bytes of a batch's POST."""
        place, epoch, code = self._place(number)
        task = TASKS[place].id
        shared = _CODES - _SHARED + code // 2 % _SHARED
        codes = pack_codes([code, code + 1, code + 1, code + 1, shared], 2)
        body = encode_batch(Batch(bytes.fromhex(task), self.batch_id(number), epoch, codes))
        head = (
            f"POST /v1/tasks/{task}/reports HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Content-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode("ascii") + body

    def cell(self, number: int) -> tuple[str, int]:
        """Return the name of a batch's task, and its epoch."""
        place, epoch, _ = self._place(number)
        return TASKS[place].name, epoch

    def name(self, number: int) -> str:
        """Return a batch's name for messages."""
        place, epoch, code = self._place(number)
        return f"batch {number} (task {TASKS[place].name}, epoch {epoch}, codes {code} and {code + 1})"

    def times(self, counts: Sequence[Mapping[int, IntArray]]) -> tuple[IntArray, list[str]]:
        """Return how often each batch was counted, and the rest that is not explained by whole batches.

        The counts are those of each of `TASKS` by epoch, of shape (K,).
        """
        times = np.zeros((_EPOCHS, _SLOTS, len(TASKS)), np.int64)
        wrong: list[str] = []
        for place, by_epoch in enumerate(counts):
            for epoch, found in by_epoch.items():
                back = self.newest - epoch
                where = f"task {TASKS[place].name}, epoch {epoch}"
                if not 0 <= back < _EPOCHS or found[2 * _SLOTS : -_SHARED].any():
                    wrong.append(f"{where}: reports that nobody sent")
                    continue
                first, second = found[0 : 2 * _SLOTS : 2], found[1 : 2 * _SLOTS : 2]
                times[back, :, place] = first
                for slot in np.flatnonzero(second != 3 * first):
                    number = (back * _SLOTS + int(slot)) * len(TASKS) + place
                    times_each = f"its codes are counted {first[slot]} and {second[slot]} times"
                    wrong.append(f"{self.name(number)}: {times_each}, which is no whole number of batches")
                for code in range(_SHARED):
                    shared, held = found[_CODES - _SHARED + code], first[code::_SHARED].sum()
                    if shared != held:
                        told = f"code {_CODES - _SHARED + code} is counted {shared} times"
                        wrong.append(f"{where}: {told}, and {held} of the counted batches hold it")
        return times.ravel(), wrong
