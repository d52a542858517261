"""Groups from one end to the other."""

from __future__ import annotations

import doctest
import importlib
from typing import TYPE_CHECKING

import httpx
import pytest

from arcwise.analysis.estimators.groups import group_reports
from arcwise.cli.demo.run import running_server
from arcwise.client import MemoryLedger, Uplink
from arcwise.domains import Circle, Domain, Interval
from arcwise.randomness import InsecureSeededRandomness
from arcwise.tasks import Group
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("sample", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_devices_report_groups_to_a_real_server(sample: int, tmp_path: Path) -> None:
    """800 devices; a p-value below 1e-4 has that probability, an estimate 5 errors off a smaller one."""
    domains: dict[str, Domain] = {"heading": Circle(360), "speed": Interval(0, 180)}
    group = Group.share_budget("vehicle", domains, 6.0, sample=sample)
    randomness = InsecureSeededRandomness(sample)
    with running_server(tmp_path, [group]) as (url, _), Uplink(url) as uplink:
        for _ in range(800):
            device = Client(uplink, tasks=[group], ledger=MemoryLedger(), randomness=randomness)
            assert device.report("vehicle", {"heading": 350.0, "speed": 30.0})
            assert device.budget("vehicle").epsilon == 6.0
        assert uplink.flush(60)
        found = {
            task.name: httpx.get(f"{url}/v1/tasks/{task.id}/estimate", timeout=60).json()
            for task in group.tasks
        }
    reports = {name: estimate["n"] for name, estimate in found.items()}
    together = group_reports(group, reports)
    if sample == 2:
        assert reports == {"heading": 800, "speed": 800}
        assert together.note == "as many reports of every task"
    else:
        assert sum(reports.values()) == 800
        assert together.p_value is not None
        assert together.p_value > 1e-4
    mean, direction = found["speed"]["mean"], found["heading"]["direction"]
    off = (direction["value"] - 350.0 + 180.0) % 360.0 - 180.0
    for error, interval in ((mean["value"] - 30.0, mean), (off, direction)):
        assert abs(error) < 5 * (interval["high"] - interval["low"]) / 2 / 1.96


@pytest.mark.parametrize("name", ["estimators.groups", "estimators.notes", "planning.sharing"])
def test_examples_of_docstrings_run(name: str) -> None:
    results = doctest.testmod(importlib.import_module(f"arcwise.analysis.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
