"""Clients with one ledger and one queue: each sends the reports of its own tasks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.client import FileLedger
from arcwise.domains import Circle
from arcwise.tasks import Task
from tests.support.clock import Clock
from tests.support.ledgers import ledger_opener
from tests.support.recorder import AsyncRecorder, Recorder
from tests.support.stepped import SteppedUplink
from tests.support.unlimited import AsyncClient, Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from arcwise.client import Ledger
    from arcwise.client.ledger import QueueOwner

ONE, OTHER = Task("one", Circle(360), 1.0), Task("other", Circle(360), 1.0)
HERE, THERE = "http://127.0.0.1:9", "http://127.0.0.1:10"
KEYS = ["arcwise_ingest_0123456789ab_" + 64 * "0", "arcwise_ingest_0123456789cd_" + 64 * "0"]


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.slow)])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Ledger, QueueOwner]]:
    with ledger_opener(request.param, tmp_path / "ledger.db") as open_ledger:
        yield open_ledger()


class App:
    """A client with its own uplink on a ledger that others may also use."""

    def __init__(
        self, opened: tuple[Ledger, QueueOwner], task: Task, url: str = HERE, **options: Any
    ) -> None:
        ledger, owner = opened
        self.recorder = Recorder()
        self.uplink = SteppedUplink(url, ledger=owner, **{"transport": self.recorder} | options)
        self.client = Client(self.uplink, tasks=[task], ledger=ledger)
        self._name = task.name

    def report(self, times: int) -> None:
        assert [bool(self.client.report(self._name, 1.0)) for _ in range(times)] == [True] * times

    def close(self) -> bool:
        return self.uplink.close(0)

    def sent(self) -> dict[str, list[int]]:
        """Return the number of codes in each request, by destination."""
        found: dict[str, list[int]] = {}
        for post in self.recorder.posts:
            found.setdefault(post.url, []).append(len(post.batch.codes))
        return found


def place(url: str, task: Task) -> str:
    return f"{url}/v1/tasks/{task.id}/reports"


def test_each_client_sends_what_its_own_tasks_have(opened: tuple[Ledger, QueueOwner]) -> None:
    one, other = App(opened, ONE, HERE, key=KEYS[0]), App(opened, OTHER, THERE, key=KEYS[1])
    one.report(3)
    other.report(2)
    done = other.uplink._expedite()
    other.uplink.send()
    assert done()
    assert (one.sent(), other.sent()) == ({}, {place(THERE, OTHER): [2]})
    assert other.client.pending == 3
    assert other.close()  # the remaining reports are not its own
    one.uplink.expedite()
    assert one.sent() == {place(HERE, ONE): [3]}
    assert one.close()


def test_what_nobody_else_sends_is_sent(opened: tuple[Ledger, QueueOwner]) -> None:
    """For example, reports of tasks of an earlier version."""
    one = App(opened, ONE)
    one.report(3)
    other = App(opened, OTHER)
    other.uplink.expedite()
    assert other.sent() == {}
    assert not one.close()
    other.uplink.expedite()
    assert other.sent() == {place(HERE, ONE): [3]}
    assert other.close()


def test_delays_and_ages_are_those_of_the_client_that_reported(opened: tuple[Ledger, QueueOwner]) -> None:
    clock = Clock()
    one = App(opened, ONE, delay=3600.0, batch_size=1, max_age_days=30.0, environment=clock)
    other = App(opened, OTHER, environment=clock)
    one.report(5)
    other.report(1)
    other.uplink.expedite()
    clock.wait(8 * 86_400.0)
    other.uplink.expedite()
    assert other.sent() == {place(HERE, OTHER): [1]}
    one.uplink.expedite()
    assert one.sent() == {place(HERE, ONE): [1] * 5}


def test_an_idle_client_is_not_waited_for(tmp_path: Path) -> None:
    """Another process may have left reports of its tasks, so its sender is started."""
    with FileLedger(tmp_path / "ledger.db", create=True) as ledger, FileLedger(ledger.path) as its:
        one, other = Recorder(), Recorder()
        idle = Client(HERE, tasks=[ONE], ledger=ledger, transport=one, interval=0.0)
        with Client(HERE, tasks=[OTHER], ledger=ledger, transport=other) as busy:
            left = App((its, its), ONE)
            left.report(1)
            assert not left.close()
            assert busy.report("other", 1.0)
            assert busy.flush()
            assert idle.flush()
        assert (one.codes, other.codes) == (1, 1)
        idle.close()


def test_what_is_left_to_a_loop_that_has_ended_is_sent(tmp_path: Path) -> None:
    kept = []

    async def leave() -> None:
        kept.append(
            AsyncClient(HERE, tasks=[ONE], ledger=ledger, transport=AsyncRecorder(Recorder()), interval=600.0)
        )
        assert await kept[0].report("one", 1.0)

    with FileLedger(tmp_path / "ledger.db", create=True) as ledger:
        asyncio.run(leave())
        other = App((ledger, ledger), OTHER)
        other.uplink.expedite()
        assert other.sent() == {place(HERE, ONE): [1]}
