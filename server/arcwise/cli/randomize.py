"""`arcwise randomize`: turn a file of values into a file of reports, for `arcwise count`."""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from arcwise.analysis.timeseries.epochs import DAYS_AHEAD, epochs_in
from arcwise.cli.options import EXISTING, NEW
from arcwise.cli.reading import PARQUET, READABLE, read_rows, read_seconds
from arcwise.cli.terminal import new_path, progress_bar, whole_file
from arcwise.columns import read_column
from arcwise.digits import counted
from arcwise.errors import DomainError
from arcwise.extras import check_extra
from arcwise.tasks import Task
from arcwise.wire import BATCH_ID_BYTES, MAX_EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from arcwise.cli.reading import Rows
    from arcwise.typing import FloatArray, IntArray

    Batch = tuple[int, bytes, NDArray[Any]]

_BATCH = 1 << 16
"""Most codes of a batch, far below what a server accepts."""

_TOGETHER = 64
"""Number of batches per write, for row groups of up to four million codes."""


@click.command()
@click.argument("file", type=EXISTING)
@click.option("--column", required=True, metavar="NAME", help="The column of values, in the task's unit.")
@click.option("--task", "task_file", required=True, type=EXISTING, help="The file of the task.")
@click.option(
    "--output",
    "-o",
    required=True,
    type=NEW,
    help="The file of reports: .parquet, .jsonl or .csv.",
)
@click.option(
    "--time",
    "time_column",
    metavar="NAME",
    help="A column of times, which decide the epochs: times or dates (UTC if they have no zone), or Unix "
    "seconds. Without it all reports get the current epoch.",
)
@click.option(
    "--missing",
    type=click.Choice(["error", "drop"]),
    default="error",
    show_default=True,
    help="Rows without a value or a time: stop with an error, or leave them out.",
)
@click.option("--force", is_flag=True, help="Overwrite the output if it exists.")
def randomize(  # noqa: PLR0917 (click calls it by keyword)
    file: Path,
    column: str,
    task_file: Path,
    output: Path,
    time_column: str | None,
    missing: str,
    force: bool,
) -> None:
    """Randomise a column of FILE (Parquet, CSV or JSON lines) and write a file of reports.

    \b
    arcwise randomize flights.parquet --column arr_delay --task delay.json -o reports.parquet
    arcwise randomize rides.csv --column heading --time ended_at --missing drop \\
        --task heading.json -o reports.parquet

    Run it where the values may be read: on the device of one person, or in a pipeline that people trust with
    their data. The reports are private, FILE is not. This command keeps no ledger and refuses nothing:
    randomising a value again spends the task's epsilon again.

    The output has a row for each batch: task_id, epoch, batch_id and codes, a list in ascending order. CSV
    has a row for each report, and each row has its own batch id. The output appears only when it is complete.
    Parquet needs pyarrow, from the extra lake; CSV and JSON lines do not.
    """  # noqa: D301 (\b is click's mark for a block that it must not rewrap)
    task = Task.load(task_file)
    path = new_path(task.name, output, force)
    if path.exists() and path.samefile(file):
        raise click.ClickException("--output is FILE itself, which would lose the values; name another file")
    for name, known in ((file, READABLE), (path, _WRITABLE)):
        if name.suffix.lower() not in known:
            raise click.UsageError(f"{name} must end with {', '.join(known)}, which gives its format")
        if name.suffix.lower() in PARQUET:
            check_extra("lake", "pyarrow", user=f"arcwise randomize of {name.name}")
    sieve = _Sieve(task, missing, time.time())
    with whole_file(path) as part, _WRITABLE[path.suffix.lower()](part, task) as write:
        reports = _Reports(write)
        with progress_bar(counted=False) as show:
            for rows in read_rows(file, column, time_column):
                codes, epochs = sieve.codes(file, rows)
                reports.add(codes, epochs)
                show(rows.done, rows.total, f"{sieve.seen:,} values")
        sieve.check(file, column)
        reports.close()
    kept, epochs_too = counted(sieve.seen - sieve.absent, "report"), counted(reports.epochs, "epoch")
    left_out = f"; left out {counted(sieve.absent, 'row')} without a value" if sieve.absent else ""
    click.echo(f"wrote {path}: {kept} in {epochs_too}{left_out}")


class _Sieve:
    """Randomises the rows that have a value and a time, and counts the rows that do not."""

    def __init__(self, task: Task, missing: str, now: float) -> None:
        self._task, self._missing, self._now = task, missing, now
        self.seen = self.absent = 0
        self._first_absent: int | None = None

    def codes(self, file: Path, rows: Rows) -> tuple[Any, IntArray]:
        """Return the codes and epochs of the rows that have a value and a time."""
        try:
            numbers = read_column(rows.values)
            seconds = np.full(len(numbers), self._now) if rows.times is None else read_seconds(rows.times)
            absent = np.isnan(numbers) | np.isnan(seconds)
            if absent.any() and self._first_absent is None:
                self._first_absent = rows.first + int(absent.argmax())
            self.seen, self.absent = self.seen + len(numbers), self.absent + int(absent.sum())
            # If values are missing and that is an error, the remaining rows are only counted.
            wanted = numbers[~absent] if self._missing == "drop" or not self.absent else numbers[:0]
            # Check all rows, missing ones too, so that errors give the place of a value among all rows.
            domain = self._task.domain
            domain.to_unit_many(np.where(np.isnan(numbers), domain.start, numbers))
            return self._task.randomize(wanted), self._epochs(seconds[~absent][: len(wanted)])
        except DomainError as error:
            last = rows.first + len(rows.values) - 1
            raise click.ClickException(f"{file}, rows {rows.first:,} to {last:,}: {error}") from error

    def _epochs(self, seconds: FloatArray) -> IntArray:
        epochs = np.floor(seconds / self._task.epoch_seconds)
        if len(epochs) and not (epochs.min() >= 0 and epochs.max() <= MAX_EPOCH):
            raise DomainError(
                f"times must be from 1970 on and before epoch {MAX_EPOCH}, got a time outside this range"
            )
        last = self._task.epoch(self._now) + epochs_in(DAYS_AHEAD, self._task)
        if len(epochs) and epochs.max() > last:
            place = int(epochs.argmax())
            raise DomainError(
                f"times must be at most a day ahead of now, which is {self._now:.0f} in Unix seconds; got "
                f"{seconds[place]:.15g} (milliseconds? divide by 1000)"
            )
        return epochs.astype(np.int64)

    def check(self, file: Path, column: str) -> None:
        """Refuse a file with missing values, unless they may be dropped, or without any values."""
        if self.absent and self._missing == "error":
            raise click.ClickException(
                f"{file}: {self.absent:,} of {self.seen:,} rows have no value in {column!r} or no time, the "
                f"first is row {self._first_absent}; leave them out with --missing drop"
            )
        if self.seen == self.absent:
            raise click.ClickException(f"{file} has no values in {column!r}")


class _Reports:
    """Collects codes by epoch and writes them in batches, each in ascending order, as devices do."""

    def __init__(self, write: Callable[[list[Batch]], None]) -> None:
        self._write = write
        self._waiting: dict[int, list[NDArray[Any]]] = {}
        self._sizes: dict[int, int] = {}
        self._batches: list[Batch] = []

    @property
    def epochs(self) -> int:
        """The number of epochs that have reports."""
        return len(self._sizes)

    def add(self, codes: NDArray[Any], epochs: IntArray) -> None:
        """Add reports: their codes, and the epoch of each."""
        order = np.argsort(epochs, kind="stable")
        each, starts = np.unique(epochs[order], return_index=True)
        parts = np.split(codes[order], starts[1:]) if len(codes) else []
        for epoch, part in zip(each.tolist(), parts, strict=True):
            self._waiting.setdefault(epoch, []).append(part)
            self._sizes[epoch] = self._sizes.get(epoch, 0) + len(part)
            if self._sizes[epoch] >= _BATCH:
                self._flush(epoch, whole=True)

    def close(self) -> None:
        """Write the remaining codes."""
        for epoch in sorted(self._waiting):
            self._flush(epoch, whole=False)
        self._write_batches()

    def _flush(self, epoch: int, *, whole: bool) -> None:
        """Make batches of the codes of an epoch; with `whole`, only full batches."""
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
def _parquet(path: Path, task: Task) -> Iterator[Callable[[list[Batch]], None]]:
    import pyarrow as pa
    from pyarrow import parquet

    # Plain types, which every engine supports; the dictionary encoding shrinks each code to a byte.
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


_WRITABLE: dict[str, Any] = {
    ".parquet": _parquet,
    ".pq": _parquet,
    ".jsonl": _json,
    ".ndjson": _json,
    ".json": _json,
    ".csv": _csv,
}
"""Writers by file suffix."""
