"""Files of reports in the column layout: what `arcwise count` counts."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.wire import BATCH_ID_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from arcwise.tasks import Task
    from arcwise.typing import IntArray

    Batch = tuple[int, bytes, NDArray[Any]]

_BATCH = 1 << 16
"""Most codes of a batch, far below what a server takes."""

_TOGETHER = 64
"""Batches that are written at once: row groups of up to four million codes."""


class Reports:
    """Collects codes by epoch and writes them in batches, each in ascending order, as devices do."""

    def __init__(self, write: Callable[[list[Batch]], None]) -> None:
        self._write = write
        self._waiting: dict[int, list[NDArray[Any]]] = {}
        self._sizes: dict[int, int] = {}
        self._batches: list[Batch] = []

    @property
    def epochs(self) -> int:
        """How many epochs there are reports of."""
        return len(self._sizes)

    def add(self, codes: NDArray[Any], epochs: IntArray) -> None:
        """Add reports, an epoch for each code."""
        order = np.argsort(epochs, kind="stable")
        each, starts = np.unique(epochs[order], return_index=True)
        parts = np.split(codes[order], starts[1:]) if len(codes) else []
        for epoch, part in zip(each.tolist(), parts, strict=True):
            self._waiting.setdefault(epoch, []).append(part)
            self._sizes[epoch] = self._sizes.get(epoch, 0) + len(part)
            if self._sizes[epoch] >= _BATCH:
                self._flush(epoch, whole=True)

    def close(self) -> None:
        """Write all that is left."""
        for epoch in sorted(self._waiting):
            self._flush(epoch, whole=False)
        self._write_batches()

    def _flush(self, epoch: int, *, whole: bool) -> None:
        """Make batches of the codes of an epoch; with `whole` only full ones."""
        codes = np.concatenate(self._waiting.pop(epoch))
        end = len(codes) - len(codes) % _BATCH if whole else len(codes)
        for start in range(0, end, _BATCH):
            part = np.sort(codes[start : min(start + _BATCH, end)])
            self._batches.append((epoch, os.urandom(BATCH_ID_BYTES), part))
            if len(self._batches) == _TOGETHER:
                self._write_batches()
        self._sizes[epoch] = len(codes) - end
        if end < len(codes):
            self._waiting[epoch] = [codes[end:]]

    def _write_batches(self) -> None:
        if self._batches:
            self._write(self._batches)
            self._batches = []


@contextmanager
def open_reports(path: Path, suffix: str, task: Task) -> Iterator[Reports]:
    """Open a file for the reports of a task, in the form that the suffix names."""
    with WRITABLE[suffix](path, task) as write:
        reports = Reports(write)
        yield reports
        reports.close()


@contextmanager
def _parquet(path: Path, task: Task) -> Iterator[Callable[[list[Batch]], None]]:
    import pyarrow as pa
    from pyarrow import parquet

    # Plain types, which every engine has; dictionaries make a byte of each code.
    schema = pa.schema(
        {
            "task_id": pa.string(),
            "epoch": pa.int64(),
            "batch_id": pa.binary(),
            "codes": pa.list_(pa.int32()),
        }
    )

    def write(batches: list[Batch]) -> None:
        epochs, ids, codes = zip(*batches, strict=True)
        ends = np.append(0, np.cumsum([len(part) for part in codes])).astype(np.int32)
        columns = [
            pa.array([task.id] * len(batches)),
            pa.array(epochs, pa.int64()),
            pa.array(ids, pa.binary()),
            pa.ListArray.from_arrays(pa.array(ends), pa.array(np.concatenate(codes).astype(np.int32))),
        ]
        file.write_batch(pa.record_batch(columns, schema=schema))

    with parquet.ParquetWriter(path, schema, compression="zstd") as file:
        yield write


@contextmanager
def _json(path: Path, task: Task) -> Iterator[Callable[[list[Batch]], None]]:
    def write(batches: list[Batch]) -> None:
        for epoch, batch_id, codes in batches:
            row = {"task_id": task.id, "epoch": epoch, "batch_id": batch_id.hex(), "codes": codes.tolist()}
            file.write(json.dumps(row, separators=(",", ":")) + "\n")

    with path.open("w", encoding="ascii") as file:
        yield write


@contextmanager
def _csv(path: Path, task: Task) -> Iterator[Callable[[list[Batch]], None]]:
    def write(batches: list[Batch]) -> None:
        for epoch, _, codes in batches:
            ids = os.urandom(BATCH_ID_BYTES * len(codes)).hex()
            width = 2 * BATCH_ID_BYTES
            file.writelines(
                f"{task.id},{epoch},{ids[place * width : (place + 1) * width]},{code}\n"
                for place, code in enumerate(codes.tolist())
            )

    with path.open("w", encoding="ascii") as file:
        file.write("task_id,epoch,batch_id,codes\n")
        yield write


WRITABLE: dict[str, Any] = {
    ".parquet": _parquet,
    ".pq": _parquet,
    ".jsonl": _json,
    ".ndjson": _json,
    ".json": _json,
    ".csv": _csv,
}
"""Writers by the suffix of a file."""
