"""The results of reporting: outcomes of single reports, counters of all reports, and events for the app."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from arcwise.digits import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Outcome(Enum):
    """The result of one call of `Client.report`. Only `ACCEPTED` is true.

    Examples
    --------
    >>> from arcwise.client import Caps, Circle, Client, MemoryLedger, Outcome, Task
    >>> heading = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=1.0))
    >>> client = Client("http://127.0.0.1:8000", tasks=[heading], ledger=MemoryLedger())
    >>> client.report("heading", 12.0), client.report("heading", 14.0)
    (<Outcome.ACCEPTED: 'accepted'>, <Outcome.CAPPED: 'capped'>)
    >>> client.close(0)
    False
    """

    ACCEPTED = "accepted"
    """The report was charged, randomised and queued. A round of a group queues reports only for drawn tasks
    that have values, so it may queue no report.
    """
    CAPPED = "capped"
    """A cap on epsilon or delta forbids the report. Nothing was charged."""
    FULL = "full"
    """The queue is full. Nothing was charged."""
    OPTED_OUT = "opted-out"
    """The device has opted out. Nothing was charged."""
    FAILED = "failed"
    """The ledger could not be written: disk full, file missing or damaged. No report will be sent."""

    NO_RANDOMNESS = "no-randomness"
    """The operating system gave no random bytes. Nothing was charged, and no other source was used."""

    def __bool__(self) -> bool:
        return self is Outcome.ACCEPTED


class Counters(NamedTuple):
    """Numbers of reports so far: pending, sent, dropped and refused.

    Attributes
    ----------
    pending
        Queued and neither acknowledged nor dropped.
    sent
        Acknowledged by the server with a 204.
    dropped
        Dropped permanently, by reason: an HTTP status such as "410", "expired", "opted-out", or "closed"
        (still queued in memory when the uplink was closed). Dropped reports stay charged; nothing is
        refunded.
    refused
        Calls of `Client.report` that made no report, by outcome: "full", "capped", "opted-out", "failed",
        "no-randomness". Nothing was charged for them.

    Notes
    -----
    With a `FileLedger`, `pending`, `sent` and `dropped` count from the creation of the file; `refused` always
    counts from the start of this process.

    Examples
    --------
    >>> Counters(pending=2, sent=10, dropped={"410": 1})
    Counters(pending=2, sent=10, dropped={'410': 1}, refused={})
    """

    pending: int = 0
    sent: int = 0
    dropped: Mapping[str, int] = {}
    refused: Mapping[str, int] = {}


class Event(NamedTuple):
    """An event for the app's `on_event`: what happened to some reports. It never holds a value or a code.

    Attributes
    ----------
    kind
        "sent", "retry" (trouble; sent again later), "kept" (the server does not know the task yet), "paused"
        (the server refuses this client), "dropped", "expired", "closed" (with reports that were not sent) or
        "failed" (the ledger could not be used).
    task
        Name of the task; None if the event concerns more than one task.
    reports
        Number of reports that the event concerns.
    detail
        Details for people: an HTTP status, or the kind of trouble.

    Examples
    --------
    >>> Event("sent", "heading", 12, "status 204")
    Event(kind='sent', task='heading', reports=12, detail='status 204')
    """

    kind: str
    task: str | None
    reports: int
    detail: str


_MESSAGES = {
    "sent": "{about}: sent {reports}; {detail}",
    "retry": "{about}: {reports} will be sent again later; {detail}",
    "kept": "{about}: the server does not have this task, so the client keeps {reports}; {detail}. Give the"
    " server the same task file: any difference makes another task",
    "paused": "{about}: the server refuses this client, so it keeps {reports} and sends nothing for 30 to 60"
    " minutes; {detail}. Check Client(..., key=...)",
    "dropped": "{about}: dropped {reports}; {detail}",
    "expired": "{about}: dropped {reports} that {detail}",
    "closed": "{about}: closed with {reports} not sent; {detail}",
    "failed": "{about}: {detail}",
}


_REPEATED = {"retry", "kept", "paused", "failed"}
"""Events that repeat while a problem lasts: only the first is logged as a warning."""


class EventLog:
    """Logs events, and stores them for the app's callback until `emit` calls it.

    An exception of the callback is logged and not raised further.
    """

    __slots__ = ("_last", "_on_event", "_waiting")

    def __init__(self, on_event: Callable[[Event], object] | None) -> None:
        self._on_event = on_event
        self._waiting: deque[Event] = deque()
        self._last: dict[str | None, tuple[str, str]] = {}

    def add(self, kind: str, task: str | None, reports: int, detail: str) -> None:
        """Log an event and store it for `emit`."""
        if self._on_event is not None:
            self._waiting.append(Event(kind, task, reports, detail))
        # A full disk or an unreachable server would fill the log with the same line.
        again = self._last.get(task) == (kind, detail)
        self._last[task] = kind, detail
        from logging import DEBUG, WARNING, getLogger  # loaded here, not with the client

        about = "arcwise" if task is None else f"task {task!r}"
        level = DEBUG if kind == "sent" or (again and kind in _REPEATED) else WARNING
        logger = getLogger("arcwise.client")
        if logger.isEnabledFor(level):
            logger.log(
                level, _MESSAGES[kind].format(about=about, reports=counted(reports, "report"), detail=detail)
            )

    def emit(self) -> None:
        """Call the app's callback with the events since the last call."""
        while self._waiting and self._on_event is not None:
            try:
                event = self._waiting.popleft()
            except IndexError:  # another thread took it first
                return
            try:
                self._on_event(event)
            except (Exception, SystemExit):  # a mistake in the app must not end the sender
                from logging import getLogger

                getLogger("arcwise.client").exception("on_event failed")
