"""A ledger and a queue in memory, which last as long as their process: for tests, simulations and gateways.

The queue holds only codes, never a value. A batch reveals little besides its codes. The codes are sorted, so
their order reveals nothing, and the batch's id is random. A code can wait for a random time before it joins a
batch.
"""

from __future__ import annotations

import heapq
import math
import os
import threading
from array import array
from collections import defaultdict, deque
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from arcwise.checks import explained
from arcwise.client.accounts import Contents
from arcwise.client.environment import named
from arcwise.client.interruptions import holding
from arcwise.client.ledger import Ledger, Parcel, Send, Wait, seal
from arcwise.errors import LedgerError, ParameterError
from arcwise.wire import code_width

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from arcwise.client.accounts import Bill, Budget, KeptAnswers
    from arcwise.client.delivery import Schedule
    from arcwise.client.ledger import OpenTransaction, Outbox, OutboxOptions, Step
    from arcwise.tasks import Task


class _Batch:
    """A batch of codes of one task and one epoch, sealed when it is first sent."""

    __slots__ = ("body", "codes", "created", "done", "epoch", "task")

    def __init__(self, task: Task, epoch: int, created: float) -> None:
        self.task = task
        self.epoch = epoch
        self.created = created
        self.codes = array("H")
        self.done = False
        self.body: bytes | None = None

    @property
    def reports(self) -> int:
        return len(self.codes)


class MemoryOutbox:
    """A bounded, thread-safe queue of codes in memory; one thread takes batches out.

    A batch is *open* while it accepts codes, *waiting* once it is full or due, and *taken* while it is being
    sent. A taken batch goes back to waiting, or is finished: acknowledged or dropped.

    A signal handler may report between any two steps of the thread that it interrupts, regardless of locks.
    So every batch is in at least one of these states at any time, and a thread removes only batches that it
    has looked at.
    """

    durable = False
    busy_timeout = 0.0

    def __init__(self, options: OutboxOptions) -> None:
        self._options = options
        self._environment = options.environment
        self.foreign: frozenset[str] = frozenset()  # all codes come from clients of one uplink
        self.after_fork()

    def after_fork(self) -> None:
        """Empty the queue, which the parent sends, and replace the lock, which another thread may hold."""
        self.lock = threading.RLock()
        self.pending = 0
        self._sent = 0
        self._dropped: defaultdict[str, int] = defaultdict(int)
        self._delayed: list[tuple[float, int, Task, int, int]] = []
        self._ties = count()
        self._open: dict[tuple[str, int], _Batch] = {}
        self._waiting: deque[_Batch] = deque()
        self._closed = False
        self._taken: _Batch | None = None

    @property
    def queue(self) -> Hashable:
        """A key that is equal for all outboxes of one queue; here each outbox has its own key."""
        return id(self)

    def counts(self) -> tuple[int, int, dict[str, int]]:
        """Return the numbers of pending and acknowledged reports, and of dropped reports by reason."""
        with self.lock:
            return self.pending, self._sent, dict(self._dropped)

    def has_room(self, reports: int) -> bool:
        """Return whether this many more codes fit."""
        return self.pending + reports <= self._options.capacity

    def delays(self, reports: int) -> list[float]:
        """Draw the delays in seconds of this many codes; return an empty list without a `delay` option."""
        longest = self._options.delay
        with named():
            return [longest * self._environment.uniform() for _ in range(reports)] if longest else []

    def put(self, task: Task, epoch: int, code: int, delay: float = 0.0) -> bool:
        """Queue one code; return True if the sender has something new to do: a batch was begun or is full.

        `delay` is one of the delays that `delays` has drawn.
        """
        with self.lock:
            if self._closed:  # by another thread, since the check for room
                self._dropped["closed"] += 1
                return False
            if not self._options.delay:
                return self._join(task, epoch, code, new=1)
            ready = self._environment.monotonic() + delay
            heapq.heappush(self._delayed, (ready, next(self._ties), task, epoch, code))
            self.pending += 1
            return self._delayed[0][0] == ready

    def _join(self, task: Task, epoch: int, code: int, *, new: int = 0) -> bool:
        key = (task.id, epoch)
        batch = self._open.get(key)
        begun = batch is None
        if batch is None:
            batch = self._open.setdefault(key, _Batch(task, epoch, self._environment.monotonic()))
        one = array("H", (code,))
        batch.codes += one  # no call in this line and the next, so no signal handler raises between them
        self.pending += new
        if len(batch.codes) < self._options.batch_size:
            return begun
        self._end(key, batch)
        return True

    def _end(self, key: tuple[str, int], batch: _Batch) -> None:
        """Move an open batch to the waiting batches.

        For a moment the batch is in both places. It may be added to the waiting batches twice, see `take`.
        """
        self._waiting.append(batch)
        if key in self._open and self._open[key] is batch:  # no call in between, so no signal handler either
            del self._open[key]

    def _end_delays(self, now: float) -> None:
        """Add each code to its batch if its delay has ended."""
        while self._delayed and self._delayed[0][0] <= now:
            self._join(*heapq.heappop(self._delayed)[2:])

    def _unfinished(self) -> tuple[_Batch, ...]:
        """End all delays, close all open batches, and return every unfinished batch."""
        self._end_delays(math.inf)
        for key, batch in list(self._open.items()):
            self._end(key, batch)
        return (*self._waiting, *(() if self._taken is None else (self._taken,)))

    def expedite(self) -> Callable[[], bool]:
        """Let all reports that are queued now be sent without waiting, see `Outbox.expedite`."""
        with self.lock:
            batches = self._unfinished()
        return lambda: all(batch.done for batch in batches)

    def take(self, now: float, interval: float, ready_at: Callable[[str], float]) -> Step:
        """Return the next batch to send, or the seconds until there may be one, see `Outbox.take`.

        A batch that must not be sent yet stays open and fills up, even after the interval.
        """
        with self.lock:
            self._end_delays(now)
            soonest = self._delayed[0][0] if self._delayed else math.inf
            for key, batch in list(self._open.items()):
                due = max(batch.created + interval, ready_at(batch.task.id))
                if due <= now:
                    self._end(key, batch)
                else:
                    soonest = min(soonest, due)
            while self._waiting and self._waiting[0].done:
                self._waiting.popleft()
            for batch in self._waiting:
                if batch.done:
                    continue
                due = ready_at(batch.task.id)
                if due <= now:
                    parcel = self._parcel(batch)  # first, so that a batch that cannot be sealed stays queued
                    self._waiting.remove(batch)
                    self._taken = batch
                    return Send(parcel)
                soonest = min(soonest, due)
            return Wait(soonest - now)

    def _parcel(self, batch: _Batch) -> Parcel:
        if batch.body is None:  # sealed once: a retry sends the same bytes, and the server counts them once
            width = code_width(batch.task.mechanism.kernel.codes)
            batch.body = seal(batch.task.id, batch.epoch, batch.codes, width, self._environment)
        put_back, finish = partial(self._put_back, batch), partial(self._finish, batch)
        return Parcel(batch.task.id, batch.task.name, batch.reports, batch.body, put_back, finish)

    def _put_back(self, batch: _Batch) -> None:
        """Put a taken batch behind the waiting batches, so that one bad batch cannot block the others."""
        with self.lock:
            self._taken = None
            if not batch.done and batch not in self._waiting:
                self._waiting.append(batch)

    def _finish(self, batch: _Batch, dropped: str | None) -> int:
        """Count a batch once as acknowledged or dropped; return the number of reports counted."""
        with self.lock:
            if batch is self._taken:
                self._taken = None
            if batch.done:
                return 0
            batch.done = True
            reports = batch.reports  # read first: the lines that count must not contain a call
            self.pending -= reports
            if dropped is None:
                self._sent += reports
            else:
                self._dropped[dropped] += reports
            return reports

    def expire(self, seconds: float) -> int:
        """Drop the batches that are older than `seconds`, and return their number of reports."""
        before = self._environment.monotonic() - seconds
        with self.lock:
            for key, batch in list(self._open.items()):
                if batch.created < before:
                    self._end(key, batch)
            old = [batch for batch in list(self._waiting) if batch.created < before]
            return sum(self._finish(batch, "expired") for batch in old)

    def clear(self, reason: str) -> int:
        """Drop everything for this reason, and return the number of reports."""
        with self.lock:
            return sum(self._finish(batch, reason) for batch in self._unfinished())

    def close(self) -> int:
        """Drop everything, accept no more codes, and return the number of dropped reports."""
        with self.lock:
            self._closed = True
            return self.clear("closed")

    def load(self, schedule: Schedule) -> None:
        """Do nothing: there was no earlier process."""

    def save(self, schedule: Schedule) -> None:
        """Do nothing: there is no later process."""


# One lock for all memory ledgers: an unused ledger then takes only a few words of memory, a report holds the
# lock for a few microseconds, and a forked child has to renew only one lock.
_lock = threading.RLock()
_in_use = False


def _renew_lock() -> None:
    global _lock, _in_use  # another thread of the parent may have held it at the fork
    _lock, _in_use = threading.RLock(), False


@holding
def _alone() -> Iterator[None]:
    """Hold the lock exclusively, against other threads and signal handlers of the same thread."""
    global _in_use  # noqa: PLW0603
    with _lock:
        if _in_use:
            raise LedgerError("the ledger is in use by the call that this call interrupts")
        _in_use = True
        try:
            yield
        finally:
            _in_use = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class _MemoryTransaction:
    __slots__ = ("_contents", "_delays", "_ledger", "_outbox", "wakes_sender")

    def __init__(self, ledger: MemoryLedger, outbox: MemoryOutbox, now: float) -> None:
        self._ledger = ledger
        self._outbox = outbox
        self._contents = ledger._opened(now)
        self.wakes_sender = False

    @property
    def time(self) -> float:
        return self._contents.now

    def opted_out(self) -> bool:
        return self._ledger._opted_out

    def has_room(self, reports: int) -> bool:
        self._delays = self._outbox.delays(reports)
        return self._outbox.has_room(reports)

    def charge(self, bill: Bill) -> bool:
        return self._contents.charge(bill)

    def memo(self, task: Task) -> KeptAnswers | None:
        return self._contents.memos.get(task.id)

    def memoize(self, task: Task, draw: int, paid: int) -> KeptAnswers:
        return self._contents.memoize(task, draw, paid)

    def put(self, task: Task, epoch: int, code: int) -> None:
        self.wakes_sender |= self._outbox.put(task, epoch, code, self._delays.pop() if self._delays else 0.0)


class _Attached:
    """Opens transactions of one ledger.

    A gateway has one such object for each device, and a `partial` would take five times the memory.
    """

    __slots__ = ("_ledger", "_outbox")

    def __init__(self, ledger: MemoryLedger, outbox: MemoryOutbox) -> None:
        self._ledger = ledger
        self._outbox = outbox

    @holding
    def __call__(self, now: float) -> Iterator[_MemoryTransaction]:
        with _alone():
            yield _MemoryTransaction(self._ledger, self._outbox, now)


class MemoryLedger(Ledger):
    """A ledger in memory, which lasts as long as its process.

    After a restart, or in another process, the spending, the answers and the queue are lost. So the caps hold
    only for one run. A fork copies the ledger: afterwards parent and child spend separately, each up to the
    caps. On a device that lives longer than a process, use a `FileLedger`.

    The ledger's time is the latest time that it has ever been given. If the clock steps back, no new window
    begins: charges stay in the rolling window until the clock has caught up.

    Examples
    --------
    >>> from arcwise.client import Caps, Circle, Client, Task
    >>> task = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=2.0))
    >>> client = Client("http://127.0.0.1:8000", tasks=[task], ledger=MemoryLedger())
    >>> [bool(client.report("heading", value)) for value in (1.0, 2.0, 3.0)]
    [True, True, False]
    >>> client.budget("heading").epsilon
    2.0
    >>> client.close(0)
    False
    """

    __slots__ = ("_contents", "_opted_out")

    @explained
    def __init__(self) -> None:
        self._contents: Contents | None = None
        self._opted_out = False

    def _opened(self, now: float) -> Contents:
        if self._contents is None:
            self._contents = Contents()
        self._contents.now = max(self._contents.now, now)
        return self._contents

    def _open_outbox(self, options: OutboxOptions) -> MemoryOutbox:
        return MemoryOutbox(options)

    def _attach(self, outbox: Outbox) -> OpenTransaction:
        if not isinstance(outbox, MemoryOutbox):
            raise ParameterError("ledger must be the FileLedger that the shared Uplink was made with")
        return _Attached(self, outbox)

    def budget(self, bill: Bill, now: float) -> Budget:
        """Return the budget of a bill's first account."""
        with _alone():
            return (self._contents or Contents()).budget(bill, now)

    def opt_out(self) -> int:
        """Record that the device has opted out, and drop the nodes and answers of memoised tasks.

        Return 0, since the queue belongs to the uplink.
        """
        with _alone():
            self._opted_out = True
            if self._contents is not None:
                self._contents.memos.clear()
            return 0

    def opt_in(self) -> None:
        """Record that the device reports again."""
        self._opted_out = False
