"""One open transaction of a ledger's file: accounts, rolling windows, memoised answers, queued codes."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from arcwise.client.accounts import Balance, entry_time
from arcwise.client.file.schema import read_decimal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.client.accounts import Bill, Item
    from arcwise.client.file.outbox import FileOutbox
    from arcwise.tasks import Task


class _Memo:
    """The answers of a memoised task, as the file holds them."""

    __slots__ = ("_connection", "_task", "draw", "paid")

    def __init__(self, connection: sqlite3.Connection, task: str, draw: int, paid: int) -> None:
        self._connection = connection
        self._task = task
        self.draw = draw
        self.paid = paid

    def get(self, node: int) -> int | None:
        row = self._connection.execute(
            "SELECT code FROM answers WHERE task = ? AND node = ?", (self._task, node)
        ).fetchone()
        return None if row is None else int(row[0])

    def __getitem__(self, node: int) -> int:
        code = self.get(node)
        if code is None:
            raise sqlite3.DatabaseError(f"the answer of node {node} is lost")
        return code

    def __setitem__(self, node: int, code: int) -> None:
        self._connection.execute("INSERT INTO answers VALUES (?, ?, ?)", (self._task, node, code))

    def __iter__(self) -> Iterator[int]:
        # All at once: whoever keeps what a signal handler raises would keep a query that is not at its end.
        rows = self._connection.execute("SELECT node FROM answers WHERE task = ?", (self._task,)).fetchall()
        return iter([node for (node,) in rows])

    def __len__(self) -> int:
        (count,) = self._connection.execute(
            "SELECT count(*) FROM answers WHERE task = ?", (self._task,)
        ).fetchone()
        return int(count)


class FileTransaction:
    """The transaction of a `FileLedger`, open for one report. See `Transaction`."""

    def __init__(self, connection: sqlite3.Connection, outbox: FileOutbox, now: float) -> None:
        self._connection = connection
        self._outbox = outbox
        self._wall = now
        seen, opted_out, self._pending = connection.execute(
            "SELECT now, opted_out, pending FROM state"
        ).fetchone()
        self._opted_out = bool(opted_out)
        self._now: float = max(seen, now)
        self._changed = False
        self._later = self._now > seen
        self.wakes_sender = False

    def finish(self) -> None:
        """Write what was kept back until the end of the transaction."""
        if self._changed:
            self._connection.execute("UPDATE state SET now = ?, pending = ?", (self._now, self._pending))

    @property
    def time(self) -> float:
        """The latest time that the file has seen, now included."""
        return self._now

    def opted_out(self) -> bool:
        """Return whether the device has opted out."""
        return self._opted_out

    def has_room(self, reports: int) -> bool:
        """Return whether the queue has room for so many more reports."""
        return int(self._pending) + reports <= self._outbox.options.capacity

    def charge(self, bill: Bill) -> bool:
        """Charge all items of a bill; False, and nothing charged, when a cap forbids one of them."""
        self._changed |= self._later  # the ledger has seen this time, whatever comes of the charge
        accounts = []
        for item in bill:
            balance = self._roll(item)
            if not balance.fits(item):
                return False
            accounts.append((item, balance))
        for item, balance in accounts:
            balance.enter(item)
            if balance.window:
                self._add_entry(item.account, entry_time(self._now), item.epsilon, item.delta)
            self._write(item, balance)
        self._changed = True
        return True

    def _roll(self, item: Item) -> Balance:
        """Return an account whose window is the item's and ends now.

        Written also when a cap then forbids the charge: else what has left would pile up, and what a longer
        window counts besides would count as spent later with each attempt.
        """
        balance, left_before, window = _read(self._connection, item, self._now)
        if left_before is not None:
            self._connection.execute(
                "DELETE FROM entries WHERE account = ? AND second <= ?", (item.account, left_before)
            )
        entry = _widen(balance, item, self._now)
        if entry is not None:
            self._add_entry(item.account, *entry)
        if left_before is not None or balance.window != window:
            self._write(item, balance)
        return balance

    def _write(self, item: Item, balance: Balance) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO accounts VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                item.account,
                item.name,
                balance.epsilon,
                str(balance.delta),
                balance.window,
                balance.recent_epsilon,
                str(balance.recent_delta),
            ),
        )

    def _add_entry(self, account: str, second: int, epsilon: int, delta: int) -> None:
        row = self._connection.execute(
            "SELECT epsilon, delta FROM entries WHERE account = ? AND second = ?", (account, second)
        ).fetchone()
        if row is not None:
            epsilon, delta = epsilon + row[0], delta + read_decimal(row[1])
        self._connection.execute(
            "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", (account, second, epsilon, str(delta))
        )

    def memo(self, task: Task) -> _Memo | None:
        """Return what the task has answered, or None when it was never memoised."""
        row = self._connection.execute("SELECT draw, paid FROM memos WHERE task = ?", (task.id,)).fetchone()
        return None if row is None else _Memo(self._connection, task.id, read_decimal(row[0]), row[1])

    def memoize(self, task: Task, draw: int, paid: int) -> _Memo:
        """Memoise the task from here on, or let it have more answers."""
        self._connection.execute("INSERT OR REPLACE INTO memos VALUES (?, ?, ?)", (task.id, str(draw), paid))
        return _Memo(self._connection, task.id, draw, paid)

    def put(self, task: Task, epoch: int, code: int) -> None:
        """Queue one code."""
        self.wakes_sender |= self._outbox.put(self._connection, task, epoch, code, self._wall)
        self._pending += 1
        self._changed = True


def _read(connection: sqlite3.Connection, item: Item, now: float) -> tuple[Balance, float | None, int]:
    """Return an account without what has left its window.

    Then the second up to which it left, if any did, and the window that the file has.
    """
    row = connection.execute(
        "SELECT epsilon, delta, window, recent_epsilon, recent_delta FROM accounts WHERE account = ?",
        (item.account,),
    ).fetchone()
    if row is None:
        return Balance(), None, 0
    balance = Balance(row[0], read_decimal(row[1]), row[2], row[3], read_decimal(row[4]))
    if item.rolls and item.window < balance.window:
        balance.window = item.window
    if not balance.window:
        return balance, None, row[2]
    left_before = now - balance.window
    left = connection.execute(
        "SELECT epsilon, delta FROM entries WHERE account = ? AND second <= ?", (item.account, left_before)
    ).fetchall()
    for epsilon, delta in left:
        balance.leave(epsilon, read_decimal(delta))
    return balance, left_before if left else None, row[2]


def _widen(balance: Balance, item: Item, now: float) -> tuple[int, int, int] | None:
    """Let an account keep the item's window; return what the window then has to count besides its entries."""
    return balance.widen(item.window, now) if item.rolls and item.window > balance.window else None


def read_balances(connection: sqlite3.Connection, bill: Bill, now: float) -> list[tuple[Item, Balance]]:
    """Return the items of a bill, each with its account's balance at a time."""
    (seen,) = connection.execute("SELECT now FROM state").fetchone()
    now = max(seen, now)
    balances = []
    for item in bill:
        balance, *_ = _read(connection, item, now)
        _widen(balance, item, now)
        balances.append((item, balance))
    return balances
