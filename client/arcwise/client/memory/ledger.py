"""A ledger that lasts as long as its process: for tests, simulations and gateways of many devices."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from arcwise.checks import explained
from arcwise.client.holding import holding
from arcwise.client.ledger import Ledger
from arcwise.client.memory.contents import Contents
from arcwise.client.memory.outbox import MemoryOutbox
from arcwise.errors import LedgerError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.client.accounts import Bill, Budget
    from arcwise.client.ledger import OpenTransaction
    from arcwise.client.memory.contents import KeptAnswers
    from arcwise.client.outbox import Outbox, OutboxOptions
    from arcwise.tasks import Task

# One lock for all memory ledgers: a ledger stays a few words until it is used, a report holds the lock for a
# few microseconds, and a forked child has one lock to renew instead of an unknown number.
_lock = threading.RLock()
_in_use = False


def _renew_lock() -> None:
    global _lock, _in_use  # another thread of the parent may have held it at the fork
    _lock, _in_use = threading.RLock(), False


@holding
def _alone() -> Iterator[None]:
    """Hold the lock, against other threads and against a signal handler of the thread that has it."""
    global _in_use  # noqa: PLW0603
    with _lock:
        if _in_use:
            raise LedgerError("the ledger is in use by the call that this one interrupts")
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
    """Opens transactions. A gateway has one for each device, and a `partial` takes five times as much."""

    __slots__ = ("_ledger", "_outbox")

    def __init__(self, ledger: MemoryLedger, outbox: MemoryOutbox) -> None:
        self._ledger = ledger
        self._outbox = outbox

    @holding
    def __call__(self, now: float) -> Iterator[_MemoryTransaction]:
        with _alone():
            yield _MemoryTransaction(self._ledger, self._outbox, now)


class MemoryLedger(Ledger):
    """A ledger that lasts as long as its process.

    What it cannot promise: after a restart, or in another process, nothing is known to have been spent, no
    answer is remembered, and what was queued is gone. Its caps are caps for one run. A fork copies the
    ledger: from there on parent and child spend separately, each up to the caps. On a device that lives
    longer than a process, use a `FileLedger`.

    The ledger's time is the largest it has ever been given, so a clock that steps back opens no new window:
    charges then stay in the rolling window until the clock has caught up.

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
        """Return the budget of the first account of a bill."""
        with _alone():
            return (self._contents or Contents()).budget(bill, now)

    def opt_out(self) -> int:
        """Remember that the device has opted out, and drop what values were rounded to.

        Return 0, since the queue is the uplink's.
        """
        with _alone():
            self._opted_out = True
            if self._contents is not None:
                self._contents.memos.clear()
            return 0

    def opt_in(self) -> None:
        """Remember that the device reports again."""
        self._opted_out = False
