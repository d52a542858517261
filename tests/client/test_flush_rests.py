"""What a flush or a close does while nothing can be delivered: the sender rests until something is due."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from arcwise.client import AsyncHttpxTransport, AsyncUplink, FileLedger, HttpxTransport, Ledger, Uplink
from tests.support.scripted import Answer, serving
from tests.support.unlimited import AsyncClient, Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from arcwise.client.outbox import Step
    from arcwise.tasks import Task
    from tests.support.recorder import Recorder

URL = "http://127.0.0.1:1"
HANG = 60
TIMEOUT = 0.1
MOST_STEPS = 10
"""Two would do, one that sends and one that finds nothing to do; twice, as a close flushes again. Each of
three reports may wake the sender, too, for the same two."""


class CountingUplink(Uplink):
    """Counts the steps of the sender; each asks the queue, which in a file means a transaction."""

    steps = 0

    def _next(self) -> Step:
        self.steps += 1
        return super()._next()


class AsyncCountingUplink(AsyncUplink):
    """The same on an event loop."""

    steps = 0

    def _next(self) -> Step:
        self.steps += 1
        return super()._next()


@pytest.fixture(autouse=True)
def long_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each wait of the client's own making be an hour, so that a step more is one for nothing."""
    monkeypatch.setattr("arcwise.client.delivery.backoff_seconds", lambda *_: 3600.0)


@pytest.fixture(params=["503", "401", "404", "503 and Retry-After", "204 and Retry-After", "refused"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Give the URL of a server that takes nothing, or after one batch nothing more for a while."""
    if request.param == "refused":
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))  # bound, not listening
            yield f"http://127.0.0.1:{unused.getsockname()[1]}"
        return
    status, _, wait = request.param.partition(" and ")
    answer: Answer = int(status), ({wait: "3600"} if wait else {})
    with serving(lambda _: answer) as (url, _):
        yield url


def test_the_sender_rests_while_a_flush_waits(url: str, ledger: Ledger, heading: Task) -> None:
    uplink = CountingUplink(
        url, ledger=ledger, batch_size=1, interval=600, transport=HttpxTransport(trust_env=False)
    )
    client = Client(uplink, tasks=[heading], ledger=ledger)
    for _ in range(3):
        assert client.report("heading", 1.0)
    assert not client.flush(TIMEOUT)
    assert not uplink.close(TIMEOUT)
    assert uplink.steps <= MOST_STEPS


def test_the_sender_rests_while_a_flush_waits_on_an_event_loop(
    url: str, ledger: Ledger, heading: Task
) -> None:
    async def run() -> int:
        uplink = AsyncCountingUplink(
            url, ledger=ledger, batch_size=1, interval=600, transport=AsyncHttpxTransport(trust_env=False)
        )
        client = AsyncClient(uplink, tasks=[heading], ledger=ledger)
        for _ in range(3):
            assert await client.report("heading", 1.0)
        assert not await client.flush(TIMEOUT)
        assert not await uplink.close(TIMEOUT)
        return uplink.steps

    assert asyncio.run(run()) <= MOST_STEPS


def flushing(client: Client) -> tuple[threading.Thread, list[bool]]:
    """Flush from another thread, and for longer than this test may take."""
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(client.flush(10 * HANG)), daemon=True)
    thread.start()
    return thread, results


def test_a_flush_ends_when_somebody_opts_out(
    device_ledger: Ledger, recorder: Recorder, heading: Task
) -> None:
    recorder.script.append(503)
    uplink = Uplink(URL, ledger=device_ledger, transport=recorder)
    client = Client(uplink, tasks=[heading], ledger=device_ledger)
    # Else the queue is that of other devices, too, and is left alone.
    client._owns_uplink = True
    assert client.report("heading", 1.0)
    thread, results = flushing(client)
    assert recorder.busy.wait(HANG)
    client.opt_out()
    thread.join(HANG)
    assert results == [True]
    client.close(0)


def test_a_flush_sees_what_another_process_has_sent(
    tmp_path: Path, recorder: Recorder, heading: Task
) -> None:
    """The other one has leased it for minutes, and says nothing here when it is done with it."""
    recorder.go.clear()
    with FileLedger(tmp_path / "ledger.db", create=True) as mine, FileLedger(mine.path) as other:
        theirs = Client(URL, tasks=[heading], ledger=other, transport=recorder, request_timeout=10 * HANG)
        client = Client(URL, tasks=[heading], ledger=mine, transport=recorder, request_timeout=10 * HANG)
        with theirs, client:
            assert theirs.report("heading", 1.0)
            theirs.flush(0)
            assert recorder.busy.wait(HANG)
            thread, results = flushing(client)
            recorder.go.set()
            thread.join(HANG)
            assert results == [True]
    assert len(recorder.posts) == 1
