"""Sessions, the audit log and remembered numbers in a SQLite file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.server.store.access import MOST_SESSIONS
from arcwise.server.store.records import StoredAction, StoredSession

if TYPE_CHECKING:
    from typing import Any

    from arcwise.server.store.sqlite.database import Database


def change(database: Database, statement: str, *values: Any) -> int:
    """Run one statement that changes something; return how many rows it changed."""
    with database.errors("write to"), database.transaction():
        return database.writer.execute(statement, values).rowcount


def add_session(database: Database, new: StoredSession) -> None:
    """Keep a session; see `Access.add_session`."""
    with database.errors("write to"), database.transaction():
        database.writer.execute(
            "INSERT INTO session (digest, api_key, created, seen, ends) VALUES (?, ?, ?, ?, ?)",
            (new.digest, new.key_id, new.created, new.seen, new.ends),
        )
        database.writer.execute(
            "DELETE FROM session WHERE api_key = :key AND digest NOT IN (SELECT digest FROM session"
            " WHERE api_key = :key ORDER BY digest = :new DESC, created DESC, digest LIMIT :most)",
            {"key": new.key_id, "new": new.digest, "most": MOST_SESSIONS},
        )


def session(database: Database, digest: bytes) -> StoredSession | None:
    """Return a session; see `Access.session`."""
    with database.read() as connection:
        row = connection.execute(
            "SELECT digest, api_key, created, seen, ends FROM session WHERE digest = ?", (digest,)
        ).fetchone()
    return None if row is None else StoredSession(*row)


def see_session(database: Database, digest: bytes, now: int) -> None:
    """Note that a session was used; see `Access.see_session`."""
    change(database, "UPDATE session SET seen = max(seen, ?) WHERE digest = ?", now, digest)


def end_session(database: Database, digest: bytes) -> bool:
    """Forget a session; see `Access.end_session`."""
    return change(database, "DELETE FROM session WHERE digest = ?", digest) == 1


def prune_sessions(database: Database, now: int, idle_seconds: int) -> int:
    """Forget the sessions that are over; see `Access.prune_sessions`."""
    return change(database, "DELETE FROM session WHERE ends <= ? OR seen <= ?", now, now - idle_seconds)


def begin_action(database: Database, action: StoredAction) -> int:
    """Write an entry into the audit log; see `Access.begin_action`."""
    with database.errors("write to"), database.transaction():
        cursor = database.writer.execute(
            "INSERT INTO action (time, api_key, action, subject, outcome) VALUES (?, ?, ?, ?, ?)",
            (action.time, action.key_id, action.action, action.subject, action.outcome),
        )
        return int(cursor.lastrowid or 0)


def actions(database: Database, most: int, before: int | None) -> list[tuple[int, StoredAction]]:
    """Return entries of the audit log; see `Access.actions`."""
    with database.read() as connection:
        rows = connection.execute(
            "SELECT number, time, api_key, action, subject, outcome FROM action"
            " WHERE :before IS NULL OR number < :before ORDER BY number DESC LIMIT :most",
            {"before": before, "most": most},
        ).fetchall()
    return [(number, StoredAction(*row)) for number, *row in rows]


def remember(database: Database, name: str, value: int) -> None:
    """Remember a number; see `Access.remember`."""
    change(database, "INSERT OR REPLACE INTO remembered (name, value) VALUES (?, ?)", name, value)


def recall(database: Database, name: str) -> int | None:
    """Return a number that is remembered; see `Access.recall`."""
    with database.read() as connection:
        row = connection.execute("SELECT value FROM remembered WHERE name = ?", (name,)).fetchone()
    return None if row is None else int(row[0])
