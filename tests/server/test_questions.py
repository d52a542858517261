"""Requests of readers: tasks by name, the parameters of estimates, downloads, differences and plans."""

from __future__ import annotations

import csv
import json
import math
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest

from arcwise.analysis import Comparison, compare_samples, estimate, fit_test, series
from arcwise.analysis.planning.further import further_reports
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import OptimalPiecewise
from arcwise.server.estimates.question import KINDS, MAX_SHARES, Question, read_question
from arcwise.server.problems import Problem
from arcwise.server.store import open_store
from arcwise.tasks import Task
from tests.support.apps import add_key
from tests.support.reports import body_of, report

if TYPE_CHECKING:
    from tests.support.apps import Serve

pytestmark = pytest.mark.anyio

HEADING = Task("heading", Circle(360), 2.0)
DELAY = Task("delay", Interval(0, 180), 2.0, unit="min", description="how late")
WIDE = Task("wide", Interval(0, 1), 1.0, mechanism=OptimalPiecewise(Interval(0, 1), 1.0, nodes=2100))
RATING = Task("rating", Interval(1, 5, step=1), 2.0)
CODES = list(range(100)) * 3
TODAY = DELAY.epoch(time.time())


async def send(http: httpx.AsyncClient, task: Task, codes: list[int], back: int = 0) -> None:
    codes = [code % task.mechanism.kernel.codes for code in codes]
    assert (await report(http, task, body_of(task, codes, epoch=TODAY - back))).status_code == 204


def path(name: str, rest: str = "") -> str:
    return f"/v1/tasks/{quote(name, safe='')}{rest}"


NAMES = [
    "delay",
    "a/b",
    "a/estimate",
    "100%",
    "%2F",
    "%252F/%",
    "Größe in µm",
    "später/früher?x=1#y",
    "..",
    "a b+c",
    "0" * 64,
    "'\"<script>",
    "über",
]


async def test_a_task_is_read_by_its_name(serve: Serve) -> None:
    tasks = [Task(name, Interval(0, 1), 1.0) for name in NAMES]
    http = await serve(tasks)
    for task in tasks:
        # Each byte is escaped, so that ".." stays.
        base = "/v1/tasks/" + "".join(f"%{byte:02X}" for byte in task.name.encode())
        assert (await http.get(base)).json()["id"] == task.id
        await send(http, task, CODES)
        for rest in ("/estimate", "/series", "/estimate.json", "/series.csv", "/plan?half_width=0.1"):
            by_name, by_id = await http.get(base + rest), await http.get(f"/v1/tasks/{task.id}{rest}")
            assert by_name.status_code == 200, task.name
            assert by_name.content == by_id.content, task.name
        assert (await http.get(path(task.name + "x"))).status_code == 404, task.name
    # Another normal form is the same name.
    assert (await http.get(path("u\u0308ber"))).json()["id"] == tasks[-1].id


async def test_an_id_comes_first_and_a_name_must_be_of_one_open_task(serve: Serve) -> None:
    named_like_an_id = Task(HEADING.id, Interval(0, 1), 1.0)
    twins = [Task("twin", Interval(0, 1), epsilon) for epsilon in (1.0, 2.0)]
    http = await serve([HEADING, named_like_an_id, twins[0]])
    http.runtime.store().register([twins[1]])
    http.runtime.refresh()
    assert (await http.get(path(HEADING.id))).json()["name"] == "heading"
    answer = await http.get(path("twin", "/estimate"))
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:arcwise:problem:ambiguous-name")
    assert all(task.id in answer.json()["detail"] for task in twins)
    runtime = http.runtime
    for closed, status in ((twins[0], 200), (twins[1], 404)):
        runtime.store().close_task(closed.id, 1)
        runtime.refresh()
        answer = await http.get(path("twin", "/estimate"))
        assert answer.status_code == status
    assert all(task.id in answer.json()["detail"] for task in twins)
    assert (await http.get(path(twins[0].id, "/estimate"))).status_code == 200


async def test_a_key_for_some_tasks_does_not_learn_of_names(serve: Serve, tmp_path: Any) -> None:
    twins = [Task("twin", Interval(0, 1), epsilon) for epsilon in (1.0, 2.0)]
    url = f"sqlite:///{tmp_path / 'keys.db'}"
    key = add_key(url, "read", tasks=[twins[0].id, HEADING.id])
    store = open_store(url)
    store.register(twins)
    store.close()
    http = await serve([HEADING, DELAY], open=None, store=url)
    http.headers["authorization"] = f"Bearer {key}"
    assert (await http.get(path("heading"))).json()["id"] == HEADING.id
    # Of two tasks with the same name, it knows only its own.
    assert (await http.get(path("twin", "/estimate"))).json()["task_id"] == twins[0].id
    told = {
        (answer.status_code, answer.content)
        for name in ("delay", "no-such-task", DELAY.id, twins[1].id, "0" * 64)
        for answer in [await http.get(path(name, "/estimate"))]
    }
    assert [status for status, _ in told] == [403]
    for name in ("delay", "no-such-task", DELAY.id):
        answer = await http.get(path("heading", f"/difference?against={name}"))
        told.add((answer.status_code, answer.content))
    assert len(told) == 1


ASKED: list[tuple[Task, str, dict[str, Any]]] = [
    (DELAY, "level=0.9", {"level": 0.9}),
    (DELAY, "share=0:30&share=30:180", {"between": [(0, 30), (30, 180)]}),
    (DELAY, "bands=true", {"bands": True}),
    (DELAY, "target=users&bands=false", {"target": "users"}),
    (HEADING, "origin=-10&share=350:10", {"origin": -10.0, "between": [(350, 10)]}),
    (HEADING, "bands=1&level=0.99", {"bands": True, "level": 0.99}),
    (RATING, "share=4:4&share=1:3", {"between": [(4, 4), (1, 3)]}),
    (DELAY, "quantile=0.9&quantile=0.01&quantile=0.50", {"quantiles": (0.9, 0.01)}),
    (HEADING, "quantile=0.9&origin=90", {"quantiles": [0.9], "origin": 90.0}),
]


@pytest.mark.parametrize(("task", "query", "options"), ASKED, ids=[query for _, query, _ in ASKED])
async def test_parameters_are_those_of_estimate(
    serve: Serve, task: Task, query: str, options: dict[str, Any]
) -> None:
    counts = task.count([code % task.mechanism.kernel.codes for code in CODES])
    http = await serve([task])
    await send(http, task, CODES)
    answer = await http.get(path(task.name, f"/estimate?{query}"))
    assert answer.json() == estimate(task, counts, **options).to_dict()
    plain = await http.get(path(task.name, "/estimate"))
    assert plain.headers["etag"] != answer.headers["etag"]
    again = await http.get(path(task.name, f"/estimate?{query}"), headers={"if-none-match": "*"})
    assert (again.status_code, again.headers["etag"]) == (304, answer.headers["etag"])


async def test_parameters_are_those_of_series(serve: Serve) -> None:
    counts = {TODAY - back: HEADING.count(CODES) for back in (0, 3)}
    http = await serve([HEADING])
    for back in (0, 3):
        await send(http, HEADING, CODES, back)
    for query, options in (
        ("simultaneous=true", {"simultaneous": True}),
        ("quantiles=true&origin=0&level=0.9", {"quantiles": True, "origin": 0.0, "level": 0.9}),
        ("quantile=0.1&origin=0", {"quantiles": [0.1], "origin": 0.0}),
        ("share=0:90&target=users", {"between": [(0, 90)], "target": "users"}),
        ("every=month", {"every": "month"}),
        ("every=week&share=0:90", {"every": 7, "between": [(0, 90)]}),
    ):
        answer = await http.get(path("heading", f"/series?{query}"))
        assert answer.json() == series(HEADING, counts, **options).to_dict()


@pytest.mark.slow
async def test_a_difference_is_of_ranges_or_of_tasks(serve: Serve) -> None:
    other = Task("other heading", Circle(360), 2.0, description="of the others")
    one, two = HEADING.count(CODES), HEADING.count(CODES[:150])
    http = await serve([HEADING, other])
    await send(http, HEADING, CODES)
    await send(http, HEADING, CODES[:150], 5)
    await send(http, other, CODES[:150])
    of_ranges = f"/difference?from={TODAY}&against_to={TODAY - 4}"
    of_tasks = f"/difference?from={TODAY}&against={quote(other.name)}&share=0:90&bands=true"
    more: dict[str, Any] = {"between": [(0, 90)], "bands": True}
    for query, options in ((of_ranges, {}), (of_tasks, more)):
        document = (await http.get(path("heading", query))).json()
        expected = compare_samples(HEADING, one, two, **options)
        assert Comparison.from_dict(document) == expected
        assert document["epochs"]["first"] == TODAY
    rows = (await http.get(path("heading", of_ranges.replace("?", ".csv?")))).text.splitlines()
    named = {row["estimate"] for row in csv.DictReader(rows)}
    assert {"difference direction", "difference resultant_length"} <= named
    # The other task's counts are part of the tag.
    tag = (await http.get(path("heading", of_tasks))).headers["etag"]
    await send(http, other, [3])
    known = {"if-none-match": tag}
    assert (await http.get(path("heading", of_tasks), headers=known)).status_code == 200
    none = (await http.get(path("heading", f"/difference?from={TODAY}&against_to={TODAY - 9}"))).json()
    assert none["difference"] == {"other": "0 other reports", "n": 0, "level": 0.95}


@pytest.mark.parametrize("memoised", ["", "&memoised=true"])
async def test_a_difference_takes_two_devices_of_each_side(serve: Serve, memoised: str) -> None:
    http = await serve([RATING])
    await send(http, RATING, [0, 1, 3])
    await send(http, RATING, CODES, 5)
    await send(http, RATING, CODES, 6)
    ranges = f"from={TODAY}&against_to={TODAY - 4}"
    for file in ("", ".csv", ".svg"):
        for most, is_shown in (("1.5", True), ("2", False), ("3", False), ("9", False)):
            asked = f"/difference{file}?{ranges}&reports_per_device={most}{memoised}"
            answer = await http.get(path("rating", asked))
            assert answer.status_code == (200 if is_shown or file != ".svg" else 404), answer.text
            if not file:
                assert ("mean" in answer.json()["difference"]) == is_shown
    for said, is_noted in (("", True), ("&reports_per_device=1", False)):
        answer = await http.get(path("rating", f"/difference?{ranges}{said}"))
        difference = answer.json()["difference"]
        assert ("the task has no caps" in difference["mean"]["note"]) == is_noted
        assert ("note" in difference["test"]) == is_noted
    for kind in ("estimate", "series"):
        asked = f"/{kind}?from={TODAY}&reports_per_device=9{memoised}"
        assert (await http.get(path("rating", asked))).status_code == 200


async def test_fit_and_plan(serve: Serve) -> None:
    http = await serve([RATING, HEADING, WIDE])
    assert (await http.get(path("rating", "/fit"))).json() == {
        "task": "rating", "task_id": RATING.id, "n": 0
    }  # fmt: skip
    for task in (RATING, HEADING):
        await send(http, task, CODES)
    refused = await http.get(path("wide", "/fit"))
    assert (refused.status_code, refused.json()["detail"]) == (
        422,
        "The fit test takes a task with at most 2048 codes; this one has more.",
    )
    page = await http.get(f"/tasks/{WIDE.id}/fit", headers={"accept": "text/html"})
    assert page.status_code == 200
    assert refused.json()["detail"] in page.text
    counts = {
        task: task.count([c % task.mechanism.kernel.codes for c in CODES]) for task in (RATING, HEADING)
    }
    fit = (await http.get(path("rating", "/fit"))).json()
    assert {k: v for k, v in fit.items() if k not in ("task", "task_id")} == json.loads(
        json.dumps(fit_test(RATING, counts[RATING]).to_dict())
    )
    again = (await http.get(path("rating", "/fit?reports_per_device=2.5&memoised=true"))).json()
    expected = fit_test(RATING, counts[RATING], reports_per_device=2.5, memoised=True)
    assert (again["independent"], again["report"]) == (expected.independent, str(expected))
    for task, width in ((RATING, 0.05), (HEADING, 3.0)):
        found = (await http.get(path(task.name, f"/plan?half_width={width}&level=0.9"))).json()
        assert found == further_reports(task, counts[task], half_width=width, level=0.9).to_dict()
    await send(http, RATING, CODES, 6)
    pooled = fit_test(RATING, 2 * counts[RATING], epochs=7)
    assert (await http.get(path("rating", "/fit"))).json()["note"] == pooled.note != ""


REST = "memoised, origin, quantile, reports_per_device"
BAD = [
    (DELAY, "estimate", "level=SECRET", "level must be a number from 0.5 to 0.9999"),
    (DELAY, "estimate", "level=0.99999", "level must be a number from 0.5 to 0.9999"),
    (DELAY, "estimate", "level=nan", "level must be"),
    (DELAY, "estimate", "share=SECRET", "share must be LOW:HIGH, two numbers"),
    (DELAY, "estimate", "share=30:10", "share must be LOW:HIGH"),
    (DELAY, "estimate", "share=0:inf", "share must be LOW:HIGH"),
    (DELAY, "estimate", "share=1_0:20", "share must be LOW:HIGH"),
    (RATING, "estimate", "share=1.2:1.8", "share must be LOW:HIGH"),
    (HEADING, "estimate", "share=10:10", "share must be LOW:HIGH"),
    (DELAY, "estimate", "&".join(f"share={k}:180" for k in range(MAX_SHARES + 1)), "at most 20 times"),
    *(
        (DELAY, "estimate", f"quantile={bad}", "quantile must be a number between 0 and 1 with at most six")
        for bad in ("SECRET", "0", "1", "nan", "-0.5", "0.1234567", "0.5&quantile=2")
    ),
    (DELAY, "series", "&".join(f"quantile=0.{k}" for k in range(10, 31)), "at most 20 times"),
    (HEADING, "series", "quantile=0.1", "origin must be given for quantiles on a circle"),
    (DELAY, "estimate", "bands=SECRET", "bands must be true or false"),
    (DELAY, "estimate", "origin=3", "origin must be left out: this task's domain is an interval"),
    (HEADING, "estimate", "origin=inf", "origin must be a finite number"),
    (DELAY, "estimate", "target=SECRET", "target must be population or users"),
    (DELAY, "estimate", "level=0.9&level=0.9", "each at most once, except for share and quantile"),
    (DELAY, "estimate", "every=day", f"The only parameters are bands, from, level, {REST}, share, target"),
    (DELAY, "estimate", "from=SECRET", "from and to take: a date"),
    (DELAY, "estimate", "to=1e400", "from and to take"),
    (DELAY, "estimate", "from=99999999999999999999", "from and to take"),
    (DELAY, "estimate", "from=1969-01-01", "from and to take"),
    (DELAY, "estimate", "from=2026-11-01&from=2026-11-02", "each at most once"),
    (DELAY, "series", "every=SECRET", "every must be epoch, day, week"),
    (DELAY, "series", "every=0", "every must be"),
    (DELAY, "series", "every=-1", "every must be"),
    (
        DELAY,
        "series",
        "SECRET=1",
        "The only parameters are every, from, level, memoised, origin, quantile, quan",
    ),
    (DELAY, "fit", "level=0.9", "The only parameters are from, memoised, reports_per_device, to, each"),
    (DELAY, "series", "bands=true", "The only parameters are every, from"),
    (HEADING, "series", "quantiles=true", "origin must be given for quantiles on a circle"),
    (DELAY, "difference", "", "One of against, against_from and against_to must be given"),
    (DELAY, "difference", "against=rating", "against must be a task on the same domain"),
    (DELAY, "difference", "against=delay", "No report may be in both samples"),
    (DELAY, "difference", "from=5&to=9&against_from=8", "No report may be in both samples"),
    (DELAY, "plan", "", "half_width must be a number above 0"),
    (DELAY, "plan", "half_width=-1", "half_width must be a number above 0"),
    (DELAY, "plan", "half_width=SECRET", "half_width must be a number above 0"),
]


@pytest.mark.parametrize(("task", "kind", "query", "words"), BAD, ids=[f"{b[1]}?{b[2][:30]}" for b in BAD])
async def test_a_problem_names_the_parameter_and_its_bound(
    serve: Serve, task: Task, kind: str, query: str, words: str
) -> None:
    http = await serve([DELAY, HEADING, RATING])
    answer = await http.get(path(task.name, f"/{kind}?{query}"))
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:arcwise:problem:invalid-request")
    assert answer.headers["content-type"] == "application/problem+json"
    assert words in answer.json()["detail"]
    assert "SECRET" not in answer.text


async def test_points_that_take_whole_estimates_are_bounded(serve: Serve) -> None:
    wide = Task("wide", Interval(0, 1000, step=1), 2.0)  # 1,368 codes, 14 points
    http = await serve([wide])
    store = http.runtime.store()
    ones = np.ones(wide.mechanism.kernel.codes, np.int64)
    key = bytes.fromhex(wide.id)
    store.replace_source(
        "lake",
        {(key, TODAY - k): ones for k in range(15)},
        [(key, TODAY - k, bytes([k] * 16)) for k in range(15)],
    )
    assert (await http.get(path("wide", "/series"))).status_code == 200
    for query in ("share=0:9", "quantiles=true", "target=users"):
        answer = await http.get(path("wide", f"/series?{query}"))
        assert answer.json()["type"] == "urn:arcwise:problem:too-many-points"
        assert "at most 14 points" in answer.json()["detail"]
    few = f"/series?from={TODAY - 1}&quantiles=true&simultaneous=true&level=0.9999"
    assert "simultaneous must be false" in (await http.get(path("wide", few))).json()["detail"]


async def test_the_answers_that_are_kept_are_bounded(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arcwise.server.estimates.cache._MAX_KEPT_BYTES", 100_000)
    http = await serve([RATING])
    await send(http, RATING, CODES)
    cache = http.runtime.estimates._cache
    plain = (await http.get(path("rating", "/estimate"))).content
    for percent in range(50, 90):
        assert (await http.get(path("rating", f"/estimate?level=0.{percent}"))).status_code == 200
    assert 0 < cache._bytes == sum(kept.size for kept in cache._few.values()) <= 100_000
    assert len(cache._last) == 1
    assert (await http.get(path("rating", "/estimate"))).content == plain


DOWNLOADS = [
    ("estimate.json", "application/json"),
    ("estimate.csv", "text/csv; charset=utf-8"),
    ("series.json?every=week", "application/json"),
    ("series.csv", "text/csv; charset=utf-8"),
    ("difference.csv?against_to=9", "text/csv; charset=utf-8"),
    ("picture.svg", "image/svg+xml"),
    ("series.svg", "image/svg+xml"),
    ("picture.png", "image/png"),
    ("series.png", "image/png"),
]


@pytest.mark.parametrize(("file", "media_type"), DOWNLOADS, ids=[file for file, _ in DOWNLOADS])
async def test_downloads_have_names_that_are_safe(serve: Serve, file: str, media_type: str) -> None:
    task = Task(".. /\"\\ü'; x=y", Interval(0, 1), 2.0)
    http = await serve([task])
    await send(http, task, CODES)
    url = f"/v1/tasks/{task.id}/{file}" + ("&from=10" if "against" in file else "")
    answer = await http.get(url, headers={"accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, media_type)
    shown = "inline" if media_type.startswith("image/") else "attachment"
    name = file.partition("?")[0]
    assert answer.headers["content-disposition"] == f'{shown}; filename="x-y-{name}"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert ("sandbox" in answer.headers.get("content-security-policy", "")) == (shown == "inline")
    again = await http.get(url, headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_files_that_there_are_not(serve: Serve) -> None:
    http = await serve([DELAY])
    for file in ("estimate.svg", "picture.json", "picture.SECRET", "series.", "SECRET.csv"):
        answer = await http.get(path("delay", f"/{file}"))
        assert (answer.status_code, "SECRET" in answer.text) == (404, False)
    answer = await http.get(path("delay", "/picture.png"))
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:arcwise:problem:no-picture")


async def test_a_picture_takes_the_extra(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    http = await serve([DELAY])
    await send(http, DELAY, CODES)
    answer = await http.get(path("delay", "/picture.png"))
    assert (answer.status_code, answer.json()["type"]) == (501, "urn:arcwise:problem:extra-missing")
    assert "arcwise[plots]" in answer.json()["detail"]


async def test_a_page_takes_an_answer_that_is_young_and_a_reader_the_one_of_now(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("arcwise.server.estimates.service.time.monotonic", lambda: now[0])
    http = await serve([RATING])
    estimates, question = http.runtime.estimates, Question(RATING.id)

    async def shown(max_age: float = 10.0) -> int:
        tag, document = await estimates.document(RATING, question, max_age=max_age)
        assert tag.startswith('"')
        return int(document["n"])

    assert estimates._fresh(question, math.inf) is None
    await send(http, RATING, CODES)
    assert await shown() == 300
    await send(http, RATING, CODES)
    assert await shown() == 300
    now[0] += 9.9
    assert await shown() == 300
    assert json.loads(estimates._fresh(question, math.inf).body)["n"] == 300
    now[0] += 0.2
    assert await shown() == 600
    await send(http, RATING, CODES)
    assert (await http.get(path("rating", "/estimate"))).json()["n"] == 900
    assert await shown() == 900  # the youngest that there is
    # A result that took long to compute is shown for twenty times as long.
    cache = estimates._cache
    cache.keep(question, cache.get(question)._replace(seconds=3.0))
    await send(http, RATING, CODES)
    now[0] += 59.0
    assert await shown() == 900
    assert await shown(0.0) == 1200


async def test_what_a_document_is_changed_to_is_not_kept(serve: Serve) -> None:
    http = await serve([RATING])
    await send(http, RATING, CODES)
    estimates, question = http.runtime.estimates, Question(RATING.id)
    _, document = await estimates.document(RATING, question, max_age=10.0)
    document.clear()
    assert (await estimates.document(RATING, question, max_age=10.0))[1]["n"] == 300
    assert (await http.get(path("rating", "/estimate"))).json()["n"] == 300


@pytest.mark.parametrize("form", ["svg", "png"])
async def test_a_picture_takes_numbers(serve: Serve, form: str) -> None:
    http = await serve([RATING])
    files = [f"/picture.{form}", f"/series.{form}", f"/difference.{form}?against_to=9&from=10"]
    for file in files:
        answer = await http.get(path("rating", file))
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:arcwise:problem:no-picture")
    await send(http, RATING, CODES[:1])
    await send(http, RATING, CODES[:2], 3)
    files[2] = f"/difference.{form}?from={TODAY - 3}&to={TODAY - 2}&against_from={TODAY - 1}"
    for file, status in zip(files, (200, 200, 404), strict=True):
        assert (await http.get(path("rating", file))).status_code == status


async def test_withheld_reports_are_in_no_difference(serve: Serve) -> None:
    http = await serve([RATING], min_reports=100, min_reports_days=1)
    await send(http, RATING, CODES)
    await send(http, RATING, CODES[:99], 10)
    found = (await http.get(path("rating", f"/difference?from={TODAY}&against_to={TODAY - 7}"))).json()
    assert (found["n"], found["difference"]["n"], "mean" in found["difference"]) == (300, 0, False)
    assert (found["withheld"], found["difference"]["withheld"]) == (0, 99)
    plan = (await http.get(path("rating", f"/plan?half_width=0.1&to={TODAY - 7}"))).json()
    assert (plan["n"], plan["withheld"]) == (0, 99)


def test_a_page_reads_its_own_parameters_beside_a_question() -> None:
    query = [("level", "0.9"), ("compare", "SECRET")]
    assert read_question(DELAY, query, also={"compare"}).level == 0.9
    with pytest.raises(Problem, match="The only parameters are bands"):
        read_question(DELAY, query)
    for kind in KINDS:
        needed = {"plan": [("half_width", "1")], "difference": [("against_to", "9"), ("from", "9")]}
        asked = read_question(DELAY, needed.get(kind, []), kind)
        assert (asked.kind, asked.is_plain) == (kind, kind == "estimate")


def test_the_same_question_written_differently_is_the_same() -> None:
    for one, other in (("level=0.95", ""), ("share=0:9&share=0.0:9e0", "share=0:9"), ("bands=0", "")):
        asked = [read_question(DELAY, httpx.QueryParams(query).multi_items()) for query in (one, other)]
        assert asked[0] == asked[1]


async def test_a_direction_by_the_origin_stays_in_the_domain(serve: Serve) -> None:
    generator = np.random.default_rng(5)
    values = generator.normal(0.0, 20.0, 3000) % 360.0
    codes = HEADING.randomize(values)
    http = await serve([HEADING])
    await send(http, HEADING, codes.tolist())
    found = (await http.get(path("heading", "/estimate?bands=true"))).json()
    point = (await http.get(path("heading", "/series"))).json()["points"][0]
    places = [found["direction"], found["mode"], *found["quantiles"].values(), point["direction"]]
    assert any(place["through_origin"] for place in places)
    for place in places:
        ends = [place[name] for name in ("value", "low", "high") if place[name] is not None]
        assert all(0.0 <= end <= 360.0 for end in ends)
