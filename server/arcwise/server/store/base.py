"""What a store promises. Every store passes the contract tests in ``tests/server/test_store.py``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from arcwise.tasks import Task
    from arcwise.wire import Batch

__all__ = ["Outcome", "Store"]


class Outcome(Enum):
    """What became of a batch."""

    COUNTED = "counted"
    """Its codes are in the counts now."""
    REPLAYED = "replayed"
    """A batch of its id had been counted before."""
    CLOSED = "closed"
    """The ids of its epoch are forgotten: whether it had been counted cannot be told, so it is not."""


class Store(ABC):
    """Counts per task and epoch, and the ids of the batches that are in them. No reports are kept.

    `add` is called from one thread at a time; the readers may be called from any thread at any time. Every
    method raises `StoreError` when the store cannot do its work; what had been acknowledged stays.
    """

    @abstractmethod
    def register(self, tasks: Iterable[Task]) -> None:
        """Make the tasks known. Must be called before batches of theirs are added; may be repeated."""

    @abstractmethod
    def add(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Count the batches whose id is new to their task, durably, all or none.

        When this returns, what was counted survives a crash of the process and of the machine. The first
        content under an id wins, within one call too. Codes must have been checked against the task.

        Returns
        -------
        list of Outcome
            What became of each batch.
        """

    @abstractmethod
    def counts_by_epoch(self, task: Task) -> dict[int, NDArray[np.int64]]:
        """Return the number of reports per code, shape (K,), for every epoch that has any."""

    @abstractmethod
    def prune(self, task: Task, before: int) -> int:
        """Forget the ids of batches of epochs below `before`; return how many. Counts stay.

        What was forgotten is remembered, in the same transaction: batches of those epochs are `CLOSED` from
        then on, or a replay would be counted again. The newest epoch that has a batch is never forgotten,
        so a clock that is wrong and far ahead cannot close the present.
        """

    @abstractmethod
    def close(self) -> None:
        """Release files and connections. May be repeated."""

    def counts(self, task: Task) -> NDArray[np.int64]:
        """Return the number of reports per code over all epochs, shape (K,)."""
        import numpy as np

        total = np.zeros(task.mechanism.kernel.codes, np.int64)
        for counts in self.counts_by_epoch(task).values():
            total += counts
        return total
