"""What becomes of reports: the answer to one of them, the counters of all, and what an app is told."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


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
