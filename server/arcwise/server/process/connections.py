"""uvicorn's HTTP protocol, with deadlines and limits on the memory of a connection.

uvicorn waits for ever for a head that does not end, keeps all of it, and accepts any number of connections.
It also parses requests that arrive before earlier requests are answered: 18 bytes then take 2 kB of memory.
This protocol leaves the bytes after a request unparsed until the request is answered. The parser's callbacks
show the position in a message. Every deadline is for a whole part: bytes that arrive do not extend it.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from arcwise.server.collect.event_loop import IS_GONE, Ready
from arcwise.server.process.lanes import STANDING, Lane, Standing
from arcwise.server.process.slow_readers import SlowReaders

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sized

    from starlette.types import ASGIApp, Scope

    from arcwise.server.collect.event_loop import Taker
    from arcwise.server.settings import ProcessSettings

_MAX_HEAD_BYTES = 32 << 10
"""Most bytes of the path and the fields of a head, with the trailers of its body."""
_MAX_FIELDS = 100
"""Most fields of a head and its trailers: each costs a call and some 150 bytes of memory, even if short."""
_FIELD_BYTES = len(b": \r\n")
"""Bytes of a field besides its name and value."""
_MAX_CHUNKS = 8 << 10
"""Most chunks of a body, as each costs a call; the largest body, a task, then has chunks of about 1 KiB."""
_FREE_CHUNKS = 256
"""Chunks of any length that are allowed; after these, one more chunk for every `_CHUNK_BYTES` bytes."""
_CHUNK_BYTES = 256
_STEP = 4 << 10
"""Most bytes that the parser is given in one call; it gets bytes only up to the first empty line."""
_EMPTY_LINE = b"\r\n\r\n"
"""The end of every head: bytes up to the first one hold at most one request after an unanswered one."""
_LINE_END = b"\r\n"
_MAX_LINES = _MAX_FIELDS + 3
"""Lines of the longest head: its fields, its first line, and an empty line before and after the head."""
_FEW_LINES = 32
"""Most lines of a part that is not costly. More lines cost more calls than a report, so reports go first."""
_MAX_UNREAD_BYTES = 64 << 20
"""Most bytes that wait to be parsed, plus 16 KiB per connection; above it, a connection with more is cut."""
_SMALL = 16 << 10
_NEW_SECONDS = 0.5
"""Seconds that a new connection has to send a request with a valid key, before it may give way to another."""
_GRACE_SECONDS = 5.0
"""Seconds for the app to answer 408 itself, before a connection with a slow body is closed."""

_FULL_BODY = (
    b'{"type": "urn:arcwise:problem:too-many-connections", "title": "Service Unavailable", "status": 503, '
    b'"detail": "The server has reached its limit of connections; try again later."}'
)
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n"
    b"cache-control: no-store\r\nx-content-type-options: nosniff\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%b"
) % (len(_FULL_BODY), _FULL_BODY)


class _Part(Enum):
    HEAD = "head"
    BODY = "body"
    NONE = "none"


class _Cut(Exception):  # noqa: N818 (a way out of the parser)
    """The connection was cut in a callback of the parser."""


class _Heads:
    """The heads of answers that are `Ready`, with the header fields that uvicorn adds to all answers."""

    def __init__(self) -> None:
        self._fields: list[tuple[bytes, bytes]] | None = None
        self._heads: dict[tuple[object, ...], bytes] = {}

    def of(self, answer: Ready, fields: list[tuple[bytes, bytes]]) -> bytes:
        if self._fields is not fields:  # uvicorn makes new ones every second
            self._fields = fields
            self._heads = {}
        key = answer.status, answer.fields, len(answer.content)
        head = self._heads.get(key)
        if head is None:
            first = b"HTTP/1.1 %d %b" % (answer.status, answer.status.phrase.encode("ascii"))
            lines = [b"%b: %b" % field for field in (*fields, *answer.fields)]
            head = self._heads[key] = b"\r\n".join([first, *lines, b"", b""])
        return head


class _InTurn(FlowControl):
    """Resumes reading only when no request and no received bytes are waiting."""

    def __init__(self, transport: asyncio.Transport, *waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not any(self._waiting):
            super().resume_reading()


def bounded_protocol(
    bounds: ProcessSettings,
    count: Callable[[str], object] = lambda _reason: None,
    taker: Callable[[Scope], Taker | None] = lambda _scope: None,
    clock: Callable[[], float] = time.thread_time,
) -> type[HttpToolsProtocol]:
    """Return the protocol class for uvicorn's ``http=``, with limits on the resources of connections.

    `count` is called with a reason for every connection that the server closes before its client does:
    "invalid", "long-head", "slow-head", "slow-body", "many-chunks", "unread", "no-room", "made-room" or
    "too-many". `taker` returns a function that takes a fully received request past ASGI, or None to pass the
    request to the app in any case. `clock` returns the seconds that this thread has used, to measure the time
    for parsing.
    """
    unread = SlowReaders(bounds.answer_seconds, bounds.max_unread_bytes, lambda: count("unread"))
    heads = _Heads()
    # Waiting or not, ordered by the time since they connected or had their last answer; longest first.
    strangers: dict[BoundedProtocol, None] = {}
    # Connections with a valid key that wait for bytes of their clients; longest first.
    devices: dict[BoundedProtocol, None] = {}
    lane_of_devices, lane_of_strangers = Lane(clock), Lane(clock)
    waiting_bytes = 0  # to be parsed, of all connections

    def least_missed(now: float) -> BoundedProtocol | None:
        """Return the connection that gives way to a new one: first a stranger's, then a known device's."""
        while strangers:
            stranger = next(iter(strangers))
            if not stranger.make_known():
                if stranger.made_at + _NEW_SECONDS <= now:
                    return stranger
                break
        return next(iter(devices), None)

    class BoundedProtocol(HttpToolsProtocol):
        """One connection."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._part = _Part.HEAD
            self._message = 0  # number of messages that have ended
            self._timed: tuple[int, _Part] | None = None
            self._deadline = self._rings_at = 0.0
            self._timer: asyncio.TimerHandle | None = None
            self._standing = Standing()
            self._is_in_line = False
            self._parts: deque[bytes] = deque()  # to be parsed
            self._waiting_bytes = 0  # size of the parts
            self._head_bytes = 0  # with the trailers of its body
            self._fields = 0
            self._chunks = 0
            self._body_bytes = 0
            self._unfinished = 0  # bytes since the parser's last callback
            self._is_deaf = False
            self._held: tuple[Taker, Any, Any] | None = None  # a request, until the received bytes are parsed
            self._answering: Any = None  # the request that the app answers; `cycle` is the latest one

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            self.made_at = self.loop.time()
            if len(self.connections) >= bounds.max_connections:
                least = least_missed(self.made_at)
                if least is None:
                    self.transport = transport
                    self._cut("too-many", _FULL)
                    return
                # So nobody can keep others out by holding connections; a client that is cut reconnects.
                least.make_room()
            super().connection_made(transport)
            strangers[self] = None
            self.flow = _InTurn(transport, self.pipeline, self._parts)
            unread.watch(self.loop, self.connections)
            self._set_timer()

        def pause_writing(self) -> None:
            super().pause_writing()
            unread.stalled(self.loop, self.transport)

        def resume_writing(self) -> None:
            unread.moved(self.transport)
            super().resume_writing()

        def make_known(self) -> bool:
            """Return whether the connection's last request had a valid key; it is then no stranger."""
            if self._standing.is_known:
                strangers.pop(self, None)
                if self._timed is not None:
                    devices.setdefault(self)
            return self._standing.is_known

        def connection_lost(self, exc: Exception | None) -> None:
            self._leave()
            self._stop_timer()
            self._drop_parts()
            self._abandon()
            unread.moved(self.transport)
            super().connection_lost(exc)
            # These objects refer to the protocol, so thousands would wait for the garbage collector.
            self.pipeline.clear()
            self.cycle = self._answering = self._held = self.parser = None  # type: ignore[assignment]

        def data_received(self, data: bytes) -> None:
            nonlocal waiting_bytes
            if self._is_deaf:
                return
            self._parts.extend(data[start : start + _STEP] for start in range(0, len(data), _STEP))
            self._waiting_bytes += len(data)
            waiting_bytes += len(data)
            if self._is_in_line or self._owes() or self._enter():
                self._wait_for_turn()

        def _enter(self) -> bool:
            """Parse received bytes when it is this connection's turn; return whether some still wait."""
            self._is_in_line = True
            lane = lane_of_devices if self._standing.is_known else lane_of_strangers
            return lane.enter(self.loop, self) or bool(self._parts)

        def _owes(self) -> bool:
            """Return whether a fully received request must be answered before more is parsed."""
            return bool(self.pipeline) or (self._part is _Part.NONE and self._is_busy())

        def _wait_for_turn(self) -> None:
            devices.pop(self, None)
            if self._waiting_bytes > _SMALL and waiting_bytes > _MAX_UNREAD_BYTES + _SMALL * len(
                self.connections
            ):
                self._cut("no-room")
            else:
                self.flow.pause_reading()

        def read_on(self) -> bool:
            """Parse a head and the part after it; return whether there is more to parse now."""
            if not self._parts:  # the connection has ended in the meantime
                self._is_in_line = False
                return False
            for _ in range(2):
                if self._parts and not self._owes() and not self._is_deaf:
                    self._feed_next()
            if self._is_deaf:
                self._drop_parts()
            if self._held is not None and (self._owes() or not self._parts):
                held, self._held = self._held, None
                self._begin(*held)
            self._is_in_line = bool(self._parts) and not self._owes()
            if not self._parts and not self._is_deaf:
                if self.flow.read_paused and not self._has_much():
                    self.flow.resume_reading()
                self._set_timer()
            return self._is_in_line

        @property
        def is_costly(self) -> bool:
            """Whether the next part has many lines: each line is a field or a chunk, and costs a call."""
            part = self._parts[0]
            end = part.find(_EMPTY_LINE)
            return part.count(_LINE_END, 0, len(part) if end < 0 else end) > _FEW_LINES

        def _feed_next(self) -> None:
            # The lines of a part that does not begin a message may belong to a body.
            is_first = self._part is _Part.NONE or self.headers is None
            part = self._next_part()
            if is_first and part.count(_LINE_END) > _MAX_LINES:
                self._cut("long-head")  # the parser's callbacks would cut it, too, but only after 100 calls
            else:
                self._feed(part)

        def _next_part(self) -> bytes:
            nonlocal waiting_bytes
            part = self._parts.popleft()
            end = part.find(_EMPTY_LINE) + len(_EMPTY_LINE)
            if len(_EMPTY_LINE) <= end < len(part):
                self._parts.appendleft(part[end:])
                part = part[:end]
            self._waiting_bytes -= len(part)
            waiting_bytes -= len(part)
            return part

        def _has_much(self) -> bool:
            """Return whether the app should first take the large part of a body that has already arrived."""
            return self._is_busy() and len(self.cycle.body) > HIGH_WATER_LIMIT

        def _drop_parts(self) -> None:
            nonlocal waiting_bytes
            waiting_bytes -= self._waiting_bytes
            self._waiting_bytes = 0
            self._parts.clear()

        def _start_asgi_task(self, cycle: Any, app: Any) -> None:
            cycle.scope[IS_GONE] = partial(_is_gone, weakref.ref(cycle))  # it refers to its scope
            cycle.scope[STANDING] = self._standing
            self._standing.is_known = False  # until the key of this request is checked
            take = taker(cycle.scope)
            if take is None:
                super()._start_asgi_task(cycle, app)
            elif cycle.more_body and self._part is _Part.HEAD:
                self._held = take, cycle, app  # the body may be in the same bytes
            else:
                self._begin(take, cycle, app)

        def _begin(self, take: Taker, cycle: Any, app: Any) -> None:
            """Let a fully received request bypass ASGI, and pass any other request to the app."""
            if cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue:
                super()._start_asgi_task(cycle, app)
            else:
                take(cycle.scope, bytes(cycle.body), partial(self._answer, cycle))

        def _answer(self, cycle: Any, answer: ASGIApp) -> None:
            """Send an answer; ASGI sends it if it is not `Ready` or the connection cannot take it now."""
            if cycle.disconnected:
                return
            if isinstance(answer, Ready) and cycle.keep_alive and not self.flow.write_paused:
                cycle.response_started = cycle.response_complete = True
                self.transport.write(heads.of(answer, self.server_state.default_headers) + answer.content)
                self.on_response_complete()
            else:
                super()._start_asgi_task(cycle, answer)  # type: ignore[arg-type]

        def _feed(self, part: bytes) -> None:
            # The parser keeps a field or trailer that does not end without any callback. Spaces, line ends
            # and the extensions of a chunk count here, too.
            self._unfinished += len(part)
            try:
                self.parser.feed_data(part)
            except httptools.HttpParserUpgrade as upgrade:
                if self._part is _Part.HEAD:
                    self._ignore_upgrade(part[upgrade.args[0] :])
                else:
                    self._end_after_answer()  # after an upgrade the bytes may be in any protocol
            except httptools.HttpParserError:
                if not self._is_deaf:
                    self._refuse()
            else:
                if self._head_bytes + self._unfinished > _MAX_HEAD_BYTES + _STEP:
                    self._cut("long-head")

        def _ignore_upgrade(self, rest: bytes) -> None:
            """Parse a request again without its offer of an upgrade; the connection ends with its answer.

            Some clients offer HTTP/2 with every request, and the parser skips the body of such a request.
            """
            left_out = b"connection", b"upgrade", b"http2-settings"
            kept = b"".join(b"%b: %b\r\n" % field for field in self.headers if field[0] not in left_out)
            # The HTTP version stays the same: a server without keys refuses HTTP/1.0, which proxies use.
            head = b"%b %b HTTP/%b\r\nconnection: close\r\n%b\r\n" % (
                self.parser.get_method(),
                self.url,
                self.parser.get_http_version().encode(),
                kept,
            )
            self.parser = httptools.HttpRequestParser(self)
            self._feed(head + rest)

        def _refuse(self) -> None:
            """End a connection with bytes that are not HTTP, after answering earlier requests."""
            count("invalid")
            self.logger.warning("An invalid HTTP request was refused.")
            in_body, is_busy = self._part is _Part.BODY, self._is_busy()
            if in_body and is_busy and self.cycle.response_started:
                self._is_deaf = True
                self._abandon()
                self.transport.abort()  # a 400 would be read as a part of the answer
            elif in_body != is_busy:
                self._end_after_answer()
            else:
                self._is_deaf = True
                self.send_400_response("Invalid HTTP request received.")

        def _end_after_answer(self) -> None:
            """Read nothing more, and close once all fully received requests are answered."""
            self._is_deaf = True
            self.cycle.keep_alive = False
            if not self._is_busy():
                self.transport.close()

        def _is_busy(self) -> bool:
            """Return whether a request is being answered, or waits for an answer."""
            return self.cycle is not None and not self.cycle.response_complete

        def on_message_begin(self) -> None:
            self._part = _Part.HEAD
            self._head_bytes = self._fields = self._chunks = self._body_bytes = 0
            super().on_message_begin()

        def on_url(self, url: bytes) -> None:
            self._lengthen(len(url))
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._fields += 1
            self._lengthen(len(name) + len(value) + _FIELD_BYTES)
            if self._part is _Part.HEAD:  # trailers are ignored
                super().on_header(name, value)

        def _lengthen(self, size: int) -> None:
            self._unfinished = 0
            self._head_bytes += size
            if self._head_bytes > _MAX_HEAD_BYTES or self._fields > _MAX_FIELDS:
                self._cut("long-head")
                raise _Cut

        def on_headers_complete(self) -> None:
            is_offer = self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"
            if is_offer and _has_body(self.headers):
                return  # see `_ignore_upgrade`
            super().on_headers_complete()
            self._part = _Part.BODY
            if not self.pipeline:
                self._answering = self.cycle

        def on_chunk_header(self) -> None:
            self._unfinished = 0
            self._chunks += 1
            if self._chunks > min(_FREE_CHUNKS + self._body_bytes // _CHUNK_BYTES, _MAX_CHUNKS):
                self._cut("many-chunks")
                raise _Cut

        def on_body(self, body: bytes) -> None:
            self._unfinished = 0
            self._body_bytes += len(body)
            super().on_body(body)

        def on_message_complete(self) -> None:
            if self._part is _Part.HEAD:  # an upgrade that is ignored
                return
            self._unfinished = 0
            self._part = _Part.NONE
            self._message += 1
            devices.pop(self, None)
            super().on_message_complete()

        def on_response_complete(self) -> None:
            self._answering = self.pipeline[-1][0] if self.pipeline else None
            self.server_state.total_requests += 1
            self._leave()
            if not self.transport.is_closing():
                if not self._standing.is_known:
                    strangers[self] = None  # moves to the end
                self.flow.resume_reading()
                if self.pipeline:
                    self._start_asgi_task(*self.pipeline.pop())
                if self._parts and not self._is_in_line and not self._owes():
                    self._enter()
            self._set_timer()

        def _set_timer(self) -> None:
            """Start the deadline of the expected part; a running deadline for the same part goes on.

            There is one timer per connection. The timer fires no later than the deadline, and is set again if
            it fired early.
            """
            is_answering = self._part is _Part.NONE and self._is_busy()
            is_behind = bool(self.pipeline or self._parts)  # the sender waits for the server
            if is_answering or is_behind or self._is_deaf or self.transport.is_closing():
                self._timed = None
                return
            waits_for = self._message, self._part
            waited_for, self._timed = self._timed, waits_for
            self.make_known()
            if waited_for == waits_for:
                return
            if self._part is _Part.HEAD:
                seconds = bounds.header_seconds
            elif self._part is _Part.BODY:
                seconds = bounds.body_seconds + _GRACE_SECONDS
            else:
                seconds = self.timeout_keep_alive
            now = self.loop.time()
            self._deadline = now + seconds
            if self._timer is None or self._rings_at > self._deadline:
                self._wind(now)

        def _wind(self, now: float) -> None:
            self._stop_timer()
            self._rings_at = self._deadline
            self._timer = self.loop.call_later(self._deadline - now, self._ring)

        def _ring(self) -> None:
            self._timer = None
            if self._timed is None:
                return
            now = self.loop.time()
            if self._parts:  # the expected part may be in these bytes
                self._deadline = now + 1.0
            if now < self._deadline:
                self._wind(now)
            elif self._part is _Part.NONE:
                self.timeout_keep_alive_handler()
            else:
                self._cut("slow-head" if self._part is _Part.HEAD else "slow-body")

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def make_room(self) -> None:
            """Give way to a new connection; answer an open request, or a proxy would send it again."""
            is_open = self._owes() and not self._answering.response_started
            self._cut("made-room", _FULL if is_open else b"")

        def _cut(self, reason: str, last: bytes = b"") -> None:
            """Close the connection, after sending `last` if it is given."""
            count(reason)
            self._is_deaf = True
            self._leave()
            self._stop_timer()
            self._drop_parts()
            self._abandon()
            if last:
                self.transport.write(last)
                self.transport.close()
            else:
                self.transport.abort()

        def _leave(self) -> None:
            strangers.pop(self, None)
            devices.pop(self, None)

        def _abandon(self) -> None:
            """Drop the answer: the app must not write to a transport that is gone.

            uvicorn does this for the latest request, which is not the answered one if requests came ahead.
            """
            if self._answering is not None:
                self._answering.disconnected = True
                self._answering.message_event.set()

    return BoundedProtocol


def _is_gone(request: weakref.ref[Any]) -> bool:
    cycle = request()
    return cycle is None or cycle.disconnected


def _has_body(fields: list[tuple[bytes, bytes]]) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in fields
    )
