"""Requests of readers over HTTP, and the app's information about itself."""

import asyncio
import threading

import httpx
import numpy as np
import pytest

from arcwise.analysis import Estimate, estimate
from arcwise.domains import Circle, Interval
from arcwise.randomness import InsecureSeededRandomness
from arcwise.server import create_app
from arcwise.tasks import Task
from tests.support.apps import Serve
from tests.support.reports import body_of, report

pytestmark = pytest.mark.anyio


DELAY = Task("delay", Interval(0, 100), 2.0)
HEADING = Task("heading", Circle(360), 2.0)
VALUE = Task("value", Interval(0, 100), 2.0, goal="value")
TASKS = [DELAY, HEADING, VALUE]


async def send(http: httpx.AsyncClient, task: Task, values: np.ndarray) -> None:
    codes = task.randomize(values, randomness=InsecureSeededRandomness(5))
    assert (await report(http, task, body_of(task, codes.tobytes()))).status_code == 204


async def test_tasks_are_listed_as_their_files_would_hold_them(serve: Serve) -> None:
    http = await serve(TASKS)
    listed = (await http.get("/v1/tasks")).json()["tasks"]
    assert [Task.from_json(task) for task in listed] == TASKS
    shown = (await http.get(f"/v1/tasks/{DELAY.id}")).json()
    assert Task.from_json(shown) == DELAY


async def test_estimates_of_every_kind_of_task(serve: Serve) -> None:
    generator = np.random.default_rng(1)
    http = await serve(TASKS)
    truth = generator.beta(2, 5, 20_000) * 100
    await send(http, DELAY, truth)
    await send(http, HEADING, generator.vonmises(0, 2, 20_000) * 180 / np.pi + 90)
    await send(http, VALUE, truth)

    got = (await http.get(f"/v1/tasks/{DELAY.id}/estimate")).json()
    assert got["n"] == 20_000
    assert set(got["mean"]) >= {"value", "low", "high", "method"}
    assert got["mean"]["low"] <= truth.mean() <= got["mean"]["high"]
    assert sum(got["distribution"]["probabilities"]) == pytest.approx(1)
    assert len(got["distribution"]["edges"]) == len(got["distribution"]["probabilities"]) + 1
    assert abs(got["quantiles"]["0.5"]["value"] - np.median(truth)) < 5
    assert "direction" not in got

    got = (await http.get(f"/v1/tasks/{HEADING.id}/estimate")).json()
    assert got["direction"]["low"] <= 90 <= got["direction"]["high"]
    assert 0.6 < got["resultant_length"]["low"] < got["resultant_length"]["high"] < 0.8
    assert "mean" not in got

    got = (await http.get(f"/v1/tasks/{VALUE.id}/estimate")).json()
    assert got["mean"]["value"] is None
    assert got["mean"]["low"] <= truth.mean() <= got["mean"]["high"]


async def test_a_task_without_reports_has_n_and_no_estimate(serve: Serve) -> None:
    http = await serve(TASKS)
    got = (await http.get(f"/v1/tasks/{DELAY.id}/estimate")).json()
    assert got == {
        "task": "delay",
        "task_id": DELAY.id,
        "epsilon": 2.0,
        "n": 0,
        "level": 0.95,
        "target": "the population that the reporting devices were drawn from",
        "domain": {"kind": "interval", "low": 0.0, "high": 100.0, "clip": False},
    }


async def test_a_defect_is_a_problem_that_tells_nothing(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = await serve(TASKS)

    def fails(self: Task) -> None:
        raise RuntimeError("SECRET")

    monkeypatch.setattr(Task, "to_json", fails)
    answer = await http.get("/v1/tasks")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "SECRET" not in answer.text


async def test_an_estimate_is_made_once_for_the_same_counts_and_one_at_a_time(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    running = 0
    go_on = threading.Event()
    go_on.set()

    def watched(task: Task, counts: np.ndarray) -> Estimate:
        nonlocal running
        running += 1
        assert running == 1
        made.append(int(counts.sum()))
        go_on.wait(60.0)
        running -= 1
        return estimate(task, counts)

    monkeypatch.setattr("arcwise.analysis.estimate", watched)
    http = await serve(TASKS)
    url = f"/v1/tasks/{HEADING.id}/estimate"
    await send(http, HEADING, np.arange(100.0))
    answers = await asyncio.gather(*(http.get(url) for _ in range(10)))
    assert {answer.json()["n"] for answer in answers} == {100}
    assert made == [100]
    await send(http, HEADING, np.arange(50.0))
    # More than may wait: some are asked to come back, and other requests are served meanwhile.
    go_on.clear()
    burst = [asyncio.create_task(http.get(url)) for _ in range(40)]
    await asyncio.wait(burst, return_when=asyncio.FIRST_COMPLETED)
    assert (await http.get("/health/live")).status_code == 200
    go_on.set()
    statuses = [answer.status_code for answer in await asyncio.gather(*burst)]
    assert set(statuses) == {200, 503}
    assert made == [100, 150]


async def test_an_app_that_was_not_started_says_so() -> None:
    app = create_app(tasks=[DELAY])
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
        assert (await http.get(f"/v1/tasks/{DELAY.id}/estimate")).status_code == 503
