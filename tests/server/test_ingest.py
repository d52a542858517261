"""POST /v1/tasks/{id}/reports: accepted reports, refusals, and that refusals store nothing."""

import asyncio
import random
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgpack
import pytest
from fastapi import FastAPI

from arcwise.domains import Circle, Interval
from arcwise.mechanisms import OptimalPiecewise
from arcwise.server.store import Outcome, Store, open_store
from arcwise.tasks import Task
from arcwise.wire import MAX_BODY_BYTES, MEDIA_TYPE, Batch, encode_batch, pack_codes
from tests.support.apps import Serve

pytestmark = pytest.mark.anyio

DELAY = Task("delay", Interval(0, 1), 1.0)
HEADING = Task("heading", Circle(360), 1.0)
WIDE = Task("wide", Interval(0, 1), 1.0, mechanism=OptimalPiecewise(Interval(0, 1), 1.0, nodes=300))
TASKS = [DELAY, HEADING, WIDE]
SECRET = b"\xfeSECRET\xfe"


def now() -> int:
    return DELAY.epoch(time.time())


def batch(
    task: Task = DELAY, codes: list[int] | None = None, *, number: int = 0, epoch: int | None = None
) -> Batch:
    width = 1 if task.mechanism.kernel.codes <= 256 else 2
    packed = pack_codes([1, 2, 3] if codes is None else codes, width)
    return Batch(
        bytes.fromhex(task.id), number.to_bytes(16, "big"), now() if epoch is None else epoch, packed
    )


async def post(
    http: httpx.AsyncClient, body: bytes, task: Task = DELAY, kind: str = MEDIA_TYPE
) -> httpx.Response:
    return await http.post(f"/v1/tasks/{task.id}/reports", content=body, headers={"content-type": kind})


async def total(http: httpx.AsyncClient, task: Task = DELAY) -> int:
    answer = await http.get(f"/v1/tasks/{task.id}/estimate")
    assert answer.status_code == 200
    n: int = answer.json()["n"]
    return n


def assert_problem(answer: httpx.Response, status: int, kind: str) -> None:
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["type"] == f"urn:arcwise:problem:{kind}"
    assert document["status"] == status
    assert document["detail"]
    assert document["title"]
    assert b"SECRET" not in answer.content


async def test_batches_are_counted_and_replays_are_not(serve: Serve) -> None:
    http = await serve(TASKS)
    for _ in range(3):
        answer = await post(http, encode_batch(batch()))
        assert (answer.status_code, answer.content) == (204, b"")
    assert (
        await post(http, encode_batch(batch(codes=[7] * 50)))
    ).status_code == 204  # the first content wins
    assert (await post(http, encode_batch(batch(number=1)))).status_code == 204
    assert await total(http) == 6
    assert (
        await post(http, encode_batch(batch(WIDE, [0, WIDE.mechanism.kernel.codes - 1])), WIDE)
    ).status_code == 204
    assert await total(http, WIDE) == 2


async def raw_post(app: FastAPI, body: bytes) -> tuple[int, bytes]:
    """Post without an HTTP client, which would take most of the time of the fuzz."""
    path = f"/v1/tasks/{DELAY.id}/reports"
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "scheme": "http",
        "http_version": "1.1",
        "headers": [(b"content-type", MEDIA_TYPE.encode())],
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"]).get(b"content-type", b"")


async def test_every_shape_of_batch_that_is_refused(serve: Serve) -> None:
    good = [1, bytes.fromhex(DELAY.id), bytes(16), now(), b"\x01"]

    def changed(position: int, value: object) -> bytes:
        return bytes(msgpack.packb([*good[:position], value, *good[position + 1 :]]))

    body = encode_batch(batch())
    malformed = [
        b"",
        b"SECRET",
        body[:-1],
        body + b"\x00",
        bytes(msgpack.packb(good[:4])),
        bytes(msgpack.packb([*good, SECRET])),
        bytes(msgpack.packb({"SECRET": 1})),
        b"\x91" * 100_000,
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        changed(0, 2),
        changed(0, True),
        changed(0, 1.0),
        changed(1, DELAY.id),
        changed(1, bytes(31)),
        changed(2, SECRET),
        changed(2, "SECRET"),
        changed(3, -1),
        changed(3, 2**32),
        changed(3, float(now())),
        changed(4, b""),
        changed(4, [1]),
        changed(4, "SECRET"),
    ]
    http = await serve(TASKS)
    for bad in malformed:
        assert_problem(await post(http, bad), 400, "malformed-batch")
    assert_problem(await post(http, encode_batch(batch(HEADING))), 400, "wrong-task")
    assert_problem(await post(http, changed(3, now() + 2)), 422, "epoch-ahead")
    assert_problem(await post(http, changed(3, now() - 32)), 410, "epoch-closed")
    assert_problem(await post(http, changed(4, b"\x01\xcc")), 422, "bad-codes")  # 204 is K
    odd = Batch(bytes.fromhex(WIDE.id), bytes(16), now(), b"\x01\x00\x01")
    assert_problem(await post(http, encode_batch(odd), WIDE), 422, "bad-codes")
    assert_problem(
        await post(http, encode_batch(batch(WIDE, [WIDE.mechanism.kernel.codes])), WIDE), 422, "bad-codes"
    )
    assert_problem(await post(http, body, kind="application/json"), 415, "media-type")
    assert_problem(await post(http, bytes(MAX_BODY_BYTES + 1)), 413, "too-large")
    for path in ("00" * 32, "SECRET", DELAY.id.upper()):
        answer = await http.post(
            f"/v1/tasks/{path}/reports", content=body, headers={"content-type": MEDIA_TYPE}
        )
        assert_problem(answer, 404, "unknown-task")
    assert_problem(await http.put(f"/v1/tasks/{DELAY.id}/reports", content=body), 405, "method-not-allowed")
    assert_problem(await http.get("/SECRET"), 404, "not-found")
    for task in TASKS:
        assert await total(http, task) == 0


async def test_epochs_at_the_edges_are_taken(serve: Serve) -> None:
    http = await serve(TASKS)
    for number, epoch in enumerate((now() - 30, now(), now() + 1)):
        assert (await post(http, encode_batch(batch(number=number, epoch=epoch)))).status_code == 204
    assert await total(http) == 9


@pytest.mark.slow
async def test_ten_thousand_fuzzed_bodies(serve: Serve) -> None:
    """Truncated, extended, mutated, spliced and random bodies: each is a problem or a valid batch."""
    generator = random.Random(20130101)
    epoch = now()

    def fuzzed(number: int) -> bytes:
        body = bytearray(
            encode_batch(batch(codes=[generator.randrange(256)] * 5, number=number, epoch=epoch))
        )
        kind = generator.randrange(6)
        if kind == 0:
            return bytes(body[: generator.randrange(len(body))])
        if kind == 1:
            return bytes(body) + generator.randbytes(generator.randrange(1, 40))
        if kind == 2:
            for _ in range(generator.randrange(1, 8)):
                body[generator.randrange(len(body))] = generator.randrange(256)
            return bytes(body)
        if kind == 3:
            return generator.randbytes(generator.randrange(200))
        if kind == 4:
            at = generator.randrange(len(body))
            return bytes(body[:at] + generator.randbytes(generator.randrange(5)) + body[at:])
        return bytes(body)  # codes from 0 to 255 of 204

    http = await serve(TASKS)
    counted = 0
    statuses: dict[int, int] = {}
    for first in range(0, 10_000, 50):  # batches that arrive together share a commit
        answers = [raw_post(http.app, fuzzed(number)) for number in range(first, first + 50)]
        for status, content_type in await asyncio.gather(*answers):
            statuses[status] = statuses.get(status, 0) + 1
            if status == 204:
                counted += 1
            else:
                assert content_type == b"application/problem+json"
                assert status in (400, 410, 422)
    assert counted > 500  # the fuzz is useless if nothing gets through
    assert statuses[400] > 5_000
    # A mutation may shorten the codes, but never makes a batch count twice.
    assert counted <= await total(http) <= 5 * counted


async def test_bombs_take_bounded_memory(serve: Serve) -> None:
    bombs = [
        b"\x91" * MAX_BODY_BYTES,  # nested arrays
        b"\xdc\xff\xff" + b"\xc0" * (MAX_BODY_BYTES - 3),
        b"\xdd\x7f\xff\xff\xff",  # an array of 2**31 declared
        b"\xdf\x7f\xff\xff\xff" + b"\x00" * 1000,
        b"\xc6\x7f\xff\xff\xff",  # a bin of 2**31 declared
        b"\xc9\x7f\xff\xff\xff\x01",
        b"\x95\x01\xc4\x20" + bytes(32) + b"\xc4\x10" + bytes(16) + b"\x00\xc6\x7f\xff\xff\xff",
    ]
    http = await serve(TASKS)
    await post(http, b"")  # load everything first
    tracemalloc.start()
    for bomb in bombs:
        assert_problem(await post(http, bomb), 400, "malformed-batch")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * MAX_BODY_BYTES


async def test_an_endless_body_is_cut_off(serve: Serve) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield bytes(1 << 16)

    http = await serve(TASKS)
    url = f"/v1/tasks/{DELAY.id}/reports"
    answer = await http.post(url, content=endless(), headers={"content-type": MEDIA_TYPE})
    assert_problem(answer, 413, "too-large")
    assert sent <= MAX_BODY_BYTES // (1 << 16) + 2


async def test_a_store_that_fails_is_a_problem_and_a_retry_succeeds(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = await serve(TASKS)
    import sqlite3

    from arcwise.server.store.sqlite.store import SQLiteStore

    real = SQLiteStore.add

    def fails(self: Store, batches: list[Batch]) -> list[Outcome]:
        with self._errors("write to"):  # type: ignore[attr-defined]
            raise sqlite3.OperationalError("disk I/O error SECRET")

    monkeypatch.setattr(SQLiteStore, "add", fails)
    answer = await post(http, encode_batch(batch()))
    assert_problem(answer, 503, "store-busy")
    assert answer.headers["retry-after"] == "1"
    monkeypatch.setattr(SQLiteStore, "add", real)
    assert (await post(http, encode_batch(batch()))).status_code == 204
    assert await total(http) == 3


async def test_more_than_may_wait_is_turned_away_and_nothing_acknowledged_is_lost(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = await serve(TASKS, max_waiting_bytes=16 * 1100, max_body_bytes=16_000)
    from arcwise.server.store.sqlite.store import SQLiteStore

    real = SQLiteStore.add

    go = threading.Event()

    def held(self: SQLiteStore, batches: list[Batch]) -> list[Outcome]:
        assert go.wait(60)
        return real(self, batches)

    monkeypatch.setattr(SQLiteStore, "add", held)
    posts = [asyncio.create_task(post(http, encode_batch(batch(number=n)))) for n in range(64)]
    await asyncio.wait(posts, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    go.set()
    answers = await asyncio.gather(*posts)
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {204, 503}
    assert await total(http) == 3 * statuses.count(204)


async def test_a_body_that_never_comes_is_given_up(serve: Serve) -> None:
    async def silent() -> AsyncIterator[bytes]:
        await asyncio.sleep(30)
        yield b""

    async def stalled() -> AsyncIterator[bytes]:
        yield encode_batch(batch())[:20]
        await asyncio.sleep(30)

    http = await serve(TASKS, body_seconds=0.05)
    for body in (silent(), stalled()):
        url = f"/v1/tasks/{DELAY.id}/reports"
        answer = await http.post(url, content=body, headers={"content-type": MEDIA_TYPE})
        assert_problem(answer, 408, "slow-body")
    assert await total(http) == 0


async def test_forgotten_ids_stay_refused_when_the_retention_grows_again(serve: Serve) -> None:
    """A server with a short retention forgets ids; a later server must not count their batches again."""
    old = encode_batch(batch(epoch=now() - 5))
    http = await serve(TASKS)
    assert (await post(http, old)).status_code == 204
    assert (await post(http, encode_batch(batch(number=1)))).status_code == 204
    await http.stop()
    for options in ({"retention_days": 1}, {}):
        http = await serve(TASKS, **options)
        while (answer := await post(http, old)).status_code != 410:  # pruning happens soon after the start
            assert answer.status_code == 204
        assert_problem(answer, 410, "epoch-closed")
        assert await total(http) == 6
        await http.stop()


async def test_a_short_period_still_leaves_days_for_a_batch_to_arrive(serve: Serve) -> None:
    minute = Task("minute", Interval(0, 1), 1.0, epoch_seconds=60)
    width = minute.mechanism.kernel.codes
    http = await serve([minute])
    epoch = minute.epoch(time.time())
    for number, at in enumerate((epoch - 29 * 1440, epoch, epoch + 1439)):
        body = encode_batch(Batch(bytes.fromhex(minute.id), bytes([number]) * 16, at, bytes([width - 1])))
        assert (await post(http, body, minute)).status_code == 204
    late = encode_batch(Batch(bytes.fromhex(minute.id), b"l" * 16, epoch - 31 * 1440, b"\x00"))
    assert_problem(await post(http, late, minute), 410, "epoch-closed")


async def test_requests_that_arrive_together_share_a_commit(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = await serve(TASKS)
    from arcwise.server.store.sqlite.store import SQLiteStore

    groups: list[int] = []
    real = SQLiteStore.add
    go = threading.Event()

    def watched(self: SQLiteStore, batches: list[Batch]) -> list[Outcome]:
        groups.append(len(batches))
        assert go.wait(60)
        return real(self, batches)

    monkeypatch.setattr(SQLiteStore, "add", watched)
    posts = [asyncio.create_task(post(http, encode_batch(batch(number=n)))) for n in range(100)]
    while http.runtime.ingest.waiting < 100:
        await asyncio.sleep(0)
    go.set()
    await asyncio.gather(*posts)
    assert sum(groups) == 100
    assert len(groups) <= 2  # the first batch, and all that came while it was written


async def test_what_was_queued_is_written_when_the_app_stops(serve: Serve, tmp_path: object) -> None:
    http = await serve(TASKS)
    ingest = http.app.router.routes[0].endpoint  # type: ignore[attr-defined]
    for number in range(50):
        ingest._writer.add(batch(number=number), DELAY.mechanism.kernel.codes)
    await http.stop()
    store = open_store(f"sqlite:///{tmp_path}/app.db")
    assert store.counts(DELAY).sum() == 150
    store.close()
