"""The queue of unsent codes in a PostgreSQL database, which processes of several machines may share.

A lease on a batch ends only by time, because a process cannot check whether a process on another machine is
alive. If two processes send the same batch after a crash, the server recognises its id and counts it once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from arcwise.client.sql_outbox import NEXT, Look, SqlOutbox, note_dropped
from arcwise.errors import LedgerError
from arcwise.wire import code_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from arcwise.client.ledger import OutboxOptions
    from arcwise.client.sql_outbox import Database, Session
    from arcwise.tasks import Task


_SLICE = 1000
"""Number of rows that are fetched together: they fit into a socket's buffer."""

_DECLARE = f"DECLARE next NO SCROLL CURSOR FOR {NEXT}"
_FETCH = f"FETCH {_SLICE} FROM next"
_DELETE = f"DELETE FROM reports WHERE number IN (SELECT number FROM ({NEXT}) AS next)"  # noqa: S608


class PostgresOutbox(SqlOutbox):
    """The queue in a database, as seen by one uplink."""

    def __init__(self, database: Database, options: OutboxOptions) -> None:
        self._closed = False
        super().__init__(database, options)

    def after_fork(self) -> None:
        """Continue in a child that shares the database with its parent."""
        super().after_fork()
        self._known = math.inf  # number of pending reports, as far as this outbox knows

    def has_room(self, session: Session, reports: int) -> bool:
        """Return whether the queue has room for this many more reports.

        Reports of other processes are counted only when the queue seems full, and once a minute.
        """
        if self._known + reports > self.options.capacity:
            self._known = self._pending(session)
        return self._known + reports <= self.options.capacity

    def add(self, session: Session, task: Task, epoch: int, code: int, *, account: int, now: float) -> bool:
        """Queue one code in an open transaction; return True if the sender has something new to do."""
        ready = self._ready(now)
        row = (account, epoch, code, now, ready, task.id)
        if not session.execute(_ADD, row).rowcount:
            session.execute(
                "INSERT INTO tasks (id, name, width) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING",
                (task.id, task.name, code_width(task.mechanism.kernel.codes)),
            )
            if session.execute(_ADD, row).rowcount != 1:
                raise LedgerError("the ledgers are damaged: a task was not written")
        self._known += 1
        return self._note(task, epoch, ready)

    def has_forgotten(self, noted: Iterable[tuple[str, int]]) -> bool:
        """Return whether the sender knows of no code for at least one of these pairs (task, epoch)."""
        return any(key not in self._seen for key in noted)

    def counts(self) -> tuple[int, int, dict[str, int]]:
        """Return the numbers of pending and acknowledged reports, and of dropped reports by reason.

        The numbers cover all accounts since the tables were created.
        """
        with self.database.reading() as session:
            (sent,) = session.execute("SELECT sent FROM state").fetchone() or (0,)
            dropped = session.execute("SELECT reason, reports FROM dropped").fetchall()
            return self._pending(session), int(sent), dict(dropped)

    def _pending(self, session: Session) -> int:
        (pending,) = session.execute(
            "SELECT (SELECT count(*) FROM reports) + (SELECT coalesce(sum(reports), 0) FROM batches)"
        ).fetchone() or (0,)
        return int(pending)

    def expire(self, seconds: float) -> int:
        """Drop the reports that are older than `seconds`, and return their number."""
        if self._environment.monotonic() >= self._next_expiry:
            self._known = math.inf
        return super().expire(seconds)

    def close(self) -> int:
        """Leave everything queued and release this outbox's leases; return the number of reports.

        A request may still be under way: if its batch is sent twice, the server counts it once.
        """
        self._closed = True  # before the lock, so that a sender that leases afterwards sees it
        with self.database.writing(durable=False) as session:
            session.execute("UPDATE batches SET leased_until = 0 WHERE owner = ?", (self.owner,))
        return super().close()

    def _look(self, session: Session, now: float, interval: float, ready_at: Callable[[str], float]) -> Look:
        if self._closed:
            raise LedgerError("the uplink is closed")
        return super()._look(session, now, interval, ready_at)

    def _may_be_alive(self, by: int, owner: int) -> bool:
        return True  # processes of other machines cannot be checked

    def cut(self, session: Session, these: dict[str, float]) -> list[tuple[int, int, float]]:
        """Remove and return the codes of a new batch, sorted by their numbers."""
        # Fetch the codes in slices that fit into a socket's buffer. Otherwise the session of a frozen process
        # is not idle but waits to send its rows, and PostgreSQL does not end its transaction.
        session.execute(_DECLARE, these)
        rows: list[tuple[int, int, float]] = []
        while part := session.execute(_FETCH).fetchall():
            rows += part
        session.execute("CLOSE next")
        session.execute(_DELETE, these)  # the same rows, since the transaction sees one state
        return sorted(rows)

    def _count(self, session: Session, reports: int, dropped: str | None) -> None:
        if dropped is None:
            session.execute("UPDATE state SET sent = sent + ?", (reports,))
        else:
            count_dropped(session, dropped, reports)

    def _drop(self, session: Session, reason: str, before: float, tasks: str) -> int:
        old = f"WHERE {tasks} AND created < ?"
        reports = session.execute(f"DELETE FROM reports {old}", (before,)).rowcount  # noqa: S608
        batches = session.execute(f"DELETE FROM batches {old} RETURNING reports", (before,)).fetchall()  # noqa: S608
        dropped: int = reports + sum(reports for (reports,) in batches)
        count_dropped(session, reason, dropped)
        return dropped

    def _last(self, session: Session) -> int:
        # The sequence still knows the last number after all rows are gone. Before the first number, its
        # last_value is already 1.
        (last,) = session.execute(
            "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM reports_number_seq"
        ).fetchone()
        return int(last)


_ADD = """INSERT INTO reports (account, epoch, code, created, ready, task)
    SELECT ?, ?, ?, ?, ?, number FROM tasks WHERE id = ?"""


def count_dropped(session: Session, reason: str, reports: int) -> None:
    """Count reports that were dropped for this reason."""
    if reports:
        note_dropped(session, reason, reports)
