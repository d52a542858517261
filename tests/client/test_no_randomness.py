"""A system without random bytes gives an outcome: no charge, no report, and no other source."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.client import Outcome, Uplink
from arcwise.domains import Circle
from arcwise.randomness import SystemRandomness
from arcwise.tasks import Caps, Group, Task
from tests.support.stepped import stepped
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from arcwise.client import Ledger
    from tests.support.clock import Clock
    from tests.support.recorder import Recorder
    from tests.support.twins import Twin

URL = "http://127.0.0.1:1"
ONE = Task("one", Circle(360), epsilon=1.0, caps=Caps(lifetime=6.0))
OTHER = Task("other", Circle(360), epsilon=1.0, caps=Caps(lifetime=6.0))
ALL = Group("all", [ONE, OTHER], caps=Caps(lifetime=12.0))
SOME = Group("some", [ONE, OTHER], sample=1, caps=Caps(lifetime=12.0))
BOTH = {"one": 1.0, "other": 2.0}


class Failing(SystemRandomness):
    """Gives this many draws, and then fails until it is repaired."""

    def __init__(self, draws: int, error: Exception) -> None:
        self.left, self.error, self.broken = draws, error, True

    def draw(self) -> tuple[int, int]:
        if self.broken and not self.left:
            raise self.error
        self.left -= 1
        return super().draw()


@pytest.mark.parametrize("error", [OSError("no entropy"), NotImplementedError()])
@pytest.mark.parametrize(
    ("draws", "name", "value", "options"),
    [
        (0, "one", 1.0, {}),
        (0, "one", 1.0, {"memoize": {"one": 2}}),
        (1, "one", 1.0, {"memoize": {"one": 2}}),
        (0, "all", BOTH, {}),
        (1, "all", BOTH, {}),
        (0, "some", BOTH, {}),
        (1, "some", BOTH, {}),
    ],
)
def test_nothing_is_charged(
    twin: Twin,
    ledger: Ledger,
    recorder: Recorder,
    draws: int,
    name: str,
    value: Any,
    options: Any,
    error: Exception,
) -> None:
    tasks = [ONE] if name == "one" else [{"all": ALL, "some": SOME}[name]]
    source = Failing(draws, error)
    with twin.uplink(URL, ledger=ledger, transport=twin.transport(recorder)) as uplink:
        client = twin.client(uplink, tasks=tasks, ledger=ledger, randomness=source, **options)
        assert client.report(name, value) is Outcome.NO_RANDOMNESS
        assert client.budget().epsilon == 0.0
        assert client.pending == 0
        assert client.counters.refused == {"no-randomness": 1}
        source.broken = False
        assert client.report(name, value) is Outcome.ACCEPTED
    assert recorder.posts


def test_the_systems_own_source_is_asked_and_nothing_else(
    device_ledger: Ledger, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(URL, tasks=[ONE], ledger=device_ledger, transport=recorder) as client:
        with monkeypatch.context() as patch:
            patch.setattr(os, "urandom", no_bytes)
            assert client.report("one", 1.0) is Outcome.NO_RANDOMNESS
        assert client.budget("one").epsilon == 0.0
        assert client.report("one", 1.0) is Outcome.ACCEPTED


def test_a_delay_that_cannot_be_drawn_costs_nothing(
    ledger: Ledger, recorder: Recorder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    uplink = Uplink(URL, ledger=ledger, transport=recorder, environment=clock, delay=60.0)
    client = Client(uplink, tasks=[ALL], ledger=ledger)
    with monkeypatch.context() as patch:
        patch.setattr(clock, "random_bytes", no_bytes)
        assert client.report("all", BOTH) is Outcome.NO_RANDOMNESS
        assert (client.budget().epsilon, client.pending) == (0.0, 0)
    assert client.report("all", BOTH)
    assert client.pending == 2
    uplink.close()


@pytest.mark.parametrize("answer", [503, (204, "1")])
def test_an_answer_that_cannot_be_noted_loses_no_batch(
    device_ledger: Ledger, recorder: Recorder, clock: Clock, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    """After a 503, and after a 204 that names a wait, the length of the wait is drawn."""
    client, uplink = stepped(device_ledger, recorder, ONE, environment=clock)
    client.report("one", 1.0)
    recorder.script.append(answer)
    with monkeypatch.context() as patch:

        def post(*arguments: Any) -> Any:
            patch.setattr(clock, "random_bytes", no_bytes)
            return recorder.answer(*arguments)

        patch.setattr(recorder, "post", post)
        with pytest.raises(OSError, match="no entropy"):
            uplink.expedite()
    uplink.expedite()
    assert (client.pending, client.counters.sent) == (0, 1)
    first, again = recorder.posts
    assert first.body == again.body
    uplink.close()


def no_bytes(_: int) -> bytes:
    raise OSError("no entropy")
