"""Which codes of a ledger's tables make a batch now, and which batch is sent next.

The queries are those of a file and of PostgreSQL both, see `arcwise.client.postgres.outbox`.
"""

from __future__ import annotations

import math
import sqlite3
import weakref
from typing import TYPE_CHECKING, NamedTuple

from arcwise.client.outbox import seal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from arcwise.client.environment import Environment
    from arcwise.client.outbox import OutboxOptions


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


class Batching(NamedTuple):
    """The circumstances in which an outbox looks at its queue once.

    `wall` is the Unix time that the file's times are compared with, and `held` returns for how many seconds
    nothing of the task with this id may be sent. Reports with numbers up to `expedited` are sent without
    waiting. `options` and `interval` are those of `OutboxOptions` and `Outbox.take`; `owner` is a number of
    `new_owner`. Tasks with one of the names `foreign` are left to others.
    """

    wall: float
    held: Callable[[str], float]
    options: OutboxOptions
    interval: float
    expedited: int
    owner: int
    foreign: frozenset[str] = frozenset()

    def look(self, connection: sqlite3.Connection) -> tuple[float, dict[tuple[str, int], tuple[int, float]]]:
        """Return after how many seconds there is something to send; infinity when nothing is queued.

        Also, by task and epoch, how many codes can travel together, and when the delay of the first of them
        ends; minus infinity when one has ended.
        """
        groups = list(self._groups(connection))
        waits = [wait for _, wait in self._batches(connection)] + [group.wait for group in groups]
        seen = {(group.task_id, group.epoch): (group.reports, group.soonest) for group in groups}
        return min(waits, default=math.inf), seen

    def take(self, connection: sqlite3.Connection) -> tuple[int, str, str, int, bytes] | None:
        """Lease one of the batches that can be sent, sealed now if there is none; None when nothing is due.

        Which one is random. Return its number, its task's id and name, how many reports it has, and its body.
        """
        free = self._free(connection)
        if not free:  # codes are sealed late, so that a batch holds as many as it can
            for group in list(self._groups(connection)):
                if group.wait <= 0:
                    self._seal(connection, group.task, group.task_id, group.epoch)
            free = self._free(connection)
        if not free:
            return None
        environment = self.options.environment
        number = free[int(environment.uniform() * len(free))]
        connection.execute(
            "UPDATE batches SET leased_until = ?, leased_by = ?, owner = ? WHERE number = ?",
            (self.wall + self.options.lease, environment.process_id(), self.owner, number),
        )
        found: tuple[int, str, str, int, bytes] = connection.execute(
            """SELECT batches.number, tasks.id, tasks.name, reports, body
               FROM batches JOIN tasks ON tasks.number = batches.task WHERE batches.number = ?""",
            (number,),
        ).fetchone()
        return found

    def _free(self, connection: sqlite3.Connection) -> list[int]:
        return [number for number, wait in self._batches(connection) if wait <= 0]

    def _batches(self, connection: sqlite3.Connection) -> Iterator[tuple[int, float]]:
        """Yield (number, seconds until it can be sent) of the sealed batches."""
        rows = connection.execute(
            """SELECT batches.number, tasks.id, tasks.name, leased_until, leased_by, owner
               FROM batches JOIN tasks ON tasks.number = batches.task"""
        ).fetchall()  # see `_Memo.__iter__`
        for number, task_id, name, until, by, owner in rows:
            if name not in self.foreign:
                yield number, max(self._leased(until, by, owner), self.held(task_id))

    def _leased(self, until: float, by: int, owner: int) -> float:
        """Return for how many seconds somebody else goes on sending a batch; 0 when nobody does."""
        left = until - self.wall
        # A lease that is longer than any was made before the clock was set back.
        if not 0 < left <= self.options.lease or owner == self.owner:
            return 0.0
        environment = self.options.environment
        alive = owner in _owners if by == environment.process_id() else environment.may_be_alive(by)
        return left if alive else 0.0

    def _groups(self, connection: sqlite3.Connection) -> Iterator[_Group]:
        """Yield the codes that can travel together. Of each task and epoch no more are looked at than fit.

        A code of a later time was written before the clock was set back, and its delay is over. The delays of
        others are theirs, whatever this client's is.
        """
        for task, task_id, epoch in self._epochs(connection):
            these = self._these(task, epoch)
            expedited, stepped = connection.execute(
                """SELECT number <= :expedited, created > :latest FROM reports
                   WHERE task = :task AND epoch = :epoch ORDER BY number LIMIT 1""",
                these,
            ).fetchone()
            count, oldest, soonest, reports = connection.execute(
                """SELECT count(CASE WHEN ready <= :wall THEN 1 END),
                          min(CASE WHEN ready <= :wall THEN created END), min(ready), count(*)
                   FROM (SELECT ready, created FROM reports
                         WHERE task = :task AND epoch = :epoch ORDER BY ready LIMIT :most) AS these""",
                these,
            ).fetchone()
            delayed = oldest is None and not stepped
            if expedited or stepped or count >= self.options.batch_size:
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
        return {"task": task, "epoch": epoch, "most": self.options.batch_size, **times}

    def _epochs(self, connection: sqlite3.Connection) -> Iterator[tuple[int, str, int]]:
        """Yield (task, its id, epoch) of all codes: one look-up in the index for each, however many codes."""
        for task, task_id in own_tasks(connection, self.foreign):
            epoch: int | None = None
            while True:
                later = "" if epoch is None else "AND epoch > :epoch"
                (epoch,) = connection.execute(
                    f"SELECT min(epoch) FROM reports WHERE task = :task {later}",  # noqa: S608
                    {"task": task, "epoch": epoch},
                ).fetchone()
                if epoch is None:
                    break
                yield task, task_id, epoch

    def _seal(self, connection: sqlite3.Connection, task: int, task_id: str, epoch: int) -> None:
        rows = self._cut(connection, task, epoch)
        (width,) = connection.execute("SELECT width FROM tasks WHERE number = ?", (task,)).fetchone()
        if not rows or max(code for _, code, _ in rows) >= 256**width:
            raise sqlite3.DatabaseError(f"codes are lost, or do not fit into {width} bytes")
        numbers, codes, created = zip(*rows, strict=True)
        body = seal(task_id, epoch, codes, width, self.options.environment)
        connection.execute(
            "INSERT INTO batches (task, reports, first_report, created, body) VALUES (?, ?, ?, ?, ?)",
            (
                task,
                len(rows),
                numbers[0],
                min(created),
                body,
            ),
        )

    def _cut(self, connection: sqlite3.Connection, task: int, epoch: int) -> list[tuple[int, int, float]]:
        """Take out the codes of a new batch: (number, code, when it was queued), in order of the numbers.

        Those whose delays end first: by their numbers, one with a long delay would hold up all after it, and
        they would leave in the order in which they were made.
        """
        these = self._these(task, epoch)
        rows: list[tuple[int, int, float]] = connection.execute(NEXT, these).fetchall()
        connection.executemany("DELETE FROM reports WHERE number = ?", [(number,) for number, *_ in rows])
        return sorted(rows)


def own_tasks(connection: sqlite3.Connection, foreign: frozenset[str]) -> list[tuple[int, str]]:
    """Return (number, id) of the tasks that have none of these names."""
    tasks = connection.execute("SELECT number, id, name FROM tasks").fetchall()
    return [(number, task_id) for number, task_id, name in tasks if name not in foreign]


NEXT = """SELECT number, code, created FROM reports WHERE task = :task AND epoch = :epoch
    AND (ready <= :wall OR created > :latest OR number <= :expedited) ORDER BY ready LIMIT :most"""

_STEPPED = 3600.0
"""Seconds: clocks that are set by less are only set right, or those of machines that share accounts."""

_owners: weakref.WeakValueDictionary[int, object] = weakref.WeakValueDictionary()


def new_owner(outbox: object, environment: Environment) -> int:
    """Return a number that stands for an outbox of this process, for as long as there is the outbox."""
    number = int.from_bytes(environment.random_bytes(8), "little") >> 2
    _owners[number] = outbox
    return number


def end_owner(number: int) -> None:
    """Let what is leased under this number be free."""
    _owners.pop(number, None)
