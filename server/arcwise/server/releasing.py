"""When epochs close, and which tasks are shown by closed epochs alone: as set, and as tasks say."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from arcwise.server.store.epochs import epochs_in
from arcwise.tasks.central import CLOSED_EPOCHS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcwise.server.settings import Settings
    from arcwise.tasks import Task

__all__ = ["Lateness", "Releasing"]


class Lateness(NamedTuple):
    """For how long after its epoch a batch is taken.

    Attributes
    ----------
    task
        Whose epochs.
    seconds, epochs
        How long that is, one of them 0: seconds that the task states, or whole epochs.
    """

    task: Task
    seconds: int
    epochs: int

    def first_open(self, now: float) -> int:
        """Return the first epoch that takes batches at a time, in Unix seconds."""
        return self.task.epoch(now - self.seconds) - self.epochs


class Releasing(NamedTuple):
    """What the settings say of closing and releasing epochs; a task may say more.

    Attributes
    ----------
    release
        "live", or "closed-epochs" for all tasks.
    retention_days
        Lateness of tasks that state none.
    """

    release: str
    retention_days: int

    @classmethod
    def of(cls, settings: Settings) -> Releasing:
        """Return what some settings say."""
        return cls(settings.release, settings.retention_days)

    def is_live(self, task: Task) -> bool:
        """Return whether readers see the counts of a task as they grow."""
        return self.release != CLOSED_EPOCHS and not task.releases_closed_epochs

    def all_live(self, tasks: Iterable[Task]) -> bool:
        """Return whether readers see all counts as they grow."""
        return all(self.is_live(task) for task in tasks)

    def lateness(self, task: Task) -> Lateness:
        """Return for how long batches of a task are taken."""
        if task.lateness_seconds is not None:
            return Lateness(task, task.lateness_seconds, 0)
        return Lateness(task, 0, epochs_in(self.retention_days, task))
