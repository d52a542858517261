"""What every store refuses to merge or to keep, and what `check` finds in it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from arcwise.errors import ArcwiseError, ParameterError, StoreError
from arcwise.server.store.counting import exact_sum
from arcwise.server.store.epochs import last_taken
from arcwise.tasks import DAY, Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from arcwise.server.store.records import StoredKey
    from arcwise.typing import IntArray


MOST_REPORTS = 2**53
"""Of a task. Floats hold whole numbers up to here exactly, and far beyond it sums wrap. No server takes as
many: they are a thousand million reports a second for a hundred days."""

MOST_MERGED = MOST_REPORTS // 2
"""The rest is left to reports that devices send afterwards."""


class Brought:
    """The reports of the tasks that are brought, added up before anything of the store is changed."""

    def __init__(self) -> None:
        self._reports: dict[str, int] = {}

    def add(self, task: Task, counts: IntArray) -> None:
        """Add the counts of an epoch of a task to those that a merge brings.

        Raises `ParameterError` when counts are negative, or the task has more than `MOST_MERGED` reports.
        """
        if counts.min() < 0:
            raise ParameterError(f"counts must be at least 0, got {counts.min()} of task {task.id}")
        self._reports[task.id] = self._reports.get(task.id, 0) + exact_sum(counts)
        refuse_more_than_most(task.id, self._reports[task.id])


def refuse_more_than_most(task_id: str, reports: int) -> None:
    """Raise `ParameterError` when a task would have more reports than can be added up."""
    if reports > MOST_MERGED:
        raise ParameterError(
            f"task {task_id} would have {reports:,} reports; a merge may bring a task to at most "
            f"2^52 = {MOST_MERGED:,}. Nothing was merged"
        )


def refuse_known_origins(origins: Iterable[bytes], known: Mapping[bytes, int | None]) -> None:
    """Raise `ParameterError` when the reports of one of the origins are in the store already.

    `known` says when the reports of each origin were merged, in Unix seconds, or None for the store's own.
    """
    for origin in origins:
        if origin in known:
            merged = known[origin]
            if merged is None:
                raise ParameterError("these reports come from this very store and would count twice")
            date = datetime.fromtimestamp(merged, timezone.utc).date()
            raise ParameterError(
                f"reports of store {origin.hex()} were merged on {date}; merging them again would count them "
                "twice. Merge a store once, when its servers have stopped"
            )


def refuse_known_batches(known: int) -> None:
    """Raise `ParameterError` when some of the batches to be merged are in the store already."""
    if known:
        raise ParameterError(
            f"at least {known:,} batches are in both stores: devices sent them to both. Nothing was merged. "
            "A merge without batch ids counts them twice"
        )


def key_exists(key: StoredKey) -> ParameterError:
    """Return the error of a key whose id is taken."""
    return ParameterError(f"the store already has a key {key.id!r}; make one with another id")


def refuse_taken_name(task: Task, opened: Iterable[Task]) -> None:
    """Raise `ParameterError` when another of the open tasks has the name of a task."""
    if any(each.name == task.name and each.id != task.id for each in opened):
        raise ParameterError(f"another open task has the name {task.name!r}; close it first, or rename this")


def load_task(key: bytes, definition: bytes) -> Task:
    """Return the task of a definition; raise `StoreError` when this arcwise cannot load it."""
    try:
        return Task.from_bytes(definition)
    except ArcwiseError as error:
        raise StoreError(
            f"task {key.hex()} in the store cannot be loaded, perhaps a newer arcwise made it: {error}"
        ) from error


def task_problems(key: bytes, definition: bytes) -> tuple[Task | None, list[str]]:
    """Return the task of a definition, None when it is none, and what is wrong with it."""
    try:
        task = Task.from_bytes(definition)
    except ArcwiseError as error:
        return None, [f"task {key.hex()} cannot be loaded: {error}"]
    if task.id != key.hex():
        return None, [f"task {key.hex()} has the definition of task {task.id}"]
    return task, []


def counts_problems(task: Task, rows: Iterable[tuple[int, IntArray]], total: int) -> list[str]:
    """Return what is wrong with the counts of a task: epochs with their counts, and reports in all."""
    problems = []
    reports = 0
    for epoch, counts in rows:
        if counts.min() < 0:
            problems.append(f"task {task.id}, epoch {epoch}: negative counts")
        reports += exact_sum(counts)
    if reports > MOST_REPORTS:
        problems.append(f"task {task.id}: {reports:,} reports are more than 2^53, the most that it can have")
    if reports != total:
        problems.append(f"task {task.id}: the counts hold {reports:,} reports, its total says {total:,}")
    return problems


def time_problems(
    task: Task, closed: int | None, open_from: int, newest: int | None, now: float
) -> list[str]:
    """Return a problem for each time of a task that is yet to come, as only a wrong clock leaves it.

    `closed`, `open_from` and `newest` are as in `StoredTask`, and `now` is in Unix seconds.
    """
    last = last_taken(task, now)
    problems = []
    if closed is not None and closed > now + DAY:
        problems.append(f"task {task.id} was closed at Unix time {closed}, which is yet to come")
    if open_from > last + 1:
        problems.append(
            f"task {task.id}: epochs before {open_from} are closed, but those from {last} on are yet to come"
        )
    if newest is not None and newest > last:
        problems.append(
            f"task {task.id} has reports of epoch {newest}, but those after {last} are yet to come"
        )
    return problems
