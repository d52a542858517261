"""The folder of an archive: Parquet files that are complete or absent, for one writer at a time.

``DIR/<task id>/<epoch>/<random name>.parquet``, with a row for each batch: `task_id` (text), `epoch` (int64),
`batch_id` (16 bytes) and `codes` (list of uint16). Rows are shuffled, and the time of a file is the beginning
of its epoch.
"""

from __future__ import annotations

import errno
import hashlib
import io
import logging
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.errors import StoreError
from arcwise.wire import code_format

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from arcwise.server.store.staging import ArchiveFile, StagingStore
    from arcwise.tasks import Task
    from arcwise.wire import Batch

_MARKER = "_arcwise_archive"
"""File with the id of the archive and a digest of its store. Engines skip names that begin with _ or ."""
_MARKER_BYTES = 100
_ID_LENGTH = 64
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)

_MOST_ROWS = 1_000_000
"""More rows than any server has written to a file; a small forged file could claim to have many more."""

_MOST_VALUES = 2**28
"""A limit of the same kind on the number of values, in all columns together."""

_log = logging.getLogger("arcwise.server")


class _Marker(NamedTuple):
    """The content of the folder's marker: its id, and its store (`b""` in markers of earlier versions)."""

    archive: bytes
    store: bytes


class Folder:
    """The archive folder that holds the batches of one store.

    The folder and the store share a random id, so another folder at the same path, such as the empty mount
    point of a missing disk, is not written to. The store that creates the marker first owns the folder:
    another store cannot begin an archive in it, even before it has files. Symbolic links inside the folder
    are not followed. A missing folder is made, but its parent must exist. Raises `StoreError` when the folder
    does not belong to the store or cannot be used.
    """

    def __init__(self, path: Path, store: StagingStore) -> None:
        self.path = path
        self._lock: int | None = None
        try:
            path.mkdir(mode=0o700, exist_ok=True)
            known, found = store.archive_id(), self._found()
            if known is None:
                if any(each.name != _MARKER for each in path.iterdir() if not each.name.endswith(".part")):
                    raise StoreError(f"the archive {path} must be a new folder or an empty one at first")
                claim = hashlib.sha256(b"arcwise archive of" + store.secret).digest()[:16]
                found = found or self._mark(claim)
                if found.store != claim:
                    raise StoreError(f"{path} is the archive of another store: name a new folder")
                known = store.archive_id(found.archive)
            self._refuse_links()
        except OSError as error:
            raise StoreError(f"cannot use the archive {path}: {error.strerror}") from error
        if found is None or found.archive != known:
            raise StoreError(
                f"{path} is not the archive of this store: is its disk mounted? To begin another archive, "
                "run `arcwise store forget-archive STORE`"
            )
        self.id = known

    def _found(self) -> _Marker | None:
        try:
            # A link may lead anywhere, and opening a pipe would block.
            file = os.open(self.path / _MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    return _Marker(b"", b"")
                text = os.read(file, _MARKER_BYTES).decode("ascii", errors="replace")
            finally:
                os.close(file)
            archive, _, claim = text.strip().partition("\n")
            return _Marker(bytes.fromhex(archive), bytes.fromhex(claim))
        except FileNotFoundError:
            return None
        except ValueError:
            return _Marker(b"", b"")

    def _mark(self, claim: bytes) -> _Marker:
        draft = self.path / f".{secrets.token_hex(8)}.part"
        try:
            with open(draft, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(f"{secrets.token_hex(16)}\n{claim.hex()}\n".encode())
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another worker was first
                os.link(draft, self.path / _MARKER)
        finally:
            draft.unlink(missing_ok=True)
        with _opened(self.path, None) as folder:
            os.fsync(folder)
        found = self._found()
        assert found is not None  # noqa: S101 (it was just made)
        return found

    def lock(self) -> bool:
        """Acquire or keep the lock for writing, until `unlock`; return False when another process has it.

        Raises `OSError` when the folder is gone or has been replaced.
        """
        import fcntl  # POSIX only

        if self._lock is not None:
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._lock), (self.path / _MARKER).stat()):
                    return True
            self.unlock()
        file = os.open(self.path / _MARKER, os.O_RDWR)
        try:
            found = self._found()
            if found is None or found.archive != self.id:
                raise OSError(f"{self.path} is no longer the archive of this store")
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

        table = _table(task, file.epoch, batches)
        with self._epoch(file, make=True) as folder:
            draft = f".{file.name}.part"
            made = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600, dir_fd=folder)
            with os.fdopen(made, "wb") as out:
                parquet.write_table(table, out, compression="zstd", write_page_checksum=True)
                out.flush()
                # The time of writing would reveal when the batches of the file came.
                os.utime(out.fileno(), (task.epoch_seconds * file.epoch,) * 2)
                os.fsync(out.fileno())
            os.rename(draft, f"{file.name}.parquet", src_dir_fd=folder, dst_dir_fd=folder)

    def sync(self, files: Sequence[ArchiveFile]) -> None:
        """Make the names of the files that exist durable."""
        for file in {(file.task_id, file.epoch): file for file in files}.values():
            with suppress(FileNotFoundError), self._epoch(file) as folder:
                os.fsync(folder)

    def ids(self, file: ArchiveFile) -> set[bytes] | None:
        """Return the ids of the batches in a file: empty if it does not exist, and None if it was set aside.

        A temporary file that a crash left is deleted. A file that cannot be read completely gets a name that
        no engine reads.
        """
        name = f"{file.name}.parquet"
        with suppress(FileNotFoundError), self._epoch(file) as folder:
            with suppress(FileNotFoundError):
                os.unlink(f".{file.name}.part", dir_fd=folder)
            try:
                return _ids(name, folder)
            except _DamagedError as damage:
                error = damage
                os.rename(name, aside := f"_{name}.damaged", src_dir_fd=folder, dst_dir_fd=folder)
                os.fsync(folder)
            place = self.path / file.task_id.hex() / str(file.epoch)
            _log.error(
                "a file of the archive is damaged and is now %s: those of its batches that still wait are "
                "written again; its other batches are only in the counts (%s)",
                place / aside,
                error,
            )
            return None
        return set()

    def remove_before(self, task: Task, epoch: int) -> dict[Path, OSError]:
        """Remove a task's files of epochs below `epoch`; return the folders that stay, with the error."""
        kept: dict[Path, OSError] = {}
        try:
            with _opened(self.path, None) as root, _opened(task.id, root) as of_task:
                with os.scandir(of_task) as entries:
                    names = sorted(each.name for each in entries if each.name.isdecimal())
                for name in names:
                    try:
                        if int(name) < epoch:
                            _remove(name, of_task)
                    except FileNotFoundError:  # noqa: PERF203 (the others are still removed)
                        pass
                    except OSError as error:
                        kept[self.path / task.id / name] = error
        except FileNotFoundError:
            pass
        except OSError as error:
            kept[self.path / task.id] = error
        return kept

    def remove_task(self, task_id: str) -> None:
        """Remove all files of a task; raise `OSError` when some of them stay."""
        with suppress(FileNotFoundError), _opened(self.path, None) as root:
            _remove(task_id, root)

    def _refuse_links(self) -> None:
        """Raise if the folder of a task or an epoch is a symbolic link, which may lead anywhere."""
        tasks = [each for each in os.scandir(self.path) if len(each.name) == _ID_LENGTH]
        for of_task in tasks:
            epochs = os.scandir(of_task) if of_task.is_dir(follow_symlinks=False) else ()
            for each in (of_task, *(epoch for epoch in epochs if epoch.name.isdecimal())):
                if each.is_symlink():
                    raise StoreError(
                        f"{each.path} is a symbolic link, and files would be written and deleted elsewhere: "
                        "move its target into the archive, or mount it there"
                    )

    @contextmanager
    def _epoch(self, file: ArchiveFile, *, make: bool = False) -> Iterator[int]:
        """Open the folder of a file's epoch; raise `FileNotFoundError` if it is missing, unless `make`."""
        with (
            _opened(self.path, None) as root,
            _opened(file.task_id.hex(), root, make=make) as of_task,
            _opened(str(file.epoch), of_task, make=make) as folder,
        ):
            yield folder


class _DamagedError(Exception):
    pass


def _ids(name: str, folder: int) -> set[bytes]:
    """Return the ids of the batches in a file.

    Raises `FileNotFoundError` when there is no such file, and `_DamagedError` when its content is not as
    written.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        opened = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _NO_LINK, dir_fd=folder)
        with os.fdopen(opened, "rb") as file:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                raise _DamagedError("it is not a regular file")
            whole = parquet.ParquetFile(io.BytesIO(file.read()), page_checksum_verification=True)
            if not _is_ours(whole):
                raise _DamagedError("it holds something else, or more, than any server writes")
            table = whole.read()  # the codes are read too, so that the whole file is checked
        ids: list[bytes] = table.column("batch_id").to_pylist()
    except FileNotFoundError:
        raise
    except OSError as error:  # pyarrow's own errors have no number
        if error.errno not in {None, errno.ELOOP, errno.EIO}:
            raise
        raise _DamagedError(str(error)) from error
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise _DamagedError(str(error)) from error
    return set(ids)


def _is_ours(whole: Any) -> bool:
    """Return whether a file has the columns of servers' files, and not too many rows or values."""
    import pyarrow as pa

    found = {each.name: each.type for each in whole.schema_arrow}
    codes = found.pop("codes", pa.null())
    groups = [whole.metadata.row_group(k) for k in range(whole.metadata.num_row_groups)]
    values = sum(group.column(k).num_values for group in groups for k in range(group.num_columns))
    return bool(
        found == {"task_id": pa.string(), "epoch": pa.int64(), "batch_id": pa.binary(16)}
        and pa.types.is_list(codes)
        and codes.value_type == pa.uint16()
        and whole.metadata.num_rows <= _MOST_ROWS
        and values <= _MOST_VALUES
    )


@contextmanager
def _opened(name: Path | str, at: int | None, *, make: bool = False) -> Iterator[int]:
    """Open a folder; raise `OSError` for anything else, and for a symbolic link inside another folder."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=at)
            assert at is not None  # noqa: S101 (the archive itself is there)
            os.fsync(at)
    try:
        folder = os.open(name, _DIRECTORY | (0 if at is None else _NO_LINK), dir_fd=at)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            raise OSError(error.errno, "it is a symbolic link or not a folder") from error
        raise
    try:
        yield folder
    finally:
        os.close(folder)


def _remove(name: str, at: int) -> None:
    """Remove a folder and its content; a link in it is removed, not its target."""
    with _opened(name, at) as folder:
        with os.scandir(folder) as entries:
            found = [(each.name, each.is_dir(follow_symlinks=False)) for each in entries]
        for inner, is_folder in found:
            if is_folder:
                _remove(inner, folder)
            else:
                os.unlink(inner, dir_fd=folder)
    os.rmdir(name, dir_fd=at)


def _table(task: Task, epoch: int, batches: Sequence[Batch]) -> Any:
    """Return batches of a task's epoch as a table, in an order drawn from the system's randomness."""
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
