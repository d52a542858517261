"""What every ledger can do, and what one open transaction of it looks like."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from arcwise.client.accounts import Bill, Budget
    from arcwise.client.outbox import Outbox
    from arcwise.tasks import Task

__all__ = ["Ledger", "Memo", "Transaction"]


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

    In memory nothing can fail between the steps but the randomness, and then a charge without a report stays.
    """

    wakes_sender: bool
    """Whether something was queued that the sender does not wait for yet."""

    def opted_out(self) -> bool:
        """Return whether the device has opted out."""

    def has_room(self, reports: int) -> bool:
        """Return whether the queue has room for so many more reports."""

    def charge(self, bill: Bill) -> bool:
        """Charge all items of a bill; False, and nothing charged, when a cap forbids one of them."""

    def memo(self, task: Task) -> Memo | None:
        """Return what the task has answered, or None when it was never memoised."""

    def memoize(self, task: Task, draw: int, paid: int) -> Memo:
        """Memoise the task from here on, or let it have more answers."""

    def put(self, task: Task, epoch: int, code: int) -> None:
        """Queue one code."""


class Ledger(ABC):
    """What a device has spent, for ever; base of `MemoryLedger` and `FileLedger`.

    Examples
    --------
    >>> from arcwise.client import MemoryLedger
    >>> isinstance(MemoryLedger(), Ledger)
    True
    """

    __slots__ = ()

    @abstractmethod
    def outbox(self, *, batch_size: int, capacity: int, delay: float, lease: float) -> Outbox[Any]:
        """Return a queue for the reports of this ledger, as an uplink of these options uses it."""

    @abstractmethod
    def check_outbox(self, outbox: Outbox[Any]) -> None:
        """Raise `ParameterError` for a queue that is not one for the reports of this ledger."""

    @abstractmethod
    def transaction(self, outbox: Outbox[Any], now: float) -> AbstractContextManager[Transaction]:
        """Open the transaction at the Unix time `now`, with `outbox` as the queue that reports go to.

        Raises
        ------
        LedgerError
            When the ledger cannot be read or written; nothing has changed then.
        """

    @abstractmethod
    def budget(self, bill: Bill, about: int, now: float) -> Budget:
        """Return the budget of one account of a bill, see `accounts.budget`."""

    @abstractmethod
    def opt_out(self, outbox: Outbox[Any] | None = None) -> int:
        """Remember that the device has opted out and empty the queue; return how many reports were in it.

        What was spent stays written down.

        Parameters
        ----------
        outbox
            The queue in memory that is emptied; None leaves one alone that holds other devices' too.
            The queue in a ledger's own file is emptied whatever is given.
        """

    @abstractmethod
    def opt_in(self) -> None:
        """Remember that the device reports again."""
