"""What a ledger holds, as objects: accounts with their rolling windows, and the answers of memoised tasks."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from arcwise.client.accounts import Balance, budget, entry_time

if TYPE_CHECKING:
    from arcwise.client.accounts import Bill, Budget, Item
    from arcwise.tasks import Task


class Account:
    """A balance, and the charges that its rolling cap counts: (second, epsilon, delta), oldest first."""

    __slots__ = ("balance", "entries")

    def __init__(self) -> None:
        self.balance = Balance()
        self.entries: deque[tuple[int, int, int]] = deque()

    def copy(self) -> Account:
        """Return an account of its own with the same charges."""
        twin = Account()
        twin.balance, twin.entries = self.balance.copy(), self.entries.copy()
        return twin

    def roll(self, item: Item, now: float) -> None:
        """Let go of what has left the window, which becomes the item's."""
        balance, rolls = self.balance, item.rolls
        if rolls and item.window < balance.window:
            balance.window = item.window
        while self.entries and now - self.entries[0][0] >= balance.window:
            balance.leave(*self.entries.popleft()[1:])
        if rolls and item.window > balance.window:
            entry = balance.widen(item.window, now)
            if entry is not None:
                self.entries.appendleft(entry)

    def enter(self, item: Item, now: float) -> None:
        """Charge the item."""
        self.balance.enter(item)
        if not self.balance.window:
            return
        second, epsilon, delta = entry_time(now), item.epsilon, item.delta
        if self.entries and self.entries[-1][0] == second:
            _, *before = self.entries.pop()
            epsilon, delta = epsilon + before[0], delta + before[1]
        self.entries.append((second, epsilon, delta))


class KeptAnswers(dict[int, int]):
    """What a memoised task has answered, see `Memo`."""

    __slots__ = ("draw", "paid")

    def __init__(self, draw: int, paid: int) -> None:
        super().__init__()
        self.draw = draw
        self.paid = paid


class Contents:
    """What a ledger holds once it is used. Its time is the largest that it was ever given."""

    __slots__ = ("accounts", "memos", "now")

    def __init__(self) -> None:
        self.now = float("-inf")
        self.accounts: dict[str, Account] = {}
        self.memos: dict[str, KeptAnswers] = {}

    def charge(self, bill: Bill) -> bool:
        """Charge all items of a bill; False, and nothing charged, when a cap forbids one of them."""
        accounts = []
        for item in bill:
            account = self.accounts.get(item.account)
            if account is None:
                account = self.accounts[item.account] = Account()
            account.roll(item, self.now)
            if not account.balance.fits(item):
                return False
            accounts.append(account)
        for item, account in zip(bill, accounts, strict=True):
            account.enter(item, self.now)
        return True

    def memoize(self, task: Task, draw: int, paid: int) -> KeptAnswers:
        """Memoise the task from here on, or let it have more answers."""
        memo = self.memos.setdefault(task.id, KeptAnswers(draw, paid))
        memo.paid = paid
        return memo

    def budget(self, bill: Bill, now: float) -> Budget:
        """Return the budget of the first account of a bill; asking changes nothing."""
        balances = []
        for item in bill:
            account = self.accounts.get(item.account, Account()).copy()
            account.roll(item, max(self.now, now))
            balances.append((item, account.balance))
        return budget(balances)
