"""Senders of nearly valid data and of far too much, and clients that hold on to their connections."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from arcwise.wire import Batch, encode_batch
from tests.soak.hostile.bodies import Sample, batch_in, bodies, fresh
from tests.soak.hostile.book import PATIENCE, Answer, Wire, exchange, head, statuses_in
from tests.soak.hostile.requests import requests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.soak.hostile.attack import Attack


async def send_bodies(attack: Attack, scale: float) -> None:
    """Send bodies that are nearly batches; those that are batches are counted, even if random."""
    samples = itertools.islice(bodies(attack.generator, attack.tasks), int(1e5 * scale))
    await attack.many(16, lambda: _send_all(attack, samples))


async def _send_all(attack: Attack, samples: Iterator[Sample]) -> None:
    wire = Wire(attack.url)
    for task, body in samples:
        batch = batch_in(task, body)
        if batch is not None:
            attack.book.sent(batch)
        answer = await wire.post(task.id, body)
        _judge(attack, answer, body, is_batch=batch is not None)
        if batch is None:
            continue
        attack.book.answered(batch, answer.status)
        if attack.generator.random() < 0.1:  # again, with other codes under its id
            other = Batch(batch.task_id, batch.batch_id, batch.epoch, batch.codes * 2)
            answer = await wire.post(task.id, encode_batch(other))
            _judge(attack, answer, body, is_batch=True)
    await wire.close()


def _judge(attack: Attack, answer: Answer, body: bytes, *, is_batch: bool) -> None:
    allowed = {204} if is_batch else {400, 410, 413, 422}
    attack.note(
        f"a body that is {'a' if is_batch else 'no'} batch, {body[:99].hex()}", [answer.status], allowed
    )
    if answer.is_problem == (answer.status == 204):
        attack.violations.append(f"{answer.status}: not as docs/reference/protocol.md has it")


async def send_requests(attack: Attack, scale: float) -> None:
    """Send requests that are nearly HTTP; counted batches were acknowledged, or left without an answer."""
    cases = itertools.islice(requests(attack.generator, attack.tasks[0]), int(2e4 * scale))
    open_ended: list[tuple[set[bytes], int, int]] = []

    async def work() -> None:
        for case in cases:
            for batch in case.batches:
                attack.book.sent(batch)
            statuses = await exchange(
                attack.url,
                case.parts,
                end=case.end,
                expected=max(len(case.batches), 1),
                seconds=PATIENCE if case.must else 5.0,
            )
            answers = Counter(statuses)
            what = f"{case.kind}, {b''.join(case.parts)[99:300]!r}"
            attack.note(what, statuses or [0], {0, 200, 204, 400, 404, 405, 408, 410, 413, 414, 415, 422})
            if case.must and answers[204] != len(case.batches):
                attack.violations.append(f"{what}: answered {statuses}")
            if answers[204] == len(case.batches):
                for batch in case.batches:
                    attack.book.answered(batch, 204)
            elif answers[204] > len(case.batches):
                attack.violations.append(f"{what}: answered 204")
            else:
                names = {batch.batch_id for batch in case.batches}
                open_ended.append((names, answers[204], len(case.batches) - len(statuses)))

    await attack.many(200, work)
    await asyncio.sleep(0.2)
    stored = attack.book.stored()
    for names, counted, unanswered in open_ended:
        if not counted <= len(names & stored) <= counted + max(unanswered, 0):
            attack.violations.append(f"{counted} batches acknowledged, {len(names & stored)} stored")


async def flood(attack: Attack, scale: float) -> None:
    """Send ten times the store's throughput, which is low because its lock is held nearly all the time.

    It lasts as long as the scale says; on a busy machine it goes on until the flood is one, at most a minute
    longer.
    """
    stop = threading.Event()
    locker = threading.Thread(target=_hold_the_lock, args=(attack.book.path, stop))
    locker.start()
    until = time.monotonic() + 2 + 28 * scale
    sent = taken = 0

    def is_one() -> bool:
        return sent >= 10 * taken > 0

    async def work() -> None:
        nonlocal sent, taken
        wire = Wire(attack.url)
        while time.monotonic() < until or (not is_one() and time.monotonic() < until + 60):
            batch = fresh(attack.generator, attack.tasks[0], 3)
            batch = Batch(batch.task_id, batch.batch_id, batch.epoch, batch.codes * 7000)
            attack.book.sent(batch)
            answer = await wire.post(batch.task_id.hex(), encode_batch(batch))
            attack.book.answered(batch, answer.status)
            attack.note("a flood", [answer.status], {204, 503})
            sent += 1
            taken += answer.status == 204
        await wire.close()

    try:
        await attack.many(64, work)
    finally:
        stop.set()
        locker.join()
    if not is_one():
        attack.violations.append(f"no flood: {sent} batches sent, {taken} taken")


def _hold_the_lock(path: object, stop: threading.Event) -> None:
    with closing(sqlite3.connect(str(path), timeout=30, isolation_level=None)) as connection:
        while not stop.wait(0.02):
            connection.execute("BEGIN IMMEDIATE")
            stop.wait(1.0)
            connection.execute("ROLLBACK")


async def be_slow(attack: Attack, scale: float) -> None:
    """Send endless heads and bodies, a byte at a time: they are cut, or get 408, within the deadline."""
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
    """Hold connections that send nothing, or half a head."""
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
    """Request large answers without reading them; request small ones, far ahead."""
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
