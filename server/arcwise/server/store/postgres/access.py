"""Sessions, the audit log and remembered numbers in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.server.store.access import MOST_SESSIONS
from arcwise.server.store.records import StoredAction, StoredSession

if TYPE_CHECKING:
    from arcwise.server.store.postgres.database import Connection


def add_session(connection: Connection, new: StoredSession) -> None:
    """Keep a session; see `Access.add_session`."""
    with connection.transaction():
        connection.execute(
            "INSERT INTO session (digest, api_key, created, seen, ends) VALUES (%s, %s, %s, %s, %s)",
            (new.digest, new.key_id, new.created, new.seen, new.ends),
        )
        # Two logins with one key at the same moment may both leave one too many, which the next one ends.
        connection.execute(
            "DELETE FROM session WHERE api_key = %(key)s AND digest NOT IN ("
            "SELECT digest FROM session WHERE api_key = %(key)s"
            " ORDER BY digest = %(digest)s DESC, created DESC, digest LIMIT %(most)s)",
            {"key": new.key_id, "digest": new.digest, "most": MOST_SESSIONS},
        )


def session(connection: Connection, digest: bytes) -> StoredSession | None:
    """Return a session; see `Access.session`."""
    row = connection.execute(
        "SELECT digest, api_key, created, seen, ends FROM session WHERE digest = %s", (digest,)
    ).fetchone()
    return None if row is None else StoredSession(*row)


def see_session(connection: Connection, digest: bytes, now: int) -> None:
    """Note that a session was used; see `Access.see_session`."""
    connection.execute("UPDATE session SET seen = greatest(seen, %s) WHERE digest = %s", (now, digest))


def end_session(connection: Connection, digest: bytes) -> bool:
    """Forget a session; see `Access.end_session`."""
    return connection.execute("DELETE FROM session WHERE digest = %s", (digest,)).rowcount == 1


def prune_sessions(connection: Connection, now: int, idle_seconds: int) -> int:
    """Forget the sessions that are over; see `Access.prune_sessions`."""
    return connection.execute(
        "DELETE FROM session WHERE ends <= %s OR seen <= %s", (now, now - idle_seconds)
    ).rowcount


def begin_action(connection: Connection, action: StoredAction) -> int:
    """Write an entry into the audit log; see `Access.begin_action`."""
    ((number,),) = connection.execute(
        "INSERT INTO action (time, api_key, action, subject, outcome) VALUES (%s, %s, %s, %s, %s)"
        " RETURNING number",
        (action.time, action.key_id, action.action, action.subject, action.outcome),
    ).fetchall()
    return int(number)


def end_action(connection: Connection, number: int, outcome: str) -> None:
    """Note what became of an action; see `Access.end_action`."""
    connection.execute("UPDATE action SET outcome = %s WHERE number = %s", (outcome, number))


def actions(connection: Connection, most: int, before: int | None) -> list[tuple[int, StoredAction]]:
    """Return entries of the audit log; see `Access.actions`."""
    rows = connection.execute(
        "SELECT number, time, api_key, action, subject, outcome FROM action"
        " WHERE %(before)s::bigint IS NULL OR number < %(before)s ORDER BY number DESC LIMIT %(most)s",
        {"before": before, "most": most},
    ).fetchall()
    return [(number, StoredAction(*row)) for number, *row in rows]


def prune_actions(connection: Connection, before: int) -> int:
    """Forget old entries of the audit log; see `Access.prune_actions`."""
    return connection.execute("DELETE FROM action WHERE time < %s", (before,)).rowcount


def remember(connection: Connection, name: str, value: int) -> None:
    """Remember a number; see `Access.remember`."""
    connection.execute(
        "INSERT INTO remembered (name, value) VALUES (%s, %s)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )


def recall(connection: Connection, name: str) -> int | None:
    """Return a number that is remembered; see `Access.recall`."""
    row = connection.execute("SELECT value FROM remembered WHERE name = %s", (name,)).fetchone()
    return None if row is None else int(row[0])
