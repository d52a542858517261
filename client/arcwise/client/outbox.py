"""What a sender asks of a queue, wherever it lies."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from arcwise.wire import BATCH_ID_BYTES, Batch, encode_batch, pack_codes

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from arcwise.client.delivery import Schedule

__all__ = ["Outbox", "Parcel", "seal"]


class Parcel(Protocol):
    """A sealed batch on its way: the same bytes at every attempt, so that the server counts them once."""

    @property
    def task_id(self) -> str:
        """The id of the task, 64 hex digits."""

    @property
    def task_name(self) -> str:
        """The name of the task, for logs."""

    @property
    def reports(self) -> int:
        """How many codes are in it."""

    @property
    def body(self) -> bytes:
        """The body of the request."""


ParcelT = TypeVar("ParcelT", bound=Parcel)


class Outbox(Protocol[ParcelT]):
    """A bounded queue of codes, safe to use from several threads; one sender at a time takes parcels out.

    Codes of one task and one epoch travel together. A parcel that was taken is put back or finished.
    """

    blocking: bool
    """Whether calls wait for a disk: an event loop then makes them from a thread."""
    durable: bool
    """Whether the queue outlives the process."""

    @property
    def pending(self) -> int:
        """Reports that are neither acknowledged nor dropped."""

    def counts(self) -> tuple[int, int, dict[str, int]]:
        """Return how many reports are pending, were acknowledged, and were given up for which reason."""

    def take(self, now: float, interval: float, ready_at: Callable[[str], float]) -> ParcelT | float:
        """Return the next parcel to send, or the time at which there will be one.

        Parameters
        ----------
        now
            The time of the monotonic clock.
        interval
            For how many seconds codes wait for more to travel with.
        ready_at
            The earliest time at which a parcel of the task with this id may be tried.
        """

    def put_back(self, parcel: ParcelT) -> None:
        """Let a taken parcel wait again."""

    def finish(self, parcel: ParcelT, dropped: str | None = None) -> None:
        """Be done with a parcel: acknowledged, or dropped for this reason."""

    def expire(self, seconds: float) -> int:
        """Drop what was queued longer ago than so many seconds; return how many reports that were."""

    def expedite(self) -> Hashable:
        """Let everything that is queued now be sent without waiting; return a mark for `is_done`."""

    def is_done(self, mark: Any) -> bool:
        """Return whether all that was queued at the mark is acknowledged or dropped."""

    def close(self) -> int:
        """Let go of the queue; one that is not durable drops what it holds. Return what was left."""

    def load(self, schedule: Schedule) -> None:
        """Let the schedule remember the waits of an earlier process."""

    def save(self, schedule: Schedule) -> None:
        """Keep the schedule's waits for a later process."""

    def after_fork(self) -> None:
        """Make sense of the queue in a forked child."""


def seal(task_id: str, epoch: int, codes: Iterable[int], width: int) -> bytes:
    """Return the body of a new batch: a random id, and sorted codes, whose order tells nothing."""
    packed = pack_codes(sorted(codes), width)
    return encode_batch(Batch(bytes.fromhex(task_id), os.urandom(BATCH_ID_BYTES), epoch, packed))
