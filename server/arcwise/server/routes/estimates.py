"""Estimates for readers: one at a time, off the event loop, and none twice for the same counts."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from arcwise.errors import StoreError
from arcwise.kernels.certificate import UNIT
from arcwise.server.estimators import estimate
from arcwise.server.problems import Problem, store_busy

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.server.store import Store
    from arcwise.tasks import Task

__all__ = ["Estimates"]

_MAX_WAITING = 16


class Estimates:
    """Computes estimates on a thread of its own and keeps each task's last one.

    One thread: an estimate takes a good part of a second of a core, and readers must not take the cores from
    those who report. An estimate depends on nothing but the counts: it is made again when they change.
    """

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._executor: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._last: dict[str, tuple[bytes, dict[str, Any]]] = {}

    def start(self) -> None:
        """Get ready; before this, and after `close`, every estimate is a 503."""
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="arcwise-estimates")

    async def of(self, task: Task) -> dict[str, Any]:
        """Return the estimates of a task as its JSON object.

        Raises
        ------
        Problem
            503 when too many are waiting, or the store cannot be read.
        """
        if self._executor is None:
            raise store_busy("The server is not running.")
        if self._waiting >= _MAX_WAITING:
            raise Problem(
                503,
                "estimates-busy",
                "Too many estimates are being computed; ask again in a while.",
                headers={"Retry-After": "2"},
            )
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, self._compute, task)
        except StoreError:
            raise store_busy("The store cannot be read now.") from None
        finally:
            self._waiting -= 1

    def _compute(self, task: Task) -> dict[str, Any]:
        counts = self._store().counts(task)
        if not counts.any():
            delta = task.mechanism.certificate().delta / UNIT
            loss = {"epsilon": task.epsilon, "delta": delta} if delta else {"epsilon": task.epsilon}
            return {"task": task.name, "task_id": task.id, **loss, "n": 0}
        version = counts.tobytes()
        last = self._last.get(task.id)
        if last is None or last[0] != version:
            last = self._last[task.id] = version, estimate(task, counts).to_dict()
        return last[1]

    def close(self) -> None:
        """Start no further estimate and wait for the one that is running."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(cancel_futures=True)
