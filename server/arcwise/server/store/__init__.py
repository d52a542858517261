"""Where counts are kept: an interface, its stores, and the writer that shares commits between requests."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from arcwise.errors import ParameterError, StoreError
from arcwise.server.store.base import Outcome, Store
from arcwise.server.store.migrations import Migration
from arcwise.server.store.records import StoredKey, StoredTask
from arcwise.server.store.sqlite.database import Database
from arcwise.server.store.sqlite.store import SQLiteStore
from arcwise.server.store.writer import Busy, Writer

__all__ = [
    "Busy",
    "Migration",
    "Outcome",
    "SQLiteStore",
    "Store",
    "StoredKey",
    "StoredTask",
    "Writer",
    "migrate_store",
    "open_store",
]


def open_store(url: str, *, create: bool = True) -> Store:
    """Open the store that a URL names.

    ``sqlite:///relative.db``, ``sqlite:////absolute.db``, or ``postgresql://user@host/database`` with
    whatever libpq takes after it, such as ``?sslmode=verify-full``. A password is better kept in a
    ``.pgpass`` file.

    Parameters
    ----------
    url
        Which store.
    create
        Make the store when it does not exist; False: that is an error.

    Raises
    ------
    MissingExtraError
        When the store is PostgreSQL and psycopg is not installed.
    ParameterError
        When the URL names no store that this version has.
    StoreError
        When the store cannot be opened, or has an older schema: the message names the command to run.
    """
    if _is_postgres(url):
        from arcwise.server.store.postgres.store import PostgresStore

        return PostgresStore(url, create=create)
    return SQLiteStore(_sqlite_path(url), create=create)


def migrate_store(url: str, *, to: int | None = None, dry_run: bool = False) -> list[Migration]:
    """Bring a store to schema `to`, in one transaction and under a lock; return what was applied.

    Parameters
    ----------
    url
        Which store; it must exist.
    to
        Version of the schema; None: the newest. There is no way back but a backup.
    dry_run
        Apply everything and undo it: what would fail, fails.

    Raises
    ------
    ParameterError
        When the URL names no store that this version has, or `to` no schema that the store can have.
    StoreError
        When the store cannot be opened or migrated; it is as it was.
    """
    if _is_postgres(url):
        from arcwise.server.store.postgres.database import Database as PostgresDatabase

        postgres = PostgresDatabase(url)
        if not postgres.exists():
            raise StoreError(f"there is no store at {postgres.name}")
        return postgres.migrate(to, dry_run=dry_run)
    with closing(Database(_sqlite_path(url), create=False)) as database:
        return database.migrate(to, dry_run=dry_run)


def _is_postgres(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


def _sqlite_path(url: str) -> Path:
    scheme, separator, path = url.partition(":///")
    if scheme != "sqlite" or not separator or not path or path == ":memory:":
        # The URL of another database, such as postgresql+psycopg://, may hold a password.
        got = f", got {url!r}" if url.startswith("sqlite:") else ""
        raise ParameterError(f"store must be sqlite:///FILE or postgresql://USER@HOST/DATABASE{got}")
    return Path(path)
