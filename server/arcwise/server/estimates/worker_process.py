"""Estimates in a process of their own: readers take neither the interpreter nor the cores of ingestion."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from arcwise.errors import StoreError
from arcwise.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from arcwise.analysis.timeseries.epochs import Span
    from arcwise.typing import IntArray

__all__ = ["WorkerProcess"]

_NICE = 10


class WorkerProcess:
    """One process for estimates, started with the first of them, and again when it has died.

    It is spawned, not forked: a fork would take along the locks of threads that are gone.
    """

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def estimate(self, task: Task, counts: IntArray) -> dict[str, Any]:
        """Return what `estimate(task, counts).to_dict()` does.

        Raises
        ------
        StoreError
            When the process died over it; the next call starts another one.
        """
        return self._run(_estimate, task.to_bytes(), counts)

    def series(self, task: Task, by_epoch: Mapping[int, IntArray], every: int, span: Span) -> dict[str, Any]:
        """Return what `series(task, by_epoch, ...).to_dict()` does; raises as `estimate` does."""
        return self._run(_series, task.to_bytes(), dict(by_epoch), every, span.first, span.last)

    def _run(self, function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
        if self._pool is None:
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, mp_context=spawn, initializer=_begin)
        try:
            return self._pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            self.close()
            raise StoreError("the process that computes estimates died") from None
        except OSError as error:  # no process or no file is to be had at the moment
            self.close()
            raise StoreError(
                f"the process that computes estimates does not start: {error.strerror}"
            ) from None

    def close(self) -> None:
        """End the process."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def _begin() -> None:
    # The server decides when this ends; a terminal and systemd signal all processes at once.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(_NICE)
    threading.Thread(target=_end_with_parent, name="arcwise-parent", daemon=True).start()


def _end_with_parent() -> None:
    # A server that was killed closes nothing: without this, its process would wait for work for ever.
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@lru_cache(maxsize=16)
def _task(packed: bytes) -> Task:
    return Task.from_bytes(packed)


def _estimate(packed: bytes, counts: IntArray) -> dict[str, Any]:
    from arcwise.analysis import estimate

    return estimate(_task(packed), counts).to_dict()


def _series(
    packed: bytes, by_epoch: dict[int, IntArray], every: int, first: int | None, last: int | None
) -> dict[str, Any]:
    from arcwise.analysis.timeseries.series import series

    return series(_task(packed), by_epoch, every=every, first=first, last=last).to_dict()
