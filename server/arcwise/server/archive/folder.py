"""The folder of an archive: Parquet files that are there whole or not at all, for one writer at a time.

``DIR/<task id>/<epoch>/<random name>.parquet``, one row a batch: `task_id` (text), `epoch` (int64),
`batch_id` (16 bytes) and `codes` (list of uint16). Rows are shuffled, and a file has the time at which its
epoch began.
"""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.errors import MissingExtraError, StoreError
from arcwise.wire import code_format

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from arcwise.server.store.staging import ArchiveFile, StagingStore
    from arcwise.tasks import Task
    from arcwise.wire import Batch

__all__ = ["Folder", "require_pyarrow"]

_MARKER = "_arcwise_archive"
"""Holds the id of the archive. Engines take names that begin with _ or . for no data."""


def require_pyarrow() -> None:
    """Raise unless pyarrow is installed.

    Raises
    ------
    MissingExtraError
        With the command that installs it.
    """
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise MissingExtraError("an archive needs pyarrow: pip install 'arcwise[lake]'") from None


class Folder:
    """The folder that a store's batches go to.

    It and the store know one another by a random id. Another folder at the same path, such as the empty one
    where a disk is not mounted, is not written to.

    Parameters
    ----------
    path
        Where it is; made if there is none, in a folder that exists.
    store
        Whose batches they are.

    Raises
    ------
    StoreError
        When the folder is not that of this store, or cannot be used.
    """

    def __init__(self, path: Path, store: StagingStore) -> None:
        self.path = path
        self._lock: int | None = None
        try:
            path.mkdir(mode=0o700, exist_ok=True)
            known, found = store.archive_id(), self._found()
            if known is None:
                if any(each.name != _MARKER for each in path.iterdir() if not each.name.endswith(".part")):
                    raise StoreError(f"the archive {path} must be an empty folder at first, or a new one")
                found = found or self._mark()
                known = store.archive_id(found)
        except OSError as error:
            raise StoreError(f"cannot use the archive {path}: {error.strerror}") from error
        if found != known:
            raise StoreError(
                f"{path} is not the archive of this store: is its disk mounted? To begin another archive, "
                "run `arcwise store forget-archive STORE`"
            )
        self._id = known

    def _found(self) -> bytes | None:
        try:
            return bytes.fromhex((self.path / _MARKER).read_text("ascii", errors="replace").strip())
        except FileNotFoundError:
            return None
        except ValueError:
            return b""

    def _mark(self) -> bytes:
        draft = self.path / f".{secrets.token_hex(8)}.part"
        try:
            _write(draft, secrets.token_bytes(16).hex().encode() + b"\n")
            with suppress(FileExistsError):  # another worker was first
                os.link(draft, self.path / _MARKER)
        finally:
            draft.unlink(missing_ok=True)
        _sync(self.path)
        found = self._found()
        assert found is not None  # noqa: S101 (it was just made)
        return found

    def lock(self) -> bool:
        """Become or stay the one that writes; False when another process is. It lasts until `unlock`.

        Raises
        ------
        OSError
            When the folder is not there any more, or is another one.
        """
        import fcntl  # of POSIX

        if self._lock is not None:
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._lock), (self.path / _MARKER).stat()):
                    return True
            self.unlock()
        file = os.open(self.path / _MARKER, os.O_RDWR)
        try:
            if self._found() != self._id:
                raise OSError(f"{self.path} is not the archive of this store any more")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        except BaseException:
            os.close(file)
            raise
        self._lock = file
        return True

    def unlock(self) -> None:
        """Let another process write."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write(self, file: ArchiveFile, task: Task, batches: Sequence[Batch]) -> None:
        """Write a file durably; call `sync` before anything relies on its name."""
        from pyarrow import parquet

        place = self._place(file)
        for folder in (place.parent.parent, place.parent):
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
                _sync(folder.parent)
        draft = place.with_name(f".{file.name}.part")
        table = _table(task, file.epoch, batches)
        with open(draft, "xb", opener=_private) as out:
            parquet.write_table(table, out, compression="zstd")
            out.flush()
            # Not when it was written, which would tell when its batches came.
            os.utime(out.fileno(), (task.epoch_seconds * file.epoch,) * 2)
            os.fsync(out.fileno())
        draft.rename(place)

    def sync(self, files: Sequence[ArchiveFile]) -> None:
        """Make the names of files durable, those that are there."""
        for folder in {self._place(file).parent for file in files}:
            with suppress(FileNotFoundError):
                _sync(folder)

    def ids(self, file: ArchiveFile) -> set[bytes]:
        """Return the ids of the batches in a file; none when it is not there. What a crash left goes."""
        from pyarrow import parquet

        place = self._place(file)
        place.with_name(f".{file.name}.part").unlink(missing_ok=True)
        if not place.exists():
            return set()
        return set(parquet.read_table(place, columns=["batch_id"]).column(0).to_pylist())

    def remove_before(self, task: Task, epoch: int) -> dict[Path, OSError]:
        """Remove the files of a task of epochs below this one; return which folders stay, and why."""
        kept: dict[Path, OSError] = {}

        def keep(folder: Path, error: OSError) -> None:
            if not isinstance(error, FileNotFoundError):
                kept[folder] = error

        of_task = self.path / task.id
        try:
            folders = sorted(of_task.iterdir())
        except OSError as error:
            keep(of_task, error)
            return kept
        for folder in folders:
            if folder.name.isdecimal() and int(folder.name) < epoch:
                try:
                    shutil.rmtree(folder)
                except OSError as error:  # the others go all the same
                    keep(folder, error)
        return kept

    def remove_task(self, task_id: str) -> None:
        """Remove all files of a task.

        Raises
        ------
        OSError
            When something of it stays.
        """
        of_task = self.path / task_id
        if of_task.is_symlink():
            raise OSError(f"{of_task} is a symbolic link")
        with suppress(FileNotFoundError):
            shutil.rmtree(of_task)

    def _place(self, file: ArchiveFile) -> Path:
        return self.path / file.task_id.hex() / str(file.epoch) / f"{file.name}.parquet"


def _table(task: Task, epoch: int, batches: Sequence[Batch]) -> Any:
    """Return batches of an epoch of a task as a table, in an order drawn from the system's randomness."""
    import pyarrow as pa

    order = np.argsort(np.frombuffer(os.urandom(8 * len(batches)), "<u8"))
    shuffled = [batches[place] for place in order]
    packed_as = np.dtype(code_format(task.mechanism.kernel.codes))
    codes = np.frombuffer(b"".join(batch.codes for batch in shuffled), packed_as).astype(np.uint16)
    ends = np.cumsum([0] + [len(batch.codes) // packed_as.itemsize for batch in shuffled]).astype(np.int32)
    ids = pa.array([batch.batch_id for batch in shuffled], pa.binary(16))
    lists = pa.ListArray.from_arrays(pa.array(ends), pa.array(codes))
    names = pa.array([task.id]).take(pa.array(np.zeros(len(batches), np.int64)))
    epochs = pa.array(np.full(len(batches), epoch, np.int64))
    return pa.table({"task_id": names, "epoch": epochs, "batch_id": ids, "codes": lists})


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _write(path: Path, text: bytes) -> None:
    with open(path, "xb", opener=_private) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
