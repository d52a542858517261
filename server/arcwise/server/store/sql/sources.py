"""How a source is replaced or dropped; each store has a layout of counts of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from arcwise.server.store.merging import refuse_more_than_most
from arcwise.server.store.releases import refuse_to_drop_released
from arcwise.server.store.sources import (
    known_batches,
    left_epochs,
    plan_changes,
    refuse_ids_without_counts,
    refuse_to_drop_closed,
    unknown_source,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from arcwise.server.store.sources import Cell, Plan
    from arcwise.server.store.sql.connection import SqlConnection
    from arcwise.typing import IntArray

# Table `incoming` has the ids that are given, and `replaced` the epochs that are replaced.
_KNOWN = """
    SELECT (SELECT name FROM source WHERE number = b.source), i.task, i.epoch, count(*)
    FROM incoming i JOIN replaced r ON r.key = i.task AND r.epoch = i.epoch
    JOIN batch b ON b.task = r.task AND b.id = i.id
    WHERE b.source IS DISTINCT FROM :source OR b.epoch <> i.epoch
    GROUP BY 1, 2, 3
"""
_MOVED = """
    SELECT i.task, i.epoch, b.epoch, count(*)
    FROM incoming i JOIN task t ON t.id = i.task JOIN batch b ON b.task = t.number AND b.id = i.id
    WHERE b.source = :source AND b.epoch <> i.epoch
    GROUP BY 1, 2, 3
"""


class TaskRow(NamedTuple):
    """The number and id of a task, its first open epoch, and when it was closed."""

    number: int
    id: bytes
    open_from: int
    closed: int | None


class SqlSource(ABC):
    """A source within a transaction that changes it; nobody else changes sources meanwhile.

    `source` is its number, and `place` the number by which `where` finds its counts.
    """

    where: ClassVar[str]
    """The condition that selects the rows `c` of counts or of totals that belong to the source."""
    forget: ClassVar[str]
    """The statement that deletes the ids of replaced epochs that are not given again."""
    insert: ClassVar[str]
    """The statement that inserts the given ids of replaced epochs that are not there yet."""

    def __init__(self, connection: SqlConnection, name: str, *, make: bool = False) -> None:
        if make:
            connection.change(
                "INSERT INTO source (name, replaced) SELECT :name, 0"
                " WHERE NOT EXISTS (SELECT 1 FROM source WHERE name = :name)",
                name=name,
            )
        row = connection.row("SELECT number FROM source WHERE name = :name", name=name)
        if row is None:
            raise unknown_source(name)
        self.connection = connection
        self.name = name
        self.source = self.place = int(row[0])

    def replace(
        self, counts: Mapping[Cell, IntArray], ids: Mapping[Cell, int], tasks: Sequence[TaskRow]
    ) -> Plan:
        """Replace counts and ids of batches; `ids` has the number of ids that are given for each epoch."""
        states = {task.id: (task.open_from, task.closed) for task in tasks}
        moved = self.connection.rows(_MOVED, source=self.source)
        batches = self.batches({(key, before) for key, _, before, _ in moved})
        counts = {**counts, **left_epochs(moved, batches, counts, states)}
        plan = plan_changes(self.name, counts, self.held(counts), states)
        refuse_ids_without_counts(plan, counts, ids)
        numbers = {task.id: task.number for task in tasks}
        self.replace_counts(plan, numbers)
        for key in plan.added:
            (total,) = self.connection.row(
                "SELECT cast(sum(reports) AS bigint) FROM total WHERE task = :task", task=numbers[key]
            )
            refuse_more_than_most(key.hex(), total)
        self._replace_ids(plan, numbers)  # last: senders of these ids wait from here
        return plan

    @abstractmethod
    def batches(self, cells: Collection[Cell]) -> dict[Cell, int]:
        """Return how many batches the source has in each of these epochs."""

    @abstractmethod
    def held(self, counts: Mapping[Cell, IntArray]) -> dict[Cell, IntArray]:
        """Return the counts that the source has so far, for those of the given epochs that have any."""

    @abstractmethod
    def replace_counts(self, plan: Plan, numbers: Mapping[bytes, int]) -> None:
        """Replace the counts that change, and add to the totals; `numbers` has the number of each task."""

    def _replace_ids(self, plan: Plan, numbers: Mapping[bytes, int]) -> None:
        self.connection.change_each(
            "INSERT INTO replaced (task, key, epoch) VALUES (:task, :key, :epoch)",
            [{"task": numbers[key], "key": key, "epoch": epoch} for key, epoch in plan.open],
        )
        self.analyze()
        self.connection.change(self.forget, source=self.source)
        self.connection.change(self.insert, source=self.source)
        if rows := self.connection.rows(_KNOWN, source=self.source):
            raise known_batches(rows, self.name)

    def analyze(self) -> None:  # noqa: B027 (SQLite need not be told)
        """Tell the planner how large the table of replaced epochs is."""

    def end_replacing(self, now: int) -> None:
        """Note that the source was replaced at a time, in Unix seconds."""
        self.connection.change(
            "UPDATE source SET replaced = :now WHERE number = :source", now=now, source=self.source
        )
        self.connection.change("UPDATE state SET replaced = replaced + 1")

    def drop_data(self, *, closed_too: bool) -> int:
        """Delete counts and ids of batches, or raise where they must stay; return how many reports."""
        closed, released = (
            self.connection.row(
                "SELECT count(*) FROM ("  # noqa: S608 (words of ours)
                f"SELECT DISTINCT c.task, c.epoch FROM counts c JOIN {other} WHERE {self.where}) AS found",
                place=self.place,
            )[0]
            for other in (
                "task t ON t.number = c.task AND (t.closed IS NOT NULL OR c.epoch < t.open_from)",
                "released r ON r.task = c.task AND r.epoch = c.epoch",
            )
        )
        refuse_to_drop_closed(self.name, 0 if closed_too else closed)
        refuse_to_drop_released(self.name, released)
        (reports,) = self.connection.row(
            f"SELECT cast(coalesce(sum(reports), 0) AS bigint) FROM total AS c WHERE {self.where}",  # noqa: S608
            place=self.place,
        )
        for table in ("counts", "total"):
            self.connection.change(f"DELETE FROM {table} AS c WHERE {self.where}", place=self.place)  # noqa: S608
        self.connection.change("DELETE FROM batch WHERE source = :source", source=self.source)
        return int(reports)

    def end_dropping(self) -> None:
        """Forget the source, whose data is gone."""
        self.connection.change("DELETE FROM source WHERE number = :source", source=self.source)
        self.connection.change("UPDATE state SET replaced = replaced + 1")
