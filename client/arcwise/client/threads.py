"""arcwise's own threads for an event loop's calls to disks and databases.

The app's shared executor is not used: it also looks up addresses, and one blocked ledger could fill it.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from arcwise.client.interruptions import renew_in_children
from arcwise.client.process import current_process
from arcwise.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from typing_extensions import ParamSpec

    P = ParamSpec("P")

R = TypeVar("R")


class _Lane:
    """The calls that use one ledger; only one runs at a time, so waiting calls need no thread."""

    __slots__ = ("calls", "key", "moved")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.calls: deque[_Call] = deque()
        self.moved = time.monotonic()  # when a call last ended without a long wait


class _Call:
    """One call of a function, and the future that passes its result to an event loop."""

    __slots__ = ("begun", "function", "future", "lane", "loop", "patience")

    def __init__(self, lane: _Lane, patience: float | None, function: Callable[[], Any]) -> None:
        self.lane, self.patience, self.function = lane, patience, function
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.begun: float | None = None

    def run(self) -> None:
        result, error = None, None
        try:
            result = self.function()
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop has ended, and with it the waiting coroutine
            self.loop.call_soon_threadsafe(self._tell, result, error)

    def _tell(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


class Threads:
    """A few threads that run the calls of many ledgers, with one call per ledger at a time.

    They are daemon threads, because an app that ends must not wait for a disk, and a ledger survives a killed
    process. They end when there is nothing to do. A forked child begins without threads.
    """

    def __init__(self, most: float) -> None:
        self._most = most
        self._renew()
        _living.add(self)

    def _renew(self) -> None:
        self._process = current_process()
        self._lock = threading.Lock()
        self._lanes: dict[Hashable, _Lane] = {}
        self._due: deque[_Lane] = deque()  # lanes with a call that waits for a thread
        self._threads: set[threading.Thread] = set()

    async def call(
        self,
        key: Hashable,
        patience: float | None,
        left: Callable[[asyncio.Future[Any]], object],
        function: Callable[P, R],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Call a function in a thread, after the earlier calls with the same key, and return its result.

        If this coroutine is cancelled, a call that has begun continues, and `left` gets its future when it
        ends; a call that has not begun is dropped. A call is also dropped, with `LedgerError`, if the calls
        before it have made no progress for `patience` seconds. With a patience of None the call is never
        dropped, but `LedgerError` is still raised if no thread can be started.
        """
        run: Callable[[], R] = partial(contextvars.copy_context().run, partial(function, *args, **kwargs))
        call = self._queue(key, patience, run)
        try:
            while call.begun is None:
                await asyncio.wait([call.future], timeout=call.patience)
                if self._is_stuck(call):
                    raise LedgerError(
                        "the ledger cannot be used now: earlier calls of this process still wait for it"
                    )
            result: R = await asyncio.shield(call.future)
        except asyncio.CancelledError:
            if patience is None or not self._withdraw(call):
                call.future.add_done_callback(left)
            raise
        return result

    def _queue(self, key: Hashable, patience: float | None, function: Callable[[], Any]) -> _Call:
        if self._process is not current_process():
            self._renew()
        with self._lock:
            lane = self._lanes.get(key)
            if lane is None:
                lane = self._lanes[key] = _Lane(key)
                self._due.append(lane)
            call = _Call(lane, patience, function)
            lane.calls.append(call)
            if len(self._threads) >= self._most:
                self._threads = {thread for thread in self._threads if thread.is_alive()}
            if self._due and len(self._threads) < self._most:
                thread = threading.Thread(target=self._work, name="arcwise-ledgers", daemon=True)
                self._threads.add(thread)
                try:
                    thread.start()
                except RuntimeError as error:
                    self._threads.discard(thread)
                    if not self._threads:  # otherwise one of them runs the call
                        lane.calls.remove(call)
                        raise LedgerError(f"the ledger cannot be used now: {error}") from None
        return call

    def _is_stuck(self, call: _Call) -> bool:
        """Return whether a call has waited too long; if so, withdraw it."""
        if call.patience is None or time.monotonic() - call.lane.moved < call.patience:
            return False
        return self._withdraw(call)

    def _withdraw(self, call: _Call) -> bool:
        """Withdraw a call; return False if it has begun already."""
        with self._lock:
            if call.begun is not None:
                return False
            call.lane.calls.remove(call)
            return True

    def _work(self) -> None:
        call = None
        while (call := self._next(call)) is not None:
            call.run()

    def _next(self, done: _Call | None) -> _Call | None:
        """Return the next call or None; after the call `done`, calls of other ledgers come first."""
        now = time.monotonic()
        with self._lock:
            if done is not None:
                # A call that took about as long as its patience counts as no progress.
                if done.begun is None or done.patience is None or now - done.begun < done.patience / 2:
                    done.lane.moved = now
                self._due.append(done.lane)
            while self._due:
                lane = self._due.popleft()
                if lane.calls:
                    call = lane.calls.popleft()
                    call.begun = now
                    return call
                del self._lanes[lane.key]
            self._threads.discard(threading.current_thread())
        return None


_living: WeakSet[Threads] = WeakSet()

# Renew before a child has threads: two threads that renew at the same time would lose each other's calls.
renew_in_children(_living, Threads._renew)
