"""uvicorn's HTTP protocol, with deadlines and bounds on what a connection can hold.

uvicorn waits for ever for a head that does not end, keeps all of it, and takes any number of connections. Of
requests that come before earlier ones are answered it parses as many as arrive: 2 kB of memory for 18 bytes.
The parser's callbacks say where in a message a connection is.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from arcwise.server.serving.unread import Unread

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sized

__all__ = ["Connections", "bounded_protocol"]

_MAX_HEAD_BYTES = 32 << 10
_MAX_AHEAD = 64
"""Requests that may have come before an earlier one is answered; with one more the connection is cut."""
_GRACE_SECONDS = 5.0
"""What the app has to answer 408 itself, before a connection with a slow body is cut."""

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%b"
)
_FULL_BODY = (
    b'{"type": "urn:arcwise:problem:too-many-connections", "title": "Service Unavailable", "status": 503, '
    b'"detail": "The server has as many connections as it takes; try again in a while."}'
)


class Connections(NamedTuple):
    """Bounds on connections.

    Parameters
    ----------
    most
        Connections at the same moment; one more is answered 503 and closed.
    header_seconds
        Within which a head must be there, from the connection or the last request on.
    body_seconds
        Within which a body must be there, from its head on; the app answers first, where it can.
    answer_seconds
        Within which an answer must be taken; as long again for every 512 KiB of it.
    most_unread
        Bytes of answers that wait to be taken at the same moment; beyond, those that wait longest are cut.
    """

    most: int = 4096
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    answer_seconds: float = 30.0
    most_unread: int = 64 << 20


class _Part(Enum):
    HEAD = "head"
    BODY = "body"
    NONE = "none"


class _Ahead(Exception):  # noqa: N818 (a way out of the parser)
    """Too many requests came before an earlier one was answered."""


class _InTurn(FlowControl):
    """Reads on only when no request that is read already waits for its turn."""

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


def bounded_protocol(bounds: Connections) -> type[HttpToolsProtocol]:
    """Return the protocol class for uvicorn's ``http=``."""
    unread = Unread(bounds.answer_seconds, bounds.most_unread)

    class BoundedProtocol(HttpToolsProtocol):
        """One connection."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._part = _Part.HEAD
            self._message = 0
            self._timed: tuple[int, _Part] | None = None
            self._timer: asyncio.TimerHandle | None = None
            self._head_bytes = 0
            self._turned_away = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            if len(self.connections) >= bounds.most:
                self._turned_away = True
                self.transport = transport
                transport.write(_FULL % (len(_FULL_BODY), _FULL_BODY))
                transport.close()
                return
            super().connection_made(transport)
            self.flow = _InTurn(transport, self.pipeline)
            unread.watch(self.loop, self.connections)
            self._set_timer()

        def pause_writing(self) -> None:
            super().pause_writing()
            unread.stalled(self.loop, self.transport)

        def resume_writing(self) -> None:
            unread.moved(self.transport)
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            unread.moved(self.transport)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._turned_away:
                return
            message = self._message
            super().data_received(data)
            # What a head begins in may be the end of a large body: it counts from the next read on.
            if self._part is _Part.HEAD and self._message == message:
                self._head_bytes += len(data)
                if self._head_bytes > _MAX_HEAD_BYTES:
                    self._cut()
                    return
            self._set_timer()

        def on_message_begin(self) -> None:
            self._message += 1
            self._part = _Part.HEAD
            self._head_bytes = 0
            super().on_message_begin()

        def on_header(self, name: bytes, value: bytes) -> None:
            # Trailers would be kept without end, and nothing reads them.
            if self._part is _Part.HEAD:
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._part = _Part.BODY
            super().on_headers_complete()
            if len(self.pipeline) > _MAX_AHEAD:
                self._cut()  # an answer to this one would be taken for that to an earlier one
                raise _Ahead

        def on_message_complete(self) -> None:
            self._part = _Part.NONE
            super().on_message_complete()

        def _set_timer(self) -> None:
            """Start the deadline of what is being read now; one that runs for it goes on."""
            if self._part is _Part.NONE:
                if self._timer is not None:
                    self._stop_timer()
                return
            reading = self._message, self._part
            if self._timer is not None and self._timed == reading:
                return
            self._stop_timer()
            head = self._part is _Part.HEAD
            seconds = bounds.header_seconds if head else bounds.body_seconds + _GRACE_SECONDS
            self._timed = reading
            self._timer = self.loop.call_later(seconds, self._cut)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _cut(self) -> None:
            self._stop_timer()
            self.transport.abort()

    return BoundedProtocol
