"""Charges, caps and accounts, shared by every kind of ledger.

A ledger has one account per task, one account per group, and one account that every report is charged to. A
report is charged to all of its accounts or to none of them. The *bill* of a report lists its charges, one
item per account. Epsilon is counted in millionths and delta in units of 2**-64, so that a thousand charges
add up exactly. Charges are never refunded.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from arcwise.kernels.certificate import UNIT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcwise.tasks import Caps, Charge, Task

EVERYTHING = ""
"""The account that every report is charged to, in addition to the accounts of its task and group."""

_MICRO = 1_000_000


class Item(NamedTuple):
    """One account's part of a bill: the charge to this account and the account's caps."""

    account: str
    name: str
    epsilon: int
    delta: int
    lifetime: int | None = None
    rolling: int | None = None
    lifetime_delta: int | None = None
    rolling_delta: int | None = None
    window: int = 0

    @property
    def rolls(self) -> bool:
        """Whether the account has a rolling cap, which depends on the times of charges."""
        return self.rolling is not None or self.rolling_delta is not None

    def times(self, count: int) -> Item:
        """Return an item with `count` times this charge."""
        return self._replace(epsilon=self.epsilon * count, delta=self.delta * count)


Bill: TypeAlias = "tuple[Item, ...]"


def bill(parts: Iterable[tuple[str, str, Charge, Caps | None]]) -> Bill:
    """Return a bill from parts of the form (account, display name, charge, caps)."""
    return tuple(
        Item(account, name, *charge)
        if caps is None
        else Item(
            account,
            name,
            *charge,
            lifetime=caps.lifetime_micro,
            rolling=caps.rolling_micro,
            lifetime_delta=caps.lifetime_delta_units,
            rolling_delta=caps.rolling_delta_units,
            window=caps.window,
        )
        for account, name, charge, caps in parts
    )


def bounded(bill: Bill) -> bool:
    """Return whether a cap limits how often the bill can be charged; a bill of zero charges needs no cap."""
    fresh = Balance()
    return any(_reports_left(item, fresh) for item in bill) or not any(
        item.epsilon or item.delta for item in bill
    )


def entry_time(now: float) -> int:
    """Return the time rounded up to a whole second, so that no charge leaves its rolling window too early."""
    return math.ceil(now)


class Balance:
    """The amounts that an account has spent, in total and within its rolling window.

    Epsilon is in micro-epsilon, delta in units of 2**-64. The window is in seconds; it is 0 until the account
    first has a rolling cap.
    """

    __slots__ = ("delta", "epsilon", "recent_delta", "recent_epsilon", "window")

    def __init__(
        self,
        epsilon: int = 0,
        delta: int = 0,
        window: int = 0,
        recent_epsilon: int = 0,
        recent_delta: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.window = window
        self.recent_epsilon = recent_epsilon
        self.recent_delta = recent_delta

    def copy(self) -> Balance:
        """Return an independent copy."""
        return Balance(self.epsilon, self.delta, self.window, self.recent_epsilon, self.recent_delta)

    def widen(self, window: int, now: float) -> tuple[int, int, int] | None:
        """Switch to a longer window and return the entry to add for it, as (second, epsilon, delta), or None.

        The balance has only the sum of the spending that has left the old window, without its times. The
        entry dates all of this spending at the start of the old window, which is the latest possible time.
        """
        before, self.window = self.window, window
        hidden = self.epsilon - self.recent_epsilon, self.delta - self.recent_delta
        if hidden == (0, 0):
            return None
        self.recent_epsilon, self.recent_delta = self.epsilon, self.delta
        return entry_time(now - before), *hidden

    def leave(self, epsilon: int, delta: int) -> None:
        """Subtract spending that has left the window."""
        self.recent_epsilon -= epsilon
        self.recent_delta -= delta

    def fits(self, item: Item) -> bool:
        """Return whether the item's charge stays within all of the item's caps."""
        epsilon, delta = item.epsilon, item.delta
        # A charge of 0 always fits, even if a cap was lowered below the current spending.
        return (
            not epsilon
            or (
                _within(self.epsilon + epsilon, item.lifetime)
                and _within(self.recent_epsilon + epsilon, item.rolling)
            )
        ) and (
            not delta
            or (
                _within(self.delta + delta, item.lifetime_delta)
                and _within(self.recent_delta + delta, item.rolling_delta)
            )
        )

    def enter(self, item: Item) -> None:
        """Charge the item."""
        self.epsilon += item.epsilon
        self.delta += item.delta
        if self.window:
            self.recent_epsilon += item.epsilon
            self.recent_delta += item.delta


def _within(spent: int, cap: int | None) -> bool:
    return cap is None or spent <= cap


class Budget(NamedTuple):
    """A device's spending on a task, a group or everything, and the budget that its caps still allow.

    Attributes
    ----------
    epsilon, delta
        Total spending.
    epsilon_left, delta_left
        Budget that remains under the lifetime caps; None without such a cap.
    recent_epsilon, recent_delta
        Spending within the rolling window; None without a rolling cap.
    recent_epsilon_left, recent_delta_left
        Budget that remains now under the rolling caps; None without such a cap.
    window
        Length of the rolling window in seconds; None without a rolling cap.
    reports_left
        Number of further reports that all caps allow now, including the caps on everything and those of the
        task's group. For a group: the number of rounds that are allowed for any draw of tasks. None if no cap
        bounds the number, for memoised tasks, and for everything.

    Examples
    --------
    >>> from arcwise.client import Caps, Circle, Client, MemoryLedger, Task
    >>> heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=5.0))
    >>> client = Client("http://127.0.0.1:8000", tasks=[heading], ledger=MemoryLedger())
    >>> budget = client.budget("heading")
    >>> budget.epsilon, budget.epsilon_left, budget.reports_left
    (0.0, 5.0, 5)
    """

    epsilon: float
    delta: float
    epsilon_left: float | None = None
    delta_left: float | None = None
    recent_epsilon: float | None = None
    recent_delta: float | None = None
    recent_epsilon_left: float | None = None
    recent_delta_left: float | None = None
    window: int | None = None
    reports_left: int | None = None


def budget(balances: list[tuple[Item, Balance]]) -> Budget:
    """Return the budget of a bill's first account, with the number of reports that all items allow.

    `balances` holds each item of the bill for one report, with the current balance of its account.
    """
    item, balance = balances[0]
    lefts = [left for item, balance in balances for left in _reports_left(item, balance)]
    return Budget(
        balance.epsilon / _MICRO,
        balance.delta / UNIT,
        _left(item.lifetime, balance.epsilon, _MICRO),
        _left(item.lifetime_delta, balance.delta, UNIT),
        None if item.rolling is None else balance.recent_epsilon / _MICRO,
        None if item.rolling_delta is None else balance.recent_delta / UNIT,
        _left(item.rolling, balance.recent_epsilon, _MICRO),
        _left(item.rolling_delta, balance.recent_delta, UNIT),
        item.window if item.rolls else None,
        min(lefts, default=None),
    )


def _left(cap: int | None, spent: int, unit: int) -> float | None:
    return None if cap is None else max(0, cap - spent) / unit


def _reports_left(item: Item, balance: Balance) -> list[int]:
    caps = (
        (item.lifetime, balance.epsilon, item.epsilon),
        (item.rolling, balance.recent_epsilon, item.epsilon),
        (item.lifetime_delta, balance.delta, item.delta),
        (item.rolling_delta, balance.recent_delta, item.delta),
    )
    return [max(0, cap - spent) // charge for cap, spent, charge in caps if cap is not None and charge]


class Account:
    """A balance, and the charges in its rolling window as tuples (second, epsilon, delta), oldest first."""

    __slots__ = ("balance", "entries")

    def __init__(self) -> None:
        self.balance = Balance()
        self.entries: deque[tuple[int, int, int]] = deque()

    def copy(self) -> Account:
        """Return an independent copy."""
        twin = Account()
        twin.balance, twin.entries = self.balance.copy(), self.entries.copy()
        return twin

    def roll(self, item: Item, now: float) -> None:
        """Adopt the item's window and drop the charges that have left it."""
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
    """The stored answers of a memoised task, see `Memo`."""

    __slots__ = ("draw", "paid")

    def __init__(self, draw: int, paid: int) -> None:
        super().__init__()
        self.draw = draw
        self.paid = paid


class Contents:
    """The contents of a ledger after its first use; `now` is the latest time that the ledger was given."""

    __slots__ = ("accounts", "memos", "now")

    def __init__(self) -> None:
        self.now = float("-inf")
        self.accounts: dict[str, Account] = {}
        self.memos: dict[str, KeptAnswers] = {}

    def charge(self, bill: Bill) -> bool:
        """Charge all items of a bill; return False and charge nothing if a cap forbids one of them."""
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
        """Start to memoise the task, or raise its number of paid answers."""
        memo = self.memos.setdefault(task.id, KeptAnswers(draw, paid))
        memo.paid = paid
        return memo

    def budget(self, bill: Bill, now: float) -> Budget:
        """Return the budget of a bill's first account, without changing anything."""
        balances = []
        for item in bill:
            account = self.accounts.get(item.account, Account()).copy()
            account.roll(item, max(self.now, now))
            balances.append((item, account.balance))
        return budget(balances)
