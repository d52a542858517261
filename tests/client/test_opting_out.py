"""Opting out: nothing more is reported, the queue is dropped, and spending stays recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.client import (
    Counters,
    Event,
    FileLedger,
    Ledger,
    MemoryLedger,
    Outcome,
    Uplink,
)
from arcwise.domains import Circle
from arcwise.tasks import Caps, Task
from tests.support.stepped import SteppedUplink
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.recorder import Recorder
    from tests.support.twins import Twin

URL = "http://127.0.0.1:1"


def test_nothing_is_reported_until_the_device_opts_in(
    twin: Twin, ledger: Ledger, recorder: Recorder, heading: Task, delay: Task
) -> None:
    events: list[Event] = []
    options = {"transport": twin.transport(recorder), "interval": 3600, "on_event": events.append}
    with twin.client(URL, tasks=[heading, delay], ledger=ledger, **options) as client:
        for _ in range(3):
            assert client.report("heading", 1.0)
        assert client.report("delay", 1.0)
        client.opt_out()
        assert client.counters == Counters(dropped={"opted-out": 4})
        assert [client.report(name, 1.0) for name in ("heading", "delay")] == [Outcome.OPTED_OUT] * 2
        assert client.flush(60)
        client.opt_out()  # a second call does nothing
        assert client.counters == Counters(dropped={"opted-out": 4}, refused={"opted-out": 2})
        assert client.budget("heading").epsilon == 3.0  # spending stays
        assert client.budget().epsilon == 5.0
        client.opt_in()
        assert [bool(client.report("delay", 1.0)) for _ in range(3)] == [True, True, False]
        assert client.flush(60)
    assert recorder.codes == 2
    assert events[0] == Event("dropped", None, 4, "opted out")
    # In one batch, or in two if the sender was still at work when the first report came.
    assert {event.kind for event in events[1:]} == {"sent"}
    assert sum(event.reports for event in events[1:]) == 2


def test_it_outlives_a_restart(tmp_path: Path, recorder: Recorder, heading: Task) -> None:
    path = tmp_path / "ledger.db"
    with FileLedger(path, create=True) as ledger:
        client = Client(URL, tasks=[heading], ledger=ledger, transport=recorder)
        assert client.report("heading", 1.0)
        client.opt_out()
        assert client.close()
    for expected in (Outcome.OPTED_OUT, Outcome.ACCEPTED):
        with (
            FileLedger(path) as ledger,
            Client(URL, tasks=[heading], ledger=ledger, transport=recorder) as client,
        ):
            assert client.report("heading", 1.0) is expected
            client.opt_in()
    assert recorder.codes == 1


def test_what_another_client_queued_on_the_same_file_goes_too(
    tmp_path: Path, recorder: Recorder, heading: Task, delay: Task
) -> None:
    with FileLedger(tmp_path / "ledger.db", create=True) as ledger:
        uplink = SteppedUplink(URL, ledger=ledger, transport=recorder)
        first, second = (Client(uplink, tasks=[task], ledger=ledger) for task in (heading, delay))
        assert first.report("heading", 1.0)
        second.opt_out()
        assert first.report("heading", 1.0) is Outcome.OPTED_OUT
        uplink.expedite()
        assert uplink.counters == Counters(dropped={"opted-out": 1}, refused={"opted-out": 1})
    assert recorder.posts == []


def test_a_gateway_keeps_what_its_other_devices_have_queued(recorder: Recorder, heading: Task) -> None:
    with Uplink(URL, transport=recorder) as uplink:
        leaving, staying = (Client(uplink, tasks=[heading], ledger=MemoryLedger()) for _ in range(2))
        assert leaving.report("heading", 1.0)
        assert staying.report("heading", 1.0)
        leaving.opt_out()
        assert leaving.report("heading", 1.0) is Outcome.OPTED_OUT
        assert staying.report("heading", 1.0)
        assert uplink.pending == 3
    assert recorder.codes == 3


def test_a_request_under_way_counts_once(device_ledger: Ledger, recorder: Recorder, heading: Task) -> None:
    """The request cannot be called back: its codes count as dropped, and its answer changes nothing."""
    recorder.go.clear()
    with Client(URL, tasks=[heading], ledger=device_ledger, transport=recorder, interval=0) as client:
        assert client.report("heading", 1.0)
        assert recorder.busy.wait(60)
        client.opt_out()
        recorder.go.set()
        assert client.flush(60)
        assert client.counters == Counters(dropped={"opted-out": 1})
    assert recorder.codes == 1


HOUR = Task("hour", Circle(24), epsilon=1.0, caps=Caps(lifetime=4.0))


def test_what_memoised_values_were_rounded_to_goes_and_is_paid_for_anew(
    ledger: Ledger, recorder: Recorder
) -> None:
    uplink = Uplink(URL, ledger=ledger, transport=recorder)
    client = Client(uplink, tasks=[HOUR], ledger=ledger, memoize={"hour": 2})
    assert [bool(client.report("hour", value)) for value in (3.0, 15.0)] == [True, True]
    assert client.budget("hour").epsilon == 2.0
    with client._open_transaction(0.0) as transaction:
        memo = transaction.memo(HOUR)
        assert memo is not None
        draw = str(memo.draw).encode()
    client.opt_out()
    with client._open_transaction(0.0) as transaction:
        assert transaction.memo(HOUR) is None
    if isinstance(ledger, FileLedger):
        for path in ledger.path.parent.iterdir():
            assert draw not in path.read_bytes()
    client.opt_in()
    assert client.report("hour", 3.0)
    assert client.budget("hour").epsilon == 4.0  # earlier answers are paid for, and forgotten
    client.opt_out()
    client.opt_in()
    assert client.report("hour", 3.0) is Outcome.CAPPED
    uplink.close(0)
