"""What a store promises. Every store passes the contract tests in ``tests/server/store``."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING

from arcwise.errors import StoreError
from arcwise.server.store.problems import refuse_taken_name
from arcwise.server.store.releases import Decided

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from arcwise.server.store.export import Record
    from arcwise.server.store.migrations import Migration
    from arcwise.server.store.records import (
        DeletedData,
        SourceReport,
        StoredAction,
        StoredKey,
        StoredSession,
        StoredSource,
        StoredTask,
    )
    from arcwise.server.store.releases import Closing
    from arcwise.tasks import Task
    from arcwise.typing import IntArray
    from arcwise.wire import Batch


MOST_SESSIONS = 100
"""Sessions of one key at the same time; a further one ends the oldest."""


class Outcome(Enum):
    """What became of a batch."""

    COUNTED = "counted"
    """Its codes are in the counts now."""
    REPLAYED = "replayed"
    """A batch of its id had been counted before."""
    CLOSED = "closed"
    """Its task takes no more reports, or the ids of its epoch are forgotten: it is not counted, and whether
    it had been cannot be told."""


class Store(ABC):
    """Counts per task and epoch, the ids of the batches that are in them, tasks and keys; no reports.

    Sessions and the audit log say who got in and what they changed. None of it leaves a store with an export.

    `add` is called from one thread at a time; everything else may be called from any thread at any time.
    Every method raises `StoreError` when the store cannot do its work; what had been acknowledged stays.

    Parameters
    ----------
    url
        Which store, of a scheme in `arcwise.server.store.STORES`.
    create
        Make the store when it does not exist; False: that is a `StoreError`.
    """

    @abstractmethod
    def __init__(self, url: str, *, create: bool = True) -> None: ...

    @classmethod
    def open_read_only(cls, url: str) -> Store:
        """Open a store that exists, and write nothing; see `arcwise.server.store.open_store`.

        A store that has no such way need not implement it: then `arcwise dashboard` does not open it.
        """
        raise StoreError("a store of this kind cannot be opened for reading alone")

    @classmethod
    @abstractmethod
    def migrate(cls, url: str, to: int | None, *, dry_run: bool) -> list[Migration]:
        """Bring a store to schema `to`; see `arcwise.server.store.migrate_store`."""

    @property
    @abstractmethod
    def secret(self) -> bytes:
        """32 random bytes that were drawn when the store was made, the same for every process that opens it.

        They key what readers get to see of hashed counts. They are never exported or merged.
        """

    @abstractmethod
    def register(self, tasks: Iterable[Task]) -> None:
        """Make the tasks known. Must be called before batches of theirs are added; may be repeated.

        A task that is known stays as it is, open or closed.
        """

    @abstractmethod
    def tasks(self) -> list[StoredTask]:
        """Return every task that was ever registered, by any process, the oldest first."""

    @abstractmethod
    def close_task(self, task_id: str, now: int) -> bool:
        """Take no more reports of a task; when this returns, no process counts one any more.

        Parameters
        ----------
        task_id
            In hex.
        now
            The time in Unix seconds.

        Returns
        -------
        bool
            False when the task was closed already, or is not known.
        """

    @abstractmethod
    def open_task(self, task_id: str) -> bool:
        """Take reports of a closed task again; return False when it was open already, or is not known."""

    def open_alone(self, task: Task, *, again: bool) -> bool:
        """Register a task, or (`again`) open it again, unless another open task has its name.

        A store that several processes use decides this in one transaction; what stands here does not.

        Returns
        -------
        bool
            False when nothing changed.

        Raises
        ------
        ParameterError
            When another open task has its name.
        """
        stored = self.tasks()
        refuse_taken_name(task, (each.task for each in stored if each.closed is None))
        if again:
            return self.open_task(task.id)
        self.register([task])
        return all(each.task.id != task.id for each in stored)

    @abstractmethod
    def add(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Count the batches whose id is new to their task, durably, all or none.

        When this returns, what was counted survives a crash of the process and of the machine. The first
        content under an id wins, within one call too. Codes must have been checked against the task.

        After a `StoreError` it is not always known whether the batches were counted (a connection may break
        between the commit and its reply); the same batches can be added again, and count once.

        Returns
        -------
        list of Outcome
            What became of each batch.

        Raises
        ------
        KeyError
            When the task of a batch is not registered; nothing is counted.
        """

    @abstractmethod
    def counts_by_epoch(self, task: Task) -> dict[int, IntArray]:
        """Return the number of reports per code, shape (K,), for every epoch that has any.

        Takes 8 * K bytes an epoch; `sums` and `reports_by_epoch` do not.
        """

    @abstractmethod
    def reports_by_epoch(
        self, task: Task, first: int | None = None, last: int | None = None
    ) -> dict[int, int]:
        """Return the number of reports of every epoch that has any, in ascending order of epochs.

        No counts leave the store: two numbers an epoch, whatever the number of codes.

        Parameters
        ----------
        task
            Whose reports.
        first, last
            The range of epochs, both included; None: open.
        """

    @abstractmethod
    def sums(self, task: Task, groups: Mapping[int, int] | None = None, rows: int = 1) -> IntArray:
        """Return the number of reports per code, added up over groups of epochs, shape (rows, K).

        All of one moment. Epochs are read one after the other: memory is bounded by the result, whatever the
        number of epochs.

        Parameters
        ----------
        task
            Whose reports.
        groups
            The row that each epoch is added to, from 0 on; epochs that are not in it are left out, and those
            without reports add nothing. None: every epoch is added to row 0.
        rows
            How many rows the result has; those that no epoch is added to are 0.
        """

    @abstractmethod
    def report_count(self, task: Task) -> int:
        """Return the number of reports in the counts, those of sources too. Cheap: reads no counts."""

    @abstractmethod
    def revision(self, task: Task) -> tuple[int, int]:
        """Return two numbers of which one changes whenever the counts of the task do.

        They are `report_count`, and how often a source was replaced or dropped, of any task. Cheap: no counts
        are read. Read it before the counts whose age it stands for; they may be newer.
        """

    @abstractmethod
    def prune(self, task: Task, before: int) -> int:
        """Forget the ids of batches of epochs below `before`; return how many. Counts stay.

        What was forgotten is remembered, in the same transaction: batches of those epochs are `CLOSED` from
        then on, or a replay would be counted again. What was closed stays closed, whatever `before` is later.
        The last day before the newest epoch that has reports is never closed: devices may be a day ahead.
        """

    def release(self, task: Task, before: int, *, least: int = 1, unsure_before: int = 0) -> Closing:
        """Close epochs, and decide for ever which of them are released; forget the ids of their batches.

        An epoch that is decided is never looked at again, whatever comes later: what is released is frozen,
        and what is not stays unreleased. Nothing happens while the task has no report at all. Unlike `prune`
        this closes up to the newest epoch: what is closed must not depend on what comes after it.

        Parameters
        ----------
        task
            Whose epochs.
        before
            Close the epochs below, all at once for all processes.
        least
            Reports that an epoch must have to be released.
        unsure_before
            Epochs below are closed and not released: an earlier state of the store may have released them.

        Raises
        ------
        KeyError
            When the store does not know the task.
        """
        raise StoreError(f"{type(self).__name__} cannot release closed epochs")

    def decided(self, task: Task) -> Decided:
        """Return how far it is decided what is released: it changes whenever `released` does. Cheap."""
        return Decided(0, 0)

    def released(self, task: Task, first: int | None = None, last: int | None = None) -> dict[int, int]:
        """Return the reports of the released epochs of a range, both included; in order; None: open.

        Below `decided`, as read before, it changes no more but by a merge and by `delete_data`.
        """
        return {}

    @abstractmethod
    def replace_source(
        self,
        name: str,
        counts: Mapping[tuple[bytes, int], IntArray],
        batch_ids: Iterable[tuple[bytes, int, bytes]],
        *,
        now: int | None = None,
    ) -> SourceReport:
        """Take over counts that were made elsewhere, such as over the files of a lake, all or nothing.

        The counts of a task and epoch replace those that this source had, and add to those of the server and
        of other sources. An epoch that is not in `counts` stays as it was, unless each of its batches is in
        another open epoch now: then it is emptied. To empty one, give zeros. Nothing changes in an epoch that
        is closed, or of a closed task: the report says what would have. The ids of the batches become known,
        until they are pruned: to the server such a batch is a replay.

        Parameters
        ----------
        name
            Of the source: 1 to 64 letters, digits, dots, dashes and underscores.
        counts
            The number of reports per code, shape (K,), by the id of a task (32 bytes) and epoch.
        batch_ids
            The task, the epoch and the id of every batch that is in the counts, in any order, each once in
            its task. It is read once, before anything is locked. Ids of closed epochs are ignored.
        now
            The time in Unix seconds; None: the machine's.

        Raises
        ------
        ParameterError
            When a batch is counted by the server, by another source, or by this one in an epoch that is
            closed or has other batches and is not in `counts`, with how many there are and where; when a task
            is unknown, counts have the wrong shape or numbers, or ids do not fit them.
        """

    @abstractmethod
    def sources(self) -> list[StoredSource]:
        """Return the sources, by name."""

    @abstractmethod
    def drop_source(self, name: str, *, closed_too: bool = False) -> int:
        """Forget a source, its counts and the ids of its batches; return how many reports that takes away.

        Parameters
        ----------
        name
            Of the source.
        closed_too
            Also where it has counts in closed epochs, which cannot be brought back.

        Raises
        ------
        ParameterError
            When there is no such source, it has counts in closed epochs and `closed_too` is False, or it has
            counts in released epochs.
        """

    def delete_data(self, task_id: str) -> DeletedData:
        """Delete what was reported to a closed task: counts, ids of batches, what waits for an archive.

        The task stays, closed: its devices are told so. Epochs that it has had take no more reports either,
        should it be opened again: what is sent again must not bring back a part of what was deleted.

        Parameters
        ----------
        task_id
            In hex.

        Raises
        ------
        ParameterError
            When the task is open, or is not known.
        StoreError
            When it cannot be deleted; nothing is then. Also where a kind of store cannot do it.
        """
        raise StoreError(f"{type(self).__name__} cannot delete what was reported to a task")

    @abstractmethod
    def clock(self) -> int | None:
        """Return the latest time that a server believed, in Unix seconds; None when none has run."""

    @abstractmethod
    def advance_clock(self, to: int, *, reset: bool = False) -> int:
        """Remember a time that a server believed, in Unix seconds; return the latest of all that were.

        With `reset`, forget those before: nothing is counted yet that they could have closed.
        """

    @abstractmethod
    def add_key(self, key: StoredKey) -> None:
        """Keep a key.

        Raises
        ------
        ParameterError
            When there is one of its id.
        """

    @abstractmethod
    def keys(self) -> list[StoredKey]:
        """Return all keys, revoked ones too, the oldest first."""

    @abstractmethod
    def revoke_key(self, key_id: str, now: int) -> bool:
        """Note that a key is good for nothing from `now` on, in Unix seconds, and forget its sessions.

        Returns
        -------
        bool
            False when there is no such key, or it was revoked already.
        """

    @abstractmethod
    def add_session(self, session: StoredSession) -> None:
        """Keep a session. Of one key the newest `MOST_SESSIONS` are kept; earlier ones end."""

    @abstractmethod
    def session(self, digest: bytes) -> StoredSession | None:
        """Return the session with the digest, however old it is; None where there is none. Cheap."""

    @abstractmethod
    def see_session(self, digest: bytes, now: int) -> None:
        """Note that a session was used at `now`, in Unix seconds; a later time that is known stays.

        Nothing happens where there is no such session: one that was ended does not come back.
        """

    @abstractmethod
    def end_session(self, digest: bytes) -> bool:
        """Forget a session; return False where there is none."""

    @abstractmethod
    def prune_sessions(self, now: int, idle_seconds: int) -> int:
        """Forget the sessions that are over at `now`: return how many.

        They are those past their absolute end, and those not used for `idle_seconds`.
        """

    @abstractmethod
    def begin_action(self, action: StoredAction) -> int:
        """Write an entry into the audit log before what it is about is done; return the entry's number.

        So no change is without an entry: a process that dies in between leaves one whose outcome says that
        it is not known.
        """

    @abstractmethod
    def end_action(self, number: int, outcome: str) -> None:
        """Note what became of an action."""

    @abstractmethod
    def actions(self, most: int, before: int | None = None) -> list[tuple[int, StoredAction]]:
        """Return entries of the audit log with their numbers, the newest first.

        Parameters
        ----------
        most
            How many at most.
        before
            Only those with a lower number; None: from the newest on.
        """

    @abstractmethod
    def prune_actions(self, before: int) -> int:
        """Forget the entries from before a time, in Unix seconds; return how many."""

    @abstractmethod
    def remember(self, name: str, value: int) -> None:
        """Remember a number under a name, instead of the earlier one."""

    @abstractmethod
    def recall(self, name: str) -> int | None:
        """Return the number that is remembered under a name; None where there is none."""

    @abstractmethod
    def export(self, *, ids: bool) -> Generator[Record, None, None]:
        """Yield tasks and counts, all of one moment: a `Header`, then each task with what it holds.

        Keys, sessions, the audit log and what the store remembers for itself are not among it.

        Close it if it is not read to its end: it holds a transaction open.

        Parameters
        ----------
        ids
            With the ids of batches. Without them, who takes the records over cannot tell a replay.
        """

    @abstractmethod
    def merge(self, records: Iterable[Record], now: int) -> int:
        """Add what another store exported, all or nothing.

        Tasks that are new here come as they are there; of the others the counts are added, and batches are
        closed that are closed in either. Sources keep their names, so they can be replaced here.

        Releases stay as they are: of an epoch that is released here nothing is added, and how many reports
        that leaves out is returned. An epoch that is released there is released here, too, unless there are
        reports of it here: then it never is.

        Parameters
        ----------
        records
            Of `export`, of any store.
        now
            The time in Unix seconds.

        Raises
        ------
        ParameterError
            When reports would count twice: those of this store, those of a store that was merged before,
            those of batches that are known here, or those of a source of a name that is known here.
        """

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes that the store takes on disk."""

    @abstractmethod
    def check(self) -> list[str]:
        """Return what is wrong with the store, a sentence each; nothing when it is whole. Slow."""

    @property
    def is_readable_by_others(self) -> bool:
        """Whether the store is a file that other accounts of this machine may read or write."""
        return False

    @abstractmethod
    def vacuum(self) -> None:
        """Give space back that pruning and rewriting left. Writers may wait meanwhile.

        Raises `StoreError` when that cannot be done now, as while somebody reads for long.
        """

    @abstractmethod
    def close(self) -> None:
        """Release files and connections. May be repeated."""

    def try_writing(self) -> None:
        """Write something small, durably, as reports are: raise where the store could not take them. Cheap.

        Raises
        ------
        StoreError
            When it cannot be written, or its disk has no room for the next batches.
        """
        self.remember("tried", int(time.time()))

    def counts(self, task: Task) -> IntArray:
        """Return the number of reports per code over all epochs, shape (K,)."""
        counts: IntArray = self.sums(task)[0]
        return counts
