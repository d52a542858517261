"""Takes the connections of a listening socket, many in a turn of the event loop, and allows them their files.

uvloop takes one in a turn, which lasts as long as all requests that are there: a new connection waited for
hundreds of them.
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
"""Connections in a turn: to set up so many takes some 20 ms."""
_AT_ONCE_WHEN_FULL = 32
"""While each takes the place of another: more of them would leave little time for answers."""
_PAUSE_SECONDS = 1.0
"""When no file or no memory is left for another connection."""

_log = logging.getLogger("arcwise.server")


class Acceptor:
    """Gives each connection a protocol; takes fewer at once while `is_full` says that each ends another."""

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
        """Take no more, close the socket, and wait until those that were taken have their protocol."""
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
                return  # if others wait, the loop calls again
            except OSError as error:
                _log.warning("no connections are taken for a second: %s", error)
                self._loop.remove_reader(self._listener)
                self._timer = self._loop.call_later(_PAUSE_SECONDS, self._begin)
                return
            connection.setblocking(False)
            try:  # at once: a task would begin in the next turn, which may be long
                begun = Eager(self._loop.connect_accepted_socket(self._make_protocol, connection))
            except OSError:  # it has ended meanwhile
                connection.close()
                continue
            task = self._loop.create_task(_finish(connection, begun))
            self._tasks.add(task)  # the loop itself keeps no task alive
            task.add_done_callback(self._tasks.discard)


async def _finish(connection: socket.socket, begun: Awaitable[object]) -> None:
    try:
        await begun
    except OSError:
        connection.close()


_OTHERS = 256
"""Those that are no connections: the store's, the log, libraries, the process of estimates."""

_log = logging.getLogger("arcwise.server")


def allow_files(connections: int) -> None:
    """Raise this process's limit on open files, often 1024, to what so many connections take.

    It goes no higher than the administrator lets it; the log says where that is too low.
    """
    if sys.platform == "win32":  # it has no such limit
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
            "%d connections need %d open files, but the limit is %d: set max_connections lower or the limit "
            "(ulimit -n, LimitNOFILE) higher, or new ones will wait",
            connections,
            needed,
            within,
        )
