"""A wrong clock and copies of a ledger: neither may give a device more budget than it has."""

from __future__ import annotations

import copy
import math
import pickle
from typing import TYPE_CHECKING

import pytest

from arcwise.client import Ledger, Outcome, Uplink
from arcwise.domains import Circle
from arcwise.errors import LedgerError
from arcwise.tasks import Caps, Task
from tests.support.clock import Clock
from tests.support.stepped import SteppedUplink
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.recorder import Recorder

HEADING = Task("heading", Circle(360), epsilon=1.0, caps=Caps(rolling=2.0))


@pytest.mark.parametrize("time", [math.nan, math.inf, -math.inf, 1e15, 1e300, -1.0])
def test_a_clock_that_tells_no_time_costs_nothing(ledger: Ledger, recorder: Recorder, time: float) -> None:
    clock = Clock()
    uplink = Uplink("http://127.0.0.1:1", ledger=ledger, transport=recorder, environment=clock)
    with Client(uplink, tasks=[HEADING], ledger=ledger) as client:
        clock._wall = time
        assert client.report("heading", 1.0) is Outcome.FAILED
        with pytest.raises(LedgerError, match=r"environment\.time\(\) returned .*, which is not a Unix time"):
            client.budget("heading")
        clock._wall = 1.7e9
        assert client.counters.refused == {"failed": 1}
        assert (client.pending, client.budget("heading").reports_left) == (0, 2)
        assert [bool(client.report("heading", 1.0)) for _ in range(3)] == [True, True, False]
    uplink.close()


@pytest.mark.parametrize("time", [math.nan, math.inf, -math.inf, 1e300, -1.0])
def test_a_sender_without_a_clock_waits_and_drops_nothing(
    device_ledger: Ledger, recorder: Recorder, time: float
) -> None:
    clock = Clock()
    uplink = SteppedUplink("http://127.0.0.1:1", ledger=device_ledger, transport=recorder, environment=clock)
    with Client(uplink, tasks=[HEADING], ledger=device_ledger) as client:
        assert client.report("heading", 1.0) is Outcome.ACCEPTED
        clock._wall = time
        uplink.send()
        assert client.pending == 1
        clock._wall = 1.7e9
        clock.step(60)
        uplink.expedite()
        assert (client.pending, client.counters.sent) == (0, 1)
    uplink.close()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_ledger_is_not_copied(ledger: Ledger, copied: Callable[[Ledger], object]) -> None:
    with pytest.raises(TypeError, match=r"Ledger cannot be copied or pickled, .*: share the object, or open"):
        copied(ledger)
