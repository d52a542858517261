"""A device's spending, wherever it is written down: what each kind of ledger can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NoReturn, Protocol, SupportsIndex, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from contextlib import AbstractContextManager

    from arcwise.client.accounts import Bill, Budget
    from arcwise.client.outbox import Outbox, OutboxOptions
    from arcwise.tasks import Task


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
