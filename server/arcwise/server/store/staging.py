"""The interface of stores that keep batches for an archive, each batch exactly once."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from arcwise.errors import StoreError
from arcwise.server.store.base import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from arcwise.server.store.base import Outcome
    from arcwise.wire import Batch

ROW_BYTES = 100
"""Bytes of a staged batch besides its codes, rounded up."""


class Staged(NamedTuple):
    """A batch that waits for the archive, and its number in the queue."""

    number: int
    batch: Batch


class StagedSize(NamedTuple):
    """The number of batches that wait for the archive, and their approximate size in bytes."""

    batches: int
    bytes: int


class ArchiveFile(NamedTuple):
    """A file of the archive: its random name, and the task (32 bytes) and epoch of the batches in it."""

    name: str
    task_id: bytes
    epoch: int


class StagingStore(Store):
    """A store that can keep the batches that it counts until they are in a file.

    The store records that a file is begun before the file gets its name, and deletes this record when the
    file is durable and its batches no longer wait. After a crash, the next writer looks for each begun file:
    if the file exists, the batches in it no longer wait.
    """

    @abstractmethod
    def add_staged(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Like `add`, and keep the counted batches, in the same transaction."""

    @abstractmethod
    def staged(self, after: int, most: int, most_bytes: int) -> list[Staged]:
        """Return the waiting batches whose number in the queue is above `after`.

        Returns at most `most` batches, and no further batch once their codes take `most_bytes` bytes.
        """

    @abstractmethod
    def staged_size(self) -> StagedSize:
        """Return the size of the waiting batches."""

    @abstractmethod
    def unstage(self, numbers: Sequence[int], archive: bytes | None) -> None:
        """Delete those of the waiting batches that are in a durable file.

        This, `begin_files` and `end_files` raise `StoreError` unless `archive` is the id of the store's
        folder: a process that still writes to a forgotten folder must not touch the batches of the next
        folder, because numbers are used again.
        """

    @abstractmethod
    def begin_files(self, files: Iterable[ArchiveFile], archive: bytes | None) -> None:
        """Record, durably, that files are about to get their names."""

    @abstractmethod
    def begun_files(self) -> list[ArchiveFile]:
        """Return the files that were begun and not ended."""

    @abstractmethod
    def end_files(self, archive: bytes | None) -> None:
        """Delete the records of all begun files, because none of their batches waits any more."""

    @abstractmethod
    def archive_id(self, new: bytes | None = None) -> bytes | None:
        """Return the random id of the archive folder; if it is not set, set it to `new` first."""

    @abstractmethod
    def forget_archive(self, *, begun_too: bool = True) -> bool:
        """Delete the id of the folder and the records of files begun in the folder; batches go on waiting.

        With `begun_too=False` nothing is changed while files are begun. Returns whether the id was deleted.
        """


def staging(store: Store) -> StagingStore:
    """Return the store if it can stage batches; raise `StoreError` if it cannot."""
    if not isinstance(store, StagingStore):
        raise StoreError("stores of this kind keep no batches for an archive; use SQLite or PostgreSQL")
    return store
