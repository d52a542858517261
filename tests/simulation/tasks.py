"""What the fleet reports: every value is a number of its own, and the draws let it through as its code."""

import random

from arcwise.domains import Interval
from arcwise.kernels import WindowKernel
from arcwise.mechanisms import OptimalPiecewise
from arcwise.tasks import DAY, Caps, Group, Task

__all__ = ["CAPS", "GROUP", "SOLO", "TASKS", "Draws", "value_of"]

NUMBERS = 6_000
"""How many reports of a task can be told apart, over all devices."""


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
    """Return a value just above a node, so that no error of rounding takes it to the node below."""
    return number + 1e-6


class Draws:
    """Draws that let every value through: the code is the number of the value's node.

    The first half never rounds up what is just above a node; the second one lies where the kernel of this
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
    """The draws of a log, once more."""

    secure = False

    def __init__(self, log: list[tuple[int, int]]) -> None:
        self._log = iter(log)

    def draw(self) -> tuple[int, int]:
        return next(self._log)

    def draws(self, count: int) -> bytes:
        raise NotImplementedError
