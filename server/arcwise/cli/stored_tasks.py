"""Tasks in a store: find the task that an argument names, and answer commands' questions about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.digits import counted
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcwise.server.store import Store, StoredTask
    from arcwise.tasks import Task


def named_task(stored: Iterable[StoredTask], text: str, argument: str) -> StoredTask | None:
    """Return the task of a store with this name or id, or None if the store has no such task.

    Raises `ParameterError`, with the argument and the ids, when several tasks have the name.
    """
    found = [each for each in stored if text in (each.task.name, each.task.id)]
    if len(found) > 1:
        raise ParameterError(
            f"{argument} must name one task, but {len(found)} have the name {text!r}: give an id, one of "
            f"{', '.join(sorted(each.task.id for each in found))}"
        )
    return found[0] if found else None


def shows_closed_epochs(store: Store, task: Task) -> bool:
    """Return whether readers see only closed epochs of a task, by its own rule or that of the last server."""
    return bool(task.releases_closed_epochs or store.recall("closed_epochs") or store.decided(task).before)


def reports_of_namesakes(store: Store, task: Task) -> str:
    """Return a message if a store has reports only of other tasks of this name, otherwise "".

    A new version of a task is another task, and its file may have replaced the file of the task with reports.
    """
    if store.report_count(task):
        return ""
    counts = {
        each.task.id: store.report_count(each.task)
        for each in store.tasks()
        if each.task.name == task.name and each.task.id != task.id
    }
    others = [f"{key} ({counted(count, 'report')})" for key, count in counts.items() if count]
    if not others:
        return ""
    return (
        f"the store has no report of the task {task.id} in this file, but it has reports of other tasks "
        "with this name: "
        f"{', '.join(others)}. Give that task's file; GET /v1/tasks/ID returns it"
    )
