"""Counting a lake: `count_table` against `numpy.bincount` with deduplication, over the same files.

    python -m benchmarks.speed.lake --reports 1e8
    python -m benchmarks.speed.lake --reports 1e8 --engine postgresql://USER@HOST/DATABASE
    .venv-spark/bin/python -m benchmarks.speed.lake --reports 1e8 --engine spark

Writes Parquet files with batches of 100 codes, 1 % of them twice, of three tasks and thirty epochs, and the
same as raw bodies. Each side runs in a process of its own, in turns; the integers of all must be equal.
Prints seconds of processor time and of the clock, and the memory of the process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.analysis import count_table
from arcwise.domains import Circle
from arcwise.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.typing import IntArray

PER_BATCH = 100
EPOCHS = 30
FIRST = 20_000
FILES = 8
MEMORY = "512MB"


def tasks() -> list[Task]:
    return [Task(name, Circle(360), epsilon=1.0) for name in ("a", "b", "c")]


def write(folder: Path, reports: int) -> None:
    """Write both layouts, a file at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    each = tasks()
    codes = each[0].mechanism.kernel.codes
    generator = np.random.default_rng(1)
    for number in range(FILES):
        batches = reports // PER_BATCH // FILES
        columns: list[Any] = [
            generator.integers(len(each), size=batches),
            generator.integers(FIRST, FIRST + EPOCHS, batches),
            generator.integers(256, size=(batches, 16), dtype=np.uint8),
            generator.integers(codes, size=(batches, PER_BATCH), dtype=np.uint8),
        ]
        twice = generator.choice(batches, batches // 100, replace=False)
        order = generator.permutation(np.append(np.arange(batches), twice))
        task, epoch, ids, packed = (column[order] for column in columns)
        offsets = pa.array(np.arange(len(task) + 1, dtype=np.int32) * PER_BATCH)
        table = pa.table(
            {
                "task_id": pa.DictionaryArray.from_arrays(task.astype(np.int32), [one.id for one in each]),
                "epoch": pa.array(epoch),
                "batch_id": binaries(ids),
                "codes": pa.ListArray.from_arrays(offsets, pa.array(packed.ravel().astype(np.uint16))),
            }
        )
        table = table.set_column(0, "task_id", table["task_id"].cast(pa.string()))
        pq.write_table(table, folder / f"columns-{number}.parquet", row_group_size=20_000)
        names = np.frombuffer(b"".join(bytes.fromhex(one.id) for one in each), np.uint8).reshape(-1, 32)[task]
        big = epoch.astype(">u2").view(np.uint8).reshape(-1, 2)
        head = [np.tile(np.frombuffer(part, np.uint8), (len(task), 1)) for part in PARTS]
        raw = np.hstack([head[0], names, head[1], ids, head[2], big, head[3], packed])
        pq.write_table(
            pa.table({"body": binaries(raw)}), folder / f"bodies-{number}.parquet", row_group_size=20_000
        )


PARTS = (b"\x95\x01\xc4\x20", b"\xc4\x10", b"\xcd", bytes([0xC4, PER_BATCH]))
"""Bytes of a body before the task's id, the batch's id, the epoch and the codes."""


def binaries(rows: Any) -> Any:
    import pyarrow as pa

    count, width = rows.shape
    offsets = np.arange(count + 1, dtype=np.int32) * width
    return pa.Array.from_buffers(
        pa.binary(),
        count,
        [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(rows))],
    )


def by_numpy(folder: Path) -> IntArray:
    """Count as a script that trusts its files would: deduplicate ids, then one bincount per file."""
    import pyarrow.parquet as pq

    each = [task.id for task in tasks()]
    codes = tasks()[0].mechanism.kernel.codes
    files = [pq.read_table(path) for path in sorted(folder.glob("columns-*.parquet"))]
    ids = np.concatenate(
        [np.frombuffer(file["batch_id"].combine_chunks().buffers()[2], "V16") for file in files]
    )
    halves = ids.view(np.uint64).reshape(-1, 2)
    # Half of a random id is enough if files are trusted, and sorts in a third of the time.
    keep = np.zeros(len(ids), bool)
    keep[np.unique(halves[:, 0], return_index=True)[1]] = True
    total = np.zeros(len(each) * EPOCHS * codes, np.int64)
    at = 0
    for file in files:
        kept = keep[at : at + len(file)]
        at += len(file)
        names = file["task_id"].combine_chunks().dictionary_encode()
        place = np.array([each.index(name) for name in names.dictionary.to_pylist()])
        key = place[names.indices.to_numpy()] * EPOCHS + file["epoch"].to_numpy() - FIRST
        lists = file["codes"].combine_chunks()
        sizes = np.diff(lists.offsets.to_numpy())
        rows = np.repeat((key * codes).astype(np.int32)[kept], sizes[kept])
        total += np.bincount(rows + lists.values.to_numpy()[np.repeat(kept, sizes)], minlength=len(total))
    return total.reshape(len(each), EPOCHS, codes)


def by_table(folder: Path, layout: str, **options: Any) -> IntArray:
    each = tasks()
    result = count_table(f"{folder}/{layout}-*.parquet", each, layout=layout, **options)  # type: ignore[arg-type]
    return as_array(result.counts)


def as_array(counts: Any) -> IntArray:
    each = tasks()
    total = np.zeros((len(each), EPOCHS, each[0].mechanism.kernel.codes), np.int64)
    place = {task.id: number for number, task in enumerate(each)}
    for (name, epoch), numbers in counts.items():
        total[place[name], epoch - FIRST] = numbers
    return total


def by_postgres(folder: Path, url: str) -> tuple[IntArray, float]:
    """Load the files into a table, which is dropped later; return the counts and the seconds of counting."""
    import psycopg
    import pyarrow.parquet as pq

    name = "arcwise_bench_lake"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {name}".encode())
        connection.execute(
            f"CREATE UNLOGGED TABLE {name}"
            " (task_id text, epoch bigint, batch_id bytea, codes smallint[])".encode()
        )
        try:
            with connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN".encode()) as copy:
                for path in sorted(folder.glob("columns-*.parquet")):
                    file = pq.read_table(path)
                    for row in zip(*(column.to_pylist() for column in file.columns), strict=True):
                        copy.write_row(row)
            connection.execute(f"ANALYZE {name}".encode())
            start = time.perf_counter()
            counts = as_array(count_table(name, tasks(), engine=url).counts)
            return counts, time.perf_counter() - start
        finally:
            connection.execute(f"DROP TABLE {name}".encode())


def measured(work: Callable[[], IntArray]) -> dict[str, Any]:
    before, clock = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    counts = work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "seconds": time.perf_counter() - clock,
        "mebibytes": after.ru_maxrss / 1024,
        "reports": int(counts.sum()),
        "sha256": hashlib.sha256(counts.tobytes()).hexdigest(),
    }


def alone(side: str, folder: Path) -> dict[str, Any]:
    """Run a side in a process of its own, whose memory is freed at the end."""
    command = [sys.executable, "-m", "benchmarks.speed.lake", "--side", side, "--folder", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def duckdb(folder: Path, rounds: int) -> None:
    """Print numpy, DuckDB over columns and DuckDB over bodies, in turns, each in its own process."""
    ratios = []
    for _ in range(rounds):
        found = {side: alone(side, folder) for side in ("numpy", "columns", "bodies")}
        assert len({each["sha256"] for each in found.values()}) == 1, "the integers differ"
        for side, each in found.items():
            print(row(side if side == "numpy" else f"DuckDB, {side}", each))
        ratios.append(found["columns"]["cpu"] / found["numpy"]["cpu"])
        print(f"  DuckDB takes {ratios[-1]:.2f} times the processor time of numpy")


def spark(folder: Path, rounds: int) -> None:
    """Print Spark with two executors of one core; its first count warms up its compilers."""
    from tests.support.spark import session

    expected = alone("numpy", folder)
    print(row("numpy", expected))
    with session() as engine:
        for layout in ("columns", "bodies") * rounds:
            start = time.perf_counter()
            counts = by_table(folder, layout, engine=engine)
            seconds = time.perf_counter() - start
            assert hashlib.sha256(counts.tobytes()).hexdigest() == expected["sha256"], "the integers differ"
            print(f"{'Spark, ' + layout:18} {'':24}{seconds:8.1f} s of the clock")


def postgres(url: str, folder: Path, rounds: int) -> None:
    """Print PostgreSQL, with the rows loaded before."""
    expected = alone("numpy", folder)
    print(row("numpy", expected))
    for _ in range(rounds):
        counts, seconds = by_postgres(folder, url)
        assert hashlib.sha256(counts.tobytes()).hexdigest() == expected["sha256"], "the integers differ"
        print(f"{'PostgreSQL':18} {'':24}{seconds:8.1f} s of the clock, without loading")


def row(side: str, each: dict[str, Any]) -> str:
    rate = each["reports"] / each["seconds"] / 1e6
    return (
        f"{side:18} {each['cpu']:8.2f} s of processor {each['seconds']:8.2f} s of the clock"
        f" {rate:8.1f} million codes a second {each['mebibytes']:8.0f} MiB"
    )


ENGINES = {"duckdb": duckdb, "spark": spark}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--reports", type=float, default=1e7)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", default="duckdb", help="duckdb, spark, or the URL of a PostgreSQL")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="folder of existing files")
    options = parser.parse_args()
    if options.side:
        counted = partial(by_table, layout=options.side, memory_limit=MEMORY)
        side: Callable[[Path], IntArray] = by_numpy if options.side == "numpy" else counted
        print(json.dumps(measured(partial(side, options.folder))))
        return
    with tempfile.TemporaryDirectory(prefix="arcwise-lake-") as made:
        folder = options.folder or Path(made)
        if not any(folder.glob("*.parquet")):
            folder.mkdir(parents=True, exist_ok=True)
            write(folder, int(options.reports))
        ENGINES.get(options.engine, partial(postgres, options.engine))(folder, options.rounds)


if __name__ == "__main__":
    main()
