"""Reading bodies within bounds: of one, of all at once, and of time."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from arcwise.server.eager import Eager
from arcwise.server.problems import Problem, store_busy

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    from async_timeout import timeout

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from starlette.types import Message, Receive, Scope

__all__ = ["Bodies"]

_CLOSE = {"Connection": "close"}


class Bodies:
    """Reads the bodies of requests.

    Parameters
    ----------
    most
        Bytes of the largest body.
    most_at_once
        Bytes of all bodies that are being read at the same moment; more are turned away.
    seconds
        Within which a body must be there, from its head on.
    """

    def __init__(self, *, most: int, most_at_once: int, seconds: float) -> None:
        self._most = most
        self._most_at_once = most_at_once
        self._seconds = seconds
        self._held = 0

    @property
    def held(self) -> int:
        """Bytes of bodies that are being read now."""
        return self._held

    def check_size(self, size: int, *, most: int | None = None) -> None:
        """Refuse a body of so many bytes when it is too large; raises as `read` does."""
        most = self._most if most is None else most
        if size > most:
            raise _too_large(most)

    async def read(self, scope: Scope, receive: Receive, *, most: int | None = None) -> bytes:
        """Return the body of a request.

        Parameters
        ----------
        scope, receive
            Of the request, as ASGI has them.
        most
            Bytes of this body, where it is another number.

        Raises
        ------
        Problem
            400 when the connection ends before the body, 408 when it is slow, 413 when it is too large, 503
            when too much is being read.
        """
        most = self._most if most is None else most
        for name, value in scope["headers"]:
            # A length that is no number does not get through the HTTP parser.
            if name == b"content-length" and int(value) > most:
                raise _too_large(most)
        first = Eager(receive())
        if first.is_done:
            message = await first
            # Nearly always it is all there, in one piece: no timer, and nothing is held.
            if message["type"] == "http.request" and not message.get("more_body", False):
                body: bytes = message.get("body", b"")
                if len(body) > most:
                    raise _too_large(most)
                return body
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._seconds
        try:
            async with timeout(self._seconds):
                return await self._parts(first, receive, most)
        except (asyncio.TimeoutError, UnboundLocalError) as error:
            # On Python 3.10 the task group of a middleware takes the cancellation for its own, and Starlette
            # then reads a message that never came. A loop may be a few milliseconds early.
            if isinstance(error, UnboundLocalError) and loop.time() < ends - 0.01:
                raise
            raise Problem(
                408,
                "slow-body",
                f"The body did not arrive within {self._seconds:g} seconds.",
                headers=_CLOSE,
            ) from None

    async def _parts(self, first: Awaitable[Message], receive: Receive, most: int) -> bytes:
        message = await first
        body = bytearray()  # a list of parts of a byte each would take forty times as much
        size = 0
        try:
            while True:
                if message["type"] == "http.disconnect":
                    raise Problem(
                        400, "incomplete-body", "The connection closed before the body was complete."
                    )
                part = message.get("body", b"")
                size += len(part)
                self._held += len(part)
                if size > most:
                    raise _too_large(most)
                if self._held > self._most_at_once:
                    raise store_busy(
                        "Too many bodies are being read at once; send this one again later.", _CLOSE
                    )
                body += part
                if not message.get("more_body", False):
                    return bytes(body)
                message = await receive()
        finally:
            self._held -= size


def _too_large(most: int) -> Problem:
    detail = f"A body may have at most {most} bytes; send smaller batches."
    return Problem(413, "too-large", detail, headers=_CLOSE)
