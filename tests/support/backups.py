"""Backups of stores, as docs/howto/run-a-server.md makes them."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import psycopg

from tests.support.postgres import own_url, programs

__all__ = ["Backup"]


class Backup:
    """A backup of a store, which may be in use meanwhile; a store in PostgreSQL belongs to `own_url`."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._copy = folder / "copy"

    def make(self) -> None:
        if self._url.startswith("sqlite"):
            with closing(sqlite3.connect(self._file)) as live:
                live.execute("VACUUM INTO ?", [str(self._copy)])
        else:
            self._run("pg_dump", "--format=custom", f"--schema={self._schema}", f"--file={self._copy}")

    def restore(self) -> None:
        """Put it in the place of the store, which nobody uses."""
        if self._url.startswith("sqlite"):
            for end in ("", "-wal", "-shm"):
                Path(f"{self._file}{end}").unlink(missing_ok=True)
            self._copy.rename(self._file)
        else:
            with closing(psycopg.connect(self._url, autocommit=True)) as connection:
                connection.execute("SET client_min_messages = warning")
                connection.execute(f"DROP SCHEMA {self._schema} CASCADE".encode())
            self._run("pg_restore", "--exit-on-error", str(self._copy))

    @property
    def _file(self) -> Path:
        return Path(self._url.removeprefix("sqlite:///"))

    @property
    def _schema(self) -> str:
        return self._url.rpartition("%3D")[2]

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(Path(programs()) / program), "--dbname", own_url(), *arguments]
        subprocess.run(command, check=True, timeout=60)
