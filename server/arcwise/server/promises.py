"""Central statements of tasks are checked once: when a store gets the task."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from arcwise.errors import ParameterError
from arcwise.server.store.export import TaskState

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from arcwise.server.store import Store
    from arcwise.server.store.export import Record
    from arcwise.tasks import Task


@lru_cache(maxsize=16)  # `arcwise serve` asks before it listens, and the app when it starts
def check_statement(task: Task, called: str = "") -> None:
    """Raise `CertificateError` when a task has a central statement that is not true.

    It takes 20 ms, and seconds for several releases. See `check_promise` for `called`.
    """
    if task.central is not None:
        # Only here: SciPy is a third of a second of the start of a server without such tasks.
        from arcwise.analysis.central_privacy.promise import check_promise

        check_promise(task, called=called)


def check_new(store: Store, tasks: Iterable[Task]) -> None:
    """Check the central statements of the tasks that a store does not have yet.

    The id of a task covers its kernel and its statement, so a statement that was found true stays true.
    Raises `CertificateError` when one is not true.
    """
    promising = [task for task in tasks if task.central is not None]
    known = {entry.task.id for entry in store.tasks()} if promising else set()
    for task in promising:
        if task.id not in known:
            check_statement(task)


def checked_records(store: Store, records: Iterable[Record]) -> Generator[Record, None, None]:
    """Yield records that are to be merged into a store, after checking each new task like one that is sent.

    Raises `CertificateError` when a central statement is not true, and `ParameterError` when a new open task
    has the name of an open task of the store.
    """
    stored = store.tasks()
    known = {entry.task.id for entry in stored}
    taken = {entry.task.name: entry.task.id for entry in stored if entry.closed is None}
    for record in records:
        if isinstance(record, TaskState) and record.task.id not in known:
            check_statement(record.task)
            if record.closed is None and (other := taken.get(record.task.name)):
                raise ParameterError(
                    f"tasks {other} here and {record.task.id} there are open and have the same name: close "
                    "one of them first, with POST /v1/tasks/ID/close or on the page for operators. Nothing "
                    "was merged"
                )
        yield record
