"""Requests of readers begin in turns, and reports do not wait for them. Passes are counted, not time."""

import asyncio
from functools import partial
from typing import Any

import pytest
from starlette.types import ASGIApp

from arcwise.domains import Circle
from arcwise.server.collect.event_loop import IS_GONE, Turns
from arcwise.server.store import Outcome
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE, Batch
from tests.support.apps import Serve
from tests.support.reports import body_of

pytestmark = pytest.mark.anyio

HEADING = Task("heading", Circle(360), 2.0)
PASSES = 5
REPORTS = f"/v1/tasks/{HEADING.id}/reports"


def scope_of(method: str, path: str) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"server"), (b"content-type", MEDIA_TYPE.encode())],
        "client": ("10.0.0.1", 1234),
        "server": ("server", 80),
    }


async def call(app: ASGIApp, method: str, path: str, body: bytes = b"") -> int:
    """Make a request as a server does, without a client's steps in between; return its status."""
    scope = scope_of(method, path)
    status: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])

    await app(scope, receive, send)
    return status[0]


class Counting:
    """A store's writer that has counted a batch after some passes of the event loop."""

    waiting = waiting_bytes = 0

    async def add(self, _batch: Batch, _codes: int) -> Outcome:
        for _ in range(PASSES):
            await asyncio.sleep(0)
        return Outcome.COUNTED


@pytest.mark.parametrize("path", ["/v1/tasks", "/v1/tasks/unknown", "/openapi.json", "/nothing"])
async def test_a_report_waits_for_few_of_the_requests_that_came_before_it(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    http = await serve([HEADING])
    assert await call(http.app, "GET", path) in {200, 404}  # warms up what is made only once
    monkeypatch.setattr(http.runtime.ingest, "_writer", Counting())
    served: list[int] = []

    async def read() -> None:
        served.append(await call(http.app, "GET", path))

    readers = [asyncio.create_task(read()) for _ in range(500)]
    assert await asyncio.create_task(call(http.app, "POST", REPORTS, body_of(HEADING))) == 204
    assert len(served) <= 2 * PASSES
    await asyncio.gather(*readers)
    assert len(served) == 500
    monkeypatch.undo()


async def test_refused_reports_that_came_whole_are_answered_in_turn(serve: Serve) -> None:
    """A few in each pass; the refusals of thousands of connections would hold up others."""
    http = await serve([HEADING])
    answers: list[ASGIApp] = []
    for _ in range(100):
        http.runtime.ingest.take(HEADING.id, scope_of("POST", REPORTS), b"nothing", answers.append)
    answered: list[int] = []

    async def read(answer: ASGIApp) -> None:
        answered.append(await call(answer, "POST", REPORTS))

    reads = [asyncio.create_task(read(answer)) for answer in answers]
    most = 0
    while len(answered) < 100:
        before = len(answered)
        await asyncio.sleep(0)
        most = max(most, len(answered) - before)
    await asyncio.gather(*reads)
    assert answered == [400] * 100
    assert 1 < most <= 8


async def test_turns_come_in_order_one_in_each_pass() -> None:
    turns, begun = Turns(lambda: False), []

    async def wait(number: int) -> None:
        assert await turns.wait({})
        begun.append(number)

    waiting = [asyncio.create_task(wait(number)) for number in range(50)]
    await asyncio.sleep(0)
    waiting[3].cancel()
    most, passes = 0, 0
    while len(begun) < 49:
        before = len(begun)
        await asyncio.sleep(0)
        most, passes = max(most, len(begun) - before), passes + 1
        assert passes < 1000
    assert begun == [number for number in range(50) if number != 3]
    assert most == 1
    assert waiting[3].cancelled()
    await asyncio.gather(*(asyncio.create_task(wait(number)) for number in range(2)))


async def test_requests_whose_connections_have_ended_hold_nobody_up() -> None:
    turns, gone = Turns(lambda: False), set(range(1, 1000))
    scopes: list[dict[str, Any]] = [{IS_GONE: partial(gone.__contains__, number)} for number in range(1001)]
    waiting = [asyncio.create_task(turns.wait(scope)) for scope in scopes]
    passes = 0
    while not waiting[1000].done():
        await asyncio.sleep(0)
        passes += 1
    assert passes < 50
    assert [number for number, each in enumerate(waiting) if await each] == [0, 1000]


async def test_while_reports_wait_for_the_store_turns_come_with_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paused: list[float] = []

    loop = asyncio.get_running_loop()
    later = loop.call_later

    def watched(delay: float, *args: Any) -> Any:
        paused.append(delay)
        return later(delay, *args)

    monkeypatch.setattr(loop, "call_later", watched)
    turns = Turns(lambda: len(paused) < 3)
    await asyncio.gather(*(turns.wait({}) for _ in range(10)))
    assert paused == [0.001] * 3


async def test_refusals_leave_the_store_time_for_a_commit(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With thirty thousand together, at eight per millisecond, a report once waited more than a second."""
    paused: list[float] = []
    http = await serve([HEADING])
    ingest = http.runtime.ingest
    loop = asyncio.get_running_loop()
    later = loop.call_later

    def watched(delay: float, *args: Any) -> Any:
        paused.append(delay)
        return later(delay, *args)

    monkeypatch.setattr(type(ingest), "waiting", property(lambda _self: paused.count(0.005) < 2))
    monkeypatch.setattr(loop, "call_later", watched)
    answers: list[ASGIApp] = []
    for _ in range(20):
        ingest.take(HEADING.id, scope_of("POST", REPORTS), b"nothing", answers.append)
    statuses = await asyncio.gather(*(call(answer, "POST", REPORTS) for answer in answers))
    monkeypatch.undo()
    assert statuses == [400] * 20
    await http.stop()
    assert paused.count(0.005) == 2


def test_an_app_can_go_on_in_another_loop() -> None:
    turns = Turns(lambda: False)
    for _ in range(3):
        asyncio.run(asyncio.wait_for(turns.wait({}), 60))  # the loop ends before the next turn
