"""The client and the uplink on an asyncio event loop. The policy is that of the sync twins."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from typing import TYPE_CHECKING, Any

from arcwise.client.client import Reporter
from arcwise.client.sending import Sending, SendingOptions, checked_number
from arcwise.client.transport import AsyncHttpxTransport
from arcwise.errors import ParameterError
from arcwise.randomness import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from arcwise.client.ledger import Ledger
    from arcwise.client.outbox import PendingBatch
    from arcwise.client.transport import AsyncTransport
    from arcwise.randomness import Randomness
    from arcwise.tasks import Task

__all__ = ["AsyncClient", "AsyncUplink", "AsyncUplinkOptions"]


class AsyncUplinkOptions(SendingOptions, total=False):
    """The keyword arguments of `AsyncUplink`, which `AsyncClient` takes too."""

    transport: AsyncTransport | None


class AsyncUplink(Sending):
    """Queues codes and sends them from an asyncio task, which starts with the first report.

    Belongs to one event loop at a time: to another one only after the first has cancelled its tasks, as
    `asyncio.run` does at its end. Parameters and errors are those of `Uplink`; the transport is an
    `AsyncHttpxTransport` unless given.
    """

    def __init__(
        self, url: str, *, transport: AsyncTransport | None = None, **options: Unpack[SendingOptions]
    ) -> None:
        self._transport = AsyncHttpxTransport() if transport is None else transport
        super().__init__(url, **options)

    def _empty(self) -> None:
        super()._empty()
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._renew_events()

    def _renew_events(self) -> None:
        """Make the events anew: one that was ever waited for belongs to the loop it was waited on."""
        self._work = asyncio.Event()
        # Set when batches are finished, and replaced: each flush waits for the next time.
        self._settled = asyncio.Event()

    def admit(self) -> bool:
        """Return whether there is room for one more report, and count it as lost when there is none.

        Raises
        ------
        RuntimeError
            When the uplink is closed, no event loop is running, or the uplink is in use on another loop.
        """
        self._start()
        return self._outbox.has_room()

    def _start(self) -> None:
        self._check_open()
        loop = asyncio.get_running_loop()
        self._check_loop(loop)
        if self._task is None or self._task.done():
            if loop is not self._loop:
                self._loop = loop
                self._renew_events()
            self._task = loop.create_task(self._run(), name="arcwise-uplink")

    def _check_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop and self._task is not None and not self._task.done():
            raise RuntimeError(
                "the AsyncUplink is in use on another event loop; close it there first, or let that loop "
                "cancel its tasks, as asyncio.run does at its end"
            )

    def _wake(self) -> None:
        self._work.set()

    def _finished(self) -> None:
        self._settled.set()
        self._settled = asyncio.Event()

    async def _run(self) -> None:
        try:
            while True:
                self._work.clear()
                found = self._next()
                if isinstance(found, float):
                    await _wait(self._work, found)
                    continue
                await self._send(found)
        finally:
            await self._transport.close()

    async def _send(self, batch: PendingBatch) -> None:
        try:
            status, retry_after = await self._transport.post(
                self._address(batch), batch.seal(), self._headers(), self._request_timeout
            )
        except Exception as error:  # a transport may raise anything, and the task must live
            self._unanswered(batch, error)
        except BaseException:  # cancelled while the request was under way
            self._outbox.put_back(batch)
            raise
        else:
            self._answered(batch, status, retry_after)

    async def flush(self, timeout: float = 10.0) -> bool:
        """Send what is queued without waiting for the interval; True when nothing of it is left in time.

        See `Uplink.flush`.

        Raises
        ------
        ParameterError
            When the timeout is not a finite number of at least 0.
        RuntimeError
            When the uplink is in use on another event loop.
        """
        timeout = checked_number("timeout", timeout)
        self._check_loop(asyncio.get_running_loop())
        deadline = time.monotonic() + timeout
        batches = self._hurry()
        if batches:
            self._start()
            self._wake()
        while not all(batch.done for batch in batches):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            await _wait(self._settled, left)
        return True

    async def close(self, timeout: float = 5.0) -> bool:
        """Flush, drop what is left after `timeout` seconds, and stop; True when nothing was left to drop.

        See `Uplink.close`.

        Raises
        ------
        ParameterError
            When the timeout is not a finite number of at least 0.
        RuntimeError
            When the uplink is in use on another event loop.
        """
        timeout = checked_number("timeout", timeout)
        if self._closed:
            return True
        await self.flush(timeout)
        task, self._task = self._task, None
        nothing_left = self._shut()
        if task is None or task.done():  # done with an earlier event loop, which closed the transport
            await self._transport.close()
        else:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return nothing_left

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(event.wait(), None if seconds == math.inf else seconds)


class AsyncClient(Reporter[AsyncUplink]):
    """Reports values under local differential privacy from an event loop.

    Parameters and errors are those of `Client`; `url` is a base URL or an `AsyncUplink`.
    """

    __slots__ = ()

    def __init__(
        self,
        url: str | AsyncUplink,
        *,
        tasks: Iterable[Task],
        ledger: Ledger | None = None,
        max_epsilon: float | None = None,
        max_delta: float = 0.0,
        randomness: Randomness = SYSTEM,
        **options: Unpack[AsyncUplinkOptions],
    ) -> None:
        shared = isinstance(url, AsyncUplink)
        if shared and options:
            raise ParameterError(
                f"{', '.join(options)}: give these to the AsyncUplink, not to an AsyncClient that shares it"
            )
        super().__init__(
            url if isinstance(url, AsyncUplink) else AsyncUplink(url, **options),
            owns_uplink=not shared,
            tasks=tasks,
            ledger=ledger,
            max_epsilon=max_epsilon,
            max_delta=max_delta,
            randomness=randomness,
        )

    async def report(self, name: str, value: Any) -> bool:
        """Charge, randomise and queue one value; False when a cap or a full queue stopped it, at no charge.

        `counters` tells which of the two: a full queue adds one to its `lost`, a cap does not. Network
        trouble is never raised here: the report waits in the queue.

        Raises
        ------
        UnknownTaskError
            When the client has no task of this name.
        DomainError
            When the value is not in the task's domain; nothing is charged then.
        RuntimeError
            When the uplink is closed, or in use on another event loop.
        """
        return self._report(name, value)

    async def flush(self, timeout: float = 10.0) -> bool:
        """Send what is queued now; True when none of it is queued any more, be it acknowledged or dropped.

        See `Client.flush`.
        """
        return await self._uplink.flush(timeout)

    async def close(self, timeout: float = 5.0) -> bool:
        """Flush and close the uplink, unless it is shared; True when nothing was left queued to drop.

        See `Client.close`.
        """
        timeout = checked_number("timeout", timeout)
        return await self._uplink.close(timeout) if self._owns_uplink else True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
