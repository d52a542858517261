"""The rules for when to send and what an answer means, without any input or output.

The sync and the async uplink share these rules, so both always behave alike.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING, Final

from arcwise.client.environment import MACHINE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ACKNOWLEDGED: Final = 204
FIRST_BACKOFF: Final = 1.0
_LONGEST_BACKOFF: Final = 3600.0
_LONGEST_RETRY_AFTER: Final = 86_400.0
STEPS: Final = (60.0, 3600.0, _LONGEST_RETRY_AFTER)
"""The waits that a server can ask for: a minute, an hour, a day. Other waits are rounded up to these."""


class Verdict(Enum):
    """The meaning of a server's answer for the batch."""

    SENT = "sent"
    """The server has the batch: it answered 204, its only acknowledgement."""
    RETRY = "retry"
    """The network or the server is in trouble, or something other than an arcwise server answered. The same
    bytes are sent again after a wait; batches of all tasks wait.
    """
    KEEP = "keep"
    """The server does not know the task yet: only the batches of this task wait."""
    PAUSE = "pause"
    """The server refuses this client: everything waits for a long time."""
    DROP = "drop"
    """The server will never accept the batch."""


def classify(status: int) -> Verdict:
    """Return the meaning of an HTTP status.

    An arcwise server acknowledges a batch only with 204, and sends no other status below 400. A 200 or a
    redirect comes from a captive portal, a proxy or a wrong host. The server has not counted the batch then,
    but may do so when the device is on another network, so the batch is kept. The batch is also kept after
    407, 421 and 425, because only proxies and other intermediaries send these.
    """
    if status == ACKNOWLEDGED:
        return Verdict.SENT
    if status < 400 or status in (407, 408, 421, 425, 429) or (status >= 500 and status != 501):
        return Verdict.RETRY
    if status == 404:
        return Verdict.KEEP
    if status in (401, 403):
        return Verdict.PAUSE
    return Verdict.DROP


def backoff_seconds(failures: int, uniform: float) -> float:
    """Return the wait in seconds after one or more failures in a row: a random share of the backoff.

    The backoff doubles from 1 s to at most 1 h. `uniform` is a random number in [0, 1), so that devices that
    failed together do not try again together.
    """
    # Twelve doublings of 1 s already exceed 1 h; a larger exponent could only overflow.
    return min(_LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(failures - 1, 12)) * uniform


def retry_after_seconds(text: str | None) -> float:
    """Return the wait in seconds that a ``Retry-After`` header asks for, from 0 (no wait) to 24 h.

    Only a number of seconds is accepted. A date would have to be compared with the device's clock. From the
    times at which the device sends again, a server could then learn step by step how wrong this clock is, and
    the error would link the device's reports.
    """
    text = "" if text is None else text.strip()
    if not (text.isascii() and text.isdecimal()):
        return 0.0
    # More than 9 digits exceed a day, and int() refuses very long numbers.
    return _LONGEST_RETRY_AFTER if len(text) > 9 else min(float(text), _LONGEST_RETRY_AFTER)


def asked_seconds(named: float, uniform: float) -> float:
    """Return the actual wait in seconds if a server asks for `named`: rounded up to a step, times 1 to 2.

    A server behind a relay could ask each device for a different wait, and recognise the device by the time
    at which it sends again. Rounding `named` up to one of the three `STEPS` prevents this: the wait then
    reveals only the step. `named` is from 0 (no wait) to 24 h. `uniform` is a new random number in [0, 1) for
    each wait.
    """
    return next(step for step in STEPS if named <= step) * (1.0 + uniform) if named > 0 else 0.0


def still_asked(seconds: float) -> float:
    """Return the remaining seconds of a stored wait that a server asked for; at most 0 if the wait is over.

    If more seconds remain than `asked_seconds` can return, the clock was set back after the wait was stored,
    and the wait counts as over.
    """
    return seconds if seconds <= 2.0 * _LONGEST_RETRY_AFTER else 0.0


class _Wait:
    """The number of failures in a row, and the end of the client's own backoff, which a flush ends early."""

    __slots__ = ("failures", "until")

    def __init__(self, failures: int = 0, until: float = -math.inf) -> None:
        self.failures = failures
        self.until = until


class Schedule:
    """For each task, the time from which its batches may be sent, given the results of earlier attempts.

    All times are times of a monotonic clock. `uniform` returns random numbers in [0, 1) for the jitter.
    """

    __slots__ = ("_all", "_asked", "_tasks", "_uniform")

    def __init__(self, uniform: Callable[[], float] = MACHINE.uniform) -> None:
        self._uniform = uniform
        self._all = _Wait()
        self._tasks: dict[str, _Wait] = {}
        self._asked = -math.inf
        """The end of a wait that the server asked for, see `asked_seconds`; everything waits, even a flush.

        All tasks have the same wait, because different waits could identify a device."""

    def ready_at(self, task_id: str) -> float:
        """Return the earliest time at which a batch of this task may be tried."""
        wait = self._tasks.get(task_id, self._all)
        return max(self._asked, self._all.until, wait.until)

    def record(self, verdict: Verdict, task_id: str, now: float, retry_after: float) -> None:
        """Record how an attempt to send a batch of this task ended.

        `now` is the time of the monotonic clock. `retry_after` is the number of seconds that the server asked
        for, before `asked_seconds`; all tasks wait for it, regardless of the verdict.
        """
        if retry_after:
            self._asked = max(self._asked, now + asked_seconds(retry_after, self._uniform()))
        if verdict not in (Verdict.RETRY, Verdict.PAUSE):
            self._all = _Wait()  # the server answered, so it can be reached
        if verdict in (Verdict.SENT, Verdict.DROP):
            self._tasks.pop(task_id, None)
            return
        wait = self._tasks.setdefault(task_id, _Wait()) if verdict is Verdict.KEEP else self._all
        wait.failures += 1
        if verdict is Verdict.PAUSE:
            # At least half of the longest backoff: a refusal does not end soon.
            wait.until = now + _LONGEST_BACKOFF * (1 + self._uniform()) / 2
        else:
            wait.until = now + backoff_seconds(wait.failures, self._uniform())

    def expedite(self) -> None:
        """End all our own waits, for a flush; waits that the server asked for stay."""
        self._all = _Wait()
        self._tasks.clear()

    def follow(self, earlier: Schedule) -> None:
        """Adopt the wait that a server asked the parent of this forked child to keep."""
        self._asked = earlier._asked

    def hold(self, asked: float, now: float) -> None:
        """Adopt a wait that a server asked another process to keep, see `still_asked`."""
        self._asked = max(self._asked, now + still_asked(asked))

    def remaining(self, now: float) -> Iterator[tuple[str, int, float, float]]:
        """Yield remaining waits: (scope, failures, seconds of our own backoff, seconds the server asked for).

        The scope is a task's id, or "" for everything; only "" has seconds that the server asked for.
        """
        for scope, wait in (("", self._all), *self._tasks.items()):
            own, asked = max(0.0, wait.until - now), 0.0 if scope else max(0.0, self._asked - now)
            if wait.failures or asked:
                yield scope, wait.failures, own, asked

    def restore(self, scope: str, failures: int, own: float, asked: float, now: float) -> None:
        """Restore a wait that `remaining` yielded in an earlier process, minus the time since then.

        A wait that is longer than any wait can be was stored before the clock was set back, so it counts as
        over. Earlier versions also stored waits that the server asked for a single task; such a wait now
        holds for all tasks.
        """
        self.hold(asked, now)
        wait = _Wait(failures, now + (own if own <= _LONGEST_BACKOFF else 0.0))
        if scope:
            self._tasks[scope] = wait
        else:
            self._all = wait
