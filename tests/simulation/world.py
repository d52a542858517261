"""The time, the chance and the processes of a simulated fleet: what the client's modules see of a machine."""

from __future__ import annotations

import logging
import random
import time
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from arcwise.client import base_client, base_uplink, delivery, outbox, uplink
from arcwise.client.file import batching
from arcwise.client.file import outbox as file_outbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.process import Process

__all__ = ["Killed", "World"]

START = 1_750_000_000.0


class Killed(BaseException):
    """The process that runs is dead: nothing of it goes on. No `except Exception` may catch it."""


class World:
    """One time for all. A device's wall clock is off by what it was set to; its monotonic clock never steps.

    While the world is installed, the client's modules ask it for the time, for random bytes and for who is
    running, so that a run can be repeated.
    """

    def __init__(self, seed: int) -> None:
        self.now = START
        self.chance = random.Random(seed)
        self._running: list[Process] = []
        self._patches = pytest.MonkeyPatch()

    def install(self) -> None:
        clock = SimpleNamespace(time=self.wall, monotonic=self.monotonic)
        for module in (base_client, base_uplink, uplink, file_outbox):
            self._patches.setattr(module, "time", clock)
        for logger in ("arcwise.client", "httpx"):  # thousands of lines of trouble
            self._patches.setattr(logging.getLogger(logger), "disabled", True)
        for module in (outbox, delivery):
            self._patches.setattr(module, "os", SimpleNamespace(urandom=self.chance.randbytes))
        self._patches.setattr(batching, "_CSPRNG", self.chance)
        self._patches.setattr(
            batching, "os", SimpleNamespace(name="posix", getpid=lambda: self.running.pid, kill=self._ask)
        )

    def uninstall(self) -> None:
        self._patches.undo()

    @property
    def busy(self) -> bool:
        """Whether a process is in the middle of something."""
        return bool(self._running)

    @property
    def running(self) -> Process:
        return self._running[-1]

    @contextmanager
    def run(self, process: Process) -> Iterator[None]:
        self._running.append(process)
        try:
            yield
        finally:
            self._running.pop()

    def wall(self) -> float:
        return self.now + self.running.device.clock_error

    def monotonic(self) -> float:
        return self.now - self.running.device.booted

    def server_clock(self) -> SimpleNamespace:
        """Return the clock of a server: it is right, and its monotonic time is the machine's."""
        return SimpleNamespace(time=lambda: self.now, monotonic=time.monotonic)

    def _ask(self, pid: int, signal: int) -> None:
        assert signal == 0
        if pid not in {process.pid for process in self.running.device.processes}:
            raise ProcessLookupError(pid)
