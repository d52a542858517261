"""Stores of counts: the interface, its implementations, and a writer that shares commits among requests."""

from __future__ import annotations

from importlib import import_module

from arcwise.checks import checked_bool, explained
from arcwise.errors import ParameterError
from arcwise.server.store.base import Outcome, Store
from arcwise.server.store.migrations import Migration
from arcwise.server.store.records import (
    DeletedData,
    SourceChange,
    SourceReport,
    SourceTask,
    StoredAction,
    StoredKey,
    StoredSession,
    StoredSource,
    StoredTask,
)
from arcwise.server.store.writer import Busy, Writer

__all__ = [
    "STORES",
    "Busy",
    "DeletedData",
    "Migration",
    "Outcome",
    "SourceChange",
    "SourceReport",
    "SourceTask",
    "Store",
    "StoredAction",
    "StoredKey",
    "StoredSession",
    "StoredSource",
    "StoredTask",
    "Writer",
    "check_store_url",
    "migrate_store",
    "open_store",
]

STORES = {
    "sqlite": "arcwise.server.store.sqlite.store:SQLiteStore",
    "postgresql": "arcwise.server.store.postgres.store:PostgresStore",
    "postgres": "arcwise.server.store.postgres.store:PostgresStore",
}
"""The class for each scheme, imported when a URL names the scheme (docs/contributing/adding-a-store.md)."""


@explained
def open_store(url: str, *, create: bool = True, read_only: bool = False) -> Store:
    """Open the store that a URL names.

    ``sqlite:///relative.db``, ``sqlite:////absolute.db``, or ``postgresql://user@host/database`` with any
    settings of libpq after it, such as ``?sslmode=verify-full``. Keep a password in a ``.pgpass`` file
    rather than in the URL.

    Parameters
    ----------
    url
        URL of the store.
    create
        Make the store when it does not exist; if False, a missing store is an error.
    read_only
        Write nothing: methods that would change the store raise `StoreError`. Opening a store that does not
        exist raises it, too. Servers may go on writing.

    Raises
    ------
    MissingExtraError
        When the store is PostgreSQL and psycopg is not installed.
    ParameterError
        When the URL names no store that this version has, or `create` or `read_only` is not a bool.
    StoreError
        When the store cannot be opened, or has an older schema: the message names the command to run.
    """
    if checked_bool("read_only", read_only):
        return _class_of(url).open_read_only(url)
    return _class_of(url)(url, create=checked_bool("create", create))


@explained
def migrate_store(url: str, *, to: int | None = None, dry_run: bool = False) -> list[Migration]:
    """Bring a store to schema `to`, in one transaction and under a lock; return the applied migrations.

    Parameters
    ----------
    url
        URL of the store, which must exist.
    to
        Version of the schema; None means the newest. The only way back is a backup.
    dry_run
        Apply the migrations and undo them: a migration that would fail raises its error.

    Raises
    ------
    ParameterError
        When the URL names no store that this version has, or the store cannot be brought to schema `to`.
    StoreError
        When the store cannot be opened or migrated; it stays as it was.
    """
    return _class_of(url).migrate(url, to, dry_run=checked_bool("dry_run", dry_run))


def check_store_url(url: object) -> str:
    """Return the URL of a store if this version has its scheme; nothing is opened.

    Parameters
    ----------
    url
        The value to check, such as ``sqlite:///arcwise.db``.

    Raises
    ------
    ParameterError
        When it is something else. The message never repeats the value: the URL of another kind of database,
        such as postgresql+psycopg://, may hold a password.
    """
    scheme, separator, rest = url.partition("://") if isinstance(url, str) else ("", "", "")
    whole = rest.startswith("/") and len(rest) > 1 if scheme == "sqlite" else bool(rest)
    if scheme not in STORES or not whole:
        hint = "" if separator or not isinstance(url, str) else ": a file arcwise.db is sqlite:///arcwise.db"
        raise ParameterError(f"store must be sqlite:///FILE or postgresql://USER@HOST/DATABASE{hint}")
    return str(url)


def _class_of(url: str) -> type[Store]:
    module, _, name = STORES[check_store_url(url).partition(":")[0]].partition(":")
    found: type[Store] = getattr(import_module(module), name)
    return found
