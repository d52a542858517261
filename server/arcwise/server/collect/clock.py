"""The server's clock, and the believed time, which decides when epochs close.

The believed time is the clock's time, except after the clock jumped ahead. Closed epochs stay closed, so a
clock that jumps ahead, even for an hour, must not close the present epoch.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

from arcwise.server.store.epochs import GAP_SECONDS
from arcwise.tasks import DAY

if TYPE_CHECKING:
    from arcwise.server.store import Store

_RATE = 2.0
"""Most seconds by which the believed time rises towards the machine's clock in one second."""
_STEP_SECONDS = 60
"""Least step by which the stored time is raised: one commit a minute, for any number of workers."""


class Clock(Protocol):
    """The clock that a server reads; the module `time` is such a clock."""

    def time(self) -> float:
        """Return the time of day, in Unix seconds."""

    def monotonic(self) -> float:
        """Return seconds that only go forward."""


class EpochClock:
    """The machine's clock, and the believed time, which decides when epochs close.

    The store keeps the latest time ever believed, which rises towards the machine's clock by at most two
    seconds for each second that a worker runs. The believed time is the lower of this latest time and the
    machine's time. When the machine's clock is set back, the believed time follows immediately. After a jump
    ahead, or a time without a server, it rises slowly. Several workers do not raise it faster than one
    worker, because each starts from the time in the store.
    """

    def __init__(self, clock: Clock = time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._latest: float | None = None
        self._at = 0.0
        self._unsure_until: float | None = None
        self._lag = 0.0  # by which the believed time is behind the machine's, as far as known gaps explain it

    def now(self) -> float:
        """Return the machine's time, in Unix seconds."""
        return self._clock.time()

    def believed(self) -> float:
        """Return the believed time, in Unix seconds; it is the machine's time until a store is read."""
        now = self._clock.time()
        return min(now, self._reached(now))

    @property
    def is_behind(self) -> bool:
        """Whether the machine's clock is more than a day behind the latest time that was believed."""
        now = self._clock.time()
        return self._reached(now) > now + DAY

    @property
    def is_ahead(self) -> bool:
        """Whether the machine's clock is more than a day ahead of the believed time."""
        now = self._clock.time()
        return self._reached(now) < now - DAY

    @property
    def unsure_until(self) -> float | None:
        """The end, in Unix seconds, of a period in which this store may have been an unused backup, or None.

        A restored store has the believed time of its backup, and looks like a store without a server since
        then. The original store may have released the epochs that closed in between. If the clock is behind
        at first, this gap shows only when the clock is corrected. So the time that a jump ahead skips counts
        as such a period, too.
        """
        with self._lock:
            return self._unsure_until

    def _reached(self, now: float) -> float:
        """Return the latest believed time, which rises towards the machine's time but not above it."""
        with self._lock:
            if self._latest is None:
                return now
            return max(self._latest, min(now, self._latest + _RATE * (self._clock.monotonic() - self._at)))

    def keep(self, store: Store, *, is_empty: bool) -> None:
        """Take over the time that other workers believed, and store the time that this worker believes.

        `is_empty` says that no report is counted yet. Then there is nothing to close, and the machine's time
        replaces the stored time, which may be wrong, because many machines start with a wrong time. Raises
        `StoreError` when the store cannot be read or written; the believed time still advances.
        """
        now = self._clock.time()
        reached = self._reached(now)  # in a worker that has just started, the machine's time
        stored = store.clock()
        if stored is None or is_empty:
            reached = now
        elif self._latest is None:
            reached = stored
        if is_empty and stored is not None and now < stored:
            stored = store.advance_clock(int(now), reset=True)  # the clock was wrong when the store was new
        elif stored is None or reached >= stored + _STEP_SECONDS:
            stored = store.advance_clock(int(reached))
        with self._lock:
            self._latest, self._at = max(reached, stored), self._clock.monotonic()
            lag = now - self._latest
            if lag > self._lag + GAP_SECONDS:
                self._unsure_until, self._lag = now, lag
            elif self._unsure_until is not None:  # the clock may have been ahead
                self._unsure_until = min(self._unsure_until, now)
            self._lag = max(0.0, min(self._lag, lag))
