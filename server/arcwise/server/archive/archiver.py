"""Moves the batches that wait in a store to files, so that each is in exactly one file, even after a crash.

A batch begins to wait with the commit that counts it. Only one process writes at a time. This writer takes
waiting batches and notes in the store which files it begins. It writes each file under a temporary name,
syncs it, renames it and syncs the folder. Then it deletes the written batches from the waiting ones, and
deletes the note. After a crash the next writer reads the note first. If a noted file has its final name, its
batches are deleted from the waiting ones. Otherwise the file counts as never begun.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from typing import TYPE_CHECKING

from arcwise.analysis.timeseries.epochs import epochs_in
from arcwise.errors import StoreError
from arcwise.server.archive.folder import Folder
from arcwise.server.store.staging import ROW_BYTES, ArchiveFile, StagedSize, staging

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from arcwise.server.store import Outcome, Store
    from arcwise.server.store.staging import Staged, StagingStore
    from arcwise.tasks import Task
    from arcwise.wire import Batch

_log = logging.getLogger("arcwise.server")

_PAGE = 10_000
"""Most batches that are read in one query; other processes can read between two queries."""
_MOST_BATCHES = 250_000
_MOST_BYTES = 64 << 20
"""Limits on the batches of one write, which are all in memory; when this many wait, the next write begins."""
_TICK_SECONDS = 5.0
"""Seconds between two checks: how many bytes wait, and whether another process still writes."""
_LAST_SECONDS = 3.0
"""Seconds that an ending process waits for another process to finish writing."""
_STOP_SECONDS = 30.0


class Archiver:
    """Stages batches and writes them to the files of an archive, on a thread of its own.

    `believed` returns the time that closes epochs, in Unix seconds. Batches are gathered for `seconds`, and
    at most `most_bytes` of them may wait. Files are removed `retention_days` days after their epoch, or never
    if it is 0. Raises `StoreError` when the folder does not belong to the store or cannot be used.
    """

    def __init__(
        self,
        store: Store,
        path: Path,
        *,
        believed: Callable[[], float],
        seconds: float,
        retention_days: int,
        most_bytes: int,
        tick_seconds: float = _TICK_SECONDS,
    ) -> None:
        self._store: StagingStore = staging(store)
        self._folder = Folder(path, self._store)
        self._believed = believed
        self._seconds = seconds
        self._retention_days = retention_days
        self._most_bytes = most_bytes
        self._tick = min(tick_seconds, seconds)
        self._looked = self._store.staged_size()
        self._since = StagedSize(0, 0)
        self._counting = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self.failing = False
        self.failures = 0
        self.set_aside = 0
        self.written = 0
        self._written_at = -float("inf")
        self._all_written = time.monotonic()
        """The latest time at which nothing was waiting, or another process was the writer."""
        self._thread = threading.Thread(target=self._run, name="arcwise-archive", daemon=True)

    def start(self) -> None:
        """Start the thread that writes."""
        self._thread.start()

    def stop(self) -> None:
        """Write the waiting batches, if that takes at most half a minute, and end the thread."""
        self._stopping = True
        self._wake.set()
        self._thread.join(_STOP_SECONDS)

    @property
    def waiting(self) -> StagedSize:
        """The size of the waiting batches: those of all workers some seconds ago, and this worker's since."""
        with self._counting:
            return StagedSize(*map(sum, zip(self._looked, self._since, strict=True)))

    @property
    def oldest_seconds(self) -> float:
        """Longest time that a batch has waited; 0 if none waits, or another process writes."""
        return time.monotonic() - self._all_written if self.waiting.batches else 0.0

    @property
    def is_full(self) -> bool:
        """Whether as many bytes wait as are allowed."""
        return self.waiting.bytes >= self._most_bytes

    def add(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Count and stage batches, as `Store.add` counts them.

        Raises `StoreError`, and counts nothing, when the store fails or too much waits for the archive.
        """
        if self.is_full:
            raise StoreError(
                f"{self.waiting.bytes:,} bytes wait for the archive {self._folder.path}, which cannot be "
                "written as fast as reports come. See the log, or raise archive_max_staged_bytes"
            )
        outcomes = self._store.add_staged(batches)
        with self._counting:  # this includes replays, until the size is read again
            size = ROW_BYTES * len(batches) + sum(len(batch.codes) for batch in batches)
            self._since = StagedSize(self._since.batches + len(batches), self._since.bytes + size)
        if _is_enough(self.waiting):
            self._wake.set()
        return outcomes

    def _look(self) -> None:
        with self._counting:
            before = self._since
        found = self._store.staged_size()
        with self._counting:
            self._looked = found
            self._since = StagedSize(*(now - then for now, then in zip(self._since, before, strict=True)))

    def _run(self) -> None:
        while True:
            stopping = self._stopping
            self._wake.clear()
            try:
                self.turn(last=stopping)
                if self.failing:
                    _log.warning("the archive %s can be written again", self._folder.path)
                self.failing = False
            except Exception as error:  # the thread must survive every error of a disk or a database
                self.failing = True
                self.failures += 1
                if isinstance(error, (OSError, StoreError)):
                    _log.error("cannot write the archive %s: %s", self._folder.path, _words(error))
                else:
                    _log.exception("cannot write the archive %s", self._folder.path)
            if stopping:
                self._folder.unlock()
                return
            if self.failing:
                time.sleep(min(self._tick, 1.0))
            self._wake.wait(self._tick)

    def turn(self, *, last: bool = False) -> None:
        """Write the waiting batches if a write is due and no other process is writing.

        Raises `OSError` or `StoreError` when the folder or the store fails.
        """
        self._look()
        until = time.monotonic() + (_LAST_SECONDS if last else 0.0)
        while not self._folder.lock():
            self._all_written = time.monotonic()
            if self._all_written >= until:
                return
            time.sleep(0.05)  # the writer may be ending, too, and may have read the waiting batches already
        due = time.monotonic() >= self._written_at + self._seconds
        if not (last or due or _is_enough(self.waiting)):
            return
        self._settle()
        start = time.monotonic()
        while batches := self._take():
            self._write(batches)
            start = time.monotonic()
        self._all_written = start
        self._written_at = time.monotonic()
        self._look()
        if self._retention_days:
            for task in self._tasks().values():
                oldest = task.epoch(self._believed()) - epochs_in(self._retention_days, task)
                for folder, error in self._folder.remove_before(task, oldest).items():
                    _log.error(
                        "cannot remove %s, which is older than archive_retention_days: %s",
                        folder,
                        _words(error),
                    )

    def _settle(self) -> None:
        """Delete those of the waiting batches that are in files begun before a crash."""
        files = self._store.begun_files()
        if not files:
            return
        self._folder.sync(files)  # files may have their names, but not durably
        done: set[tuple[bytes, bytes]] = set()
        for file in files:
            ids = self._folder.ids(file)
            self.set_aside += ids is None
            done.update((file.task_id, batch_id) for batch_id in ids or ())
        after = -1
        while done and (page := self._store.staged(after, _PAGE, _MOST_BYTES)):
            after = page[-1].number
            settled = [n for n, batch in page if (batch.task_id, batch.batch_id) in done]
            self._store.unstage(settled, self._folder.id)
        self._store.end_files(self._folder.id)

    def _tasks(self) -> dict[bytes, Task]:
        # Read from the store, because another worker may just have added one.
        return {bytes.fromhex(stored.task.id): stored.task for stored in self._store.tasks()}

    def _take(self) -> list[Staged]:
        taken: list[Staged] = []
        size = 0
        while len(taken) < _MOST_BATCHES and size < _MOST_BYTES:
            page = self._store.staged(taken[-1].number if taken else -1, _PAGE, _MOST_BYTES - size)
            if not page:
                break
            taken += page
            size += sum(len(each.batch.codes) for each in page)
        return taken

    def _write(self, staged: Sequence[Staged]) -> None:
        tasks = self._tasks()
        cells: dict[tuple[bytes, int], list[Staged]] = {}
        for each in staged:
            cells.setdefault((each.batch.task_id, each.batch.epoch), []).append(each)
        files = [ArchiveFile(secrets.token_hex(8), *cell) for cell in cells]
        self._store.begin_files(files, self._folder.id)
        for file, members in zip(files, cells.values(), strict=True):
            self._folder.write(file, tasks[file.task_id], [each.batch for each in members])
        self._folder.sync(files)
        self._store.unstage([each.number for each in staged], self._folder.id)
        self._store.end_files(self._folder.id)
        self.written += len(staged)


def _is_enough(waiting: StagedSize) -> bool:
    return waiting.batches >= _MOST_BATCHES or waiting.bytes >= _MOST_BYTES


def _words(error: Exception) -> object:
    return getattr(error, "strerror", None) or error
