"""Every kind of kernel from end to end: a real client, a real server process, counts, estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

from arcwise.analysis.design import minimax
from arcwise.cli.demo.run import running_server
from arcwise.client import MemoryLedger
from arcwise.domains import Circle, Interval
from arcwise.errors import CertificateError
from arcwise.kernels.certificate import UNIT
from arcwise.kernels.rounding import integer_row
from arcwise.mechanisms import DesignedCircular, Mechanism, TruncatedLaplaceMechanism
from arcwise.server.store import open_store
from arcwise.tasks import Caps, Task
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from pathlib import Path

TEMPERATURE = Interval(-20.0, 40.0)


def table() -> Mechanism:
    """Return the table that linear programming designs for means at epsilon 2."""
    return minimax(TEMPERATURE, 2.0, goal="mean", cache=False)


def turned() -> DesignedCircular:
    row = np.exp(2.0 * (0.5 + 0.5 * np.cos(2 * np.pi * np.arange(300) / 300)))
    return DesignedCircular(Circle(24.0), 2.0, integer_row(row / row.sum(), 2.0))


def shifted(scale: float) -> TruncatedLaplaceMechanism:
    return TruncatedLaplaceMechanism(TEMPERATURE, scale, 1e-3)


REPORTS = 4000


@pytest.mark.slow
def test_reports_of_every_kind_of_kernel_are_counted_and_estimated(tmp_path: Path) -> None:
    """5 standard errors of three estimates: a false alarm in a million runs (draws are new each time)."""
    generator = np.random.default_rng(4)
    degrees = TEMPERATURE.from_unit(generator.beta(2, 4, REPORTS))
    hours = generator.normal(22.0, 2.0, REPORTS)
    # Made here and not during test collection, because the design takes a second.
    tasks = [
        Task("table", TEMPERATURE, 2.0, goal="mean", mechanism=table(), caps=Caps(lifetime=100_000.0)),
        Task("turned", Circle(24.0), 2.0, mechanism=turned()),
        Task("spends delta", TEMPERATURE, 4.0, mechanism=shifted(4.0)),
    ]
    with running_server(tmp_path, tasks) as (url, _server):
        listed = httpx.get(f"{url}/v1/tasks").json()["tasks"]
        kinds = {task["name"]: task["mechanism"]["kernel"]["kind"] for task in listed}
        assert kinds == {"table": "table", "turned": "circulant", "spends delta": "table"}
        before = httpx.get(f"{url}/v1/tasks/{tasks[2].id}/estimate", timeout=60).json()
        assert before["n"] == 0
        assert before["delta"] == shifted(4.0).certificate().delta / UNIT
        with pytest.raises(CertificateError, match=r"'spends delta' spends delta = .* max_delta = 0"):
            Client(url, tasks=tasks)
        # The server lists the tasks completely: a client that reads them makes the same reports.
        told = [Task.from_json(task) for task in listed]
        assert {task.id for task in told} == {task.id for task in tasks}
        with Client(url, tasks=told, ledger=MemoryLedger(), max_epsilon=4.0, max_delta=2e-3) as client:
            for degree, hour in zip(degrees.tolist(), hours.tolist(), strict=True):
                assert client.report("table", degree)
                assert client.report("turned", hour)
                assert client.report("spends delta", degree)
            assert client.flush(60)
            assert client.counters.sent == 3 * REPORTS
        answers: list[dict[str, Any]] = [
            httpx.get(f"{url}/v1/tasks/{task.id}/estimate", timeout=60).json() for task in tasks
        ]
    (store,) = tmp_path.glob("*.db")
    opened = open_store(f"sqlite:///{store}", create=False)
    counts = [opened.counts(task) for task in tasks]
    opened.close()
    assert [count.sum() for count in counts] == [REPORTS] * 3
    assert [len(count) for count in counts] == [task.mechanism.kernel.codes for task in tasks]
    assert [answer["n"] for answer in answers] == [REPORTS] * 3
    for answer in (answers[0], answers[2]):
        mean = answer["mean"]

        assert abs(mean["value"] - degrees.mean()) < 5 / 3.92 * (mean["high"] - mean["low"])
        assert "unbiased" in mean["method"]
        assert len(answer["quantiles"]) == 5
    assert "delta" not in answers[0]
    assert answers[2]["delta"] == before["delta"] <= 1e-3
    heading = answers[1]["direction"]
    gap = (heading["value"] - 22.0 + 12.0) % 24.0 - 12.0
    assert abs(gap) < 5 / 3.92 * (heading["high"] - heading["low"])
