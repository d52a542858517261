"""Reads bodies within limits on their size, their total memory and their time."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from arcwise.server.collect.event_loop import Eager
from arcwise.server.problems import Problem, store_busy

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    from async_timeout import timeout

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from starlette.types import Message, Receive, Scope

_CLOSE = {"Connection": "close"}
SMALL_BODY = 16 << 10
"""Bytes of each body for which there is always room: enough for a device's reports."""
_QUICK_SECONDS = 1.0
"""Seconds that a larger body has before it gives way to others when there is no more room."""


class _Reading:
    """The state of a body that is being read."""

    def __init__(self) -> None:
        self.task = asyncio.current_task()
        self.held = 0
        self.gives_way = False

    def give_way(self) -> None:
        """End the reading, as a timeout would."""
        self.gives_way = True
        if self.task is not None:
            self.task.cancel()

    def stay(self) -> None:
        """Let the task that reads the body go on and answer."""
        if sys.version_info >= (3, 11) and self.task is not None:
            self.task.uncancel()


class Bodies:
    """Reads the bodies of requests, within limits on the size and time of each and the memory of all.

    When there is no more room, the body that has held room longest gives way, if it has had at least a
    second. Otherwise the body that asks for more room is refused. So senders that stop halfway cannot keep
    others out, and among quick senders the first are served. `most` is the largest size of a body in bytes.
    `most_at_once` limits the bytes of all bodies being read, without the first 16 KiB of each. A body must
    arrive within `seconds` after its head.
    """

    def __init__(self, *, most: int, most_at_once: int, seconds: float) -> None:
        self._most = most
        self._most_at_once = most_at_once
        self._seconds = seconds
        self._held = 0
        self._large: dict[_Reading, float] = {}  # the time from which on each body holds room, earliest first

    @property
    def held(self) -> int:
        """Bytes of bodies that are being read now."""
        return self._held

    def check_size(self, size: int, *, most: int | None = None) -> None:
        """Refuse a body of `size` bytes if it is too large; raises as `read` does."""
        most = self._most if most is None else most
        if size > most:
            raise _too_large(most)

    async def read(self, scope: Scope, receive: Receive, *, most: int | None = None) -> bytes:
        """Return the body of a request; `most` replaces the largest size in bytes for this body.

        Raises `Problem`: 400 when the connection ends before the body, 408 when it is slow, 413 when it is
        too large, 503 when too much is being read.
        """
        most = self._most if most is None else most
        for name, value in scope["headers"]:
            # The HTTP parser lets only numbers through as lengths.
            if name == b"content-length" and int(value) > most:
                raise _too_large(most)
        first = Eager(receive())
        if first.is_done:
            message = await first
            # Most bodies arrive in one piece; they need no timer and hold no room.
            if message["type"] == "http.request" and not message.get("more_body", False):
                body: bytes = message.get("body", b"")
                if len(body) > most:
                    raise _too_large(most)
                return body
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._seconds
        reading = _Reading()
        try:
            async with timeout(self._seconds):
                return await self._parts(first, receive, most, reading)
        except (asyncio.TimeoutError, asyncio.CancelledError, UnboundLocalError) as error:
            if reading.gives_way:
                reading.stay()
                raise _no_room() from None
            if isinstance(error, asyncio.CancelledError):
                raise
            # On Python 3.10 the task group of a middleware takes the cancellation as its own, and Starlette
            # then reads a message that never came. A loop's timer may be a few milliseconds early.
            if isinstance(error, UnboundLocalError) and loop.time() < ends - 0.01:
                raise
            raise Problem(
                408,
                "slow-body",
                f"The body did not arrive within {self._seconds:g} seconds.",
                headers=_CLOSE,
            ) from None

    async def _parts(
        self, first: Awaitable[Message], receive: Receive, most: int, reading: _Reading
    ) -> bytes:
        message = await first
        body = bytearray()  # a list of one-byte parts would take forty times as much memory
        size = 0
        try:
            while True:
                if message["type"] == "http.disconnect":
                    raise Problem(
                        400, "incomplete-body", "The connection closed before the body was complete."
                    )
                part = message.get("body", b"")
                size += len(part)
                if size > most:
                    raise _too_large(most)
                self._hold(reading, size)
                body += part
                if not message.get("more_body", False):
                    return bytes(body)
                message = await receive()
        finally:
            self._let_go(reading)

    def _hold(self, reading: _Reading, size: int) -> None:
        """Make room for a body that has `size` bytes so far."""
        more = max(size - SMALL_BODY, 0) - reading.held
        if not more:
            return
        if reading.gives_way:
            raise _no_room()
        now = asyncio.get_running_loop().time()
        while self._held + more > self._most_at_once:
            first, since = next(iter(self._large.items()), (reading, now))
            if first is reading or now < since + _QUICK_SECONDS:
                raise _no_room()
            self._let_go(first)
            first.give_way()
        self._large.setdefault(reading, now)
        self._held += more
        reading.held += more

    def _let_go(self, reading: _Reading) -> None:
        self._large.pop(reading, None)
        self._held -= reading.held
        reading.held = 0


def _no_room() -> Problem:
    return store_busy("Too many bodies are being read at the same time; send this one again later.", _CLOSE)


def _too_large(most: int) -> Problem:
    detail = f"A body may have at most {most} bytes; send smaller batches."
    return Problem(413, "too-large", detail, headers=_CLOSE)
