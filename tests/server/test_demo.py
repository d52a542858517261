"""The demo from end to end: a real server process, every device a real client, the truth in the intervals.

It is seeded, so every run is the same; over all seeds, one interval in twenty misses.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arcwise.cli.demo.data import Column, demo_fleets, demo_tasks
from arcwise.cli.demo.page import write_page
from arcwise.cli.demo.run import collect, read_results, running_server
from arcwise.domains import Interval
from arcwise.randomness import InsecureSeededRandomness
from arcwise.typing import FloatArray
from tests.support.commands import bad, good


def test_the_records_are_the_years(tmp_path: Path) -> None:
    flights, weather = demo_fleets(1.0)
    delay, departure = flights.columns
    (wind,) = weather.columns
    assert (len(flights), len(weather)) == (336_776, 26_115)
    assert (len(delay.known), delay.skipped) == (327_346, 9_430)
    assert (len(departure.known), departure.skipped) == (336_776, 0)
    assert (len(wind.known), wind.skipped) == (25_655, 460)
    assert isinstance(delay.task.domain, Interval)
    assert (delay.known.min(), delay.known.max()) == (-60.0, 180.0)
    assert 0.01 < delay.clipped < 0.02
    assert departure.known.max() < 24.0


def on_bins(column: Column, distribution: dict[str, Any]) -> FloatArray:
    """Return an estimated distribution on the column's bins, each cell's mass spread evenly over the cell."""
    edges = np.array(distribution["edges"])
    cumulative = np.append(0.0, np.cumsum(distribution["probabilities"]))
    if column.task.domain.circular:
        period = column.task.domain.period
        edges = np.concatenate([edges[:-1] + turn * period for turn in (-1, 0, 1)])
        cumulative = np.concatenate([cumulative[:-1] + turn for turn in (-1, 0, 1)])
    return np.diff(np.interp(column.bins, edges, cumulative))


@pytest.mark.slow
def test_intervals_contain_the_truth(tmp_path: Path) -> None:
    fleets = demo_fleets(1.0, limit=20_000)
    served = 0

    def progress(devices: int) -> None:
        nonlocal served
        served += devices

    with running_server(tmp_path, demo_tasks(1.0)) as (url, _server):
        reports = collect(url, fleets, randomness=InsecureSeededRandomness(1), progress=progress)
        results = read_results(url, fleets)
    assert served == 40_000
    assert reports == sum(result.estimate["n"] for result in results)
    assert reports == sum(len(column.known) for fleet in fleets for column in fleet.columns)
    lines = {(result.column.task.name, line.quantity): line for result in results for line in result.lines}
    for name, quantity in (
        ("arrival-delay", "mean"),
        ("departure-time", "mean direction"),
        ("wind-direction", "mean direction"),
        ("departure-time", "resultant length"),
        ("wind-direction", "resultant length"),
    ):
        assert lines[name, quantity].contains, lines[name, quantity]
    for result in results:
        # Both distributions are complete, and nearer to each other than either is to a flat one.
        estimated = on_bins(result.column, result.estimate["distribution"])
        assert result.true.sum() == pytest.approx(1)
        assert estimated.sum() == pytest.approx(1)
        flat = np.full(len(result.true), 1 / len(result.true))
        assert abs(estimated - result.true).sum() < abs(flat - result.true).sum()
    page = tmp_path / "page.html"
    write_page(page, results, epsilon=1.0, devices=served)
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 3
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", text)  # no resources from other hosts
    assert "<script" not in text


@pytest.fixture
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("_folder")
def test_the_command_as_a_user_runs_it() -> None:
    told = good("demo", "--limit", "300", "--epsilon", "4")
    assert "300 devices" in told
    assert "reports acknowledged" in told
    assert Path("arcwise-demo.html").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize("args", [["--limit", "1"], ["--limit", "40", "--epsilon", "20"]])
def test_very_small_fleets(args: list[str]) -> None:
    good("demo", *args)


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["-o", "nowhere/page.html"], "there is no folder"),
        (["--epsilon", "30"], "epsilon must be from 0.01 to 20, got 30.0"),
    ],
)
def test_a_mistake_is_named_before_anything_starts(args: list[str], said: str) -> None:
    assert said in bad("demo", *args, code=1)
