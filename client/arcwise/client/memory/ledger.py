"""A ledger that lasts as long as its process: for tests, simulations and gateways of many devices."""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from arcwise.checks import explained
from arcwise.client.accounts import Balance, budget, entry_time
from arcwise.client.ledger import Ledger
from arcwise.client.memory.outbox import MemoryOutbox
from arcwise.errors import LedgerError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.client.accounts import Bill, Budget, Item
    from arcwise.client.ledger import OpenTransaction
    from arcwise.client.outbox import Outbox, OutboxOptions
    from arcwise.tasks import Task

__all__ = ["MemoryLedger"]

# One lock for all memory ledgers: a ledger stays a few words until it is used, a report holds the lock for a
# few microseconds, and a forked child has one lock to renew instead of an unknown number.
_lock = threading.RLock()
_in_use = False


def _renew_lock() -> None:
    global _lock, _in_use  # another thread of the parent may have held it at the fork
    _lock, _in_use = threading.RLock(), False


@contextmanager
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


class _Account:
    """A balance, and the charges that its rolling cap counts: (second, epsilon, delta), oldest first."""

    __slots__ = ("balance", "entries")

    def __init__(self) -> None:
        self.balance = Balance()
        self.entries: deque[tuple[int, int, int]] = deque()

    def copy(self) -> _Account:
        """Return an account of its own with the same charges."""
        twin = _Account()
        twin.balance, twin.entries = self.balance.copy(), self.entries.copy()
        return twin

    def roll(self, item: Item, now: float) -> None:
        """Let go of what has left the window, which becomes the item's."""
        balance = self.balance
        if item.rolls and item.window < balance.window:
            balance.window = item.window
        while self.entries and now - self.entries[0][0] >= balance.window:
            balance.leave(*self.entries.popleft()[1:])
        if item.rolls and item.window > balance.window:
            entry = balance.widen(item.window, now)
            if entry is not None:
                self.entries.appendleft(entry)

    def enter(self, item: Item, now: float) -> None:
        self.balance.enter(item)
        if not self.balance.window:
            return
        second, epsilon, delta = entry_time(now), item.epsilon, item.delta
        if self.entries and self.entries[-1][0] == second:
            _, *before = self.entries.pop()
            epsilon, delta = epsilon + before[0], delta + before[1]
        self.entries.append((second, epsilon, delta))


class _Memo(dict[int, int]):
    __slots__ = ("draw", "paid")

    def __init__(self, draw: int, paid: int) -> None:
        super().__init__()
        self.draw = draw
        self.paid = paid


class _Contents:
    """What a ledger holds once it is used."""

    __slots__ = ("accounts", "memos", "now")

    def __init__(self) -> None:
        self.now = float("-inf")
        self.accounts: dict[str, _Account] = {}
        self.memos: dict[str, _Memo] = {}


class _MemoryTransaction:
    __slots__ = ("_contents", "_ledger", "_outbox", "wakes_sender")

    def __init__(self, ledger: MemoryLedger, outbox: MemoryOutbox, now: float) -> None:
        self._ledger = ledger
        self._outbox = outbox
        self._contents = ledger._opened(now)
        self.wakes_sender = False

    def opted_out(self) -> bool:
        return self._ledger._opted_out

    def has_room(self, reports: int) -> bool:
        return self._outbox.has_room(reports)

    def charge(self, bill: Bill) -> bool:
        contents = self._contents
        accounts = []
        for item in bill:
            account = contents.accounts.get(item.account)
            if account is None:
                account = contents.accounts[item.account] = _Account()
            account.roll(item, contents.now)
            if not account.balance.fits(item):
                return False
            accounts.append(account)
        for item, account in zip(bill, accounts, strict=True):
            account.enter(item, contents.now)
        return True

    def memo(self, task: Task) -> _Memo | None:
        return self._contents.memos.get(task.id)

    def memoize(self, task: Task, draw: int, paid: int) -> _Memo:
        memo = self._contents.memos.setdefault(task.id, _Memo(draw, paid))
        memo.paid = paid
        return memo

    def put(self, task: Task, epoch: int, code: int) -> None:
        self.wakes_sender |= self._outbox.put(task, epoch, code)


class _Attached:
    """Opens transactions. A gateway has one for each device, and a `partial` takes five times as much."""

    __slots__ = ("_ledger", "_outbox")

    def __init__(self, ledger: MemoryLedger, outbox: MemoryOutbox) -> None:
        self._ledger = ledger
        self._outbox = outbox

    @contextmanager
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
        self._contents: _Contents | None = None
        self._opted_out = False

    def _opened(self, now: float) -> _Contents:
        if self._contents is None:
            self._contents = _Contents()
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
            contents = self._contents or _Contents()
            balances = []
            for item in bill:
                account = contents.accounts.get(item.account, _Account()).copy()  # asking changes nothing
                account.roll(item, max(contents.now, now))
                balances.append((item, account.balance))
            return budget(balances)

    def opt_out(self) -> int:
        """Remember that the device has opted out; return 0, since the queue is the uplink's."""
        with _alone():
            self._opted_out = True
            return 0

    def opt_in(self) -> None:
        """Remember that the device reports again."""
        self._opted_out = False
