"""Lanes: received bytes are parsed in turns, for a few milliseconds in each pass of the event loop.

The cost of one request is bounded, but a pass reads from all connections that have received something. An
honest report needs several passes, so it would wait for all requests that strangers send at the same time.
Connections whose next part is costly wait for all other connections, but go first in a fixed share of each
pass.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

STANDING = "arcwise.standing"
"""Key in a request's scope: the `Standing` of its connection."""

_PASS_SECONDS = 0.01
"""Seconds of parsing in a pass, plus one more part at most: the costliest 4 KiB take a millisecond or two."""
_COSTLY_SECONDS = 0.0025
"""Seconds of a pass in which costly parts go first, for any number of other parts."""
_REST_SECONDS = 0.001
"""Seconds between passes while a line waits, because the store's thread needs the interpreter, too."""


class Standing:
    """Whether the last request of a connection had a valid key; such connections have their own lane."""

    __slots__ = ("is_known",)

    def __init__(self) -> None:
        self.is_known = False


class _Reader(Protocol):
    @property
    def is_costly(self) -> bool:
        """Whether the next part takes many times as long as a report; valid only if a part is waiting."""

    def read_on(self) -> bool:
        """Parse one part of the received bytes; return whether there is more."""


class Lane:
    """Lets connections parse: immediately while this pass has time left, and then one part each, in turn.

    There are two lines: one for costly parts, and one for all other parts. `clock` counts seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._cheap: deque[_Reader] = deque()
        self._costly: deque[_Reader] = deque()
        self._left = _PASS_SECONDS
        self._is_due = False  # whether the next pass is scheduled

    def enter(self, loop: asyncio.AbstractEventLoop, reader: _Reader) -> bool:
        """Let a connection parse; return whether some or all of its bytes have to wait."""
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
        finally:  # an error of one connection must not stop the others
            self._is_due = bool(self._cheap or self._costly)
            if self._is_due:
                loop.call_later(_REST_SECONDS, self._pass, loop)

    def _work(self, line: deque[_Reader], kept: float = 0.0) -> None:
        """Let the connections of a line parse until at most `kept` seconds of this pass are left."""
        while line and self._left > kept:
            reader = line.popleft()
            if self._step(reader):
                self._queue(reader)
