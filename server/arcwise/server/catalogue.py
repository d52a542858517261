"""The tasks that are served, from the server's start and from its store, and their names in paths."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import unquote

from arcwise.server.problems import Problem, unknown_task
from arcwise.tasks.optional import MAX_NAME, normalised

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from starlette.types import Scope

    from arcwise.server.store import StoredTask
    from arcwise.tasks import Task


class Catalogue:
    """The tasks by id, and which of them are closed, as the store said when it was last read.

    A task in the store is served until it is closed, even if its file is deleted, because devices still have
    it. Closed tasks take no reports, but their estimates stay. The tasks that the server was started with,
    `given`, come first.
    """

    def __init__(self, given: Iterable[Task]) -> None:
        self._tasks = {task.id: task for task in given}
        self._closed: dict[str, int] = {}
        self._newest: dict[str, int] = {}

    @property
    def tasks(self) -> Mapping[str, Task]:
        """A view of every task by its id."""
        return MappingProxyType(self._tasks)

    @property
    def closed(self) -> Mapping[str, int]:
        """The times at which tasks were closed, in Unix seconds, by task id; open tasks are left out."""
        return MappingProxyType(self._closed)

    @property
    def newest(self) -> Mapping[str, int]:
        """The newest epoch that has reports, by task id; tasks without reports are left out."""
        return MappingProxyType(self._newest)

    def named(self, name: str) -> list[str]:
        """Return the ids of the tasks with a name, oldest first, including closed ones."""
        normal = normalised(name, most=MAX_NAME)  # as tasks store it
        return [task_id for task_id, task in self._tasks.items() if task.name == normal]

    def find(self, text: str, among: Container[str] | None = None) -> Task:
        """Return the task with this id, or else the only open task with this name.

        `among` holds the ids that the sender of the request may see; None means all. Raises `Problem`: 404
        when there is no such task, 409 when several open tasks have the name; its detail lists the ids of
        tasks with the name.
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
        """Replace the state by the state in the store. Tasks are never removed."""
        stored = list(stored)
        # Replaced as a whole, so that a running iteration keeps the old mapping.
        self._tasks = self._tasks | {
            entry.task.id: entry.task for entry in stored if entry.task.id not in self._tasks
        }
        self._closed = {entry.task.id: entry.closed for entry in stored if entry.closed is not None}
        self._newest = {entry.task.id: entry.newest for entry in stored if entry.newest is not None}


_PATHS = ("/v1/tasks/", "/tasks/")


def whole_segments(scope: Scope) -> Scope:
    """Return a scope with the path's segments as they were sent, because a name may contain a slash (%2F).

    Servers decode the path, which turns a slash in a name into a separator. In paths with a task's name,
    slashes and percent signs of a segment stay encoded; `name_in` decodes them.
    """
    raw = scope.get("raw_path") or b""
    if b"%" not in raw or not scope["path"].removeprefix(scope.get("root_path", "")).startswith(_PATHS):
        return scope
    segments = [unquote(part) for part in raw.partition(b"?")[0].decode("latin-1").split("/")]
    path = "/".join(part.replace("%", "%25").replace("/", "%2F") for part in segments)
    return {**scope, "path": path}


def name_in(scope: Scope, segment: str) -> str:
    """Return the name or id in a segment of a path, after `whole_segments`."""
    return unquote(segment) if b"%" in (scope.get("raw_path") or b"") else segment
