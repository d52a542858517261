"""Tasks over HTTP: made, listed, closed and opened with an admin key, in every worker."""

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from arcwise.domains import Circle, Interval
from arcwise.errors import StoreError
from arcwise.server.routes import tasks
from arcwise.server.settings import STORED_TASKS
from arcwise.server.store import open_store
from arcwise.tasks import Task
from tests.support.apps import Serve, add_key
from tests.support.postgres import fresh_schema
from tests.support.reports import report

pytestmark = pytest.mark.anyio

DELAY = Task("delay", Interval(0, 1), 1.0)
HEADING = Task("heading", Circle(360), 1.0)


@pytest.fixture
def admin(tmp_path: Path) -> dict[str, str]:
    """Return the headers of an admin whose key is in the store of `serve`."""
    return {"authorization": f"Bearer {add_key(f'sqlite:///{tmp_path}/app.db', 'admin')}"}


def kind(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    assert "SECRET" not in answer.text
    return answer.status_code, answer.json()["type"].removeprefix("urn:arcwise:problem:")


async def test_a_task_is_made_closed_and_opened(serve: Serve, admin: dict[str, str]) -> None:
    http = await serve([DELAY])
    assert kind(await report(http, HEADING)) == (404, "unknown-task")
    answer = await http.post("/v1/tasks", json=HEADING.to_json(), headers=admin)
    assert (answer.status_code, answer.json()) == (201, {"task_id": HEADING.id, "closed": None})
    assert answer.headers["location"] == f"/v1/tasks/{HEADING.id}"
    again = await http.post("/v1/tasks", json=HEADING.to_json(), headers=admin)
    assert again.status_code == 200
    assert (await report(http, HEADING)).status_code == 204

    for _ in range(2):
        closed = await http.post(f"/v1/tasks/{HEADING.id}/close", headers=admin)
        assert closed.status_code == 200
        assert abs(closed.json()["closed"] - time.time()) < 3600
    assert kind(await report(http, HEADING)) == (410, "task-closed")
    assert (await report(http, DELAY)).status_code == 204
    listed = (await http.get("/v1/tasks")).json()
    assert [task["name"] for task in listed["tasks"]] == ["delay", "heading"]
    assert listed["closed"] == {HEADING.id: closed.json()["closed"]}
    assert (await http.get(f"/v1/tasks/{HEADING.id}/estimate")).json()["n"] == 1

    opened = await http.post(f"/v1/tasks/{HEADING.id}/open", headers=admin)
    assert opened.json() == {"task_id": HEADING.id, "closed": None}
    assert (await report(http, HEADING)).status_code == 204
    assert (await http.get(f"/v1/tasks/{HEADING.id}/estimate")).json()["n"] == 2


async def test_two_open_tasks_of_one_name_are_refused(serve: Serve, admin: dict[str, str]) -> None:
    other = Task("delay", Interval(0, 2), 1.0)
    http = await serve([DELAY])
    refused = await http.post("/v1/tasks", json=other.to_json(), headers=admin)
    assert kind(refused) == (409, "name-taken")
    await http.post(f"/v1/tasks/{DELAY.id}/close", headers=admin)
    assert (await http.post("/v1/tasks", json=other.to_json(), headers=admin)).status_code == 201
    assert kind(await http.post(f"/v1/tasks/{DELAY.id}/open", headers=admin)) == (409, "name-taken")


async def test_workers_that_open_tasks_of_one_name_at_once_do_not_both(
    serve: Serve, admin: dict[str, str], tmp_path: Path
) -> None:
    third = Task("third", Interval(0, 1), 1.0)
    elsewhere = [Task("third", Interval(0, 2), 1.0), Task("delay", Interval(0, 2), 1.0)]
    http = await serve([DELAY])
    await http.post(f"/v1/tasks/{DELAY.id}/close", headers=admin)
    with contextlib.closing(open_store(f"sqlite:///{tmp_path / 'app.db'}")) as other_worker:
        other_worker.register(elsewhere)
        refused = await http.post("/v1/tasks", json=third.to_json(), headers=admin)
        assert kind(refused) == (409, "name-taken")
        for _ in range(2):
            refused = await http.post(f"/v1/tasks/{DELAY.id}/open", headers=admin)
            assert kind(refused) == (409, "name-taken")
        # Opening a task again under any name closes nothing.
        answer = await http.post(f"/v1/tasks/{elsewhere[0].id}/open", headers=admin)
        assert answer.status_code in (200, 404)
        opened = [each.task for each in other_worker.tasks() if each.closed is None]
    assert opened == elsewhere


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.name == "arcwise.server"]
    caplog.clear()
    return found


async def test_a_new_version_of_a_task_under_its_name_is_warned_about_at_the_start(
    serve: Serve, admin: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """A replaced file leaves both tasks in the store, and devices report to either."""
    heading = Task("heading", Circle(1), 1.0)
    newer, newest = Task("delay", Interval(0, 1), 2.0), Task("delay", Interval(0, 1), 3.0)
    await (await serve([DELAY, HEADING])).stop()
    assert warnings(caplog) == []
    http = await serve([newer])
    (warning,) = warnings(caplog)
    assert f"'delay' is {DELAY.id} and {newer.id}. " in warning
    assert "heading" not in warning
    assert "POST /v1/tasks/ID/close with an admin key" in warning
    assert (await report(http, DELAY)).status_code == 204
    assert (await report(http, newer)).status_code == 204
    assert (await http.post(f"/v1/tasks/{DELAY.id}/close", headers=admin)).status_code == 200
    await http.stop()
    await (await serve([newer])).stop()
    assert warnings(caplog) == []
    await serve([newest, heading])
    (warning,) = warnings(caplog)  # one line: a second line would only be counted
    assert f"'heading' is {HEADING.id} and {heading.id}; 'delay' is {newer.id} and {newest.id}. " in warning


async def test_a_server_without_any_task_is_warned_about(
    serve: Serve, admin: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    http = await serve(STORED_TASKS)
    (warning,) = warnings(caplog)
    assert "no task yet, so every report gets 404" in warning
    assert "--tasks" in warning
    assert "POST /v1/tasks" in warning
    assert kind(await report(http, HEADING)) == (404, "unknown-task")
    assert (await http.post("/v1/tasks", json=HEADING.to_json(), headers=admin)).status_code == 201
    await http.stop()
    await serve(STORED_TASKS)
    assert warnings(caplog) == []


async def test_of_two_tasks_of_one_name_at_the_same_moment_one_is_made(
    serve: Serve, admin: dict[str, str]
) -> None:
    same = [Task("same", Interval(0, high), 1.0) for high in (1, 2, 3)]
    http = await serve([DELAY])
    posts = [http.post("/v1/tasks", json=task.to_json(), headers=admin) for task in same]
    assert sorted(answer.status_code for answer in await asyncio.gather(*posts)) == [201, 409, 409]
    made = [task for task in same if (await http.get(f"/v1/tasks/{task.id}")).status_code == 200]
    assert len(made) == 1


async def test_keys_are_read_also_where_a_task_cannot_be(
    serve: Serve, admin: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "app.db"
    http = await serve([DELAY])
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO task (id, definition) VALUES (?, ?)", (bytes(32), b"SECRET"))
    answer = await http.post("/v1/tasks", json=HEADING.to_json(), headers=admin)
    assert kind(answer) == (503, "store-busy")
    with contextlib.closing(open_store(f"sqlite:///{path}")) as store:
        (key,) = store.keys()
        assert store.revoke_key(key.id, 1)
        with pytest.raises(StoreError, match=f"task {'00' * 32} in the store cannot be loaded"):
            store.tasks()
    with pytest.raises(StoreError, match="cannot be loaded"):
        http.runtime.refresh()
    assert kind(await http.post(f"/v1/tasks/{DELAY.id}/close", headers=admin)) == (401, "key-unknown")
    assert (await report(http, DELAY)).status_code == 204


async def test_what_is_no_task_is_refused(serve: Serve, admin: dict[str, str]) -> None:
    good: dict[str, Any] = HEADING.to_json()
    bad = [
        b"",
        b"SECRET",
        b"[" * 100_000,
        b"{}",
        b'{"SECRET": NaN}',
        httpx.Request("POST", "http://x", json=good | {"epsilon": 2.0}).content,
        httpx.Request("POST", "http://x", json=good | {"id": "SECRET"}).content,
    ]
    http = await serve([DELAY])
    for content in bad:
        assert kind(await http.post("/v1/tasks", content=content, headers=admin)) == (422, "invalid-task")
    for value in (b"0,", b"{},", b"[],", b'{"a":0},'):  # before it is parsed, which would take a second
        many = b"[" + value * (3_000_000 // len(value)) + b"0]"
        answer = await http.post("/v1/tasks", content=many, headers=admin)
        assert (answer.status_code, answer.json()["detail"]) == (
            422,
            "The body has more values than the file of any task.",
        )
    large = await http.post("/v1/tasks", content=bytes((8 << 20) + 1), headers=admin)
    assert kind(large) == (413, "too-large")
    for verb in ("close", "open"):
        unknown = await http.post(f"/v1/tasks/{HEADING.id}/{verb}", headers=admin)
        assert kind(unknown) == (404, "unknown-task")
    assert [task["name"] for task in (await http.get("/v1/tasks")).json()["tasks"]] == ["delay"]


async def test_other_workers_and_later_ones_have_what_one_was_told(
    serve: Serve, admin: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcwise.server.runtime.REFRESH_SECONDS", 0.01)
    one, two = await serve(STORED_TASKS), await serve(STORED_TASKS)
    assert (await two.get("/v1/tasks")).json() == {"tasks": [], "closed": {}}
    assert (await one.post("/v1/tasks", json=HEADING.to_json(), headers=admin)).status_code == 201
    while (await report(two, HEADING)).status_code == 404:
        await asyncio.sleep(0.01)
    assert (await report(two, HEADING)).status_code == 204
    assert (await one.post(f"/v1/tasks/{HEADING.id}/close", headers=admin)).status_code == 200
    # Immediately: the store refuses reports even if the other worker does not know of the closing yet.
    assert (await report(two, HEADING)).status_code == 410
    counted = (await one.get(f"/v1/tasks/{HEADING.id}/estimate")).json()["n"]
    for app in (one, two):
        await app.stop()
    later = await serve(STORED_TASKS)
    assert kind(await report(later, HEADING)) == (410, "task-closed")
    assert (await later.get(f"/v1/tasks/{HEADING.id}/estimate")).json()["n"] == counted == 2


@contextlib.contextmanager
def locked(url: str) -> Iterator[None]:
    """Hold the lock that every change of a store takes."""
    if url.startswith("sqlite"):
        with contextlib.closing(
            sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        ) as file:
            file.execute("BEGIN IMMEDIATE")
            yield
    else:
        with contextlib.closing(psycopg.connect(url)) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(7241, 'task'::regclass::oid::integer)")
            yield


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'app.db'}"
    else:
        with fresh_schema() as schema:
            yield schema


async def test_a_store_that_is_locked_holds_up_nobody_but_those_who_change_it(serve: Serve, url: str) -> None:
    admin = {"authorization": f"Bearer {add_key(url, 'admin')}"}
    closing, making = f"/v1/tasks/{DELAY.id}/close", "/v1/tasks"
    reading = ("/health/live", "/health/ready", "/v1/tasks", f"/v1/tasks/{DELAY.id}", "/metrics")
    http = await serve([DELAY], store=url)
    assert (await http.get(f"/v1/tasks/{DELAY.id}/estimate")).json()["n"] == 0
    with locked(url):
        changes = [
            asyncio.create_task(http.post(closing, headers=admin)),
            asyncio.create_task(http.post(making, json=HEADING.to_json(), headers=admin)),
        ]
        await asyncio.sleep(0.1)
        for path in (*reading, f"/v1/tasks/{DELAY.id}/estimate"):
            assert (await http.get(path)).status_code == 200
        assert not any(change.done() for change in changes)  # those give up after ten seconds
    assert [(await change).status_code for change in changes] == [200, 201]


async def test_a_change_that_waits_too_long_is_told_to_come_again(
    serve: Serve, admin: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcwise.server.store.sqlite.database.BUSY_SECONDS", 0.1)
    http = await serve([DELAY])
    with locked(f"sqlite:///{tmp_path / 'app.db'}"):
        answer = await http.post(f"/v1/tasks/{DELAY.id}/close", headers=admin)
        assert kind(answer) == (503, "store-busy")
        assert answer.headers["retry-after"] == "1"
    assert (await http.post(f"/v1/tasks/{DELAY.id}/close", headers=admin)).status_code == 200


@pytest.mark.slow
async def test_what_was_read_before_a_close_does_not_undo_it(
    serve: Serve, admin: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers read tasks every few seconds; one such read is delayed here until the task is closed."""
    http = await serve([DELAY])
    runtime = http.runtime
    store = runtime.store()
    read, go_on = threading.Event(), threading.Event()
    tasks = store.tasks

    def held_up() -> Any:
        found = tasks()
        if not read.is_set():
            read.set()
            go_on.wait(1)
        return found

    monkeypatch.setattr(store, "tasks", held_up)
    watching = asyncio.create_task(asyncio.to_thread(runtime.refresh))
    await asyncio.to_thread(read.wait)
    answer = await http.post(f"/v1/tasks/{DELAY.id}/close", headers=admin)
    go_on.set()
    await watching
    assert answer.json()["closed"] is not None
    assert (await http.get("/v1/tasks")).json()["closed"] == {DELAY.id: answer.json()["closed"]}


async def test_simultaneous_listings_make_each_text_once(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    text = tasks._text

    def slowly(task: Task) -> bytes:
        made.append(task.id)
        time.sleep(0.05)
        return text(task)

    monkeypatch.setattr(tasks, "_text", slowly)
    http = await serve([HEADING, DELAY])
    answers = await asyncio.gather(*(http.get("/v1/tasks") for _ in range(20)))
    assert [len(answer.json()["tasks"]) for answer in answers] == [2] * 20
    assert len(made) == len(set(made)) == 2
