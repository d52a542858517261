"""Lanes: what connections have sent is parsed in turn, for a few milliseconds in each pass of the event loop.

What one request costs is bounded, but a pass reads from all connections that have something, and an honest
report, which needs several passes, would wait for as many requests as strangers care to send at once. Those
whose next part is costly wait for those whose is not, and have a part of each pass in which they go first.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

STANDING = "arcwise.standing"
"""In the scope of a request: the `Standing` of its connection."""

_PASS_SECONDS = 0.01
"""Of a pass, and at most one part more; the costliest 4 KiB take a millisecond or two."""
_COSTLY_SECONDS = 0.0025
"""Of a pass, for costly parts: no others go first in that time, however many there are."""
_REST_SECONDS = 0.001
"""Between passes while a line waits: the store's thread needs the interpreter, too."""


class Standing:
    """Whether the last request of a connection had a good key: those that did have a lane of their own."""

    __slots__ = ("is_known",)

    def __init__(self) -> None:
        self.is_known = False


class _Reader(Protocol):
    @property
    def is_costly(self) -> bool:
        """Whether the next part takes many times as long as that of a report; asked while there is one."""

    def read_on(self) -> bool:
        """Parse one part of what has come; return whether there is more."""


class Lane:
    """Lets connections parse: at once while there is time in this pass, else one part each, in turn.

    There are two lines, and costly parts wait in one of their own.

    `clock` counts seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._cheap: deque[_Reader] = deque()
        self._costly: deque[_Reader] = deque()
        self._left = _PASS_SECONDS
        self._is_due = False  # the next pass is asked for

    def enter(self, loop: asyncio.AbstractEventLoop, reader: _Reader) -> bool:
        """Let a connection parse; return whether it has to wait with the rest, or with all of it."""
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._pass, loop)
        while self._is_free(reader.is_costly):
            if not self._step(reader):
                return False
        self._queue(reader)
        return True

    def _is_free(self, is_costly: bool) -> bool:
        if is_costly:
            return not self._costly and self._left > _PASS_SECONDS - _COSTLY_SECONDS
        return not self._cheap and self._left > 0

    def _queue(self, reader: _Reader) -> None:
        (self._costly if reader.is_costly else self._cheap).append(reader)

    def _step(self, reader: _Reader) -> bool:
        begun = self._clock()
        try:
            return reader.read_on()
        finally:
            self._left -= self._clock() - begun

    def _pass(self, loop: asyncio.AbstractEventLoop) -> None:
        self._left = _PASS_SECONDS
        try:
            self._work(self._costly, _PASS_SECONDS - _COSTLY_SECONDS)
            self._work(self._cheap)
            self._work(self._costly)
        finally:  # whatever happens to one connection, the others go on
            self._is_due = bool(self._cheap or self._costly)
            if self._is_due:
                loop.call_later(_REST_SECONDS, self._pass, loop)

    def _work(self, line: deque[_Reader], kept: float = 0.0) -> None:
        """Let those in a line parse until no more than `kept` seconds of this pass are left."""
        while line and self._left > kept:
            reader = line.popleft()
            if self._step(reader):
                self._queue(reader)
