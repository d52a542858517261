"""Estimates for readers: one at a time, off the event loop, and none twice for the same counts."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar

from arcwise.errors import StoreError
from arcwise.server.estimators import estimate
from arcwise.server.estimators.epochs import Span, merged, no_reports, span_to_dict
from arcwise.server.estimators.series import point_starts, series
from arcwise.server.problems import Problem, store_busy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from arcwise.server.store import Store
    from arcwise.tasks import Task

    Result = TypeVar("Result")

__all__ = ["MAX_POINTS", "Estimates"]

_MAX_WAITING = 16

_MAX_KEPT = 16
"""Series and estimates of a part of the epochs that are kept, over all tasks: some 300 kB each at most."""

MAX_POINTS = 400
"""Points of a series, a year of days: up to 0.2 s of a core, and seconds where reports decode with a bias."""


class Estimates:
    """Computes estimates on a thread of its own and keeps each task's last one.

    One thread: an estimate takes a good part of a second of a core, and readers must not take the cores from
    those who report. An estimate depends on nothing but the counts: it is made again when they change. Of
    series and of estimates of some epochs, of which readers can ask for any number, a few are kept.
    """

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._executor: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._last: dict[str, tuple[bytes, dict[str, Any]]] = {}
        self._kept: dict[tuple[str, Span, int], tuple[bytes, bytes]] = {}  # the one used last stands last

    def start(self) -> None:
        """Get ready; before this, and after `close`, every estimate is a 503."""
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="arcwise-estimates")

    async def of(self, task: Task) -> dict[str, Any]:
        """Return the estimates of a task from all its reports as its JSON object.

        Raises
        ------
        Problem
            503 when too many are waiting, or the store cannot be read.
        """
        return await self._run(partial(self._compute, task))

    async def during(self, task: Task, span: Span) -> bytes:
        """Return the estimates from the reports of some epochs as JSON; raises as `of` does."""
        return await self._run(partial(self._keep, task, span, 0))

    async def series(self, task: Task, span: Span, every: int) -> bytes:
        """Return the estimates of every so many epochs as JSON; raises as `of` does, and 422 for too many."""
        return await self._run(partial(self._keep, task, span, every))

    async def _run(self, compute: Callable[[], Result]) -> Result:
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
            return await asyncio.get_running_loop().run_in_executor(self._executor, compute)
        except StoreError:
            raise store_busy("The store cannot be read now.") from None
        finally:
            self._waiting -= 1

    def _compute(self, task: Task) -> dict[str, Any]:
        counts = self._store().counts(task)
        if not counts.any():
            return no_reports(task)
        version = counts.tobytes()
        last = self._last.get(task.id)
        if last is None or last[0] != version:
            last = self._last[task.id] = version, estimate(task, counts).to_dict()
        return last[1]

    def _keep(self, task: Task, span: Span, every: int) -> bytes:
        """Return what is kept for the same question and the same counts, or compute and keep it.

        JSON is written here: a long series would hold up the event loop.
        """
        by_epoch = {epoch: c for epoch, c in self._store().counts_by_epoch(task).items() if epoch in span}
        if every:
            _check_points(task, by_epoch, span, every)
        version = _digest(by_epoch)
        key = task.id, span, every
        kept = self._kept.pop(key, None)
        if kept is None or kept[0] != version:
            document = _over_time(task, by_epoch, span, every) if every else _merged(task, by_epoch, span)
            kept = version, json.dumps(document, allow_nan=False).encode()
        self._kept[key] = kept
        while len(self._kept) > _MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        return kept[1]

    def close(self) -> None:
        """Start no further estimate and wait for the one that is running."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(cancel_futures=True)


def _digest(by_epoch: Mapping[int, NDArray[np.int64]]) -> bytes:
    digest = blake2b(digest_size=32)
    for epoch, counts in by_epoch.items():
        digest.update(epoch.to_bytes(8, "big"))
        digest.update(counts.tobytes())
    return digest.digest()


def _merged(task: Task, by_epoch: Mapping[int, NDArray[np.int64]], span: Span) -> dict[str, Any]:
    counts = merged(task, by_epoch, span)
    document = estimate(task, counts).to_dict() if counts.any() else no_reports(task)
    return document | {"epochs": span_to_dict(task, span)}


def _over_time(
    task: Task, by_epoch: Mapping[int, NDArray[np.int64]], span: Span, every: int
) -> dict[str, Any]:
    if not by_epoch:
        return no_reports(task) | {"every": every, "points": []}
    return series(task, by_epoch, every=every, first=span.first, last=span.last).to_dict()


def _check_points(task: Task, epochs: Mapping[int, Any], span: Span, every: int) -> None:
    if epochs and len(point_starts(task, epochs, every=every, span=span)) > MAX_POINTS:
        raise Problem(
            422,
            "too-many-points",
            f"A series has at most {MAX_POINTS} points: ask for more epochs in a point, or for fewer epochs.",
        )
