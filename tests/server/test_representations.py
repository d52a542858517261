"""The forms of estimates, their entity tags, and the number of reports that they need."""

import csv
import time
from pathlib import Path
from typing import Any

import httpx
import msgpack
import numpy as np
import pytest

from arcwise.analysis import estimate, tidy_rows
from arcwise.domains import Circle
from arcwise.server.estimates.representations import negotiate
from arcwise.server.problems import Problem
from arcwise.tasks import Task
from tests.support.apps import Serve
from tests.support.reports import body_of, report

pytestmark = pytest.mark.anyio

HEADING = Task("heading", Circle(360), 2.0)
ESTIMATE, SERIES = f"/v1/tasks/{HEADING.id}/estimate", f"/v1/tasks/{HEADING.id}/series"
CODES = list(range(100)) * 3


async def send(http: httpx.AsyncClient, codes: list[int], back: int = 0) -> None:
    body = body_of(HEADING, codes, epoch=HEADING.epoch(time.time()) - back)
    assert (await report(http, HEADING, body)).status_code == 204


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (None, "json"),
        ("", "json"),
        ("*/*", "json"),
        ("text/csv", "csv"),
        ("Text/CSV; charset=utf-8", "csv"),
        ("application/msgpack", "msgpack"),
        ("application/x-msgpack", "msgpack"),
        ("application/*", "json"),
        ("text/html, */*;q=0.1", "json"),
        ("text/*", "csv"),
        ("application/json;q=0.5, text/csv", "csv"),
        ("application/json;q=0.5, text/csv;q=0.4", "json"),
        ("application/json;q=0, */*", "csv"),
        ("*/*, application/json;q=0, text/csv;q=0", "msgpack"),
        ("text/csv;q=1, application/json;q=1", "json"),
    ],
)
def test_the_form_that_accept_likes_best(accept: str | None, form: str) -> None:
    assert negotiate(accept) == form


@pytest.mark.parametrize(
    "accept", ["text/html", "application/json;q=0", "text/csv;q=SECRET", "image/*", ";;,"]
)
def test_no_form_that_is_liked(accept: str) -> None:
    with pytest.raises(Problem, match="Accept asks for none of them") as caught:
        negotiate(accept)
    assert caught.value.status == 406
    assert "SECRET" not in caught.value.detail


async def test_three_forms_of_one_estimate(serve: Serve) -> None:
    counts = HEADING.count(CODES)
    truth = estimate(HEADING, counts).to_dict()
    http = await serve([HEADING])
    await send(http, CODES)
    answers = {
        form: await http.get(ESTIMATE, headers={"accept": form})
        for form in ("application/json", "text/csv", "application/msgpack")
    }
    for form, answer in answers.items():
        assert answer.status_code == 200
        assert answer.headers["content-type"].split(";")[0] == form
        assert answer.headers["vary"] == "Accept, Authorization, Cookie"
        assert answer.headers["cache-control"] == "private, no-cache"
    assert len({answer.headers["etag"] for answer in answers.values()}) == 3
    assert answers["application/json"].json() == truth
    assert msgpack.unpackb(answers["application/msgpack"].content) == truth
    rows = list(csv.DictReader(answers["text/csv"].text.splitlines()))
    assert {row["task"] for row in rows} == {"heading"}
    assert [row["estimate"] for row in rows] == [row["estimate"] for row in tidy_rows(truth)]
    values = {row["estimate"]: row for row in rows}
    assert float(values["direction"]["low"]) == truth["direction"]["low"]
    cells = [float(row["value"]) for row in rows if row["estimate"].startswith("cell ")]
    assert cells == truth["distribution"]["probabilities"]
    refused = await http.get(ESTIMATE, headers={"accept": "text/html"})
    assert refused.json()["type"] == "urn:arcwise:problem:not-acceptable"


async def test_a_series_as_rows(serve: Serve) -> None:
    http = await serve([HEADING])
    await send(http, CODES)
    await send(http, CODES[:50], back=2)
    points = (await http.get(SERIES)).json()["points"]
    rows = list(csv.DictReader((await http.get(SERIES, headers={"accept": "text/csv"})).text.splitlines()))
    directions = [row for row in rows if row["estimate"] == "direction"]
    assert [int(row["n"]) for row in directions] == [points[0]["n"], points[2]["n"]] == [50, 300]
    assert [row["start"] for row in directions] == [points[0]["start"], points[2]["start"]]
    assert float(directions[1]["high"]) == points[2]["direction"]["high"]


async def test_an_estimate_follows_a_source_whose_counts_change_but_not_their_number(serve: Serve) -> None:
    key, today = bytes.fromhex(HEADING.id), HEADING.epoch(time.time())
    shown = []
    http = await serve([HEADING])
    await send(http, CODES)
    for code in (3, 90):
        counts = np.bincount([code] * 500, minlength=HEADING.mechanism.kernel.codes)
        http.runtime.store().replace_source("lake", {(key, today): counts}, [(key, today, bytes(16))])
        answers = [await http.get(url) for url in (ESTIMATE, SERIES)]
        assert answers[0].json()["n"] == len(CODES) + 500
        shown.append([(answer.headers["etag"], answer.content) for answer in answers])
    await http.stop()
    for first, second in zip(*shown, strict=True):
        assert first[0] != second[0]
        assert first[1] != second[1]


async def test_a_reader_who_has_it_already_is_told_so(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def watched(task: Task, counts: np.ndarray) -> Any:
        made.append(int(counts.sum()))
        return estimate(task, counts)

    monkeypatch.setattr("arcwise.analysis.estimate", watched)
    today = HEADING.epoch(time.time())
    http = await serve([HEADING])
    await send(http, CODES)
    urls = (ESTIMATE, SERIES, f"{ESTIMATE}?from={today}", f"{SERIES}?every=2")
    tags = [(await http.get(url)).headers["etag"] for url in urls]
    assert len(set(tags)) == 4
    computed = list(made)
    for url, tag in zip(urls, tags, strict=True):
        for given in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            answer = await http.get(url, headers={"if-none-match": given})
            assert (answer.status_code, answer.content) == (304, b"")
            assert answer.headers["etag"] == tag
        assert (await http.get(url, headers={"if-none-match": '"other"'})).status_code == 200
    assert made == computed
    await send(http, [7])
    for url, tag in zip(urls, tags, strict=True):
        answer = await http.get(url, headers={"if-none-match": tag})
        assert answer.status_code == 200
        assert answer.headers["etag"] != tag


async def test_counts_are_read_only_when_there_are_more_reports(serve: Serve) -> None:
    http = await serve([HEADING])
    store = http.runtime.store()
    read: list[str] = []
    sums = store.sums

    def watched(task: Task, *args: Any) -> Any:
        read.append(task.name)
        return sums(task, *args)

    store.sums = watched
    store.counts_by_epoch = None  # of every epoch: never asked for
    await send(http, CODES)
    tag = (await http.get(ESTIMATE)).headers["etag"]
    for known, status in (("", 200), (tag, 304), ("*", 304)):
        assert (await http.get(ESTIMATE, headers={"if-none-match": known})).status_code == status
    assert len(read) == 1
    # Another form is of the same counts; other epochs are another question.
    other = await http.get(ESTIMATE, headers={"accept": "text/csv"})
    assert other.status_code == 200
    assert other.headers["etag"] != tag
    assert len(read) == 1
    assert (await http.get(SERIES)).status_code == 200
    assert len(read) == 2
    await send(http, CODES)
    answer = await http.get(ESTIMATE, headers={"if-none-match": tag})
    assert (answer.status_code, answer.json()["n"]) == (200, 2 * len(CODES))
    assert len(read) == 3


async def test_a_reader_who_has_it_before_the_server_does_is_told_so(serve: Serve) -> None:
    """After a restart, and therefore also in another worker."""
    http = await serve([HEADING])
    await send(http, CODES)
    tag = (await http.get(ESTIMATE)).headers["etag"]
    for _ in range(2):
        await http.stop()
        http = await serve([HEADING])
        assert (await http.get(ESTIMATE, headers={"if-none-match": tag})).status_code == 304
        answer = await http.get(ESTIMATE)  # nothing was computed for the 304
        assert (answer.status_code, answer.json()["n"]) == (200, len(CODES))
        assert answer.headers["etag"] == tag


async def test_a_reader_without_a_key_is_not_told_what_it_has(serve: Serve) -> None:
    http = await serve([HEADING], open=False)
    assert (await http.get(ESTIMATE, headers={"if-none-match": "*"})).status_code == 401


async def test_an_estimate_of_too_few_reports_says_how_many_are_withheld(serve: Serve) -> None:
    http = await serve([HEADING], min_reports=100, retention_days=100)
    await send(http, CODES[:60])
    await send(http, CODES[:39])
    few = (await http.get(ESTIMATE)).json()
    assert set(few) == {
        *("task", "task_id", "epsilon", "level", "target", "domain"),
        *("n", "min_reports", "withheld", "joined"),
    }
    assert (few["n"], few["withheld"], few["min_reports"], few["joined"]) == (0, 99, 100, [])
    over_time = (await http.get(SERIES)).json()
    (point,) = over_time["points"]
    assert set(point) == {"first", "last", "start", "end", "n", "withheld", "joined"}
    assert (point["n"], point["withheld"], over_time["min_reports"]) == (0, 99, 100)
    await send(http, [7])
    assert (await http.get(ESTIMATE)).json()["n"] == 100
    assert "direction" in (await http.get(SERIES)).json()["points"][0]


async def test_a_week_is_shown_together_and_counts_where_it_begins(serve: Serve) -> None:
    today = HEADING.epoch(time.time())
    monday = today - (today - 4) % 7 - 21  # three whole past weeks
    http = await serve([HEADING], min_reports=100, retention_days=100)
    back = today - monday
    for day, codes in ((1, CODES[:99]), (3, [3]), (7, CODES[:99]), (14, CODES), (15, CODES)):
        await send(http, codes, back - day)
    asked = {"from": str(monday), "to": str(monday + 21)}
    points = (await http.get(SERIES, params=asked)).json()["points"]
    shown = {place: point["n"] for place, point in enumerate(points) if "direction" in point}
    assert shown == {0: 100, 14: 600}
    assert {place: point["withheld"] for place, point in enumerate(points) if point["withheld"]} == {7: 99}
    assert points[0]["joined"] == points[3]["joined"] == [[monday, monday + 6]]
    weeks = (await http.get(SERIES, params=asked | {"every": "week"})).json()["points"]
    assert [(point["n"], point["withheld"], point["joined"]) for point in weeks] == [
        (100, 0, []),
        (0, 99, []),
        (600, 0, []),
    ]
    part = (await http.get(ESTIMATE, params={"from": str(monday + 1), "to": str(monday + 15)})).json()
    assert (part["n"], part["withheld"]) == (600, 99)
    assert part["joined"] == [[monday, monday + 6], [monday + 14, monday + 20]]
    rows = (await http.get(SERIES, params=asked, headers={"accept": "text/csv"})).text.splitlines()
    joined, *_ = [row for row in csv.DictReader(rows) if row["estimate"] == "joined"]
    assert (float(joined["low"]), float(joined["high"])) == (monday, monday + 6)
    withheld = [row["value"] for row in csv.DictReader(rows) if row["estimate"] == "withheld"]
    assert withheld == ["99.0"]


async def test_an_old_epoch_is_not_the_difference_of_two_answers(serve: Serve) -> None:
    """Blocks that split while a neighbour filled once revealed the code of a single report."""
    today = HEADING.epoch(time.time())
    monday = today - (today - 4) % 7 - 7
    http = await serve([HEADING], min_reports=100, retention_days=100)
    back = today - monday
    await send(http, [3], back)
    await send(http, CODES[:150], back - 2)
    before = (await http.get(ESTIMATE)).json()["n"]
    await send(http, CODES[:100], back - 3)
    after = (await http.get(ESTIMATE)).json()["n"]
    assert (before, after) == (151, 251)


async def test_with_blocks_of_a_day_each_day_that_has_enough_is_shown(serve: Serve) -> None:
    today = HEADING.epoch(time.time())
    http = await serve([HEADING], min_reports=100, min_reports_days=1)
    for back, codes in ((3, CODES[:100]), (2, CODES[:99]), (1, CODES)):
        await send(http, codes, back)
    points = (await http.get(SERIES, params={"from": str(today - 3)})).json()["points"]
    assert [(point["n"], point["withheld"]) for point in points] == [(100, 0), (0, 99), (300, 0)]


async def test_no_tag_tells_a_code_that_is_withheld(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One shared secret; otherwise it would make the whole difference.
    monkeypatch.setattr("arcwise.server.store.sqlite.store.SQLiteStore.secret", bytes(32))
    today = HEADING.epoch(time.time())
    urls = [url + query for url in (ESTIMATE, SERIES) for query in ("", f"?from={today}", f"?to={today}")]

    async def seen(name: str, code: int, **options: int) -> list[tuple[str, bytes]]:
        http = await serve([HEADING], retention_days=100, store=f"sqlite:///{tmp_path / name}.db", **options)
        await send(http, [code])  # one more code, with everything else equal
        answers = [await http.get(url) for url in urls]
        await http.stop()
        return [(answer.headers["etag"], answer.content) for answer in answers]

    assert await seen("one", 0, min_reports=2) == await seen("other", 1, min_reports=2)
    assert (await seen("one", 2))[0] != (await seen("other", 3))[0]  # shown: then they differ


async def test_a_tag_cannot_be_computed_without_the_secret_of_the_store(serve: Serve, tmp_path: Path) -> None:
    tags = set()
    for store in ("one", "other"):
        http = await serve([HEADING], store=f"sqlite:///{tmp_path / store}.db")
        await send(http, CODES)
        tags.add((await http.get(ESTIMATE)).headers["etag"])
    assert len(tags) == 2
