"""The checks of records before a store merges them; they are as strict as the checks of HTTP requests.

Every record is checked, from a file or from another store, because somebody else may have written it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.checks import shown
from arcwise.errors import ParameterError
from arcwise.server.store.counting import exact_sum
from arcwise.server.store.epochs import GAP_SECONDS, last_open_from, last_taken
from arcwise.server.store.export import BatchIds, Counts, Header, TaskState
from arcwise.server.store.problems import Brought
from arcwise.server.store.releases import least_released
from arcwise.server.store.sources import checked_name
from arcwise.tasks import DAY
from arcwise.wire import BATCH_ID_BYTES

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from arcwise.server.store.export import Record


def checked_incoming(records: Iterable[Record], now: int) -> Generator[Record, None, None]:
    """Yield the records of a `Store.export` that are to be merged, after checking each of them.

    Raises `ParameterError` when no server could have brought its store into such a state by `now`, in Unix
    seconds.
    """
    incoming = _Incoming(now)
    for record in records:
        incoming.check(record)
        yield record
    incoming.end_task()


def taken_clock(clock: int | None, now: int) -> int:
    """Return the clock that a store without one takes over from a store that releases epochs.

    The result is never later than `now`, and at most `GAP_SECONDS` + 1 earlier. A server then withholds all
    epochs that closed since the export, and its believed time (`EpochClock`) does not need months to reach
    the present.
    """
    return min(max(clock or 0, now - GAP_SECONDS - 1), now)


class _Incoming:
    """The state of the records so far, for the checks of the next records."""

    def __init__(self, now: int) -> None:
        self._now = now
        self._header: Header | None = None
        self._sources: set[str | None] = {None}
        self._brought = Brought()
        self._seen: set[str] = set()
        self._state: TaskState | None = None
        self._reports: dict[tuple[int, str | None], int] = {}
        self._batches: dict[tuple[int, str | None], int] = {}

    def check(self, record: Record) -> None:
        """Raise `ParameterError` unless the record may follow the records before it."""
        if isinstance(record, Header):
            self._check_header(record)
        elif isinstance(record, TaskState):
            self.end_task()
            self._check_task(record)
        else:
            self._check_cell(record)

    def _check_header(self, header: Header) -> None:
        if self._header is not None:
            raise _refused("an export must have one header, at its beginning")
        self._header = header
        if not header.origins or any(type(each) is not bytes or len(each) != 16 for each in header.origins):
            raise _refused("an export must name the origins of its reports, by ids of 16 bytes")
        names = [checked_name(name) for name, _ in header.sources]
        self._sources |= set(names)
        if len(set(header.origins)) < len(header.origins) or len(set(names)) < len(names):
            raise _refused("an export must name each store and each source once")
        for name, replaced in header.sources:
            self._check_time(replaced, f"source {name} was replaced")
        if header.clock is not None:
            self._check_time(header.clock, "its servers' clock was read")

    def _check_task(self, state: TaskState) -> None:
        self._state = state
        task, opens = state.task, last_taken(state.task, self._now) + 1
        if self._header is None or task.id in self._seen:
            raise _refused(f"task {task.id} must come once, and after the header")
        self._seen.add(task.id)
        if state.closed is not None:
            self._check_time(state.closed, f"task {task.id} was closed")
        # An epoch of tomorrow may have had reports that were deleted; such an epoch is closed, too.
        if not _is_whole(state.open_from, opens):
            raise _refused(
                f"task {task.id} must not have closed epochs from {opens} on, which are not over; its first "
                f"open epoch is {shown(state.open_from)}",
                clock=True,
            )
        decided = min(max(last_open_from(task, self._now), 0), state.open_from)
        if not _is_whole(state.decided, decided):
            raise _refused(
                f"task {task.id} can have decided releases only of epochs before {decided}, which are "
                f"closed; it has decided those before {shown(state.decided)}",
                clock=True,
            )
        for epoch, reports in state.released.items():
            if not _is_whole(epoch, state.decided - 1):
                raise _refused(f"task {task.id} releases epoch {shown(epoch)}, which is not decided")
            if type(reports) is not int or reports < least_released(task):
                raise _refused(
                    f"task {task.id}, epoch {epoch} must have at least {least_released(task):,} reports to "
                    f"be released, got {shown(reports)}"
                )

    def _check_cell(self, record: Counts | BatchIds) -> None:
        if self._header is None or self._state is None:
            raise _refused("counts and batch ids must come after their task")
        task, last, cell = self._state.task, last_taken(self._state.task, self._now), (record[0], record[2])
        if not _is_whole(record.epoch, last):
            raise _refused(
                f"task {task.id} has reports of epoch {shown(record.epoch)}; the newest that a server "
                f"accepts now is {last}",
                clock=True,
            )
        if record.source not in self._sources:
            raise _refused(f"the header does not name source {shown(record.source)}")
        if isinstance(record, Counts):
            codes = task.mechanism.kernel.codes
            if record.counts.shape != (codes,) or record.counts.dtype.kind != "i":
                raise _refused(f"task {task.id}, epoch {record.epoch} must have {codes} counts")
            if cell in self._reports:
                raise _refused(f"task {task.id}, epoch {record.epoch} must have its counts once")
            self._brought.add(task, record.counts)
            self._reports[cell] = exact_sum(record.counts)
            return
        if not self._header.ids or {type(name) for name in record.ids} - {bytes}:
            raise _refused("batch ids must be bytes, and announced by the header")
        if {len(name) for name in record.ids} - {BATCH_ID_BYTES}:
            raise _refused(f"a batch id must be {BATCH_ID_BYTES} bytes")
        # If an epoch had an id but no report, a device's batch with that id would be treated as counted.
        batches = self._batches[cell] = self._batches.get(cell, 0) + len(record.ids)
        if batches > (reports := self._reports.get(cell, 0)):
            raise _refused(
                f"task {task.id}, epoch {record.epoch} has {batches:,} batches, but only {reports:,} reports"
            )

    def end_task(self) -> None:
        """Raise `ParameterError` unless each released epoch has as many reports as at its release."""
        state, self._state = self._state, None
        found: dict[int, int] = {}
        for (epoch, _), reports in self._reports.items():
            found[epoch] = found.get(epoch, 0) + reports
        for epoch, n in state.released.items() if state is not None else ():
            if found.get(epoch, 0) != n:
                assert state is not None  # noqa: S101 (narrows the type for the checker)
                raise _refused(
                    f"task {state.task.id}, epoch {epoch} was released with {n:,} reports, and has "
                    f"{found.get(epoch, 0):,}"
                )
        self._reports, self._batches = {}, {}

    def _check_time(self, time: int, what: str) -> None:
        if not _is_whole(time, self._now + DAY):
            raise _refused(f"{what} at {shown(time)}, which is not a Unix time before now", clock=True)


def _is_whole(number: object, most: int) -> bool:
    return type(number) is int and 0 <= number <= most


def _refused(what: str, *, clock: bool = False) -> ParameterError:
    cure = (
        " Check this machine's clock; if it is right, the data to be merged is damaged or forged."
        if clock
        else ""
    )
    return ParameterError(f"{what}. Nothing was merged.{cure}")
