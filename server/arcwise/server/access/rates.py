"""Rate limits of keys and addresses, and fair turns where many readers wait for the same resource.

Addresses are kept as digests under a secret random key.
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
"""Most questions, or pages, of one reader that may wait at the same time; more are refused."""


class Rate:
    """Allows each sender at most `per_minute` requests a minute, in a burst or spread out, in memory only.

    This is the generic cell rate algorithm. It keeps one number per sender: the time at which its bucket is
    empty again. Senders are known by a digest under a random key. Every ten minutes a new key is drawn and
    all senders are forgotten. At most 100,000 are kept; those that asked least recently are forgotten first.
    A `per_minute` of 0 means no limit.

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
        """Count a request and return 0; if it is too early, return the seconds to wait instead."""
        if not self._per_minute:
            return 0
        now = self._clock()
        if now >= self._rotate_at or len(self._empty_at) >= _MOST:
            self._forget(now)
        name = blake2b(sender.encode(), key=self._key, digest_size=16).digest()
        empty_at = max(self._empty_at.get(name, now), now) + self._cost
        # A full bucket takes a minute to empty. The slack allows for rounding in sums of floats.
        over = empty_at - now - 60.0 - 1e-9 * self._cost
        if over > 0:
            return max(1, math.ceil(over))
        self._empty_at[name] = empty_at
        return 0

    def slow_down(self, sender: str) -> None:
        """Count a request; raise a 429 `Problem` when it came too early."""
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
        # Empty buckets are dropped; if too many are not empty, the half that empties first goes.
        kept = sorted((item for item in self._empty_at.items() if item[1] > now), key=lambda item: -item[1])
        self._empty_at = dict(kept[: _MOST // 2])


class Shares:
    """Start-time fair queueing with equal shares: the question with the lowest turn is next.

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
        """Return the turn of a reader's next question: one after its last turn, or after the present turn."""
        turn = self._last[reader] = max(self._last.get(reader, 0), self._now) + 1
        return turn

    def begin(self, turn: int) -> None:
        """Note that the question with this turn begins; forget readers whose questions are all answered."""
        if turn > self._now:
            self._now = turn
            self._last = {reader: last for reader, last in self._last.items() if last > turn}


def address_of(scope: Scope) -> str:
    """Return the sender that a request counts for: its IPv4 address, or the /64 of its IPv6 address."""
    address = exact_address_of(scope)
    try:
        number = int(IPv6Address(address))
    except ValueError:
        return address
    return str(IPv6Address(number >> 64 << 64))


def exact_address_of(scope: Scope) -> str:
    """Return the address that a request comes from, as `plain_address` writes it; "" if it has none."""
    client = scope.get("client")
    if not client:
        return ""
    try:
        return plain_address(str(client[0]))
    except ValueError:
        return str(client[0])


def plain_address(text: str) -> str:
    """Return an address in the usual form, as IPv4 if possible; raise `ValueError` for any other text."""
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
