"""Whose turn it is where many readers wait for one thing: all have the same share, however much they ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.server.rates import address_of

if TYPE_CHECKING:
    from starlette.types import Scope


MOST_OF_READER = 12
"""Questions, or pages, of one reader that wait for one thing at once; further ones are refused."""


class Shares:
    """Start-time fair queueing with equal shares: what has the lowest turn is next.

    Examples
    --------
    >>> shares = Shares()
    >>> [shares.turn(reader) for reader in ("a", "a", "a", "b")]
    [1, 2, 3, 1]
    >>> shares.begin(2)
    >>> shares.turn("c")
    3
    """

    def __init__(self) -> None:
        self._now = 0
        self._last: dict[str, int] = {}

    def turn(self, reader: str) -> int:
        """Return the turn of a reader's next question: behind its own, and beside the first of all others."""
        turn = self._last[reader] = max(self._last.get(reader, 0), self._now) + 1
        return turn

    def begin(self, turn: int) -> None:
        """Note that what has this turn begins; readers whose questions are all answered are forgotten."""
        if turn > self._now:
            self._now = turn
            self._last = {reader: last for reader, last in self._last.items() if last > turn}


def reader_of(key_id: str, scope: Scope) -> str:
    """Return whose share a request counts for: that of its key, or of its address where it has none."""
    return key_id or address_of(scope)
