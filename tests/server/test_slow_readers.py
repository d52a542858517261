"""Clients that do not read their answers, or send far ahead: none holds much, or for long.

A server that takes one connection shows by another one whether the first is still there.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from arcwise.domains import Interval
from arcwise.mechanisms import DesignedTable
from arcwise.server.process.slow_readers import SlowReaders
from arcwise.tasks import Task
from tests.support.server_processes import serving
from tests.support.sockets import PATIENCE, connect, peak_memory, rest

pytestmark = pytest.mark.anyio

NODES, CODES = 400, 100
ROW = [2**64 // CODES + (2**64 % CODES if code == 0 else 0) for code in range(CODES)]
UNITS = [code / CODES for code in range(CODES)]
LARGE = Task(
    "large",
    Interval(0, 1),
    1.0,
    mechanism=DesignedTable(Interval(0, 1), 1.0, rows=[ROW] * NODES, units=UNITS),
)
"""Its list of tasks is 0.8 MB, so a dozen of them exceed the sockets of both ends."""

ASK = b"GET /v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LAST = ASK[:-2] + b"Connection: close\r\n\r\n"
SHORT = b"GET /nothing HTTP/1.1\r\n\r\n"
MANY = 12

needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    LARGE.save(tmp_path / "large.json")
    return tmp_path


def wait_for_room(url: str) -> None:
    """Wait until a server takes another connection."""
    start = time.monotonic()
    while httpx.get(f"{url}/health/live", headers={"connection": "close"}).status_code == 503:
        assert time.monotonic() < start + PATIENCE
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(ASK * MANY, id="going on"),
        pytest.param(ASK * (MANY - 1) + LAST, id="closing", marks=pytest.mark.slow),
    ],
)
def test_a_client_that_takes_no_answer_is_cut(folder: Path, asked: bytes) -> None:
    with (
        serving(folder, "--answer-seconds", "0.5", "--max-connections", "1") as (url, _),
        connect(url, receive_buffer=4096) as connection,
    ):
        start = time.monotonic()
        connection.sendall(asked)
        wait_for_room(url)
        assert time.monotonic() > start + 0.5
        answers = rest(connection)
        assert answers.startswith(b"HTTP/1.1 200 OK")
        assert answers.count(b"HTTP/1.1 200 OK") < MANY


@pytest.mark.slow
def test_a_client_that_takes_its_answers_slowly_gets_them_all(folder: Path) -> None:
    with (
        serving(folder, "--answer-seconds", "0.5") as (url, _),
        connect(url, receive_buffer=65_536) as connection,
    ):
        connection.sendall(ASK * (MANY - 1) + LAST)
        answers = b""
        start = time.monotonic()
        while part := connection.recv(65_536):
            answers += part
            time.sleep(0.012)
        assert time.monotonic() > start + 1.5  # longer than any one of them may wait
        assert answers.count(b"HTTP/1.1 200 OK") == MANY


@pytest.mark.slow
def test_answers_that_wait_are_bounded_together(folder: Path) -> None:
    """Clients that wait for an hour, each with most of a megabyte, while one megabyte is allowed."""
    options = ("--answer-seconds", "3600", "--max-unread-bytes", str(1 << 20), "--max-connections", "6")
    with serving(folder, *options) as (url, _), contextlib.ExitStack() as stack:
        held = [stack.enter_context(connect(url, receive_buffer=4096)) for _ in range(6)]
        for connection in held:
            connection.sendall(ASK * MANY)
        wait_for_room(url)
        assert min(rest(connection).count(b"HTTP/1.1 200 OK") for connection in held[:2]) < MANY


@pytest.mark.slow
def test_requests_that_come_ahead_are_answered_in_turn(folder: Path) -> None:
    with serving(folder) as (url, _), connect(url) as connection:
        asked = (SHORT + ASK) * 30
        connection.sendall(asked + LAST)
        statuses = [answer[:3] for answer in rest(connection).split(b"HTTP/1.1 ")[1:]]
        assert statuses == [b"404", b"200"] * 30 + [b"200"]


@pytest.mark.slow
def test_a_client_that_asks_far_ahead_is_answered_in_turn(folder: Path) -> None:
    with serving(folder) as (url, _), connect(url) as connection:
        connection.sendall(ASK + SHORT * 1000 + LAST)
        assert rest(connection).count(b"HTTP/1.1 ") == 1002
        assert httpx.get(f"{url}/health/live").status_code == 200
    # A traceback would add a line per minute that looks like a defect.
    said = (folder / "stderr").read_text("utf-8").splitlines()
    assert [line for line in said if " INFO " not in line] == []


@pytest.mark.slow
@needs_proc
def test_bodies_of_requests_that_wait_stay_with_their_sender(folder: Path) -> None:
    with_body = SHORT[:-2] + b"Content-Length: 60000\r\n\r\n" + bytes(60_000)
    senders = 20
    with serving(folder) as (url, process), contextlib.ExitStack() as stack, ThreadPoolExecutor(40) as pool:
        httpx.get(f"{url}/nothing")
        before = peak_memory(process.pid)
        held = [stack.enter_context(connect(url)) for _ in range(senders)]
        for connection in held:
            pool.submit(connection.sendall, with_body * 59 + SHORT[:-2] + b"Connection: close\r\n\r\n")
        answers = list(pool.map(rest, held))
        assert [each.count(b"HTTP/1.1 404") for each in answers] == [60] * senders
        assert peak_memory(process.pid) < before + senders * (1 << 20)


class Kept(asyncio.Protocol):
    """Records when its connection is gone."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()


class Stalled(asyncio.Transport):
    """Has data to send that nobody takes; counts how often its size is requested."""

    asked = 0

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.is_cut = False

    def get_write_buffer_size(self) -> int:
        Stalled.asked += 1
        return self.size

    def abort(self) -> None:
        self.is_cut = True


class Still:
    def time(self) -> float:
        return 0.0


def test_many_stalled_connections_are_not_all_looked_at_each_time() -> None:
    Stalled.asked = 0
    loop: Any = Still()
    cut = []
    unread = SlowReaders(30.0, 1_000_000, lambda: cut.append(1))
    transports = [Stalled(1000) for _ in range(1000)]
    for transport in transports:
        unread.stalled(loop, transport)
    assert Stalled.asked == 1000
    assert not cut
    for transport in transports[:500]:  # taken, but not yet to where writing goes on
        transport.size = 100
    late = [Stalled(1000) for _ in range(500)]
    for transport in late[:400]:
        unread.stalled(loop, transport)
    assert Stalled.asked < 5000
    assert not cut
    for transport in late[400:]:
        unread.stalled(loop, transport)
    # 500 of 100 bytes and 1000 of 1000 are 50,000 too many: only those that wait longest are cut.
    assert [transport.is_cut for transport in transports] == [True] * 500 + [False] * 500
    assert not any(transport.is_cut for transport in late)
    assert len(cut) == 500
    for transport in transports[:500]:
        unread.moved(transport)  # reports nothing new
    unread.stalled(loop, Stalled(1000))
    assert transports[500].is_cut


@pytest.mark.slow
async def test_a_connection_that_cannot_close_is_cut() -> None:
    near, far = socket.socketpair()
    with far:
        _, kept = await asyncio.get_running_loop().create_connection(Kept, sock=near)
        connections = {kept}
        unread = SlowReaders(0.2, 1 << 30)
        unread.watch(asyncio.get_running_loop(), connections)
        kept.transport.write(bytes(1 << 22))
        await asyncio.sleep(0.3)
        assert not kept.gone.is_set()  # it is not known to wait
        kept.transport.close()
        await asyncio.wait_for(kept.gone.wait(), PATIENCE)
        connections.clear()
