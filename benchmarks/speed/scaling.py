"""Measure for docs/howto/scaling.md the costs of batches by size, PostgreSQL, storage, and many epochs.

Costs are CPU time, which depends less than clock time on other work of the machine. Each model is made from
some of the measurements and predicts another one; the table shows its error.

    python -m benchmarks.speed.scaling [--rounds 5]
"""

from __future__ import annotations

import argparse
import multiprocessing
import queue
import secrets
import statistics
import tempfile
import time
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.server.store import open_store
from arcwise.wire import Batch
from benchmarks.speed.cpu_time import children_of, cpu_seconds
from benchmarks.speed.ingest import REPORTS, TASK, Load, server, store_url
from benchmarks.speed.rivals import postmaster
from benchmarks.speed.stores import groups
from benchmarks.speed.tables import Table, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.server.store import Store
    from benchmarks.speed.tables import Show

__all__ = ["run"]

COMMAND = "python -m benchmarks.speed.scaling"
STORES = (("sqlite", "SQLite"), ("postgresql", "PostgreSQL"))
SIZES = (1, 10, 100, 1000)
REQUESTS = 4_000
CONNECTIONS = 64
GROUPS = ((1, 1), (16, 1), (64, 1), (256, 1), (1024, 1), (64, 10), (64, 100), (64, 10_000))
"""Batches in a transaction, and codes in each."""
IDS = 200_000
EPOCHS = (1, 30, 365, 3650)


def batch_sizes(rounds: int, show: Show) -> None:
    """Show the cost of a report for a worker and its database by the number of reports in a batch."""
    rows: list[list[str | float | None]] = []
    for kind, name in STORES:
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            url = stack.enter_context(store_url(kind, folder))
            worker = stack.enter_context(server(url, folder))
            database = postmaster(url) if kind == "postgresql" else 0
            taken: dict[int, list[tuple[float, float, float]]] = {size: [] for size in SIZES}
            for number in range(rounds + 1):
                for size in SIZES:
                    processes = [database, *children_of(database)] if database else []
                    before = cpu_seconds(processes)
                    measured = worker.load(Load(REPORTS, REQUESTS, size), CONNECTIONS)
                    used = (cpu_seconds(processes) - before) / REQUESTS * 1e6
                    if number:
                        taken[size].append((measured.rate, measured.cpu, used))
            medians = {
                size: [statistics.median(x) for x in zip(*each, strict=True)] for size, each in taken.items()
            }
            cost = {size: found[1] + found[2] for size, found in medians.items()}
            model = (cost[1] + cost[10]) / 2
            for size, (rate, cpu, used) in medians.items():
                rows.append(
                    [
                        name,
                        size,
                        rate * size,
                        cpu,
                        used if database else None,
                        (cpu + used) / size,
                        model / cost[size] - 1 if size > 10 else None,
                    ]
                )
    show(
        Table(
            "scaling-batch-sizes",
            COMMAND,
            [
                ("store", ""),
                ("reports a batch", ",d"),
                ("reports/s", ",.0f"),
                ("worker, us a batch", ",.0f"),
                ("database, us a batch", ",.0f"),
                ("us a report", ",.2f"),
                ("a batch costs as one of 1 and 10", "+.0%"),
            ],
            rows,
        )
    )


class Added(NamedTuple):
    """The cost of a group of batches: CPU of the caller and of the database in us, bytes of log, ms."""

    caller: float
    database: float
    log: float
    wall: float


def added(store: Store, url: str, database: int, load: Sequence[list[Batch]]) -> Added:
    """Add groups and return the cost of one of them."""
    import psycopg

    processes = [database, *children_of(database)]
    with closing(psycopg.connect(url, autocommit=True)) as connection:

        def position() -> int:
            row = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchone()
            assert row is not None
            return int(row[0])

        log, cpu, own, start = position(), cpu_seconds(processes), time.thread_time(), time.perf_counter()
        for group in load:
            store.add(group)
        wall, own = time.perf_counter() - start, time.thread_time() - own
        cpu, log = cpu_seconds(processes) - cpu, position() - log
    return Added(own / len(load) * 1e6, cpu / len(load) * 1e6, log / len(load), wall / len(load) * 1e3)


def postgres_groups(rounds: int, show: Show) -> None:
    """Show the cost of a transaction of PostgreSQL by its size."""
    rows: list[list[str | float | None]] = []
    with ExitStack() as stack:
        url = stack.enter_context(store_url("postgresql", ""))
        store = stack.enter_context(closing(open_store(url)))
        store.register([TASK])
        store.add(groups(64, 10, 1)[0])  # create the counters, as in a store that has run for a while
        database = postmaster(url)
        taken: dict[tuple[int, int], list[Added]] = {shape: [] for shape in GROUPS}
        for number in range(rounds + 1):
            for batches, codes in GROUPS:
                found = added(store, url, database, groups(batches, codes, 30))
                if number:
                    taken[batches, codes].append(found)
        medians = {
            shape: Added(*map(statistics.median, zip(*each, strict=True))) for shape, each in taken.items()
        }
        few, many = medians[1, 1], medians[64, 1]
        slope = (many.database - few.database) / 63
        for (batches, codes), each in medians.items():
            model = few.database + slope * (batches - 1)
            rows.append(
                [
                    batches,
                    codes,
                    each.wall,
                    each.caller / batches,
                    each.database / batches,
                    each.log / batches,
                    batches / (each.database / 1e6),
                    model / each.database - 1 if batches not in {1, 64} else None,
                ]
            )
    show(
        Table(
            "scaling-postgresql",
            COMMAND,
            [
                ("batches a group", ",d"),
                ("codes a batch", ",d"),
                ("ms a group", ",.1f"),
                ("worker, us a batch", ",.1f"),
                ("PostgreSQL, us a batch", ",.1f"),
                ("log, bytes a batch", ",.0f"),
                ("batches/s a core of PostgreSQL", ",.0f"),
                ("model of 1 and 64", "+.0%"),
            ],
            rows,
        )
    )


def _write(url: str, count: int, barrier: Any, results: Any) -> None:
    with closing(open_store(url)) as store:
        store.register([TASK])
        load = groups(64, 1, count)
        store.add(load.pop())
        barrier.wait()
        start = time.perf_counter()
        for group in load:
            store.add(group)
        results.put(len(load) * 64 / (time.perf_counter() - start))
        barrier.wait()  # PostgreSQL's work for this connection is read while it is open


def waits(url: str) -> int:
    """Return how many sessions are waiting for a lock of another session."""
    import psycopg

    with closing(psycopg.connect(url, autocommit=True)) as connection:
        row = connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
        assert row is not None
        return int(row[0])


def writers(rounds: int, show: Show, count: int = 150) -> None:
    """Show how much several writers add to one task and epoch of PostgreSQL."""
    rows: list[list[str | float | None]] = []
    spawn = multiprocessing.get_context("spawn")
    taken: dict[int, list[tuple[float, float, float]]] = {number: [] for number in (1, 2, 4)}
    for _ in range(rounds):
        for number, found in taken.items():
            with store_url("postgresql", "") as url:
                barrier, results = spawn.Barrier(number + 1), spawn.Queue()
                processes = [
                    spawn.Process(target=_write, args=(url, count, barrier, results)) for _ in range(number)
                ]
                for process in processes:
                    process.start()
                barrier.wait(60)
                database = postmaster(url)
                members = [database, *children_of(database)]
                before, waiting = cpu_seconds(members), 0
                rates: list[float] = []
                while len(rates) < number:
                    waiting = max(waiting, waits(url))
                    with suppress(queue.Empty):
                        rates.append(results.get(timeout=0.02))
                used = cpu_seconds(members) - before
                barrier.wait(60)
                for process in processes:
                    process.join()
                found.append((sum(rates), used / (number * (count - 1) * 64) * 1e6, waiting))
    medians = {
        number: [statistics.median(x) for x in zip(*each, strict=True)] for number, each in taken.items()
    }
    for number, (rate, cpu, waiting) in medians.items():
        rows.append([number, rate, rate / medians[1][0], cpu, int(waiting)])
    show(
        Table(
            "scaling-writers",
            COMMAND,
            [
                ("writers", ",d"),
                ("batches/s", ",.0f"),
                ("beside one", ".2f"),
                ("PostgreSQL, us a batch", ",.1f"),
                ("most locks waited for", "d"),
            ],
            rows,
        )
    )


def storage(show: Show) -> None:
    """Show the storage of a batch's id."""
    rows: list[list[str | float | None]] = []
    for kind, name in STORES:
        with ExitStack() as stack:
            store = store_of(kind, stack)
            sizes = []
            for _ in range(2):  # the first time also grows SQLite's log to its size
                for group in groups(1000, 1, IDS // 1000):
                    store.add(group)
                sizes.append(store.size)
            rows.append([name, IDS, (sizes[1] - sizes[0]) / IDS])
    show(Table("scaling-ids", COMMAND, [("store", ""), ("ids", ",d"), ("bytes an id", ",.0f")], rows))


def store_of(kind: str, stack: ExitStack) -> Store:
    """Return a new store that knows the task."""
    url = stack.enter_context(store_url(kind, stack.enter_context(tempfile.TemporaryDirectory())))
    store = stack.enter_context(closing(open_store(url)))
    store.register([TASK])
    return store


def epochs(show: Show) -> None:
    """Show the time of reading the counts of many epochs, the extra cost of an estimate of all of them."""
    rows: list[list[str | float | None]] = []
    generator, task, codes = np.random.default_rng(1), bytes.fromhex(TASK.id), TASK.mechanism.kernel.codes

    def batch(epoch: int) -> Batch:
        packed = generator.integers(0, codes, 1000).astype("u1").tobytes()
        return Batch(task, secrets.token_bytes(16), epoch, packed)

    for kind, name in STORES:
        with ExitStack() as stack:
            store, done = store_of(kind, stack), 0
            for many in EPOCHS:
                for start in range(done, many, 50):
                    store.add([batch(10_000 + epoch) for epoch in range(start, min(many, start + 50))])
                done = many
                times = []
                for _ in range(9):
                    begin = time.perf_counter()
                    store.sums(TASK)
                    times.append(time.perf_counter() - begin)
                rows.append([name, many, min(times) * 1e3])
    show(
        Table(
            "scaling-epochs",
            COMMAND,
            [("store", ""), ("epochs", ",d"), ("sum of counts, ms", ",.2f")],
            rows,
        )
    )


def run(rounds: int = 5, *, show: Show = print_table) -> None:
    """Show all tables."""
    batch_sizes(rounds, show)
    postgres_groups(rounds, show)
    writers(rounds, show)
    storage(show)
    epochs(show)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    run(parser.parse_args().rounds)


if __name__ == "__main__":
    main()
