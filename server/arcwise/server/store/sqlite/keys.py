"""Keys in a SQLite file."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING

from arcwise.errors import ParameterError
from arcwise.server.store.records import StoredKey

if TYPE_CHECKING:
    from arcwise.server.store.sqlite.database import Database

__all__ = ["add_key", "keys", "revoke_key"]


def add_key(database: Database, key: StoredKey) -> None:
    """Keep a key; see `Store.add_key`."""
    tasks = None if key.tasks is None else json.dumps(key.tasks)
    try:
        with database.errors("add a key to"), database.transaction():
            database.writer.execute(
                "INSERT INTO api_key (id, digest, scope, tasks, label, created, revoked)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (key.id, key.digest, key.scope, tasks, key.label, key.created, key.revoked),
            )
    except Exception as error:
        if isinstance(error.__cause__, sqlite3.IntegrityError):
            raise ParameterError(f"the store has a key {key.id!r} already; make one of another id") from None
        raise


def keys(database: Database) -> list[StoredKey]:
    """Return all keys; see `Store.keys`."""
    with database.read() as connection:
        rows = connection.execute(
            "SELECT id, digest, scope, tasks, label, created, revoked FROM api_key ORDER BY created, id"
        ).fetchall()
    return [
        StoredKey(name, digest, scope, None if tasks is None else tuple(json.loads(tasks)), *rest)
        for name, digest, scope, tasks, *rest in rows
    ]


def revoke_key(database: Database, key_id: str, now: int) -> bool:
    """Make a key useless; see `Store.revoke_key`."""
    with database.errors("revoke a key in"), database.transaction():
        cursor = database.writer.execute(
            "UPDATE api_key SET revoked = ? WHERE id = ? AND revoked IS NULL", (now, key_id)
        )
    return cursor.rowcount == 1
