"""Estimates in a separate process: the same results, and it lives as long as the server."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from arcwise.analysis import estimate
from arcwise.analysis.timeseries.series import series
from arcwise.domains import Circle
from arcwise.server.estimates.worker_process import WorkerProcess
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE
from tests.support.reports import body_of
from tests.support.server_processes import serving

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")

HEADING = Task("heading", Circle(360), 2.0)
ESTIMATE = f"/v1/tasks/{HEADING.id}/estimate"
CODES = list(range(100)) * 3


def send(http: httpx.Client) -> int:
    epoch = HEADING.epoch(time.time())
    body, headers = body_of(HEADING, CODES, epoch=epoch), {"content-type": MEDIA_TYPE}
    assert http.post(f"/v1/tasks/{HEADING.id}/reports", content=body, headers=headers).status_code == 204
    return epoch


def workers(pid: int) -> list[int]:
    """Return the processes that a server has spawned for estimates."""
    lists = [path.read_text("ascii").split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    children = [int(child) for found in lists for child in found]
    return [child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text("ascii"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_estimates_are_the_same_and_a_process_that_dies_is_replaced(tmp_path: Path) -> None:
    HEADING.save(tmp_path / "heading.json")
    with serving(tmp_path) as (url, process), httpx.Client(base_url=url, timeout=60) as http:
        assert http.get(ESTIMATE).json()["n"] == 0
        epoch = send(http)
        counts = HEADING.count(CODES)
        assert http.get(ESTIMATE).json() == estimate(HEADING, counts).to_dict()
        over_time = series(HEADING, {epoch: counts}, every=2).to_dict()
        assert http.get(f"/v1/tasks/{HEADING.id}/series?every=2").json() == over_time
        (first,) = workers(process.pid)
        os.kill(first, signal.SIGTERM)  # systemd signals all processes together; the server decides when
        send(http)
        assert http.get(ESTIMATE).json()["n"] == 600
        assert workers(process.pid) == [first]
        os.kill(first, signal.SIGKILL)
        wait_for_end(first)
        send(http)
        statuses = {http.get(ESTIMATE).status_code for _ in range(2)}
        assert statuses <= {200, 503}
        assert http.get(ESTIMATE).json()["n"] == 900
        (second,) = workers(process.pid)
        process.terminate()
        assert process.wait(60) == -signal.SIGTERM
        wait_for_end(second)


@pytest.mark.slow
def test_it_is_there_before_somebody_asks(tmp_path: Path) -> None:
    HEADING.save(tmp_path / "heading.json")
    with serving(tmp_path) as (url, process), httpx.Client(base_url=url, timeout=60) as http:
        deadline = time.monotonic() + 60
        while not workers(process.pid):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        (worker,) = workers(process.pid)
        send(http)
        assert http.get(ESTIMATE).json()["n"] == 300
        assert workers(process.pid) == [worker]


@pytest.mark.slow
def test_what_only_warms_up_is_not_waited_for() -> None:
    worker, others = WorkerProcess(), multiprocessing.active_children()
    worker._warming = worker._submit(time.sleep, 600.0)  # as `warm` on a machine that is very busy
    (process,) = set(multiprocessing.active_children()) - set(others)
    worker.close()
    process.join(60)
    assert process.exitcode == 1  # it did not end by itself
    try:
        counts = HEADING.count(CODES)
        assert worker.compute("estimate", (HEADING,), (counts,), {}) == estimate(HEADING, counts).to_dict()
    finally:
        worker.close()


@pytest.mark.slow
def test_a_warm_process_loads_nothing_for_a_default_estimate() -> None:
    code = """if True:
        import sys
        import numpy as np
        from arcwise.domains import Circle, Interval
        from arcwise.server.estimates.worker_process import _compute, _warm
        from arcwise.tasks import Task
        _warm()
        before = set(sys.modules)
        for domain in (Interval(0, 180), Interval(0, 20, step=1), Circle(360), Circle(360, step=10)):
            task = Task("a", domain, 2.0)
            _compute("estimate", [task.to_bytes()], [np.arange(task.mechanism.kernel.codes) * 7 % 11], {})
        print(sorted(set(sys.modules) - before))
        """
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_it_ends_with_a_server_that_is_killed(tmp_path: Path) -> None:
    HEADING.save(tmp_path / "heading.json")
    with serving(tmp_path) as (url, process), httpx.Client(base_url=url, timeout=60) as http:
        send(http)
        assert http.get(ESTIMATE).status_code == 200
        (worker,) = workers(process.pid)
        process.kill()
        process.wait(60)
        wait_for_end(worker)


@pytest.mark.slow
def test_it_can_be_left_out(tmp_path: Path) -> None:
    HEADING.save(tmp_path / "heading.json")
    with (
        serving(tmp_path, "--no-estimates-apart") as (url, process),
        httpx.Client(base_url=url, timeout=60) as http,
    ):
        send(http)
        assert http.get(ESTIMATE).json()["n"] == 300
        assert workers(process.pid) == []
