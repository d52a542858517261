"""Waiting for effects of other threads, and starting threads."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PATIENCE", "Started", "in_threads", "until", "wait_until"]

PATIENCE = 60.0
"""Seconds after which something hangs."""

T = TypeVar("T")


async def until(condition: Callable[[], object]) -> None:
    """Let the loop go on until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        await asyncio.sleep(0.002)


def wait_until(condition: Callable[[], object]) -> None:
    """Let other threads go on until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.002)


class Started(Generic[T]):
    """A call in a separate thread, which no test waits for at its end."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._told: list[T] = []
        self._thread = threading.Thread(target=lambda: self._told.append(call()), daemon=True)
        self._thread.start()

    def result(self, patience: float = PATIENCE) -> T:
        """Return the call's result, or fail after a time."""
        self._thread.join(patience)
        assert not self._thread.is_alive(), "it hangs"
        (told,) = self._told
        return told


def in_threads(*calls: Callable[[], T], patience: float = PATIENCE) -> list[T]:
    """Return the results of several calls that run at the same time."""
    started = [Started(call) for call in calls]
    return [each.result(patience) for each in started]
