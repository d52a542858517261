"""Which codes of a ledger's file make a batch now, and which batch is sent next."""

from __future__ import annotations

import math
import os
import random
import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from arcwise.client.outboxes.base import seal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Batching", "FileParcel"]

_CSPRNG = random.SystemRandom()


class FileParcel(NamedTuple):
    """A sealed batch as the file holds it."""

    number: int
    task_id: str
    task_name: str
    reports: int
    body: bytes


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
    """One look at the queue.

    Attributes
    ----------
    wall
        The Unix time, which the file's times are compared with.
    held
        For how many seconds nothing may be sent of the task with this id.
    batch_size, interval, delay, lease
        See `FileOutbox` and `Outbox.take`.
    hurried
        Reports up to this number wait for nothing.
    """

    wall: float
    held: Callable[[str], float]
    batch_size: int
    interval: float
    delay: float
    lease: float
    hurried: int

    def look(self, connection: sqlite3.Connection) -> tuple[float, dict[tuple[str, int], tuple[int, float]]]:
        """Return after how many seconds there is something to send; infinity when nothing is queued.

        Also, by task and epoch, how many codes can travel together, and when the delay of the first of them
        ends; minus infinity when one has ended.
        """
        groups = list(self._groups(connection))
        waits = [wait for _, wait in self._batches(connection)] + [group.wait for group in groups]
        seen = {(group.task_id, group.epoch): (group.reports, group.soonest) for group in groups}
        return min(waits, default=math.inf), seen

    def take(self, connection: sqlite3.Connection) -> FileParcel | None:
        """Lease one of the batches that can be sent, sealed now if there is none; None when nothing is due.

        Which one is random: their order tells nothing either.
        """
        free = self._free(connection)
        if not free:  # codes are sealed late, so that a batch holds as many as it can
            for group in list(self._groups(connection)):
                if group.wait <= 0:
                    self._seal(connection, group.task, group.task_id, group.epoch)
            free = self._free(connection)
        if not free:
            return None
        number = _CSPRNG.choice(free)
        connection.execute(
            "UPDATE batches SET leased_until = ?, leased_by = ? WHERE number = ?",
            (self.wall + self.lease, os.getpid(), number),
        )
        row = connection.execute(
            """SELECT batches.number, tasks.id, tasks.name, reports, body
               FROM batches JOIN tasks ON tasks.number = batches.task WHERE batches.number = ?""",
            (number,),
        ).fetchone()
        return FileParcel(*row)

    def _free(self, connection: sqlite3.Connection) -> list[int]:
        return [number for number, wait in self._batches(connection) if wait <= 0]

    def _batches(self, connection: sqlite3.Connection) -> Iterator[tuple[int, float]]:
        """Yield (number, seconds until it can be sent) of the sealed batches."""
        rows = connection.execute(
            """SELECT batches.number, tasks.id, leased_until, leased_by
               FROM batches JOIN tasks ON tasks.number = batches.task"""
        )
        for number, task_id, until, by in rows:
            yield number, max(self._leased(until, by), self.held(task_id))

    def _leased(self, until: float, by: int) -> float:
        """Return for how many seconds another process goes on sending a batch; 0 when none does."""
        left = until - self.wall
        # A lease that is longer than any was made before the clock was set back.
        if not 0 < left <= self.lease or by == os.getpid() or not _may_be_alive(by):
            return 0.0
        return left

    def _groups(self, connection: sqlite3.Connection) -> Iterator[_Group]:
        """Yield the codes that can travel together.

        A time in the future that no delay explains was written before the clock was set back: it has come.
        """
        rows = connection.execute(
            """SELECT task, tasks.id, epoch, min(reports.number) <= :hurried,
                      sum(ready <= :wall OR ready > :latest),
                      min(CASE WHEN ready <= :wall OR ready > :latest THEN created END), min(ready),
                      count(*)
               FROM reports JOIN tasks ON tasks.number = task GROUP BY task, epoch""",
            {"wall": self.wall, "latest": self.wall + self.delay, "hurried": self.hurried},
        )
        for task, task_id, epoch, hurried, count, oldest, soonest, reports in rows:
            if hurried or count >= self.batch_size or (oldest is not None and oldest > self.wall):
                wait = 0.0
            elif oldest is None:
                wait = soonest - self.wall
            else:
                wait = max(0.0, oldest + self.interval - self.wall)
            wait = max(wait, self.held(task_id))
            yield _Group(task, task_id, epoch, wait, reports, soonest if oldest is None else -math.inf)

    def _seal(self, connection: sqlite3.Connection, task: int, task_id: str, epoch: int) -> None:
        rows = connection.execute(
            """SELECT number, code, created FROM reports
               WHERE task = ? AND epoch = ? AND (ready <= ? OR ready > ? OR number <= ?)
               ORDER BY number LIMIT ?""",
            (task, epoch, self.wall, self.wall + self.delay, self.hurried, self.batch_size),
        ).fetchall()
        (width,) = connection.execute("SELECT width FROM tasks WHERE number = ?", (task,)).fetchone()
        if not rows or max(code for _, code, _ in rows) >= 256**width:
            raise sqlite3.DatabaseError(f"codes are lost, or do not fit into {width} bytes")
        numbers, codes, created = zip(*rows, strict=True)
        connection.executemany("DELETE FROM reports WHERE number = ?", ((number,) for number in numbers))
        connection.execute(
            "INSERT INTO batches (task, reports, first_report, created, body) VALUES (?, ?, ?, ?, ?)",
            (task, len(rows), numbers[0], min(created), seal(task_id, epoch, codes, width)),
        )


def _may_be_alive(pid: int) -> bool:
    """Return whether a process of this number may be running. Asking does no harm to it."""
    if os.name == "nt":  # where os.kill would end it: the lease's end has to do
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
