"""Reports that arrive complete take a short path around ASGI, with the same checks, answers and order."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from arcwise.domains import Interval
from arcwise.oblivious.binary_http import Request, decode_response, encode_request, padded
from arcwise.oblivious.messages import REQUEST_MEDIA_TYPE, encapsulate
from arcwise.server.collect.gateway_keys import GatewayKeyFile
from arcwise.server.collect.ingest import GATEWAY_PATH
from arcwise.server.process.connections import bounded_protocol
from arcwise.server.settings import ProcessSettings
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE
from tests.support.reports import body_of
from tests.support.server_processes import serving
from tests.support.sockets import connect, rest
from tests.support.transports import Transport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from pathlib import Path

    from tests.support.apps import Serve

    Dial = Callable[..., Awaitable["Connection"]]

pytestmark = pytest.mark.anyio

TASK = Task("delay", Interval(0, 1), 1.0)
OTHER = Task("speed", Interval(0, 2), 1.0)
PATH = f"/v1/tasks/{TASK.id}/reports"


def body(task: Task = TASK, codes: bytes = b"\3", days: int = 0) -> bytes:
    return body_of(task, codes, epoch=task.epoch(time.time()) + days)


def post(content: bytes, *, path: str = PATH, media: str = MEDIA_TYPE, fields: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {media}\r\n{fields}"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


class Connection:
    """A connection to an app on the running loop; it counts the tasks and the timers that it uses."""

    def __init__(self, app: Any) -> None:
        loop = asyncio.get_running_loop()
        self.app = app
        self.tasks, self.timers = 0, 0
        connection = self

        class Loop:
            time = staticmethod(loop.time)
            call_soon = staticmethod(loop.call_soon)

            @staticmethod
            def create_task(steps: Coroutine[Any, Any, None], **options: Any) -> asyncio.Task[None]:
                connection.tasks += 1
                return loop.create_task(steps, **options)

            @staticmethod
            def call_later(*arguments: Any) -> asyncio.TimerHandle:
                connection.timers += 1
                return loop.call_later(*arguments)

        kind = bounded_protocol(ProcessSettings(), taker=app.taker)
        config = uvicorn.Config(app, http=kind, ws="none", access_log=False, log_config=None)
        self.transport = Transport()
        self.protocol: Any = kind(config=config, server_state=ServerState(), app_state={}, _loop=Loop())  # type: ignore[arg-type]
        self.protocol.connection_made(self.transport)

    def receive(self, data: bytes) -> None:
        self.protocol.data_received(data)

    def counted(self) -> int:
        return int(self.app.state.runtime.store().counts(TASK).sum())

    async def answers(self, number: int = 1, *, more: bool = False) -> list[int]:
        """Wait for this many answers, and for the end of the last unless more follow; return statuses."""
        found: list[bytes] = []
        for _ in range(10_000):
            found = self.transport.written.split(b"HTTP/1.1 ")[1:]
            if len(found) >= number and (more or not self.protocol._is_busy()):
                break
            await asyncio.sleep(0.001)
        return [int(answer[:3]) for answer in found]


@pytest.fixture
async def dial(serve: Serve) -> AsyncIterator[Dial]:
    """Return a coroutine function that starts an app and a connection to it, which ends with the test."""
    made = []

    async def dialled(**options: Any) -> Connection:
        made.append(Connection((await serve([TASK], **options)).app))
        return made[-1]

    yield dialled
    for each in made:
        each.protocol.connection_lost(None)


async def test_it_takes_no_task_and_a_connection_keeps_one_timer(dial: Dial) -> None:
    connection = await dial()
    for _ in range(20):
        connection.transport.written = b""
        connection.receive(post(body()))
        assert await connection.answers() == [204]
        assert b'\r\nnel: {"max_age":0}\r\n' in connection.transport.written
    assert connection.tasks == 0
    # One timer each: for the first head, for a shorter pause after it, and for all clients that do not read.
    assert connection.timers <= 3
    assert connection.counted() == 20


async def test_a_gateway_takes_no_task_either(dial: Dial, tmp_path: Path) -> None:
    keys = GatewayKeyFile(tmp_path / "gateway.keys")
    config = keys.make().config
    fields = ((b"content-type", MEDIA_TYPE.encode()),)
    inside = [
        Request(b"POST", b"https", b"x", PATH.encode(), fields, content)
        for content in (body(), body(), b"SECRET")
    ]
    sent = [encapsulate(config, padded(encode_request(request))) for request in inside]
    connection = await dial(gateway_keys=keys.path)
    for each in sent:
        connection.receive(post(each.message, path=GATEWAY_PATH, media=REQUEST_MEDIA_TYPE))
    connection.receive(post(bytes(600), path=GATEWAY_PATH, media=REQUEST_MEDIA_TYPE))
    assert await connection.answers(4) == [200, 200, 200, 400]
    answers = connection.transport.written.split(b"HTTP/1.1 ")[1:4]
    statuses = [
        decode_response(each.open_answer(answer.partition(b"\r\n\r\n")[2])).status
        for each, answer in zip(sent, answers, strict=True)
    ]
    assert statuses == [204, 204, 400]
    assert connection.tasks == 2  # for the refused requests
    assert connection.counted() == 2


@pytest.mark.parametrize("cut", [40, -1], ids=["in the head", "in the body"])
async def test_a_report_in_two_parts_is_served(dial: Dial, cut: int) -> None:
    connection = await dial()
    data = post(body())
    connection.receive(data[:cut])
    await asyncio.sleep(0)
    connection.receive(data[cut:])
    assert await connection.answers() == [204]
    assert connection.tasks == (cut == -1)
    assert connection.counted() == 1


async def test_reports_that_come_ahead_are_answered_in_their_order(dial: Dial) -> None:
    connection = await dial()
    live = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    bad = post(b"\0")
    connection.receive(post(body()) + bad + post(body()) + live + post(body())[:-1])
    assert await connection.answers(4, more=True) == [204, 400, 204, 200]
    replayed = body()
    connection.receive(replayed[-1:])
    connection.receive(post(replayed) + post(replayed))
    assert (await connection.answers(7))[4:] == [204, 204, 204]
    assert connection.counted() == 4


async def test_a_connection_that_is_to_close_is_closed_after_the_answer(dial: Dial) -> None:
    asked = await dial()
    stopping = Connection(asked.app)
    asked.receive(post(body(), fields="Connection: close\r\n"))
    stopping.receive(post(body()))
    stopping.protocol.shutdown()  # as a server that stops calls it
    for connection in (asked, stopping):
        assert await connection.answers() == [204]
        assert connection.transport.ended == "closed"
        assert b"connection: close" in connection.transport.written


async def test_a_sender_that_is_gone_is_not_written_to(dial: Dial) -> None:
    connection = await dial()
    connection.receive(post(body()))
    connection.protocol.connection_lost(None)
    while connection.counted() == 0:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    assert connection.transport.written == b""


async def test_a_request_counts_once_towards_its_limit(dial: Dial) -> None:
    connection = await dial(requests_per_minute_per_address=3)
    found = []
    for _ in range(4):
        connection.transport.written = b""
        connection.receive(post(body()))
        found += await connection.answers()
    assert found == [204, 204, 204, 429]


async def test_a_defect_is_an_internal_error(dial: Dial, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = await dial()

    def fail(*_: object) -> None:
        raise RuntimeError("SECRET")

    monkeypatch.setattr(connection.app.state.runtime.gate, "check", fail)
    connection.receive(post(body()))
    assert await connection.answers() == [500]
    assert b"SECRET" not in connection.transport.written


async def test_middleware_sees_reports(dial: Dial) -> None:
    connection = await dial(allow_origins=["https://app.example"])
    connection.receive(post(body()))
    assert await connection.answers() == [204]
    assert connection.tasks == 1


@pytest.mark.slow
def test_both_ways_give_the_same_answers(tmp_path: Path) -> None:
    TASK.save(tmp_path / "delay.json")
    requests = {
        "replayed": post(body()),
        "another type": post(body(), media="text/plain"),
        "a parameter": post(body(), media=f"{MEDIA_TYPE}; charset=x"),
        "not a batch": post(b"\x95\1"),
        "nothing": post(b""),
        "another task": post(body(OTHER)),
        "an unknown task": post(body(), path=PATH.replace(TASK.id, OTHER.id)),
        "a bad code": post(body(codes=b"\xff")),
        "a late epoch": post(body(days=-400)),
        "an early epoch": post(body(days=400)),
        "too many codes": post(body(codes=bytes(2000))),
        "too large": post(body(codes=bytes(9000))),
        "a query": post(body(), path=f"{PATH}?a=b"),
        "100-continue": post(body(), fields="Expect: 100-continue\r\n"),
    }
    with serving(tmp_path, "--open", "--max-batch-codes", "1000", "--max-body-bytes", "8000") as (url, _):
        for name, data in requests.items():
            answers = []
            closing = data.replace(b"Host: x", b"Host: x\r\nConnection: close")
            for parts in ([closing], [closing[:-1], closing[-1:]]):
                with connect(url) as connection:
                    for part in parts:
                        connection.sendall(part)
                        time.sleep(0.02)
                    lines = rest(connection).replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"").split(b"\r\n")
                answers.append([line for line in lines if not line.startswith(b"date:")])
            assert answers[0] == answers[1], name
