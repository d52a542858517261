"""The interface of stores. Every store passes the contract tests in ``tests/server/store``."""

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
"""Most sessions of one key at the same time; a further session ends the oldest."""


class Outcome(Enum):
    """The outcome of a batch."""

    COUNTED = "counted"
    """The codes of the batch are now in the counts."""
    REPLAYED = "replayed"
    """A batch with the same id had been counted before."""
    CLOSED = "closed"
    """The task takes no more reports, or the ids of the epoch are deleted: the batch is not counted now, and
    it is unknown whether it was counted before."""


class Store(ABC):
    """Counts per task and epoch, the ids of the counted batches, tasks and keys; no reports.

    Sessions and the audit log record who logged in and what they changed. An export includes neither.

    `add` is called from one thread at a time; everything else may be called from any thread at any time.
    Every method raises `StoreError` when the store cannot do its work; data that it acknowledged is kept.

    Parameters
    ----------
    url
        URL of the store, with a scheme in `arcwise.server.store.STORES`.
    create
        Make the store when it does not exist; if False, a missing store raises `StoreError`.
    """

    @abstractmethod
    def __init__(self, url: str, *, create: bool = True) -> None: ...

    @classmethod
    def open_read_only(cls, url: str) -> Store:
        """Open an existing store without writing anything; see `arcwise.server.store.open_store`.

        A store need not implement this; `arcwise dashboard` cannot open a store that does not.
        """
        raise StoreError("a store of this kind cannot be opened for reading only")

    @classmethod
    @abstractmethod
    def migrate(cls, url: str, to: int | None, *, dry_run: bool) -> list[Migration]:
        """Bring a store to schema `to`; see `arcwise.server.store.migrate_store`."""

    @property
    @abstractmethod
    def secret(self) -> bytes:
        """32 random bytes drawn when the store was made, the same for every process that opens it.

        They are the key for the hashes of counts that readers receive, such as entity tags. They are never
        exported or merged.
        """

    @abstractmethod
    def register(self, tasks: Iterable[Task]) -> None:
        """Add tasks to the store. Call this before batches of the tasks are added; it may be repeated.

        A task that the store already knows stays as it is, open or closed.
        """

    @abstractmethod
    def tasks(self) -> list[StoredTask]:
        """Return every task that any process ever registered, oldest first."""

    @abstractmethod
    def close_task(self, task_id: str, now: int) -> bool:
        """Stop accepting reports of a task; when this returns, no process counts any further report of it.

        Parameters
        ----------
        task_id
            Id of the task, in hex.
        now
            The time in Unix seconds.

        Returns
        -------
        bool
            False when the task is already closed or unknown.
        """

    @abstractmethod
    def open_task(self, task_id: str) -> bool:
        """Accept reports of a closed task again; return False when it is already open or unknown."""

    def open_alone(self, task: Task, *, again: bool) -> bool:
        """Register a task, or with `again` reopen it, unless another open task has its name.

        A store that several processes use must do this in one transaction; the default implementation does
        not.

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
        """Durably count the batches with ids that are new to their tasks: either all of these or none.

        When this returns, counted batches survive a crash of the process and of the machine. If several
        batches have the same id, only the first is counted, even within one call. The caller has checked the
        codes against the task.

        After a `StoreError` it is not always known whether the batches were counted (a connection may break
        between the commit and its reply). Then add the same batches again: each counts only once.

        Returns
        -------
        list of Outcome
            The outcome of each batch.

        Raises
        ------
        KeyError
            When the task of a batch is not registered; nothing is counted.
        """

    @abstractmethod
    def counts_by_epoch(self, task: Task) -> dict[int, IntArray]:
        """Return the number of reports per code, shape (K,), for every epoch that has reports.

        With K codes, the result takes 8 * K bytes per epoch; `sums` and `reports_by_epoch` take less.
        """

    @abstractmethod
    def reports_by_epoch(
        self, task: Task, first: int | None = None, last: int | None = None
    ) -> dict[int, int]:
        """Return the number of reports of every epoch that has reports, in ascending order of epochs.

        This transfers only two numbers per epoch, regardless of the number of codes.

        Parameters
        ----------
        task
            The task of the reports.
        first, last
            The range of epochs, both included; None means no limit.
        """

    @abstractmethod
    def sums(self, task: Task, groups: Mapping[int, int] | None = None, rows: int = 1) -> IntArray:
        """Return the number of reports per code, added up over groups of epochs, shape (rows, K).

        All counts are as of the same moment. Epochs are read one after the other, so that memory depends on
        the size of the result and not on the number of epochs.

        Parameters
        ----------
        task
            The task of the reports.
        groups
            The row that each epoch is added to, from 0 on. Epochs not in it are left out, and epochs without
            reports add nothing. None adds every epoch to row 0.
        rows
            Number of rows of the result; rows without an epoch are 0.
        """

    @abstractmethod
    def report_count(self, task: Task) -> int:
        """Return the number of counted reports, including those of sources. Cheap: this reads no codes."""

    @abstractmethod
    def revision(self, task: Task) -> tuple[int, int]:
        """Return two numbers, at least one of which changes whenever the task's counts change.

        They are `report_count`, and the number of times that a source, of any task, was replaced or dropped.
        This is cheap, because no counts per code are read. Read the revision before the counts that it
        describes: then the counts may be newer than the revision, but never older.
        """

    @abstractmethod
    def prune(self, task: Task, before: int) -> int:
        """Delete the ids of batches of epochs below `before`; return the number of deleted ids. Counts stay.

        The deletion is recorded in the same transaction: from then on batches of those epochs are `CLOSED`,
        because a replay would otherwise be counted again. Closed epochs stay closed, even if a later call has
        a lower `before`. The last day before the newest epoch with reports is never closed, because the
        clocks of devices may be a day ahead.
        """

    def release(self, task: Task, before: int, *, least: int = 1, unsure_before: int = 0) -> Closing:
        """Close epochs, decide permanently which of them are released, and delete the ids of their batches.

        A decision is never changed: a released epoch is frozen, and an epoch that was not released stays
        unreleased. Nothing happens while the task has no report at all. Unlike `prune`, this closes epochs up
        to the newest epoch with reports, because closing must not depend on later reports.

        Parameters
        ----------
        task
            The task of the epochs.
        before
            Close the epochs below this epoch, at the same moment for all processes.
        least
            Least number of reports of a released epoch.
        unsure_before
            Epochs below this epoch are closed and not released: an earlier state of the store may have
            released them.

        Raises
        ------
        KeyError
            When the store does not know the task.
        """
        raise StoreError(f"{type(self).__name__} cannot release closed epochs")

    def decided(self, task: Task) -> Decided:
        """Return how far releases are decided; this changes whenever `released` changes. Cheap."""
        return Decided(0, 0)

    def released(self, task: Task, first: int | None = None, last: int | None = None) -> dict[int, int]:
        """Return the reports of the released epochs from `first` to `last`, in order; None means no limit.

        Among the epochs that were already decided, only a merge or `delete_data` changes which are released.
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
        """Replace the counts of a source, which were made elsewhere, such as in a data lake; all or nothing.

        The counts of a task and epoch replace the counts that this source had. They are added to the counts
        of the server and of other sources. An epoch that is not in `counts` stays as it was, or is emptied if
        all its batches are now in other open epochs. To empty an epoch yourself, give zeros. Nothing changes
        in a closed epoch or an epoch of a closed task; the returned report lists the changes that were left
        out. The ids of the batches become known until they are pruned: the server treats such a batch as a
        replay.

        Parameters
        ----------
        name
            Name of the source: 1 to 64 letters, digits, dots, dashes and underscores.
        counts
            The number of reports per code, shape (K,), by the id of a task (32 bytes) and epoch.
        batch_ids
            The task, the epoch and the id of every batch in the counts, in any order; no id twice in a task.
            The batch ids are read once, before anything is locked. Ids of closed epochs are ignored.
        now
            The time in Unix seconds; None means the machine's time.

        Raises
        ------
        ParameterError
            When a batch is already counted: by the server, by another source, or by this source in an epoch
            that stays as it is. Such an epoch is closed, or it has other batches and is not in `counts`. The
            message has the numbers of such batches, with their tasks and epochs. Also raised when a task is
            unknown, counts have the wrong shape or values, or ids do not fit the counts.
        """

    @abstractmethod
    def sources(self) -> list[StoredSource]:
        """Return the sources, sorted by name."""

    @abstractmethod
    def drop_source(self, name: str, *, closed_too: bool = False) -> int:
        """Delete a source, its counts and the ids of its batches; return the number of deleted reports.

        Parameters
        ----------
        name
            Name of the source.
        closed_too
            Whether to also delete counts in closed epochs. These counts cannot be brought back.

        Raises
        ------
        ParameterError
            When there is no such source, it has counts in closed epochs and `closed_too` is False, or it has
            counts in released epochs.
        """

    def delete_data(self, task_id: str) -> DeletedData:
        """Delete the data of a closed task: counts, ids of batches, and batches waiting for an archive.

        The task stays in the store, closed, so that its devices learn that it is closed. Its past epochs take
        no more reports even if it is opened again, because repeated reports must not bring back a part of the
        deleted data.

        Parameters
        ----------
        task_id
            Id of the task, in hex.

        Raises
        ------
        ParameterError
            When the task is open or unknown.
        StoreError
            When the data cannot be deleted, or this kind of store cannot delete it; then nothing is deleted.
        """
        raise StoreError(f"{type(self).__name__} cannot delete the data of a task")

    @abstractmethod
    def clock(self) -> int | None:
        """Return the latest time that a server believed (`EpochClock`), in Unix seconds, or None."""

    @abstractmethod
    def advance_clock(self, to: int, *, reset: bool = False) -> int:
        """Store a time that a server believed (`EpochClock`), in Unix seconds; return the latest stored time.

        With `reset`, forget earlier times. This is only for a store without reports: the earlier times may
        have closed the epochs of its reports.
        """

    @abstractmethod
    def add_key(self, key: StoredKey) -> None:
        """Store a key.

        Raises
        ------
        ParameterError
            When there is already a key with its id.
        """

    @abstractmethod
    def keys(self) -> list[StoredKey]:
        """Return all keys, including revoked ones, oldest first."""

    @abstractmethod
    def revoke_key(self, key_id: str, now: int) -> bool:
        """Revoke a key from `now` on, in Unix seconds, and delete its sessions.

        Returns
        -------
        bool
            False when there is no such key, or it is already revoked.
        """

    @abstractmethod
    def add_session(self, session: StoredSession) -> None:
        """Store a session. The newest `MOST_SESSIONS` of a key are kept; earlier ones end."""

    @abstractmethod
    def session(self, digest: bytes) -> StoredSession | None:
        """Return the session with a digest, even if it is over, or None if it does not exist. Cheap."""

    @abstractmethod
    def see_session(self, digest: bytes, now: int) -> None:
        """Record that a session was used at `now`, in Unix seconds, unless a later time is already stored.

        Nothing happens if there is no such session: an ended session does not come back.
        """

    @abstractmethod
    def end_session(self, digest: bytes) -> bool:
        """Delete a session; return False if it does not exist."""

    @abstractmethod
    def prune_sessions(self, now: int, idle_seconds: int) -> int:
        """Delete the sessions that are over at `now`; return the number of deleted sessions.

        These are the sessions past their absolute end, and those that were not used for `idle_seconds`.
        """

    @abstractmethod
    def begin_action(self, action: StoredAction) -> int:
        """Add an entry to the audit log before its action is done; return the entry's number.

        So every change has an entry. If the process dies before the action ends, the entry's outcome stays
        "unknown".
        """

    @abstractmethod
    def end_action(self, number: int, outcome: str) -> None:
        """Record the outcome of an action."""

    @abstractmethod
    def actions(self, most: int, before: int | None = None) -> list[tuple[int, StoredAction]]:
        """Return entries of the audit log with their numbers, newest first.

        Parameters
        ----------
        most
            Most entries to return.
        before
            Only entries with a lower number; None starts with the newest.
        """

    @abstractmethod
    def prune_actions(self, before: int) -> int:
        """Delete the entries of the audit log from before a time, in Unix seconds; return their number."""

    @abstractmethod
    def remember(self, name: str, value: int) -> None:
        """Store a number under a name, replacing an earlier one."""

    @abstractmethod
    def recall(self, name: str) -> int | None:
        """Return the number stored under a name, or None."""

    @abstractmethod
    def export(self, *, ids: bool) -> Generator[Record, None, None]:
        """Yield tasks and counts, all as of one moment: a `Header`, then each task with its data.

        Keys, sessions, the audit log and the store's own numbers are not included.

        Close the generator if you do not read it to its end: it holds a transaction open.

        Parameters
        ----------
        ids
            Include the ids of batches. Without them, the store that merges the records cannot detect replays.
        """

    @abstractmethod
    def merge(self, records: Iterable[Record], now: int) -> int:
        """Add the export of another store, all or nothing.

        Tasks that are new to this store are taken over with their state. For all other tasks the counts are
        added, and an epoch is closed if it is closed in either store. Sources keep their names, so they can
        be replaced in this store.

        Releases of this store stay as they are. Nothing is added to an epoch that this store has released;
        the number of reports left out is returned. An epoch that the other store has released becomes
        released here, too, unless this store has reports of it; then it is never released.

        Parameters
        ----------
        records
            Records from `export`, of any store.
        now
            The time in Unix seconds.

        Raises
        ------
        ParameterError
            When reports would count twice: reports of this store itself, of a store that was merged before,
            of batches that this store knows, or of a source with a name that this store knows.
        """

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes that the store takes on disk."""

    @abstractmethod
    def check(self) -> list[str]:
        """Return the problems of the store, a sentence each; empty when it is intact. This is slow."""

    @property
    def is_readable_by_others(self) -> bool:
        """Whether the store is a file that other accounts of this machine may read or write."""
        return False

    @abstractmethod
    def vacuum(self) -> None:
        """Free the space that pruning and rewriting left unused. Writers may have to wait.

        Raises `StoreError` when that is not possible now, for example during a long read.
        """

    @abstractmethod
    def close(self) -> None:
        """Release files and connections. May be repeated."""

    def try_writing(self) -> None:
        """Write a few bytes as durably as reports; raise if the store could not accept reports. Cheap.

        Raises
        ------
        StoreError
            When the store cannot be written, or its disk has no room for the next batches.
        """
        self.remember("tried", int(time.time()))

    def counts(self, task: Task) -> IntArray:
        """Return the number of reports per code over all epochs, shape (K,)."""
        counts: IntArray = self.sums(task)[0]
        return counts
