"""Events and the log inform an app about its reports, and never contain a value or a code."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.client import AsyncRecordingTransport, Counters, Event, FileLedger, Ledger, Outcome, Uplink
from arcwise.domains import Interval
from arcwise.errors import DomainError, ParameterError
from arcwise.mechanisms import OptimalPiecewise
from arcwise.tasks import Task
from tests.support.fixed_draw import FixedDraw
from tests.support.stepped import SteppedUplink, stepped
from tests.support.unlimited import AsyncClient, Client

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clock import Clock
    from tests.support.recorder import Recorder

URL = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("answer", "kind", "detail"),
    [
        (204, "sent", "status 204"),
        (503, "retry", "status 503"),
        (200, "retry", "status 200, which is not the answer of an arcwise server"),
        (302, "retry", "status 302, which is not the answer of an arcwise server"),
        (OSError("a secret"), "retry", "no answer (OSError)"),
        (404, "kept", "status 404"),
        (403, "paused", "status 403"),
        (410, "dropped", "status 410"),
    ],
)
def test_what_becomes_of_a_batch(
    ledger: Ledger,
    recorder: Recorder,
    clock: Clock,
    heading: Task,
    caplog: pytest.LogCaptureFixture,
    answer: Any,
    kind: str,
    detail: str,
) -> None:
    caplog.set_level(logging.DEBUG, "arcwise.client")
    events: list[Event] = []
    recorder.script.append(answer)
    # Time does not pass here, so the next attempt is never due.
    client, uplink = stepped(ledger, recorder, heading, on_event=events.append, environment=clock)
    client.report("heading", 1.0)
    client.report("heading", 2.0)
    uplink.expedite()
    assert events == [Event(kind, "heading", 2, detail)]
    told = [message for message in caplog.messages if message.startswith("task 'heading': ")]
    assert any("2 reports" in message and detail in message for message in told)


def test_reports_that_expire_and_those_left_at_the_close(
    ledger: Ledger, recorder: Recorder, heading: Task, clock: Clock
) -> None:
    events: list[Event] = []
    recorder.script.extend([503, 503, 503])
    client, uplink = stepped(
        ledger, recorder, heading, max_age_days=1, on_event=events.append, environment=clock
    )
    client.report("heading", 1.0)
    clock.wait(86_401)
    uplink.send()
    assert events == [Event("expired", None, 1, "could not be sent in time")]
    client.report("heading", 1.0)
    assert not uplink.close(0)
    where = "they are dropped" if ledger.__class__.__name__ == "MemoryLedger" else "they stay in the ledger"
    assert events[1:] == [Event("closed", None, 1, where)]


def test_a_ledger_that_fails_is_told_with_each_report_and_logged_once(
    tmp_path: Path, recorder: Recorder, heading: Task, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Event] = []
    ledger = FileLedger(tmp_path / "ledger.db", create=True)
    client, _ = stepped(ledger, recorder, heading, on_event=events.append)
    ledger.close()
    for _ in range(5):
        assert client.report("heading", 1.0) is Outcome.FAILED
    assert events == [Event("failed", "heading", 1, f"the ledger {ledger.path} is closed")] * 5
    assert len(caplog.records) == 1


def test_a_callback_that_raises_ends_nothing(
    ledger: Ledger, recorder: Recorder, heading: Task, caplog: pytest.LogCaptureFixture
) -> None:
    called = []

    def bad(event: Event) -> None:
        called.append(event.kind)
        raise ZeroDivisionError("the app's own")

    with Client(URL, tasks=[heading], ledger=ledger, transport=recorder, on_event=bad) as client:
        for _ in range(3):
            assert client.report("heading", 1.0)
            assert client.flush(60)
        assert client.counters == Counters(sent=3)
    assert called == ["sent"] * 3
    assert caplog.text.count("ZeroDivisionError: the app's own") == 3


def test_a_callback_may_use_the_client(ledger: Ledger, recorder: Recorder, heading: Task) -> None:
    """The callback is called without any lock held."""
    done = threading.Event()
    seen: list[Any] = []

    def use(event: Event) -> None:
        if event.kind == "sent" and not done.is_set():
            seen.extend((client.pending, client.counters.sent, client.budget().epsilon))
            seen.append(client.report("heading", 2.0))
            done.set()

    with Client(URL, tasks=[heading], ledger=ledger, transport=recorder, on_event=use, interval=0) as client:
        client.report("heading", 1.0)
        assert done.wait(60)
        assert client.flush(60)
        assert seen == [0, 1, 1.0, Outcome.ACCEPTED]
        assert client.counters == Counters(sent=2)


@pytest.mark.anyio
async def test_on_an_event_loop(ledger: Ledger, heading: Task) -> None:
    events: list[tuple[Event, str]] = []
    transport = AsyncRecordingTransport([503])

    def note(event: Event) -> None:
        events.append((event, threading.current_thread().name))

    options: Any = {"ledger": ledger, "transport": transport, "on_event": note}
    async with AsyncClient(URL, tasks=[heading], **options) as client:
        await client.report("heading", 1.0)
        await client.flush(0)
        await client.flush(5)
    assert [event.kind for event, _ in events] == ["retry", "sent"]
    assert {name for _, name in events} == {threading.main_thread().name}


@pytest.mark.parametrize("on_event", [1, "print", []])
def test_a_bad_callback(on_event: Any) -> None:
    with pytest.raises(ParameterError, match="on_event must be None or a function of an Event, got"):
        Uplink(URL, on_event=on_event)


def test_a_bad_environment() -> None:
    with pytest.raises(ParameterError, match="environment must be an Environment, got 12"):
        Uplink(URL, environment=12)  # type: ignore[arg-type]


def test_neither_events_nor_the_log_hold_a_value_or_a_code(
    ledger: Ledger, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    """An easily recognised value and code, through everything that events and the log can report."""
    caplog.set_level(logging.DEBUG)
    domain = Interval(0, 1000)
    task = Task("t", domain, 1.0, mechanism=OptimalPiecewise(domain, 1.0, nodes=10_000))
    value, draw = 777.131719, FixedDraw(0, 2**63)
    code = task.mechanism.randomize(value, randomness=draw)
    assert code > 1000
    events: list[Event] = []
    recorder.script.extend([503, OSError(str(value)), 404, 403, 410])
    uplink = SteppedUplink(URL, ledger=ledger, transport=recorder, on_event=events.append)
    with Client(uplink, tasks=[task], ledger=ledger, randomness=draw) as client:
        for _ in range(3):
            assert client.report("t", value)
            for _ in range(5):
                uplink.expedite()
        with pytest.raises(DomainError):
            client.report("t", 1e6)
        assert client.report("t", value)
        client.opt_out()
        assert client.report("t", value) is Outcome.OPTED_OUT
        client.opt_in()
        if isinstance(ledger, FileLedger):
            ledger.close()
            assert client.report("t", value) is Outcome.FAILED
    uplink.close(0)
    kinds = {event.kind for event in events}
    assert kinds >= {"retry", "kept", "paused", "dropped", "sent"}
    told = (caplog.text + repr(events)).replace(task.id, "")
    assert "status 503" in told
    for secret in (str(value), repr(value), "777", str(code)):
        assert secret not in told
    assert {record.name for record in caplog.records} == {"arcwise.client"}
