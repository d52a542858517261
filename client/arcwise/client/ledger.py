"""A device's spending and the queue of its codes, wherever they lie: what each kind of ledger can do."""

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


class Memo(Protocol):
    """What a memoised task has answered so far: codes by node. An answer that was given never changes."""

    draw: int
    """The half draw that rounds every value of the task to a node, from 0 to 2**64 - 1."""
    paid: int
    """How many answers were paid for."""

    def get(self, node: int) -> int | None:
        """Return the code that answers for a node, if it has one."""

    def __getitem__(self, node: int) -> int:
        """Return the code that answers for a node that has one."""

    def __setitem__(self, node: int, code: int) -> None:
        """Let this code answer for the node for ever."""

    def __iter__(self) -> Iterator[int]:
        """Iterate over the nodes that have an answer."""

    def __len__(self) -> int:
        """Return how many nodes have an answer."""


class Transaction(Protocol):
    """One open transaction of a ledger: all of what is done to it happens, or nothing.

    In memory nothing can fail after the charge: whatever is random was drawn before it.
    """

    wakes_sender: bool
    """Whether something was queued that the sender does not wait for yet."""

    @property
    def time(self) -> float:
        """The latest Unix time that the ledger has seen: what charges are entered at."""

    def opted_out(self) -> bool:
        """Return whether the device has opted out."""

    def has_room(self, reports: int) -> bool:
        """Return whether the queue has room for so many more reports; draw how long they will be delayed."""

    def charge(self, bill: Bill) -> bool:
        """Charge all items of a bill; False, and nothing charged, when a cap forbids one of them."""

    def memo(self, task: Task) -> Memo | None:
        """Return what the task has answered, or None when it was never memoised."""

    def memoize(self, task: Task, draw: int, paid: int) -> Memo:
        """Memoise the task from here on, or let it have more answers."""

    def put(self, task: Task, epoch: int, code: int) -> None:
        """Queue one code."""


class QueueOwner(ABC):
    """What an uplink can be made with: a ledger, or the ledgers of many accounts with one queue."""

    __slots__ = ()

    def __reduce_ex__(self, _: SupportsIndex, /) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled, as each would spend the whole budget: "
            "share the object, or open its file or database again"
        )

    @abstractmethod
    def _open_outbox(self, options: OutboxOptions) -> Outbox:
        """Return a queue that reports of this ledger can go to, for an uplink."""


class Ledger(QueueOwner):
    """What a device has spent, for ever; base of `MemoryLedger`, `FileLedger` and `PostgresLedger`.

    Examples
    --------
    >>> from arcwise.client import MemoryLedger
    >>> isinstance(MemoryLedger(), Ledger)
    True
    """

    __slots__ = ()

    @property
    def _key(self) -> Hashable:
        """What all objects have in common whose transactions wait for each other."""
        return self

    @abstractmethod
    def _attach(self, outbox: Outbox) -> OpenTransaction:
        """Return a function that opens transactions at a Unix time, whose reports go to this queue.

        Raises `ParameterError` if the reports of this ledger cannot go to the queue. The transactions raise
        `LedgerError`, with nothing changed, if the ledger cannot be read or written.
        """

    @abstractmethod
    def budget(self, bill: Bill, now: float) -> Budget:
        """Return the budget of the first account of a bill, see `accounts.budget`."""

    @abstractmethod
    def opt_out(self) -> int:
        """Remember that the device has opted out; what was spent stays written down.

        The nodes and answers of memoised tasks are deleted: a device that opts in again pays for new ones. A
        `FileLedger` also drops what it has queued, a `PostgresLedger` what it has queued and not sealed
        into a batch. A queue in memory belongs to an uplink: `Client.opt_out` clears that too.

        Returns
        -------
        int
            How many reports were dropped.
        """

    @abstractmethod
    def opt_in(self) -> None:
        """Remember that the device reports again."""


OpenTransaction: TypeAlias = "Callable[[float], AbstractContextManager[Transaction]]"
