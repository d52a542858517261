"""Records of a store besides counts, as its tables hold them: keys, tasks and sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from arcwise.tasks import Task


@dataclass(frozen=True)
class StoredKey:
    """The entry of a key in a store, without the key itself. Stores do not depend on how the digest is made.

    Attributes
    ----------
    id
        Public name of the key, unique in the store.
    digest
        32 bytes.
    scope
        "ingest", "read", "metrics" or "admin".
    tasks
        Ids (hex) of the tasks that the key is valid for; None means all tasks.
    label
        Text for people.
    created, revoked
        Unix seconds; `revoked` is None while the key is valid.
    """

    id: str
    digest: bytes
    scope: str
    tasks: tuple[str, ...] | None
    label: str
    created: int
    revoked: int | None


@dataclass(frozen=True)
class StoredSession:
    """The entry of a session in a store, without the browser's token itself.

    Attributes
    ----------
    digest
        SHA-256 of the token, 32 bytes, unique in the store.
    key_id
        Id of the key that was used to log in.
    created, seen
        When the session began and when it was last used, in Unix seconds.
    ends
        When the session ends, even if it is in use, in Unix seconds.
    """

    digest: bytes
    key_id: str
    created: int
    seen: int
    ends: int


@dataclass(frozen=True)
class DeletedData:
    """The numbers of reports, batch ids and batches that `Store.delete_data` deleted.

    Attributes
    ----------
    reports
        Number of reports in the counts, including those of sources.
    batch_ids
        Number of batch ids.
    staged
        Number of batches that were waiting for an archive.
    """

    reports: int
    batch_ids: int
    staged: int


@dataclass(frozen=True)
class StoredAction:
    """An entry of the audit log.

    Attributes
    ----------
    time
        Unix seconds.
    key_id
        Id of the key that was used; "" for commands on the store itself.
    action
        The action, such as "revoke key".
    subject
        The id of the task or key that the action changed.
    outcome
        The outcome, such as "done".
    """

    time: int
    key_id: str
    action: str
    subject: str
    outcome: str


@dataclass(frozen=True)
class StoredTask:
    """A task that a store knows.

    Attributes
    ----------
    task
        The task.
    closed
        When it was closed, in Unix seconds; None while it is open.
    open_from
        The first epoch that accepts batches; the batch ids of earlier epochs are deleted.
    newest
        The newest epoch that has reports; None without reports.
    """

    task: Task
    closed: int | None
    open_from: int
    newest: int | None


class SourceTask(NamedTuple):
    """The reports that a source has of a task.

    Attributes
    ----------
    task_id
        Id of the task, in hex.
    first, last
        Its oldest and its newest epoch with reports.
    epochs
        Number of epochs with reports.
    reports
        Number of reports.
    """

    task_id: str
    first: int
    last: int
    epochs: int
    reports: int


@dataclass(frozen=True)
class StoredSource:
    """A source whose counts are in a store.

    Attributes
    ----------
    name
        Unique in the store.
    replaced
        When its counts were last replaced, in Unix seconds.
    tasks
        Its reports of each task, in the order of `Store.tasks`; tasks without reports are left out.
    """

    name: str
    replaced: int
    tasks: tuple[SourceTask, ...]


class SourceChange(NamedTuple):
    """An epoch of a task in which the counts of a source changed.

    Attributes
    ----------
    task_id
        Id of the task, in hex.
    epoch
        The number of the epoch.
    before, after
        Reports from the source. Counts can change even if these are equal.
    """

    task_id: str
    epoch: int
    before: int
    after: int


@dataclass(frozen=True)
class SourceReport:
    """The result of replacing the counts of a source.

    Attributes
    ----------
    name
        Name of the source.
    changed
        The epochs with new counts.
    unchanged
        Number of epochs with the same counts as before.
    closed
        The epochs that would have changed, but stay as they were because they or their task are closed.
    """

    name: str
    changed: tuple[SourceChange, ...]
    unchanged: int
    closed: tuple[SourceChange, ...]

    @property
    def added(self) -> int:
        """Number of reports by which the store grew; negative if it has fewer reports than before."""
        return sum(change.after - change.before for change in self.changed)

    def __str__(self) -> str:
        text = (
            f"source {self.name}: {len(self.changed):,} epochs changed ({self.added:+,} reports), "
            f"{self.unchanged:,} unchanged"
        )
        if self.closed:
            reports = sum(change.after - change.before for change in self.closed)
            text += f", {len(self.closed):,} closed and left as they were ({reports:+,} reports ignored)"
        return text
