"""Take batches from a stream of NATS JetStream, and land them in a lake or post them to a server.

python examples/nats/consumer.py nats://127.0.0.1:4222 --lake landed
python examples/nats/consumer.py nats://127.0.0.1:4222 --server http://127.0.0.1:8000

A message is acknowledged when its batch is durable where it goes. What is delivered again after a crash
counts once: `arcwise count` and the server know a batch by its id.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import secrets
from pathlib import Path
from typing import Protocol

import httpx
import nats
from nats.js.api import ConsumerConfig, DiscardPolicy, RetentionPolicy, StorageType

from arcwise.errors import WireError
from arcwise.wire import MEDIA_TYPE, decode_batch

STREAM, SUBJECTS = "ARCWISE", ["arcwise.>"]
MOST = 1000
"""Messages that are taken at once: one file of the lake."""
ACKNOWLEDGE_SECONDS = 300.0
"""After which a message comes again that was not acknowledged."""
WAIT_SECONDS = 1.0

log = logging.getLogger("consumer")


class Sink(Protocol):
    """Where batches go."""

    async def take(self, bodies: list[bytes]) -> list[bool]:
        """Make bodies durable; return for each whether it need not come again."""


class Lake:
    """Parquet files of bodies as they came: one column, `body`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)

    async def take(self, bodies: list[bytes]) -> list[bool]:
        """Write a file, durably."""
        await asyncio.to_thread(self._write, bodies)
        return [True] * len(bodies)

    def _write(self, bodies: list[bytes]) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        name = secrets.token_hex(8)
        draft = self._folder / f".{name}.part"
        table = pa.table({"body": pa.array(bodies, pa.binary())})
        with open(draft, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            parquet.write_table(table, file)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(self._folder / f"{name}.parquet")
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)  # the file's name
        finally:
            os.close(folder)


class Server:
    """An arcwise server, which answers 204 when a batch is counted, now or earlier."""

    def __init__(self, url: str, key: str | None) -> None:
        headers = {"Content-Type": MEDIA_TYPE} | ({"Authorization": f"Bearer {key}"} if key else {})
        limits = httpx.Limits(max_connections=32)
        self._http = httpx.AsyncClient(
            base_url=url, headers=headers, limits=limits, timeout=httpx.Timeout(30.0, pool=None)
        )

    async def take(self, bodies: list[bytes]) -> list[bool]:
        """Post the bodies; one that is refused for good need not come again."""
        return await asyncio.gather(*map(self._post, bodies))

    async def _post(self, body: bytes) -> bool:
        try:
            task_id = decode_batch(body).task_id.hex()
            answer = await self._http.post(f"/v1/tasks/{task_id}/reports", content=body)
        except WireError as error:
            log.error("dropped a message that is no batch: %s", error)
            return True
        except httpx.TransportError as error:
            log.warning("the server cannot be reached: %s", type(error).__name__)
            return False
        if answer.status_code in (400, 410, 413, 422):
            log.error("the server refused a batch for good: %d", answer.status_code)
            return True
        if answer.status_code != 204:
            log.warning("the server answered %d", answer.status_code)
        return answer.status_code == 204


async def consume(servers: str, sink: Sink, name: str, *, until_idle: bool) -> int:
    """Hand what the stream has to a sink; return how many messages were acknowledged."""
    connection = await nats.connect(servers, max_reconnect_attempts=-1)
    try:
        stream = connection.jetstream()
        await stream.add_stream(
            name=STREAM,
            subjects=SUBJECTS,
            storage=StorageType.FILE,
            retention=RetentionPolicy.LIMITS,
            discard=DiscardPolicy.NEW,  # a full stream refuses, so that devices keep their reports
        )
        subscription = await stream.pull_subscribe(
            "arcwise.reports", durable=name, config=ConsumerConfig(ack_wait=ACKNOWLEDGE_SECONDS)
        )
        acknowledged = 0
        while True:
            try:
                messages = await subscription.fetch(MOST, timeout=WAIT_SECONDS)
            except asyncio.TimeoutError:  # also nats.errors.TimeoutError
                if until_idle:
                    return acknowledged
                continue
            taken = await sink.take([message.data for message in messages])
            for message, is_taken in zip(messages, taken, strict=True):
                await (message.ack() if is_taken else message.nak())
            acknowledged += sum(taken)
            if not all(taken):
                await asyncio.sleep(WAIT_SECONDS)
    finally:
        await connection.close()


def main() -> None:
    """Take messages until the program is stopped, or none comes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("servers", help="nats://HOST:PORT")
    to = parser.add_mutually_exclusive_group(required=True)
    to.add_argument("--lake", type=Path, help="folder for Parquet files")
    to.add_argument("--server", help="URL of an arcwise server; ARCWISE_KEY is its key")
    parser.add_argument("--until-idle", action="store_true", help="end when the stream has nothing more")
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    sink: Sink = Lake(given.lake) if given.lake else Server(given.server, os.environ.get("ARCWISE_KEY"))
    name = "lake" if given.lake else "server"
    print(asyncio.run(consume(given.servers, sink, name, until_idle=given.until_idle)), "messages taken")


if __name__ == "__main__":
    main()
