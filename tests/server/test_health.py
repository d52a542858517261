"""Readiness, a quiet end on SIGTERM, and the log."""

import asyncio
import json
import logging
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from arcwise.domains import Interval
from arcwise.errors import StoreError
from arcwise.server.process.logs import _JSONFormatter, _TextFormatter
from arcwise.server.store import open_store
from arcwise.server.store.sqlite.store import SQLiteStore
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE, Batch
from tests.support.apps import Serve
from tests.support.reports import body_of
from tests.support.server_processes import serving

pytestmark = pytest.mark.anyio

DELAY = Task("delay", Interval(0, 1), 1.0)
PATH = f"/v1/tasks/{DELAY.id}/reports"
HEADERS = {"content-type": MEDIA_TYPE}


def body(number: int, codes: bytes = b"\x07") -> bytes:
    return body_of(DELAY, codes, number=number)


async def trouble(http: httpx.AsyncClient) -> str | None:
    answer = await http.get("/health/ready")
    if answer.status_code == 200:
        return None
    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:arcwise:problem:not-ready"
    assert "retry-after" in answer.headers
    return str(answer.json()["detail"])


async def test_ready_while_the_store_answers(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    http = await serve([DELAY])
    assert await trouble(http) is None
    monkeypatch.setattr("arcwise.server.runtime._SILENT_SECONDS", -1.0)
    assert await trouble(http) == "The store does not answer."
    assert (await http.get("/health/live")).status_code == 200


async def test_a_store_that_cannot_be_read_is_noticed_and_forgiven(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("arcwise.server.runtime.REFRESH_SECONDS", 0.01)
    monkeypatch.setattr("arcwise.server.runtime._SILENT_SECONDS", 0.5)

    def fails(self: SQLiteStore) -> None:
        raise StoreError("out of reach")

    def told() -> list[str]:
        return [record.message for record in caplog.records if "out of reach" in record.message]

    http = await serve([DELAY])
    with monkeypatch.context() as patch:
        patch.setattr(SQLiteStore, "keys", fails)
        # A machine that is busy for half a second is also not ready, before anything has failed.
        while not told() or await trouble(http) is None:
            await asyncio.sleep(0.01)
    while await trouble(http) is not None:
        await asyncio.sleep(0.01)
    await http.stop()
    assert told() == ["cannot read keys and tasks, so the last known ones stay in use: out of reach"]


@pytest.mark.parametrize(("number", "size"), [(1, 100_000), (100, 1)])
async def test_not_ready_with_a_full_queue(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, number: int, size: int
) -> None:
    go_on = threading.Event()
    real = SQLiteStore.add

    def slow(self: SQLiteStore, batches: list[Batch]) -> object:
        assert go_on.wait(60)
        return real(self, batches)

    http = await serve([DELAY], max_waiting_bytes=105_000, max_body_bytes=103_000)
    monkeypatch.setattr(SQLiteStore, "add", slow)
    waiting = [
        asyncio.create_task(http.post(PATH, content=body(each, bytes(size)), headers=HEADERS))
        for each in range(number)
    ]
    while await trouble(http) != "The queue before the store is full.":
        assert not any(each.done() for each in waiting)
        await asyncio.sleep(0.01)
    shown = (await http.get("/metrics")).text.splitlines()
    assert f"arcwise_queue_batches {float(number)}" in shown
    # The memory of batches: small ones take more than their codes.
    assert f"arcwise_queue_bytes {float(number * (size + 1024))}" in shown
    go_on.set()
    assert {each.status_code for each in await asyncio.gather(*waiting)} == {204}
    assert await trouble(http) is None


@pytest.mark.slow
def test_sigterm_is_announced_and_what_was_taken_is_written(tmp_path: Path) -> None:
    DELAY.save(tmp_path / "delay.json")
    acknowledged = []
    with serving(tmp_path, "--drain-seconds", "2") as (url, process), httpx.Client(base_url=url) as http:
        assert http.get("/health/ready").status_code == 200
        process.send_signal(signal.SIGTERM)
        while http.get("/health/ready").status_code == 200:
            time.sleep(0.01)
        number = 0
        while True:  # still served, until it stops listening
            number += 1
            try:
                answer = http.post(PATH, content=body(number), headers=HEADERS)
            except httpx.HTTPError:
                break
            assert answer.status_code == 204
            acknowledged.append(number)
        assert process.wait(60) == -signal.SIGTERM
    assert acknowledged
    store = open_store(f"sqlite:///{tmp_path / 'server.db'}")
    counted = int(store.counts(DELAY).sum())
    store.close()
    assert len(acknowledged) <= counted <= len(acknowledged) + 1


def test_the_log_is_json_and_tells_nothing_that_was_sent(tmp_path: Path) -> None:
    DELAY.save(tmp_path / "delay.json")
    options = ["--log-format", "json", "--log-level", "debug"]
    with serving(tmp_path, *options) as (url, process), httpx.Client(base_url=url) as http:
        http.post(PATH, content=body(1), headers=HEADERS)
        http.post(PATH, content=b"SECRET", headers=HEADERS)
        http.get("/v1/tasks/SECRET?SECRET=SECRET", headers={"user-agent": "SECRET"})
        (tmp_path / "server.db").rename(tmp_path / "gone.db")
        port = url.rsplit(":", 1)[1]
        with socket.create_connection(("127.0.0.1", int(port)), 10) as connection:
            connection.sendall(b"SECRET\r\n\r\n")
            assert b"400" in connection.recv(100)
            own = connection.getsockname()[1]
        process.terminate()
        process.wait(60)
    lines = (tmp_path / "stderr").read_text("utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    assert entries
    assert all({"time", "level", "logger", "message"} <= set(entry) for entry in entries)
    assert any(entry["logger"] == "uvicorn.error" for entry in entries)
    said = "\n".join(lines).replace(url, "")  # its own address does not belong to a sender
    assert "SECRET" not in said
    assert "127.0.0.1" not in said
    assert str(own) not in said


@pytest.mark.parametrize("formatter", [_JSONFormatter(), _TextFormatter()])
def test_words_of_exceptions_are_logged_where_they_are_ours(formatter: logging.Formatter) -> None:
    def logged(error: Exception) -> str:
        try:
            raise error
        except Exception:
            record = logging.LogRecord("x", logging.ERROR, "", 1, "it %s", ("failed",), sys.exc_info())
        return formatter.format(record)

    theirs, ours = logged(ValueError("SECRET")), logged(StoreError("no disk"))
    assert "it failed" in theirs
    assert "ValueError" in theirs
    assert "test_health.py" in theirs
    assert "SECRET" not in theirs
    assert "no disk" in ours
