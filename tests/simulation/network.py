"""The network between the fleet and the real server, whose app and SQLite store run in this process.

The network loses, repeats and delays requests, and devices die meanwhile.
"""

from __future__ import annotations

import asyncio
import shutil
import struct
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

import httpx

from arcwise.server import Settings, create_app
from arcwise.server.store import open_store
from arcwise.wire import MEDIA_TYPE, decode_batch
from tests.simulation.world import Killed, World

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from arcwise.server.collect.clock import Clock
    from arcwise.tasks import Task
    from arcwise.wire import Batch
    from tests.simulation.process import Process

__all__ = ["FATES", "Fate", "Network", "Report", "Server", "reports_of"]

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
        """Write the queue and stop."""
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
        # Every report of the fleet has a unique code.
        assert all(count == 1 for counts in self._counts.values() for count in counts.values()), (
            "counted twice"
        )

    def counted(self) -> set[Report]:
        """Return the reports that are in the counts."""
        return {(task, code) for task, counts in self._counts.items() for code in counts}


def reports_of(batch: Batch) -> set[Report]:
    """Return the reports in a batch of two-byte codes."""
    return {(batch.task_id.hex(), code) for (code,) in struct.iter_unpack("<H", batch.codes)}


MIDDLEBOXES: tuple[tuple[int, str | None], ...] = (
    (200, None),  # a captive portal
    (302, None),
    (400, None),
    (403, None),
    (404, None),
    (408, None),
    (429, "3600"),
    (500, None),
    (503, "999999"),
)
Fate: TypeAlias = "str | tuple[int, str | None]"
FATES: tuple[Fate, ...] = (
    "fine",
    "request lost",
    "answer lost",
    "twice",
    "late",
    "slow",
    "killed before",
    "killed after",
    "power lost before",
    "power lost after",
    *MIDDLEBOXES,
)
"""Possible outcomes of a request. A status is the answer of a server that is not arcwise."""

SLOW = 25.0
"""Seconds: longer than the lease of a batch."""


class Network:
    """Sees everything that leaves the devices.

    Attributes
    ----------
    released
        The reports that left a device, whether they arrived or not, with the id of the batch they left in.
    acknowledged
        The reports for which a client got the server's own 204.
    late
        Requests that were delayed.
    """

    def __init__(self, world: World, server: Server) -> None:
        self._world = world
        self._server = server
        self.released: dict[Report, bytes] = {}
        self.acknowledged: set[Report] = set()
        self.late: deque[tuple[str, bytes, dict[str, str]]] = deque()
        self._bodies: dict[bytes, bytes] = {}

    def post(
        self, process: Process, url: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, str | None]:
        device = process.device
        self._inspect(process, body, headers)
        request = url, body, dict(headers)
        fate = device.weather.popleft() if device.weather else "fine"
        if isinstance(fate, tuple):
            return fate
        if fate == "request lost":
            raise ConnectionError(fate)
        if fate == "late":
            self.late.append(request)
            raise TimeoutError(fate)
        if fate == "slow":
            self._world.now += SLOW
            device.others_step(process)
        if fate in ("killed before", "power lost before"):
            device.lose(process, power=fate.startswith("power"))
            raise Killed
        if not process.alive or device.remains is not None:  # by what the others met
            raise Killed
        if fate == "twice":
            self._server.post(*request)
        status, retry_after = self._server.post(*request)
        if fate == "answer lost":
            raise TimeoutError(fate)
        if fate in ("killed after", "power lost after"):
            device.lose(process, power=fate.startswith("power"))
            raise Killed
        if status == 204:
            reports = reports_of(decode_batch(body))
            assert reports <= self._server.counted(), "acknowledged and not counted"
            self.acknowledged |= reports
        return status, retry_after

    def counted(self) -> set[Report]:
        """Return the reports that the server has counted."""
        return self._server.counted()

    def arrive(self) -> None:
        """Deliver the delayed requests; nobody waits for the answers any more."""
        while self.late and self._server.up:
            self._server.post(*self.late.popleft())

    def _inspect(self, process: Process, body: bytes, headers: Mapping[str, str]) -> None:
        batch = decode_batch(body)
        assert self._bodies.setdefault(batch.batch_id, body) == body, "one batch, two contents"
        assert set(headers) == {"Content-Type", "User-Agent"}
        assert headers["Content-Type"] == MEDIA_TYPE
        reports = reports_of(batch)
        assert len(reports) * 2 == len(batch.codes)
        for report in reports:
            assert self.released.setdefault(report, batch.batch_id) == batch.batch_id, "in two batches"
        process.device.books.release(reports)
