"""What a store returns beside counts: keys, tasks and sources, as they stand in its tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from arcwise.tasks import Task


@dataclass(frozen=True)
class StoredKey:
    """A key as a store keeps it: never the key itself. Stores know nothing of how the digest is made.

    Attributes
    ----------
    id
        Public name of the key, unique in the store.
    digest
        32 bytes.
    scope
        "ingest", "read", "metrics" or "admin".
    tasks
        Ids (hex) of the tasks that it is good for; None: all.
    label
        Words for people.
    created, revoked
        Unix seconds; `revoked` is None while the key is good.
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
    """A session as a store keeps it: never the token that the browser has.

    Attributes
    ----------
    digest
        SHA-256 of the token, 32 bytes, unique in the store.
    key_id
        Id of the key that it was begun with.
    created, seen
        When it began and when it was last used, in Unix seconds.
    ends
        When it ends, however much it is used, in Unix seconds.
    """

    digest: bytes
    key_id: str
    created: int
    seen: int
    ends: int


@dataclass(frozen=True)
class DeletedData:
    """What `Store.delete_data` deleted.

    Attributes
    ----------
    reports
        How many reports the counts were of, those of sources among them.
    batch_ids
        How many ids of batches.
    staged
        How many batches that waited for an archive.
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
        Id of the key of who did it; "" for commands on the store itself.
    action
        What was done, such as "revoke key".
    subject
        To what: the id of a task or of a key.
    outcome
        What became of it, such as "done".
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
        The first epoch whose batches are taken; the ids of earlier ones are forgotten.
    newest
        The newest epoch that has reports; None where there are none.
    """

    task: Task
    closed: int | None
    open_from: int
    newest: int | None


class SourceTask(NamedTuple):
    """What a source has of a task.

    Attributes
    ----------
    task_id
        In hex.
    first, last
        Its oldest and its newest epoch with reports.
    epochs
        How many epochs have reports.
    reports
        How many there are.
    """

    task_id: str
    first: int
    last: int
    epochs: int
    reports: int


@dataclass(frozen=True)
class StoredSource:
    """A source that a store has counts of.

    Attributes
    ----------
    name
        Unique in the store.
    replaced
        When its counts were last replaced, in Unix seconds.
    tasks
        What it has of each task, in the order of `Store.tasks`; those without reports are left out.
    """

    name: str
    replaced: int
    tasks: tuple[SourceTask, ...]


class SourceChange(NamedTuple):
    """An epoch of a task whose counts from a source are not what they were.

    Attributes
    ----------
    task_id
        In hex.
    epoch
        The number of the epoch.
    before, after
        Reports from the source. Counts can change without them.
    """

    task_id: str
    epoch: int
    before: int
    after: int


@dataclass(frozen=True)
class SourceReport:
    """What became of the counts of a source.

    Attributes
    ----------
    name
        Of the source.
    changed
        The epochs that have other counts now.
    unchanged
        How many epochs have the counts that they had.
    closed
        The epochs whose counts stay as they were, because they or their task are closed, and would have
        changed.
    """

    name: str
    changed: tuple[SourceChange, ...]
    unchanged: int
    closed: tuple[SourceChange, ...]

    @property
    def added(self) -> int:
        """By how many reports the store has more than before; negative where it has fewer."""
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
