"""Connections to the PostgreSQL database of ledgers: transactions, and recovery from lost connections."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from arcwise.client.interruptions import holding, renew_in_children
from arcwise.client.postgres.schema import BY_READY, LOCK_QUEUE, SCHEMA, VERSION
from arcwise.client.process import current_process
from arcwise.errors import LedgerError
from arcwise.urls import libpq_settings

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

Connection = psycopg.Connection[tuple[Any, ...]]

_POLL_SECONDS = 0.002
"""Seconds between two attempts to get a connection while all are in use."""

_IDLE_SECONDS, _SEALING_SECONDS = 5, 30
"""Seconds after which the database ends an idle open transaction, for example of a frozen process. Its locks
would block sending and opting out for all accounts. The second limit is for sealing, because sealing a large
batch takes some seconds.
"""

_CHECK_SECONDS = 60.0
"""Seconds after which idle connections are replaced. A connection to an old primary can still read, so a
process that only sends would not notice a failover."""

# With these defaults, a call on a lost network fails within half a minute. The URL may override them.
_NETWORK = {
    "application_name": "arcwise-client",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}


class Session:
    """One open transaction. It accepts SQLite's placeholders, so that both kinds of ledgers share queries."""

    __slots__ = ("_connection", "_process")

    def __init__(self, connection: Connection) -> None:
        self._connection, self._process = connection, current_process()

    def execute(
        self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run one statement; its placeholders are ``?`` or ``:name``."""
        if self._process is not current_process():  # a signal handler has forked: the answer is the parent's
            raise LedgerError("the ledgers are in use by the process that this one was forked from")
        return self._connection.execute(_translated(query), parameters)

    def executemany(self, query: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each row."""
        with self._connection.cursor() as cursor:
            cursor.executemany(_translated(query), rows)


@lru_cache(maxsize=256)
def _translated(query: str) -> bytes:
    return re.sub(r":([a-z]+)", r"%(\1)s", query).replace("?", "%s").encode()


class Database:
    """The database and its few connections, which threads share. See `PostgresLedgers` for the parameters.

    The next transaction replaces a broken connection. A forked child opens its own connections.
    """

    def __init__(
        self, url: str, *, create: bool, schema: str, relaxed: bool, busy_timeout: float, connections: int
    ) -> None:
        stated = libpq_settings(url, "url", conninfo_to_dict)
        self._conninfo = make_conninfo("", **{**_NETWORK, **stated})
        self.schema = schema
        self.relaxed = relaxed
        self.busy_timeout = busy_timeout
        self._most = connections
        self._closed = False
        self._inherited: list[Connection] = []
        self._idle: list[Connection] = []
        self.renew()
        milliseconds = max(1, round(1000 * busy_timeout))
        lock = f"SET LOCAL lock_timeout = {milliseconds};"
        self._limits = f"{lock} {_idle(_IDLE_SECONDS)}"
        # pg_temp comes last: an app may share a pool's connections, and its temporary tables must not hide
        # these.
        path = f'SET LOCAL search_path TO "{schema}", pg_temp;'
        local = f"{path} {self._limits}"
        # A report waits for its account's row, and must see changes that were committed meanwhile.
        self._reporting = f"BEGIN ISOLATION LEVEL READ COMMITTED; {local}"
        # LOCK TABLE takes no snapshot: the transaction's snapshot is taken after the wait for the lock, and
        # stays fixed.
        sealing = f"{path} {lock} {_idle(_SEALING_SECONDS)}"
        self._queueing = f"BEGIN ISOLATION LEVEL REPEATABLE READ; {sealing} {LOCK_QUEUE};"
        self._reading = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {local}"
        if create:
            self._create()
        with self.reading():
            pass
        _living.add(self)

    @property
    def place(self) -> Hashable:
        """A key that is equal for all users of the same tables with the same settings; None once closed."""
        return None if self._closed else (self._conninfo, self.schema)

    def renew(self) -> None:
        """Reset the state in a forked child, which must not use the parent's connections."""
        self._inherited += self._idle  # kept: dropping one would end the parent's session
        self._idle = []
        self._lock = threading.RLock()
        self._users: set[int] = set()
        self._mine = threading.local()
        self._process = current_process()
        self._checked = time.monotonic()

    def _create(self) -> None:
        with self._errors(), contextlib.closing(psycopg.connect(self._conninfo, autocommit=True)) as made:
            made.execute(f"BEGIN; {self._limits}".encode())
            made.execute("SELECT pg_advisory_xact_lock(7243, hashtext(%s))", (self.schema,))
            made.execute(f'CREATE SCHEMA IF NOT EXISTS "{self.schema}"'.encode())
            made.execute(f'SET LOCAL search_path TO "{self.schema}", pg_temp'.encode())
            (there,) = _one(made.execute("SELECT to_regclass('state') IS NOT NULL"))
            if not there:
                made.execute(SCHEMA.encode())
            (indexed,) = _one(made.execute("SELECT to_regclass('reports_by_ready') IS NOT NULL"))
            if not indexed:
                made.execute(BY_READY.encode())
            made.execute(b"COMMIT")

    @holding
    def writing(self, *, durable: bool, queue: bool = True) -> Iterator[Session]:
        """Open a write transaction; if `durable`, it and all earlier transactions are on the disk afterwards.

        With `queue`, no other process changes the queue meanwhile, and codes added to it are not visible.
        Raises `LedgerError` and changes nothing if the database cannot be used. If the connection breaks
        during the commit, either all of the transaction has happened or nothing.
        """
        if durable or not self.relaxed:
            commit = "set_config('synchronous_commit', 'on', true) "
            commit += "WHERE current_setting('synchronous_commit') = 'off'"
        else:
            commit = "set_config('synchronous_commit', 'off', true)"
        begin = self._queueing if queue else self._reporting
        with self._transaction(f"{begin} SELECT {commit};") as session:
            yield session

    @holding
    def reading(self) -> Iterator[Session]:
        """Open a read transaction, in which all queries see the same state of the database."""
        with self._transaction(self._reading) as session:
            yield session

    def write_back(self) -> None:
        """Do nothing: a database keeps its own log safe."""

    @holding
    def _transaction(self, begin: str) -> Iterator[Session]:
        if self._process is not current_process():
            self.renew()
        if getattr(self._mine, "in_use", False):  # this call would wait for a row that the other has locked
            raise LedgerError("the ledgers are in use by the call that this call interrupts")
        users, me, process = self._users, threading.get_ident(), current_process()
        threading.current_thread()  # after this call, gevent lists a greenlet as a thread
        self._take_turn(users, me)
        self._mine.in_use = True
        connection = None
        try:
            with self._errors():
                connection = self._begun(begin)
                session = Session(connection)
                try:
                    yield session
                    session.execute("COMMIT")
                except psycopg.errors.ReadOnlySqlTransaction:  # the server is no longer the primary
                    connection.close()
                    self._close_idle()
                    raise
        finally:
            self._mine.in_use = False  # set first, because a signal handler may raise at the next call
            try:
                if process is not current_process():
                    self._inherited += [connection] if connection else []
                elif connection is not None:
                    try:
                        _undo(connection)
                    except BaseException:  # from a handler; a kept exception would keep the connection open
                        connection.close()
                        raise
                    self._give_back(connection)
            finally:
                users.discard(me)

    def _take_turn(self, users: set[int], me: int) -> None:
        """Wait until this thread may use a connection.

        A signal handler may report or raise between any two steps. So locks are taken only by ``with``, and a
        turn that was not ended because of a handler stays with the thread, which reuses it.
        """
        deadline = time.monotonic() + self.busy_timeout
        while True:
            with self._lock:
                if me in users or len(users) < self._most:
                    users.add(me)
                    return
                running = {thread.ident for thread in threading.enumerate()}
                users.intersection_update(running.union(sys._current_frames()))
            if time.monotonic() >= deadline:
                raise LedgerError(
                    "the ledgers cannot be used now: all connections of this process are in use"
                )
            time.sleep(_POLL_SECONDS)

    def _begun(self, begin: str) -> Connection:
        """Return a connection with an open transaction; close connections that broke while idle."""
        if time.monotonic() - self._checked > _CHECK_SECONDS:
            self._close_idle()
        while True:
            if self._closed:
                raise LedgerError("the ledgers are closed")
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            try:
                connection.execute(begin.encode())
            except psycopg.OperationalError:
                if not connection.broken:  # for example after a timeout
                    _undo(connection)
                    self._give_back(connection)
                    raise
                connection.close()
            except BaseException:
                connection.close()
                raise
            else:
                return connection
        # No prepared statements: behind a transaction pool such as PgBouncer, a statement of another client
        # could have the same name.
        connection = psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        try:
            connection.execute(f"BEGIN; {self._limits}".encode())
            self._check(connection)
            connection.execute(f"COMMIT; {begin}".encode())
            self._checked = time.monotonic()
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: Connection) -> None:
        # Query the settings: PgBouncer reports the settings of an earlier connection on connecting.
        read_only, there = _one(
            connection.execute(
                "SELECT current_setting('transaction_read_only'), to_regclass(%s) IS NOT NULL",
                (f'"{self.schema}".state',),
            )
        )
        if read_only == "on":  # a standby: this connection would still be used after a failover
            raise LedgerError("the ledgers cannot be used now: the database is read-only, as a standby is")
        if not there:
            raise LedgerError(
                f"there are no ledgers in the schema {self.schema!r} of the database: make the tables with "
                "create=True"
            )
        (version,) = _one(connection.execute(f'SELECT version FROM "{self.schema}".state'.encode()))  # noqa: S608
        if version != VERSION:
            raise LedgerError(
                f"the ledgers of the schema {self.schema!r} have version {version}; this arcwise supports "
                f"version {VERSION}"
            )

    def _give_back(self, connection: Connection) -> None:
        if (
            self._closed
            or connection.closed
            or connection.info.transaction_status is not TransactionStatus.IDLE
        ):
            connection.close()
        else:
            self._idle.append(connection)

    @holding
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            # Show only the server's primary message, because its details may show a row.
            told = error.diag.message_primary or " ".join(str(error).split()) or type(error).__name__
            raise LedgerError(f"the ledgers cannot be used now: {told}") from error

    def close(self) -> None:
        """Close all connections permanently; connections in use close when their transaction ends."""
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with contextlib.suppress(IndexError):  # another thread may take the last one
            while True:
                self._idle.pop().close()


def _idle(seconds: float) -> str:
    return f"SET LOCAL idle_in_transaction_session_timeout = '{seconds}s';"


def _undo(connection: Connection) -> None:
    """Roll back a transaction that failed or only read."""
    with contextlib.suppress(psycopg.Error):
        if connection.info.transaction_status is not TransactionStatus.IDLE:
            connection.execute(b"ROLLBACK")


def _one(cursor: psycopg.Cursor[tuple[Any, ...]]) -> tuple[Any, ...]:
    row = cursor.fetchone()
    if row is None:
        raise LedgerError("the ledgers are damaged: their state is missing")
    return row


_living: WeakSet[Database] = WeakSet()

renew_in_children(_living, Database.renew)
