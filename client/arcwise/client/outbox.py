"""Codes on their way out: a bounded queue in memory, grouped into batches of one task and one epoch.

Only codes come in here, never a value. What a batch may reveal besides its codes is kept small: the codes are
sorted, so their order tells nothing, and the batch's id is random.
"""

from __future__ import annotations

import math
import os
import threading
import time
from array import array
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from arcwise.wire import BATCH_ID_BYTES, Batch, code_width, encode_batch, pack_codes

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.tasks import Task

__all__ = ["Counters", "Outbox", "PendingBatch"]


@dataclass(frozen=True, slots=True)
class Counters:
    """What became of the reports of an uplink so far, in numbers of reports.

    Attributes
    ----------
    pending
        Queued and neither acknowledged nor dropped.
    sent
        Acknowledged by the server with a 204.
    dropped
        Given up for good, by reason: an HTTP status such as "410", "expired", or "closed" (still queued when
        the uplink was closed). They were charged: what they spent stays spent.
    lost
        Not made, because the queue was full. Nothing was charged for them. A report that a cap stopped is
        not counted here, nor anywhere.
    """

    pending: int = 0
    sent: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    lost: int = 0


class PendingBatch:
    """Codes of one task and one epoch that travel together, sealed when they are first sent."""

    __slots__ = ("body", "codes", "created", "done", "epoch", "task")

    def __init__(self, task: Task, epoch: int, created: float) -> None:
        self.task = task
        self.epoch = epoch
        self.created = created
        self.codes = array("H")
        self.body: bytes | None = None
        self.done = False

    def seal(self) -> bytes:
        """Return the body; made once, so a retry sends the same bytes and the server counts them once."""
        if self.body is None:
            self.codes = array("H", sorted(self.codes))
            packed = pack_codes(self.codes, code_width(self.task.mechanism.kernel.codes))
            batch_id = os.urandom(BATCH_ID_BYTES)
            self.body = encode_batch(Batch(bytes.fromhex(self.task.id), batch_id, self.epoch, packed))
        return self.body


class Outbox:
    """A bounded queue of codes; safe to use from several threads, with one that takes batches out.

    A batch is *open* while it accepts codes, *waiting* once it is full or due, *taken* while it is being
    sent. A taken batch goes back to waiting, or is finished: acknowledged or dropped.

    Parameters
    ----------
    batch_size
        Most codes in one batch.
    capacity
        Most codes in the queue. Room is looked for before a report is charged, so threads that report at the
        same moment can exceed it by one each.
    """

    def __init__(self, *, batch_size: int, capacity: int) -> None:
        self.lock = threading.RLock()
        self.pending = 0
        self._batch_size = batch_size
        self._capacity = capacity
        self._open: dict[tuple[str, int], PendingBatch] = {}
        self._waiting: deque[PendingBatch] = deque()
        self._abandoned = False
        self._taken: PendingBatch | None = None
        self._sent = 0
        self._dropped: dict[str, int] = {}
        self._lost = 0

    def has_room(self) -> bool:
        """Return whether one more code fits; when not, a report is counted as lost."""
        if self.pending < self._capacity:
            return True
        with self.lock:
            self._lost += 1
        return False

    def put(self, task: Task, epoch: int, code: int) -> bool:
        """Queue one code; True when there is something new to do: a batch was begun, or is full."""
        key = (task.id, epoch)
        with self.lock:
            if self._abandoned:  # closed by another thread since room was looked for
                self._dropped["closed"] = self._dropped.get("closed", 0) + 1
                return False
            self.pending += 1
            batch = self._open.get(key)
            begun = batch is None
            if batch is None:
                batch = self._open[key] = PendingBatch(task, epoch, time.monotonic())
            batch.codes.append(code)
            if len(batch.codes) < self._batch_size:
                return begun
            del self._open[key]
            self._waiting.append(batch)
            return True

    def close_open(self) -> list[PendingBatch]:
        """Let no open batch wait for more codes; return every batch that is not finished."""
        with self.lock:
            self._waiting.extend(self._open.values())
            self._open.clear()
            return [*self._waiting, *([] if self._taken is None else [self._taken])]

    def take(self, now: float, interval: float, ready_at: Callable[[str], float]) -> PendingBatch | float:
        """Return the next batch to send, or the time at which there will be one.

        Parameters
        ----------
        now
            The time of the monotonic clock.
        interval
            For how many seconds an open batch waits for more codes. One that may not be sent yet for another
            reason stays open beyond that, and fills up.
        ready_at
            The earliest time at which a batch of the task with this id may be tried.
        """
        with self.lock:
            soonest = math.inf
            for key, batch in list(self._open.items()):
                due = max(batch.created + interval, ready_at(batch.task.id))
                if due <= now:
                    del self._open[key]
                    self._waiting.append(batch)
                else:
                    soonest = min(soonest, due)
            for batch in self._waiting:
                due = ready_at(batch.task.id)
                if due <= now:
                    self._waiting.remove(batch)
                    self._taken = batch
                    return batch
                soonest = min(soonest, due)
            return soonest

    def put_back(self, batch: PendingBatch) -> None:
        """Let a taken batch wait again, behind the others, so that one bad batch cannot block them."""
        with self.lock:
            self._taken = None
            if not batch.done:
                self._waiting.append(batch)

    def finish(self, batch: PendingBatch, dropped: str | None = None) -> None:
        """Be done with a batch: acknowledged, or dropped for this reason."""
        with self.lock:
            if batch is self._taken:
                self._taken = None
            if batch.done:
                return
            batch.done = True
            count = len(batch.codes)
            self.pending -= count
            if dropped is None:
                self._sent += count
            else:
                self._dropped[dropped] = self._dropped.get(dropped, 0) + count

    def expire(self, before: float) -> int:
        """Drop the batches begun before this monotonic time; return how many reports they held."""
        with self.lock:
            old = [batch for batch in self._open.values() if batch.created < before]
            old += [batch for batch in self._waiting if batch.created < before]
            for batch in old:
                self._open.pop((batch.task.id, batch.epoch), None)
                self.finish(batch, "expired")
            if old:
                self._waiting = deque(batch for batch in self._waiting if not batch.done)
            return sum(len(batch.codes) for batch in old)

    def abandon(self) -> int:
        """Drop everything, because the uplink is closed; return how many reports that were."""
        with self.lock:
            batches = self.close_open()
            for batch in batches:
                self.finish(batch, "closed")
            self._waiting.clear()
            self._abandoned = True
            return sum(len(batch.codes) for batch in batches)

    def counters(self) -> Counters:
        """Return the counters as they are now."""
        with self.lock:
            return Counters(self.pending, self._sent, dict(self._dropped), self._lost)
