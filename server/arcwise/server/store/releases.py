"""Which epochs are released: this is decided when they close, and never changes.

The first functions are for every store; the functions that take a `SqlConnection` are for stores with tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from arcwise.server.store.connection import SqlConnection
    from arcwise.server.store.export import TaskState
    from arcwise.tasks import Task


class Decided(NamedTuple):
    """The progress of a store in deciding which epochs of a task are released.

    `before` is the first epoch that is not decided, 0 if none is decided. `changes` is how often the released
    epochs have changed in other ways, by a merge or by deleting the data of the task.
    """

    before: int
    changes: int


class Closing(NamedTuple):
    """The numbers of epochs with reports that were closed, by their outcome.

    `small` epochs have too few reports, and `unsure` epochs may have been released by an earlier state of the
    store. Small and unsure epochs are never shown.
    """

    released: int = 0
    small: int = 0
    unsure: int = 0


def decide(reports: Mapping[int, int], least: int, unsure_before: int) -> tuple[dict[int, int], Closing]:
    """Return the reports of those closing epochs that are released, and the number of epochs by outcome.

    An epoch is released if it has at least `least` reports, never below 1, and is not below `unsure_before`.
    """
    filled = {epoch: n for epoch, n in reports.items() if n > 0}
    sure = {epoch: n for epoch, n in filled.items() if epoch >= unsure_before}
    released = {epoch: n for epoch, n in sure.items() if n >= least}
    return released, Closing(len(released), len(sure) - len(released), len(filled) - len(sure))


def brought_releases(
    brought: Mapping[int, int], released: Collection[int], held: Collection[int]
) -> dict[int, int]:
    """Return the releases of a merge that this store takes over.

    An epoch of which this store has reports would get other counts than the other store released, and readers
    could see the difference; so it is never released. `brought` has the reports of the epochs released in the
    other store. `released` are the epochs that this store has released; a merge adds nothing to them. `held`
    are the epochs of which this store has reports.
    """
    return {epoch: n for epoch, n in brought.items() if epoch not in released and epoch not in held}


def least_released(task: Task) -> int:
    """Return the least number of reports of a released epoch of a task."""
    return max(task.least_reports, 1)


def release_problems(
    task: Task, open_from: int, before: int, released: Mapping[int, int], reports: Mapping[int, int]
) -> Iterable[str]:
    """Yield the inconsistencies in the releases of a task.

    `open_from` is the first epoch that takes reports, and `before` the first epoch that is not decided.
    `released` has the number of reports of each released epoch at its release, and `reports` the present
    numbers.
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


def closes(connection: SqlConnection, number: int, before: int) -> bool:
    """Return whether there seem to be epochs to close; `close` checks again when it has the lock."""
    (has_reports,) = connection.row("SELECT EXISTS (SELECT 1 FROM counts WHERE task = :task)", task=number)
    return bool(has_reports) and before > _decided(connection, number).before


def close(connection: SqlConnection, number: int, before: int, least: int, unsure_before: int) -> Closing:
    """Close epochs and decide which are released, in a transaction that has the lock; see `Store.release`."""
    known = _decided(connection, number)  # another process may have closed them first
    found = connection.rows(
        "SELECT epoch, cast(sum(reports) AS bigint) FROM counts"
        " WHERE task = :task AND epoch >= :first AND epoch < :before GROUP BY epoch",
        task=number,
        first=known.before,
        before=before,
    )
    chosen, done = decide(dict(found), least, unsure_before)
    _insert(connection, number, chosen)
    _set_decided(connection, number, Decided(max(before, known.before), known.changes))
    return done


def bring(connection: SqlConnection, number: int, record: TaskState) -> frozenset[int]:
    """Take over the releases of a merged task; return the epochs whose counts must not be added.

    Call this in the transaction of the merge, while nobody else writes, before the counts are added.
    """
    known, released = _decided(connection, number), state(connection, number)[1]
    if record.decided:
        rows = connection.rows("SELECT DISTINCT epoch FROM counts WHERE task = :task", task=number)
        held = {epoch for (epoch,) in rows}
        _insert(connection, number, brought_releases(record.released, released, held))
        _set_decided(connection, number, Decided(max(known.before, record.decided), known.changes + 1))
    return frozenset(released)


def state(connection: SqlConnection, number: int) -> tuple[int, dict[int, int]]:
    """Return the first undecided epoch and the released epochs, as a `TaskState` holds them."""
    rows = connection.rows(
        "SELECT epoch, reports FROM released WHERE task = :task ORDER BY epoch", task=number
    )
    return _decided(connection, number).before, dict(rows)


def _decided(connection: SqlConnection, number: int) -> Decided:
    row = connection.row("SELECT before, changes FROM decided WHERE task = :task", task=number)
    return Decided(0, 0) if row is None else Decided(*row)


def _set_decided(connection: SqlConnection, number: int, to: Decided) -> None:
    """Record that the epochs below `to.before` are decided, and accept no more batches of these epochs."""
    connection.change(
        "INSERT INTO decided (task, before, changes) VALUES (:task, :before, :changes)"
        " ON CONFLICT (task) DO UPDATE SET before = excluded.before, changes = excluded.changes",
        task=number,
        before=to.before,
        changes=to.changes,
    )
    connection.change(
        "UPDATE task SET open_from = :before WHERE number = :task AND open_from < :before",
        task=number,
        before=to.before,
    )


def _insert(connection: SqlConnection, number: int, chosen: Mapping[int, int]) -> None:
    connection.change_each(
        "INSERT INTO released (task, epoch, reports) VALUES (:task, :epoch, :reports)",
        [{"task": number, "epoch": epoch, "reports": reports} for epoch, reports in chosen.items()],
    )
