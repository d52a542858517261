"""What a device has spent: the ledger that every report is charged to before it is randomised.

Charges are integers in micro-epsilon, so that a thousand of them add up exactly. A charge is never refunded.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from arcwise.tasks import micro_epsilon

if TYPE_CHECKING:
    from arcwise.tasks import Task

__all__ = ["Ledger", "MemoryLedger"]


class Ledger(Protocol):
    """Where a client writes down what it spends. Implementations are safe to call from several threads."""

    def charge(self, task: Task, now: float) -> bool:
        """Charge one report of `task` at the Unix time `now`; False, and no charge, when a cap forbids it."""

    def spent(self, task: Task) -> int:
        """Return what was charged for `task` in all, in micro-epsilon."""


class _Terms(NamedTuple):
    """What one report of a task costs and what bounds it; derived once per task, not once per report."""

    charge: int
    lifetime: int | None
    rolling: int | None
    window: int


@lru_cache(maxsize=256)
def _terms(task: Task) -> _Terms:
    caps = task.caps
    return _Terms(micro_epsilon(task.epsilon), caps.lifetime_micro, caps.rolling_micro, caps.window)


# One lock for all memory ledgers: a ledger stays three words until it is used, a charge holds the lock for
# well under a microsecond, and a forked child has one lock to renew instead of an unknown number.
_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603 (another thread of the parent may have held it at the fork)
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class MemoryLedger:
    """A ledger that lasts as long as its process.

    The ledger's time is the largest it has ever been given, so a clock that steps back opens no new window:
    charges then stay in the rolling window until the clock has caught up. A fork copies the ledger: from
    there on parent and child spend separately, each up to the caps.

    Examples
    --------
    >>> from arcwise.domains import Circle
    >>> from arcwise.tasks import Caps, Task
    >>> task = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=2.0))
    >>> ledger = MemoryLedger()
    >>> [ledger.charge(task, now) for now in (0.0, 1.0, 2.0)]
    [True, True, False]
    >>> ledger.spent(task)
    2000000
    """

    __slots__ = ("_now", "_recent", "_spent")

    def __init__(self) -> None:
        self._now = float("-inf")
        self._spent: dict[str, int] | None = None
        # Times of the charges that a rolling cap still counts, oldest first; only for tasks with such a cap.
        self._recent: dict[str, deque[float]] | None = None

    def charge(self, task: Task, now: float) -> bool:
        """Charge one report of `task` at the Unix time `now`; False, and no charge, when a cap forbids it."""
        charge, lifetime, rolling, window = _terms(task)
        with _lock:
            self._now = max(self._now, now)
            if self._spent is None:
                self._spent = {}
            spent = self._spent.get(task.id, 0) + charge
            if lifetime is not None and spent > lifetime:
                return False
            # A charge of 0 (delta only) fits any cap; entering it would fill the window without end.
            if rolling is not None and charge and not self._fits_window(task.id, charge, rolling, window):
                return False
            self._spent[task.id] = spent
            return True

    def _fits_window(self, task_id: str, charge: int, rolling: int, window: int) -> bool:
        """Drop what has left the window, then enter one more charge if the cap allows it."""
        if self._recent is None:
            self._recent = {}
        recent = self._recent.setdefault(task_id, deque())
        while recent and self._now - recent[0] >= window:
            recent.popleft()
        if (len(recent) + 1) * charge > rolling:
            return False
        recent.append(self._now)
        return True

    def spent(self, task: Task) -> int:
        """Return what was charged for `task` in all, in micro-epsilon."""
        return 0 if self._spent is None else self._spent.get(task.id, 0)
