"""`AsyncClient` and `AsyncUplink`: the client and the uplink on an asyncio event loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import math
import time
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from arcwise.checks import explained
from arcwise.client.checks import check_options, checked_number
from arcwise.client.client import BaseClient
from arcwise.client.ledger import Send, Wait
from arcwise.client.outcomes import Outcome
from arcwise.client.policy import policy_of
from arcwise.client.threads import Threads
from arcwise.client.transport import AsyncHttpxTransport, checked_response
from arcwise.client.uplink import BaseUplink, BaseUplinkOptions
from arcwise.errors import LedgerError
from arcwise.randomness import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from typing_extensions import ParamSpec, Self, Unpack

    from arcwise.client.accounts import Budget
    from arcwise.client.ledger import Ledger, Parcel, QueueOwner
    from arcwise.client.outcomes import Counters
    from arcwise.client.transport import AsyncTransport, Response
    from arcwise.randomness import Randomness
    from arcwise.tasks import Caps, Group, Task

    P = ParamSpec("P")

R = TypeVar("R")

_LEDGERS = Threads(32)
"""Threads in which reports wait for their ledgers."""

_UPLINKS = Threads(math.inf)
"""Threads in which uplinks wait for their queues: one or two per uplink, even if ledgers are blocked."""


class AsyncUplinkOptions(BaseUplinkOptions, total=False):
    """The keyword arguments of `AsyncUplink`, which `AsyncClient` accepts too."""

    transport: AsyncTransport | None


class AsyncUplink(BaseUplink):
    """Queues codes and sends them from an asyncio task, which starts with the first report.

    An uplink belongs to one event loop at a time. Another loop can use it only after the first has cancelled
    its tasks, as `asyncio.run` does at its end. Calls that wait for a disk run in arcwise's own threads.
    Parameters and errors are those of `Uplink`; the default transport is an `AsyncHttpxTransport`. The event
    loop no longer exists when the interpreter exits: reports queued in memory are lost unless `close` was
    awaited.

    Examples
    --------
    >>> import asyncio
    >>> from arcwise.client import AsyncClient, AsyncRecordingTransport, AsyncUplink
    >>> from arcwise.client import Caps, Circle, MemoryLedger, Task
    >>> heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=5.0))
    >>> async def main():
    ...     transport = AsyncRecordingTransport()
    ...     async with AsyncUplink("https://reports.example", transport=transport) as uplink:
    ...         for _ in range(3):
    ...             client = AsyncClient(uplink, tasks=[heading], ledger=MemoryLedger())
    ...             await client.report("heading", 12.0)
    ...         return await uplink.flush(), (await uplink.counters()).sent
    >>> asyncio.run(main())
    (True, 3)
    """

    @explained
    def __init__(
        self,
        url: str,
        *,
        ledger: QueueOwner | None = None,
        transport: AsyncTransport | None = None,
        **options: Unpack[BaseUplinkOptions],
    ) -> None:
        check_options(type(self), options, AsyncUplinkOptions)
        self._transport = AsyncHttpxTransport() if transport is None else transport
        super().__init__(url, ledger=ledger, **options)
        # Wait as long as the ledger waits for other processes, but at least 1 s.
        self._patience = max(1.0, self._outbox.busy_timeout)

    def _renew(self) -> None:
        super()._renew()
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._renew_events()

    def _renew_events(self) -> None:
        """Create new events, because an event belongs to the loop that has waited for it."""
        self._work = asyncio.Event()
        # Set and replaced after each step of the sender, so that each flush waits for the next step.
        self._stepped = asyncio.Event()

    async def _call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function for the sender, in a thread if it may wait for a disk; no call is dropped."""
        if not self._outbox.durable:
            return function(*args, **kwargs)
        return await _UPLINKS.call((self, function), None, self._wake_after, function, *args, **kwargs)

    async def _call_for_flush(self, function: Callable[[], R]) -> R:
        """Call the queue for a flush, without queueing behind reports that wait for their ledgers."""
        if not self._outbox.durable:
            return function()
        return await _UPLINKS.call((self, "flush"), self._patience, self._wake_after, function)

    async def _call_in_turn(
        self, key: Hashable, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call a function that uses a ledger, after earlier calls with the same `key`; see `Threads.call`."""
        if not self._outbox.durable:
            return function(*args, **kwargs)
        return await _LEDGERS.call(key, self._patience, self._wake_after, function, *args, **kwargs)

    def _wake_after(self, thread: asyncio.Future[Any]) -> None:
        """Wake the sender for codes that a cancelled call may still have queued."""
        if not thread.cancelled():
            thread.exception()  # mark it as retrieved, since nobody waits for it any more
        self._wake()

    def _start(self) -> None:
        """Start the sending task unless it runs.

        Raises `RuntimeError` if the uplink is closed, no loop runs, or the uplink is in use on another loop.
        """
        self._check_open()
        loop = asyncio.get_running_loop()
        self._check_loop(loop)
        if self._task is None or self._task.done():
            if loop is not self._loop:
                self._loop = loop
                self._renew_events()
            # Run it in an empty context, because the context of the first report may hold data about its
            # user.
            context = contextvars.Context()
            self._task = context.run(loop.create_task, self._run(), name="arcwise-uplink")

    def _resume(self) -> None:
        with contextlib.suppress(RuntimeError):  # no loop runs yet; the first report starts the task
            super()._resume()

    def _check_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop and self._task is not None and not self._task.done():
            raise RuntimeError(
                "the AsyncUplink is in use on another event loop; close it there first, or let that loop "
                "cancel its tasks, as asyncio.run does at its end"
            )

    def _attends(self) -> bool:
        loop, task = self._loop, self._task
        return loop is not None and loop.is_running() and task is not None and not task.done()

    def _wake(self) -> None:
        """Let the task look at the queue again; callable from any thread."""
        loop = self._loop
        if loop is None:
            return
        try:
            here = asyncio.get_running_loop() is loop
        except RuntimeError:
            here = False
        if here:
            self._work.set()
        else:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and with it the sender
                loop.call_soon_threadsafe(self._work.set)

    async def _run(self) -> None:
        try:
            while not self._closed:
                self._work.clear()
                try:
                    wait = await self._step()
                except Exception as error:  # a defect or a lack of memory; the next attempt may work
                    wait = self._recover(error)
                self._stepped.set()
                self._stepped = asyncio.Event()
                if wait > 0:
                    await _wait(self._work, self._rest(wait))
        finally:
            await self._transport.close()

    async def _step(self) -> float:
        """Send one parcel if one is due; return the seconds until the next step."""
        step = await self._call(self._next)
        if isinstance(step, Send):
            await self._send(step.parcel)
        self._emit_events()
        return step.seconds if isinstance(step, Wait) else 0.0

    async def _send(self, parcel: Parcel) -> None:
        # Use a separate task, because other code may cancel the connection that a transport waits for.
        post = asyncio.ensure_future(self._post(parcel))
        try:
            await asyncio.wait([post])
            if post.cancelled():
                raise ConnectionError("the request was cancelled")
            status, retry_after = post.result()
        except Exception as error:  # a transport may raise anything, and the task must go on
            await self._call(self._unanswered, parcel, error)
        except asyncio.CancelledError:  # while the request was under way
            post.cancel()
            await asyncio.gather(post, return_exceptions=True)
            await self._call(self._put_back, parcel)
            raise
        except BaseException:
            self._put_back(parcel)
            raise
        else:
            await self._call(self._answered, parcel, status, retry_after)

    async def _post(self, parcel: Parcel) -> Response:
        """Send a batch and return the response."""
        status, retry_after = await self._transport.post(
            self._address(parcel), parcel.body, self._headers(), self._request_timeout
        )
        return checked_response(status, retry_after)

    async def pending(self) -> int:
        """Return the number of reports that are neither acknowledged nor dropped.

        Raises
        ------
        LedgerError
            When the ledger cannot be read.
        """
        return await self._call_in_turn((self, "read"), self._pending)

    async def counters(self) -> Counters:
        """Return the numbers of reports so far, of all clients that share this uplink. See `Client.counters`.

        Raises
        ------
        LedgerError
            When the ledger cannot be read.
        """
        return await self._call_in_turn((self, "read"), self._counters)

    async def flush(self, timeout: float = 10.0) -> bool:
        """Send queued reports without waiting for the interval; return True if all left the queue in time.

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
        try:
            is_done = await self._call_for_flush(self._expedite)
            if await self._call_for_flush(is_done):
                return True
            if self._closed:
                return False
            self._wake()
            while True:
                self._start()
                stepped = self._stepped
                if await self._call_for_flush(is_done):
                    return True
                left = deadline - time.monotonic()
                if self._closed or left <= 0:
                    return False
                # The task does its next step by itself when something is due. If it were woken after each
                # step, it would never rest.
                if not await _wait(stepped, self._flush_rest(left)):
                    self._wake()
        except LedgerError as error:
            self._record_ledger_error(error)
            return False

    async def close(self, timeout: float = 5.0) -> bool:
        """Flush for at most `timeout` seconds, then stop; return True if no report was left in the queue.

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
            return self._nothing_left
        await self.flush(timeout)
        try:
            return await self._call(self._shut)
        finally:  # also if this call is cancelled
            task, self._task = self._task, None  # not earlier, or a report would start a second task
            if task is None or task.done():  # it ended with an earlier event loop, which closed the transport
                await self._transport.close()
            else:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            self._emit_events()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


async def _wait(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event; return whether it was set in time."""
    # Do not use wait_for: before Python 3.12 it loses a cancellation that comes while the event is set, and
    # the cancelled task would go on.
    waiter = asyncio.ensure_future(event.wait())
    try:
        done, _ = await asyncio.wait([waiter], timeout=None if seconds == math.inf else seconds)
        return bool(done)
    finally:
        waiter.cancel()


class AsyncClient(BaseClient[AsyncUplink]):
    """Reports values under local differential privacy from an event loop.

    Parameters and errors are those of `Client`; `server` is a base URL or an `AsyncUplink`. Create the client
    while the loop runs, so that it can send the reports that an earlier process left in a `FileLedger`.

    Examples
    --------
    >>> import asyncio
    >>> from arcwise.client import AsyncClient, AsyncRecordingTransport
    >>> from arcwise.client import Caps, Circle, MemoryLedger, Task
    >>> heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=5.0))
    >>> async def main():
    ...     transport, ledger = AsyncRecordingTransport(), MemoryLedger()
    ...     async with AsyncClient(
    ...         "https://reports.example", tasks=[heading], ledger=ledger, transport=transport
    ...     ) as client:
    ...         await client.report("heading", 350.5)
    ...     return len(transport.batches)
    >>> asyncio.run(main())
    1
    """

    __slots__ = ()

    @explained
    def __init__(
        self,
        server: str | AsyncUplink,
        *,
        tasks: Iterable[Task | Group],
        ledger: Ledger | None = None,
        caps: Caps | Literal["unlimited"] | None = None,
        memoize: Mapping[str, int] | None = None,
        max_epsilon: float | None = None,
        max_delta: float = 0.0,
        randomness: Randomness = SYSTEM,
        show_values: bool = False,
        **options: Unpack[AsyncUplinkOptions],
    ) -> None:
        check_options(type(self), options, AsyncUplinkOptions)  # otherwise a misspelt caps= would be ignored
        super().__init__(
            server,
            AsyncUplink,
            options,
            policy=policy_of(tasks, caps=caps, memoize=memoize, max_epsilon=max_epsilon, max_delta=max_delta),
            ledger=ledger,
            randomness=randomness,
            show_values=show_values,
        )

    async def report(self, name: str, value: Any) -> Outcome:
        """Charge, randomise and queue one value; the outcome is true if the report was queued.

        See `Client.report`.

        Raises
        ------
        UnknownTaskError
            When the client has no task of this name.
        DomainError
            When a value is not in its task's domain; in that case nothing is charged.
        ParameterError
            When the value of a group is not a mapping.
        RuntimeError
            When the uplink is closed, or in use on another event loop.
        """
        located = self._located(name, value)
        try:
            outcome = await self._uplink._call_in_turn(self._ledger._key, self._submit, *located)
        except LedgerError as error:
            outcome = self._not_submitted(error, name)
        if outcome in (Outcome.FAILED, Outcome.NO_RANDOMNESS):
            self._uplink._emit_events()
        return outcome

    async def opt_out(self) -> None:
        """Drop the queued reports and make no new reports until `opt_in`. See `Client.opt_out`."""
        await self._uplink._call_in_turn(self._ledger._key, self._opt_out)
        self._uplink._emit_events()

    async def opt_in(self) -> None:
        """Resume reporting after `opt_out`; earlier spending still counts."""
        await self._uplink._call_in_turn(self._ledger._key, self._ledger.opt_in)

    async def budget(self, name: str | None = None) -> Budget:
        """Return the spending and remaining budget of a task or group, or of everything if `name` is None.

        Raises
        ------
        UnknownTaskError
            When the client has no task or group of this name.
        LedgerError
            When the ledger cannot be read.
        """
        return await self._uplink._call_in_turn((self._ledger._key, "read"), self._budget, name)

    async def pending(self) -> int:
        """Return how many reports, from all clients of the uplink, are neither acknowledged nor dropped.

        Raises
        ------
        LedgerError
            When the ledger cannot be read.
        """
        return await self._uplink.pending()

    async def counters(self) -> Counters:
        """Return the numbers of reports so far. See `Client.counters`.

        Raises
        ------
        LedgerError
            When the ledger cannot be read.
        """
        return await self._uplink.counters()

    async def flush(self, timeout: float = 10.0) -> bool:
        """Send the reports that are queued now; return True if all of them were acknowledged or dropped.

        See `Client.flush`.
        """
        return await self._uplink.flush(timeout)

    async def close(self, timeout: float = 5.0) -> bool:
        """Flush and close the uplink, unless it is shared; return True if no report was left in the queue.

        See `Client.close`.
        """
        timeout = checked_number("timeout", timeout)
        return await self._uplink.close(timeout) if self._owns_uplink else True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
