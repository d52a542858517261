"""Lanes: what connections have sent is parsed in turn, for a few milliseconds in each pass of the event loop.

What one request costs is bounded, but a pass reads from all connections that have something, and an honest
report, which needs several passes, would wait for as many requests as strangers care to send at once.
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
_REST_SECONDS = 0.001
"""Between passes while a line waits: the store's thread needs the interpreter, too."""


class Standing:
    """Whether the last request of a connection had a good key: those that did have a lane of their own."""

    __slots__ = ("is_known",)

    def __init__(self) -> None:
        self.is_known = False


class _Reader(Protocol):
    def read_on(self) -> bool:
        """Parse one part of what has come; return whether there is more."""


class Lane:
    """Lets connections parse: at once while there is time in this pass, else one part each, in turn.

    `clock` counts seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._line: deque[_Reader] = deque()
        self._left = _PASS_SECONDS
        self._is_due = False  # the next pass is asked for

    def enter(self, loop: asyncio.AbstractEventLoop, reader: _Reader) -> bool:
        """Let a connection parse; return whether it has to wait with the rest, or with all of it."""
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._pass, loop)
        while not self._line and self._left > 0:
            if not self._step(reader):
                return False
        self._line.append(reader)
        return True

    def _step(self, reader: _Reader) -> bool:
        begun = self._clock()
        try:
            return reader.read_on()
        finally:
            self._left -= self._clock() - begun

    def _pass(self, loop: asyncio.AbstractEventLoop) -> None:
        self._left = _PASS_SECONDS
        try:
            while self._line and self._left > 0:
                reader = self._line.popleft()
                if self._step(reader):
                    self._line.append(reader)
        finally:  # whatever happens to one connection, the others go on
            self._is_due = bool(self._line)
            if self._is_due:
                loop.call_later(_REST_SECONDS, self._pass, loop)
