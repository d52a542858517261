"""The interfaces of ledgers and queues: a device's spending and its unsent codes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol, SupportsIndex, TypeAlias

from arcwise.client.environment import MACHINE
from arcwise.wire import BATCH_ID_BYTES, Batch, encode_batch, pack_codes

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from arcwise.client.accounts import Bill, Budget
    from arcwise.client.delivery import Schedule
    from arcwise.client.environment import Environment
    from arcwise.tasks import Task


class OutboxOptions(NamedTuple):
    """The settings that an uplink passes to its queue."""

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
    """The time, in seconds, for which a batch that is being sent is reserved: no other process sends it."""
    environment: Environment = MACHINE
    """The source of time, randomness and process ids."""


class Parcel(NamedTuple):
    """A sealed batch on its way; every attempt sends the same bytes, so that the server counts them once.

    The sender calls either `put_back` or `finish` after each attempt.
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
    """Return the batch to the queue for another attempt."""
    finish: Callable[[str | None], object]
    """End the batch. The argument is None if the server acknowledged it, else the reason for dropping it."""


class Send(NamedTuple):
    """The sender's next step: send this parcel."""

    parcel: Parcel


class Wait(NamedTuple):
    """The sender's next step: wait for `seconds` (infinity: until it is woken)."""

    seconds: float


Step: TypeAlias = "Send | Wait"


class Outbox(Protocol):
    """A bounded, thread-safe queue of codes; one sender at a time takes parcels out.

    A batch holds codes of one task and one epoch.
    """

    durable: bool
    """Whether the queue is on a disk, so that it outlives the process and calls wait for the disk."""
    busy_timeout: float
    """The longest time, in seconds, that calls wait for other processes."""
    foreign: frozenset[str]
    """Names of tasks that other uplinks on the same queue send, perhaps to another server."""

    @property
    def queue(self) -> Hashable:
        """A key that is equal for all outboxes of one queue."""

    @property
    def pending(self) -> int:
        """Number of reports that are neither acknowledged nor dropped."""

    def counts(self) -> tuple[int, int, dict[str, int]]:
        """Return the numbers of pending and acknowledged reports, and of dropped reports by reason."""

    def take(self, now: float, interval: float, ready_at: Callable[[str], float]) -> Step:
        """Return the next parcel to send, or the time in seconds until there may be one.

        `now` is the time of the monotonic clock. `interval` is the number of seconds that codes wait for
        more codes to share their batch. `ready_at` takes a task id and returns the earliest time at which a
        parcel of that task may be tried.
        """

    def expire(self, seconds: float) -> int:
        """Drop the reports that are older than `seconds`, and return their number."""

    def expedite(self) -> Callable[[], bool]:
        """Let all reports that are queued now be sent without waiting.

        Return a function that returns whether all of them are acknowledged or dropped.
        """

    def close(self) -> int:
        """Close the queue and return the number of reports left in it; a queue in memory drops them."""

    def load(self, schedule: Schedule) -> None:
        """Restore the waits of an earlier process to the schedule."""

    def save(self, schedule: Schedule) -> None:
        """Store the schedule's waits for a later process."""

    def after_fork(self) -> None:
        """Adapt the queue in a forked child."""


def seal(task_id: str, epoch: int, codes: Iterable[int], width: int, environment: Environment) -> bytes:
    """Return the body of a new batch: a random id, and codes sorted so that their order reveals nothing."""
    batch_id = environment.random_bytes(BATCH_ID_BYTES)
    packed = pack_codes(sorted(codes), width)
    return encode_batch(Batch(bytes.fromhex(task_id), batch_id, epoch, packed))


class Memo(Protocol):
    """The answers of a memoised task so far: codes by node. An answer never changes."""

    draw: int
    """One half of a draw, an integer from 0 to 2**64 - 1; it rounds every value of the task to a node."""
    paid: int
    """Number of answers that were paid for."""

    def get(self, node: int) -> int | None:
        """Return the code stored for a node, or None."""

    def __getitem__(self, node: int) -> int:
        """Return the code stored for a node; the node must have a code."""

    def __setitem__(self, node: int, code: int) -> None:
        """Store the code of a node, permanently."""

    def __iter__(self) -> Iterator[int]:
        """Iterate over the nodes with an answer."""

    def __len__(self) -> int:
        """Return the number of nodes with an answer."""


class Transaction(Protocol):
    """One open transaction of a ledger: either all of its changes happen or none.

    In memory nothing can fail after the charge, because all random numbers are drawn before the charge.
    """

    wakes_sender: bool
    """Whether the sender must be woken for a newly queued code."""

    @property
    def time(self) -> float:
        """The latest Unix time that the ledger has seen; charges are entered with this time."""

    def opted_out(self) -> bool:
        """Return whether the device has opted out."""

    def has_room(self, reports: int) -> bool:
        """Return whether the queue has room for this many more reports, and draw their delays."""

    def charge(self, bill: Bill) -> bool:
        """Charge all items of a bill; return False and charge nothing if a cap forbids one of them."""

    def memo(self, task: Task) -> Memo | None:
        """Return the answers of the task, or None if it was never memoised."""

    def memoize(self, task: Task, draw: int, paid: int) -> Memo:
        """Start to memoise the task, or raise its number of paid answers."""

    def put(self, task: Task, epoch: int, code: int) -> None:
        """Queue one code."""


class QueueOwner(ABC):
    """A source of an uplink's queue: a ledger, or the ledgers of many accounts with one queue."""

    __slots__ = ()

    def __reduce_ex__(self, _: SupportsIndex, /) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled, as each copy would spend the whole "
            "budget: share the object, or open its file or database again"
        )

    @abstractmethod
    def _open_outbox(self, options: OutboxOptions) -> Outbox:
        """Return a queue for an uplink, to which this ledger can send reports."""


class Ledger(QueueOwner):
    """Permanent record of a device's spending; base of `MemoryLedger`, `FileLedger` and `PostgresLedger`.

    Examples
    --------
    >>> from arcwise.client import MemoryLedger
    >>> isinstance(MemoryLedger(), Ledger)
    True
    """

    __slots__ = ()

    @property
    def _key(self) -> Hashable:
        """A key that is equal for two ledger objects if their transactions wait for each other."""
        return self

    @abstractmethod
    def _attach(self, outbox: Outbox) -> OpenTransaction:
        """Return a function that opens a transaction at a Unix time; its reports go to this queue.

        Raises `ParameterError` if the reports of this ledger cannot go to the queue. The transactions raise
        `LedgerError` and change nothing if the ledger cannot be read or written.
        """

    @abstractmethod
    def budget(self, bill: Bill, now: float) -> Budget:
        """Return the budget of a bill's first account, see `accounts.budget`."""

    @abstractmethod
    def opt_out(self) -> int:
        """Record that the device has opted out; its spending stays recorded.

        The nodes and answers of memoised tasks are deleted: a device that opts in again pays for new answers.
        A `FileLedger` also drops its queued reports, and a `PostgresLedger` drops the reports of its account
        that are not yet sealed into a batch. This method does not clear a queue in memory, which belongs to
        an uplink; `Client.opt_out` does.

        Returns
        -------
        int
            Number of dropped reports.
        """

    @abstractmethod
    def opt_in(self) -> None:
        """Record that the device reports again."""


OpenTransaction: TypeAlias = "Callable[[float], AbstractContextManager[Transaction]]"
