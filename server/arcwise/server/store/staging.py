"""What a store must do beside counting, so that batches get into an archive: each of them, once."""

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
"""What a staged batch takes beside its codes, rounded up."""


class Staged(NamedTuple):
    """A batch that waits for the archive, and the number under which it waits."""

    number: int
    batch: Batch


class StagedSize(NamedTuple):
    """How many batches wait for the archive, and about how many bytes they take."""

    batches: int
    bytes: int


class ArchiveFile(NamedTuple):
    """A file of the archive: its random name, and the task (32 bytes) and epoch of the batches in it."""

    name: str
    task_id: bytes
    epoch: int


class StagingStore(Store):
    """A store that can keep the batches that it counts until they are in a file.

    A file is begun before it gets its name, and ended when it has it for good. Whoever finds a file that was
    begun, after a crash, looks whether it is there: then what is in it waits no more.
    """

    @abstractmethod
    def add_staged(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Do as `add`, and keep the batches that are counted, in the same transaction."""

    @abstractmethod
    def staged(self, after: int, most: int, most_bytes: int) -> list[Staged]:
        """Return batches that wait, from the first number above `after` on.

        At most so many, and no more once their codes take so many bytes.
        """

    @abstractmethod
    def staged_size(self) -> StagedSize:
        """Return how much waits."""

    @abstractmethod
    def unstage(self, numbers: Sequence[int], archive: bytes | None) -> None:
        """Forget batches that are in a file which is there for good.

        This, `begin_files` and `end_files` raise `StoreError` unless `archive` is the id of the store's
        folder: whoever still writes to one that was forgotten must not touch what goes to the next, and
        numbers are used again.
        """

    @abstractmethod
    def begin_files(self, files: Iterable[ArchiveFile], archive: bytes | None) -> None:
        """Take note, durably, that files are about to get their names."""

    @abstractmethod
    def begun_files(self) -> list[ArchiveFile]:
        """Return the files that were begun and not ended."""

    @abstractmethod
    def end_files(self, archive: bytes | None) -> None:
        """Take note that none of the files that were begun is needed any more: nothing of theirs waits."""

    @abstractmethod
    def archive_id(self, new: bytes | None = None) -> bytes | None:
        """Return the random id of the folder that the batches go to; it becomes `new` where there is none."""

    @abstractmethod
    def forget_archive(self, *, begun_too: bool = True) -> bool:
        """Forget the id of the folder and the files that were begun in it; batches go on waiting.

        With `begun_too=False` nothing is changed while files are begun. Returns whether it was forgotten.
        """


def staging(store: Store) -> StagingStore:
    """Return a store that can stage batches; raise `StoreError` for any other."""
    if not isinstance(store, StagingStore):
        raise StoreError("stores of this kind keep no batches for an archive; use SQLite or PostgreSQL")
    return store
