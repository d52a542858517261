"""A readable summary of a ledger's file: spending, queue, and numbers of sent and dropped reports."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from arcwise.checks import explained
from arcwise.client.file.ledger import read_decimal
from arcwise.client.file.opening import open_to_read
from arcwise.digits import counted, duration, rounded_up
from arcwise.errors import LedgerError
from arcwise.kernels.certificate import UNIT

if TYPE_CHECKING:
    import os


class Account(NamedTuple):
    """Spending on a task, on a group or on everything.

    Attributes
    ----------
    account
        The id of a task or a group; "" for everything.
    name
        The app's name for the task or group; "everything" for everything.
    epsilon, delta
        Total spending.
    recent_epsilon, window
        Epsilon spent within the last `window` seconds before the inspection, or before the ledger's time if
        that is later; both are None without a rolling cap.
    """

    account: str
    name: str
    epsilon: float
    delta: float
    recent_epsilon: float | None
    window: int | None


class Queue(NamedTuple):
    """The queued reports of one task.

    Attributes
    ----------
    task
        The id of the task, 64 hex digits.
    name
        The app's name for the task.
    reports
        Number of queued codes.
    sealed
        Number of these codes in batches that were sent or were about to be sent.
    oldest
        Unix time at which the oldest code was queued.
    """

    task: str
    name: str
    reports: int
    sealed: int
    oldest: float


class Inspection(NamedTuple):
    """Contents of a ledger's file: spending, queue and counters. See `inspect`.

    Attributes
    ----------
    path
        Path of the file.
    now
        The ledger's time, a Unix time; 0 before the first charge.
    opted_out
        Whether the device has opted out.
    accounts
        Spending: everything first, then tasks and groups by name.
    memoized
        By task id: the number of answers that were paid for, and the number that have been given.
    queue
        Queued reports by task, in the order of names.
    sent
        Number of reports acknowledged since the file was created.
    dropped
        Number of reports dropped since the file was created, by reason.

    Examples
    --------
    >>> from arcwise.client import Caps, Circle, Client, FileLedger, RecordingTransport, Task
    >>> heading = Task("heading", Circle(360), epsilon=0.5, caps=Caps(lifetime=2.5))
    >>> with FileLedger("telemetry.db", create=True) as ledger:
    ...     recorder = RecordingTransport([410])
    ...     with Client(
    ...         "https://reports.example", tasks=[heading], ledger=ledger, transport=recorder
    ...     ) as client:
    ...         accepted = client.report("heading", 350.5)
    >>> found = inspect("telemetry.db")
    >>> [(account.name, account.epsilon) for account in found.accounts]
    [('everything', 0.5), ('heading', 0.5)]
    >>> found.pending, found.sent, found.dropped
    (0, 0, {'410': 1})
    """

    path: str
    now: float
    opted_out: bool
    accounts: tuple[Account, ...]
    memoized: dict[str, tuple[int, int]]
    queue: tuple[Queue, ...]
    sent: int
    dropped: dict[str, int]

    @property
    def pending(self) -> int:
        """Number of reports that are neither acknowledged nor dropped."""
        return sum(queue.reports for queue in self.queue)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dictionary for JSON."""
        return {
            **self._asdict(),
            "accounts": [account._asdict() for account in self.accounts],
            "queue": [queue._asdict() for queue in self.queue],
            "memoized": {
                task: {"paid": paid, "given": given} for task, (paid, given) in self.memoized.items()
            },
            "pending": self.pending,
        }

    def __str__(self) -> str:
        lines = [
            f"{self.path}: {'opted out' if self.opted_out else 'reporting'}",
            f"  ledger time: {_date(self.now) if self.now else 'none, nothing was ever charged'}",
            "spent" + ("" if self.accounts else ": nothing"),
        ]
        labels = self._labels()
        width = max(map(len, labels.values()), default=0)
        for account in self.accounts:
            line = f"  {labels[account.account]:<{width}}  epsilon {_number(account.epsilon)}"
            if account.delta:
                line += f", delta {rounded_up(account.delta, 3)}"
            if account.window is not None and account.recent_epsilon is not None:
                line += f"; {_number(account.recent_epsilon)} within {duration(account.window)}"
            if account.account in self.memoized:
                paid, given = self.memoized[account.account]
                line += f"; memoised: {given:,} of {paid:,} answers given"
            lines.append(line)
        lines.append(f"queued: {counted(self.pending, 'report')}")
        lines += [
            f"  {labels[queue.task]:<{width}}  {counted(queue.reports, 'report')}, "
            f"{queue.sealed:,} in sealed batches; oldest {_date(queue.oldest)}"
            for queue in self.queue
        ]
        lines.append(f"acknowledged: {counted(self.sent, 'report')}")
        lines += [
            f"dropped: {counted(reports, 'report')} ({reason})" for reason, reports in self.dropped.items()
        ]
        return "\n".join(lines)

    def _labels(self) -> dict[str, str]:
        """Return the name of each account and task by id, with digits of the id if several share the name."""
        names = {account.account: account.name for account in self.accounts}
        names |= {queue.task: queue.name for queue in self.queue}
        uses = Counter(names.values())
        return {
            key: f"{name} ({key[:_ID_DIGITS]})" if key and uses[name] > 1 else name
            for key, name in names.items()
        }


_ID_DIGITS = 8
"""Number of digits of an id that distinguish two versions of a task."""


@explained
def inspect(path: str | os.PathLike[str]) -> Inspection:
    """Return the contents of a ledger's file without changing it; the file may be in use.

    Parameters
    ----------
    path
        Path of the file.

    Raises
    ------
    LedgerError
        When the file does not exist, is not a ledger, or is damaged.

    Examples
    --------
    >>> from arcwise.client import FileLedger, inspect
    >>> FileLedger("telemetry.db", create=True).close()
    >>> print(inspect("telemetry.db"))
    telemetry.db: reporting
      ledger time: none, nothing was ever charged
    spent: nothing
    queued: 0 reports
    acknowledged: 0 reports
    """
    path = Path(path)
    opened = open_to_read(path)
    try:
        with closing(opened) as connection:
            return _inspect(path, connection)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise LedgerError(f"the ledger {path} cannot be read: {error}") from error


def _inspect(path: Path, connection: sqlite3.Connection) -> Inspection:
    connection.execute("BEGIN")
    now, opted_out, sent = connection.execute("SELECT now, opted_out, sent FROM state").fetchone()
    latest = max(now, time.time())
    accounts = tuple(
        Account(
            account,
            name,
            epsilon / 1_000_000,
            read_decimal(delta) / UNIT,
            recent / 1_000_000 if window else None,
            window or None,
        )
        for account, name, epsilon, delta, window, recent in connection.execute(
            """SELECT account, name, epsilon, delta, window, (
                   SELECT coalesce(sum(entries.epsilon), 0) FROM entries
                   WHERE entries.account = accounts.account AND second > ? - window
               ) FROM accounts ORDER BY account <> '', name, account""",
            (latest,),
        )
    )
    memoized = {
        task: (paid, given)
        for task, paid, given in connection.execute(
            """SELECT memos.task, memos.paid, count(node)
               FROM memos LEFT JOIN answers ON answers.task = memos.task GROUP BY memos.task"""
        )
    }
    queue = tuple(
        Queue(*row)
        for row in connection.execute(
            """SELECT id, name, sum(n), sum(sealed), min(oldest) FROM tasks JOIN (
                   SELECT task, count(*) AS n, 0 AS sealed, min(created) AS oldest
                   FROM reports GROUP BY task
                   UNION ALL
                   SELECT task, sum(reports), sum(reports), min(created) FROM batches GROUP BY task
               ) AS waiting ON waiting.task = tasks.number GROUP BY id ORDER BY name, id"""
        )
    )
    dropped = dict(connection.execute("SELECT reason, reports FROM dropped ORDER BY reason"))
    return Inspection(str(path), now, bool(opted_out), accounts, memoized, queue, sent, dropped)


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def _number(epsilon: float) -> str:
    """Return the number with up to six decimals, that is, without rounding its millionths."""
    whole, _, millionths = f"{epsilon:,.6f}".partition(".")
    return f"{whole}.{millionths}".rstrip("0").rstrip(".")
