"""A SQLite file that is only read, while servers may write it: nothing is written, nor left beside it."""

from __future__ import annotations

import os
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from arcwise.errors import StoreError
from arcwise.server.store.sqlite.database import Database, refuse_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.server.store.sqlite.database import Connection


class ReadOnlyDatabase(Database):
    """A store's file, opened for each reading and closed after it.

    A connection that stays open would keep the last server from folding its log into the file. Without a log
    beside it nobody writes the file, and SQLite is told that it is immutable: otherwise it would make a log.
    """

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self.path = Path(os.path.realpath(path))
        if not self.path.exists():
            raise StoreError(f"there is no store at {path}: check the path; `arcwise serve` makes one")
        refuse_names(self.path)
        self._log = self.path.with_name(f"{self.path.name}-wal")
        self._reading = threading.Lock()
        if self.version == 0:
            raise StoreError(f"{self.path} is not a store of arcwise")

    def connect(self) -> Connection:
        """Return a new connection that cannot write; the caller closes it."""
        quiet = "" if self._log.exists() else "&immutable=1"
        return self._connect(f"{self.path.as_uri()}?mode=ro{quiet}", uri=True)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Lend a connection that reads what is committed, to one thread at a time.

        Raises `StoreError` also when a server begins to write the file meanwhile, because the data may then
        be of two moments.
        """
        with self.errors("read"), self._reading:
            before = self._moment()
            with closing(self.connect()) as connection:
                yield connection
            if before is not None and before != self._moment():
                raise StoreError(f"a server began to write {self.path} while it was read; try again")

    def _moment(self) -> tuple[int, int] | None:
        """Return what changes when the file is written; None where somebody keeps a log."""
        if self._log.exists():
            return None
        try:
            found = self.path.stat()
        except OSError as error:
            raise StoreError(f"cannot read {self.path}: {error.strerror}") from error
        return found.st_size, found.st_mtime_ns

    @property
    def version(self) -> int:
        """The version of the schema."""
        with self.read() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
        return int(version)

    def transaction(self) -> NoReturn:
        """Refuse: nothing is written."""
        raise StoreError(f"{self.path} is open for reading only")

    alone = transaction

    def close(self) -> None:
        """Nothing is open between two readings."""
