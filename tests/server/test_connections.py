"""The HTTP protocol alone, on a clock that a test moves: bounds on heads, total deadlines, refusals."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import weakref
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from arcwise.server.process.connections import bounded_protocol
from arcwise.server.process.lanes import STANDING
from arcwise.server.settings import ProcessSettings
from tests.support.transports import Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

pytestmark = pytest.mark.anyio

BOUNDS = ProcessSettings(header_seconds=10.0, body_seconds=30.0)
LONGEST = 32 << 10
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Timer:
    def __init__(self, when: float, call: Callable[[], object]) -> None:
        self.when = when
        self.call = call

    def cancel(self) -> None:
        self.when = float("inf")


class Loop:
    """A clock that a test moves, and the tasks that were started."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []
        self.soon: deque[Callable[[], object]] = deque()
        self.started = 0

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[..., object], *arguments: object) -> Timer:
        timer = Timer(self.now + seconds, lambda: call(*arguments))
        self.timers.append(timer)
        return timer

    def call_soon(self, call: Callable[..., object], *arguments: object) -> None:
        self.soon.append(lambda: call(*arguments))

    def turn(self) -> None:
        """Run the callbacks of the next pass."""
        for _ in range(len(self.soon)):
            self.soon.popleft()()

    def create_task(self, steps: Coroutine[Any, Any, None], **_options: Any) -> asyncio.Future[None]:
        steps.close()  # the test answers
        self.started += 1
        return asyncio.Future(loop=asyncio.get_running_loop())

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for timer in [timer for timer in self.timers if timer.when <= self.now]:
            self.timers.remove(timer)
            timer.call()


class Clock:
    """A clock on which parsing takes `step` between two readings."""

    def __init__(self) -> None:
        self.now = self.step = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


class Connection:
    """A connection to a server whose app answers when the test says so."""

    def __init__(self, bounds: ProcessSettings = BOUNDS, beside: Connection | None = None) -> None:
        self.loop: Loop = beside.loop if beside else Loop()
        self.clock: Clock = beside.clock if beside else Clock()
        self.transport = Transport()
        self.counted: Counter[str] = beside.counted if beside else Counter()

        async def app(_scope: Any, _receive: Any, _send: Any) -> None:
            raise AssertionError

        kind = type(beside.protocol) if beside else bounded_protocol(bounds, self._count, clock=self.clock)
        config = uvicorn.Config(app, http=kind, ws="none", access_log=False, log_config=None)
        state = beside.protocol.server_state if beside else ServerState()
        self.protocol: Any = kind(config=config, server_state=state, app_state={}, _loop=self.loop)  # type: ignore[arg-type]
        self.protocol.connection_made(self.transport)

    def _count(self, reason: str) -> None:
        self.counted[reason] += 1

    @property
    def ended(self) -> str:
        return self.transport.ended

    def receive(self, data: bytes, *, at_once: int | None = None) -> None:
        """Receive bytes in reads of this many."""
        step = at_once or len(data)
        for start in range(0, len(data), step):
            if self.ended:
                return
            self.protocol.data_received(data[start : start + step])

    async def answer(self) -> None:
        """Answer the request whose turn it is with 204."""
        cycle = self.protocol._answering
        await cycle.send({"type": "http.response.start", "status": 204, "headers": []})
        await cycle.send({"type": "http.response.body", "body": b""})

    async def answer_all(self) -> None:
        """Answer all complete requests, one after the other."""
        while self.protocol._owes() and not self.ended:
            await self.answer()


@pytest.fixture
async def connection() -> Connection:
    return Connection()


def head(size: int, *, fields: int = 1, end: bytes = b"\r\n\r\n") -> bytes:
    """Return a head with this many bytes of path and fields."""
    short = b"".join(b"a: b\r\n" for _ in range(fields - 1))
    left = size - len(b"/") - len(b"a: b\r\n") * (fields - 1) - len(b"X: \r\n")
    return b"GET / HTTP/1.1\r\n" + short + b"X: " + b"y" * left + end


CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nContent-Length: 50000\r\n\r\n" + bytes(50_000)


@pytest.mark.parametrize("at_once", [None, 1, 1000, 4096, 65_536])
@pytest.mark.parametrize("before", [b"", GET, POST], ids=["first", "pipelined", "after a body"])
@pytest.mark.parametrize(("size", "whole"), [(LONGEST, True), (LONGEST + 1, False), (8 * LONGEST, False)])
async def test_a_head_has_a_bound_however_it_comes(
    connection: Connection, size: int, whole: bool, before: bytes, at_once: int | None
) -> None:
    connection.receive(before + head(size), at_once=at_once)
    await connection.answer_all()
    assert connection.ended == ("" if whole else "cut")
    assert connection.counted == ({} if whole else {"long-head": 1})


@pytest.mark.parametrize(("letters", "whole"), [(324, True), (325, False)])
async def test_what_is_around_the_letters_of_a_field_counts_too(
    connection: Connection, letters: int, whole: bool
) -> None:
    line = b"a:" + b"b" * (letters + 1) + b"\r\n"  # with the omitted space, 330 bytes
    connection.receive(b"GET / HTTP/1.1\r\n" + line * 99 + b"\r\n")
    assert connection.counted == ({} if whole else {"long-head": 1})


@pytest.mark.parametrize("then", [b"", b"GET /" + b"y" * LONGEST], ids=["lost", "cut"])
def test_a_connection_that_is_gone_leaves_no_garbage(then: bytes) -> None:
    """Strangers come and go faster than a garbage collector runs: reference cycles would fill the memory."""

    async def gone() -> weakref.ref[Any]:
        connection = Connection()
        connection.receive(GET * 5 + then)
        connection.protocol.connection_lost(None)
        connection.loop.timers.clear()
        protocol, connection.protocol = connection.protocol, None
        return weakref.ref(protocol)

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(gone())() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("at_once", [None, 1, 1000])
@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"GET /", id="path"),
        pytest.param(b"GET / HTTP/1.1\r\n", id="name"),
        pytest.param(b"GET / HTTP/1.1\r\nX: ", id="value"),
        pytest.param(GET + b"GET / HTTP/1.1\r\nX: ", id="second"),
        pytest.param(POST + b"GET / HTTP/1.1\r\nX: ", id="after a body"),
        pytest.param(CHUNKED + b"1\r\nx\r\n0\r\nX: ", id="trailer"),
        pytest.param(CHUNKED + b"0\r\n", id="trailer's name"),
        pytest.param(CHUNKED + b"5;x=", id="extension of a chunk"),
        pytest.param(GET + CHUNKED + b"0\r\nX: ", id="second trailer"),
    ],
)
async def test_a_field_that_does_not_end_is_cut(
    connection: Connection, start: bytes, at_once: int | None
) -> None:
    connection.receive(start + b"y" * (LONGEST - 5), at_once=at_once)
    await connection.answer_all()
    assert not connection.ended
    connection.receive(b"y" * (16 << 10), at_once=at_once)
    assert connection.counted == {"long-head": 1}


@pytest.mark.parametrize("before", [b"", GET, POST], ids=["first", "pipelined", "after a body"])
@pytest.mark.parametrize(("fields", "parsed"), [(100, 100), (101, 101), (102, 0), (500, 0)])
async def test_no_field_is_parsed_of_a_head_that_has_far_too_many(
    connection: Connection, fields: int, parsed: int, before: bytes
) -> None:
    connection.receive(before + GET)
    await connection.answer_all()
    connection.protocol._fields = 0
    connection.receive(head(3000, fields=fields))
    assert connection.protocol._fields == parsed
    assert connection.counted == ({} if fields <= 100 else {"long-head": 1})


async def test_a_head_of_too_many_fields_behind_what_is_not_http_takes_no_answer_away(
    connection: Connection,
) -> None:
    connection.receive(b"nonsense\r\n\r\n" + head(3000, fields=500))
    assert connection.transport.written.startswith(b"HTTP/1.1 400")
    assert (connection.ended, connection.counted) == ("closed", {"invalid": 1})


@pytest.mark.parametrize("split", range(1, 5))
async def test_a_body_of_many_lines_counts_for_no_head_wherever_that_is_split(
    connection: Connection, split: int
) -> None:
    post = b"POST / HTTP/1.1\r\nContent-Length: 3000\r\n\r\n"
    for _ in range(2):
        connection.receive(post[:-split])
        connection.receive(post[-split:] + b"a\r\n" * 1000)
        await connection.answer_all()
    assert (connection.ended, connection.counted) == ("", {})
    assert connection.loop.started == 2


@pytest.mark.parametrize("at_once", [None, 1, 1000])
@pytest.mark.parametrize(
    ("trailer", "trailers", "whole"),
    [
        (b"a:\r\n", 98, True),  # the head has two fields
        (b"a:\r\n", 99, False),
        (b"a:\r\n", 32_000, False),
        (b"name: " + b"y" * 317 + b"\r\n", 98, True),
        (b"name: " + b"y" * 327 + b"\r\n", 98, False),
    ],
)
async def test_trailers_are_bounded_with_the_head(
    connection: Connection, trailer: bytes, trailers: int, whole: bool, at_once: int | None
) -> None:
    for _ in range(2):  # each request separately
        connection.receive(CHUNKED + b"0\r\n" + trailer * trailers + b"\r\n", at_once=at_once)
        await connection.answer_all()
    assert connection.counted == ({} if whole else {"long-head": 1})


@pytest.mark.parametrize("at_once", [None, 1, 100])
async def test_what_is_sent_ahead_stays_as_it_came_until_all_before_it_is_answered(
    connection: Connection, at_once: int | None
) -> None:
    """A parsed request takes a hundred times the memory of its bytes, and no bound counts that."""
    connection.receive(GET + POST + GET * 1000, at_once=at_once)
    for started in range(1, 1003):
        assert connection.loop.started == started
        assert len(connection.protocol.pipeline) <= 1
        assert not connection.transport.is_read or started >= 1001
        await connection.answer()
        connection.loop.turn()
    assert connection.transport.is_read
    connection.receive(GET)
    assert connection.loop.started == 1003
    assert connection.transport.written.count(b"HTTP/1.1 204") == 1002
    assert not connection.counted


@pytest.mark.parametrize(
    ("chunks", "size", "whole"),
    [
        (256, 1, True),
        (258, 1, False),
        (257, 128, True),
        (520, 128, False),
        (3000, 256, True),
        (8192, 1024, True),
        (8193, 1024, False),
    ],
)
async def test_the_chunks_of_a_body_are_bounded(
    connection: Connection, chunks: int, size: int, whole: bool
) -> None:
    chunk = b"%x\r\n%b\r\n" % (size, b"x" * size)
    for _ in range(2):  # each body separately
        connection.receive(CHUNKED + chunk * (chunks - 1) + b"0\r\n\r\n")
        await connection.answer_all()
    assert (connection.transport.ended == "") == whole
    assert connection.counted == ({} if whole else {"many-chunks": 1})


async def test_a_report_is_taken_when_the_next_head_comes_with_the_end_of_its_body() -> None:
    bodies: list[bytes] = []

    def take(_scope: Any, body: bytes, _done: Any) -> None:
        bodies.append(body)

    config = uvicorn.Config(
        lambda: None, http=bounded_protocol(BOUNDS, taker=lambda _scope: take), ws="none", log_config=None
    )
    protocol: Any = config.http(config=config, server_state=ServerState(), app_state={}, _loop=Loop())  # type: ignore[operator,call-arg]
    protocol.connection_made(Transport())
    report = b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n"
    protocol.data_received(report + b"first" + report + b"other")
    protocol.data_received(b"")
    assert bodies == [b"first"]


class Crowd:
    """Connections to one server, on a clock where each parsed part takes 4 ms of the 10 of a pass."""

    def __init__(self, number: int) -> None:
        first = Connection()
        self.loop = first.loop
        self.members = [first, *(Connection(beside=first) for _ in range(number - 1))]
        first.clock.step = 0.004

    def turn(self) -> None:
        """Run the loop's next pass, and the pause before it."""
        self.loop.advance(0.001)
        self.loop.turn()

    @property
    def started(self) -> list[int]:
        """Return the members with a first request that was taken up."""
        return [number for number, each in enumerate(self.members) if each.protocol.cycle is not None]


async def test_a_pass_of_the_loop_parses_for_some_milliseconds_and_the_first_come_first() -> None:
    crowd = Crowd(8)
    for each in crowd.members:
        each.receive(GET)
    assert crowd.started == [0, 1, 2]
    assert [each.transport.is_read for each in crowd.members] == [True] * 3 + [False] * 5
    crowd.turn()
    assert crowd.started == [0, 1, 2, 3, 4, 5]
    crowd.turn()
    assert crowd.started == [*range(8)]
    assert all(each.transport.is_read for each in crowd.members)
    crowd.turn()
    await crowd.members[7].answer()
    crowd.members[7].receive(GET)  # there is time again
    assert crowd.loop.started == 9


async def test_who_sends_much_keeps_nobody_out() -> None:
    crowd = Crowd(3)
    much, second, third = crowd.members
    much.receive(b"POST / HTTP/1.1\r\nContent-Length: 200000\r\n\r\n" + bytes(100_000))
    second.receive(GET)
    third.receive(GET[:-1])
    crowd.turn()
    assert crowd.started == [0, 1]
    third.receive(GET[-1:])
    for _ in range(2):
        crowd.turn()
    assert crowd.started == [0, 1, 2]
    for _ in range(20):
        crowd.turn()
    body = much.protocol.cycle.body
    assert (len(body), much.transport.is_read) == (100_000, False)  # until the app takes it
    body.clear()
    much.protocol.flow.resume_reading()
    assert much.transport.is_read


async def test_connections_whose_last_request_had_a_good_key_wait_for_no_stranger() -> None:
    crowd = Crowd(8)
    *strangers, device = crowd.members
    device.receive(GET)
    device.protocol.cycle.scope[STANDING].is_known = True  # as the gate sets it
    await device.answer()
    for each in strangers:
        each.receive(GET * 2)
    device.receive(GET)
    assert crowd.loop.started == 4
    assert crowd.started == [0, 1, 7]
    assert device.protocol.cycle is not None
    await device.answer()
    device.receive(GET)  # whose last request had none
    assert not device.transport.is_read


async def test_costly_heads_wait_for_cheap_ones_that_come_later() -> None:
    crowd = Crowd(8)
    *costly, second, last = crowd.members
    for each in costly:
        each.receive(head(1000, fields=60))
    second.receive(GET)
    last.receive(GET)
    assert crowd.started == [0, 6, 7]
    crowd.turn()
    assert crowd.started == [0, 1, 2, 3, 6, 7]  # with all the time that nobody else takes


async def test_costly_heads_have_a_part_of_each_pass() -> None:
    crowd = Crowd(12)
    for each in crowd.members[:3]:
        each.receive(head(1000, fields=60))
    for each in crowd.members[3:]:
        each.receive(GET)
    assert crowd.started == [0, 3, 4]
    crowd.turn()
    assert crowd.started == [0, 1, 3, 4, 5, 6]
    crowd.turn()
    assert crowd.started == [*range(9)]


async def test_a_body_of_many_lines_is_not_costly_for_its_head() -> None:
    crowd = Crowd(2)
    post = b"POST / HTTP/1.1\r\nContent-Length: 3000\r\n\r\n" + b"a\r\n" * 1000
    for each in crowd.members:
        each.receive(post)
    assert [len(each.protocol.cycle.body) for each in crowd.members] == [3000, 3000]
    assert not crowd.members[0].counted


async def test_a_connection_that_ends_while_it_waits_is_passed_over() -> None:
    crowd = Crowd(6)
    for each in crowd.members:
        each.receive(GET)
    crowd.members[3].protocol.connection_lost(None)
    crowd.members[4].protocol._cut("made-room")
    crowd.turn()
    assert crowd.started == [0, 1, 2, 5]


async def test_no_deadline_ends_while_what_it_is_for_waits_here() -> None:
    crowd = Crowd(5)
    for each in crowd.members:
        each.receive(GET)
    late = crowd.members[4]
    late.loop.timers = [timer for timer in late.loop.timers if timer.when > 0.1]  # no pass comes
    late.loop.advance(100.0)
    assert (late.ended, crowd.started) == ("", [0, 1, 2])


async def test_what_waits_to_be_parsed_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arcwise.server.process.connections._MAX_UNREAD_BYTES", 100_000)

    crowd = Crowd(12)
    for each in crowd.members[:3]:
        each.receive(GET)
    for each in crowd.members[3:]:
        each.receive(POST)
    assert [each.ended for each in crowd.members] == [""] * 8 + ["cut"] * 4
    assert crowd.members[0].counted == {"no-room": 4}
    for _ in range(40):
        crowd.turn()
    assert crowd.started == [*range(8)]
    another = Connection(beside=crowd.members[0])
    another.clock.step = 1.0
    another.receive(POST)  # there is room again
    assert another.ended == ""


SLOW = b"POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\n"
SHORT = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nx"
DRIP = [1.0, b"y"]
ANSWER = "answer"


@pytest.mark.parametrize(
    ("steps", "last", "reason"),
    [
        pytest.param([b"GET / HTTP/1.1\r\nX: ", *DRIP * 9], 1.0, "slow-head", id="a head that drips"),
        pytest.param([9.0, b"GET / HT"], 1.0, "slow-head", id="the first head, from the connection on"),
        pytest.param([SLOW, *DRIP * 34], 1.0, "slow-body", id="a body that drips"),
        pytest.param([SLOW, *DRIP * 4, ANSWER, *DRIP * 30], 1.0, "slow-body", id="one answered early"),
        pytest.param([GET, ANSWER, *[1.0, b"\r\n"] * 4], 1.0, "", id="empty lines between requests"),
        pytest.param([SHORT, ANSWER, b"x", 4.0], 1.0, "", id="after a body that was answered early"),
        pytest.param(  # the app's time does not count for the sender
            [GET, 100.0, ANSWER, 4.0, GET[:-1], 9.0, GET[-1:], ANSWER, b"G"],
            10.0,
            "slow-head",
            id="more heads",
        ),
        pytest.param(
            [GET, SHORT, 100.0, ANSWER, 34.0], 1.0, "slow-body", id="a body that waits for its turn"
        ),
    ],
)
async def test_a_connection_ends_at_its_deadline_and_not_before(
    connection: Connection, steps: list[Any], last: float, reason: str
) -> None:
    for step in steps:
        if isinstance(step, bytes):
            connection.receive(step)
        elif step == ANSWER:
            await connection.answer()
        else:
            connection.loop.advance(step)
        assert not connection.transport.is_closing()
    connection.loop.advance(last)
    assert (connection.ended, connection.counted) == (("cut", {reason: 1}) if reason else ("closed", {}))
    assert connection.transport.written.count(b"HTTP/1.1 204") == steps.count(ANSWER)


@pytest.mark.parametrize("ahead", [0, 1, 100])
async def test_an_answer_to_a_connection_that_is_lost_is_not_written(
    connection: Connection, ahead: int
) -> None:
    connection.receive(POST + GET * ahead)
    first = connection.protocol._answering
    connection.protocol.connection_lost(None)
    assert first.disconnected
    await first.send({"type": "http.response.start", "status": 204, "headers": []})
    await first.send({"type": "http.response.body", "body": b""})
    assert connection.transport.written == b""


@pytest.mark.parametrize("end", [b"zz\r\n", b"1\r\n"], ids=["invalid", "slow"])
async def test_nothing_more_is_written_of_an_answer_whose_body_ends_badly(
    connection: Connection, end: bytes
) -> None:
    connection.receive(CHUNKED)
    first = connection.protocol.cycle
    await first.send({"type": "http.response.start", "status": 200, "headers": []})
    connection.receive(end)
    connection.loop.advance(100.0)
    assert (first.disconnected, connection.ended) == (True, "cut")
    await first.send({"type": "http.response.body", "body": b"rest"})
    written = connection.transport.written
    assert written.startswith(b"HTTP/1.1 200 ")
    assert written.endswith(b"\r\n\r\n")


async def test_what_is_not_http_gets_one_answer_and_one_line(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    connection.receive(b"nonsense\r\n\r\n" * 10_000)
    assert connection.transport.written.count(b"HTTP/1.1 400") == 1
    assert connection.ended == "closed"
    assert connection.counted == {"invalid": 1}
    assert [record.getMessage() for record in caplog.records] == ["An invalid HTTP request was refused."]


@pytest.mark.parametrize(
    ("data", "answers"),
    [
        pytest.param(POST + b"nonsense\r\n\r\n", 204, id="after a request"),
        pytest.param(b"CONNECT a:1 HTTP/1.1\r\n\r\n", 400, id="connect"),
        pytest.param(
            b"CONNECT a:1 HTTP/1.1\r\nContent-Length: 5\r\n\r\ncodes", 400, id="connect with a body"
        ),
        pytest.param(POST + b"CONNECT a:1 HTTP/1.1\r\n\r\n", 204, id="connect after a request"),
        pytest.param(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, id="chunks"),
    ],
)
async def test_a_refusal_is_not_taken_for_another_answer(
    connection: Connection, data: bytes, answers: int
) -> None:
    connection.receive(data)
    if answers == 204:
        assert not connection.ended
        assert not connection.transport.written
        await connection.answer()
    assert connection.transport.written.startswith(b"HTTP/1.1 %d" % answers)
    assert connection.transport.written.count(b"HTTP/1.1 ") == 1
    assert connection.ended == "closed"
    assert connection.counted == {"invalid": 1}


@pytest.mark.parametrize("at_once", [None, 1, 100])
@pytest.mark.parametrize("before", [b"", POST], ids=["first", "after a body"])
@pytest.mark.parametrize(
    ("version", "size"),
    [("1.1", "Content-Length: 5"), ("1.1", "Transfer-Encoding: chunked"), ("1.0", "Content-Length: 5")],
)
async def test_an_offer_of_http_2_takes_no_body_away(
    connection: Connection, version: str, size: str, before: bytes, at_once: int | None
) -> None:
    """Java's HttpClient offers HTTP/2 with each unencrypted request.

    The version stays as it was: `is_local` needs to know HTTP/1.0, which some proxies speak.
    """
    offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAA"
    body = b"2\r\nco\r\n3\r\ndes\r\n0\r\n\r\n" if "chunked" in size else b"codes"
    head = f"POST /a%20b?c=d HTTP/{version}\r\nHost: x\r\n{offer}\r\n{size}\r\n\r\n".encode()

    if before:
        connection.receive(before)
        await connection.answer()
    connection.receive(head + body, at_once=at_once)
    cycle = connection.protocol.cycle
    assert (bytes(cycle.body), cycle.more_body, cycle.keep_alive) == (b"codes", False, False)
    assert (cycle.scope["path"], cycle.scope["query_string"]) == ("/a b", b"c=d")
    assert cycle.scope["http_version"] == version
    await connection.answer()
    assert connection.ended == "closed"
    assert not connection.counted


async def test_an_upgrade_is_answered_in_http_and_nothing_behind_it_is_read(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    connection.receive(b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + GET)
    connection.receive(GET)
    assert connection.loop.started == 1
    await connection.answer()
    assert connection.transport.written.startswith(b"HTTP/1.1 204")
    assert connection.ended == "closed"
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def full(*, max_connections: int) -> tuple[Connection, list[Connection]]:
    """Return the first of this many connections, which are all that may exist, and the later ones."""
    first = Connection(ProcessSettings(max_connections=max_connections))
    return first, [Connection(beside=first) for _ in range(max_connections - 1)]


def make_room(beside: Connection, *victims: Connection) -> list[Connection]:
    """Open connections, each of which takes the place of one of these."""
    new = []
    for victim in victims:
        assert victim.ended == ""
        is_owed = victim.protocol._owes()  # without an answer, a proxy would send the request again
        new.append(Connection(beside=beside))
        assert (victim.ended, new[-1].ended) == ("closed" if is_owed else "cut", "")
        assert victim.transport.written.endswith(b'try again later."}') == is_owed
        victim.protocol.connection_lost(None)
    return new


async def answer_known(connection: Connection) -> None:
    connection.receive(GET)
    connection.protocol.cycle.scope[STANDING].is_known = True  # as the gate sets it
    await connection.answer()


async def test_a_new_connection_takes_the_place_of_the_stranger_who_was_answered_longest_ago() -> None:
    """It may wait for bytes or for refusals; otherwise, sending far ahead would protect it."""
    first, (second, third, device, busy) = full(max_connections=5)
    await answer_known(device)
    busy.receive(GET)
    busy.protocol.cycle.scope[STANDING].is_known = True
    third.receive(GET * 64)
    first.receive(GET)
    await first.answer()
    first.loop.advance(1.0)
    new = make_room(first, second, third, first)
    first.loop.advance(1.0)
    make_room(new[0], *new)
    assert device.ended == busy.ended == ""
    assert first.counted == {"made-room": 6}


async def test_a_new_connection_takes_the_place_of_an_idle_device_before_that_of_another_new_one() -> None:
    busy, (idle, late, new) = full(max_connections=4)
    for each in (idle, busy, late):
        await answer_known(each)
    busy.receive(GET)
    busy.protocol.cycle.scope[STANDING].is_known = True
    make_room(busy, idle, late)
    refused = Connection(beside=busy)
    assert (busy.ended, new.ended) == ("", "")
    assert refused.transport.written.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: 1\r\n" in refused.transport.written
    document = json.loads(refused.transport.written.partition(b"\r\n\r\n")[2])
    assert document["type"] == "urn:arcwise:problem:too-many-connections"
    assert busy.counted == {"made-room": 2, "too-many": 1}


async def test_a_device_whose_body_is_slow_gives_way_and_one_whose_bytes_wait_here_does_not() -> None:
    slow, (waiting,) = full(max_connections=2)
    slow.receive(CHUNKED)
    slow.protocol.cycle.scope[STANDING].is_known = True
    await answer_known(waiting)
    waiting.clock.step = 1.0
    waiting.receive(POST)
    assert waiting.protocol._parts
    make_room(waiting, slow)
    assert waiting.ended == ""
