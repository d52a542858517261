"""Who waits for whom in a PostgreSQL store: advisory locks, which end with their transaction.

Those who add share one lock for the moment of a call. Whoever closes a task or an epoch, or merges, takes it
alone: nothing is counted after a closing. PostgreSQL lets nobody pass who waits for a lock, so every report
would wait behind somebody who waits to be alone.
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
"""Seconds of the first attempts to be alone; all others take as long as the last."""
_PAUSE: Final = 0.1

# In this order, whoever takes more than one.
_SOURCES = "SELECT pg_advisory_xact_lock(7244, 'source'::regclass::oid::integer)"
_FOLD = "SELECT pg_advisory_xact_lock(7243, 'task'::regclass::oid::integer)"
_ALONE = "SELECT pg_advisory_xact_lock(7241, 'task'::regclass::oid::integer)"
_KEEP_OPEN = "SELECT pg_advisory_xact_lock_shared(7241, 'task'::regclass::oid::integer)"
# A process that is suspended meanwhile, or whose machine is gone, keeps nobody waiting for longer.
_IDLE = "SET LOCAL idle_in_transaction_session_timeout = '5s'"
_TASK = "SELECT FROM task WHERE number = %s FOR NO KEY UPDATE"


def alone(connection: Connection, task: int | None = None) -> None:
    """Keep others from adding, merging, replacing or changing this task (number) until the transaction ends.

    The lock is requested in short attempts, between which reports go on. A holder that asks nothing of the
    database for five seconds loses the lock and the transaction. Raises `LockNotAvailable` when others held
    it for ten seconds.
    """
    until = time.monotonic() + LOCK_SECONDS
    attempts = chain(_ATTEMPTS, repeat(_ATTEMPTS[-1]))
    while True:
        seconds = next(attempts)
        try:
            with connection.transaction():  # an attempt that fails lets go of the task
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
    """Wait a moment before work is done again that was in the way of another's: else it is so again."""
    time.sleep(_PAUSE)


def keep_open(connection: Connection) -> None:
    """Let nobody close a task or an epoch until the transaction ends, while others add."""
    connection.execute(_KEEP_OPEN)


def lock_folding(connection: Connection) -> None:
    """Let nobody else fold shards until the transaction ends."""
    connection.execute(_FOLD)


def lock_sources(connection: Connection, *, patient: bool = False) -> None:
    """Let nobody else change sources until the transaction ends; a patient one waits as long as it takes."""
    if patient:
        _wait_for_locks(connection, 0)
    connection.execute(_SOURCES)
    _wait_for_locks(connection, LOCK_SECONDS)


def _wait_for_locks(connection: Connection, seconds: float) -> None:
    connection.execute(f"SET LOCAL lock_timeout = {int(1000 * seconds)}".encode())
