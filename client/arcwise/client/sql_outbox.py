"""The queue in SQL tables (a ledger's file or PostgreSQL), which outlives the process.

Several processes may send from one queue. Each process leases the batch that it is sending, so two processes
rarely send the same batch. If that happens, after a crash or a step of the clock, the server recognises the
batch by its id and counts it once.
"""

from __future__ import annotations

import math
import sqlite3
import weakref
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from arcwise.client.delivery import still_asked
from arcwise.client.environment import named, unix_time
from arcwise.client.ledger import Parcel, Send, Wait, seal

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from contextlib import AbstractContextManager

    from arcwise.client.delivery import Schedule
    from arcwise.client.ledger import OutboxOptions, Step
    from arcwise.tasks import Task


class Session(Protocol):
    """One open transaction; its statements use the placeholders ``?`` or ``:name``."""

    def execute(self, query: str, parameters: Any = (), /) -> Any:
        """Run one statement."""

    def executemany(self, query: str, rows: Any, /) -> object:
        """Run one statement for each row."""


class Database(Protocol):
    """The open database that holds the tables."""

    busy_timeout: float

    @property
    def place(self) -> Hashable:
        """A key that is equal for all users of the same tables."""

    def reading(self) -> AbstractContextManager[Session]:
        """Open a read transaction, in which all queries see the same state of the tables."""

    def writing(self, *, durable: bool) -> AbstractContextManager[Session]:
        """Open a write transaction; if `durable`, it and all earlier ones are on the disk afterwards."""

    def write_back(self) -> None:
        """Write the database's separate log, if it has one, back to the tables."""


NEXT = """SELECT number, code, created FROM reports WHERE task = :task AND epoch = :epoch
    AND (ready <= :wall OR created > :latest OR number <= :expedited) ORDER BY ready, number LIMIT :most"""
"""The codes of the next batch of a task and an epoch.

The codes are ordered by the end of their delays. If they were ordered by number, one code with a long delay
would hold up all later codes, and codes would leave in the order in which they were made.
"""

COUNT = """SELECT (SELECT count(*) FROM reports WHERE {0})
    + (SELECT coalesce(sum(reports), 0) FROM batches WHERE {0})"""

_EXPIRY_SECONDS = 60.0
"""Seconds between two searches for reports that are too old."""

_RETAKE_SECONDS = 0.1
"""Seconds until the next look after another process took the batch first."""

_STEPPED = 3600.0
"""Clock steps below this many seconds count as corrections, or as differences between machines."""

_owners: weakref.WeakValueDictionary[int, SqlOutbox] = weakref.WeakValueDictionary()
"""The outboxes of this process by the owner numbers of their leases."""


class SqlOutbox(ABC):
    """The queue in SQL tables, as seen by one uplink."""

    durable = True

    def __init__(self, database: Database, options: OutboxOptions) -> None:
        self.database = database
        self.busy_timeout = database.busy_timeout
        self.options = options
        self._environment = options.environment
        self.foreign: frozenset[str] = frozenset()
        self._expedited = 0
        self._waits = False  # whether the tables hold any waits
        self._asked = 0.0, -math.inf  # end of the server's wait: as in the tables, and monotonic
        self.after_fork()

    def after_fork(self) -> None:
        """Continue in a child that shares the tables with its parent."""
        self.owner = int.from_bytes(self._environment.random_bytes(8), "little") >> 2
        _owners[self.owner] = self
        self._next_expiry = -math.inf
        self.forget_seen()

    def forget_seen(self) -> None:
        """Let the next code wake the sender regardless of earlier codes."""
        # Waiting codes that the sender knows, see `Look.soonest`, plus the codes that came in since then.
        self._seen: dict[tuple[str, int], tuple[int, float]] = {}

    @property
    def queue(self) -> Hashable:
        """A key that is equal for all outboxes of one queue."""
        return self.database.place

    def _ready(self, now: float) -> float:
        """Return the time at which a code that is queued now may join a batch, after a random delay."""
        if not self.options.delay:
            return now
        with named():
            return now + self.options.delay * self._environment.uniform()

    def _note(self, task: Task, epoch: int, ready: float) -> bool:
        """Record a queued code; return True if the sender has something new to do."""
        key = task.id, epoch
        count, soonest = self._seen.get(key, (0, math.inf))
        self._seen[key] = count + 1, min(soonest, ready)
        return ready < soonest or (count + 1) % self.options.batch_size == 0

    @property
    def pending(self) -> int:
        """Number of reports that are neither acknowledged nor dropped."""
        return self.counts()[0]

    def take(self, now: float, interval: float, ready_at: Callable[[str], float]) -> Step:
        """Return the next batch to send, or the seconds until there may be one, see `Outbox.take`."""
        self.forget_seen()  # a report that comes in during this look wakes the sender again
        with self.database.reading() as session:
            wait, self._seen = self._look(session, now, interval, ready_at).soonest()
        if wait > 0:
            return Wait(wait)
        # After this commit, all earlier charges are on the disk, in the relaxed mode too. So no code leaves
        # before its charge is permanent.
        with self.database.writing(durable=True) as session:
            found = self._look(session, now, interval, ready_at).take()
        if found is None:
            return Wait(_RETAKE_SECONDS)
        self.database.write_back()  # so that a file without its log still knows what was sent
        number, task_id, task_name, reports, body = found
        put_back, finish = partial(self._put_back, number, body), partial(self._finish, number, body, reports)
        return Send(Parcel(task_id, task_name, reports, body, put_back, finish))

    def _look(self, session: Session, now: float, interval: float, ready_at: Callable[[str], float]) -> Look:
        """Return a look at the queue in this transaction, with a clock time read after all earlier writes.

        With an earlier clock time, a new code could have a time in the future. It would then seem to come
        from before the clock was set back, and would not be delayed.
        """
        asked = self._still_asked(session)  # a read transaction begins with this query
        wall = unix_time(self._environment)

        def held(task_id: str) -> float:
            return max(ready_at(task_id) - now, asked)

        return Look(self, session, wall, held, interval, self._expedited, self.foreign)

    def _still_asked(self, session: Session) -> float:
        """Return the seconds that a server still asks this queue's senders to wait; at most 0 for no wait.

        The wall clock is used only when a wait is first seen; later corrections of it do not matter.
        """
        ((until,),) = session.execute("SELECT coalesce(max(asked), 0.0) FROM waits").fetchall()
        now = self._environment.monotonic()
        if until != self._asked[0]:
            self._asked = until, now + still_asked(until - unix_time(self._environment))
        return self._asked[1] - now

    # Compare the body too: after a failover to an older state, another batch may have the same number.
    def _put_back(self, number: int, body: bytes) -> None:
        with self.database.writing(durable=False) as session:
            session.execute(
                "UPDATE batches SET leased_until = 0 WHERE number = ? AND body = ?", (number, body)
            )

    def _finish(self, number: int, body: bytes, reports: int, dropped: str | None) -> None:
        with self.database.writing(durable=False) as session:
            gone = session.execute(
                "DELETE FROM batches WHERE number = ? AND body = ?", (number, body)
            ).rowcount
            if not gone:  # another process finished it first, or the queue was cleared
                return
            self._count(session, reports, dropped)

    @abstractmethod
    def counts(self) -> tuple[int, int, dict[str, int]]:
        """Return the numbers of pending and acknowledged reports, and of dropped reports by reason.

        They count from the creation of the tables.
        """

    def leased(self, left: float, by: int, owner: int) -> float:
        """Return the seconds for which another sender still holds a batch; 0 if no other sender holds it."""
        # A lease that ends too far in the future was made before the clock was set back.
        if not 0 < left <= self.options.lease or owner == self.owner:
            return 0.0
        return left if self._may_be_alive(by, owner) else 0.0

    def _may_be_alive(self, by: int, owner: int) -> bool:
        """Return whether the outbox with this owner number may still exist in the process with this id."""
        here = by == self._environment.process_id()
        return owner in _owners if here else self._environment.may_be_alive(by)

    @abstractmethod
    def cut(self, session: Any, these: dict[str, float]) -> list[tuple[int, int, float]]:
        """Remove the codes of a new batch, see `NEXT`; return them as (number, code, time queued), sorted."""

    @abstractmethod
    def _count(self, session: Any, reports: int, dropped: str | None) -> None:
        """Count reports that leave the queue: acknowledged (None), or dropped for this reason."""

    @abstractmethod
    def _drop(self, session: Any, reason: str, before: float, tasks: str) -> int:
        """Drop reports queued before this Unix time that meet the condition `tasks`; return their number."""

    @abstractmethod
    def _last(self, session: Any) -> int:
        """Return the number of the last report that was queued."""

    def expire(self, seconds: float) -> int:
        """Drop the reports that are older than `seconds`, and return their number."""
        now = self._environment.monotonic()
        if now < self._next_expiry:  # the search reads every report
            return 0
        self._next_expiry = now + _EXPIRY_SECONDS
        before = unix_time(self._environment) - seconds
        with self.database.reading() as session:
            own = self._own(session)
            old = f"SELECT 1 FROM {{}} WHERE {own} AND created < ? LIMIT 1"  # noqa: S608
            if not any(
                session.execute(old.format(table), (before,)).fetchone() for table in ("reports", "batches")
            ):
                return 0
        with self.database.writing(durable=False) as session:
            return self._drop(session, "expired", before, own)

    def _own(self, session: Session) -> str:
        """Return the SQL condition that a row's task is not left to other uplinks."""
        if not self.foreign:
            return "1 = 1"
        numbers = ", ".join(str(number) for number, _ in _own_tasks(session, self.foreign))
        return f"task IN ({numbers})" if numbers else "1 = 0"

    def expedite(self) -> Callable[[], bool]:
        """Let all reports that are queued now be sent without waiting, see `Outbox.expedite`."""
        with self.database.reading() as session:
            self._expedited = self._last(session)
        return partial(self._is_done, self._expedited)

    def _is_done(self, last: int) -> bool:
        """Return whether all reports up to this number are acknowledged or dropped."""
        with self.database.reading() as session:
            own = self._own(session)
            (left,) = session.execute(
                f"""SELECT EXISTS (SELECT 1 FROM reports WHERE {own} AND number <= :last)
                       OR EXISTS (SELECT 1 FROM batches WHERE {own} AND first_report <= :last)""",  # noqa: S608
                {"last": last},
            ).fetchone()
        return not left

    def close(self) -> int:
        """Leave everything queued; return the number of reports that are not left to other uplinks."""
        _owners.pop(self.owner, None)  # this frees the batches leased under this number
        with self.database.reading() as session:
            (left,) = session.execute(COUNT.format(self._own(session))).fetchone()
        return int(left)

    def load(self, schedule: Schedule) -> None:
        """Restore the waits of an earlier process to the schedule."""
        now, wall = self._environment.monotonic(), unix_time(self._environment)
        with self.database.reading() as session:
            for scope, failures, own, asked in session.execute("SELECT * FROM waits"):
                self._waits = True
                schedule.restore(scope, failures, own - wall, asked - wall, now)

    def save(self, schedule: Schedule) -> None:
        """Store the schedule's waits for a later process."""
        now, wall = self._environment.monotonic(), unix_time(self._environment)
        if not self._waits and not any(schedule.remaining(now)):
            return
        with self.database.writing(durable=False) as session:
            # An answer to this process does not end a wait that a server asked of another process.
            schedule.hold(self._still_asked(session), now)
            left = list(schedule.remaining(now))
            # 0.0 means no wait, even if the clock is set back later.
            rows = [
                (scope, failures, wall + own if own else 0.0, wall + asked if asked else 0.0)
                for scope, failures, own, asked in left
            ]
            self._waits = bool(rows)
            asked = max((asked for *_, asked in left), default=0.0)
            self._asked = wall + asked if asked else 0.0, now + asked
            session.execute("DELETE FROM waits")
            session.executemany("INSERT INTO waits VALUES (?, ?, ?, ?)", rows)


class _Group(NamedTuple):
    """Codes of one task and one epoch.

    `wait` is the number of seconds until they can be sent; `soonest` is the time at which the first of their
    delays ends.
    """

    task: int
    task_id: str
    epoch: int
    wait: float
    reports: int
    soonest: float


class Look(NamedTuple):
    """One look at the queue, which decides which codes form a batch now and which batch is sent next.

    The times in the tables are compared with the Unix time `wall`. `held` takes a task id and returns the
    seconds for which nothing of that task may be sent. `interval` is that of `Outbox.take`. Reports with
    numbers up to `expedited` are sent without waiting. Tasks with a name in `foreign` are left to other
    uplinks.
    """

    outbox: SqlOutbox
    session: Session
    wall: float
    held: Callable[[str], float]
    interval: float
    expedited: int
    foreign: frozenset[str]

    def soonest(self) -> tuple[float, dict[tuple[str, int], tuple[int, float]]]:
        """Return the seconds until a batch can be sent; infinity if nothing is queued.

        Also return, by task and epoch, the number of codes that can share a batch and the time at which the
        first of their delays ends (minus infinity if one has ended already).
        """
        groups = list(self._groups())
        waits = [wait for _, wait in self._batches()] + [group.wait for group in groups]
        seen = {(group.task_id, group.epoch): (group.reports, group.soonest) for group in groups}
        return min(waits, default=math.inf), seen

    def take(self) -> tuple[int, str, str, int, bytes] | None:
        """Lease a random batch that can be sent; seal new batches first if no batch can be sent.

        Return its number, its task's id and name, its number of reports, and its body; None if nothing is
        due.
        """
        free = self._free()
        if not free:  # codes are sealed late, so that batches are as large as possible
            for group in list(self._groups()):
                if group.wait <= 0:
                    self._seal(group.task, group.task_id, group.epoch)
            free = self._free()
        if not free:
            return None
        environment = self.outbox.options.environment
        number = free[int(environment.uniform() * len(free))]
        self.session.execute(
            "UPDATE batches SET leased_until = ?, leased_by = ?, owner = ? WHERE number = ?",
            (self.wall + self.outbox.options.lease, environment.process_id(), self.outbox.owner, number),
        )
        found: tuple[int, str, str, int, bytes] = self.session.execute(
            """SELECT batches.number, tasks.id, tasks.name, reports, body
               FROM batches JOIN tasks ON tasks.number = batches.task WHERE batches.number = ?""",
            (number,),
        ).fetchone()
        return found

    def _free(self) -> list[int]:
        return [number for number, wait in self._batches() if wait <= 0]

    def _batches(self) -> Iterator[tuple[int, float]]:
        """Yield (number, seconds until it can be sent) for each sealed batch."""
        rows = self.session.execute(
            """SELECT batches.number, tasks.id, tasks.name, leased_until, leased_by, owner
               FROM batches JOIN tasks ON tasks.number = batches.task"""
        ).fetchall()  # fetchall: see `_Memo.__iter__` of a file's ledger
        for number, task_id, name, until, by, owner in rows:
            if name not in self.foreign:
                yield number, max(self.outbox.leased(until - self.wall, by, owner), self.held(task_id))

    def _groups(self) -> Iterator[_Group]:
        """Yield the codes that can share a batch; read no more codes of a task and epoch than a batch holds.

        A code with a time in the future was written before the clock was set back, and its delay is over.
        Codes of other clients keep their own delays, regardless of this client's delay.
        """
        for task, task_id, epoch in self._epochs():
            these = self._these(task, epoch)
            expedited, stepped = self.session.execute(
                """SELECT number <= :expedited, created > :latest FROM reports
                   WHERE task = :task AND epoch = :epoch ORDER BY number LIMIT 1""",
                these,
            ).fetchone()
            count, oldest, soonest, reports = self.session.execute(
                """SELECT count(CASE WHEN ready <= :wall THEN 1 END),
                          min(CASE WHEN ready <= :wall THEN created END), min(ready), count(*)
                   FROM (SELECT ready, created FROM reports
                         WHERE task = :task AND epoch = :epoch ORDER BY ready LIMIT :most) AS these""",
                these,
            ).fetchone()
            delayed = oldest is None and not stepped
            if expedited or stepped or count >= self.outbox.options.batch_size:
                wait = 0.0
            elif oldest is None:
                wait = soonest - self.wall
            else:
                wait = max(0.0, oldest + self.interval - self.wall)
            wait = max(wait, self.held(task_id))
            yield _Group(task, task_id, epoch, wait, reports, soonest if delayed else -math.inf)

    def _these(self, task: int, epoch: int) -> dict[str, float]:
        """Return the query parameters for a batch of a task and an epoch."""
        times = {"wall": self.wall, "latest": self.wall + _STEPPED, "expedited": self.expedited}
        return {"task": task, "epoch": epoch, "most": self.outbox.options.batch_size, **times}

    def _epochs(self) -> Iterator[tuple[int, str, int]]:
        """Yield each (task, its id, epoch) that has codes, with one index look-up for each."""
        for task, task_id in _own_tasks(self.session, self.foreign):
            epoch: int | None = None
            while True:
                later = "" if epoch is None else "AND epoch > :epoch"
                (epoch,) = self.session.execute(
                    f"SELECT min(epoch) FROM reports WHERE task = :task {later}",  # noqa: S608
                    {"task": task, "epoch": epoch},
                ).fetchone()
                if epoch is None:
                    break
                yield task, task_id, epoch

    def _seal(self, task: int, task_id: str, epoch: int) -> None:
        rows = self.outbox.cut(self.session, self._these(task, epoch))
        (width,) = self.session.execute("SELECT width FROM tasks WHERE number = ?", (task,)).fetchone()
        if not rows or max(code for _, code, _ in rows) >= 256**width:
            raise sqlite3.DatabaseError(f"codes are lost, or do not fit into {width} bytes")
        numbers, codes, created = zip(*rows, strict=True)
        body = seal(task_id, epoch, codes, width, self.outbox.options.environment)
        self.session.execute(
            "INSERT INTO batches (task, reports, first_report, created, body) VALUES (?, ?, ?, ?, ?)",
            (task, len(rows), numbers[0], min(created), body),
        )


def _own_tasks(session: Session, foreign: frozenset[str]) -> list[tuple[int, str]]:
    """Return (number, id) of each task with a name that is not in `foreign`."""
    tasks = session.execute("SELECT number, id, name FROM tasks").fetchall()
    return [(number, task_id) for number, task_id, name in tasks if name not in foreign]


def note_dropped(session: Session, reason: str, reports: int) -> None:
    """Add to the number of reports dropped for this reason, in an open transaction."""
    session.execute(
        """INSERT INTO dropped VALUES (?, ?)
           ON CONFLICT (reason) DO UPDATE SET reports = dropped.reports + excluded.reports""",
        (reason, reports),
    )
