"""Codes on their way out, in a ledger's file: what is queued there outlives the process.

Several processes may send from one file. Each leases the batch it is sending, so that they rarely send the
same one; when they do, after a crash or a step of the clock, the server counts it once by its id.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from arcwise.client.delivery import still_asked
from arcwise.client.environment import unix_time
from arcwise.client.file.batching import Batching, end_owner, new_owner, own_tasks
from arcwise.client.outbox import Parcel, Send, Wait
from arcwise.client.sources import named
from arcwise.wire import code_width

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Hashable

    from arcwise.client.delivery import Schedule
    from arcwise.client.file.database import Database
    from arcwise.client.outbox import OutboxOptions, Step
    from arcwise.tasks import Task


class FileOutbox:
    """The queue in a ledger's file, as one uplink uses it."""

    durable = True
    _batching_type = Batching

    def __init__(self, database: Database, options: OutboxOptions) -> None:
        self.database = database
        self.busy_timeout = database.busy_timeout
        self.options = options
        self._environment = options.environment
        self.foreign: frozenset[str] = frozenset()
        self._expedited = 0
        self._waits = False  # whether the file holds any
        self._asked = 0.0, -math.inf  # what the file says, and that time by the monotonic clock
        self.after_fork()

    def after_fork(self) -> None:
        """Go on with the file, which the child shares with its parent."""
        self._owner = new_owner(self, self._environment)
        self._next_expiry = -math.inf
        self.forget_seen()

    def forget_seen(self) -> None:
        """Let the next code wake the sender, whatever came in before."""
        # What the sender knows to wait, see `Batching.look`; and what came in since.
        self._seen: dict[tuple[str, int], tuple[int, float]] = {}

    @property
    def queue(self) -> Hashable:
        """What is equal for outboxes of one queue."""
        return self.database.place

    def put(self, connection: sqlite3.Connection, task: Task, epoch: int, code: int, now: float) -> bool:
        """Queue one code in an open transaction; True when there is something new to do."""
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

    def _ready(self, now: float) -> float:
        """Return when a code that is queued now may join a batch: after a random delay."""
        if not self.options.delay:
            return now
        with named():
            return now + self.options.delay * self._environment.uniform()

    def _note(self, task: Task, epoch: int, ready: float) -> bool:
        """Take note of a code that was queued; True when there is something new to do."""
        key = task.id, epoch
        count, soonest = self._seen.get(key, (0, math.inf))
        self._seen[key] = count + 1, min(soonest, ready)
        return ready < soonest or (count + 1) % self.options.batch_size == 0

    @property
    def pending(self) -> int:
        """Reports that are neither acknowledged nor dropped."""
        return self.counts()[0]

    def counts(self) -> tuple[int, int, dict[str, int]]:
        """Return how many reports are pending, were acknowledged, and were given up for which reason.

        All since the file was made.
        """
        with self.database.reading() as connection:
            pending, sent = connection.execute("SELECT pending, sent FROM state").fetchone()
            return pending, sent, dict(connection.execute("SELECT reason, reports FROM dropped"))

    def take(self, now: float, interval: float, ready_at: Callable[[str], float]) -> Step:
        """Return the next batch to send, or for how many seconds there is none, see `Outbox.take`."""
        self.forget_seen()  # who notes a report while this looks wakes the sender once more
        with self.database.reading() as connection:
            wait, self._seen = self._batching(connection, now, interval, ready_at).look(connection)
        if wait > 0:
            return Wait(wait)
        # All that was charged before this commit is on the disk after it, in the relaxed mode too: so no code
        # leaves whose charge could still be undone.
        with self.database.writing(durable=True) as connection:
            found = self._batching(connection, now, interval, ready_at).take(connection)
        if found is None:
            return Wait(_RETAKE_SECONDS)
        self.database.write_back()  # a file that loses its log after a kill still knows what was sent
        number, task_id, task_name, reports, body = found
        put_back, finish = partial(self._put_back, number, body), partial(self._finish, number, body, reports)
        return Send(Parcel(task_id, task_name, reports, body, put_back, finish))

    def _batching(
        self,
        connection: sqlite3.Connection,
        now: float,
        interval: float,
        ready_at: Callable[[str], float],
    ) -> Batching:
        """Look at the queue in this transaction, and at the clock after what it shows was written.

        A code that is younger than the time it is compared with would seem to come from before the clock was
        set back, and would not be delayed.
        """
        asked = self._still_asked(connection)  # a transaction that reads begins here
        wall = unix_time(self._environment)
        return self._batching_type(
            wall,
            lambda task_id: max(ready_at(task_id) - now, asked),
            self.options,
            interval,
            self._expedited,
            self._owner,
            self.foreign,
        )

    def _still_asked(self, connection: sqlite3.Connection) -> float:
        """Return for how many seconds a server still asks a process that sends this to wait, or at most 0.

        The wall clock counts when a wait is seen for the first time, and may then be set right.
        """
        ((until,),) = connection.execute("SELECT coalesce(max(asked), 0.0) FROM waits").fetchall()
        now = self._environment.monotonic()
        if until != self._asked[0]:
            self._asked = until, now + still_asked(until - unix_time(self._environment))
        return self._asked[1] - now

    # With its body: after a failover to an older state of a database, another batch may have its number.
    def _put_back(self, number: int, body: bytes) -> None:
        with self.database.writing(durable=False) as connection:
            connection.execute(
                "UPDATE batches SET leased_until = 0 WHERE number = ? AND body = ?", (number, body)
            )

    def _finish(self, number: int, body: bytes, reports: int, dropped: str | None) -> None:
        with self.database.writing(durable=False) as connection:
            gone = connection.execute(
                "DELETE FROM batches WHERE number = ? AND body = ?", (number, body)
            ).rowcount
            if not gone:  # another process was done with it first, or it was cleared
                return
            self._count(connection, reports, dropped)

    def _count(self, connection: sqlite3.Connection, reports: int, dropped: str | None) -> None:
        """Count reports that leave the queue: acknowledged (None), or dropped for a reason."""
        if dropped is None:
            # Not "?1" twice: Python 3.12.0 to 3.12.3 take it for a name, and warn.
            connection.execute("UPDATE state SET pending = pending - ?, sent = sent + ?", (reports, reports))
        else:
            _count_dropped(connection, dropped, reports)

    def expire(self, seconds: float) -> int:
        """Drop what was queued longer ago than so many seconds; return how many reports that were."""
        now = self._environment.monotonic()
        if now < self._next_expiry:  # it takes a look at every report
            return 0
        self._next_expiry = now + _EXPIRY_SECONDS
        before = unix_time(self._environment) - seconds
        with self.database.reading() as connection:
            own = self._own(connection)
            old = f"SELECT 1 FROM {{}} WHERE {own} AND created < ? LIMIT 1"  # noqa: S608
            if not any(
                connection.execute(old.format(table), (before,)).fetchone()
                for table in ("reports", "batches")
            ):
                return 0
        with self.database.writing(durable=False) as connection:
            return self._drop(connection, "expired", before, own)

    def _own(self, connection: sqlite3.Connection) -> str:
        """Return the condition that a row is of a task that is not left to others."""
        if not self.foreign:
            return "1 = 1"
        numbers = ", ".join(str(number) for number, _ in own_tasks(connection, self.foreign))
        return f"task IN ({numbers})" if numbers else "1 = 0"

    def _drop(self, connection: sqlite3.Connection, reason: str, before: float, tasks: str) -> int:
        return drop(connection, reason, before, tasks)

    def expedite(self) -> Callable[[], bool]:
        """Let everything that is queued now be sent without waiting, see `Outbox.expedite`."""
        with self.database.reading() as connection:
            self._expedited = self._last(connection)
        return partial(self._is_done, self._expedited)

    def _last(self, connection: sqlite3.Connection) -> int:
        """Return the number of the last report that was queued."""
        (last,) = connection.execute(
            "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'reports'"
        ).fetchone()
        return int(last)

    def _is_done(self, last: int) -> bool:
        """Return whether all reports up to this number are acknowledged or dropped."""
        with self.database.reading() as connection:
            own = self._own(connection)
            (left,) = connection.execute(
                f"""SELECT EXISTS (SELECT 1 FROM reports WHERE {own} AND number <= :last)
                       OR EXISTS (SELECT 1 FROM batches WHERE {own} AND first_report <= :last)""",  # noqa: S608
                {"last": last},
            ).fetchone()
        return not left

    def close(self) -> int:
        """Leave everything in the file; return how many reports that are, without those left to others."""
        end_owner(self._owner)
        with self.database.reading() as connection:
            (left,) = connection.execute(_COUNT.format(self._own(connection))).fetchone()
        return int(left)

    def load(self, schedule: Schedule) -> None:
        """Let the schedule remember the waits of an earlier process."""
        now, wall = self._environment.monotonic(), unix_time(self._environment)
        with self.database.reading() as connection:
            for scope, failures, own, asked in connection.execute("SELECT * FROM waits"):
                self._waits = True
                schedule.restore(scope, failures, own - wall, asked - wall, now)

    def save(self, schedule: Schedule) -> None:
        """Keep the schedule's waits for a later process."""
        now, wall = self._environment.monotonic(), unix_time(self._environment)
        if not self._waits and not any(schedule.remaining(now)):
            return
        with self.database.writing(durable=False) as connection:
            # No answer to this process ends what a server has asked another one for.
            schedule.hold(self._still_asked(connection), now)
            left = list(schedule.remaining(now))
            # A wait that is none is over whatever the clock will be.
            rows = [
                (scope, failures, wall + own if own else 0.0, wall + asked if asked else 0.0)
                for scope, failures, own, asked in left
            ]
            self._waits = bool(rows)
            asked = max((asked for *_, asked in left), default=0.0)
            self._asked = wall + asked if asked else 0.0, now + asked
            connection.execute("DELETE FROM waits")
            connection.executemany("INSERT INTO waits VALUES (?, ?, ?, ?)", rows)


_EXPIRY_SECONDS = 60.0
"""How often to look for what is too old."""

_RETAKE_SECONDS = 0.1
"""When to look again after another process was quicker."""


_COUNT = """SELECT (SELECT count(*) FROM reports WHERE {0})
    + (SELECT coalesce(sum(reports), 0) FROM batches WHERE {0})"""


def drop(connection: sqlite3.Connection, reason: str, before: float = math.inf, tasks: str = "1 = 1") -> int:
    """Drop what was queued before this Unix time, in an open transaction; return how many reports it was.

    `tasks` is a condition on the rows.
    """
    old = f"{tasks} AND created < :before"
    (dropped,) = connection.execute(_COUNT.format(old), {"before": before}).fetchone()
    for table in ("reports", "batches"):
        connection.execute(f"DELETE FROM {table} WHERE {old}", {"before": before})  # noqa: S608
    if dropped:
        _count_dropped(connection, reason, dropped)
    return int(dropped)


def _count_dropped(connection: sqlite3.Connection, reason: str, reports: int) -> None:
    connection.execute("UPDATE state SET pending = pending - ?", (reports,))
    note_dropped(connection, reason, reports)


def note_dropped(connection: Any, reason: str, reports: int) -> None:
    """Add to the number of reports that were dropped for a reason, in an open transaction."""
    connection.execute(
        """INSERT INTO dropped VALUES (?, ?)
           ON CONFLICT (reason) DO UPDATE SET reports = dropped.reports + excluded.reports""",
        (reason, reports),
    )
