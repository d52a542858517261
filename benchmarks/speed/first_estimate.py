"""The time of the first estimate after a start, and of the next ones.

    python -m benchmarks.speed.first_estimate

`arcwise serve` is started for each round, with one task on SQLite. "At once" requests the estimate as soon as
the first report is accepted, "later" three seconds afterwards, when the process that computes estimates is
warm. More reports arrive before each next estimate, so no answer comes from the cache.
"""

from __future__ import annotations

import http.client
import os
import re
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from arcwise.domains import Circle
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE, Batch, encode_batch
from benchmarks.speed.cpu_time import children_of
from benchmarks.speed.tables import Table, print_table

if TYPE_CHECKING:
    from benchmarks.speed.tables import Show

__all__ = ["run"]

TASK = Task("heading", Circle(360), 1.0)
LATER_SECONDS = 3.0
NEXT = 10


def megabytes(pid: int) -> float:
    """Return the memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(re.findall(r"VmRSS:\s*(\d+) kB", status)[0]) / 1024


def milliseconds(connection: http.client.HTTPConnection, method: str, path: str, body: bytes = b"") -> float:
    """Return the time of a request."""
    start = time.perf_counter()
    connection.request(method, path, body or None, {"Content-Type": MEDIA_TYPE} if body else {})
    answer = connection.getresponse()
    answer.read()
    if answer.status not in {200, 204}:
        raise SystemExit(f"unexpected answer: {answer.status}")
    return (time.perf_counter() - start) * 1e3


def report(connection: http.client.HTTPConnection) -> float:
    """Send 300 reports; return the time that it takes."""
    codes = bytes(i % TASK.mechanism.kernel.codes for i in range(300))
    batch = Batch(bytes.fromhex(TASK.id), secrets.token_bytes(16), TASK.epoch(time.time()), codes)
    return milliseconds(connection, "POST", f"/v1/tasks/{TASK.id}/reports", encode_batch(batch))


def once(folder: Path, pause: float) -> dict[str, float]:
    """Start a server and request estimates from it."""
    TASK.save(folder / "heading.json")
    command = [sys.executable, "-m", "arcwise.cli", "serve", "--port", "0", "--tasks", str(folder)]
    start = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--store", f"sqlite:///{folder / 'a.db'}"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    try:
        assert process.stdout is not None
        url = urlsplit(process.stdout.readline().split()[-1])
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=60)
        report(connection)
        accepted = (time.perf_counter() - start) * 1e3
        time.sleep(pause)
        path = f"/v1/tasks/{TASK.id}/estimate"
        first = milliseconds(connection, "GET", path)
        following = []
        for _ in range(NEXT):
            report(connection)
            following.append(milliseconds(connection, "GET", path))
        memory = {"server": megabytes(process.pid)}
        memory["estimates"] = max((megabytes(child) for child in children_of(process.pid)), default=0.0)
        connection.close()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    return {"accepted": accepted, "first": first, "next": statistics.median(following), **memory}


def run(rounds: int = 5, *, show: Show = print_table) -> None:
    """Show milliseconds and memory, medians of the rounds."""
    pauses = {"at once": 0.0, "later": LATER_SECONDS}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in pauses}
    for _ in range(rounds):
        for name, pause in pauses.items():
            with tempfile.TemporaryDirectory() as folder:
                found[name].append(once(Path(folder), pause))
    columns = {
        "accepted": "start to first accepted report, ms",
        "first": "first estimate, ms",
        "next": "next ones, ms",
        "server": "server, MB",
        "estimates": "process of estimates, MB",
    }
    show(
        Table(
            "first-estimate",
            "python -m benchmarks.speed.first_estimate",
            [("asked", ""), *((heading, ",.0f") for heading in columns.values())],
            [
                [name, *(statistics.median(each[key] for each in rounds_of) for key in columns)]
                for name, rounds_of in found.items()
            ],
        )
    )


if __name__ == "__main__":
    run()
