"""Advisory locks of a PostgreSQL store, which end with their transaction.

Processes that add reports share one lock during a call. A process that closes a task or an epoch, or merges,
takes this lock exclusively, so that nothing is counted after a closing. PostgreSQL lets no process pass
another one that waits for a lock. So if a process waited for the exclusive lock without a pause, every report
would wait behind it.
"""

from __future__ import annotations

import time
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final

from psycopg.errors import LockNotAvailable

from arcwise.server.store.postgres.database import LOCK_SECONDS

if TYPE_CHECKING:
    from psycopg import Connection

_ATTEMPTS: Final = (0.2, 0.4, 0.8)
"""Seconds of the first attempts to get the exclusive lock; later ones take as long as the last of these."""
_PAUSE: Final = 0.1

# A process that takes several locks takes them in this order.
_SOURCES = "SELECT pg_advisory_xact_lock(7244, 'source'::regclass::oid::integer)"
_FOLD = "SELECT pg_advisory_xact_lock(7243, 'task'::regclass::oid::integer)"
_ALONE = "SELECT pg_advisory_xact_lock(7241, 'task'::regclass::oid::integer)"
_KEEP_OPEN = "SELECT pg_advisory_xact_lock_shared(7241, 'task'::regclass::oid::integer)"
# If a process is suspended while it has the lock, or its machine fails, others wait at most this long.
_IDLE = "SET LOCAL idle_in_transaction_session_timeout = '5s'"
_TASK = "SELECT FROM task WHERE number = %s FOR NO KEY UPDATE"


def alone(connection: Connection, task: int | None = None) -> None:
    """Until the transaction ends, keep others from adding, merging, replacing, or changing the given task.

    `task` is the number of a task. The lock is requested in short attempts, and reports go on in between. A
    holder that sends no statement for five seconds loses the lock and the transaction. Raises
    `LockNotAvailable` when others held it for ten seconds.
    """
    until = time.monotonic() + LOCK_SECONDS
    attempts = chain(_ATTEMPTS, repeat(_ATTEMPTS[-1]))
    while True:
        seconds = next(attempts)
        try:
            with connection.transaction():  # a failed attempt releases the lock of the task
                _wait_for_locks(connection, seconds)
                if task is not None:
                    connection.execute(_TASK, (task,))
                connection.execute(_ALONE)
        except LockNotAvailable:
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE)
        else:
            _wait_for_locks(connection, LOCK_SECONDS)
            connection.execute(_IDLE)
            return


def let_others_pass() -> None:
    """Wait a moment before repeating work that blocked other work; otherwise it would block that again."""
    time.sleep(_PAUSE)


def keep_open(connection: Connection) -> None:
    """Keep others from closing a task or an epoch until the transaction ends; they may still add."""
    connection.execute(_KEEP_OPEN)


def lock_folding(connection: Connection) -> None:
    """Keep others from folding shards until the transaction ends."""
    connection.execute(_FOLD)


def lock_sources(connection: Connection, *, patient: bool = False) -> None:
    """Keep others from changing sources until the transaction ends; if `patient`, wait without a limit."""
    if patient:
        _wait_for_locks(connection, 0)
    connection.execute(_SOURCES)
    _wait_for_locks(connection, LOCK_SECONDS)


def _wait_for_locks(connection: Connection, seconds: float) -> None:
    connection.execute(f"SET LOCAL lock_timeout = {int(1000 * seconds)}".encode())
