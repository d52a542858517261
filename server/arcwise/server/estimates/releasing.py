"""When epochs close, which tasks show only closed epochs, and whether their central statements are true."""

from __future__ import annotations

from contextlib import closing
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from arcwise.analysis.timeseries.epochs import epochs_in
from arcwise.errors import ParameterError
from arcwise.server.estimates.parts import block_size, in_whole_blocks, parts_of
from arcwise.server.store.export import Counts, Header, TaskState
from arcwise.tasks.central import CLOSED_EPOCHS

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from arcwise.server.settings import Settings
    from arcwise.server.store import Store
    from arcwise.server.store.export import Record
    from arcwise.tasks import Task


class Lateness(NamedTuple):
    """The time after an epoch of a task in which its batches are still accepted.

    It is either `seconds`, which the task states, or whole `epochs`; the unused field is 0.
    """

    task: Task
    seconds: int
    epochs: int

    def first_open(self, now: float) -> int:
        """Return the first epoch that accepts batches at the time `now`, in Unix seconds."""
        return self.task.epoch(now - self.seconds) - self.epochs


class Releasing(NamedTuple):
    """The settings for closing and releasing epochs; a task may add its own.

    `release` is "live", or "closed-epochs" for all tasks. `retention_days` is the lateness of tasks that
    state none.
    """

    release: str
    retention_days: int

    @classmethod
    def of(cls, settings: Settings) -> Releasing:
        """Return the `Releasing` that settings ask for."""
        return cls(settings.release, settings.retention_days)

    def is_live(self, task: Task) -> bool:
        """Return whether readers see the counts of a task as they grow."""
        return self.release != CLOSED_EPOCHS and not task.releases_closed_epochs

    def all_live(self, tasks: Iterable[Task]) -> bool:
        """Return whether readers see all counts as they grow."""
        return all(self.is_live(task) for task in tasks)

    def lateness(self, task: Task) -> Lateness:
        """Return how long after an epoch batches of a task are accepted."""
        if task.lateness_seconds is not None:
            return Lateness(task, task.lateness_seconds, 0)
        return Lateness(task, 0, epochs_in(self.retention_days, task))


def released_records(store: Store) -> Generator[Record, None, None]:
    """Yield the records of an export of released epochs: the counts of sources and of the server, added up.

    Epochs that the last server showed together because of its `min_reports` are added up under the first
    epoch.
    """
    least, days = store.recall("min_reports") or 0, store.recall("min_reports_days") or 1
    with closing(store.export(ids=False)) as records:
        header = next(records)
    assert isinstance(header, Header)  # noqa: S101 (narrows the type for the checker)
    found: list[tuple[TaskState, list[Counts]]] = []
    for stored in store.tasks():
        before = store.decided(stored.task).before
        shown = in_whole_blocks(stored.task, store.released(stored.task), before, least, days)
        (part,) = parts_of(stored.task, shown, None, 0, least, days)
        size, anchor = block_size(stored.task, least, days)
        firsts: dict[int, int] = {}
        groups = {epoch: firsts.setdefault((epoch - anchor) // size, len(firsts)) for epoch in part.epochs}
        under = [next(epoch for epoch, row in groups.items() if row == each) for each in range(len(firsts))]
        sums = store.sums(stored.task, groups, len(under))
        counts = [Counts(epoch, row) for epoch, row in zip(under, sums, strict=True)]
        released = {each.epoch: int(each.counts.sum()) for each in counts}
        found.append((TaskState(stored.task, stored.closed, before, before, released), counts))
    reports = sum(n for state, _ in found for n in state.released.values())
    yield Header(header.origins, reports, False, (), header.clock)
    for state, rows in found:
        yield state
        yield from rows


@lru_cache(maxsize=16)  # `arcwise serve` checks before it listens, and the app when it starts
def check_statement(task: Task, called: str = "") -> None:
    """Raise `CertificateError` if a task's central statement is not true.

    This takes 20 ms, or seconds for several releases. See `check_promise` for `called`.
    """
    if task.central is not None:
        # Imported only here: SciPy adds a third of a second to the start of a server without such tasks.
        from arcwise.analysis.central_privacy.promise import check_promise

        check_promise(task, called=called)


def check_new(store: Store, tasks: Iterable[Task]) -> None:
    """Check the central statements of the tasks that are new to a store.

    The id of a task covers its kernel and its statement, so a statement that was found true stays true.
    Raises `CertificateError` when one is not true.
    """
    promising = [task for task in tasks if task.central is not None]
    known = {entry.task.id for entry in store.tasks()} if promising else set()
    for task in promising:
        if task.id not in known:
            check_statement(task)


def checked_records(store: Store, records: Iterable[Record]) -> Generator[Record, None, None]:
    """Yield the records of a merge into a store, after checking each new task like a task sent over HTTP.

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
                    f"task {other} of this store and task {record.task.id} of the other store are open and "
                    "have the same name: close one of them first, with POST /v1/tasks/ID/close or on the "
                    "operator page. Nothing was "
                    "merged"
                )
        yield record
