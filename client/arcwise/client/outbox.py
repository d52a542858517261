"""The queue that a sender takes batches from, wherever it lies: in memory, or in a ledger's file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from arcwise.client.environment import MACHINE
from arcwise.wire import BATCH_ID_BYTES, Batch, encode_batch, pack_codes

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from arcwise.client.delivery import Schedule
    from arcwise.client.environment import Environment


class OutboxOptions(NamedTuple):
    """The settings that an uplink gives to its queue."""

    batch_size: int
    """The largest number of codes in a batch."""
    capacity: int
    """The largest number of codes in the queue.

    In memory, threads that report at the same moment can exceed it by one code each, because the room is
    checked before a report is charged.
    """
    delay: float = 0.0
    """The longest random time, in seconds, that a code waits before it joins a batch."""
    lease: float = 0.0
    """The time, in seconds, for which other processes leave a batch alone that is being sent."""
    environment: Environment = MACHINE
    """The source of time, randomness and process numbers."""


class Parcel(NamedTuple):
    """A sealed batch on its way, with the same bytes at every attempt so that the server counts them once.

    After each attempt either `put_back` or `finish` is called.
    """

    task_id: str
    """64 hex digits."""
    task_name: str
    """The name for logs."""
    reports: int
    """The number of codes in the batch."""
    body: bytes
    """The body of the request."""
    put_back: Callable[[], None]
    """Lets the batch wait for another attempt."""
    finish: Callable[[str | None], object]
    """Ends the batch; takes None if the server acknowledged it, else the reason why it was dropped."""


class Send(NamedTuple):
    """What a sender does next: send this parcel."""

    parcel: Parcel


class Wait(NamedTuple):
    """What a sender does next: wait for so many seconds (infinity: until it is woken)."""

    seconds: float


Step: TypeAlias = "Send | Wait"


class Outbox(Protocol):
    """A bounded queue of codes, safe to use from several threads; one sender at a time takes parcels out.

    Codes of one task and one epoch travel together.
    """

    durable: bool
    """Whether the queue is on a disk: it outlives the process, and calls wait for the disk."""
    busy_timeout: float
    """The time, in seconds, for which calls wait for other processes."""
    foreign: frozenset[str]
    """The names of tasks that are left to others on the same queue, who may send them elsewhere."""

    @property
    def queue(self) -> Hashable:
        """What is equal for outboxes of one queue."""

    @property
    def pending(self) -> int:
        """Reports that are neither acknowledged nor dropped."""

    def counts(self) -> tuple[int, int, dict[str, int]]:
        """Return how many reports are pending, were acknowledged, and were given up for which reason."""

    def take(self, now: float, interval: float, ready_at: Callable[[str], float]) -> Step:
        """Return the next parcel to send, or the time in seconds for which there is none.

        `now` is the time of the monotonic clock, `interval` the number of seconds that codes wait for more to
        travel with, and `ready_at` returns the earliest time at which a parcel of the task with this id may
        be tried.
        """

    def expire(self, seconds: float) -> int:
        """Drop what was queued longer ago than so many seconds; return how many reports that were."""

    def expedite(self) -> Callable[[], bool]:
        """Let everything that is queued now be sent without waiting.

        Return a function that says whether all of it is acknowledged or dropped.
        """

    def close(self) -> int:
        """Let go of the queue; one that is not durable drops what it holds. Return what was left."""

    def load(self, schedule: Schedule) -> None:
        """Let the schedule remember the waits of an earlier process."""

    def save(self, schedule: Schedule) -> None:
        """Keep the schedule's waits for a later process."""

    def after_fork(self) -> None:
        """Make sense of the queue in a forked child."""


def seal(task_id: str, epoch: int, codes: Iterable[int], width: int, environment: Environment) -> bytes:
    """Return the body of a new batch: a random id, and sorted codes, whose order tells nothing."""
    batch_id = environment.random_bytes(BATCH_ID_BYTES)
    packed = pack_codes(sorted(codes), width)
    return encode_batch(Batch(bytes.fromhex(task_id), batch_id, epoch, packed))
