"""The time of one call of `report`: ``python -m benchmarks.speed.report [FOLDER]``. A minute or two.

It is compared, in the same rounds and on the same disk, with a bare transaction of sqlite3 that inserts one
row, in the same mode of the same journal; with an append of 32 bytes to a file with fsync; and with a report
to a `MemoryLedger`. FOLDER holds the files while it runs; by default it is the system's folder for temporary
files. In a folder in memory, an fsync costs nothing.

It exits with 1 if a report to a relaxed ledger takes 200 microseconds or more in the median.
"""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from arcwise.client import Client, FileLedger, MemoryLedger
from arcwise.client.file.database import Database
from arcwise.domains import Circle
from arcwise.tasks import Caps, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from arcwise.client import Ledger

__all__ = ["run"]

BOUND = 200.0
"""Microseconds: the bound on the median of a report to a relaxed ledger."""

ROUNDS, CALLS = 40, 100
"""Calls of each kind in a round; the first round warms up."""

IDLE_SECONDS = 3.0
RESIDENT_REPORTS = 100_000

TASK = Task("heading", Circle(360), epsilon=0.01, caps=Caps(lifetime=1e6, rolling=1e6))
DEVICE = Caps(lifetime=1e6)


class Sink:
    """A network that accepts everything immediately."""

    def __init__(self) -> None:
        self.batches = 0

    def post(self, url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> tuple[int, None]:
        self.batches += 1
        return 204, None

    def close(self) -> None:
        pass


class CountingDatabase(Database):
    """A database that counts its commits that wait for the disk."""

    durable_commits = 0

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        with super().writing(durable=durable) as connection:
            yield connection
        self.durable_commits += durable or not self.relaxed


class CountingLedger(FileLedger):
    """A ledger in such a database."""

    def __init__(self, path: Path, *, relaxed: bool) -> None:
        FileLedger(path, create=True).close()
        self._database = self.database = CountingDatabase(path, relaxed=relaxed, busy_timeout=60)


def client_of(ledger: Ledger, transport: Sink, *, interval: float = 3600.0) -> Client:
    """Return a client of one task with caps, like an app's."""
    return Client(
        "http://127.0.0.1:9",
        tasks=[TASK],
        ledger=ledger,
        caps=DEVICE,
        transport=transport,
        interval=interval,
        max_pending=10**7,
    )


def reporter(stack: ExitStack, ledger: Ledger) -> Callable[[], object]:
    client = stack.enter_context(client_of(ledger, Sink()))
    return lambda: client.report("heading", 350.5)


def bare_transaction(stack: ExitStack, path: Path, synchronous: str) -> Callable[[], object]:
    connection = sqlite3.connect(path, isolation_level=None)
    stack.callback(connection.close)
    for pragma in ("journal_mode = WAL", f"synchronous = {synchronous}"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.execute("CREATE TABLE reports (number INTEGER PRIMARY KEY, code INTEGER NOT NULL)")

    def insert() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO reports (code) VALUES (7)")
        connection.execute("COMMIT")

    return insert


def append_and_fsync(stack: ExitStack, path: Path) -> Callable[[], object]:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    stack.callback(os.close, file)

    def append() -> None:
        os.write(file, bytes(32))
        os.fsync(file)

    return append


def quantile(times: list[float], share: float) -> float:
    """Return a quantile of some times, in the unit of the times."""
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def timed(call: Callable[[], object], count: int) -> list[float]:
    """Return the microseconds of each call."""
    times = []
    for _ in range(count):
        start = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - start) / 1e3)
    return times


def print_calls(folder: Path) -> float:
    """Print a table of single calls; return the median of a report to a relaxed ledger."""
    with ExitStack() as stack:
        ledgers = {
            mode: stack.enter_context(
                FileLedger(folder / f"{mode}.db", create=True, relaxed=mode == "relaxed")
            )
            for mode in ("relaxed", "strict")
        }
        calls = {
            "report, MemoryLedger": reporter(stack, MemoryLedger()),
            "report, relaxed FileLedger": reporter(stack, ledgers["relaxed"]),
            "bare transaction, synchronous=NORMAL": bare_transaction(stack, folder / "n.db", "NORMAL"),
            "report, strict FileLedger": reporter(stack, ledgers["strict"]),
            "bare transaction, synchronous=FULL": bare_transaction(stack, folder / "f.db", "FULL"),
            "append 32 bytes and fsync": append_and_fsync(stack, folder / "file"),
        }
        times: dict[str, list[float]] = {name: [] for name in calls}
        for turn in range(ROUNDS + 1):
            for name, call in calls.items():
                found = timed(call, CALLS)
                if turn:
                    times[name] += found
    medians = {name: quantile(found, 0.5) for name, found in times.items()}
    print(f"one call, {ROUNDS * CALLS:,} of each in turns, in microseconds")
    print(f"  {'':38}{'median':>9}{'p99':>9}   beside the bare transaction")
    for name, found in times.items():
        mode = {"relaxed": "NORMAL", "strict": "FULL"}.get(name.split()[1].rstrip(","), "")
        ratio = f"{medians[name] / medians[f'bare transaction, synchronous={mode}']:10.1f}" if mode else ""
        print(f"  {name:38}{medians[name]:9.0f}{quantile(found, 0.99):9.0f}{ratio}")
    return medians["report, relaxed FileLedger"]


def in_threads(threads: int, reports: int, client: Client, times: list[float]) -> float:
    """Report from threads, add the time of each call to `times`, and return the total seconds."""

    def work() -> None:
        times.extend(timed(lambda: client.report("heading", 350.5), reports // threads))

    workers = [threading.Thread(target=work) for _ in range(threads)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - start


def print_threads(folder: Path) -> None:
    """Print the times of threads that report at the same time while a sender runs."""
    print("reports from threads to one ledger, sent once a second, in microseconds")
    print(f"  {'':26}{'median':>9}{'p99':>9}{'reports/s':>11}{'sends':>7}{'waits for the disk':>20}")
    for mode, threads, reports in (
        ("relaxed", 1, 20_000),
        ("relaxed", 4, 20_000),
        ("strict", 1, 3000),
        ("strict", 4, 3000),
    ):
        sink = Sink()
        times: list[float] = []
        path = folder / f"{mode}-{threads}.db"
        ledger = CountingLedger(path, relaxed=mode == "relaxed")
        with ledger:
            with client_of(ledger, sink, interval=1.0) as client:
                took = in_threads(threads, reports, client, times)
            if client.counters.sent != reports:
                raise SystemExit(f"of {reports} reports {client.counters.sent} were sent")
        name = f"{mode}, {threads} thread{'' if threads == 1 else 's'}"
        line = f"{quantile(times, 0.5):9.0f}{quantile(times, 0.99):9.0f}{reports / took:11,.0f}"
        per, unit = (sink.batches, "send") if mode == "relaxed" else (reports, "report")
        waits = f"{ledger.database.durable_commits / per:.2f} a {unit}"
        print(f"  {name:26}{line}{sink.batches:7}{waits:>20}")


def wakeups() -> int:
    """Return how often Linux has scheduled the sending thread again after a wait."""
    (thread,) = (each for each in threading.enumerate() if each.name == "arcwise-uplink")
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text(encoding="ascii")
    return int(re.findall(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.MULTILINE)[0])


def print_idle(folder: Path) -> None:
    """Print how often the sender of a client wakes up if it has reports to send later."""
    with FileLedger(folder / "idle.db", create=True) as ledger, client_of(ledger, Sink()) as client:
        client.report("heading", 350.5)
        time.sleep(0.5)
        before = wakeups()
        time.sleep(IDLE_SECONDS)
        print(f"an idle client with a report to send later woke up {wakeups() - before} times in ", end="")
        print(f"{IDLE_SECONDS:g} s")


RESIDENT = r"""
import re, sys
def resident():
    with open("/proc/self/status") as status:
        return int(re.findall(r"VmRSS:\s*(\d+)", status.read())[0]) / 1024
from benchmarks.speed import report
from arcwise.client import FileLedger
with FileLedger(sys.argv[1], create=True, relaxed=True) as ledger:
    with report.client_of(ledger, report.Sink(), interval=1.0) as client:
        client.report("heading", 350.5)
        first = resident()
        for _ in range(report.RESIDENT_REPORTS - 1):
            client.report("heading", 350.5)
        print(f"{first:.1f} {resident():.1f}")
"""


def print_resident(folder: Path) -> None:
    """Print the memory of a process that has made many reports."""
    command = [sys.executable, "-c", RESIDENT, str(folder / "resident.db")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    first, last = done.stdout.split()
    print(f"resident memory with a client and a relaxed ledger: {first} MB after the first report, ", end="")
    print(f"{last} MB after {RESIDENT_REPORTS:,}")


def run(folder: str | None = None) -> None:
    """Print everything."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        median = print_calls(place)
        print_threads(place)
        if sys.platform == "linux":
            print_idle(place)
            print_resident(place)
    if median >= BOUND:
        raise SystemExit(f"a report to a relaxed ledger takes {median:.0f} us, not under {BOUND:.0f}")


if __name__ == "__main__":
    run(*sys.argv[1:2])
