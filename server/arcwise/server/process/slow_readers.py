"""Closes connections to clients that do not read their answers: limits on waiting time and waiting bytes.

If a client does not read, uvicorn stops writing to its connection and then waits for ever. A closing
connection that still has something to send waits for ever, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection

_BYTES = 512 << 10
"""For every 512 KiB of a large answer a client has the same time again: it must read 17 kB a second."""


class _Connection(Protocol):
    transport: asyncio.Transport


class SlowReaders:
    """Closes connections whose clients do not read their answers.

    An answer must be read within `seconds`, and the same time again for every 512 KiB that wait. At most
    `most` bytes of answers may wait at the same time over all connections; beyond that, the connections that
    have waited longest are closed, because a client that reads does not wait long. `count` is called for
    every closed connection.
    """

    def __init__(self, seconds: float, most: int, count: Callable[[], object] = lambda: None) -> None:
        self._seconds = seconds
        self._most = most
        self._count = count
        self._deadlines: dict[asyncio.Transport, float] = {}  # the connections that wait, longest first
        self._sizes: dict[asyncio.Transport, int] = {}  # bytes that waited when last checked: an upper bound
        self._total = 0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, loop: asyncio.AbstractEventLoop, connections: Collection[_Connection]) -> None:
        """Watch these connections until no connection is left; call this for every new connection."""
        if self._timer is None:
            self._timer = loop.call_later(self._seconds / 8, self._look, loop, connections)

    def stalled(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        """Note that a transport has more to send than its client takes."""
        size = transport.get_write_buffer_size()
        if size == 0 or transport in self._deadlines:
            return
        self._deadlines[transport] = loop.time() + self._seconds * (1 + size / _BYTES)
        self._sizes[transport] = size
        self._total += size
        if self._total <= self._most:
            return
        # Clients may have read some bytes since then: a stalled connection gets no more data, so sizes only
        # shrink.
        self._sizes = {waiting: waiting.get_write_buffer_size() for waiting in self._deadlines}
        self._total = sum(self._sizes.values())
        for waiting in list(self._deadlines):
            if self._total <= self._most or waiting is transport:
                break
            self._cut(waiting)

    def moved(self, transport: asyncio.Transport) -> None:
        """Note that the client has read the waiting bytes, or that the connection is gone."""
        if self._deadlines.pop(transport, None) is not None:
            self._total -= self._sizes.pop(transport)

    def _look(self, loop: asyncio.AbstractEventLoop, connections: Collection[_Connection]) -> None:
        self._timer = None
        if connections:
            self.watch(loop, connections)
        for connection in connections:
            if connection.transport.is_closing():  # no callback reports this, and few bytes may wait
                self.stalled(loop, connection.transport)
        now = loop.time()
        for transport, deadline in list(self._deadlines.items()):
            if now >= deadline:
                self._cut(transport)

    def _cut(self, transport: asyncio.Transport) -> None:
        self._count()
        self.moved(transport)
        transport.abort()
