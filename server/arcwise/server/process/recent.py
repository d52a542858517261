"""The work of a worker in the last minutes: sums over slots of ten seconds, in memory, for the operator page.

Nothing is kept at a finer resolution, and nothing identifies a sender.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SLOT_SECONDS = 10
_SLOTS = 90
"""Number of slots that are kept: a quarter of an hour."""

# Bins of latencies, each 2^(1/4) times as wide as the bin before: the error of a median is at most 9 %.
_FIRST_SECONDS = 50e-6
_BINS_PER_DOUBLING = 4
_BINS = 22 * _BINS_PER_DOUBLING


class Recent(NamedTuple):
    """The work of a worker in the last minutes.

    `seconds` is the time covered, up to now; it is shorter than requested if the worker is younger.
    `replayed` are batches that had been counted before, and `refused` are requests answered with a problem,
    by its kind, the most frequent first. `commits` and `failed` are groups of batches that the store accepted
    and did not accept; `commit_median` and `commit_worst` are the seconds for a group, None without commits.
    The error of the median is at most 9 %.
    """

    seconds: float
    reports: int
    batches: int
    replayed: int
    refused: Mapping[str, int]
    commits: int
    failed: int
    commit_median: float | None
    commit_worst: float | None


class _Slot:
    __slots__ = ("batches", "bins", "failed", "number", "refused", "replayed", "reports", "worst")

    def __init__(self, number: int) -> None:
        self.number = number
        self.reports = self.batches = self.replayed = self.failed = 0
        self.refused: dict[str, int] = {}
        self.bins: dict[int, int] = {}
        self.worst = 0.0


class RecentSlots:
    """Adds up events and forgets them after a quarter of an hour; may be used from any thread."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._start = monotonic()
        self._slots: deque[_Slot] = deque([_Slot(0)], maxlen=_SLOTS)  # slots without events are left out
        self._lock = threading.Lock()

    def _slot(self) -> _Slot:
        number = int((self._monotonic() - self._start) // _SLOT_SECONDS)
        last = self._slots[-1]
        if number > last.number:
            last = _Slot(number)
            self._slots.append(last)
        return last

    def added(self, reports: int, batches: int, replayed: int, seconds: float) -> None:
        """Count a group that the store accepted, and the seconds that it took."""
        doublings = math.log2(max(seconds, _FIRST_SECONDS) / _FIRST_SECONDS)
        place = min(int(doublings * _BINS_PER_DOUBLING), _BINS)
        with self._lock:
            slot = self._slot()
            slot.reports += reports
            slot.batches += batches
            slot.replayed += replayed
            slot.bins[place] = slot.bins.get(place, 0) + 1
            slot.worst = max(slot.worst, seconds)

    def failed(self) -> None:
        """Count a group that the store did not accept."""
        with self._lock:
            self._slot().failed += 1

    def refused(self, kind: str) -> None:
        """Count an answer with a problem."""
        with self._lock:
            refused = self._slot().refused
            refused[kind] = refused.get(kind, 0) + 1

    def read(self, seconds: float) -> Recent:
        """Return the work of the last `seconds`, at most a quarter of an hour."""
        with self._lock:
            now = self._monotonic() - self._start
            last = int(now // _SLOT_SECONDS)
            wanted = min(math.ceil(seconds / _SLOT_SECONDS), _SLOTS)
            first = max(last - wanted + 1, 0)
            every = [slot for slot in self._slots if slot.number >= first]
            refused: dict[str, int] = {}
            bins: dict[int, int] = {}
            for slot in every:
                for kind, number in slot.refused.items():
                    refused[kind] = refused.get(kind, 0) + number
                for place, number in slot.bins.items():
                    bins[place] = bins.get(place, 0) + number
            worst = max((slot.worst for slot in every), default=0.0)
            return Recent(
                seconds=now - first * _SLOT_SECONDS,
                reports=sum(slot.reports for slot in every),
                batches=sum(slot.batches for slot in every),
                replayed=sum(slot.replayed for slot in every),
                refused=dict(sorted(refused.items(), key=lambda item: (-item[1], item[0]))),
                commits=sum(bins.values()),
                failed=sum(slot.failed for slot in every),
                commit_median=_median(bins, worst) if bins else None,
                commit_worst=worst if bins else None,
            )


def _median(bins: Mapping[int, int], worst: float) -> float:
    left = (sum(bins.values()) + 1) // 2
    for place in sorted(bins):
        left -= bins[place]
        if left <= 0:
            return min(_FIRST_SECONDS * 2 ** ((place + 0.5) / _BINS_PER_DOUBLING), worst)
    raise AssertionError("a median of no values")
