"""A server among hostile clients: ``python -m tests.soak.hostile [--seed 7] [--scale 1]``. Takes minutes.

Each part has its own `arcwise serve` process on one SQLite store: 10^5 bodies that are nearly batches, 2·10^4
requests that are nearly HTTP, slow heads and bodies, a thousand idle connections, answers that nobody takes,
ten times the store's throughput. Meanwhile an honest client reports. After each part there must be no status
500 and no trace of an exception in the log, and memory must be within its bound. The store must be intact and
hold exactly the acknowledged batches (and any of those that were cut off). An honest report must be
acknowledged immediately.

The program exits with 1 if any of this does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from arcwise.domains import Interval
from arcwise.mechanisms import DesignedTable, OptimalPiecewise
from arcwise.tasks import Task
from tests.soak.hostile.attack import PARTS, Attack, Part, report_honestly, report_once
from tests.soak.hostile.book import Book, Wire
from tests.support.server_processes import serving
from tests.support.sockets import memory, peak_memory

DOMAIN = Interval(0, 1)
CODES = 100
ROW = [2**64 // CODES + (2**64 % CODES if code == 0 else 0) for code in range(CODES)]
UNITS = [code / CODES for code in range(CODES)]
TASKS = [
    Task("narrow", DOMAIN, 1.0),
    Task("wide", DOMAIN, 1.0, mechanism=OptimalPiecewise(DOMAIN, 1.0, nodes=300)),
    Task("large", DOMAIN, 1.0, mechanism=DesignedTable(DOMAIN, 1.0, rows=[ROW] * 400, units=UNITS)),
]
"""Codes of one byte, codes of two, and a task whose definition makes a list of tasks of 0.8 MB."""
AT_ONCE = 5.0
"""Seconds that an honest report may take, on a machine that is busy with both sides."""


class Found(NamedTuple):
    """The result of a part."""

    statuses: dict[int, int]
    """The number of answers by status; 0: no answer."""
    grown: int
    """The largest growth of the server in bytes."""
    slowest: float
    """The longest time of an honest report in seconds."""
    seconds: float
    acknowledged: int
    """Batches."""
    violations: list[str]
    """Events that must not happen."""


def run_part(part: Part, *, seed: int, scale: float) -> Found:
    """Serve from an empty store, attack, and check the remaining state."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for task in TASKS:
            task.save(folder / f"{task.name}.json")
        book = Book(folder, TASKS)
        # Open: a server without keys refuses requests that look proxied before it reads them.
        with serving(folder, "--open", *part.options) as (url, process):
            attack = Attack(url, TASKS, book, seed)
            asyncio.run(_report(attack, 100))  # everything is loaded
            before = memory(process.pid)
            start = time.monotonic()
            slowest = asyncio.run(_attack(attack, part, scale))
            took = time.monotonic() - start
            slowest = max(slowest, asyncio.run(_report(attack, 3)))
            grown = peak_memory(process.pid) - before
            violations = attack.violations + book.problems()
            if process.poll() is not None:
                violations.append(f"the server ended with {process.returncode}")
        log = (folder / "stderr").read_text("utf-8")
        violations += book.problems()
        if "Traceback" in log:
            violations.append(f"an exception: {log[log.index('Traceback') :][:3000]}")
    if grown > part.grows << 20:
        violations.append(f"the server grew by {grown >> 20} MiB")
    if slowest > AT_ONCE:
        violations.append(f"an honest report took {slowest:.1f} s")
    wrong = list(dict.fromkeys(violations))
    return Found(dict(attack.statuses), grown, slowest, took, book.acknowledged, wrong)


async def _attack(attack: Attack, part: Part, scale: float) -> float:
    stop = asyncio.Event()
    honest = asyncio.create_task(report_honestly(attack, stop)) if part.beside else None
    await part.attack(attack, scale)
    stop.set()
    return await honest if honest is not None else 0.0


async def _report(attack: Attack, count: int) -> float:
    """Send honest reports one after the other; return the longest time that one took."""
    wire, slowest = Wire(attack.url), 0.0
    for _ in range(count):
        slowest = max(slowest, await report_once(attack, wire, attack.generator))
    await wire.close()
    return slowest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0, help="how much of everything; 1 is all")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    given = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    row = "{:<22} {:>8} {:>9} {:>13} {:>13} {:>8}  {}".format
    titles = "part", "seconds", "batches", "MiB more", "slowest (ms)", "wrong", "answers by status (-: cut)"
    print(row(*titles), flush=True)
    failed = False
    for name in given.parts:
        part = PARTS[name]
        found = run_part(part, seed=given.seed, scale=given.scale)
        answers = ", ".join(f"{status or '-'}: {count:,}" for status, count in sorted(found.statuses.items()))
        grown = f"{found.grown >> 20} of {part.grows}"
        figures = f"{found.seconds:.1f}", f"{found.acknowledged:,}", grown, f"{found.slowest * 1e3:.0f}"
        print(row(part.title, *figures, len(found.violations), answers), flush=True)
        for violation in found.violations[:20]:
            print(f"  {violation}", flush=True)
        failed |= bool(found.violations)
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
