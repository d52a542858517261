"""What becomes of reports: the answer to one of them, the counters of all, and what an app is told."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from arcwise.digits import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Outcome(Enum):
    """What `Client.report` did with a value. Only `ACCEPTED` is true.

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
    """Charged, randomised and queued; of a group's round what was drawn and given, which can be nothing."""
    CAPPED = "capped"
    """A cap on epsilon or delta forbids it. Nothing was charged."""
    FULL = "full"
    """The queue is full. Nothing was charged."""
    OPTED_OUT = "opted-out"
    """The device has opted out. Nothing was charged."""
    FAILED = "failed"
    """The ledger could not be written: the disk is full, the file is gone or damaged. Nothing leaves."""

    NO_RANDOMNESS = "no-randomness"
    """The operating system gave no random bytes. Nothing was charged, and no other source was used."""

    def __bool__(self) -> bool:
        return self is Outcome.ACCEPTED


class Counters(NamedTuple):
    """What became of reports so far, in numbers of reports.

    Attributes
    ----------
    pending
        Queued and neither acknowledged nor dropped.
    sent
        Acknowledged by the server with a 204.
    dropped
        Given up for good, by reason: an HTTP status such as "410", "expired", "opted-out", or "closed" (still
        queued in memory when the uplink was closed). They were charged: what they spent stays spent.
    refused
        Calls of `Client.report` that made no report, by outcome: "full", "capped", "opted-out", "failed",
        "no-randomness". Nothing was charged for them.

    Notes
    -----
    With a `FileLedger`, pending, sent and dropped are those of the file, since it was made; refused is always
    of this process.

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
    """What a client tells the app's `on_event`: the fate of reports. It never holds a value or a code.

    Attributes
    ----------
    kind
        "sent", "retry" (trouble; sent again later), "kept" (the server does not know the task yet), "paused"
        (the server does not let this client in), "dropped", "expired", "closed" (with reports that were not
        sent) or "failed" (the ledger could not be used).
    task
        The name of the task; None where it is about more than one.
    reports
        How many reports it is about.
    detail
        For people: an HTTP status, or the kind of trouble.

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
"""What comes again and again while something lasts: told once at the level of a warning."""


class EventLog:
    """A log of events, which are also kept for the app's callback until `emit` calls it.

    An exception that the callback raises is logged and goes no further.
    """

    __slots__ = ("_last", "_on_event", "_waiting")

    def __init__(self, on_event: Callable[[Event], object] | None) -> None:
        self._on_event = on_event
        self._waiting: deque[Event] = deque()
        self._last: dict[str | None, tuple[str, str]] = {}

    def add(self, kind: str, task: str | None, reports: int, detail: str) -> None:
        """Log what happened, and keep it for `emit`."""
        if self._on_event is not None:
            self._waiting.append(Event(kind, task, reports, detail))
        # A full disk, or a server that is away, would fill the log with one line.
        again = self._last.get(task) == (kind, detail)
        self._last[task] = kind, detail
        from logging import DEBUG, WARNING, getLogger  # not while the client is imported

        about = "arcwise" if task is None else f"task {task!r}"
        level = DEBUG if kind == "sent" or (again and kind in _REPEATED) else WARNING
        logger = getLogger("arcwise.client")
        if logger.isEnabledFor(level):
            logger.log(
                level, _MESSAGES[kind].format(about=about, reports=counted(reports, "report"), detail=detail)
            )

    def emit(self) -> None:
        """Call the app's callback with what happened since the last time."""
        while self._waiting and self._on_event is not None:
            try:
                event = self._waiting.popleft()
            except IndexError:  # another thread was quicker
                return
            try:
                self._on_event(event)
            except (Exception, SystemExit):  # an app's mistake must not end the sender
                from logging import getLogger

                getLogger("arcwise.client").exception("on_event failed")
