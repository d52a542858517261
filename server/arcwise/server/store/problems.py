"""The errors that all stores raise for merges, keys and tasks, and the problems that `check` finds."""

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
"""Most reports of a task. Floats hold whole numbers up to this number exactly, and sums wrap only far beyond
it. No server gets that many reports: a thousand million reports a second would take a hundred days."""

MOST_MERGED = MOST_REPORTS // 2
"""A merge may bring a task to this number of reports; the other half is left for later reports of devices."""


class Brought:
    """The reports that a merge brings to each task, added up before anything in the store is changed."""

    def __init__(self) -> None:
        self._reports: dict[str, int] = {}

    def add(self, task: Task, counts: IntArray) -> None:
        """Add the counts of an epoch of a task to the reports that a merge brings.

        Raises `ParameterError` when counts are negative, or the task has more than `MOST_MERGED` reports.
        """
        if counts.min() < 0:
            raise ParameterError(f"counts must be at least 0, got {counts.min()} of task {task.id}")
        self._reports[task.id] = self._reports.get(task.id, 0) + exact_sum(counts)
        refuse_more_than_most(task.id, self._reports[task.id])


def refuse_more_than_most(task_id: str, reports: int) -> None:
    """Raise `ParameterError` when a task would have more than `MOST_MERGED` reports after a merge."""
    if reports > MOST_MERGED:
        raise ParameterError(
            f"task {task_id} would have {reports:,} reports; a merge may bring a task to at most "
            f"2^52 = {MOST_MERGED:,}. Nothing was merged"
        )


def refuse_known_origins(origins: Iterable[bytes], known: Mapping[bytes, int | None]) -> None:
    """Raise `ParameterError` when reports of one of the origins are already in the store.

    `known` says when the reports of each origin were merged, in Unix seconds, or None for the store's own.
    """
    for origin in origins:
        if origin in known:
            merged = known[origin]
            if merged is None:
                raise ParameterError("these reports come from this same store and would count twice")
            date = datetime.fromtimestamp(merged, timezone.utc).date()
            raise ParameterError(
                f"reports of store {origin.hex()} were merged on {date}; merging them again would count them "
                "twice. Merge a store once, when its servers have stopped"
            )


def refuse_known_batches(known: int) -> None:
    """Raise `ParameterError` when some of the batches to be merged are already in the store."""
    if known:
        raise ParameterError(
            f"at least {known:,} batches are in both stores, because devices sent them to both. Nothing was "
            "merged. A merge without batch ids counts them twice"
        )


def key_exists(key: StoredKey) -> ParameterError:
    """Return the error for a key whose id another key in the store has."""
    return ParameterError(f"the store already has a key {key.id!r}; make one with another id")


def refuse_taken_name(task: Task, opened: Iterable[Task]) -> None:
    """Raise `ParameterError` when another open task has the name of this task."""
    if any(each.name == task.name and each.id != task.id for each in opened):
        raise ParameterError(f"another open task has the name {task.name!r}; close it or rename this task")


def load_task(key: bytes, definition: bytes) -> Task:
    """Return the task with a definition; raise `StoreError` when this arcwise cannot load it."""
    try:
        return Task.from_bytes(definition)
    except ArcwiseError as error:
        raise StoreError(
            f"task {key.hex()} in the store cannot be loaded, a newer arcwise may have made it: {error}"
        ) from error


def task_problems(key: bytes, definition: bytes) -> tuple[Task | None, list[str]]:
    """Return the task with a definition, or None if it cannot be loaded, and its problems."""
    try:
        task = Task.from_bytes(definition)
    except ArcwiseError as error:
        return None, [f"task {key.hex()} cannot be loaded: {error}"]
    if task.id != key.hex():
        return None, [f"task {key.hex()} has the definition of another task, {task.id}"]
    return task, []


def counts_problems(task: Task, rows: Iterable[tuple[int, IntArray]], total: int) -> list[str]:
    """Return the problems of a task's counts, from its epochs with their counts and its stored total."""
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
    """Return a problem for each time of a task that lies in the future; only a wrong clock causes this.

    `closed`, `open_from` and `newest` are as in `StoredTask`, and `now` is in Unix seconds.
    """
    last = last_taken(task, now)
    problems = []
    if closed is not None and closed > now + DAY:
        problems.append(f"task {task.id} was closed at Unix time {closed}, which lies in the future")
    if open_from > last + 1:
        problems.append(
            f"task {task.id}: epochs before {open_from} are closed, but epochs after {last} are in the future"
        )
    if newest is not None and newest > last:
        problems.append(
            f"task {task.id} has reports of epoch {newest}, but epochs after {last} lie in the future"
        )
    return problems
