"""Accepting connections: many in a turn of the loop, none lost at the end, pauses when files run out."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.server.process.accepting import Acceptor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Made(asyncio.Protocol):
    """Records each connection and its outcome."""

    made: list[Made]

    def __init__(self) -> None:
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.made.append(self)
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.transport.write(data)
        self.transport.close()


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[asyncio.AbstractEventLoop]:
    monkeypatch.setattr(Made, "made", [], raising=False)
    with closing(pytest.importorskip(request.param).new_event_loop()) as loop:
        yield loop
        for protocol in Made.made:
            protocol.transport.abort()
        loop.run_until_complete(asyncio.sleep(0.01))  # a loop that is closed must have ended them


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    with ExitStack() as sockets:
        yield sockets


def listening(sockets: ExitStack) -> socket.socket:
    return sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024))


def connected(sockets: ExitStack, listener: socket.socket) -> socket.socket:
    return sockets.enter_context(socket.create_connection(listener.getsockname()))


def test_many_connections_are_taken_in_few_turns_of_the_loop(
    loop: asyncio.AbstractEventLoop, sockets: ExitStack
) -> None:
    """A turn takes as long as all pending requests; a new connection once waited for hundreds of them."""

    async def turns_for(number: int) -> int:
        acceptor = Acceptor(loop, listener, Made)
        turns = 0
        while len(Made.made) < number and turns < 100:
            await asyncio.sleep(0)
            turns += 1
        await acceptor.close()
        return turns

    listener = listening(sockets)
    for _ in range(500):
        connected(sockets, listener)
    assert loop.run_until_complete(turns_for(500)) <= 10


def test_few_are_taken_in_a_turn_while_each_takes_the_place_of_another(
    loop: asyncio.AbstractEventLoop, sockets: ExitStack
) -> None:
    """A sender that kept opening connections once left no time for answers; a report waited two seconds."""

    async def taken(*, full: bool) -> int:
        acceptor = Acceptor(loop, listener, Made, lambda: full)
        acceptor._take()
        number = len(acceptor._tasks)
        loop.remove_reader(listener)
        await asyncio.gather(*acceptor._tasks)
        return number

    listener = listening(sockets)
    for _ in range(200):
        connected(sockets, listener)
    assert loop.run_until_complete(taken(full=True)) == 32
    assert loop.run_until_complete(taken(full=False)) == 128


def test_a_connection_that_comes_alone_is_served(loop: asyncio.AbstractEventLoop, sockets: ExitStack) -> None:
    async def echoed() -> bytes:
        acceptor = Acceptor(loop, listener, Made)
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"what is sent")
        received = await reader.read()
        writer.close()
        await acceptor.close()
        return received

    listener = listening(sockets)
    assert loop.run_until_complete(echoed()) == b"what is sent"


def test_what_was_taken_has_its_protocol_when_it_is_closed(
    loop: asyncio.AbstractEventLoop, sockets: ExitStack
) -> None:
    """A server that stops can then end it: its protocol comes turns after the connection was accepted."""

    async def close_at_once() -> None:
        acceptor = Acceptor(loop, listener, Made)
        acceptor._take()
        assert not Made.made
        await acceptor.close()
        assert len(Made.made) == 5
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)

    listener = listening(sockets)
    address = listener.getsockname()
    for _ in range(5):
        connected(sockets, listener)
    loop.run_until_complete(close_at_once())


class Full:
    """A loop and its listener, for which no file descriptors are left to accept a connection."""

    def __init__(self) -> None:
        self.readers: list[Callable[[], object]] = []
        self.timers: list[tuple[float, Callable[[], object]]] = []
        self.asked = 0

    def setblocking(self, _flag: bool) -> None:
        pass

    def accept(self) -> None:
        self.asked += 1
        raise OSError(errno.EMFILE, "Too many open files")

    def add_reader(self, _listener: object, call: Callable[[], object]) -> None:
        self.readers.append(call)

    def remove_reader(self, _listener: object) -> None:
        self.readers.clear()

    def call_later(self, seconds: float, call: Callable[[], object]) -> None:
        self.timers.append((seconds, call))


def test_without_a_file_for_another_connection_it_rests_and_tries_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    full: Any = Full()
    Acceptor(full, full, Made)
    for rests in (1, 2):
        full.readers[0]()
        assert (full.asked, full.readers) == (rests, [])
        (seconds, ring), full.timers = full.timers[0], []
        assert seconds == 1.0
        ring()
    assert len(full.readers) == 1
    assert "Too many open files" in caplog.text
