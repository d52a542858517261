"""Spark counts the same integers on two executors, even if one of them is killed midway.

By hand: ``make test-spark`` makes a separate environment for it, because pyspark takes 400 MB.
"""

import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arcwise.analysis import count_table
from tests.support.lake import (
    MOST_CODES,
    NOW,
    arrow_table,
    bodies,
    expected,
    on_the_wire,
    same_counts,
    some_rows,
    tasks,
)

pytest.importorskip("pyspark", reason="pyspark is not installed here: make test-spark")
if shutil.which("java") is None:
    pytest.skip("there is no Java here", allow_module_level=True)

RULES: dict[str, Any] = {"now": NOW, "max_batch_codes": MOST_CODES}
pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of Spark's own modules


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from tests.support.spark import session

    with session() as started:
        yield started


def parquet(folder: Path, seed: int, files: int = 4, count: int = 300) -> list[Any]:
    import pyarrow.parquet as pq

    rows = some_rows(seed, count)
    for number in range(files):
        pq.write_table(arrow_table(rows[number::files]), folder / f"{number}.parquet")
    return rows


def test_it_counts_columns(spark: Any, tmp_path: Path) -> None:
    rows = parquet(tmp_path, 1)
    for source, engine in ((str(tmp_path / "*.parquet"), spark), (spark.read.parquet(str(tmp_path)), None)):
        result = count_table(source, tasks(), engine=engine, **RULES)
        same_counts(result, *expected(rows))
    assert len(list(result.batch_ids)) == len({(name, key) for name, _, key in result.batch_ids})
    assert {(name, epoch) for name, epoch, _ in result.batch_ids} == set(result.counts)


def test_it_counts_bodies(spark: Any, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [row for row in on_the_wire(some_rows(2, nulls=False)) if expected([row])[0]]
    counts, rejected = expected(rows)
    pq.write_table(pa.table({"body": pa.array([*bodies(rows), b"heading"])}), tmp_path / "0.parquet")
    result = count_table(spark.read.parquet(str(tmp_path)), tasks(), layout="bodies", **RULES)
    same_counts(result, counts, {**rejected, "malformed-batch": (1, 0)})


def executors(application: str) -> list[int]:
    """Return the processes of the executors of an application."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if b"CoarseGrainedExecutorBackend" in command and application.encode() in command:
                found.append(int(entry.name))
    return found


def test_a_killed_executor_changes_no_integer(spark: Any, tmp_path: Path) -> None:
    rows = parquet(tmp_path, 3, files=24, count=6000)
    counts, rejected = expected(rows)
    # A task for each file, so that the kill comes midway.
    for key in ("maxPartitionBytes", "openCostInBytes"):
        spark.conf.set(f"spark.sql.files.{key}", 1 << 16)
    tracker = spark.sparkContext.statusTracker()
    application = spark.sparkContext.applicationId
    before = executors(application)
    assert len(before) == 2
    killed: list[int] = []
    done = threading.Event()

    def kill() -> None:
        """Kill an executor that has finished some tasks while other tasks of the stage run."""
        while not done.is_set():
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                if info and info.numCompletedTasks and info.numActiveTasks:
                    victim = before[0]
                    os.kill(victim, signal.SIGKILL)
                    killed.append(victim)
                    return
            time.sleep(0.002)

    for _ in range(5):  # a query may end before the test looks at it
        killer = threading.Thread(target=kill)
        killer.start()
        try:
            result = count_table(spark.read.parquet(str(tmp_path)), tasks(), **RULES)
        finally:
            done.set()
            killer.join()
        same_counts(result, counts, rejected)
        if killed:
            break
        done.clear()
    assert killed
    assert killed[0] not in executors(application)
