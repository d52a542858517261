"""When to send and what an answer means: without any input or output.

The sync and the async uplink ask the same questions here, so they cannot come to differ.
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
"""The waits that a server can name: a minute, an hour, a day. What it names is rounded up to one of them."""


class Verdict(Enum):
    """What an answer means for the batch that it answers."""

    SENT = "sent"
    """The server has it: it answered 204, which is its only way to say so."""
    RETRY = "retry"
    """The network or the server is in trouble, or something else than an arcwise server answered: the same
    bytes again, after a while; everything waits."""
    KEEP = "keep"
    """The server does not know the task yet: this task waits, the others go on."""
    PAUSE = "pause"
    """The server does not let this client in: everything waits for long."""
    DROP = "drop"
    """The server will never take it."""


def classify(status: int) -> Verdict:
    """Return what an HTTP status means.

    An arcwise server acknowledges a batch with 204 and nothing else, and answers with nothing else below 400.
    A 200 or a redirect is the answer of a captive portal, a proxy or a wrong host. The server has counted
    nothing then, and may yet when the device is on another network: the batch is kept. So it is after a 407,
    421 or 425, which only proxies and others in between answer.
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
    """Return the wait after one or more failures in a row: a random share of an exponential backoff.

    The backoff doubles from 1 s to at most 1 h. `uniform` is a random number in [0, 1), so that devices that
    failed together do not come back together.
    """
    # Twelve doublings pass the hour; a larger exponent could only overflow.
    return min(_LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(failures - 1, 12)) * uniform


def retry_after_seconds(text: str | None) -> float:
    """Return the wait that a ``Retry-After`` header asks for, from 0 to 24 h; 0 if it asks for none.

    Only seconds count. A date would have to be compared with the device's clock, and whether and when the
    device comes back would tell a server step by step how wrong that clock is: a number that links reports.
    """
    text = "" if text is None else text.strip()
    if not (text.isascii() and text.isdecimal()):
        return 0.0
    # Long before int() would have to refuse the number of digits, the answer is a day.
    return _LONGEST_RETRY_AFTER if len(text) > 9 else min(float(text), _LONGEST_RETRY_AFTER)


def asked_seconds(named: float, uniform: float) -> float:
    """Return the wait for a server that asks for `named` seconds: one to two times the step it rounds up to.

    A server behind a relay could ask each device for a different wait and recognise the device when it comes
    back after that time. So a wait reveals only which of three steps was asked for. `named` is from 0 (no
    wait) to 24 h, and `uniform` is a new random number in [0, 1) for each wait.
    """
    return next(step for step in STEPS if named <= step) * (1.0 + uniform) if named > 0 else 0.0


def still_asked(seconds: float) -> float:
    """Return what is left of a wait that was written down for a server; at most 0 where it is over.

    What is longer than any that `asked_seconds` returns was written before the clock was set back: over.
    """
    return seconds if seconds <= 2.0 * _LONGEST_RETRY_AFTER else 0.0


class _Wait:
    """Failures in a row, and until when our own backoff waits after them; a flush ends it."""

    __slots__ = ("failures", "until")

    def __init__(self, failures: int = 0, until: float = -math.inf) -> None:
        self.failures = failures
        self.until = until


class Schedule:
    """The times from which each task's batches may be tried, given how earlier attempts ended.

    They are times of a monotonic clock. `uniform` returns random numbers in [0, 1) for the jitter.
    """

    __slots__ = ("_all", "_asked", "_tasks", "_uniform")

    def __init__(self, uniform: Callable[[], float] = MACHINE.uniform) -> None:
        self._uniform = uniform
        self._all = _Wait()
        self._tasks: dict[str, _Wait] = {}
        self._asked = -math.inf
        """Until when everything waits because the server asked, see `asked_seconds`; nothing ends it.

        Waits of single tasks would together be a number by which the server knows the device again."""

    def ready_at(self, task_id: str) -> float:
        """Return the earliest time at which a batch of this task may be tried."""
        wait = self._tasks.get(task_id, self._all)
        return max(self._asked, self._all.until, wait.until)

    def record(self, verdict: Verdict, task_id: str, now: float, retry_after: float) -> None:
        """Record how an attempt to send a batch of this task ended.

        `now` is the time of the monotonic clock. `retry_after` is the number of seconds that the server asked
        for, before `asked_seconds`; all tasks wait for it, whatever the verdict is.
        """
        if retry_after:
            self._asked = max(self._asked, now + asked_seconds(retry_after, self._uniform()))
        if verdict not in (Verdict.RETRY, Verdict.PAUSE):
            self._all = _Wait()  # it answered, so it can be talked to
        if verdict in (Verdict.SENT, Verdict.DROP):
            self._tasks.pop(task_id, None)
            return
        wait = self._tasks.setdefault(task_id, _Wait()) if verdict is Verdict.KEEP else self._all
        wait.failures += 1
        if verdict is Verdict.PAUSE:
            # Half of it fixed: a refusal is not cured by asking again soon.
            wait.until = now + _LONGEST_BACKOFF * (1 + self._uniform()) / 2
        else:
            wait.until = now + backoff_seconds(wait.failures, self._uniform())

    def expedite(self) -> None:
        """End every wait of our own making, for a flush; what the server asked for stays."""
        self._all = _Wait()
        self._tasks.clear()

    def follow(self, earlier: Schedule) -> None:
        """Wait as long as a server has asked the parent of a forked child to wait."""
        self._asked = earlier._asked

    def hold(self, asked: float, now: float) -> None:
        """Wait also as long as a server has asked another process to, see `still_asked`."""
        self._asked = max(self._asked, now + still_asked(asked))

    def remaining(self, now: float) -> Iterator[tuple[str, int, float, float]]:
        """Yield (scope, failures, seconds of our own backoff, seconds that the server asked for) that remain.

        The scope is a task's id, or "" for everything, which alone has seconds that the server asked for.
        """
        for scope, wait in (("", self._all), *self._tasks.items()):
            own, asked = max(0.0, wait.until - now), 0.0 if scope else max(0.0, self._asked - now)
            if wait.failures or asked:
                yield scope, wait.failures, own, asked

    def restore(self, scope: str, failures: int, own: float, asked: float, now: float) -> None:
        """Take over a wait that an earlier process left: what `remaining` gave, less the time since.

        What is longer than any wait was written before the clock was set back: it is over.
        Earlier versions also wrote down what the server asked for of a task; everything waits for that, too.
        """
        self.hold(asked, now)
        wait = _Wait(failures, now + (own if own <= _LONGEST_BACKOFF else 0.0))
        if scope:
            self._tasks[scope] = wait
        else:
            self._all = wait
