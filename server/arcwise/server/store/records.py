"""What a store returns beside counts: keys and tasks, as they stand in its tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arcwise.tasks import Task

__all__ = ["StoredKey", "StoredTask"]


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
        "ingest", "read" or "admin".
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
