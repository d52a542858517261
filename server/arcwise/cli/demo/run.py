"""One run of the demo: start a real server on a free port, send the reports over HTTP, read the estimates."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx

from arcwise.cli.demo.truth import Result, compare
from arcwise.client import Client, MemoryLedger, Uplink
from arcwise.errors import ArcwiseError
from arcwise.randomness import SYSTEM, Randomness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from arcwise.cli.demo.data import Fleet
    from arcwise.tasks import Group, Task

_FLUSH_SECONDS = 60.0
_ESTIMATE_SECONDS = 60.0
_STOP_SECONDS = 15.0
_STEP = 2_000


@contextmanager
def running_server(
    folder: Path, tasks: Iterable[Task | Group]
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start `arcwise serve` on a free port with a fresh store; yield its URL and its process."""
    task_files = folder / "tasks"
    task_files.mkdir()
    for task in tasks:
        task.save(task_files / f"{task.name}.json")
    store = f"sqlite:///{folder / 'arcwise.db'}"
    command = [sys.executable, "-m", "arcwise.cli", "serve", "--port", "0"]
    server = subprocess.Popen(  # noqa: S603 (our own interpreter and module)
        [*command, "--tasks", str(task_files), "--store", store], stdout=subprocess.PIPE, text=True
    )
    with server:
        try:
            line = server.stdout.readline() if server.stdout else ""
            if "listening on" not in line:
                raise ArcwiseError("the demo's server did not start; the lines above say why")
            yield line.split()[-1], server
        finally:
            server.terminate()
            try:
                server.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()


def collect(
    url: str,
    fleets: Sequence[Fleet],
    *,
    randomness: Randomness = SYSTEM,
    progress: Callable[[int], object] = lambda _devices: None,
) -> int:
    """Let every device report, wait until the server has acknowledged all, and return the number of reports.

    Raises `ArcwiseError` if the server did not acknowledge everything in time.
    """
    with Uplink(url, max_pending=2_000_000) as uplink:
        reports = sum(
            _report_fleet(fleet, uplink, randomness=randomness, progress=progress) for fleet in fleets
        )
        if not uplink.flush(_FLUSH_SECONDS):
            raise ArcwiseError(f"the server did not acknowledge all reports within {_FLUSH_SECONDS:g} s")
        if uplink.counters.sent != reports:
            raise ArcwiseError(f"of {reports} reports the server accepted {uplink.counters.sent}")
    return reports


def _report_fleet(
    fleet: Fleet, uplink: Uplink, *, randomness: Randomness, progress: Callable[[int], object]
) -> int:
    """Let every device of the fleet report its values once; return the number of reports made.

    Each device is a `Client` with a ledger of its own. The devices share the uplink, as devices behind one
    gateway do. The uplink sees only codes, and sends them in batches of many devices. `progress` is called
    with the number of devices that were served since the last call.
    """
    tasks = tuple(column.task for column in fleet.columns)
    names = [task.name for task in tasks]
    devices = zip(*(column.values.tolist() for column in fleet.columns), strict=True)
    reports = 0
    for number, values in enumerate(devices, 1):
        client = Client(uplink, tasks=tasks, ledger=MemoryLedger(), randomness=randomness)
        for name, value in zip(names, values, strict=True):
            if value == value:  # noqa: PLR0124 (NaN: the record has no value)
                reports += bool(client.report(name, value))
        if number % _STEP == 0:
            progress(_STEP)
    progress(len(fleet) % _STEP)
    return reports


def read_results(url: str, fleets: Sequence[Fleet]) -> list[Result]:
    """Read every task's estimate over HTTP and compare it with the truth."""
    columns = [column for fleet in fleets for column in fleet.columns]
    try:
        with httpx.Client(base_url=url, timeout=_ESTIMATE_SECONDS) as http:
            answers = [
                http.get(f"/v1/tasks/{column.task.id}/estimate").raise_for_status() for column in columns
            ]
    except httpx.HTTPError as error:
        raise ArcwiseError(f"the demo's server did not return its estimates: {error}") from error
    return [compare(column, answer.json()) for column, answer in zip(columns, answers, strict=True)]
