"""How often one key or one address may ask, and whose turn it is where many readers wait for one thing.

Addresses are kept as digests under a key that nobody sees.
"""

from __future__ import annotations

import math
import os
import time
from hashlib import blake2b
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from arcwise.server.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Scope

_MOST = 100_000
_ROTATION_SECONDS = 600.0

MOST_OF_READER = 12
"""Questions, or pages, of one reader that wait for one thing at once; further ones are refused."""


class Rate:
    """Allows each sender at most `per_minute` requests a minute, and as many at once, in memory only.

    The generic cell rate algorithm: one number per sender, the time at which its bucket is empty again.
    Senders are known by a digest under a random key that is drawn anew every ten minutes, when all senders
    are forgotten. At most 100,000 are kept; those that asked least recently are forgotten first. A
    `per_minute` of 0 means no limit.

    Examples
    --------
    >>> rate = Rate(2)
    >>> [rate.wait("a"), rate.wait("a"), rate.wait("b")]
    [0, 0, 0]
    >>> 29 <= rate.wait("a") <= 30
    True
    """

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._cost = 60.0 / per_minute if per_minute else 0.0
        self._clock = clock
        self._empty_at: dict[bytes, float] = {}
        self._key = b""
        self._rotate_at = -math.inf

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self._per_minute > 0

    def wait(self, sender: str) -> int:
        """Count a request; return 0, or after how many seconds it may come again: then it was not counted."""
        if not self._per_minute:
            return 0
        now = self._clock()
        if now >= self._rotate_at or len(self._empty_at) >= _MOST:
            self._forget(now)
        name = blake2b(sender.encode(), key=self._key, digest_size=16).digest()
        empty_at = max(self._empty_at.get(name, now), now) + self._cost
        # A full bucket takes a minute to run empty. The slack is what sums of floats may be off.
        over = empty_at - now - 60.0 - 1e-9 * self._cost
        if over > 0:
            return max(1, math.ceil(over))
        self._empty_at[name] = empty_at
        return 0

    def slow_down(self, sender: str) -> None:
        """Count a request; raises a 429 `Problem` when it came too early."""
        if seconds := self.wait(sender):
            raise Problem(
                429,
                "too-many-requests",
                "This key or address has sent too many requests; wait as long as Retry-After says.",
                headers={"Retry-After": str(seconds)},
            )

    def _forget(self, now: float) -> None:
        if now >= self._rotate_at:
            self._key = os.urandom(32)
            self._rotate_at = now + _ROTATION_SECONDS
            self._empty_at.clear()
            return
        # Empty buckets are those of nobody; where too many are not, half of them go.
        kept = sorted((item for item in self._empty_at.items() if item[1] > now), key=lambda item: -item[1])
        self._empty_at = dict(kept[: _MOST // 2])


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


def address_of(scope: Scope) -> str:
    """Return whom a request counts for: its IPv4 address, or the /64 of its IPv6 address (one sender's)."""
    address = exact_address_of(scope)
    try:
        number = int(IPv6Address(address))
    except ValueError:
        return address
    return str(IPv6Address(number >> 64 << 64))


def exact_address_of(scope: Scope) -> str:
    """Return the address that a request comes from, as `plain_address` writes it; "" where it has none."""
    client = scope.get("client")
    if not client:
        return ""
    try:
        return plain_address(str(client[0]))
    except ValueError:
        return str(client[0])


def plain_address(text: str) -> str:
    """Return an address in the usual form, IPv4 where it is one; raises `ValueError` for another text."""
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
