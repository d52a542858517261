"""Checks before a source is replaced or dropped, and the epochs that change.

The functions are for every store; `SqlSource` has the statements of stores with tables. Each of these stores
has its own layout of counts.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from arcwise.checks import shown
from arcwise.errors import ParameterError
from arcwise.server.store.counting import exact_sum
from arcwise.server.store.epochs import last_taken
from arcwise.server.store.problems import Brought, refuse_more_than_most
from arcwise.server.store.records import SourceChange, SourceReport, SourceTask, StoredSource
from arcwise.wire import BATCH_ID_BYTES, MAX_EPOCH

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from arcwise.server.store.connection import SqlConnection
    from arcwise.server.store.records import StoredTask
    from arcwise.typing import IntArray

Cell = tuple[bytes, int]
"""The id of a task (32 bytes) and an epoch."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CHUNK = 4096
_MOST_NAMED = 5


class Plan(NamedTuple):
    """The changes that replacing a source will make.

    `open` has the replaced epochs that are open, changed or not: the ids of their batches must be given.
    `changed` has the new counts, shape (K,), of the epochs that change, and `added` the reports that each
    task with changes gains, by its id. `report` is for the caller.
    """

    open: set[Cell]
    changed: dict[Cell, IntArray]
    added: dict[bytes, int]
    report: SourceReport


def checked_name(name: str) -> str:
    """Return the name of a source; raise `ParameterError` when it is not valid."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ParameterError(
            "the name of a source must be 1 to 64 letters, digits, dots, dashes or underscores, and begin "
            f"with a letter or a digit; got {shown(name)}"
        )
    return name


def checked_counts(
    counts: Mapping[tuple[bytes, int], IntArray], tasks: Iterable[StoredTask], now: int
) -> dict[Cell, IntArray]:
    """Return the counts of a source as 64-bit integers.

    Raises `ParameterError` when a task is unknown, no server accepts an epoch at `now` (Unix seconds), or
    counts have the wrong shape or values.
    """
    sizes = {bytes.fromhex(stored.task.id): stored.task for stored in tasks}
    brought = Brought()
    found: dict[Cell, IntArray] = {}
    for (key, epoch), given in counts.items():
        task = sizes.get(bytes(key))
        if task is None:
            raise ParameterError(
                f"task {bytes(key).hex()} is not in the store: serve it, or register it first"
            )
        if isinstance(epoch, bool) or not 0 <= int(epoch) <= MAX_EPOCH:
            raise ParameterError(f"epoch must be from 0 to 2^32 - 1, got {epoch} of task {task.id}")
        if epoch > (last := last_taken(task, now)):
            raise ParameterError(
                f"epoch must be at most {last}, the newest that a server accepts now, got {epoch} of task "
                f"{task.id}: leave its reports out, or check this machine's clock. Nothing was changed"
            )
        array = np.asarray(given)
        codes = task.mechanism.kernel.codes
        if array.shape != (codes,) or array.dtype.kind not in "iu":
            raise ParameterError(
                f"counts of task {task.id}, epoch {epoch} must be {codes} integers, one for each code; "
                f"got {array.dtype} of shape {array.shape}"
            )
        if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
            raise ParameterError(f"counts must be below 2^63, got {array.max()} of task {task.id}")
        found[bytes(key), int(epoch)] = row = array.astype(np.int64)
        brought.add(task, row)
    return found


def checked_ids(batch_ids: Iterable[tuple[bytes, int, bytes]]) -> Iterator[list[tuple[bytes, int, bytes]]]:
    """Yield batch ids in lists of a few thousand, after checking that each has 16 bytes."""
    chunk = []
    for key, epoch, batch_id in batch_ids:
        if len(batch_id) != BATCH_ID_BYTES:
            raise ParameterError(f"a batch id must be {BATCH_ID_BYTES} bytes, got {len(batch_id)}")
        chunk.append((bytes(key), int(epoch), bytes(batch_id)))
        if len(chunk) == _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def left_epochs(
    moved: Iterable[tuple[bytes, int, int, int]],
    batches: Mapping[Cell, int],
    counts: Mapping[Cell, IntArray],
    states: Mapping[bytes, tuple[int, int | None]],
) -> dict[Cell, IntArray]:
    """Return zero counts for the epochs of a source that lose all their batches to other epochs.

    If batches share an id, a lake counts only the batch with the smallest epoch. So a new file can move a
    batch out of an epoch, which may then be empty. An epoch that would keep some of its batches stays as it
    is: `counts` does not mention it, and a sender that reuses an old id must not empty it.

    `moved` describes the batches that the source has in one epoch, and that the new data has in another: the
    task, the new epoch, the present epoch, and the number of batches. `batches` is the number of batches that
    the source has so far in each epoch, at least in the epochs of `moved`. `states` has the first open epoch
    of each task, and when the task was closed.
    """
    gone: dict[Cell, int] = {}
    left: dict[Cell, IntArray] = {}
    for key, epoch, before, number in moved:
        given = (key, epoch) in counts and (key, before) not in counts
        if given and _is_open(states[key], min(epoch, before)):
            gone[key, before] = gone.get((key, before), 0) + number
            if gone[key, before] == batches.get((key, before), 0):
                left[key, before] = np.zeros_like(counts[key, epoch])
    return left


def _is_open(state: tuple[int, int | None], epoch: int) -> bool:
    open_from, closed_at = state
    return closed_at is None and epoch >= open_from


def plan_changes(
    name: str,
    counts: Mapping[Cell, IntArray],
    held: Mapping[Cell, IntArray],
    states: Mapping[bytes, tuple[int, int | None]],
) -> Plan:
    """Return the changes that replacing a source with new counts will make.

    `held` has the counts of the source in the store, at least for the epochs in `counts`. `states` has the
    first open epoch of each task, and when the task was closed.
    """
    replaced: set[Cell] = set()
    changed: dict[Cell, IntArray] = {}
    added: dict[bytes, int] = {}
    changes: list[SourceChange] = []
    closed: list[SourceChange] = []
    unchanged = 0
    for cell, new in sorted(counts.items(), key=lambda item: item[0]):
        key, epoch = cell
        before = held.get(cell)
        is_open = _is_open(states[key], epoch)
        if is_open:
            replaced.add(cell)
        if new.any() if before is None else not np.array_equal(new, before):
            old = 0 if before is None else exact_sum(before)
            change = SourceChange(key.hex(), epoch, old, exact_sum(new))
            (changes if is_open else closed).append(change)
            if is_open:
                changed[cell] = new
                added[key] = added.get(key, 0) + change.after - change.before
        else:
            unchanged += 1
    return Plan(replaced, changed, added, SourceReport(name, tuple(changes), unchanged, tuple(closed)))


def refuse_twice(twice: int) -> None:
    """Raise `ParameterError` when the batch ids of a source are not all different."""
    if twice:
        raise ParameterError(
            f"{twice:,} batch ids are given twice: a batch counts once in its task, in one epoch. Nothing "
            "was changed"
        )


def refuse_ids_without_counts(plan: Plan, counts: Mapping[Cell, IntArray], ids: Mapping[Cell, int]) -> None:
    """Raise `ParameterError` when the numbers of batch ids by epoch do not fit the counts of a source.

    An epoch with ids must have counts. An epoch that the plan replaces must have ids if it has reports, and
    must not have more batches than reports.
    """
    for (key, epoch), batches in ids.items():
        if (key, epoch) not in counts:
            raise ParameterError(
                f"there are {batches:,} batch ids of task {key.hex()}, epoch {epoch}, but no counts. "
                "Nothing was changed"
            )
    for cell in sorted(plan.open):
        reports, batches = exact_sum(counts[cell]), ids.get(cell, 0)
        if not min(reports, 1) <= batches <= reports:
            raise ParameterError(
                f"task {cell[0].hex()}, epoch {cell[1]} has {reports:,} reports in {batches:,} batches: give "
                "the ids of all batches that are in the counts, or batches could count twice. "
                "Nothing was changed"
            )


def known_batches(rows: Iterable[tuple[str | None, bytes, int, int]], name: str) -> ParameterError:
    """Return the error for batches of a source that are already counted elsewhere.

    Each row holds the party that counted the batches (the name of a source, or None for the server), their
    task and their epoch in the new data, and the number of batches.
    """
    found = sorted(rows, key=lambda row: (row[0] or "", *row[1:]))
    parts = []
    for other in dict.fromkeys(row[0] for row in found):
        cells = [(key, epoch, batches) for who, key, epoch, batches in found if who == other]
        who = "the server" if other is None else f"source {other}"
        if other == name:
            who = "this source, in epochs that are closed or not in these counts"
        where = "; ".join(
            f"task {key.hex()}, epoch {epoch}: {batches:,}" for key, epoch, batches in cells[:_MOST_NAMED]
        )
        more = f"; {len(cells) - _MOST_NAMED:,} more epochs" if len(cells) > _MOST_NAMED else ""
        parts.append(f"{sum(cell[2] for cell in cells):,} batches are counted by {who} ({where}{more})")
    cure = "Remove them from the source"
    if any(row[0] == name for row in found):
        cure += ", or count it together with the files of those epochs"
    return ParameterError(f"{' and '.join(parts)}, and would count twice. {cure}. Nothing was changed")


def refuse_known_sources(names: Iterable[str], known: Iterable[str]) -> None:
    """Raise `ParameterError` when a store to be merged has a source with a known name."""
    for name in sorted(set(names) & set(known)):
        raise ParameterError(
            f"both stores have a source {name}, which may hold the same reports. Drop it in one of them with "
            "`arcwise store drop-source`, merge, and replace it from its data. Nothing was merged"
        )


def unknown_source(name: str) -> ParameterError:
    """Return the error for a source that does not exist."""
    return ParameterError(f"the store has no source {name!r}; `arcwise store sources` lists its sources")


def refuse_to_drop_closed(name: str, epochs: int) -> None:
    """Raise `ParameterError` when dropping a source would delete counts that cannot be counted again."""
    if epochs:
        raise ParameterError(
            f"source {name} has counts in {epochs:,} closed epochs, which no source can bring back: to drop "
            "them, too, use --closed-too (closed_too=True). Nothing was changed"
        )


def refuse_to_drop_released(name: str, epochs: int) -> None:
    """Raise `ParameterError` when dropping a source would change released epochs."""
    if epochs:
        raise ParameterError(
            f"source {name} has counts in {epochs:,} released epochs, which never change: readers who "
            "saw them before could work out the source's counts. `arcwise store delete-data` deletes all "
            "data of a task. Nothing was changed"
        )


def stored_sources(rows: Iterable[Sequence[Any]]) -> list[StoredSource]:
    """Return the sources from rows of a name, a time, and the fields of a `SourceTask` (or None)."""
    found: dict[tuple[str, int], list[SourceTask]] = {}
    for name, replaced, key, first, last, epochs, reports in rows:
        tasks = found.setdefault((name, replaced), [])
        if key is not None:
            tasks.append(SourceTask(bytes(key).hex(), first, last, epochs, int(reports)))
    return [StoredSource(name, replaced, tuple(tasks)) for (name, replaced), tasks in found.items()]


# Table `incoming` has the given ids, and `replaced` the epochs that are replaced.
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
    """A source in a transaction that changes the source; nobody else changes sources meanwhile.

    `source` is the source's number, and `place` the number by which `where` finds the source's counts.
    """

    where: ClassVar[str]
    """The condition that selects the rows `c` of counts or of totals that belong to the source."""
    forget: ClassVar[str]
    """The statement that deletes those ids of replaced epochs that are not among the given ids."""
    insert: ClassVar[str]
    """The statement that inserts those given ids of replaced epochs that are not stored yet."""

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
        """Replace counts and ids of batches; `ids` has the number of given ids for each epoch."""
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
        self._replace_ids(plan, numbers)  # this is last, because senders of these ids wait from now on
        return plan

    @abstractmethod
    def batches(self, cells: Collection[Cell]) -> dict[Cell, int]:
        """Return how many batches the source has in each of these epochs."""

    @abstractmethod
    def held(self, counts: Mapping[Cell, IntArray]) -> dict[Cell, IntArray]:
        """Return the present counts of the source in the given epochs; epochs without counts are left out."""

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

    def analyze(self) -> None:  # noqa: B027 (SQLite does not need this)
        """Update the planner's statistics of the table of replaced epochs."""

    def end_replacing(self, now: int) -> None:
        """Record that the source was replaced at a time, in Unix seconds."""
        self.connection.change(
            "UPDATE source SET replaced = :now WHERE number = :source", now=now, source=self.source
        )
        self.connection.change("UPDATE state SET replaced = replaced + 1")

    def drop_data(self, *, closed_too: bool) -> int:
        """Delete counts and batch ids, or raise if they must stay; return the number of deleted reports."""
        closed, released = (
            self.connection.row(
                "SELECT count(*) FROM ("  # noqa: S608 (no text from outside)
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
        """Delete the entry of the source after its data."""
        self.connection.change("DELETE FROM source WHERE number = :source", source=self.source)
        self.connection.change("UPDATE state SET replaced = replaced + 1")
