"""Pages without a browser: their content, readers and headers, and that they never hang."""

import asyncio
import gzip
import html
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from arcwise.analysis import Estimate, estimate, simulate_counts
from arcwise.domains import Circle, Interval
from arcwise.server import Settings
from arcwise.server.app import create_dashboard
from arcwise.server.pages import overview
from arcwise.server.pages import task as task_pages
from arcwise.server.pages.later import Later, Wanted
from arcwise.server.pages.rendering import SECURITY_HEADERS
from arcwise.server.problems import Problem
from arcwise.server.settings import STORED_TASKS
from arcwise.server.store import open_store
from arcwise.tasks import Task
from arcwise.wire import Batch, code_width, pack_codes
from tests.support.apps import App, Serve, add_key

pytestmark = pytest.mark.anyio

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
SAME = {"Sec-Fetch-Site": "same-origin"}
HOSTILE = "<script>alert('&\"')</script>"
DELAY = Task("delay", Interval(0, 180), 1.0, unit="min", description="How late was it?")
HEADING = Task("heading", Circle(360), 1.0, unit="°")
SCORE = Task("score", Interval(0, 10, step=1), 1.0)
SINGLE = Task("single", Interval(0, 100), 1.0, goal="value")
EACH = {DELAY: "normal:40,12", HEADING: "vonmises:350,4", SCORE: "normal:7,2", SINGLE: "normal:60,15"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'pages.db'}"


@pytest.fixture
async def start(url: str) -> AsyncIterator[Serve]:
    """Return a coroutine function that starts an app of the store, for a browser on this machine."""
    async with AsyncExitStack() as stack:

        async def started(**options: Any) -> App:
            settings = Settings(STORED_TASKS, store=url, **options)
            http = await App.start(settings, base_url="http://127.0.0.1:8000")
            stack.push_async_callback(http.stop)
            http.headers.update(BROWSER)
            return http

        yield started


def fill(url: str, task: Task, population: str, reports: int = 3000, epochs: int = 3, seed: int = 1) -> Any:
    """Count reports of a task in a store, over epochs up to now; return the counts, shape (K,)."""
    generator = np.random.default_rng(seed)
    width = code_width(task.mechanism.kernel.codes)
    total = np.zeros(task.mechanism.kernel.codes, np.int64)
    with closing(open_store(url)) as store:
        store.register([task])
        for back in range(epochs):
            counts = simulate_counts(task, population, reports // epochs, generator)
            codes = np.repeat(np.arange(counts.size), counts).tolist()
            epoch = task.epoch(time.time()) - back
            store.add([Batch(bytes.fromhex(task.id), generator.bytes(16), epoch, pack_codes(codes, width))])
            total += np.asarray(counts, np.int64)
    return total


def make_key(url: str, scope: str, *, tasks: list[str] | None = None) -> dict[str, str]:
    """Make a key; return the header that sends it."""
    return {"Authorization": f"Bearer {add_key(url, scope, tasks=tasks)}"}


async def settled(http: httpx.AsyncClient, path: str, **given: Any) -> str:
    """Return a page after all its computations are done."""
    for _ in range(300):
        answer = await http.get(path, **given)
        assert answer.status_code == 200, answer.text
        if 'class="computing"' not in answer.text:
            return answer.text
        await asyncio.sleep(0.1)
    raise AssertionError("it is still being computed")


def figures(page: str) -> set[tuple[str, str, str]]:
    """Return name, part and text of every figure of a page."""
    found = re.findall(r'<data data-figure="([^"]*)" data-part="(\w+)" value="([^"]*)">([^<]*)</data>', page)
    assert all(value == text.replace(",", "") or value == text for _, _, value, text in found)
    return {(name, part, html.unescape(text)) for name, part, _, text in found}


def expected(result: Estimate) -> Iterator[tuple[str, str, str]]:
    """Yield name, part and text of the figures that a page of an estimate must have."""
    values = {"mean": result.mean, "direction": result.direction, "mode": result.mode}
    values |= {"standard_deviation": result.standard_deviation, "resultant_length": result.resultant_length}
    values |= {f"quantile {level}": value for level, value in result.quantiles.items()}
    for name, value in values.items():
        if value is not None:
            point, low, high = value.written()
            if point:
                yield name, "value", point
            yield name, "low", low
            yield name, "high", high
    yield "n", "n", f"{result.n:,}"


def check_headers(answer: httpx.Response) -> None:
    for name, value in SECURITY_HEADERS.items():
        assert answer.headers[name] == value
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?! src=)", answer.text)


async def test_an_empty_server_says_how_to_begin(start: Serve) -> None:
    http = await start()
    answer = await http.get("/")
    assert answer.status_code == 200
    check_headers(answer)
    assert "No task yet" in answer.text
    assert "arcwise task new" in answer.text


@pytest.mark.parametrize("task", EACH, ids=[task.name for task in EACH])
async def test_every_figure_is_that_of_estimate(start: Serve, url: str, task: Task) -> None:
    counts = fill(url, task, EACH[task])
    result = estimate(task, counts, bands=True)
    http = await start()
    page = await settled(http, f"/tasks/{task.name}")
    shown = figures(page)
    assert set(expected(result)) <= shown
    headline = result.mean or result.direction
    assert headline is not None
    assert f'data-interval="{headline.interval_words()}"' in page
    # The overview shows the plain estimate, which has the same headline.
    assert {each for each in figures(await settled(http, "/")) if each[1] != "n"} <= shown


@pytest.mark.parametrize("high", [1e-300, 1e-160, 1e160, 1e308])
async def test_pages_of_a_task_in_any_unit(start: Serve, url: str, high: float) -> None:
    task = Task("delay", Interval(0, high), 1.0)
    fill(url, task, f"normal:{high / 3},{high / 9}")
    http = await start()
    for path in ("/", f"/tasks/{task.id}"):
        await settled(http, path)


async def test_a_task_that_cannot_be_drawn_leaves_the_others(
    start: Serve, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(url, DELAY, "normal:40,12")
    fill(url, HEADING, "normal:40,12")

    def drawn(estimate: Estimate) -> None:
        if estimate.task == DELAY.name:
            raise OverflowError

    monkeypatch.setattr("arcwise.server.pages.overview.small_chart", drawn)
    http = await start()
    page = await settled(http, "/")
    assert page.count("could not be computed") == 1
    assert HEADING.name in page


async def test_words_of_a_task_are_escaped(start: Serve, url: str) -> None:
    task = Task(HOSTILE, Interval(0, 1), 1.0, unit="<b>&", description=f'"{HOSTILE}')
    fill(url, task, "normal:0.5,0.1")
    admin = make_key(url, "admin")
    http = await start()
    for path in ("/", f"/tasks/{task.id}", f"/tasks/{task.id}/compare", "/operator", f"/?q={HOSTILE}"):
        page = await settled(http, path, headers=admin)
        assert "<script>" not in page
        assert "<b>" not in page
        assert html.escape(HOSTILE, quote=False)[:12] in page


@pytest.mark.slow
async def test_a_page_that_has_not_changed_is_not_sent_again(start: Serve, url: str) -> None:
    fill(url, DELAY, "normal:40,12")
    http = await start()
    for path in ("/", f"/tasks/{DELAY.id}", f"/tasks/{DELAY.id}/plan?half_width=0.5"):
        await settled(http, path)
        first = await http.get(path)
        tag = first.headers["ETag"]
        assert html.escape(tag) in first.text.replace("&#34;", "&quot;")  # for the script
        again = await http.get(path, headers={"If-None-Match": tag})
        assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
        check_headers(again)
        http.runtime.store().close_task(DELAY.id, int(time.time()))
        await asyncio.to_thread(http.runtime.refresh)
        changed = await http.get(path, headers={"If-None-Match": tag})
        assert changed.status_code == (304 if "plan" in path else 200)
        http.runtime.store().open_task(DELAY.id)
        await asyncio.to_thread(http.runtime.refresh)


async def test_browsers_get_pages_of_problems_and_programs_documents(start: Serve, url: str) -> None:
    fill(url, DELAY, "normal:40,12")
    http = await start()
    for path, status in (("/nothing", 404), ("/tasks/nothing", 404), (f"/tasks/{DELAY.id}?level=2", 422)):
        answer = await http.get(path)
        assert answer.status_code == status
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        check_headers(answer)
        assert "<h1>" in answer.text
        for accept in ("*/*", "application/json", "text/html;q=0, */*"):
            answer = await http.get(path, headers={"Accept": accept})
            assert answer.status_code == status
            assert answer.headers["Content-Type"] == "application/problem+json"
    answer = await http.post("/", content=b"x")
    assert answer.status_code == 405
    assert (await http.head("/")).status_code == 200


async def test_a_reader_sees_their_own_tasks(start: Serve, url: str) -> None:
    for task, population in EACH.items():
        fill(url, task, population)
    some, ingest = make_key(url, "read", tasks=[DELAY.id]), make_key(url, "ingest")
    http = await start()
    for path in ("/", f"/tasks/{DELAY.id}?level=0.9", "/operator"):
        answer = await http.get(path)
        assert answer.status_code == 401
        check_headers(answer)
        assert DELAY.name not in answer.text.replace(path, "")
        assert f'name="next" value="{path}"' in answer.text
        assert (await http.get(path, headers={"Accept": "*/*"})).json()["status"] == 401
        assert (await http.get(path, headers=ingest)).status_code == 403
    page = await settled(http, "/", headers=some)
    assert (DELAY.id in page, HEADING.id in page) == (True, False)
    assert "/operator" not in page
    page = await settled(http, f"/tasks/{DELAY.id}", headers=some)
    assert HEADING.id not in page
    for other in (HEADING.id, HEADING.name, "0" * 64, "nothing"):
        answer = await http.get(f"/tasks/{other}", headers=some)
        assert answer.status_code == 404
        assert HEADING.id not in answer.text.replace(f"/tasks/{other}", "")
    assert (await http.get("/operator", headers=some)).status_code == 403
    assert (await http.get("/login?next=//evil.example")).text.count('value="/"') == 1


async def test_a_session_opens_pages_and_ends(start: Serve, url: str) -> None:
    fill(url, DELAY, "normal:40,12")
    secret = make_key(url, "read")["Authorization"].partition(" ")[2]
    http = await start()
    wrong = await http.post("/login", data={"key": f"{secret}0", "next": "/?q=a"}, headers=SAME)
    assert wrong.status_code == 401
    check_headers(wrong)
    assert 'role="alert"' in wrong.text
    assert secret not in wrong.text
    assert 'name="next" value="/?q=a"' in wrong.text
    right = await http.post("/login", data={"key": secret, "next": "/?q=a"}, headers=SAME)
    assert (right.status_code, right.headers["Location"]) == (303, "/?q=a")
    assert "Log out" in (await http.get("/")).text
    assert (await http.post("/logout", headers={"Sec-Fetch-Site": "cross-site"})).status_code == 403
    assert (await http.post("/logout", headers=SAME)).status_code == 303
    assert (await http.get("/")).status_code == 401


async def test_an_admin_manages_tasks_and_keys(start: Serve, url: str) -> None:
    fill(url, DELAY, "normal:40,12")
    admin = make_key(url, "admin") | SAME
    http = await start()
    http.headers.update(admin)

    async def post(path: str, fields: dict[str, Any]) -> httpx.Response:
        return await http.post(f"/operator/{path}", data=fields or {"none": ""})

    made = await post("tasks", {"task": str(HEADING.to_json()).replace("'", '"').replace("None", "null")})
    assert (made.status_code, made.headers["Location"]) == (303, "/operator?done=task")
    assert HEADING.id in http.runtime.catalogue.tasks
    wrong = await post("tasks", {"task": f"{HOSTILE}{{}}"})
    assert wrong.status_code == 422
    assert html.escape(HOSTILE)[:12] in wrong.text
    assert "<script>alert" not in wrong.text
    assert "is not the file of a valid task" in wrong.text
    for change, shown in (("close", "closed, "), ("open", "open")):
        answer = await post(f"tasks/{HEADING.id}/{change}", {})
        assert answer.status_code == 303
        assert shown in (await http.get(answer.headers["Location"])).text
    assert (await post(f"tasks/{'0' * 64}/close", {})).status_code == 404

    key = await post("keys", {"label": HOSTILE, "scope": "read", "tasks": [DELAY.id, HEADING.id]})
    assert key.status_code == 200
    assert key.headers["Cache-Control"] == "no-store"
    assert "Content-Encoding" not in key.headers
    check_headers(key)
    (secret,) = set(re.findall(r"arcwise_read_\w+", key.text))
    page = (await http.get("/operator")).text
    assert secret not in page
    assert html.escape(HOSTILE)[:12] in page
    name = secret.split("_")[2]
    good_for = {each.id: each.tasks for each in http.runtime.gate.keys}
    assert good_for[name] == (DELAY.id, HEADING.id)
    assert (await post("keys", {"label": "x", "scope": "root"})).status_code == 422
    assert (await post(f"keys/{name}/revoke", {})).status_code == 303
    assert "revoked, " in (await http.get("/operator")).text
    for word in ("make task", "close task", "open task", "make read key", "revoke key"):
        assert word in page or word == "revoke key"


async def test_forms_of_other_pages_change_nothing(start: Serve, url: str) -> None:
    fill(url, DELAY, "normal:40,12")
    admin, read = make_key(url, "admin"), make_key(url, "read")
    secret = admin["Authorization"].partition(" ")[2]
    http = await start()
    fields = {"label": "x", "scope": "admin", "task": "{}"}
    paths = ("tasks", f"tasks/{DELAY.id}/close", f"tasks/{DELAY.id}/open", "keys", "keys/0/revoke")
    for path in paths:
        assert (await http.post(f"/operator/{path}", data=fields, headers=SAME)).status_code == 401
        assert (await http.post(f"/operator/{path}", data=fields, headers=read | SAME)).status_code == 403
    await http.post("/login", data={"key": secret}, headers=SAME)
    for given in (
        {},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:8000"},
        {"Origin": "http://127.0.0.1:9000"},
        {"Origin": "null"},
    ):
        for path in paths:
            assert (await http.post(f"/operator/{path}", data=fields, headers=given)).status_code == 403, (
                given
            )
    assert len(http.runtime.store().keys()) == 2
    assert not http.runtime.catalogue.closed


async def test_live_figures_are_for_operators(start: Serve, url: str) -> None:
    fill(url, DELAY, "normal:40,12")
    http = await start()
    page = await http.get("/operator")
    assert page.status_code == 200
    assert "<form" not in page.text
    # Today's (none, just after midnight), and all.
    assert re.search(r'>(1,000|0)</td>\s*<td class="n">3,000</td>', page.text)
    assert (await http.post("/operator/keys", data={"scope": "admin"}, headers=SAME)).status_code == 401
    await http.stop()
    http = await start(min_reports=5_000)
    assert (await http.get("/operator")).status_code == 401
    overview = await settled(http, "/")
    assert "waiting for 5,000 reports" in overview
    assert "3,000" not in overview
    own = await settled(http, f"/tasks/{DELAY.id}")
    assert "Waiting for reports." in own
    assert "3,000" not in own
    assert "fewer than 5,000 reports" in own
    assert not figures(own)


async def test_a_report_that_is_withheld_changes_no_page_of_readers(start: Serve, url: str) -> None:
    fill(url, DELAY, "normal:40,12", epochs=1)
    paths = ("/", f"/tasks/{DELAY.id}", f"/tasks/{DELAY.id}/fit", f"/tasks/{DELAY.id}/plan?half_width=0.5")

    async def pages() -> list[tuple[str, str]]:
        http = await start(min_reports=5_000)
        texts = [await settled(http, path) for path in paths]
        tags = [(await http.get(path)).headers["ETag"] for path in paths]
        await http.stop()
        return [*zip(tags, texts, strict=True)]

    before = await pages()
    fill(url, DELAY, "normal:40,12", reports=7, epochs=1, seed=2)
    assert await pages() == before


async def test_a_dashboard_of_a_store_manages_nothing(url: str) -> None:
    fill(url, DELAY, "normal:40,12")
    make_key(url, "admin")

    app = create_dashboard(Settings(STORED_TASKS, store=url))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000", headers=BROWSER) as http,
    ):
        assert "/operator" not in await settled(http, "/")
        assert ("n", "n", "3,000") in figures(await settled(http, f"/tasks/{DELAY.id}"))
        assert (await http.get("/operator")).status_code == 404
        assert (await http.get("/login")).headers["Location"] == "/"
        assert (await http.post("/operator/keys", data={"scope": "admin"})).status_code == 503


async def test_files_are_kept_for_ever_under_the_hash_of_what_they_are(start: Serve) -> None:
    http = await start()
    links = re.findall(r'(?:href|src)="(/static/[^"]+)"', (await http.get("/")).text)
    assert len(links) == 3
    for link in links:
        for coding in ("identity", "gzip"):
            answer = await http.get(link, headers={"Accept-Encoding": coding})
            assert answer.status_code == 200
            assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
            assert answer.headers.get("Content-Encoding", "identity") == coding
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert (await http.get("/static/0000000000000000/arcwise.css")).status_code == 404
    assert (await http.get("/static/../pages.css")).status_code == 404


async def test_a_page_of_a_million_reports_is_light(start: Serve, url: str) -> None:
    fill(url, DELAY, "normal:40,12", reports=1_000_000, epochs=28)
    http = await start()
    page = await settled(http, f"/tasks/{DELAY.id}")
    whole = 0
    for path in (f"/tasks/{DELAY.id}", *re.findall(r'(?:href|src)="(/static/[^"]+)"', page)):
        async with http.stream("GET", path, headers={"Accept-Encoding": "gzip"}) as answer:
            body = b"".join([part async for part in answer.aiter_raw()])
        assert answer.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(body)
        whole += len(body)
    assert whole < 100_000


async def test_many_tasks_are_paged_and_searched_and_do_not_hold_the_page_up(
    start: Serve, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "PATIENCE", 0.0)
    tasks = [Task(f"number {number}", Interval(0, 1), 1.0) for number in range(101)]
    with closing(open_store(url)) as store:
        store.register(tasks)

    http = await start()
    first = await http.get("/")
    assert 'class="computing"' in first.text
    assert '<noscript><meta http-equiv="refresh"' in first.text
    assert 'data-refresh="0.3"' in first.text
    assert "Page 1 of 3" in first.text
    last = await settled(http, "/?page=3")
    assert [task.name in last for task in (tasks[0], tasks[100])] == [False, True]
    found = await settled(http, "/?q=NUMBER+77")
    assert "1 of 101 tasks match." in found
    assert len(re.findall("<article", found)) == 1
    assert "Nothing found" in (await http.get("/?q=nothing-like-it")).text
    for odd in ("/?page=0", "/?page=-1", "/?page=x", "/?page=" + "9" * 30):
        assert (await http.get(odd)).status_code == 200


@pytest.mark.slow
async def test_every_link_of_a_task_leads_somewhere(
    start: Serve, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_pages, "PATIENCE", 0.0)
    for task in (DELAY, HEADING):
        fill(url, task, EACH[task])

    http = await start()
    for task in (DELAY, HEADING):
        page = await settled(http, f"/tasks/{task.id}?level=0.9")
        links = {html.unescape(link) for link in re.findall(r'href="(/[^"]*)"', page)}
        assert any("picture.svg" in link and "level=0.9" in link for link in links)
        for link in sorted(links):
            answer = await http.get(link)
            assert answer.status_code == 200, (link, answer.text)


async def test_code_on_a_page_is_code_whatever_the_task_is_called(start: Serve) -> None:
    task = Task('it\'s "a" {name}', Circle(24, step=1), 1.0, unit="'\"")
    http = await start()
    http.runtime.store().register([task])
    await asyncio.to_thread(http.runtime.refresh)
    query = "?from=2026-11-01&level=0.9&share=3:9&origin=0"
    pages = [await settled(http, f"/tasks/{task.id}{sent}") for sent in ("", query)]
    found = re.findall(r"<pre[^>]*><code>(.*?)</code>", "".join(pages), re.DOTALL)
    blocks = [html.unescape(each) for each in found]
    python = [each for each in blocks if "import" in each]
    assert len(python) == 3
    for each in python:
        compile(each, "a block of a page", "exec")
    assert repr(task.name) in python[0]
    assert "start='2026-11-01', level=0.9, between=[(3.0, 9.0)], origin=0.0" in python[2]


async def test_a_comparison_a_fit_test_and_a_plan_are_computed_on_demand(start: Serve, url: str) -> None:
    fill(url, DELAY, "normal:40,12", reports=9_000)
    other = Task("later", DELAY.domain, 1.0, unit="min")
    fill(url, other, "normal:60,12", seed=2)
    http = await start()
    page = await settled(http, f"/tasks/{DELAY.id}/compare?against={other.id}")
    assert "The mean differs by" in page
    assert ("mean", "value") in {each[:2] for each in figures(page)}
    same = await http.get(f"/tasks/{DELAY.id}/compare")
    assert "No report may be in both samples" in same.text or "must be given" in same.text
    fit = f"/tasks/{DELAY.id}/fit"
    assert "Fits" in await settled(http, fit)
    page = await settled(http, f"{fit}?reports_per_device=30&memoised=true")
    assert "tested as 300 reports" in page
    assert 'value="30"' in page
    assert "must be above 1 with memoised" in (await http.get(f"{fit}?memoised=true")).text
    plan = await settled(http, f"/tasks/{DELAY.id}/plan?half_width=0.5")
    assert "more reports" in plan
    assert "must be a number above 0" in (await http.get(f"/tasks/{DELAY.id}/plan?half_width=x")).text


async def test_reports_that_do_not_fit_are_a_state(start: Serve, url: str) -> None:
    fill(url, DELAY, "normal:40,12")
    with closing(open_store(url)) as store:
        codes = pack_codes([7] * 500, code_width(DELAY.mechanism.kernel.codes))
        store.add([Batch(bytes.fromhex(DELAY.id), b"1" * 16, DELAY.epoch(time.time()) - 1, codes)])

    http = await start()
    assert "reports do not fit" not in await settled(http, f"/tasks/{DELAY.id}")
    await settled(http, "/")  # when there is time, tests cover each task of an overview
    for _ in range(300):
        if "reports do not fit" in await settled(http, f"/tasks/{DELAY.id}"):
            break
        await asyncio.sleep(0.1)
    assert "reports do not fit, unless answers are repeated" in await settled(http, "/")
    assert "Does not fit" in await settled(http, f"/tasks/{DELAY.id}/fit")


@pytest.mark.parametrize("task", [DELAY, HEADING, SINGLE], ids=["interval", "circle", "value"])
async def test_pages_come_in_any_order(start: Serve, url: str, task: Task) -> None:
    fill(url, task, EACH[task])
    own = f"/tasks/{task.id}"
    http = await start()
    query = "?half_width=1"
    for path in (f"{own}/fit", "/", own, f"{own}/plan{query}", f"{own}/compare", f"{own}/fit", "/", own):
        await settled(http, path)


async def test_units_and_origins_are_written_as_people_do(start: Serve, url: str) -> None:
    for task in (DELAY, HEADING):
        fill(url, task, EACH[task])

    http = await start()
    page = await settled(http, f"/tasks/{HEADING.id}")
    # In charts, a separate worker draws the pictures and their tables.
    text = html.unescape(re.sub(r"<[^>]+>", "", re.sub(r"(?s)<figure.*?</figure>", "", page)))
    assert "Values on a circle of 360°." in text
    assert not re.search(r"\d\s°", text)
    assert re.search(r"Quantiles, counted upwards from [\d.]+°", text)
    text = html.unescape(await settled(http, f"/tasks/{DELAY.id}"))
    assert "from 0 to 180 min" in text
    assert "\N{NO-BREAK SPACE}min" in text
    assert "origin" not in text.partition("Over time")[0]


async def test_the_planner_proposes_half_of_what_the_interval_is_now(start: Serve, url: str) -> None:
    mean = estimate(DELAY, fill(url, DELAY, "normal:40,12")).mean
    assert mean is not None
    assert mean.low is not None
    assert mean.high is not None
    half = (mean.high - mean.low) / 4
    http = await start()
    for path in (f"/tasks/{DELAY.id}", f"/tasks/{DELAY.id}/plan?half_width=0.1"):
        page = await settled(http, path)
        (proposed,) = re.findall(r'name="half_width"[^>]*placeholder="([^"]+)"', page)
        assert float(proposed) == pytest.approx(half, rel=0.2)


async def test_a_page_waits_for_few_of_a_visitor_who_opens_hundreds(start: Serve) -> None:
    http = await start(open=True)
    own = make_key(http.app.state.runtime.settings.store, "read")
    http.app.state.runtime.refresh()
    pages = http.app.state.runtime.pages
    async with pages._rendering:
        hog = [asyncio.create_task(http.get("/login")) for _ in range(40)]
        done: set[asyncio.Task[httpx.Response]] = set()
        while len(done) < 28:
            done, _ = await asyncio.wait(hog, timeout=30, return_when=asyncio.FIRST_COMPLETED)
            assert done
            await asyncio.sleep(0)
        nothing = await http.get("/nothing")
        wrong = await http.post("/login", data={"key": "wrong"}, headers=SAME)
        late = asyncio.create_task(http.get("/", headers=own))
    assert (await late).status_code == 200
    assert nothing.status_code == 404
    assert nothing.json()["type"] == "urn:arcwise:problem:not-found"  # there is no room for its page
    assert (wrong.status_code, wrong.json()["type"]) == (401, "urn:arcwise:problem:key-unknown")
    answers = await asyncio.gather(*hog)
    assert Counter(each.status_code for each in answers) == {200: 12, 503: 28}
    refused = next(each for each in answers if each.status_code == 503)
    assert refused.json()["type"] == "urn:arcwise:problem:estimates-busy"
    assert refused.headers["retry-after"] == "2"
    assert (await http.get("/login")).status_code == 200
    assert not pages._of_reader


class Work:
    """Results that are computed when a test allows it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.begun: list[str] = []
        self.go = asyncio.Event()
        self.fails = False
        self.kind = "store-busy"

    def wanted(self, name: str, rank: int = 0) -> Wanted:
        async def make() -> str:
            self.begun.append(name)
            await self.go.wait()
            if self.fails:
                raise Problem(503, self.kind, "Too much.")
            return f"{name} {len(self.begun)}"

        return Wanted(name, make, rank)


async def test_a_result_is_waited_for_briefly_and_computed_once() -> None:
    work = Work()
    later = Later(lambda: work.now)
    assert await later.get([work.wanted("a")], 0.0) == [None]
    found = await asyncio.gather(*(later.get([work.wanted("a"), work.wanted("b")], 0.0) for _ in range(5)))
    assert found == [[None, None]] * 5
    work.go.set()
    assert await later.get([work.wanted("a"), work.wanted("b")], 9.0) == ["a 1", "b 2"]
    assert work.begun == ["a", "b"]
    # Shown again for ten seconds; then the old one is shown until the new one is ready.
    work.now = 9.0
    assert await later.get([work.wanted("a")], 9.0) == ["a 1"]
    work.now = 11.0
    work.go.clear()
    assert await later.get([work.wanted("a")], 9.0) == ["a 1"]
    work.go.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert await later.get([work.wanted("a")], 0.0) == ["a 3"]
    assert later.peek("a") == "a 3"
    assert later.peek("c") is None
    # But not for ever: its reports may have been deleted.
    work.now = 11.0 + 129.0
    work.go.clear()
    assert await later.get([work.wanted("a")], 0.0) == ["a 3"]
    work.now = 11.0 + 131.0
    assert await later.get([work.wanted("a")], 0.0) == [None]
    work.go.set()
    assert await later.get([work.wanted("a")], 9.0) == ["a 4"]


async def test_what_an_overview_wants_waits_for_what_a_page_wants() -> None:
    work = Work()
    later = Later(lambda: work.now)
    await later.get([work.wanted(name, 1) for name in "abc"], 0.0)
    await asyncio.sleep(0)
    await later.get([work.wanted("page")], 0.0)
    work.go.set()
    await later.get([work.wanted("c", 1)], 9.0)
    assert work.begun == ["a", "page", "b", "c"]


async def test_a_result_that_failed_is_tried_again() -> None:
    work = Work()
    work.fails = True
    work.go.set()
    later = Later(lambda: work.now)
    with pytest.raises(Problem, match="Too much"):
        await later.get([work.wanted("a")], 9.0)
    work.now, work.fails = 2.0, False
    assert await later.get([work.wanted("a")], 9.0) == ["a 2"]


async def test_that_there_is_no_report_is_asked_again_after_a_second() -> None:
    work = Work()
    work.go.set()
    later = Later(lambda: work.now)
    wanted = replace(work.wanted("a"), is_empty=lambda result: result == "a 1")
    assert await later.get([wanted], 9.0) == ["a 1"]
    assert await later.get([wanted], 9.0) == ["a 1"]
    work.now = 1.5
    assert await later.get([wanted], 9.0) == ["a 2"]
    work.now = 3.0
    assert await later.get([wanted], 9.0) == ["a 2"]


async def test_where_too_many_ask_the_last_figures_stay() -> None:
    work = Work()
    work.go.set()
    later = Later(lambda: work.now)
    assert await later.get([work.wanted("a")], 9.0) == ["a 1"]
    work.fails, work.kind, work.now = True, "estimates-busy", 60.0
    assert await later.get([work.wanted("a"), work.wanted("b")], 9.0) == ["a 1", None]
    work.fails = False
    assert (await later.get([work.wanted("b")], 9.0))[0]


async def test_results_and_what_waits_are_bounded() -> None:
    work = Work()
    later = Later(lambda: work.now)
    for reader in range(5):
        await later.get([work.wanted(f"{reader} {number}") for number in range(100)], 0.0, str(reader))
    work.go.set()
    while later._waiting:
        await asyncio.sleep(0)
    assert len(work.begun) == 256
    assert {f"{reader} 0" for reader in range(5)} <= set(work.begun)
    # The last of the first four readers made room for the fifth, and of each at most 64 wait.
    assert not {"0 63", "0 64", "3 63", "4 64"} & set(work.begun)
    assert len(later._kept) == 64
