"""Clients that hold on to connections: slow ones, silent ones, and such as take no answer."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.soak.hostile.book import head, statuses_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.soak.hostile.attack import Attack

__all__ = ["be_idle", "be_slow", "take_nothing"]


async def be_slow(attack: Attack, scale: float) -> None:
    """Send heads and bodies that do not end, a byte at a time: cut, or 408, within the deadline."""
    task = attack.tasks[0]
    kinds = [
        (b"", b""),
        (b"PO", b""),
        (b"POST /", b"x"),
        (head(task.id, "X: 1")[:-4], b"x"),
        (head(task.id, "X: 1")[:-2], b"Y: 1\r\n"),
        (head(task.id, "Content-Length: 1000000"), b"x"),
        (head(task.id, "Transfer-Encoding: chunked"), b"1\r\nx\r\n"),
        (head(task.id, "Content-Length: 1000000", method="GET", path="/health/live"), b"x"),
    ]

    async def work(start: bytes, part: bytes) -> None:
        endless = itertools.chain([start], itertools.repeat(part))
        before = time.monotonic()
        statuses = await _drip(attack.url, endless)
        took = time.monotonic() - before
        attack.note("a slow request", statuses or [0], {0, 200, 408})
        if took > 1 + 5 + 4:
            attack.violations.append(f"a slow request was ended after {took:.1f} s")

    if scale < 0.1:
        del kinds[-1]  # nobody reads that body, so it is cut five seconds later than the others
    for _ in range(max(1, round(5 * scale))):
        await asyncio.gather(*(work(*kinds[n % len(kinds)]) for n in range(max(16, round(400 * scale)))))


async def _drip(url: str, parts: Iterator[bytes]) -> list[int]:
    """Send a part every 50 ms until the server ends the connection; return the statuses of its answers."""
    parsed = urlsplit(url)
    reader, writer = await asyncio.open_connection(parsed.hostname, parsed.port)
    received = bytearray()

    async def read() -> None:
        with contextlib.suppress(ConnectionError):
            while part := await reader.read(4096):
                received.extend(part)

    reading = asyncio.create_task(read())
    with contextlib.suppress(ConnectionError):
        while not reading.done():
            writer.write(next(parts))
            await asyncio.wait([reading], timeout=0.05)
    await reading
    writer.transport.abort()
    return statuses_in(received)


async def be_idle(attack: Attack, scale: float) -> None:
    """Hold connections that say nothing, or half a head."""
    parsed = urlsplit(attack.url)
    held = []
    for number in range(max(100, round(1000 * scale))):
        _, writer = await asyncio.open_connection(parsed.hostname, parsed.port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\n" if number % 2 else b"")
        held.append(writer)
    await asyncio.sleep(1 + 9 * scale)
    if any(writer.transport.is_closing() for writer in held):
        attack.violations.append("an idle connection was ended before its deadline")
    for writer in held:
        writer.transport.abort()


async def take_nothing(attack: Attack, scale: float) -> None:
    """Ask for large answers and take none of them; ask for small ones, far ahead."""
    loop = asyncio.get_running_loop()
    parsed = urlsplit(attack.url)
    ask = b"GET /v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 50

    async def work() -> None:
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setblocking(False)
            await loop.sock_connect(connection, (parsed.hostname, parsed.port))
            await loop.sock_sendall(connection, ask)
            await asyncio.sleep(2 + 18 * scale)
            received = 0
            with contextlib.suppress(ConnectionError):
                while part := await loop.sock_recv(connection, 65_536):
                    received += part.count(b"HTTP/1.1 200 ")
            attack.note("a large answer", [200] * received + [0], {0, 200})
            if received == 50:
                attack.violations.append("all answers waited for a client that took none of them")

    short = b"GET / HTTP/1.1\r\nA:1234567890\r\n\r\n" * 8192

    async def hurry() -> None:
        with socket.socket() as connection, contextlib.suppress(ConnectionError, asyncio.TimeoutError):
            connection.setblocking(False)
            await loop.sock_connect(connection, (parsed.hostname, parsed.port))
            for _ in range(1000):
                await asyncio.wait_for(loop.sock_sendall(connection, short), 2)
            attack.violations.append("eight million requests were read ahead of their answers")

    await asyncio.gather(*(work() for _ in range(max(4, round(40 * scale)))), *(hurry() for _ in range(10)))
