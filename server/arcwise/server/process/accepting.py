"""Accepts connections of a listening socket, many per turn of the event loop, and raises the file limit.

uvloop accepts one connection per turn, and a turn lasts until all pending requests have had their turn: a new
connection would wait for hundreds of requests.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING

from arcwise.server.collect.event_loop import Eager

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

_AT_ONCE = 128
"""Most connections that are accepted in a turn: setting them up takes some 20 ms."""
_AT_ONCE_WHEN_FULL = 32
"""Most connections in a turn if each replaces an old one; accepting more would delay answers."""
_PAUSE_SECONDS = 1.0
"""Pause when no file or no memory is left for another connection."""

_log = logging.getLogger("arcwise.server")


class Acceptor:
    """Gives each connection a protocol; if `is_full`, each replaces an old one, and a turn accepts fewer."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        is_full: Callable[[], bool] = lambda: False,
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._make_protocol = make_protocol
        self._is_full = is_full
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._begin()

    async def close(self) -> None:
        """Accept no more, close the socket, and wait until all accepted connections have their protocol."""
        self._loop.remove_reader(self._listener)
        if self._timer is not None:
            self._timer.cancel()
        self._listener.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self) -> None:
        self._loop.add_reader(self._listener, self._take)

    def _take(self) -> None:
        for _ in range(_AT_ONCE_WHEN_FULL if self._is_full() else _AT_ONCE):
            try:
                connection, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return  # if more connections wait, the loop calls this again
            except OSError as error:
                _log.warning("no connections are accepted for a second: %s", error)
                self._loop.remove_reader(self._listener)
                self._timer = self._loop.call_later(_PAUSE_SECONDS, self._begin)
                return
            connection.setblocking(False)
            try:  # immediately: a task would begin in the next turn, which may be long
                begun = Eager(self._loop.connect_accepted_socket(self._make_protocol, connection))
            except OSError:  # the connection has ended in the meantime
                connection.close()
                continue
            task = self._loop.create_task(_finish(connection, begun))
            self._tasks.add(task)  # because the loop itself keeps no task alive
            task.add_done_callback(self._tasks.discard)


async def _finish(connection: socket.socket, begun: Awaitable[object]) -> None:
    try:
        await begun
    except OSError:
        connection.close()


_OTHERS = 256
"""Open files that are not connections: of the store, the log, libraries and the process of estimates."""

_log = logging.getLogger("arcwise.server")


def allow_files(connections: int) -> None:
    """Raise this process's limit on open files, often 1024, to the number that these connections need.

    The administrator's limit is not exceeded; if it is too low, a warning is logged.
    """
    if sys.platform == "win32":  # this system has no such limit
        return
    import resource

    needed = connections + _OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    within = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (within, hard))
    if within < needed:
        _log.warning(
            "%d connections need %d open files, but the limit is %d: lower max_connections or raise the "
            "limit (ulimit -n, LimitNOFILE), or new connections will wait",
            connections,
            needed,
            within,
        )
