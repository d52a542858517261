"""Take batches from a NATS JetStream stream, and write them to a lake or post them to a server.

python examples/nats/consumer.py nats://127.0.0.1:4222 --lake landed
python examples/nats/consumer.py nats://127.0.0.1:4222 --server http://127.0.0.1:8000

A message is acknowledged when its batch is durable in the lake or on the server; then the stream deletes it.
A batch that is delivered again after a crash counts once: `arcwise count` and the server recognise its id.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import secrets
import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import httpx
import nats
from nats.js.api import ConsumerConfig, DiscardPolicy, RetentionPolicy, StorageType
from nats.js.errors import NotFoundError

from arcwise.client.delivery import retry_after_seconds
from arcwise.errors import WireError
from arcwise.urls import checked_url, is_loopback_url
from arcwise.wire import MEDIA_TYPE, decode_batch

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext

STREAM, SUBJECTS, SUBJECT = "ARCWISE", ["arcwise.>"], "arcwise.reports"
MOST = 1000
"""Largest number of messages that are taken together, for one file of the lake."""
ACKNOWLEDGE_SECONDS = 300.0
"""Seconds after which a message that was not acknowledged is delivered again."""
WAIT_SECONDS = 1.0
FINAL = (400, 404, 409, 410, 413, 415, 422)
"""Statuses of an arcwise server for a batch that it will never count."""

log = logging.getLogger("consumer")


class Fate(Enum):
    """The result for a batch."""

    TAKEN = "taken"
    REFUSED = "refused permanently"
    LATER = "later"
    STOPPED = "nothing can be taken until the problem is fixed"


class Answer(NamedTuple):
    """The result for a batch, the seconds until it should be delivered again, and the reason for a stop."""

    fate: Fate
    seconds: float = 0.0
    reason: str = ""


class Sink(Protocol):
    """A destination for batches."""

    async def take(self, bodies: list[bytes]) -> list[Answer]:
        """Make bodies durable, and return the result for each."""


class Lake:
    """Parquet files of unchanged bodies, in one column, `body`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)

    async def take(self, bodies: list[bytes]) -> list[Answer]:
        """Write the bodies to a file, durably."""
        await asyncio.to_thread(self._write, bodies)
        return [Answer(Fate.TAKEN)] * len(bodies)

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
            os.fsync(folder)  # to store the file's name
        finally:
            os.close(folder)


class Server:
    """An arcwise server, which answers 204 if it counts a batch now or has counted it before."""

    def __init__(self, url: str, key: str | None) -> None:
        headers = {"Content-Type": MEDIA_TYPE} | ({"Authorization": f"Bearer {key}"} if key else {})
        limits = httpx.Limits(max_connections=32)
        self._http = httpx.AsyncClient(
            base_url=checked_url(url, "--server", insecure=False),
            headers=headers,
            limits=limits,
            timeout=httpx.Timeout(30.0, pool=None),
            trust_env=not is_loopback_url(url),  # a proxy of the environment would get the key
        )

    async def take(self, bodies: list[bytes]) -> list[Answer]:
        """Post the bodies."""
        return await asyncio.gather(*map(self._post, bodies))

    async def _post(self, body: bytes) -> Answer:
        try:
            task_id = decode_batch(body).task_id.hex()
            answer = await self._http.post(f"/v1/tasks/{task_id}/reports", content=body)
        except WireError as error:
            log.error("dropped a message that is not a batch: %s", error)
            return Answer(Fate.REFUSED)
        except httpx.TransportError as error:
            log.warning("the server cannot be reached: %s", type(error).__name__)
            return Answer(Fate.LATER, WAIT_SECONDS)
        return judge(answer)


def judge(answer: httpx.Response) -> Answer:
    """Return the meaning of a server's answer for the batch."""
    status, kind = answer.status_code, _kind(answer)
    if status == 204:
        return Answer(Fate.TAKEN)
    if status in (401, 403):
        return Answer(Fate.STOPPED, reason=f"{status} {kind}: set ARCWISE_KEY to an ingest key of the server")
    if status == 404 and kind != "unknown-task":  # a wrong URL must not empty the stream
        return Answer(Fate.STOPPED, reason="404 for its path: --server must be the URL of an arcwise server")
    if status in FINAL:
        log.error("the server refused a batch permanently: %d %s", status, kind)
        return Answer(Fate.REFUSED)
    log.warning("the server answered %d %s; the batch will be delivered again", status, kind)
    seconds = retry_after_seconds(answer.headers.get("Retry-After"))
    return Answer(Fate.LATER, max(seconds, WAIT_SECONDS))


def _kind(answer: httpx.Response) -> str:
    """Return the type of problem that an arcwise server reports; "" for any other answer."""
    try:
        return str(answer.json()["type"]).removeprefix("urn:arcwise:problem:")
    except (ValueError, KeyError, TypeError):
        return ""


async def settle(message: Msg, answer: Answer) -> None:
    """Let the stream delete a message, or deliver it again."""
    if answer.fate is Fate.TAKEN:
        await message.ack()
    elif answer.fate is Fate.REFUSED:
        await message.term()
    else:
        await message.nak(answer.seconds)


async def make_stream(stream: JetStreamContext) -> None:
    """Create the stream, or use an existing one with the limits that its operator set.

    Raises
    ------
    SystemExit
        When an existing stream would keep messages that were taken, or delete others.
    """
    try:
        found = (await stream.stream_info(STREAM)).config
    except NotFoundError:
        await stream.add_stream(
            name=STREAM,
            subjects=SUBJECTS,
            storage=StorageType.FILE,
            retention=RetentionPolicy.WORK_QUEUE,  # an acknowledged message is deleted and makes room
            discard=DiscardPolicy.NEW,  # a full stream refuses, so that devices keep their reports
        )
        return
    kept = found.retention == RetentionPolicy.WORK_QUEUE and found.discard == DiscardPolicy.NEW
    forgets = found.max_age or (found.max_msgs_per_subject or 0) > 0 or found.storage != StorageType.FILE
    if not kept or forgets:
        raise SystemExit(
            f"the stream {STREAM} must have workqueue retention, discard new and file storage, and no limit "
            "of age or by subject: recreate it"
        )


async def consume(servers: str, sink: Sink, *, until_idle: bool) -> int:
    """Pass the stream's batches to a sink, and return the number that it took.

    Raises
    ------
    SystemExit
        When the sink can take nothing until a problem is fixed; the messages stay in the stream.
    """
    connection = await nats.connect(servers, max_reconnect_attempts=-1)
    try:
        stream = connection.jetstream()
        await make_stream(stream)
        # One name for all: a work queue has one consumer, which several processes may share.
        subscription = await stream.pull_subscribe(
            SUBJECT, durable="consumer", config=ConsumerConfig(ack_wait=ACKNOWLEDGE_SECONDS)
        )
        taken, waits_until = 0, 0.0
        while True:
            try:
                messages = await subscription.fetch(MOST, timeout=WAIT_SECONDS)
            except asyncio.TimeoutError:  # also nats.errors.TimeoutError
                if until_idle and time.monotonic() > waits_until:
                    return taken
                continue
            answers = await sink.take([message.data for message in messages])
            for message, answer in zip(messages, answers, strict=True):
                await settle(message, answer)
            taken += sum(answer.fate is Fate.TAKEN for answer in answers)
            if reasons := {answer.reason for answer in answers if answer.fate is Fate.STOPPED}:
                raise SystemExit(f"the server refuses everything: {', '.join(sorted(reasons))}")
            if seconds := max(answer.seconds for answer in answers):
                waits_until = time.monotonic() + seconds + 2 * WAIT_SECONDS  # the stream may be a little late
                await asyncio.sleep(seconds)
    finally:
        await connection.close()


def main() -> None:
    """Take messages until the program is stopped, or with --until-idle until no more come."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("servers", help="nats://HOST:PORT")
    to = parser.add_mutually_exclusive_group(required=True)
    to.add_argument("--lake", type=Path, help="folder for Parquet files")
    to.add_argument("--server", help="URL of an arcwise server; ARCWISE_KEY is its key")
    parser.add_argument("--until-idle", action="store_true", help="end when the stream is empty")
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    sink: Sink = Lake(given.lake) if given.lake else Server(given.server, os.environ.get("ARCWISE_KEY"))
    print(asyncio.run(consume(given.servers, sink, until_idle=given.until_idle)), "messages taken")


if __name__ == "__main__":
    main()
