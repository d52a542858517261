"""Keys in a PostgreSQL database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg.errors import UniqueViolation

from arcwise.errors import ParameterError
from arcwise.server.store.records import StoredKey

if TYPE_CHECKING:
    from arcwise.server.store.postgres.database import Connection

__all__ = ["add_key", "keys", "revoke_key"]


def add_key(connection: Connection, key: StoredKey) -> None:
    """Keep a key; see `Store.add_key`."""
    tasks = None if key.tasks is None else list(key.tasks)
    try:
        connection.execute(
            "INSERT INTO api_key (id, digest, scope, tasks, label, created, revoked)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (key.id, key.digest, key.scope, tasks, key.label, key.created, key.revoked),
        )
    except UniqueViolation:
        raise ParameterError(f"the store has a key {key.id!r} already; make one of another id") from None


def keys(connection: Connection) -> list[StoredKey]:
    """Return all keys; see `Store.keys`."""
    rows = connection.execute(
        "SELECT id, digest, scope, tasks, label, created, revoked FROM api_key ORDER BY created, id"
    ).fetchall()
    return [
        StoredKey(name, digest, scope, None if tasks is None else tuple(tasks), *rest)
        for name, digest, scope, tasks, *rest in rows
    ]


def revoke_key(connection: Connection, key_id: str, now: int) -> bool:
    """Make a key useless; see `Store.revoke_key`."""
    cursor = connection.execute(
        "UPDATE api_key SET revoked = %s WHERE id = %s AND revoked IS NULL", (now, key_id)
    )
    return cursor.rowcount == 1
