"""Estimates in a separate process, so that readers use neither the interpreter nor the cores of ingestion."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import lru_cache
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from arcwise.domains import Circle, Interval
from arcwise.errors import StoreError
from arcwise.server.estimates.computations import compute, picture
from arcwise.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.connection import Connection


_Result = TypeVar("_Result")
_NICE = 10


class WorkerProcess:
    """One process for estimates. `warm` or an estimate starts it, also after it died.

    It is spawned, not forked: a fork would inherit locks held by threads that do not exist in it.
    """

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._warming: Future[None] | None = None
        self._pipe: tuple[Connection, Connection] | None = None

    def warm(self) -> None:
        """Start the process, which loads the code of estimates for most of a second; return immediately."""
        if self._pool is None:
            with suppress(OSError, BrokenProcessPool):  # the first estimate will report it
                self._warming = self._submit(_warm)

    def compute(
        self, name: str, tasks: Sequence[Task], counts: Sequence[Any], options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Compute the same as `computations.compute`, in the process.

        Raises `StoreError` when the process dies during the computation; the next call starts another
        process.
        """
        return self._run(_compute, name, [task.to_bytes() for task in tasks], list(counts), dict(options))

    def picture(self, document: Mapping[str, Any], form: str) -> bytes:
        """Draw the same as `computations.picture`, in the process; raises as both that and `compute` do."""
        return self._run(picture, document, form)

    def _run(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        try:
            return self._submit(function, *arguments).result()
        except BrokenProcessPool:
            self.close()
            raise StoreError("the process that computes estimates died") from None
        except OSError as error:  # the system has no process or file left
            self.close()
            raise StoreError(
                f"the process that computes estimates does not start: {error.strerror}"
            ) from None

    def _submit(self, function: Callable[..., _Result], *arguments: Any) -> Future[_Result]:
        if self._pool is None:
            spawn = multiprocessing.get_context("spawn")
            self._pipe = spawn.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(
                1, mp_context=spawn, initializer=_begin, initargs=(self._pipe[0],)
            )
        return self._pool.submit(function, *arguments)

    def close(self) -> None:
        """End the process: after its current computation, or immediately if it is only warming up."""
        pool, self._pool = self._pool, None
        warming, self._warming = self._warming, None
        pipe, self._pipe = self._pipe, None
        if pipe is not None and warming is not None and not warming.done():
            pipe[1].close()  # the process notices this, and ends
        if pool is not None:
            pool.shutdown(cancel_futures=True)
        for end in pipe or ():
            end.close()


def _begin(server: Connection) -> None:
    # The server decides when this process ends; a terminal and systemd signal all processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(_NICE)
    threading.Thread(target=_end_with, args=(server,), name="arcwise-parent", daemon=True).start()


def _end_with(server: Connection) -> None:
    # A killed server closes nothing else; without this pipe, its process would wait for work for ever.
    parent = multiprocessing.parent_process()
    wait([server] if parent is None else [server, parent.sentinel])
    os._exit(1)


def _warm() -> None:
    """Load everything that the default estimates load, by making one estimate on each kind of domain."""
    from arcwise.analysis import estimate

    for domain in (Interval(0, 1), Circle(1)):
        task = Task("warm", domain, 1.0)
        estimate(task, np.arange(task.mechanism.kernel.codes) % 3).to_dict()


@lru_cache(maxsize=16)
def _task(packed: bytes) -> Task:
    return Task.from_bytes(packed)


def _compute(
    name: str, packed: Sequence[bytes], counts: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    return compute(name, [_task(each) for each in packed], counts, options)
