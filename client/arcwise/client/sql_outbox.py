"""The queue in SQL tables, those of a ledger's file or of PostgreSQL: it outlives the process.

Several processes may send from one queue. Each leases the batch it is sending, so that they rarely send the
same one; when they do, after a crash or a step of the clock, the server counts it once by its id.
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
    """One open transaction, whose statements have the placeholders ``?`` or ``:name``."""

    def execute(self, query: str, parameters: Any = (), /) -> Any:
        """Run one statement."""

    def executemany(self, query: str, rows: Any, /) -> object:
        """Run one statement for each row."""


class Database(Protocol):
    """Where the tables are, open for transactions."""

    busy_timeout: float

    @property
    def place(self) -> Hashable:
        """What is equal for everyone who has these tables open."""

    def reading(self) -> AbstractContextManager[Session]:
        """Let several queries see one state of the tables."""

    def writing(self, *, durable: bool) -> AbstractContextManager[Session]:
        """Open a transaction; if `durable`, it and all earlier ones are on the disk when it ends."""

    def write_back(self) -> None:
        """Let the tables hold what is in a log beside them, if there is one."""


NEXT = """SELECT number, code, created FROM reports WHERE task = :task AND epoch = :epoch
    AND (ready <= :wall OR created > :latest OR number <= :expedited) ORDER BY ready LIMIT :most"""
"""The codes of the next batch of a task and an epoch.

Those whose delays end first: by their numbers, one with a long delay would hold up all after it, and they
would leave in the order in which they were made.
"""

COUNT = """SELECT (SELECT count(*) FROM reports WHERE {0})
    + (SELECT coalesce(sum(reports), 0) FROM batches WHERE {0})"""

_EXPIRY_SECONDS = 60.0
"""How often to look for what is too old."""

_RETAKE_SECONDS = 0.1
"""When to look again after another process was quicker."""

_STEPPED = 3600.0
"""Seconds: clocks that are set by less are only set right, or those of machines that share accounts."""

_owners: weakref.WeakValueDictionary[int, SqlOutbox] = weakref.WeakValueDictionary()
"""The outboxes of this process by the numbers that they lease batches under."""


class SqlOutbox(ABC):
    """The queue in SQL tables, as one uplink uses it."""

    durable = True

    def __init__(self, database: Database, options: OutboxOptions) -> None:
        self.database = database
        self.busy_timeout = database.busy_timeout
        self.options = options
        self._environment = options.environment
        self.foreign: frozenset[str] = frozenset()
        self._expedited = 0
        self._waits = False  # whether the tables hold any
        self._asked = 0.0, -math.inf  # what the tables say, and that time by the monotonic clock
        self.after_fork()

    def after_fork(self) -> None:
        """Go on with the tables, which the child shares with its parent."""
        self.owner = int.from_bytes(self._environment.random_bytes(8), "little") >> 2
        _owners[self.owner] = self
        self._next_expiry = -math.inf
        self.forget_seen()

    def forget_seen(self) -> None:
        """Let the next code wake the sender, whatever came in before."""
        # What the sender knows to wait, see `Look.soonest`; and what came in since.
        self._seen: dict[tuple[str, int], tuple[int, float]] = {}

    @property
    def queue(self) -> Hashable:
        """What is equal for outboxes of one queue."""
        return self.database.place

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

    def take(self, now: float, interval: float, ready_at: Callable[[str], float]) -> Step:
        """Return the next batch to send, or for how many seconds there is none, see `Outbox.take`."""
        self.forget_seen()  # who notes a report while this looks wakes the sender once more
        with self.database.reading() as session:
            wait, self._seen = self._look(session, now, interval, ready_at).soonest()
        if wait > 0:
            return Wait(wait)
        # All that was charged before this commit is on the disk after it, in the relaxed mode too: so no code
        # leaves whose charge could still be undone.
        with self.database.writing(durable=True) as session:
            found = self._look(session, now, interval, ready_at).take()
        if found is None:
            return Wait(_RETAKE_SECONDS)
        self.database.write_back()  # a file that loses its log after a kill still knows what was sent
        number, task_id, task_name, reports, body = found
        put_back, finish = partial(self._put_back, number, body), partial(self._finish, number, body, reports)
        return Send(Parcel(task_id, task_name, reports, body, put_back, finish))

    def _look(self, session: Session, now: float, interval: float, ready_at: Callable[[str], float]) -> Look:
        """Look at the queue in this transaction, and at the clock after what it shows was written.

        A code that is younger than the time it is compared with would seem to come from before the clock was
        set back, and would not be delayed.
        """
        asked = self._still_asked(session)  # a transaction that reads begins here
        wall = unix_time(self._environment)

        def held(task_id: str) -> float:
            return max(ready_at(task_id) - now, asked)

        return Look(self, session, wall, held, interval, self._expedited, self.foreign)

    def _still_asked(self, session: Session) -> float:
        """Return for how many seconds a server still asks a process that sends this to wait, or at most 0.

        The wall clock counts when a wait is seen for the first time, and may then be set right.
        """
        ((until,),) = session.execute("SELECT coalesce(max(asked), 0.0) FROM waits").fetchall()
        now = self._environment.monotonic()
        if until != self._asked[0]:
            self._asked = until, now + still_asked(until - unix_time(self._environment))
        return self._asked[1] - now

    # With its body: after a failover to an older state of a database, another batch may have its number.
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
            if not gone:  # another process was done with it first, or it was cleared
                return
            self._count(session, reports, dropped)

    @abstractmethod
    def counts(self) -> tuple[int, int, dict[str, int]]:
        """Return how many reports are pending, were acknowledged, and were given up for which reason.

        All since the tables were made.
        """

    def leased(self, left: float, by: int, owner: int) -> float:
        """Return for how many seconds somebody else goes on sending a batch; 0 when nobody does."""
        # A lease that is longer than any was made before the clock was set back.
        if not 0 < left <= self.options.lease or owner == self.owner:
            return 0.0
        return left if self._may_be_alive(by, owner) else 0.0

    def _may_be_alive(self, by: int, owner: int) -> bool:
        """Return whether an outbox of this number may be there, in the process of this number."""
        here = by == self._environment.process_id()
        return owner in _owners if here else self._environment.may_be_alive(by)

    @abstractmethod
    def cut(self, session: Any, these: dict[str, float]) -> list[tuple[int, int, float]]:
        """Take out the codes of a new batch, see `NEXT`: (number, code, when it was queued), sorted."""

    @abstractmethod
    def _count(self, session: Any, reports: int, dropped: str | None) -> None:
        """Count reports that leave the queue: acknowledged (None), or dropped for a reason."""

    @abstractmethod
    def _drop(self, session: Any, reason: str, before: float, tasks: str) -> int:
        """Drop what this condition on tasks selects and was queued before this Unix time; return how much."""

    @abstractmethod
    def _last(self, session: Any) -> int:
        """Return the number of the last report that was queued."""

    def expire(self, seconds: float) -> int:
        """Drop what was queued longer ago than so many seconds; return how many reports that were."""
        now = self._environment.monotonic()
        if now < self._next_expiry:  # it takes a look at every report
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
        """Return the condition that a row is of a task that is not left to others."""
        if not self.foreign:
            return "1 = 1"
        numbers = ", ".join(str(number) for number, _ in _own_tasks(session, self.foreign))
        return f"task IN ({numbers})" if numbers else "1 = 0"

    def expedite(self) -> Callable[[], bool]:
        """Let everything that is queued now be sent without waiting, see `Outbox.expedite`."""
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
        """Leave everything queued; return how many reports that are, without those left to others."""
        _owners.pop(self.owner, None)  # what is leased under this number is free
        with self.database.reading() as session:
            (left,) = session.execute(COUNT.format(self._own(session))).fetchone()
        return int(left)

    def load(self, schedule: Schedule) -> None:
        """Let the schedule remember the waits of an earlier process."""
        now, wall = self._environment.monotonic(), unix_time(self._environment)
        with self.database.reading() as session:
            for scope, failures, own, asked in session.execute("SELECT * FROM waits"):
                self._waits = True
                schedule.restore(scope, failures, own - wall, asked - wall, now)

    def save(self, schedule: Schedule) -> None:
        """Keep the schedule's waits for a later process."""
        now, wall = self._environment.monotonic(), unix_time(self._environment)
        if not self._waits and not any(schedule.remaining(now)):
            return
        with self.database.writing(durable=False) as session:
            # No answer to this process ends what a server has asked another one for.
            schedule.hold(self._still_asked(session), now)
            left = list(schedule.remaining(now))
            # A wait that is none is over whatever the clock will be.
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

    `wait` is the number of seconds until they can be sent, `soonest` the end of their first delay.
    """

    task: int
    task_id: str
    epoch: int
    wait: float
    reports: int
    soonest: float


class Look(NamedTuple):
    """One look at the queue: which codes make a batch now, and which batch is sent next.

    `wall` is the Unix time that the tables' times are compared with, and `held` returns for how many seconds
    nothing of the task with this id may be sent. `interval` is that of `Outbox.take`. Reports with numbers up
    to `expedited` are sent without waiting. Tasks with one of the names `foreign` are left to others.
    """

    outbox: SqlOutbox
    session: Session
    wall: float
    held: Callable[[str], float]
    interval: float
    expedited: int
    foreign: frozenset[str]

    def soonest(self) -> tuple[float, dict[tuple[str, int], tuple[int, float]]]:
        """Return after how many seconds there is something to send; infinity when nothing is queued.

        Also, by task and epoch, how many codes can travel together, and when the delay of the first of them
        ends; minus infinity when one has ended.
        """
        groups = list(self._groups())
        waits = [wait for _, wait in self._batches()] + [group.wait for group in groups]
        seen = {(group.task_id, group.epoch): (group.reports, group.soonest) for group in groups}
        return min(waits, default=math.inf), seen

    def take(self) -> tuple[int, str, str, int, bytes] | None:
        """Lease one of the batches that can be sent, sealed now if there is none; None when nothing is due.

        Which one is random. Return its number, its task's id and name, how many reports it has, and its body.
        """
        free = self._free()
        if not free:  # codes are sealed late, so that a batch holds as many as it can
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
        """Yield (number, seconds until it can be sent) of the sealed batches."""
        rows = self.session.execute(
            """SELECT batches.number, tasks.id, tasks.name, leased_until, leased_by, owner
               FROM batches JOIN tasks ON tasks.number = batches.task"""
        ).fetchall()  # all at once, see `_Memo.__iter__` of a file
        for number, task_id, name, until, by, owner in rows:
            if name not in self.foreign:
                yield number, max(self.outbox.leased(until - self.wall, by, owner), self.held(task_id))

    def _groups(self) -> Iterator[_Group]:
        """Yield the codes that can travel together. Of each task and epoch no more are looked at than fit.

        A code of a later time was written before the clock was set back, and its delay is over. The delays of
        others are theirs, whatever this client's is.
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
        """Return the parameters of queries for a batch of a task and an epoch."""
        times = {"wall": self.wall, "latest": self.wall + _STEPPED, "expedited": self.expedited}
        return {"task": task, "epoch": epoch, "most": self.outbox.options.batch_size, **times}

    def _epochs(self) -> Iterator[tuple[int, str, int]]:
        """Yield (task, its id, epoch) of all codes: one look-up in the index for each, however many codes."""
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
    """Return (number, id) of the tasks that have none of these names."""
    tasks = session.execute("SELECT number, id, name FROM tasks").fetchall()
    return [(number, task_id) for number, task_id, name in tasks if name not in foreign]


def note_dropped(session: Session, reason: str, reports: int) -> None:
    """Add to the number of reports that were dropped for a reason, in an open transaction."""
    session.execute(
        """INSERT INTO dropped VALUES (?, ?)
           ON CONFLICT (reason) DO UPDATE SET reports = dropped.reports + excluded.reports""",
        (reason, reports),
    )
