"""The JavaScript client and a real server: all sent codes are counted once, despite losses on the way."""

from __future__ import annotations

import contextlib
import json
import random
import re
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
from scipy.stats import chi2

from arcwise.analysis import estimate
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import DesignedTable, OptimalCircular, OptimalPiecewise
from arcwise.server.access.keys import new_key
from arcwise.server.store import open_store
from arcwise.tasks import Caps, Task
from tests.support import server_processes
from tests.support.nodejs import DRIVE, JAVASCRIPT, NODE, drive, run_json
from tests.support.scripted import Answer, Request, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from arcwise.typing import FloatArray, IntArray

HEADING = Task("heading", Circle(360), 2.0, caps=Caps(lifetime=1e6))
HEIGHT = Task("height", Interval(0, 220, clip=True), 2.0)
HOUR = Task("hour", Circle(24), 4.0, mechanism=OptimalCircular(Circle(24), 4.0, nodes=300))
READING = Task(
    "reading", Interval(-1, 1), 2.0, mechanism=OptimalPiecewise(Interval(-1, 1), 2.0, placement="clamp")
)
SHARE = Task(
    "share",
    Interval(0, 1),
    2.0,
    mechanism=DesignedTable(Interval(0, 1), 2.0, [[2**62, 3 * 2**62], [3 * 2**62, 2**62]], (-0.5, 1.5)),
)
TASKS = [HEADING, HEIGHT, HOUR, READING, SHARE]
REPORTS = 3000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A real server process; its URL."""
    for task in TASKS:
        task.save(tmp_path / f"{task.name}.json")
    with server_processes.serving(tmp_path) as (url, _):
        yield url


def counts(folder: Path, task: Task) -> IntArray:
    with contextlib.closing(open_store(f"sqlite:///{folder / 'server.db'}")) as store:
        return np.asarray(store.counts(task))


def sent(result: dict[str, Any], task: Task) -> IntArray:
    """Return how often each code occurred in the batches that the client sent, each batch taken once."""
    packed_as = "u1" if task.mechanism.kernel.codes <= 256 else "<u2"
    batches = [np.frombuffer(bytes(batch), packed_as) for batch in result["sent"].get(task.id, [])]
    assert all((np.diff(batch.astype(int)) >= 0).all() for batch in batches)  # sorted to hide the order
    return task.count(np.concatenate(batches))


def values_of(task: Task, generator: random.Random) -> list[float]:
    if isinstance(task.domain, Circle):
        return [generator.gauss(1, 0.1) * task.domain.period for _ in range(REPORTS)]
    low, length = task.domain.low, task.domain.length
    return [low + length * generator.betavariate(2, 5) for _ in range(REPORTS)]


def law(task: Task, values: list[float]) -> FloatArray:
    """Return the exact probabilities of the codes of one report, averaged over the values."""
    mechanism = task.mechanism
    positions = mechanism.positions(mechanism.domain.to_unit_many(values))
    below = positions.astype(int)
    nodes = mechanism.kernel.nodes
    weights = np.bincount(below % nodes, 1 - (positions - below), nodes)
    weights += np.bincount((below + 1) % nodes, positions - below, nodes)
    averaged: FloatArray = weights @ mechanism.kernel.matrix() / len(values)
    return averaged


def test_the_server_counts_exactly_the_codes_that_were_sent(server: str, tmp_path: Path) -> None:
    """Draws of the CSPRNG, so nothing is seeded: a chi-square test at 1e-8 for each of five tasks.

    The estimates may be off by three half widths of an interval at 0.9999, eleven standard errors.
    """
    generator = random.Random(1)
    values = {task.name: values_of(task, generator) for task in TASKS}
    steps = [["reportAll", name, of_task] for name, of_task in values.items()]
    ends = [["flush", 20], ["counters"], ["spent", "heading"]]
    result = drive(
        server, TASKS, *steps, *ends, options={"batchSize": 700, "maxEpsilon": 4, "maxPending": 100_000}
    )
    *granted, flushed, counters, spent = result["results"]
    assert granted == [REPORTS] * len(TASKS)
    assert flushed
    assert counters == {"sent": REPORTS * len(TASKS), "dropped": {}, "refused": {}, "pending": 0}
    assert spent == REPORTS * HEADING.epsilon
    assert result["troubles"] == []
    for task in TASKS:
        assert len(result["sent"][task.id]) == 5
        counted = counts(tmp_path, task)
        assert counted.tolist() == sent(result, task).tolist()
        expected = law(task, values[task.name]) * REPORTS
        statistic = ((counted - expected) ** 2 / expected).sum()
        assert chi2.sf(statistic, counted.size - 1) > 1e-8, task.name
    height = estimate(HEIGHT, counts(tmp_path, HEIGHT), level=0.9999).mean
    assert height is not None
    assert height.value is not None
    assert height.low is not None
    assert height.high is not None
    truth = float(np.mean(values["height"]))
    assert abs(height.value - truth) < 3 * (height.high - height.low) / 2
    assert height.high - height.low < 30
    direction = estimate(HEADING, counts(tmp_path, HEADING), level=0.9999).direction
    assert direction is not None
    assert direction.value is not None
    off = (direction.value - np.mean(values["heading"]) + 180) % 360 - 180
    assert abs(off) < 25


def relay(server: str, cut: set[bytes]) -> Any:
    """Return answers of the server behind, cut off the first time that a batch comes."""

    def answer(request: Request) -> Answer:
        kind = request.headers["content-type"]
        found = httpx.post(server + request.path, content=request.body, headers={"content-type": kind})
        assert found.status_code == 204
        if request.batch.batch_id in cut:
            return 204, {}
        cut.add(request.batch.batch_id)
        return None

    return answer


@pytest.mark.slow
def test_a_server_with_keys_counts_what_comes_with_one(tmp_path: Path) -> None:
    HEIGHT.save(tmp_path / "height.json")
    key, stored = new_key("ingest", now=0)
    read, stored_too = new_key("read", now=0)
    with contextlib.closing(open_store(f"sqlite:///{tmp_path / 'server.db'}")) as store:
        store.add_key(stored)
        store.add_key(stored_too)
    with server_processes.serving(tmp_path) as (url, _):
        steps = [["report", "height", 100], ["flush", 1], ["counters"]]
        for options, status in (({}, 401), ({"key": read}, 403), ({"key": key}, 204)):
            result = drive(url, [HEIGHT], *steps, options=options)
            good = status == 204
            counters = {"sent": int(good), "dropped": {}, "refused": {}, "pending": int(not good)}
            assert result["results"] == [True, good, counters]
            assert result["troubles"] == ([] if good else [f"status {status}: paused"])
    assert counts(tmp_path, HEIGHT).tolist() == sent(result, HEIGHT).tolist()


@pytest.mark.slow
def test_an_answer_that_is_lost_is_asked_for_with_the_same_bytes(server: str, tmp_path: Path) -> None:
    values = [float(value) for value in range(200)]
    with serving(relay(server, set())) as (url, requests):
        steps = [["reportAll", "height", values], ["flush", 60], ["counters"]]
        result = drive(url, [HEIGHT], *steps, options={"batchSize": 100})
    assert result["results"] == [200, True, {"sent": 200, "dropped": {}, "refused": {}, "pending": 0}]
    assert set(result["troubles"]) == {"no answer: retry"}
    assert sorted(Counter(request.body for request in requests).values()) == [2, 2]
    assert counts(tmp_path, HEIGHT).tolist() == sent(result, HEIGHT).tolist()


@pytest.mark.slow
def test_a_process_killed_with_its_answer_sends_the_same_bytes_again(server: str, tmp_path: Path) -> None:
    """SIGKILL comes between the server's commit and the client's: the code is charged and counted once."""
    state = {"file": str(tmp_path / "state.json")}
    with serving(relay(server, {b""})) as (url, requests):
        killed = {
            "url": server,
            "tasks": [HEADING.to_json()],
            "steps": [["reportAll", "heading", [10, 20, 30]], ["flush", 10]],
            "dies": True,
            **state,
        }
        done = subprocess.run(
            [NODE, str(DRIVE)],
            input=json.dumps(killed),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == -9
        assert counts(tmp_path, HEADING).sum() == 3
        again = drive(
            url, [HEADING], ["spent", "heading"], ["counters"], ["flush", 60], ["counters"], **state
        )
    spent, before, flushed, after = again["results"]
    assert (spent, before["pending"], flushed) == (3 * HEADING.epsilon, 3, True)
    assert after == {"sent": 3, "dropped": {}, "refused": {}, "pending": 0}
    assert len({request.body for request in requests}) == 1
    assert counts(tmp_path, HEADING).tolist() == sent(again, HEADING).tolist()
    assert counts(tmp_path, HEADING).sum() == 3


def test_the_readmes_example_reports(tmp_path: Path) -> None:
    block, _of_a_relay = re.findall(
        r"```js\n(import .*?)```", (JAVASCRIPT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    heading = Task("heading", Circle(360), 1.0, caps=Caps(lifetime=5.0))
    script = tmp_path / "readme.mjs"
    text = f"const headingFile = {json.dumps(heading.to_json())};\n"
    text += block.replace('"arcwise"', f'"{(JAVASCRIPT / "arcwise" / "index.js").as_uri()}"')
    text += "console.log(JSON.stringify(await client.counters()));\n"
    assert "http://127.0.0.1:8000" in text

    def answer(request: Request) -> Answer:
        assert request.batch.task_id.hex() == heading.id
        return 204, {}

    with serving(answer) as (url, requests):
        script.write_text(text.replace("http://127.0.0.1:8000", url), encoding="utf-8")
        assert run_json(script) == {"sent": 1, "dropped": {}, "refused": {}, "pending": 0}
    assert len(requests) == 1
