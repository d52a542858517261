"""Time, randomness and processes of a simulated fleet: the machine as the client's modules see it.

Also the reports of the fleet: every value is a distinct number, which the draws turn into its own code.
"""

from __future__ import annotations

import logging
import random
import time
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from arcwise.client import Environment
from arcwise.domains import Interval
from arcwise.kernels import WindowKernel
from arcwise.mechanisms import OptimalPiecewise
from arcwise.tasks import DAY, Caps, Group, Task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.process import Process

__all__ = ["CAPS", "GROUP", "NUMBERS", "SOLO", "TASKS", "Draws", "Killed", "Replay", "World", "value_of"]

START = 1_750_000_000.0


class Killed(BaseException):
    """The running process is dead: nothing of it goes on. No `except Exception` may catch it."""


class World(Environment):
    """One time for all. A device's wall clock is off by its setting; its monotonic clock never steps.

    It is the environment of all clients: they ask it for the time, for random bytes and for the running
    process, so that a run can be repeated.
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


NUMBERS = 6_000
"""The number of distinguishable reports of a task, over all devices."""


def _task(name: str, epsilon: float, caps: Caps | None = None) -> Task:
    domain = Interval(0, NUMBERS)
    mechanism = OptimalPiecewise(domain, epsilon, nodes=NUMBERS + 1)
    return Task(name, domain, epsilon, mechanism=mechanism, caps=caps)


SOLO = _task("solo", 1.0, Caps(lifetime=100.0, rolling=6.0, window=3600))
GROUP = Group(
    "group",
    [
        _task("rolling", 0.5, Caps(rolling=2.0, window=1800)),
        _task("free", 0.5),
        _task("limited", 0.5, Caps(lifetime=12.0)),
    ],
    sample=2,
    caps=Caps(lifetime=60.0),
)
CAPS = Caps(lifetime=120.0, rolling=30.0, window=DAY)
"""On everything that a device reports."""
TASKS = {task.id: task for task in (SOLO, *GROUP.tasks)}


def value_of(number: int) -> float:
    """Return a value just above a node, so that no rounding error moves it to the node below."""
    return number + 1e-6


class Draws:
    """Draws that let every value through: the code is the number of the value's node.

    The first half never rounds up a value just above a node; the second half lies where the kernel of this
    epsilon gives the first code of the window. Their low bits are free, and choose the tasks of a round.
    """

    secure = False

    def __init__(self, task: Task, chance: random.Random) -> None:
        kernel = task.mechanism.kernel
        assert isinstance(kernel, WindowKernel)
        self._from = kernel.codes * kernel.background
        self._width = kernel.extra
        self._chance = chance
        self.log: list[tuple[int, int]] = []

    def draw(self) -> tuple[int, int]:
        self.log.append(
            (self._chance.randrange(1 << 63, 1 << 64), self._from + self._chance.randrange(self._width))
        )
        return self.log[-1]

    def draws(self, count: int) -> bytes:
        raise NotImplementedError("a client draws one report at a time")


class Replay:
    """The draws of a log, repeated."""

    secure = False

    def __init__(self, log: list[tuple[int, int]]) -> None:
        self._log = iter(log)

    def draw(self) -> tuple[int, int]:
        return next(self._log)

    def draws(self, count: int) -> bytes:
        raise NotImplementedError
