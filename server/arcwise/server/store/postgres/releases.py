"""Which epochs of a PostgreSQL store are released: decided when they close, and never again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.server.store.postgres.locks import alone
from arcwise.server.store.releases import Closing, Decided, brought_releases, decide

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arcwise.server.store.export import TaskState
    from arcwise.server.store.postgres.database import Connection
    from arcwise.tasks import Task

_LAST_EPOCH = (1 << 63) - 1


def release(
    connection: Connection, number: int, before: int, *, least: int, unsure_before: int
) -> Closing | None:
    """Close epochs and decide which are released; return None if none close. See `Store.release`."""
    ((has_reports,),) = connection.execute(
        "SELECT EXISTS (SELECT FROM counts WHERE task = %s)", (number,)
    ).fetchall()
    if not has_reports or before <= _decided(connection, number).before:
        return None
    with connection.transaction():
        alone(connection, number)
        known = _decided(connection, number)  # another process may have been first
        found = connection.execute(
            "SELECT epoch, sum(reports)::bigint FROM counts WHERE task = %s AND epoch >= %s AND epoch < %s"
            " GROUP BY epoch",
            (number, known.before, before),
        ).fetchall()
        chosen, done = decide(dict(found), least, unsure_before)
        _insert(connection, number, chosen)
        _set_decided(connection, number, Decided(max(before, known.before), known.changes))
    return done


def bring(connection: Connection, number: int, record: TaskState) -> frozenset[int]:
    """Take over the releases of a merged task; return the epochs whose counts are not to be added.

    Within the transaction of the merge, while nobody else writes, before its counts.
    """
    frozen = frozenset(_released(connection, number))
    if record.decided:
        known = _decided(connection, number)
        held = {
            epoch
            for (epoch,) in connection.execute(
                "SELECT DISTINCT epoch FROM counts WHERE task = %s", (number,)
            ).fetchall()
        }
        _insert(connection, number, brought_releases(record.released, frozen, held))
        _set_decided(connection, number, Decided(max(known.before, record.decided), known.changes + 1))
    return frozen


def decided(connection: Connection, task: Task) -> Decided:
    """Return how far it is decided; see `Store.decided`."""
    row = connection.execute(
        "SELECT before, changes FROM decided WHERE task = (SELECT number FROM task WHERE id = %s)",
        (bytes.fromhex(task.id),),
    ).fetchone()
    return Decided(0, 0) if row is None else Decided(*row)


def released(connection: Connection, task: Task, first: int | None, last: int | None) -> dict[int, int]:
    """Return what is released; see `Store.released`."""
    rows = connection.execute(
        "SELECT epoch, reports FROM released WHERE task = (SELECT number FROM task WHERE id = %s)"
        " AND epoch BETWEEN %s AND %s ORDER BY epoch",
        (bytes.fromhex(task.id), first or 0, _LAST_EPOCH if last is None else last),
    ).fetchall()
    return dict(rows)


def state(connection: Connection, number: int) -> tuple[int, dict[int, int]]:
    """Return up to where it is decided what is released, and what is: what a `TaskState` has of it."""
    return _decided(connection, number).before, _released(connection, number)


def _released(connection: Connection, number: int) -> dict[int, int]:
    rows = connection.execute(
        "SELECT epoch, reports FROM released WHERE task = %s ORDER BY epoch", (number,)
    ).fetchall()
    return dict(rows)


def _decided(connection: Connection, number: int) -> Decided:
    row = connection.execute("SELECT before, changes FROM decided WHERE task = %s", (number,)).fetchone()
    return Decided(0, 0) if row is None else Decided(*row)


def _set_decided(connection: Connection, number: int, to: Decided) -> None:
    """Decide up to an epoch, before which no batch is taken from then on."""
    connection.execute(
        "INSERT INTO decided (task, before, changes) VALUES (%s, %s, %s)"
        " ON CONFLICT (task) DO UPDATE SET before = excluded.before, changes = excluded.changes",
        (number, *to),
    )
    connection.execute(
        "UPDATE task SET open_from = %s WHERE number = %s AND open_from < %s", (to.before, number, to.before)
    )


def _insert(connection: Connection, number: int, chosen: Mapping[int, int]) -> None:
    connection.execute(
        "INSERT INTO released (task, epoch, reports) SELECT %s, * FROM unnest(%s::bigint[], %s::bigint[])",
        (number, list(chosen), list(chosen.values())),
    )
