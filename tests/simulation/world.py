"""The time, the chance and the processes of a simulated fleet: what the client's modules see of a machine."""

from __future__ import annotations

import logging
import random
import time
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from arcwise.client import Environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.process import Process

__all__ = ["Killed", "World"]

START = 1_750_000_000.0


class Killed(BaseException):
    """The process that runs is dead: nothing of it goes on. No `except Exception` may catch it."""


class World(Environment):
    """One time for all. A device's wall clock is off by what it was set to; its monotonic clock never steps.

    It is the environment of all clients: they ask it for the time, for random bytes and for who is running,
    so that a run can be repeated.
    """

    def __init__(self, seed: int) -> None:
        self.now = START
        self.chance = random.Random(seed)
        self._running: list[Process] = []
        self._patches = pytest.MonkeyPatch()

    def install(self) -> None:
        for logger in ("arcwise.client", "httpx"):  # thousands of lines of trouble
            self._patches.setattr(logging.getLogger(logger), "disabled", True)

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

    def time(self) -> float:
        return self.now + self.running.device.clock_error

    def monotonic(self) -> float:
        return self.now - self.running.device.booted

    def server_clock(self) -> SimpleNamespace:
        """Return the clock of a server: it is right, and its monotonic time is the machine's."""
        return SimpleNamespace(time=lambda: self.now, monotonic=time.monotonic)

    def random_bytes(self, count: int) -> bytes:
        return self.chance.randbytes(count)

    def process_id(self) -> int:
        return self.running.pid

    def may_be_alive(self, process_id: int) -> bool:
        return process_id in {process.pid for process in self.running.device.processes}
