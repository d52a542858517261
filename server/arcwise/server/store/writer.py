"""Group commit: batches that arrive while a transaction is being written share the next transaction.

One thread writes, never the event loop. It commits as soon as it is idle, without an artificial wait. Under
load, groups grow by themselves: each group has the batches that arrived during the previous commit. The loop
does not hand over batches one by one, because waking a thread costs as much as a request. It hands them over
when it has served everything that is ready.

A group is limited by the work that it causes in a store, and small batches go first, so that a batch of one
code does not wait behind batches of 100,000 codes. To keep every wait finite, every second group begins with
the oldest batch.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from functools import partial
from itertools import count, repeat
from typing import TYPE_CHECKING, NamedTuple, Protocol

from arcwise.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from arcwise.server.store.base import Outcome
    from arcwise.wire import Batch

    Done = Callable[[Outcome | StoreError], object]
    _Group = list["_Put"]

_log = logging.getLogger("arcwise.server")

# The limits keep the commit of a group short for the requests behind it: PostgreSQL takes 4 microseconds for
# each sum of a task, epoch and code. SQLite keeps the sums of an epoch in one row, and writes this row as
# fast as PostgreSQL writes a 64th of the sums.
_MAX_GROUP = 4096
_MAX_SUMS = 1 << 14
_SUMS_PER_ROW = 64
_MAX_BYTES = 8 << 20

_SMALL_BYTES = 16 << 10
"""Batches with more bytes of codes than this leave half of the waiting room to smaller batches."""


class Busy(Exception):  # noqa: N818 (a state, not an error)
    """Raised when too many bytes wait for the store; try again later."""


class _Put(NamedTuple):
    """A waiting batch, the number of codes of its task, and the callback for its outcome."""

    batch: Batch
    codes: int
    done: Done


class Adds(Protocol):
    """The receiver of batches: a store, or an archiver that stages batches in a store."""

    def add(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Count batches; see `Store.add`."""


class Watcher(Protocol):
    """An object that is notified, on the writer's thread, of the outcome of groups."""

    def added(self, batches: Sequence[Batch], outcomes: Sequence[Outcome], seconds: float) -> None:
        """Note a group that the store accepted, and the seconds that it took."""

    def failed(self) -> None:
        """Note a group that the store did not accept."""


class Writer:
    """Hands batches from an event loop to a store, on its own thread.

    Parameters
    ----------
    store
        Receiver of the batches.
    max_waiting_bytes
        Bytes that batches may take while they wait; beyond that `add` raises `Busy`.
    watcher
        Object that is notified of groups.
    """

    def __init__(self, store: Adds, *, max_waiting_bytes: int, watcher: Watcher | None = None) -> None:
        self._store = store
        self._watcher = watcher
        self._max_waiting = max_waiting_bytes
        self._waiting = self._waiting_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._gathered: _Group = []  # batches on the loop that are not handed over yet
        self._queue: queue.SimpleQueue[_Group | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="arcwise-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of batches that wait for the store."""
        return self._waiting

    @property
    def waiting_bytes(self) -> int:
        """Memory that the waiting batches take, at most `max_waiting_bytes`."""
        return self._waiting_bytes

    def add(self, batch: Batch, codes: int) -> asyncio.Future[Outcome]:
        """Queue a batch; the future gets its outcome when it is durable; raises as `put` does."""
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self.put(batch, codes, partial(_settle, future))
        return future

    def put(self, batch: Batch, codes: int, done: Done) -> None:
        """Queue a batch.

        Parameters
        ----------
        batch
            A batch that was checked against its task.
        codes
            Number of codes of the task.
        done
            Called on the event loop with the outcome of the batch, when it is durable, or with the store's
            error.

        Raises
        ------
        Busy
            When too many bytes wait; nothing was queued.
        """
        size = batch_bytes(len(batch.codes))
        if self._waiting_bytes + size > self._max_waiting:
            raise Busy
        if len(batch.codes) > _SMALL_BYTES and self._waiting_bytes > self._max_waiting // 2:
            raise Busy
        self._waiting += 1
        self._waiting_bytes += size
        if not self._gathered:
            self._loop.call_soon(self._hand_over)
        self._gathered.append(_Put(batch, codes, done))

    def _hand_over(self) -> None:
        self._queue.put(self._gathered)
        self._gathered = []

    async def close(self) -> None:
        """Write what is queued and stop the thread."""
        self._hand_over()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        lines = _Lines()
        closing = False
        while lines or not closing:
            try:
                part = self._queue.get(block=not lines)
                while part is not None:
                    lines.put(part)
                    part = self._queue.get_nowait()
                closing = True
            except queue.Empty:
                pass
            if lines:
                self._write(lines.group())

    def _write(self, group: _Group) -> None:
        outcomes: list[Outcome] | StoreError
        batches = [put.batch for put in group]
        start = time.perf_counter()
        try:
            outcomes = self._store.add(batches)
        except StoreError as error:
            _log.error("failed to store a group of %d batches: %s", len(group), error)
            outcomes = error
        except Exception as error:
            # The thread must survive a defect; without it every waiting request would hang.
            _log.exception("failed to store a group of %d batches", len(group))
            outcomes = StoreError(f"the store failed: {type(error).__name__}")
        seconds = time.perf_counter() - start
        # This comes before the answers, so that the metrics include a batch once it is answered.
        self._tell(batches, outcomes, seconds)
        self._loop.call_soon_threadsafe(self._finish, group, outcomes)

    def _tell(
        self, batches: Sequence[Batch], outcomes: Sequence[Outcome] | StoreError, seconds: float
    ) -> None:
        if self._watcher is None:
            return
        try:
            if isinstance(outcomes, StoreError):
                self._watcher.failed()
            else:
                self._watcher.added(batches, outcomes, seconds)
        except Exception:
            _log.exception("failed to count a group in the metrics")

    def _finish(self, group: _Group, outcomes: list[Outcome] | StoreError) -> None:
        self._waiting -= len(group)
        self._waiting_bytes -= sum(batch_bytes(len(put.batch.codes)) for put in group)
        each: Iterable[Outcome | StoreError] = (
            repeat(outcomes) if isinstance(outcomes, StoreError) else outcomes
        )
        for put, outcome in zip(group, each, strict=False):
            _call(put.done, outcome)


class _Lines:
    """The batches that wait for the writer's thread: a line for each power of two of size, in FIFO order."""

    def __init__(self) -> None:
        self._lines: dict[int, deque[tuple[int, _Put]]] = {}
        self._arrivals = count()
        self._is_turn = False  # whether the next group begins with the oldest batch

    def __bool__(self) -> bool:
        return bool(self._lines)

    def put(self, group: _Group) -> None:
        """Add batches, each to the end of the line of its size."""
        for put in group:
            line = self._lines.setdefault(len(put.batch.codes).bit_length(), deque())
            line.append((next(self._arrivals), put))

    def group(self) -> _Group:
        """Take out the smallest batches that fit into a group; every second group begins with the oldest."""
        self._is_turn = not self._is_turn
        if self._is_turn:
            first = min(self._lines.values(), key=lambda line: line[0][0])
        else:
            first = self._lines[min(self._lines)]
        room = _Room()
        group = [first.popleft()[1]]
        room.take(group[0])
        for _, line in sorted(self._lines.items()):
            while line and len(group) < _MAX_GROUP and room.take(line[0][1]):
                group.append(line.popleft()[1])
        self._lines = {size: line for size, line in self._lines.items() if line}
        return group


class _Room:
    """The remaining room of a group: bytes of codes, and sums (one for each task, epoch and code)."""

    def __init__(self) -> None:
        self._bytes = _MAX_BYTES
        self._sums = _MAX_SUMS
        self._of_epoch: dict[tuple[bytes, int], int] = {}

    def take(self, put: _Put) -> bool:
        """Take the room that a batch needs, or return False. The first batch always fits."""
        key = (put.batch.task_id, put.batch.epoch)
        size = len(put.batch.codes)
        taken = self._of_epoch.get(key, 0)
        row = put.codes // _SUMS_PER_ROW
        # This is an upper bound: a code has a byte or more, and may occur twice.
        sums = min(max(taken, row) + size, put.codes)
        if self._of_epoch and (size > self._bytes or sums - taken > self._sums):
            return False
        self._bytes -= size
        self._sums -= sums - taken
        self._of_epoch[key] = sums
        return True


def _call(done: Done, outcome: Outcome | StoreError) -> None:
    try:
        done(outcome)
    except Exception:  # only this request fails: all others still get their answers
        _log.exception("failed to answer a request")


def _settle(future: asyncio.Future[Outcome], outcome: Outcome | StoreError) -> None:
    if future.done():  # the request was cancelled because its sender is gone
        return
    if isinstance(outcome, StoreError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def batch_bytes(packed: int) -> int:
    """Return the memory of a waiting batch with `packed` bytes of codes, including the objects around it."""
    return packed + 1024
