"""Sent and acknowledged batches, compared with a store; and connections with little knowledge of HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from arcwise.server.store import open_store
from arcwise.wire import MEDIA_TYPE, code_format

if TYPE_CHECKING:
    from pathlib import Path

    from arcwise.tasks import Task
    from arcwise.wire import Batch


PATIENCE = 60.0


class Answer(NamedTuple):
    """A status, 0 if the connection ended without one, and whether it came as a problem document."""

    status: int
    is_problem: bool = False


class Book:
    """Batches that were sent, by their ids, and which of them were acknowledged or may have been counted."""

    def __init__(self, folder: Path, tasks: list[Task]) -> None:
        self.path = folder / "server.db"
        self._tasks = {bytes.fromhex(task.id): task for task in tasks}
        self._batches: dict[bytes, Batch] = {}
        self._acknowledged: set[bytes] = set()
        self._refused: set[bytes] = set()

    def sent(self, batch: Batch) -> None:
        """Enter a batch before it leaves; the first content under an id stays."""
        self._batches.setdefault(batch.batch_id, batch)

    def answered(self, batch: Batch, status: int) -> None:
        """Record the outcome of a batch; without an answer (0) it may have been counted."""
        if status == 204:
            self._acknowledged.add(batch.batch_id)
        elif status:
            self._refused.add(batch.batch_id)

    @property
    def acknowledged(self) -> int:
        """How many batches were acknowledged."""
        return len(self._acknowledged)

    def stored(self) -> set[bytes]:
        """Return the ids of the batches that the store has counted."""
        with closing(sqlite3.connect(self.path)) as connection:
            return {name for (name,) in connection.execute("SELECT id FROM batch")}

    def problems(self) -> list[str]:
        """Return the differences between the store and the acknowledged batches, a sentence each."""
        stored = self.stored()
        found = []
        refused = self._refused - self._acknowledged
        for text, names in (
            ("acknowledged and not stored", self._acknowledged - stored),
            ("stored and never sent", stored - set(self._batches)),
            ("stored and answered as refused", stored & refused),
        ):
            if names:
                found.append(f"{len(names)} batches are {text}, such as {min(names).hex()}")
        expected: dict[tuple[bytes, int], Counter[int]] = {}
        for name in stored & set(self._batches):
            batch = self._batches[name]
            kernel_codes = self._tasks[batch.task_id].mechanism.kernel.codes
            codes = np.frombuffer(batch.codes, code_format(kernel_codes)).tolist()
            expected.setdefault((batch.task_id, batch.epoch), Counter()).update(codes)
        with closing(open_store(f"sqlite:///{self.path}", create=False)) as store:
            found += store.check()
            counts = {
                (key, epoch): Counter({int(code): int(row[code]) for code in row.nonzero()[0]})
                for key, task in self._tasks.items()
                for epoch, row in store.counts_by_epoch(task).items()
            }
        if counts != expected:
            found.append(f"counts: {sum(map(Counter.total, counts.values()))} reports, not those of the ids")
        return found


def head(task_id: str, *lines: str, method: str = "POST", path: str | None = None) -> bytes:
    """Return the head of a request with a batch, with these lines at its end."""
    path = f"/v1/tasks/{task_id}/reports" if path is None else path
    start = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {MEDIA_TYPE}\r\n"
    return "".join([start, *(f"{line}\r\n" for line in lines), "\r\n"]).encode("latin-1")


class Wire:
    """Requests on one connection, one after the other, and on a new one if it was closed."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = parts.hostname, parts.port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, task_id: str, body: bytes) -> Answer:
        """Send a body, and return its answer."""
        return await self.ask(head(task_id, f"Content-Length: {len(body)}") + body)

    async def ask(self, request: bytes) -> Answer:
        """Send a request, and return its answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
        reader, writer = self._streams
        writer.write(request)
        try:
            top = await asyncio.wait_for(_one_answer(reader), PATIENCE)
        except (ConnectionError, asyncio.IncompleteReadError):
            await self.close()
            return Answer(0)
        if b"\r\nconnection: close" in top:
            await self.close()
        return Answer(int(top[9:12]), b"\r\ncontent-type: application/problem+json\r\n" in top)

    async def close(self) -> None:
        """Close the connection."""
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()
            with contextlib.suppress(OSError):
                await streams[1].wait_closed()


async def _one_answer(reader: asyncio.StreamReader) -> bytes:
    """Read an answer to its end; return its head in lower case."""
    top = (await reader.readuntil(b"\r\n\r\n")).lower()
    if length := re.search(rb"\r\ncontent-length: (\d+)", top):
        await reader.readexactly(int(length[1]))
    return top


async def exchange(url: str, parts: list[bytes], *, end: str, expected: int, seconds: float) -> list[int]:
    """Send parts on a separate connection; return the statuses of the answers.

    The `end` is to "wait" for this many answers or this long, to "half" close and wait, or to "reset".
    """
    parsed = urlsplit(url)
    reader, writer = await asyncio.open_connection(parsed.hostname, parsed.port)
    received = bytearray()

    async def read() -> None:
        await writer.drain()
        if end == "half":
            writer.write_eof()
        while len(statuses_in(received)) < expected and (part := await reader.read(65_536)):
            received.extend(part)

    with contextlib.suppress(ConnectionError, asyncio.TimeoutError):
        for part in parts:
            if writer.transport.is_closing():
                break
            writer.write(part)
            await asyncio.sleep(0)
        if end != "reset":
            await asyncio.wait_for(read(), seconds)
    writer.transport.abort()
    return statuses_in(received)


def statuses_in(received: bytes | bytearray) -> list[int]:
    """Return the statuses of answers, except those that only ask to go on."""
    found = [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]
    return [status for status in found if status != 100]
