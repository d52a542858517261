"""Ways to save the event loop's time: turns, awaitables that start immediately, requests that bypass ASGI.

In each pass of the loop only a few of the waiting requests begin, so that reports go on. A call that never
waits needs no deadline. Fully received requests bypass ASGI: a task, ASGI's messages and uvicorn's way of
writing an answer would cost as much as everything else that a report needs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from http import HTTPStatus

    from starlette.types import ASGIApp, Receive, Scope, Send

    Done = Callable[[ASGIApp], object]
    """A function that is called on the event loop with the answer, which may be `Ready`."""

IS_GONE = "arcwise.is_gone"
"""Key in a request's scope: a function that says whether its connection has ended."""

_GONE_AT_ONCE = 64
"""Most requests that leave the line in one pass because their connections have ended."""


class Turns:
    """Lets requests begin one after the other, in FIFO order.

    A pass of the event loop runs everything that is ready, and a report needs several passes: to be read, to
    be handed to the store, to be answered. If each of a few hundred connections had a listing in every pass,
    a report would wait for seconds. Only the beginning of a request waits for a turn, so a slow request does
    not keep others from beginning.

    In each pass `at_once` requests begin. While `busy` says that reports wait for the store, the next turn
    comes after `pause` seconds: the store's thread needs the interpreter, and a loop that never rests gives
    it up only every 5 ms. The store's thread gives up the interpreter at each statement, so with a pause
    shorter than its commit it waits for the loop again and again.
    """

    def __init__(self, busy: Callable[[], bool], at_once: int = 1, pause: float = 0.001) -> None:
        self._busy = busy
        self._at_once = at_once
        self._pause = pause
        self._line: deque[tuple[asyncio.Future[None], Callable[[], bool]]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop in which a turn is running

    async def wait(self, scope: Scope) -> bool:
        """Return True when it is this request's turn to begin, False when its connection has ended."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # no turn is running, except in a loop that has ended, as in tests
            self._loop = loop
            self._line.clear()
            self._then(loop)
            return True
        turn, is_gone = loop.create_future(), scope.get(IS_GONE, _is_here)
        self._line.append((turn, is_gone))
        await turn
        return not is_gone()

    def _then(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._busy():
            loop.call_later(self._pause, self._next, loop)
        else:
            loop.call_soon(self._next, loop)

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        begun = left = 0
        while self._line and begun < self._at_once and left < _GONE_AT_ONCE:
            turn, is_gone = self._line.popleft()
            if turn.done():  # the request was cancelled
                continue
            turn.set_result(None)
            if is_gone():
                left += 1
            else:
                begun += 1
        if begun or left:
            self._then(loop)
        else:
            self._loop = None


def _is_here() -> bool:
    return False


_Result = TypeVar("_Result")


class Eager(Generic[_Result]):
    """An awaitable that has already run to its first wait; await it to continue after that.

    Make it in the task that will await it. An exception raised before the first wait is raised here. A timer
    costs the event loop several microseconds, and a request that came in one piece never waits. `is_done`
    says whether a timer is needed.
    """

    def __init__(self, awaitable: Awaitable[_Result]) -> None:
        self._steps: Generator[Any, None, _Result] = awaitable.__await__()
        self._result: list[_Result] = []
        try:
            self._waits_for = next(self._steps)
        except StopIteration as end:
            self._result.append(end.value)

    @property
    def is_done(self) -> bool:
        """Whether the awaitable ended without waiting."""
        return bool(self._result)

    def __await__(self) -> Generator[Any, None, _Result]:
        if self._result:
            return self._result[0]
        try:
            yield self._waits_for
        except GeneratorExit:
            self._steps.close()
            raise
        except BaseException as error:  # cancelled: pass it on, and wait again if asked to
            try:
                self._waits_for = self._steps.throw(error)
            except StopIteration as end:
                value: _Result = end.value
                return value
            return (yield from self.__await__())
        return (yield from self._steps)


class Taker(Protocol):
    """Takes one request."""

    def __call__(self, scope: Scope, body: bytes, done: Done, /) -> object:
        """Take a request, and call `done` now or later; raises nothing."""


class Ready:
    """A complete answer that is also an ASGI app, for connections that cannot write the answer themselves.

    The `fields` include the length of the content.
    """

    __slots__ = ("content", "fields", "status")

    def __init__(
        self, status: HTTPStatus, fields: tuple[tuple[bytes, bytes], ...] = (), content: bytes = b""
    ) -> None:
        self.status = status
        self.fields = fields
        self.content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, with a copy of the fields, because middleware adds to them."""
        await send({"type": "http.response.start", "status": int(self.status), "headers": [*self.fields]})
        await send({"type": "http.response.body", "body": self.content})
