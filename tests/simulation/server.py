"""The real server, in this process: its app, its ingestion and its SQLite store."""

from __future__ import annotations

import asyncio
import shutil
import struct
from typing import TYPE_CHECKING, TypeAlias

import httpx

from arcwise.server import Settings, create_app
from arcwise.server.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from arcwise.server.clock import Clock
    from arcwise.tasks import Task
    from arcwise.wire import Batch

__all__ = ["Report", "Server", "reports_of"]

Report: TypeAlias = "tuple[str, int]"
"""A task's id and a code: no two reports of the fleet are equal."""


class Server:
    """A server that can be restarted with other tasks, and can crash."""

    def __init__(self, folder: Path, tasks: Iterable[Task], clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._known = tuple(tasks)
        self._crashes = 0
        self._loop = asyncio.new_event_loop()
        self._life: AbstractAsyncContextManager[object] | None = None
        self._counts: dict[str, dict[int, int]] = {}
        self.start(self._known)

    @property
    def _file(self) -> Path:
        return self._folder / f"server{self._crashes}.db"

    @property
    def up(self) -> bool:
        return self._life is not None

    def start(self, tasks: Iterable[Task]) -> None:
        app = create_app(Settings(list(tasks), store=f"sqlite:///{self._file}"), clock=self._clock)
        life = app.router.lifespan_context(app)
        self._loop.run_until_complete(life.__aenter__())
        self._life = life
        self._http = httpx.AsyncClient(transport=httpx.ASGITransport(app, raise_app_exceptions=False))
        self._reader = open_store(f"sqlite:///{self._file}")
        self._look()

    def stop(self) -> None:
        """Write what is queued and stop."""
        life, self._life = self._life, None
        if life is not None:
            self._reader.close()
            self._loop.run_until_complete(life.__aexit__(None, None, None))
            self._loop.run_until_complete(self._http.aclose())

    def crash(self) -> None:
        """Stop, and leave the files as a process that was killed at this moment leaves them."""
        before = self._file
        self._crashes += 1
        for suffix in ("", "-wal"):
            file = before.with_name(before.name + suffix)
            if file.exists():
                shutil.copyfile(file, self._file.with_name(self._file.name + suffix))
        self.stop()

    def close(self) -> None:
        self.stop()
        self._loop.close()

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str | None]:
        if not self.up:
            raise ConnectionRefusedError
        response = self._loop.run_until_complete(self._http.post(url, content=body, headers=dict(headers)))
        self._look()
        return response.status_code, response.headers.get("Retry-After")

    def _look(self) -> None:
        self._counts = {
            task.id: {int(code): int(counts[code]) for code in counts.nonzero()[0]}
            for task in self._known
            for counts in [self._reader.counts(task)]
        }
        # Every report of the fleet has a code that no other has.
        assert all(count == 1 for counts in self._counts.values() for count in counts.values()), (
            "counted twice"
        )

    def counted(self) -> set[Report]:
        """Return the reports that are in the counts."""
        return {(task, code) for task, counts in self._counts.items() for code in counts}


def reports_of(batch: Batch) -> set[Report]:
    """Return the reports in a batch of two-byte codes."""
    return {(batch.task_id.hex(), code) for (code,) in struct.iter_unpack("<H", batch.codes)}
