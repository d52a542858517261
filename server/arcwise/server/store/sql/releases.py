"""Which epochs of a store with tables are released: decided when they close, and never again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.server.store.releases import Decided, brought_releases, decide

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arcwise.server.store.export import TaskState
    from arcwise.server.store.releases import Closing
    from arcwise.server.store.sql.connection import SqlConnection


def closes(connection: SqlConnection, number: int, before: int) -> bool:
    """Return whether there seem to be epochs to close; only `close`, with the lock, knows."""
    (has_reports,) = connection.row("SELECT EXISTS (SELECT 1 FROM counts WHERE task = :task)", task=number)
    return bool(has_reports) and before > _decided(connection, number).before


def close(connection: SqlConnection, number: int, before: int, least: int, unsure_before: int) -> Closing:
    """Close epochs and decide which are released, in a transaction that has the lock; see `Store.release`."""
    known = _decided(connection, number)  # another process may have been first
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
    """Take over the releases of a merged task; return the epochs whose counts are not to be added.

    Within the transaction of the merge, while nobody else writes, before its counts.
    """
    known, released = _decided(connection, number), state(connection, number)[1]
    if record.decided:
        rows = connection.rows("SELECT DISTINCT epoch FROM counts WHERE task = :task", task=number)
        held = {epoch for (epoch,) in rows}
        _insert(connection, number, brought_releases(record.released, released, held))
        _set_decided(connection, number, Decided(max(known.before, record.decided), known.changes + 1))
    return frozenset(released)


def state(connection: SqlConnection, number: int) -> tuple[int, dict[int, int]]:
    """Return up to where it is decided what is released, and what is: what a `TaskState` has of it."""
    rows = connection.rows(
        "SELECT epoch, reports FROM released WHERE task = :task ORDER BY epoch", task=number
    )
    return _decided(connection, number).before, dict(rows)


def _decided(connection: SqlConnection, number: int) -> Decided:
    row = connection.row("SELECT before, changes FROM decided WHERE task = :task", task=number)
    return Decided(0, 0) if row is None else Decided(*row)


def _set_decided(connection: SqlConnection, number: int, to: Decided) -> None:
    """Decide up to an epoch, before which no batch is taken from then on."""
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
