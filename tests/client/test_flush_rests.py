"""A flush or a close while nothing can be delivered: the sender rests until something is due."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from arcwise.client import FileLedger, Ledger, Uplink
from arcwise.client.uplink import BaseUplink
from tests.support.scripted import Answer, serving
from tests.support.unlimited import Client
from tests.support.waiting import Started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from arcwise.client.ledger import Step
    from arcwise.tasks import Task
    from tests.support.recorder import Recorder
    from tests.support.twins import Twin

URL = "http://127.0.0.1:1"
HANG = 60
TIMEOUT = 0.1
MOST_STEPS = 10
"""Two steps are enough: one that sends and one that finds nothing to do. A close flushes again, so they
happen twice. Each of three reports may also wake the sender for the same two steps.
"""


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Count the steps of the sender; each queries the queue, which in a file means a transaction."""
    steps: list[None] = []
    look = BaseUplink._next

    def counted(uplink: BaseUplink) -> Step:
        steps.append(None)
        return look(uplink)

    monkeypatch.setattr(BaseUplink, "_next", counted)
    return steps


@pytest.fixture(autouse=True)
def long_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each wait of the client an hour long, so that every additional step is a useless one."""
    monkeypatch.setattr("arcwise.client.delivery.backoff_seconds", lambda *_: 3600.0)


@pytest.fixture(params=["503", "401", "404", "503 and Retry-After", "204 and Retry-After", "refused"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Give the URL of a server that accepts nothing, or one batch and then nothing for a while."""
    if request.param == "refused":
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))  # bound, not listening
            yield f"http://127.0.0.1:{unused.getsockname()[1]}"
        return
    status, _, wait = request.param.partition(" and ")
    answer: Answer = int(status), ({wait: "3600"} if wait else {})
    with serving(lambda _: answer) as (url, _):
        yield url


def test_the_sender_rests_while_a_flush_waits(
    url: str, twin: Twin, ledger: Ledger, heading: Task, steps: list[None]
) -> None:
    uplink = twin.uplink(url, ledger=ledger, batch_size=1, interval=600, transport=twin.http(trust_env=False))
    client = twin.client(uplink, tasks=[heading], ledger=ledger)
    for _ in range(3):
        assert client.report("heading", 1.0)
    assert not client.flush(TIMEOUT)
    assert not uplink.close(TIMEOUT)
    assert len(steps) <= MOST_STEPS


def test_a_flush_ends_when_somebody_opts_out(
    device_ledger: Ledger, recorder: Recorder, heading: Task
) -> None:
    recorder.script.append(503)
    uplink = Uplink(URL, ledger=device_ledger, transport=recorder)
    client = Client(uplink, tasks=[heading], ledger=device_ledger)
    # Otherwise, the queue also belongs to other devices and is left alone.
    client._owns_uplink = True
    assert client.report("heading", 1.0)
    flush = Started(lambda: client.flush(10 * HANG))
    assert recorder.busy.wait(HANG)
    client.opt_out()
    assert flush.result()
    client.close(0)


def test_a_flush_sees_what_another_process_has_sent(
    tmp_path: Path, recorder: Recorder, heading: Task
) -> None:
    """The other process has leased the batch for minutes, and does not notify this one when it is done."""
    recorder.go.clear()
    with FileLedger(tmp_path / "ledger.db", create=True) as mine, FileLedger(mine.path) as other:
        theirs = Client(URL, tasks=[heading], ledger=other, transport=recorder, request_timeout=10 * HANG)
        client = Client(URL, tasks=[heading], ledger=mine, transport=recorder, request_timeout=10 * HANG)
        with theirs, client:
            assert theirs.report("heading", 1.0)
            theirs.flush(0)
            assert recorder.busy.wait(HANG)
            flush = Started(lambda: client.flush(10 * HANG))
            recorder.go.set()
            assert flush.result()
    assert len(recorder.posts) == 1
