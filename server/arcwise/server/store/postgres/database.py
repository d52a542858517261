"""The PostgreSQL database: connections that are restored after an outage, its errors, and its schema."""

from __future__ import annotations

import re
import threading
from contextlib import closing, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from arcwise.errors import StoreError
from arcwise.server.store.connection import SqlConnection
from arcwise.server.store.migrations import Migration, pending, read_migrations, refuse_version
from arcwise.urls import libpq_settings, without_password

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

_MIGRATIONS = read_migrations(__package__)

# Waits on a broken network end within half a minute. The URL of a store may set other values.
_DEFAULTS = {
    "application_name": "arcwise",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
_STATEMENT_SECONDS = 30
LOCK_SECONDS: Final = 10
"""Seconds that a statement waits for a lock."""
# synchronous_commit is turned on if it is off, because a crash would lose the last commits; stronger settings
# stay. At other isolation levels a statement would not see data committed while it waited for a lock.
_SETUP = f"""
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
    SET default_transaction_isolation = 'read committed';
    SET lock_timeout = '{LOCK_SECONDS}s';
    SET idle_in_transaction_session_timeout = '60s';
"""
_PARAMETER = re.compile(r":(\w+)")
_READ_ONLY = "SET default_transaction_read_only = on;"
_MIGRATION_LOCK = "SELECT pg_advisory_xact_lock(7242, hashtext(current_schema()))"


class Connection(SqlConnection, psycopg.Connection[tuple["Any", ...]]):
    """A connection to a database."""

    def _run(self, statement: str, values: Mapping[str, object]) -> psycopg.Cursor[tuple[Any, ...]]:
        return self.execute(_translated(statement), values)

    def change_each(self, statement: str, values: Iterable[Mapping[str, object]]) -> None:
        """Run a statement once for each of the values."""
        self.cursor().executemany(_translated(statement), values)

    def insert(self, statement: str, /, **values: object) -> int:
        """Insert a row into a table with numbered rows; return the number."""
        return int(self.row(f"{statement} RETURNING number", **values)[0])


@cache
def _translated(statement: str) -> bytes:
    return _PARAMETER.sub(r"%(\1)s", statement).encode()


class Link:
    """A connection for one thread at a time; replaced when it is lost or no longer leads to a primary."""

    def __init__(self, database: Database, connect: Callable[[], Connection]) -> None:
        self._database = database
        self._connect = connect
        self._switches = 0
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._closed = False

    @contextmanager
    def use(self) -> Iterator[Connection]:
        """Lend the connection; it is dropped if the block leaves it broken."""
        with self._lock:
            if self._closed:  # a late thread, such as a thread that reads keys, must not connect again
                raise psycopg.InterfaceError("the store is closed")
            if self._connection is not None and self._switches != self._database.switches:
                self._connection.close()
                self._connection = None
            if self._connection is None:
                self._switches = self._database.switches
                self._connection = self._connect()
            try:
                yield self._connection
            except psycopg.errors.ReadOnlySqlTransaction:
                self._database.switches += 1
                raise
            finally:
                if self._connection.closed:  # broken connections count as closed
                    self._connection = None

    def close(self) -> None:
        """Close the connection finally. May be repeated."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None


class Database:
    """Gives access to the database of a store, with any schema.

    `name` is its URL without the password, for messages. With `read_only`, PostgreSQL refuses every change.
    With `primary`, connections to a standby are refused, because they would be kept after a failover.
    `switches` counts how often a connection no longer led to the primary.
    """

    def __init__(self, url: str, *, read_only: bool = False, primary: bool = False) -> None:
        self._setup = _SETUP + (_READ_ONLY if read_only else "")
        stated = libpq_settings(url, "store", conninfo_to_dict, changes=not read_only)
        self.name = without_password(url)
        self._conninfo = make_conninfo("", **{**_DEFAULTS, **stated})
        self._primary = primary
        self.switches = 0
        self._closed = False

    def close(self) -> None:
        """Lend no more connections."""
        self._closed = True

    @contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Turn PostgreSQL's errors into `StoreError`."""
        try:
            yield
        except psycopg.Error as error:
            # PostgreSQL's own sentence, without the statement that it appends.
            told = error.diag.message_primary or " ".join(str(error).split()) or type(error).__name__
            raise StoreError(f"cannot {doing} {self.name}: {told}") from error

    def connect(self, *, patient: bool = False) -> Connection:
        """Return a new connection in autocommit mode; if `patient`, statements have no time limit."""
        seconds = 0 if patient else _STATEMENT_SECONDS
        connection = Connection.connect(self._conninfo, autocommit=True)
        try:
            connection.execute(f"{self._setup} SET statement_timeout = '{seconds}s'")
            # A query is needed: PgBouncer may repeat an old value of the parameter that a server sends on
            # connecting.
            if self._primary and connection.execute("SHOW transaction_read_only").fetchone() == ("on",):
                raise psycopg.OperationalError("the database is read-only, as a standby is")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def session(self, doing: str) -> Iterator[Connection]:
        """Lend a separate connection without a time limit on statements, for long work."""
        with self.errors(doing):
            if self._closed:
                raise psycopg.InterfaceError("the store is closed")
            with closing(self.connect(patient=True)) as connection:
                yield connection

    def prepare(self, *, create: bool) -> None:
        """Make missing tables if `create` is true; existing tables must have the newest schema."""
        with self.session("open") as connection:
            # The order matters, because another process makes the tables and their version in one step.
            (taken,) = connection.row("SELECT to_regclass('task') IS NOT NULL")
            version = _version(connection)
        if version == 0 and taken:
            raise StoreError(
                f'{self.name} has a table "task" that arcwise did not make; give arcwise its own database'
            )
        if version == 0 and not create:
            raise StoreError(f"there is no store at {self.name}")
        if version == 0:
            self.migrate()
        else:
            refuse_version(self.name, version, _MIGRATIONS[-1].version)

    def migrate(self, to: int | None = None, *, dry_run: bool = False) -> list[Migration]:
        """Apply migrations to schema `to` in one transaction; see `arcwise.server.store.migrate_store`."""
        with self.session("migrate") as connection, connection.transaction(force_rollback=dry_run):
            connection.execute(_MIGRATION_LOCK)
            version = _version(connection)
            steps = pending(_MIGRATIONS, version, to)
            for step in steps:
                connection.execute(step.script.encode())
            if steps:
                connection.execute("CREATE TABLE IF NOT EXISTS arcwise_schema (version integer NOT NULL)")
                connection.execute("DELETE FROM arcwise_schema")
                connection.execute("INSERT INTO arcwise_schema VALUES (%s)", (steps[-1].version,))
        return steps

    def exists(self) -> bool:
        """Return whether the database holds a store."""
        with self.session("open") as connection:
            return _version(connection) > 0


def _version(connection: Connection) -> int:
    (there,) = connection.row("SELECT to_regclass('arcwise_schema') IS NOT NULL")
    return int(connection.row("SELECT version FROM arcwise_schema")[0]) if there else 0
