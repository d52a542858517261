"""Results for pages: a page waits briefly, and shows the results that are ready by then.

A result is shown until a newer one is ready. It is computed again only when somebody looks, and not before
ten seconds, or twenty times its own computing time, have passed. So open pages take at most a twentieth of a
core, regardless of their number. A result that nobody has looked at for minutes is forgotten, because its
reports may have been deleted.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from arcwise.server.access.rates import Shares
from arcwise.server.problems import Problem, internal_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Sequence

_LEAST_SECONDS = 10.0
_TIMES = 20.0
_BRIEF_SECONDS = 1.0
"""Seconds that a problem or a no-reports notice is shown: the sender of a first report looks immediately."""

_OLD_SECONDS = 120.0
"""Seconds that an outdated result is still shown; open pages ask much more often."""

_BUSY = "estimates-busy"
"""The kind of a problem that goes away by itself."""

_MAX_LARGE = 64
"""Most large results that are kept: they have some 100 kB each, or more for tasks with a thousand codes."""

_MAX_KEPT = 1024

_MAX_WAITING = 256
_MAX_OF_READER = 64
"""Most waiting results of one reader: more than the cards of one overview need."""

_log = logging.getLogger("arcwise.server")


@dataclass(frozen=True)
class Wanted:
    """A result that a page wants.

    Pages that want the same `key` share one result. The lowest `rank` is computed first; overviews want many
    small results and give them ranks above 0. A result is shown again for at least `seconds`, unless
    `is_empty` says that it has no reports.
    """

    key: Hashable
    make: Callable[[], Awaitable[Any]]
    rank: int = 0
    seconds: float = _LEAST_SECONDS
    is_empty: Callable[[Any], bool] = lambda _result: False


@dataclass
class _Kept:
    value: Any
    problem: Problem | None
    large: bool
    made: float
    took: float

    def is_fresh(self, wanted: Wanted, now: float, *, for_longer: float = 0.0) -> bool:
        """Return whether the result is shown without being computed again."""
        least = _BRIEF_SECONDS if self.is_brief(wanted) else max(wanted.seconds, _TIMES * self.took)
        return now - self.made < least + for_longer

    def is_brief(self, wanted: Wanted) -> bool:
        """Return whether a page waits briefly for a newer result."""
        return self.problem is not None or wanted.is_empty(self.value)


@dataclass(order=True)
class _Waiting:
    rank: int
    turn: int
    number: int
    wanted: Wanted = field(compare=False)
    reader: str = field(compare=False)
    done: asyncio.Event = field(compare=False, default_factory=asyncio.Event)


class Later:
    """Computes the results that pages want, one after the other, and keeps the last result for each key.

    `now` is a clock in seconds that never goes back.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._kept: dict[Hashable, _Kept] = {}  # least recently used first
        self._waiting: dict[Hashable, _Waiting] = {}
        self._heap: list[_Waiting] = []
        self._numbers = count()
        self._shares = Shares()
        self._of_reader: Counter[str] = Counter()
        self._worker: asyncio.Task[None] | None = None

    async def get(self, wanted: Sequence[Wanted], seconds: float, reader: str = "") -> list[Any]:
        """Return the results, with None in place of each that is still missing after `seconds`.

        The results of one `reader` are computed one after the other, in turns with the results of other
        readers. Raises the `Problem` of a result that could not be computed.
        """
        now = self._now()
        events = []
        for each in wanted:
            kept = self._not_old(each)
            if kept is None or not kept.is_fresh(each, now):
                waiting = self._ask(each, reader)
                if waiting is not None and (kept is None or kept.is_brief(each)):
                    events.append(asyncio.ensure_future(waiting.done.wait()))
        if events:
            _, late = await asyncio.wait(events, timeout=seconds)
            for event in late:
                event.cancel()
        return [self._found(each.key) for each in wanted]

    def want(self, wanted: Wanted, reader: str = "") -> None:
        """Have a result computed if it is missing or old; `peek` returns it some time later."""
        kept = self._not_old(wanted)
        if kept is None or not kept.is_fresh(wanted, self._now()):
            self._ask(wanted, reader)

    def peek(self, key: Hashable) -> Any:
        """Return the kept result, or None, without computing anything."""
        kept = self._kept.get(key)
        return None if kept is None else kept.value

    def close(self) -> None:
        """Stop computing; call it on the event loop."""
        if self._worker is not None:
            self._worker.cancel()

    def _not_old(self, wanted: Wanted) -> _Kept | None:
        """Return the kept result unless it is too old to be shown; forget it if it is."""
        kept = self._kept.get(wanted.key)
        if kept is not None and not kept.is_fresh(wanted, self._now(), for_longer=_OLD_SECONDS):
            del self._kept[wanted.key]
            return None
        return kept

    def _found(self, key: Hashable) -> Any:
        kept = self._kept.pop(key, None)
        if kept is None:
            return None
        self._kept[key] = kept
        if kept.problem is not None:
            raise kept.problem.with_traceback(None)  # a traceback would keep the frames of every reader
        return kept.value

    def _ask(self, wanted: Wanted, reader: str) -> _Waiting | None:
        waiting = self._waiting.get(wanted.key)
        if waiting is None:
            if self._of_reader[reader] >= _MAX_OF_READER or not self._has_room(reader):
                return None  # the page will ask again
            turn = self._shares.turn(reader)
            waiting = _Waiting(wanted.rank, turn, next(self._numbers), wanted, reader)
            self._waiting[wanted.key] = waiting
            self._of_reader[reader] += 1
            heapq.heappush(self._heap, waiting)
            if self._worker is None or self._worker.done():
                self._worker = asyncio.create_task(self._work(), name="arcwise-pages")
        elif waiting.reader != reader and waiting in self._heap:
            # A reader who shares a result with a busy reader does not wait as long as the busy reader.
            waiting.turn = min(waiting.turn, self._shares.turn(reader))
            heapq.heapify(self._heap)
        return waiting

    def _has_room(self, reader: str) -> bool:
        """Return whether a result may wait; in a full line, the busiest reader's last result gives way."""
        if len(self._waiting) < _MAX_WAITING:
            return True
        longest, most = self._of_reader.most_common(1)[0]
        theirs = [each for each in self._heap if each.reader == longest]
        if not theirs or most <= self._of_reader[reader] + 1:
            return False
        last = max(theirs)
        self._heap.remove(last)
        heapq.heapify(self._heap)
        self._forget(last)
        return True

    def _forget(self, waiting: _Waiting) -> None:
        """End the waiting for a result."""
        del self._waiting[waiting.wanted.key]
        self._of_reader[waiting.reader] -= 1
        self._of_reader += Counter()  # drops readers with nothing waiting
        waiting.done.set()

    async def _work(self) -> None:
        while self._heap:
            waiting = heapq.heappop(self._heap)
            self._shares.begin(waiting.turn)
            key, began = waiting.wanted.key, self._now()
            value, problem = None, None
            try:
                value = await waiting.wanted.make()
            except Problem as found:
                problem = found
            except asyncio.CancelledError:
                raise
            except Exception:
                problem = internal_error()
                _log.exception("the figures of a page could not be computed")
            took = self._now() - began
            # If the server is busy, the old result stays and pages ask again.
            if problem is None or problem.kind != _BUSY:
                self._keep(key, _Kept(value, problem, waiting.rank == 0, self._now(), took))
            self._forget(waiting)

    def _keep(self, key: Hashable, kept: _Kept) -> None:
        self._kept.pop(key, None)
        self._kept[key] = kept
        large = [each for each, other in self._kept.items() if other.large]
        for each in large[: max(len(large) - _MAX_LARGE, 0)]:
            del self._kept[each]
        while len(self._kept) > _MAX_KEPT:
            del self._kept[next(iter(self._kept))]
