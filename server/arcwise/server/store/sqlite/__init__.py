"""The embedded store: one SQLite file."""

from arcwise.server.store.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
