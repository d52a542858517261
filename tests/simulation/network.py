"""The network between the fleet and the server: it loses, repeats and keeps back, and devices die over it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from arcwise.wire import MEDIA_TYPE, decode_batch
from tests.simulation.server import Report, Server, reports_of
from tests.simulation.world import Killed, World

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.simulation.process import Process

__all__ = ["FATES", "Fate", "Network"]

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
"""What can happen to a request. A status is the answer of something that is no arcwise server."""

SLOW = 25.0
"""Seconds: longer than a batch is leased for."""


class Network:
    """Sees all that leaves the devices.

    Attributes
    ----------
    released
        The reports that left a device, whether they arrived or not, with the id of the batch they left in.
    acknowledged
        The reports for which a client got the server's own 204.
    late
        Requests that were kept back.
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
        """Return what the server has counted."""
        return self._server.counted()

    def arrive(self) -> None:
        """Let what was kept back arrive; nobody waits for the answers any more."""
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
