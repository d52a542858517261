"""What a report costs, what bounds it, and the accounts that are kept as objects: the same for every ledger.

A ledger has one account for each task, one for each group and one for everything. A report is charged to all
that it concerns, or to none: a *bill* is the list of its items, one for each account. Epsilon is counted in
millionths and delta in units of 2**-64, so that a thousand charges add up exactly. Nothing is ever refunded.
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
"""The account that every report is charged to, whatever its task."""

_MICRO = 1_000_000


class Item(NamedTuple):
    """One account's part of a bill: what is charged to it, and the caps that it keeps to."""

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
        """Whether the account has a rolling cap, so that the times of its charges matter."""
        return self.rolling is not None or self.rolling_delta is not None

    def times(self, count: int) -> Item:
        """Return the item of `count` such charges at once."""
        return self._replace(epsilon=self.epsilon * count, delta=self.delta * count)


Bill: TypeAlias = "tuple[Item, ...]"


def bill(parts: Iterable[tuple[str, str, Charge, Caps | None]]) -> Bill:
    """Return the bill of these accounts, each with its name for people, its charge and its caps."""
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
    """Return whether a cap limits how often the bill can be charged; one of zeros needs no cap."""
    fresh = Balance()
    return any(_reports_left(item, fresh) for item in bill) or not any(
        item.epsilon or item.delta for item in bill
    )


def entry_time(now: float) -> int:
    """Return the whole second at which a charge is entered: never earlier, so it never leaves too early."""
    return math.ceil(now)


class Balance:
    """The amounts that an account has spent, in total and within its rolling window.

    Epsilon is in micro-epsilon, delta in units of 2**-64. The window is in seconds, and 0 as long as no
    rolling cap was ever kept.
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
        """Return a balance of its own with the same numbers."""
        return Balance(self.epsilon, self.delta, self.window, self.recent_epsilon, self.recent_delta)

    def widen(self, window: int, now: float) -> tuple[int, int, int] | None:
        """Take a longer window; return what it has to count besides the old one: (second, epsilon, delta).

        What was spent before the old window is known by its sum only. All of it counts as spent when it left
        the old window, the latest moment that it can have been.
        """
        before, self.window = self.window, window
        hidden = self.epsilon - self.recent_epsilon, self.delta - self.recent_delta
        if hidden == (0, 0):
            return None
        self.recent_epsilon, self.recent_delta = self.epsilon, self.delta
        return entry_time(now - before), *hidden

    def leave(self, epsilon: int, delta: int) -> None:
        """Take out what has left the window."""
        self.recent_epsilon -= epsilon
        self.recent_delta -= delta

    def fits(self, item: Item) -> bool:
        """Return whether the item's charge keeps within all of its caps."""
        epsilon, delta = item.epsilon, item.delta
        # A charge of 0 fits whatever was spent before, also when a cap has been lowered since.
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
    """What a device has spent on a task, on a group or on everything, and what its caps leave.

    Attributes
    ----------
    epsilon, delta
        Spent in all.
    epsilon_left, delta_left
        What the lifetime caps leave; None without such a cap.
    recent_epsilon, recent_delta
        Spent within the rolling window; None without such a cap.
    recent_epsilon_left, recent_delta_left
        What the rolling caps leave at this moment; None without such a cap.
    window
        Length of the rolling window in seconds; None without a rolling cap.
    reports_left
        How many more reports all caps allow at this moment, those on everything and those of its group
        among them; for a group how many rounds, whichever tasks are drawn. None when no cap bounds them, for
        memoised tasks, and of everything.

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
    """Return the budget of a bill's first account, with the number of reports that the whole bill allows.

    `balances` holds every item of the bill of one report, with the current balance of the item's account.
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
