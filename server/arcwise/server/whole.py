"""Requests that have come whole, which can be taken past ASGI: who takes them, and what is answered.

A task, the messages of ASGI and uvicorn's way of writing an answer cost as much as all that a report needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from http import HTTPStatus

    from starlette.types import ASGIApp, Receive, Scope, Send

    Done = Callable[[ASGIApp], object]
    """Is called on the event loop with the answer, which may be `Ready`."""


class Taker(Protocol):
    """Takes one request."""

    def __call__(self, scope: Scope, body: bytes, done: Done, /) -> object:
        """Take a request, and call `done` now or later; raises nothing."""


class Ready:
    """A complete answer that is also an ASGI app, for connections that cannot write the answer themselves.

    The `fields` say how long the content is.
    """

    __slots__ = ("content", "fields", "status")

    def __init__(
        self, status: HTTPStatus, fields: tuple[tuple[bytes, bytes], ...] = (), content: bytes = b""
    ) -> None:
        self.status = status
        self.fields = fields
        self.content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; the fields are copied, since middleware adds to them."""
        await send({"type": "http.response.start", "status": int(self.status), "headers": [*self.fields]})
        await send({"type": "http.response.body", "body": self.content})
