"""Clients with one ledger and one queue: each sends its own, and none sends it in another's way."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.client import AsyncUplink, FileLedger, ObliviousTransport, PostgresLedgers
from arcwise.domains import Circle
from arcwise.errors import ParameterError
from arcwise.oblivious import GatewayKey, encode_key_configs
from arcwise.tasks import Task
from tests.support.clock import Clock
from tests.support.ledgers import ledger_schema, ledger_url
from tests.support.recorder import Recorder
from tests.support.stepped import SteppedUplink
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from arcwise.client import Ledger
    from arcwise.client.ledger import QueueOwner

ONE, OTHER = Task("one", Circle(360), 1.0), Task("other", Circle(360), 1.0)
HERE, THERE = "http://127.0.0.1:9", "http://127.0.0.1:10"
CONFIG = encode_key_configs([GatewayKey.generate(1).config])
KEYS = ["arcwise_ingest_0123456789ab_" + 64 * "0", "arcwise_ingest_0123456789cd_" + 64 * "0"]


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.slow)])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Ledger, QueueOwner]]:
    with ExitStack() as left:
        if request.param == "file":
            file = left.enter_context(FileLedger(tmp_path / "ledger.db", create=True))
            yield file, file
        else:
            schema = left.enter_context(ledger_schema())
            ledgers = left.enter_context(PostgresLedgers(ledger_url(), create=True, schema=schema))
            ledgers.create_account("somebody")
            yield ledgers.account("somebody"), ledgers


class App:
    """A client with an uplink of its own on a ledger that others may have, too."""

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
        """Return how many codes each request had, by where it went."""
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
    assert other.close()  # what is left is not its own
    one.uplink.expedite()
    assert one.sent() == {place(HERE, ONE): [3]}
    assert one.close()


def test_what_nobody_else_sends_is_sent(opened: tuple[Ledger, QueueOwner]) -> None:
    """Such as the reports of an earlier version's tasks."""
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


def relayed(relay: str) -> ObliviousTransport:
    return ObliviousTransport(relay, CONFIG)


def test_a_client_whose_ledger_is_closed_holds_nothing_up(tmp_path: Path) -> None:
    with FileLedger(tmp_path / "ledger.db", create=True) as ledger:
        left = App((ledger, ledger), ONE)
        left.report(1)
    with FileLedger(tmp_path / "ledger.db") as ledger:
        App((ledger, ledger), ONE, THERE).close()
        other = App((ledger, ledger), OTHER, THERE)
        other.uplink.expedite()
        assert other.sent() == {place(THERE, ONE): [1]}
        assert other.close()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("url", [HERE, THERE]),
        ("key", KEYS),
        ("key", [None, KEYS[0]]),
        ("batch_size", [1, 2]),
        ("max_age_days", [7.0, 30.0]),
        ("transport", [Recorder(), None]),
        ("transport", [relayed("http://127.0.0.1:8/relay"), None]),
        ("transport", [relayed("http://127.0.0.1:8/relay"), relayed("http://127.0.0.1:8/another")]),
    ],
)
def test_one_task_is_not_sent_in_two_ways(
    opened: tuple[Ledger, QueueOwner], name: str, values: list[Any]
) -> None:
    first, second = ({name: value} for value in values)
    one = App(opened, ONE, **first)
    App(opened, ONE, **first).close()
    App(opened, OTHER, **second).close()
    with pytest.raises(
        ParameterError, match=rf"for task 'one', with another {name}: close that client first"
    ):
        App(opened, ONE, **second)
    one.close()
    App(opened, ONE, **second).close()


def test_sync_and_async_clients_are_alike(opened: tuple[Ledger, QueueOwner]) -> None:
    _, owner = opened
    one = App(opened, ONE, transport=None)
    uplink = AsyncUplink(HERE, ledger=owner)
    uplink._serve(frozenset({"one"}))
    with pytest.raises(ParameterError, match="one AsyncUplink"):
        AsyncUplink(THERE, ledger=owner)._serve(frozenset({"one"}))
    one.close()
