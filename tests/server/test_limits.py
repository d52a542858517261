"""Bounds on what a sender can consume, tried with real sockets against a real process."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from arcwise.domains import Interval
from arcwise.mechanisms import OptimalPiecewise
from arcwise.server.collect.bodies import Bodies
from arcwise.server.problems import Problem
from arcwise.server.store import open_store
from arcwise.tasks import Task
from arcwise.wire import MAX_BODY_BYTES, MEDIA_TYPE
from tests.support.apps import add_key
from tests.support.reports import body_of
from tests.support.server_processes import serving
from tests.support.sockets import PATIENCE, connect, memory, rest

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Iterator

    from tests.support.apps import Serve

pytestmark = pytest.mark.anyio

DOMAIN = Interval(0, 1)
TASK = Task("delay", DOMAIN, 1.0)
WIDE = Task("wide", DOMAIN, 1.0, mechanism=OptimalPiecewise(DOMAIN, 1.0, nodes=300))
PATH = f"/v1/tasks/{TASK.id}/reports"
HEADERS = {"content-type": MEDIA_TYPE}


def body(codes: bytes = b"\x07", task: Task = TASK) -> bytes:
    return body_of(task, codes)


def head(length: str, path: str = PATH, method: str = "POST") -> bytes:
    return (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {MEDIA_TYPE}\r\n{length}\r\n\r\n"
    ).encode()


WHOLE = body()
REQUEST = head(f"Content-Length: {len(WHOLE)}") + WHOLE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    TASK.save(tmp_path / "delay.json")
    return tmp_path


def drip(connection: socket.socket, parts: Iterator[bytes]) -> bytes:
    """Send a little at a time, for ever, and return the data that came before the server closed the
    connection.
    """
    done = threading.Event()

    def send() -> None:
        with contextlib.suppress(OSError):
            for part in parts:
                connection.sendall(part)
                if done.wait(0.02):
                    return

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    try:
        return rest(connection)
    finally:
        done.set()
        sender.join(PATIENCE)


def endless(start: bytes, part: bytes) -> Iterator[bytes]:
    yield start
    while True:
        yield part


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve with little patience for slow senders; yield the URL."""
    folder = tmp_path_factory.mktemp("hasty")
    TASK.save(folder / "delay.json")
    with serving(folder, "--header-seconds", "0.3", "--body-seconds", "0.3") as (url, _):
        yield url


@pytest.mark.parametrize(
    ("start", "part"),
    [
        pytest.param(b"", b"", id="nothing"),
        pytest.param(b"PO", b"", id="method"),
        pytest.param(b"POST /", b"x", id="path"),
        pytest.param(head("X: 1")[:-2], b"x", id="header"),
        pytest.param(head("X: 1")[:-2], b"Y: 1\r\n", id="headers"),
        pytest.param(REQUEST + head("X: 1")[:-2], b"x", id="second head"),
        pytest.param(head("X: 1")[:-2], b"y" * 8192, id="a head that is too long"),
        pytest.param(REQUEST, b"\r\n", id="empty lines", marks=pytest.mark.slow),
    ],
)
def test_slow_heads_are_cut(hasty: str, start: bytes, part: bytes) -> None:
    with connect(hasty) as connection:
        answer = drip(connection, endless(start, part))
        assert answer.count(b"HTTP/1.1 ") == start.count(WHOLE)
        assert httpx.post(hasty + PATH, content=body(), headers=HEADERS).status_code == 204


@pytest.mark.parametrize(
    ("start", "part", "status"),
    [
        pytest.param(head("Content-Length: 1000"), b"", b"408", id="silent"),
        pytest.param(head("Content-Length: 1000000"), b"x", b"408", id="slow"),
        pytest.param(head("Transfer-Encoding: chunked"), b"1\r\nx\r\n", b"408", id="chunks"),
        pytest.param(
            head("Transfer-Encoding: chunked") + b"1\r\nx\r\n0\r\n",
            b"Y: " + b"y" * 999 + b"\r\n",
            b"408",
            id="trailers",
        ),
        pytest.param(
            head("Transfer-Encoding: chunked", "/health/live", "GET"),
            b"1\r\nx\r\n",
            b"200",
            id="unread",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_slow_bodies_are_cut(hasty: str, start: bytes, part: bytes, status: bytes) -> None:
    # The connection with a body that the app does not read is cut some seconds later than the others.
    with connect(hasty) as connection:
        answer = drip(connection, endless(start, part))
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert (b"urn:arcwise:problem:slow-body" in answer) == (status == b"408")
        assert httpx.post(hasty + PATH, content=body(), headers=HEADERS).status_code == 204


@pytest.mark.slow
@pytest.mark.parametrize("before", [b"", REQUEST], ids=["alone", "behind another"])
def test_a_head_that_is_too_long_is_cut_also_when_it_comes_at_once(hasty: str, before: bytes) -> None:
    with connect(hasty) as connection:
        with contextlib.suppress(OSError):  # cut before all of it is sent
            connection.sendall(before + head("X: " + "y" * (100 << 10), "/health/live", "GET"))
        assert b"HTTP/1.1 200" not in rest(connection)


@pytest.mark.slow
def test_what_is_not_http_is_counted_and_fills_no_log(folder: Path) -> None:
    kinds = (
        b"nonsense\r\n\r\n",
        head("Transfer-Encoding: chunked") + b"zz\r\n",
        head("Connection: Upgrade\r\nUpgrade: websocket", "/health/live", "GET"),
        b"CONNECT a:1 HTTP/1.1\r\n\r\n",
    )
    with serving(folder) as (url, _):
        for sent in kinds * 25:
            with connect(url) as connection:
                connection.sendall(sent)
                rest(connection)
        metrics = httpx.get(f"{url}/metrics").text
    assert 'arcwise_connections_cut_total{reason="invalid"} 75.0' in metrics
    lines = (folder / "stderr").read_text("utf-8").splitlines()
    first, last = (line for line in lines if " INFO " not in line)
    assert first.endswith("An invalid HTTP request was refused.")
    assert last.endswith(
        "An invalid HTTP request was refused. (74 more like this since the last that was logged)"
    )


LARGE = body(bytes(60_000))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "pause"),
    [
        pytest.param(
            [head(f"Content-Length: {len(LARGE)}") + LARGE + REQUEST[:40], REQUEST[40:]],
            0.2,
            id="a head with the end of a large body",
        ),
        pytest.param([bytes([byte]) for byte in REQUEST * 2], 0.0, id="slow but in time"),
    ],
)
def test_two_requests_in_odd_parts_are_served(folder: Path, parts: list[bytes], pause: float) -> None:
    with serving(folder) as (url, _), connect(url) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(pause)
        received = b""
        while received.count(b"HTTP/1.1 204") < 2:
            answer = connection.recv(4096)
            assert answer
            received += answer


@pytest.mark.slow
def test_who_holds_connections_keeps_nobody_out(folder: Path) -> None:
    with (
        serving(folder, "--max-connections", "5", "--header-seconds", "3600") as (url, _),
        contextlib.ExitStack() as stack,
    ):
        held = [stack.enter_context(connect(url)) for _ in range(5)]
        time.sleep(0.6)  # a new connection has half a second to show a key
        for longest in held[:3]:
            device = stack.enter_context(connect(url))
            device.sendall(REQUEST)
            assert device.recv(4096).startswith(b"HTTP/1.1 204 ")
            assert rest(longest) == b""
        held[3].sendall(REQUEST)
        assert held[3].recv(4096).startswith(b"HTTP/1.1 204 ")


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")


@pytest.mark.slow
@needs_proc
def test_a_thousand_idle_connections(folder: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    try:
        with serving(folder) as (url, process), contextlib.ExitStack() as stack:
            before = memory(process.pid)
            for number in range(1000):
                connection = stack.enter_context(connect(url))
                if number % 2:
                    connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n")
            for _ in range(10):
                assert httpx.post(url + PATH, content=body(), headers=HEADERS).status_code == 204
            assert memory(process.pid) < before + (64 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_connections_are_answered_beyond_the_usual_limit_on_open_files(folder: Path) -> None:
    with contextlib.ExitStack() as stack:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
        try:
            url, _process = stack.enter_context(serving(folder, "--max-connections", "200"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(200):
            stack.enter_context(connect(url))
        time.sleep(0.6)  # a stranger gives way once it is half a second old
        connection = stack.enter_context(connect(url))
        connection.sendall(REQUEST)
        assert connection.recv(4096).startswith(b"HTTP/1.1 204 ")  # not reset, as by the kernel


def test_a_limit_on_open_files_that_is_too_low_is_logged() -> None:
    program = (
        "import resource as r; from arcwise.server.process.accepting import allow_files\n"
        "r.setrlimit(r.RLIMIT_NOFILE, (64, 400)); allow_files(100); allow_files(200)\n"
        "print(*r.getrlimit(r.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "400 400\n"
    assert done.stderr.startswith("200 connections need 456 open files, but the limit is 400: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
@needs_proc
def test_a_flood_takes_bounded_memory_and_nothing_acknowledged_is_lost(folder: Path) -> None:
    """Bodies of a megabyte from 64 connections, while four may wait and four may be read."""
    limits = ("--max-waiting-bytes", str(4 << 20), "--max-reading-bytes", str(4 << 20))
    codes = bytes(100) * 10_000
    with serving(folder, *limits) as (url, process):
        assert httpx.post(url + PATH, content=body(codes), headers=HEADERS).status_code == 204
        before = peak = memory(process.pid)

        def flood(_number: int) -> list[int]:
            nonlocal peak
            found = []
            with httpx.Client(base_url=url, headers=HEADERS, timeout=PATIENCE) as http:
                for _ in range(8):
                    try:
                        answer = http.post(PATH, content=body(codes))
                    except httpx.HTTPError:  # turned away while it was still sending
                        found.append(0)
                        continue
                    if answer.status_code == 503:
                        assert answer.headers["retry-after"] == "1"
                    found.append(answer.status_code)
                    peak = max(peak, memory(process.pid))
            return found

        with ThreadPoolExecutor(64) as pool:
            statuses = [status for found in pool.map(flood, range(64)) for status in found]
    assert set(statuses) <= {204, 503, 0}
    assert statuses.count(204) > 0
    assert statuses.count(204) < len(statuses)
    # In addition to waiting bodies and bodies being read, the HTTP server buffers and copies data per
    # connection.
    assert peak < before + (96 << 20)
    store = open_store(f"sqlite:///{folder / 'server.db'}")
    counted = int(store.counts(TASK).sum())
    store.close()
    acknowledged = (1 + statuses.count(204)) * len(codes)
    # After a broken connection, a report may be counted without an answer, but never answered without a
    # count.
    assert acknowledged <= counted <= acknowledged + statuses.count(0) * len(codes)


async def test_bodies_on_their_way_in_are_bounded_together(serve: Serve) -> None:
    http = await serve([TASK], max_reading_bytes=1 << 20)
    go_on = asyncio.Event()

    async def half() -> AsyncIterator[bytes]:
        yield bytes(600_000)
        await go_on.wait()
        yield b"\x00"

    url, headers = PATH, HEADERS
    first = asyncio.create_task(http.post(url, content=half(), headers=headers))
    await asyncio.sleep(0.1)
    second = await http.post(url, content=half(), headers=headers)
    assert second.status_code == 503
    assert second.json()["type"] == "urn:arcwise:problem:store-busy"
    assert second.headers["retry-after"] == "1"
    go_on.set()
    assert (await first).status_code == 400
    # The memory that was held is free again.
    assert (await http.post(url, content=body(bytes(900_000)), headers=headers)).status_code == 204


class Sender:
    """A body with parts that come when a test sends them."""

    def __init__(self, bodies: Bodies) -> None:
        self.parts: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.read = asyncio.ensure_future(bodies.read({"type": "http", "headers": []}, self.parts.get))

    async def send(self, size: int, *, more: bool = True) -> None:
        self.parts.put_nowait({"type": "http.request", "body": bytes(size), "more_body": more})
        for _ in range(5):
            await asyncio.sleep(0)

    def outcome(self) -> int:
        """Return the bytes that were read, or the status of the problem."""
        error = self.read.exception()
        if error is None:
            return len(self.read.result())
        assert isinstance(error, Problem)
        return error.status


async def test_bodies_that_stopped_give_way_and_small_ones_have_room() -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    now = begun
    loop.time = lambda: now  # type: ignore[method-assign]
    kib = 1 << 10
    bodies = Bodies(most=600 * kib, most_at_once=1000 * kib, seconds=30)
    first, second, small, young = (Sender(bodies) for _ in range(4))
    for sender in (first, second, small):
        await sender.send(10)
    await first.send(516 * kib - 10)
    await second.send(516 * kib - 10)
    assert bodies.held == 1000 * kib
    await small.send(16 * kib - 10, more=False)
    assert small.outcome() == 16 * kib
    now = begun + 0.9
    await young.send(100 * kib)
    assert young.outcome() == 503
    now = begun + 1.0
    late = Sender(bodies)
    await late.send(100 * kib)
    assert first.outcome() == 503
    await late.send(10 * kib, more=False)
    await second.send(10 * kib, more=False)
    assert (late.outcome(), second.outcome(), bodies.held) == (110 * kib, 526 * kib, 0)


def test_a_body_of_many_parts_takes_no_more_than_its_bytes() -> None:
    size = 1 << 14
    left = size

    async def receive() -> dict[str, Any]:
        nonlocal left
        await asyncio.sleep(0)
        left -= 1
        return {"type": "http.request", "body": b"x%d" % (left % 10), "more_body": left > 0}

    async def read() -> bytes:
        bodies = Bodies(most=1 << 20, most_at_once=1 << 20, seconds=PATIENCE)
        body = await bodies.read({"type": "http", "headers": []}, receive)
        assert bodies.held == 0
        return body

    tracemalloc.start()
    try:
        assert len(asyncio.run(read())) == 2 * size
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * size


async def test_codes_in_a_batch_are_bounded(serve: Serve) -> None:
    http = await serve([TASK, WIDE], max_batch_codes=10)
    for task, codes, status in (
        (TASK, bytes(10), 204),
        (TASK, bytes(11), 413),
        (WIDE, bytes(20), 204),  # two bytes each
        (WIDE, bytes(22), 413),
    ):
        answer = await http.post(f"/v1/tasks/{task.id}/reports", content=body(codes, task), headers=HEADERS)
        assert answer.status_code == status
        if status == 413:
            assert answer.json()["type"] == "urn:arcwise:problem:too-many-codes"


@pytest.mark.parametrize("limit", ["requests_per_minute_per_address", "requests_per_minute_per_key"])
async def test_too_many_requests_are_told_when_to_come_back(serve: Serve, limit: str, tmp_path: Path) -> None:
    key, other = (add_key(f"sqlite:///{tmp_path / 'app.db'}", "ingest") for _ in range(2))
    options: dict[str, Any] = {limit: 3}
    http = await serve([TASK], open=None, **options)

    async def status(sent: str) -> httpx.Response:
        headers = HEADERS | {"authorization": f"Bearer {sent}"}
        return await http.post(PATH, content=body(), headers=headers)

    assert [(await status(key)).status_code for _ in range(3)] == [204] * 3
    answer = await status(key)
    assert answer.status_code == 429
    assert answer.json()["type"] == "urn:arcwise:problem:too-many-requests"
    assert 1 <= int(answer.headers["retry-after"]) <= 20
    per_key = limit.endswith("key")
    assert (await status(other)).status_code == (204 if per_key else 429)
    # A client that tries keys is slowed down too.
    assert (await status("nonsense")).status_code == (401 if per_key else 429)
    assert (await http.get("/health/live")).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("trusted", [True, False])
def test_behind_a_proxy_that_is_trusted_each_sender_counts_alone(folder: Path, trusted: bool) -> None:
    options = ["--open", "--requests-per-minute-per-address", "2"]
    options += ["--trusted-proxy", "127.0.0.1"] if trusted else []
    with serving(folder, *options) as (url, _), httpx.Client(base_url=url, headers=HEADERS) as http:
        found = [
            http.post(PATH, content=body(), headers={"x-forwarded-for": f"203.0.113.{number}"}).status_code
            for number in (1, 1, 2, 2, 1)
        ]
    assert found == ([204, 204, 204, 204, 429] if trusted else [204, 204, 429, 429, 429])
    said = (folder / "stderr").read_text("utf-8")
    assert "203.0.113" not in said
    assert "127.0.0.1" not in said.replace(url, "")  # the server's own address


@pytest.mark.slow
def test_the_largest_body_is_served(folder: Path) -> None:
    around = len(body(bytes(100_000))) - 100_000
    fitting = bytes(MAX_BODY_BYTES - around)
    with serving(folder) as (url, _), httpx.Client(base_url=url, headers=HEADERS) as http:
        assert http.post(PATH, content=body(fitting)).status_code == 204
        assert http.post(PATH, content=bytes(MAX_BODY_BYTES + 1)).status_code == 413
