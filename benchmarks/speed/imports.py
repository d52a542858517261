"""The cost of a client for an app's start and memory: ``python -m benchmarks.speed.imports``.

Every program runs in an interpreter of its own, and the programs take turns. Times are the median and the
range of the differences from the bare interpreter of the same turn. They are measured until the program is
done, and until the process has ended if it ends by itself (those with a client exit immediately, so that
nothing is sent). Bytecode is cached before the first turn, as it is after an app's first start. Memory is
Linux's value at the program's end: VmRSS and its peak, VmHWM.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import NamedTuple

__all__ = ["run"]

TURNS = 25

APP = """
from arcwise.client import Client
from arcwise.domains import Circle
from arcwise.tasks import Task
"""
REPORT = f"""{APP}
task = Task("heading", Circle(360), epsilon=1.0)
client = Client("http://127.0.0.1:9", tasks=[task], caps="unlimited", interval=600)
assert client.report("heading", 350.5)
"""
NUMPY = f"{REPORT}task.mechanism.randomize_many([350.5, 12.0])\n"
PROGRAMS = {
    "pass": "pass",
    "import arcwise.client": "import arcwise.client",
    "Client, Task and Circle": APP,
    "the same, a task and one report": REPORT,
    "the same, and numpy's first call": NUMPY,
    "import numpy": "import numpy",
    "import httpx": "import httpx",
}
LEAVES = (REPORT, NUMPY)
"""Programs that exit without cleanup: a client would send its queue and wait for that."""

TELL = """
import os
try:
    with open("/proc/self/status") as status:
        told = " ".join(line for line in status.read().splitlines() if line[:5] in ("VmRSS", "VmHWM"))
except OSError:
    told = ""
os.write(1, (told + "\\n").encode())
"""


class Cost(NamedTuple):
    """Milliseconds until a program was done and until its process ended; MB at its end and at its peak."""

    done: float
    ended: float
    resident: float
    peak: float


def once(code: str, environment: dict[str, str]) -> Cost:
    """Run a program in an interpreter of its own."""
    source = code + TELL + ("os._exit(0)" if code in LEAVES else "")
    start = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", source], env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = process.stdout.readline().decode()
        done = time.perf_counter() - start
    ended = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"this program failed:\n{source}")
    kilobytes = dict(re.findall(r"(VmRSS|VmHWM):\s*(\d+) kB", told))
    resident, peak = (int(kilobytes.get(name, 0)) / 1024 for name in ("VmRSS", "VmHWM"))
    return Cost(1e3 * done, 1e3 * ended, resident, peak)


def beside(costs: list[float], bare: list[float]) -> str:
    """Return the median and the range of the differences of each turn."""
    more = [cost - least for cost, least in zip(costs, bare, strict=True)]
    return f"{median(more):6.1f}  {min(more):5.1f} to {max(more):5.1f}"


def run() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        turns = [{name: once(code, environment) for name, code in PROGRAMS.items()} for _ in range(TURNS + 1)]
    del turns[0]  # this turn wrote the bytecode

    def column(name: str, field: str) -> list[float]:
        return [getattr(turn[name], field) for turn in turns]

    done, ended = (median(column("pass", field)) for field in ("done", "ended"))
    print(f"Python {sys.version.split()[0]}, {TURNS} turns; a bare interpreter is done after {done:.1f} ms")
    print(f"and has ended after {ended:.1f} ms; beside it, in ms:")
    print(f"{'':34}{'done':>6}  {'range':<16}{'ended':>6}  {'range':<16}{'VmRSS':>8}{'VmHWM':>8}  MB")
    for name, code in PROGRAMS.items():
        fields = [] if name == "pass" else ["done"] if code in LEAVES else ["done", "ended"]
        times = "".join(f"{beside(column(name, field), column('pass', field)):24}" for field in fields)
        print(f"{name:34}{times:48}", end="")
        print("".join(f"{median(column(name, field)):8.1f}" for field in ("resident", "peak")))


if __name__ == "__main__":
    run()
