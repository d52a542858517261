"""What every store does in the same way to release epochs: which ones, and which a merge may bring."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from arcwise.tasks import Task


class Decided(NamedTuple):
    """How far a store has decided which epochs of a task are released.

    Attributes
    ----------
    before
        The first epoch that is not decided; 0 where nothing is.
    changes
        How often what is released has changed otherwise, by a merge or by deleting the data of the task.
    """

    before: int
    changes: int


class Closing(NamedTuple):
    """What became of the epochs with reports that were closed.

    Attributes
    ----------
    released
        How many are released.
    small
        How many have too few reports, and are never shown.
    unsure
        How many are never shown because an earlier state of the store may have released them.
    """

    released: int = 0
    small: int = 0
    unsure: int = 0


def decide(reports: Mapping[int, int], least: int, unsure_before: int) -> tuple[dict[int, int], Closing]:
    """Return which of the epochs that close are released, with their reports, and how many are what.

    Parameters
    ----------
    reports
        By epoch.
    least
        Reports that a released epoch has, at least; never below 1.
    unsure_before
        Epochs below are not released.
    """
    filled = {epoch: n for epoch, n in reports.items() if n > 0}
    sure = {epoch: n for epoch, n in filled.items() if epoch >= unsure_before}
    released = {epoch: n for epoch, n in sure.items() if n >= least}
    return released, Closing(len(released), len(sure) - len(released), len(filled) - len(sure))


def brought_releases(
    brought: Mapping[int, int], released: Collection[int], held: Collection[int]
) -> dict[int, int]:
    """Return those of the releases that a merge brings that are released here from then on.

    An epoch that has reports here, too, would have other counts here than where it was released, so that the
    difference would be shown: it never is released.

    Parameters
    ----------
    brought
        Reports of the released epochs of the other store.
    released
        Epochs that are released here; what a merge has of them is not counted.
    held
        Epochs that have reports here.
    """
    return {epoch: n for epoch, n in brought.items() if epoch not in released and epoch not in held}


def refuse_to_drop_released(name: str, epochs: int) -> None:
    """Raise when dropping a source would change released epochs.

    Raises
    ------
    ParameterError
        With how many there are.
    """
    if epochs:
        raise ParameterError(
            f"source {name} has counts in {epochs:,} released epochs, which never change: who has seen them "
            "before would see what the source had. `arcwise store delete-data` deletes all that a task has. "
            "Nothing was changed"
        )


def least_released(task: Task) -> int:
    """Return how many reports an epoch of a task must have to be released."""
    return max(task.least_reports, 1)


def release_problems(
    task: Task, open_from: int, before: int, released: Mapping[int, int], reports: Mapping[int, int]
) -> Iterable[str]:
    """Yield what is wrong with the releases of a task.

    Parameters
    ----------
    task
        Whose they are.
    open_from, before
        The first epoch that takes reports, and the first that is not decided.
    released
        Reports of the released epochs when they were released.
    reports
        Those that they have.
    """
    if before > open_from:
        yield f"task {task.id}: epochs before {before} are decided, but those from {open_from} on are open"
    for epoch, n in released.items():
        if epoch >= before:
            yield f"task {task.id}, epoch {epoch}: released, but not decided"
        if n < (least := least_released(task)):
            yield f"task {task.id}, epoch {epoch}: released with {n:,} reports, fewer than {least:,}"
        if (found := reports.get(epoch, 0)) != n:
            yield f"task {task.id}, epoch {epoch}: released with {n:,} reports, but has {found:,}"
