"""What every store does in the same way to release epochs: which ones, and which a merge may bring."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from arcwise.tasks import Task


class Decided(NamedTuple):
    """The progress of a store in deciding which epochs of a task are released.

    `before` is the first epoch that is not decided, 0 where none is. `changes` is how often the released
    epochs have changed otherwise, by a merge or by deleting the data of the task.
    """

    before: int
    changes: int


class Closing(NamedTuple):
    """The numbers of epochs with reports that were closed, by what became of them.

    Epochs that are `small` have too few reports, and an earlier state of the store may have released those
    that are `unsure`; neither are ever shown.
    """

    released: int = 0
    small: int = 0
    unsure: int = 0


def decide(reports: Mapping[int, int], least: int, unsure_before: int) -> tuple[dict[int, int], Closing]:
    """Return the closing epochs that are released, with their reports, and the number of each outcome.

    An epoch is released if it has at least `least` reports, never below 1, and is not below `unsure_before`.
    """
    filled = {epoch: n for epoch, n in reports.items() if n > 0}
    sure = {epoch: n for epoch, n in filled.items() if epoch >= unsure_before}
    released = {epoch: n for epoch, n in sure.items() if n >= least}
    return released, Closing(len(released), len(sure) - len(released), len(filled) - len(sure))


def brought_releases(
    brought: Mapping[int, int], released: Collection[int], held: Collection[int]
) -> dict[int, int]:
    """Return those releases of a merge that are released in this store from then on.

    An epoch that has reports here, too, would have other counts here than where it was released, and the
    difference would be shown: it is never released. `brought` has the reports of the epochs released in the
    other store. `released` are the epochs released here, to which a merge adds nothing, and `held` are those
    with reports here.
    """
    return {epoch: n for epoch, n in brought.items() if epoch not in released and epoch not in held}


def refuse_to_drop_released(name: str, epochs: int) -> None:
    """Raise `ParameterError` when dropping a source would change released epochs."""
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
    """Yield the inconsistencies in the releases of a task.

    `open_from` is the first epoch that takes reports, and `before` the first that is not decided. `released`
    has the reports of each released epoch at its release, and `reports` those that it has now.
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
