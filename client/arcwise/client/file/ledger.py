"""A device's spending and unsent reports in one SQLite file.

One transaction makes a report: it checks the caps, enters the charge, and draws and queues the code. The file
then holds all of these changes or none. Only a later transaction, once it is durable on the disk, lets the
report leave.
"""

from __future__ import annotations

import math
import sqlite3
from functools import partial
from typing import TYPE_CHECKING

from arcwise.checks import checked_bool, explained
from arcwise.client.accounts import Balance, budget, entry_time
from arcwise.client.checks import checked_number
from arcwise.client.file.database import Database
from arcwise.client.file.opening import checked_path, create_file
from arcwise.client.interruptions import holding
from arcwise.client.ledger import Ledger
from arcwise.client.sql_outbox import COUNT, NEXT, SqlOutbox, note_dropped
from arcwise.errors import ParameterError
from arcwise.wire import code_width

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path

    from typing_extensions import Self

    from arcwise.client.accounts import Bill, Budget, Item
    from arcwise.client.ledger import OpenTransaction, Outbox, OutboxOptions
    from arcwise.tasks import Task


class _Memo:
    """The answers of a memoised task in the file."""

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
        # fetchall, because an exception of a signal handler could otherwise keep an unfinished query alive.
        rows = self._connection.execute("SELECT node FROM answers WHERE task = ?", (self._task,)).fetchall()
        return iter([node for (node,) in rows])

    def __len__(self) -> int:
        (count,) = self._connection.execute(
            "SELECT count(*) FROM answers WHERE task = ?", (self._task,)
        ).fetchone()
        return int(count)


class _FileOutbox(SqlOutbox):
    """The queue in a ledger's file, as seen by one uplink."""

    def put(self, connection: sqlite3.Connection, task: Task, epoch: int, code: int, now: float) -> bool:
        row = connection.execute("SELECT number FROM tasks WHERE id = ?", (task.id,)).fetchone()
        if row is None:
            width = code_width(task.mechanism.kernel.codes)
            row = (
                connection.execute(
                    "INSERT INTO tasks (id, name, width) VALUES (?, ?, ?)", (task.id, task.name, width)
                ).lastrowid,
            )
        ready = self._ready(now)
        connection.execute(
            "INSERT INTO reports (task, epoch, code, created, ready) VALUES (?, ?, ?, ?, ?)",
            (row[0], epoch, code, now, ready),
        )
        return self._note(task, epoch, ready)

    def counts(self) -> tuple[int, int, dict[str, int]]:
        with self.database.reading() as connection:
            pending, sent = connection.execute("SELECT pending, sent FROM state").fetchone()
            return pending, sent, dict(connection.execute("SELECT reason, reports FROM dropped"))

    def cut(self, session: sqlite3.Connection, these: dict[str, float]) -> list[tuple[int, int, float]]:
        rows: list[tuple[int, int, float]] = session.execute(NEXT, these).fetchall()
        session.executemany("DELETE FROM reports WHERE number = ?", [(number,) for number, *_ in rows])
        return sorted(rows)

    def _count(self, session: sqlite3.Connection, reports: int, dropped: str | None) -> None:
        if dropped is None:
            # Not "?1" twice: Python 3.12.0 to 3.12.3 treat it as a named parameter and warn.
            session.execute("UPDATE state SET pending = pending - ?, sent = sent + ?", (reports, reports))
        else:
            _count_dropped(session, dropped, reports)

    def _drop(self, session: sqlite3.Connection, reason: str, before: float, tasks: str) -> int:
        return _drop(session, reason, before, tasks)

    def _last(self, session: sqlite3.Connection) -> int:
        (last,) = session.execute(
            "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'reports'"
        ).fetchone()
        return int(last)


def _drop(connection: sqlite3.Connection, reason: str, before: float = math.inf, tasks: str = "1 = 1") -> int:
    """Drop reports that were queued before this Unix time, in an open transaction; return their number.

    `tasks` is an SQL condition on the rows.
    """
    old = f"{tasks} AND created < :before"
    (dropped,) = connection.execute(COUNT.format(old), {"before": before}).fetchone()
    for table in ("reports", "batches"):
        connection.execute(f"DELETE FROM {table} WHERE {old}", {"before": before})  # noqa: S608
    if dropped:
        _count_dropped(connection, reason, dropped)
    return int(dropped)


def _count_dropped(connection: sqlite3.Connection, reason: str, reports: int) -> None:
    connection.execute("UPDATE state SET pending = pending - ?", (reports,))
    note_dropped(connection, reason, reports)


class _FileTransaction:
    """The transaction of a `FileLedger`, open for one report. See `Transaction`."""

    def __init__(self, connection: sqlite3.Connection, outbox: _FileOutbox, now: float) -> None:
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
        """Write the values that were held back until the end of the transaction."""
        if self._changed:
            self._connection.execute("UPDATE state SET now = ?, pending = ?", (self._now, self._pending))

    @property
    def time(self) -> float:
        return self._now

    def opted_out(self) -> bool:
        return self._opted_out

    def has_room(self, reports: int) -> bool:
        return int(self._pending) + reports <= self._outbox.options.capacity

    def charge(self, bill: Bill) -> bool:
        self._changed |= self._later  # the ledger has seen this time, even if the charge is refused
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
        """Return an account's balance with the item's rolling window, which ends now.

        The change is written even if a cap then forbids the charge. Otherwise expired entries would pile up,
        and the extra spending in a longer window would get a later time with each attempt.
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
        row = self._connection.execute("SELECT draw, paid FROM memos WHERE task = ?", (task.id,)).fetchone()
        return None if row is None else _Memo(self._connection, task.id, read_decimal(row[0]), row[1])

    def memoize(self, task: Task, draw: int, paid: int) -> _Memo:
        self._connection.execute("INSERT OR REPLACE INTO memos VALUES (?, ?, ?)", (task.id, str(draw), paid))
        return _Memo(self._connection, task.id, draw, paid)

    def put(self, task: Task, epoch: int, code: int) -> None:
        self.wakes_sender |= self._outbox.put(self._connection, task, epoch, code, self._wall)
        self._pending += 1
        self._changed = True


def read_decimal(text: str) -> int:
    """Return the number in a text column; raise `sqlite3.DatabaseError` for digits that no ledger writes."""
    try:
        return int(text)
    except ValueError as error:  # thousands of digits
        raise sqlite3.DatabaseError(str(error)) from None


def _read(connection: sqlite3.Connection, item: Item, now: float) -> tuple[Balance, float | None, int]:
    """Return the balance of an account without the charges that have left its window.

    Also return the Unix second up to which charges have left (None if no charge has left), and the stored
    window.
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
    """Widen an account's window to the item's if needed. Return the entry that records this, or None."""
    return balance.widen(item.window, now) if item.rolls and item.window > balance.window else None


def read_balances(connection: sqlite3.Connection, bill: Bill, now: float) -> list[tuple[Item, Balance]]:
    """Return the items of a bill, each with its account's balance at the given time."""
    (seen,) = connection.execute("SELECT now FROM state").fetchone()
    now = max(seen, now)
    balances = []
    for item in bill:
        balance, *_ = _read(connection, item, now)
        _widen(balance, item, now)
        balances.append((item, balance))
    return balances


class FileLedger(Ledger):
    """A device's spending and queue in one SQLite file, which outlives the process.

    Several threads, clients and processes can use the file safely; a forked child opens it again. Clients
    that send to different servers, or in different ways, need separate ledgers, see
    docs/howto/embed-a-client.md.

    Parameters
    ----------
    path
        The file, or a symbolic link to it. While the file is open, SQLite keeps two more files next to it
        (``-wal`` and ``-shm``). The file must have no second name (hard link).
    create
        Create the file, which must not exist. Do this once in the life of a device, for example when the user
        agrees to telemetry. Without `create` (default) the file must exist. Creating a ledger because the
        old one is missing grants the whole budget again.
    relaxed
        False (default): every report is on the disk before `Client.report` returns, so the call waits for the
        disk. True: a report only waits for a write to the file system's cache, but a loss of power can undo
        the last reports together with their charges. Reports that were already sent are never undone. A crash
        of the process loses nothing in either mode.
    busy_timeout
        Longest wait, in seconds, while another process writes.

    Raises
    ------
    ParameterError
        When `create` or `relaxed` is not a bool, or `busy_timeout` is not a finite number of at least 0.
    LedgerError
        When the file does not exist (or, with `create`, exists), is damaged, or is not a ledger.

    Notes
    -----
    The file holds codes, charges and times, never a value. For memoised tasks it also holds the nodes that
    values were rounded to: protect it like the app's own data. A copy of a ledger is a copy of its budget, so
    keep the file out of backups and of synchronisation between devices.

    Examples
    --------
    >>> from arcwise.client import Caps, Circle, Client, Task
    >>> heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=2.0))
    >>> with FileLedger("telemetry.db", create=True) as ledger:
    ...     client = Client("http://127.0.0.1:8000", tasks=[heading], ledger=ledger)
    ...     accepted = client.report("heading", 350.5)
    ...     client.close(0)  # reports that are not sent stay in the file
    False
    >>> with FileLedger("telemetry.db") as ledger:
    ...     client = Client("http://127.0.0.1:8000", tasks=[heading], ledger=ledger)
    ...     client.budget("heading").reports_left, client.pending
    ...     client.close(0)
    (1, 1)
    False
    """

    @explained
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = False,
        relaxed: bool = False,
        busy_timeout: float = 5.0,
    ) -> None:
        file = checked_path(path)
        busy_timeout = min(checked_number("busy_timeout", busy_timeout), 86_400.0)
        relaxed = checked_bool("relaxed", relaxed)
        if checked_bool("create", create):
            create_file(file)
        self._database = Database(file, relaxed=relaxed, busy_timeout=busy_timeout)

    @property
    def path(self) -> Path:
        """The absolute path of the file."""
        return self._database.path

    @property
    def relaxed(self) -> bool:
        """Whether a loss of power can undo the last reports and their charges."""
        return self._database.relaxed

    def _open_outbox(self, options: OutboxOptions) -> _FileOutbox:
        return _FileOutbox(self._database, options)

    def _attach(self, outbox: Outbox) -> OpenTransaction:
        if not isinstance(outbox, _FileOutbox) or outbox.database is not self._database:
            raise ParameterError(
                "a FileLedger holds the queue too: give a URL, or an Uplink that was made with this ledger"
            )
        return partial(self._transaction, outbox)

    @holding
    def _transaction(self, outbox: _FileOutbox, now: float) -> Iterator[_FileTransaction]:
        try:
            with self._database.writing(durable=False) as connection:
                transaction = _FileTransaction(connection, outbox, now)
                yield transaction
                transaction.finish()
        except BaseException:
            outbox.forget_seen()  # the reports it noted were not written
            raise

    def budget(self, bill: Bill, now: float) -> Budget:
        """Return the budget of the first account of a bill."""
        with self._database.reading() as connection:
            return budget(read_balances(connection, bill, now))

    def opt_out(self) -> int:
        """Record that the device has opted out; drop its queue, and the nodes and answers of memoised tasks.

        Return the number of reports that were dropped from the queue.
        """
        with self._database.writing(durable=True) as connection:
            connection.execute("UPDATE state SET opted_out = 1")
            dropped = _drop(connection, "opted-out")
            # Delete both, so that new answers must be paid for again.
            connection.execute("DELETE FROM answers")
            connection.execute("DELETE FROM memos")
        self._database.empty_log()  # the log still holds the deleted data
        return dropped

    def opt_in(self) -> None:
        """Record that the device reports again."""
        with self._database.writing(durable=True) as connection:
            connection.execute("UPDATE state SET opted_out = 0")

    def close(self) -> None:
        """Close the file. Close the clients that use it first: their reports fail afterwards."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"FileLedger({str(self.path)!r}, relaxed={self.relaxed!r})"
