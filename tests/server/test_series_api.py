"""Estimates of some epochs and over time, over HTTP: results for readers, and refused requests."""

import asyncio
import os
import time
import tracemalloc
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from arcwise.analysis import Estimate, estimate
from arcwise.analysis.timeseries.epochs import epoch_start, utc
from arcwise.analysis.timeseries.result import Series
from arcwise.analysis.timeseries.series import series
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import OptimalPiecewise
from arcwise.server.store.sqlite.store import SQLiteStore
from arcwise.tasks import Task
from arcwise.wire import Batch
from tests.support.apps import Serve
from tests.support.reports import body_of, report

pytestmark = pytest.mark.anyio


DELAY = Task("delay", Interval(0, 100), 2.0)
HEADING = Task("heading", Circle(360), 2.0, epoch_seconds=3600)
WEEKLY = Task("weekly", Interval(0, 1), 2.0, epoch_seconds=7 * 86_400)
TASKS = [DELAY, HEADING, WEEKLY]


def now(task: Task) -> int:
    return task.epoch(time.time())


async def send(http: httpx.AsyncClient, task: Task, epochs: Mapping[int, list[int]]) -> None:
    for epoch, codes in epochs.items():
        assert (await report(http, task, body_of(task, codes, epoch=epoch))).status_code == 204


def counts(task: Task, epochs: Mapping[int, list[int]]) -> dict[int, Any]:
    k = task.mechanism.kernel.codes
    return {epoch: np.bincount(codes, minlength=k) for epoch, codes in epochs.items()}


async def test_an_estimate_of_some_epochs(serve: Serve) -> None:
    today = now(DELAY)
    sent = {today - back: list(range(back, 120)) for back in (0, 1, 2, 5)}
    http = await serve(TASKS)
    await send(http, DELAY, sent)
    url = f"/v1/tasks/{DELAY.id}/estimate"
    by_epoch = counts(DELAY, sent)
    two = by_epoch[today - 2] + by_epoch[today - 1]
    whole = estimate(DELAY, two, epochs=2).to_dict()
    day = utc(epoch_start(DELAY, today - 2))
    for bounds in ({"from": day, "to": str(today)}, {"from": str(today - 2), "to": utc_of(today)}):
        got = (await http.get(url, params=bounds)).json()
        epochs = got.pop("epochs")
        assert got == whole
        assert (epochs["first"], epochs["last"], epochs["start"]) == (today - 2, today - 1, day)
    assert (await http.get(url)).json() == estimate(DELAY, sum(by_epoch.values()), epochs=6).to_dict()
    assert (await http.get(url, params={"to": str(today - 9)})).json()["n"] == 0


def utc_of(epoch: int) -> str:
    return utc(epoch_start(DELAY, epoch))


async def test_a_series_has_a_point_for_every_epoch(serve: Serve) -> None:
    hour = now(HEADING)
    sent = {hour - back: list(range(back, 120)) for back in (0, 1, 5, 30)}
    http = await serve(TASKS)
    url = f"/v1/tasks/{HEADING.id}/series"
    empty = (await http.get(url)).json()
    assert (empty["n"], empty["points"]) == (0, [])
    await send(http, HEADING, sent)
    by_epoch = counts(HEADING, sent)
    answer = await http.get(url)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == series(HEADING, by_epoch).to_dict()
    assert [point["n"] > 0 for point in answer.json()["points"]].count(True) == 4
    assert (await http.get(url, params={"every": "day"})).json() == series(
        HEADING, by_epoch, every=24
    ).to_dict()
    got = (await http.get(url, params={"every": "2", "from": str(hour - 5)})).json()
    assert got == series(HEADING, by_epoch, every=2, first=hour - 5).to_dict()


async def test_points_that_may_not_be_asked_for(serve: Serve) -> None:
    http = await serve(TASKS)
    base = f"/v1/tasks/{DELAY.id}"
    assert (await http.get(f"/v1/tasks/{WEEKLY.id}/series?every=day")).status_code == 422
    assert (await http.get(f"/v1/tasks/{'0' * 64}/series?every=SECRET")).status_code == 404
    await send(http, DELAY, {now(DELAY): [1, 2, 3]})
    await send(http, HEADING, {now(HEADING): [1, 2, 3]})
    hourly = f"/v1/tasks/{HEADING.id}"
    for path in (
        base + f"/series?from={now(DELAY) - 400}",
        hourly + "/series?from=1970-01-01",  # half a million
        base + "/series?to=9999-12-31",
        base + "/series?every=999999999",  # the only one ends in a year that does not exist
    ):
        answer = await http.get(path)
        assert (answer.status_code, answer.json()["type"]) == (422, "urn:arcwise:problem:too-many-points")
    assert len((await http.get(base + "/series?every=999999")).json()["points"]) == 1
    assert len((await http.get(base + f"/series?from={now(DELAY) - 399}")).json()["points"]) == 400


ASKED = ("from", "to", "level", "share", "target", "reports_per_device", "memoised")
MORE = ("quantile", "quantiles", "simultaneous")


async def test_parameters_are_in_the_openapi_document(serve: Serve) -> None:
    http = await serve(TASKS)
    paths = (await http.get("/openapi.json")).json()["paths"]
    for path, names in (
        ("estimate", ["task", *ASKED, "bands", "origin", "quantile"]),
        ("picture.{form}", ["task", "form", *ASKED, "bands", "origin", "quantile"]),
        ("series", ["task", *ASKED[:2], "every", *ASKED[2:], "origin", *MORE]),
        ("fit", ["task", "from", "to", *ASKED[-2:]]),
    ):
        parameters = paths[f"/v1/tasks/{{task}}/{path}"]["get"]["parameters"]
        assert [parameter["name"] for parameter in parameters] == names


async def test_a_question_about_some_epochs_reads_the_numbers_of_those_and_their_blocks(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[list[int]] = []
    real = SQLiteStore.reports_by_epoch

    def watched(self: SQLiteStore, *asked: Any) -> dict[int, int]:
        found = real(self, *asked)
        read.append(list(found))
        return found

    monkeypatch.setattr(SQLiteStore, "reports_by_epoch", watched)
    today = now(DELAY)
    http = await serve([DELAY], min_reports_days=7)
    await send(http, DELAY, {today - back: [1, 2] for back in range(25)})
    for path in ("estimate", "series"):
        answer = await http.get(f"/v1/tasks/{DELAY.id}/{path}?from={today - 12}&to={today - 9}")
        assert answer.json()["n"] == 6
    assert read == [list(range(today - 19, today - 2))] * 2


async def test_few_variants_are_kept_and_none_is_made_twice(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def watched_series(*args: Any, **options: Any) -> Series:
        made.append("series")
        return series(*args, **options)

    def watched_estimate(*args: Any, **options: Any) -> Estimate:
        made.append("estimate")
        return estimate(*args, **options)

    monkeypatch.setattr("arcwise.analysis.timeseries.series.series", watched_series)
    monkeypatch.setattr("arcwise.analysis.estimate", watched_estimate)
    monkeypatch.setattr("arcwise.server.estimates.cache._MAX_KEPT", 16)
    today = now(DELAY)
    http = await serve(TASKS)
    base = f"/v1/tasks/{DELAY.id}"
    await send(http, DELAY, {today - 3: [1, 2], today: [3]})
    await asyncio.gather(*(http.get(f"{base}/series") for _ in range(5)))
    await asyncio.gather(*(http.get(f"{base}/estimate?to={today}") for _ in range(5)))
    assert made == ["series", "estimate"]
    # Reports of another epoch change the series, but no estimate of earlier epochs.
    await send(http, DELAY, {today: [4]})
    await http.get(f"{base}/series")
    await http.get(f"{base}/estimate?to={today}")
    assert made == ["series", "estimate", "series"]
    # The least recently used one is dropped; the estimate from all reports is kept separately.
    await http.get(f"{base}/estimate")
    for every in range(2, 17):
        await http.get(f"{base}/series?every={every}")
    before = len(made)
    await http.get(f"{base}/estimate")
    await http.get(f"{base}/series?every=2")
    await http.get(f"{base}/estimate?to={today}")
    assert len(made) == before
    await http.get(f"{base}/series")
    assert len(made) == before + 1


FINE = Interval(0, 1)
WIDE = Task("wide", FINE, 1.0, epoch_seconds=1, mechanism=OptimalPiecewise(FINE, 1.0, nodes=32_768))
CODES = WIDE.mechanism.kernel.codes


async def test_points_are_refused_before_counts_are_read(serve: Serve) -> None:
    http = await serve([WIDE])
    store = http.runtime.store()
    second = now(WIDE) - 3600
    packed = np.array([7], "<u2").tobytes()
    most = (1 << 22) // CODES
    store.add([Batch(bytes.fromhex(WIDE.id), os.urandom(16), second + i, packed) for i in range(most + 1)])
    store.sums = store.counts_by_epoch = None
    url = f"/v1/tasks/{WIDE.id}/series"
    answer = await http.get(url)
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:arcwise:problem:too-many-points")
    assert f"at most {most} points" in answer.json()["detail"]
    assert most < 100
    del store.sums
    assert len((await http.get(url, params={"to": str(second + most)})).json()["points"]) == most


@pytest.mark.slow
async def test_an_estimate_takes_the_memory_of_its_points_not_of_all_epochs(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def brief(task: Task, counts: Any, *, epochs: int) -> Any:
        return SimpleNamespace(to_dict=lambda: {"n": int(counts.sum())})

    monkeypatch.setattr("arcwise.analysis.estimate", brief)
    http = await serve([WIDE])
    second, packed = now(WIDE) - 3600, np.array([7], "<u2").tobytes()
    http.runtime.store().add(
        [Batch(bytes.fromhex(WIDE.id), os.urandom(16), second + i, packed) for i in range(3000)]
    )
    url = f"/v1/tasks/{WIDE.id}"
    await http.get(url)  # its routes are ready, and so is its JSON
    for path, points in (("/estimate", 1), (f"/series?every=1000&from={second}", 3)):
        tracemalloc.start()
        try:
            answer = await http.get(url + path)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert answer.json()["n"] == 3000
        # A few arrays per point at a time; a row per epoch would be 3000.
        assert peak < (points + 1) * 16 * 8 * CODES
