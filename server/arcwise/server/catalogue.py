"""The tasks that are served: those that the server was given, and those that its store has."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from arcwise.server.problems import Problem, unknown_task
from arcwise.tasks.optional import MAX_NAME, normalised

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from arcwise.server.store import StoredTask
    from arcwise.tasks import Task


class Catalogue:
    """Tasks by id, and which of them are closed, as the store had them when it was last read.

    A task that a store has once is served until it is closed: devices still have it, whatever became of its
    file. Closed tasks take no reports; their estimates stay.

    Parameters
    ----------
    given
        The tasks that the server was started with; they come first.
    """

    def __init__(self, given: Iterable[Task]) -> None:
        self._tasks = {task.id: task for task in given}
        self._closed: dict[str, int] = {}
        self._newest: dict[str, int] = {}

    @property
    def tasks(self) -> Mapping[str, Task]:
        """Every task by its id, a view."""
        return MappingProxyType(self._tasks)

    @property
    def closed(self) -> Mapping[str, int]:
        """When tasks were closed, in Unix seconds, by their ids; open ones are not in it."""
        return MappingProxyType(self._closed)

    @property
    def newest(self) -> Mapping[str, int]:
        """The newest epoch that has reports, by the id of its task; tasks without reports are not in it."""
        return MappingProxyType(self._newest)

    def named(self, name: str) -> list[str]:
        """Return the ids of the tasks of a name, the oldest first, closed ones among them."""
        normal = normalised(name, most=MAX_NAME)  # as tasks have it
        return [task_id for task_id, task in self._tasks.items() if task.name == normal]

    def find(self, text: str, among: Container[str] | None = None) -> Task:
        """Return the task of an id, or the one open task of a name.

        Parameters
        ----------
        text
            An id, or else a name.
        among
            The ids of the tasks that whoever asks may know of; None: all.

        Raises
        ------
        Problem
            404 when there is none; 409 when several open tasks have the name; the ids are in both.
        """
        if text in self._tasks and (among is None or text in among):
            return self._tasks[text]
        ids = [task_id for task_id in self.named(text) if among is None or task_id in among]
        taken = [task_id for task_id in ids if task_id not in self._closed]
        if len(taken) == 1:
            return self._tasks[taken[0]]
        if taken:
            raise Problem(
                409, "ambiguous-name", f"Several open tasks have this name; their ids are {', '.join(taken)}."
            )
        if ids:
            raise Problem(
                404, "unknown-task", f"No open task has this name; the ids of closed ones: {', '.join(ids)}."
            )
        raise unknown_task()

    def load(self, stored: Iterable[StoredTask]) -> None:
        """Take over what the store has now. Tasks never go away."""
        stored = list(stored)
        # Replaced as a whole: an iteration that is under way keeps its own.
        self._tasks = self._tasks | {
            entry.task.id: entry.task for entry in stored if entry.task.id not in self._tasks
        }
        self._closed = {entry.task.id: entry.closed for entry in stored if entry.closed is not None}
        self._newest = {entry.task.id: entry.newest for entry in stored if entry.newest is not None}
