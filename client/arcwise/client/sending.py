"""What the sync and the async uplink share: options, the queue, the schedule and the counters; no IO."""

from __future__ import annotations

import logging
import math
import os
import time
import weakref
from abc import ABC, abstractmethod
from numbers import Real
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import urlsplit

from arcwise.client.delivery import Schedule, Verdict, classify, retry_after_seconds
from arcwise.client.outbox import Outbox
from arcwise.client.transport import user_agent
from arcwise.errors import ParameterError
from arcwise.tasks import DAY
from arcwise.wire import MEDIA_TYPE

if TYPE_CHECKING:
    from arcwise.client.outbox import Counters, PendingBatch
    from arcwise.tasks import Task

__all__ = ["Sending", "SendingOptions", "checked_number"]

logger = logging.getLogger("arcwise.client")

MAX_BATCH_SIZE = 500_000
"""Two-byte codes of a batch of this size fit into the largest body that a server reads."""


class SendingOptions(TypedDict, total=False):
    """The keyword arguments of `Uplink` and `AsyncUplink`, apart from the transport."""

    batch_size: int
    interval: float
    max_pending: int
    max_age_days: float
    request_timeout: float


class Sending(ABC):
    """The half of an uplink that does no IO: what to send, when, and what an answer means for the queue.

    The parameters are those of `Uplink`.
    """

    def __init__(
        self,
        url: str,
        *,
        batch_size: int = 10_000,
        interval: float = 30.0,
        max_pending: int = 1_000_000,
        max_age_days: float = 7.0,
        request_timeout: float = 10.0,
    ) -> None:
        self._url = _checked_url(url)
        self._batch_size = _checked_integer("batch_size", batch_size, MAX_BATCH_SIZE)
        self._capacity = _checked_integer("max_pending", max_pending, 10**9)
        self._interval = checked_number("interval", interval)
        self._max_age = checked_number("max_age_days", max_age_days, above_zero=True) * DAY
        self._request_timeout = checked_number("request_timeout", request_timeout, above_zero=True)
        self._closed = False
        self._empty()
        _living.add(self)

    def _empty(self) -> None:
        """Start with an empty queue: at first, and again in a forked child."""
        self._outbox = Outbox(batch_size=self._batch_size, capacity=self._capacity)
        self._schedule = Schedule()

    @property
    def url(self) -> str:
        """The server's base URL."""
        return self._url

    @property
    def pending(self) -> int:
        """Reports that are neither acknowledged nor dropped."""
        return self._outbox.pending

    @property
    def counters(self) -> Counters:
        """What became of the reports so far, in all clients that share this uplink."""
        return self._outbox.counters()

    def is_loopback(self) -> bool:
        """Return whether the server's host is this machine: localhost, 127.0.0.0/8 or ::1."""
        import ipaddress

        host = urlsplit(self._url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    def _address(self, batch: PendingBatch) -> str:
        return f"{self._url}/v1/tasks/{batch.task.id}/reports"

    def _headers(self) -> dict[str, str]:
        return {"Content-Type": MEDIA_TYPE, "User-Agent": user_agent()}

    def _next(self) -> PendingBatch | float:
        """Return the batch to send now, or for how many seconds there is none (infinity: until woken)."""
        now = time.monotonic()
        expired = self._outbox.expire(now - self._max_age)
        if expired:
            logger.warning("dropped %d reports that could not be sent in time", expired)
            self._finished()
        found = self._outbox.take(now, self._interval, self._schedule.ready_at)
        return found - now if isinstance(found, float) else found

    def _answered(self, batch: PendingBatch, status: int, retry_after: str | None) -> None:
        """Do with a taken batch what the server's answer asks for."""
        verdict = classify(status)
        wait = retry_after_seconds(retry_after, time.time())
        with self._outbox.lock:
            self._schedule.record(verdict, batch.task.id, time.monotonic(), wait)
            if verdict is Verdict.SENT:
                self._outbox.finish(batch)
            elif verdict is Verdict.DROP:
                self._outbox.finish(batch, str(status))
            else:
                self._outbox.put_back(batch)
        self._finished()
        level = logging.DEBUG if verdict is Verdict.SENT else logging.WARNING
        foreign = verdict is Verdict.RETRY and status < 400
        message = _NOT_ARCWISE if foreign else _MESSAGES[verdict]
        logger.log(level, message, status, batch.task.name, len(batch.codes))

    def _unanswered(self, batch: PendingBatch, error: Exception) -> None:
        """Keep a taken batch for another attempt, because the network is in trouble."""
        with self._outbox.lock:
            self._schedule.record(Verdict.RETRY, batch.task.id, time.monotonic(), 0.0)
            self._outbox.put_back(batch)
        # The type only: what a transport writes into its message is not ours to log.
        logger.warning("no answer (%s); task %r: trying again later", type(error).__name__, batch.task.name)

    def _hurry(self) -> list[PendingBatch]:
        """Let everything be tried at once; return what is not finished."""
        with self._outbox.lock:
            self._schedule.hurry()
            return self._outbox.close_open()

    def _shut(self) -> bool:
        """Take no more reports and drop what is left; return whether nothing was."""
        self._closed = True
        left = self._outbox.abandon()
        if left:
            logger.warning("closed with %d reports not sent", left)
        return not left

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the uplink is closed; it takes no more reports")

    def put(self, task: Task, epoch: int, code: int) -> None:
        """Queue one code. Ask `admit` first: there may be no room."""
        if self._outbox.put(task, epoch, code):
            self._wake()

    @abstractmethod
    def admit(self) -> bool:
        """Return whether there is room for one more report; see the uplinks."""

    @abstractmethod
    def _wake(self) -> None:
        """Let the sender look at the queue again."""

    @abstractmethod
    def _finished(self) -> None:
        """Let flushes look whether their batches are done."""

    def _after_fork(self) -> None:
        """Forget the parent's queue and its sender, which did not come along."""
        self._empty()


_MESSAGES = {
    Verdict.SENT: "status %d; task %r: sent %d reports",
    Verdict.RETRY: "status %d; task %r: sending %d reports again later",
    Verdict.KEEP: "status %d; the server does not know task %r: keeping %d reports for later",
    Verdict.PAUSE: "status %d; the server does not let this client in; task %r: keeping %d reports, pausing",
    Verdict.DROP: "status %d; task %r: dropped %d reports",
}

_NOT_ARCWISE = "status %d is not the answer of an arcwise server; task %r: sending %d reports again later"

_living: weakref.WeakSet[Sending] = weakref.WeakSet()


def _renew_after_fork() -> None:
    for sending in list(_living):
        sending._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_after_fork)


def _checked_url(url: object) -> str:
    if not isinstance(url, str):
        raise ParameterError(f"url must be a string such as 'https://reports.example', got {url!r}")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ParameterError(f"url is not a URL: {error}; got {url!r}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ParameterError(f"url must start with http:// or https:// and name a host, got {url!r}")
    if parts.username is not None or parts.query or parts.fragment:
        raise ParameterError(f"url must be a base URL without user, query or fragment, got one for {host!r}")
    return url.rstrip("/")


def _checked_integer(name: str, value: object, most: int) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise ParameterError(f"{name} must be an integer from 1 to {most}, got {value!r}")
    return value


def checked_number(name: str, value: object, *, above_zero: bool = False) -> float:
    """Return a finite number of at least 0, or above it, as a float; raise `ParameterError` otherwise."""
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:  # an integer beyond the range of a float
        number = math.inf
    if not math.isfinite(number):
        raise ParameterError(f"{name} must be a finite number, got {value!r}")
    if number < 0 or (above_zero and number == 0):
        raise ParameterError(f"{name} must be {'above' if above_zero else 'at least'} 0, got {value!r}")
    return number
