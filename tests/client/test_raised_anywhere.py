"""A signal handler raises or reports at any point of the code: nothing stays locked, uncharged or lost."""

from __future__ import annotations

import _thread
import asyncio
import gc
import inspect
import os
import signal
import sys
from collections import defaultdict
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from arcwise.client import (
    AsyncClient,
    AsyncRecordingTransport,
    Client,
    FileLedger,
    MemoryLedger,
    Outcome,
    RecordingTransport,
    Uplink,
)
from arcwise.domains import Circle
from arcwise.tasks import Caps, Task
from tests.support.forks import in_child
from tests.support.ledgers import fresh_ledgers, ledger_opener
from tests.support.stepped import SteppedUplink, stepped
from tests.support.waiting import Started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from arcwise.client import Ledger
    from arcwise.client.ledger import QueueOwner
    from tests.support.recorder import Recorder

TASK = Task("task", Circle(360), epsilon=1.0, caps=Caps(lifetime=100_000.0))
URL = "http://127.0.0.1:1"


RELAXED: dict[str, dict[str, Any]] = {
    "memory": {},
    "file": {"relaxed": True, "busy_timeout": 30},
    "postgres": {"relaxed": True, "busy_timeout": 30, "connections": 1},
}
"""Options of each kind of ledger."""


class Signal(BaseException):
    """The exception that the handler raises."""


class SignalsAt:
    """A profiler that sends a signal where Python checks for one: after a call begins, or C returns."""

    def __init__(self, *places: int, modules: tuple[str, ...] = ("arcwise/client", "contextlib")) -> None:
        self.places, self.modules = places, modules
        self.reached = 0
        self.raised_in: list[str] = []
        self.process = os.getpid()  # a child begins without the signals of its parent
        # C code, called by an operator: so the signal waits until the profiler has returned.
        self.sent: defaultdict[int, None] = defaultdict(partial(_thread.interrupt_main, signal.SIGUSR1))

    def __call__(self, frame: Any, event: str, _: object) -> None:
        name = frame.f_code.co_filename.replace("\\", "/")
        ours = any(module in name for module in self.modules)
        # An exception raised as a generator resumes ends it before any of its cleanup runs.
        begun = event == "call" and not frame.f_code.co_flags & inspect.CO_GENERATOR
        if ours and (begun or event == "c_return") and os.getpid() == self.process:
            self.reached += 1
            if self.reached in self.places:
                self.raised_in.append(f"{event} {frame.f_code.co_name}")
                self.sent[self.reached]


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    def handle(_number: int, _frame: object) -> None:
        raise Signal

    before = signal.signal(signal.SIGUSR1, handle)
    yield
    signal.signal(signal.SIGUSR1, before)


def raised(act: Callable[[], object], profile: SignalsAt) -> Signal | None:
    """Do something, and return the exception that interrupted it, if any."""
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        act()
    except Signal as signalled:
        return signalled
    finally:
        sys.setprofile(before)
    return None


def outcome(client: Client, *, other_thread: bool) -> Outcome:
    report = partial(client.report, "task", 1.0)
    return Started(report).result() if other_thread else report()


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_ledger_is_free_after_an_exception_at_any_place(
    tmp_path: Path, recorder: Recorder, kind: str
) -> None:
    with ledger_opener(kind, tmp_path / "ledger.db", **RELAXED[kind]) as handle:
        client, uplink = made(handle(), recorder)
        client.report("task", 1.0)
        place = 1
        kept = []  # as `sys.last_exc` and notebooks do
        while (interrupted := raised(lambda: client.report("task", 1.0), SignalsAt(place))) is not None:
            kept.append(interrupted)
            assert outcome(client, other_thread=place % 2 == 0) is Outcome.ACCEPTED, place
            place += 1
        assert place > 50
        # An interrupted report is charged and queued, or neither, or (in memory) only charged.
        spent = client.budget("task").epsilon
        assert place + 1 <= client.pending <= spent <= 2 * place
        uplink.expedite()
        assert client.pending == 0  # exactly the pending codes are there
        uplink.close(0)


def made(handle: tuple[Ledger, QueueOwner], recorder: Recorder) -> tuple[Client, SteppedUplink]:
    ledger, owner = handle
    uplink = SteppedUplink(URL, ledger=owner, transport=recorder)
    return Client(uplink, tasks=[TASK], ledger=ledger), uplink


def opt_out_and_in(client: Client, uplink: SteppedUplink) -> None:
    client.opt_out()
    client.opt_in()


def close(client: Client, uplink: SteppedUplink) -> None:
    uplink.close(0)


def report_on_a_loop(client: Client, _: SteppedUplink) -> None:
    async def report() -> None:
        transport = AsyncRecordingTransport()
        twin = AsyncClient(URL, tasks=[TASK], ledger=client._ledger, transport=transport)
        await twin.report("task", 1.0)
        await twin.close(0)

    asyncio.run(report())


def fail_to_send(client: Client, uplink: SteppedUplink) -> None:
    """Take a batch, put it back and write down when to try again."""
    client.report("task", 1.0)
    uplink._transport.script.append(503)
    uplink.expedite()


DOORS: dict[str, Callable[[Client, SteppedUplink], object]] = {
    "report": lambda client, _: client.report("task", 1.0),
    "budget": lambda client, _: client.budget("task"),
    "pending": lambda client, _: client.pending,
    "counters": lambda client, _: client.counters,
    "opt out": opt_out_and_in,
    "flush": lambda _, uplink: uplink.expedite(),
    "trouble": fail_to_send,
    "close": close,
    "loop": report_on_a_loop,
}


LOCKS = (
    "client/interruptions",
    "client/memory",
    "client/file/database",
    "client/file/held",
    "client/postgres/database",
    "contextlib",
)
"""Folders for ledgers: the other modules take too long with a ledger on a disk."""


@pytest.fixture
def collected() -> Iterator[None]:
    """Let interrupted connections warn in the test that interrupted them, not in the next one."""
    yield
    gc.collect()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(
    ("kind", "door"),
    [
        *(("memory", door) for door in DOORS),
        *(
            pytest.param(kind, door, marks=pytest.mark.slow)
            for kind in ("file", "postgres")
            for door in ("report", "budget", "opt out", "flush", "close", "open")
        ),
    ],
)
def test_whoever_keeps_an_exception_keeps_no_ledger(
    tmp_path: Path, recorder: Recorder, kind: str, door: str
) -> None:
    """This thread, another thread and another process go on."""
    modules = SignalsAt().modules if kind == "memory" else LOCKS
    place, more = 0, True
    kept: list[Signal | None] = []
    with ledger_opener(kind, tmp_path / "ledger.db", **RELAXED[kind]) as handle:
        others, _ = made(handle(), recorder)
        mine = handle()
        while more:
            place += 1
            client, uplink = made(mine, recorder)
            assert client.report("task", 1.0)
            act = partial(DOORS[door], client, uplink) if door in DOORS else lambda: made(handle(), recorder)
            profile = SignalsAt(place, modules=modules)
            kept.append(raised(act, profile))
            more = profile.reached >= place
            for each, other_thread in ((others, True), (made(mine, recorder)[0], False)):
                told = outcome(each, other_thread=other_thread)
                assert told in (Outcome.ACCEPTED, Outcome.OPTED_OUT), profile.raised_in
            others.opt_in()
        assert place > (2 if kind == "memory" else 20)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    "further", [0, *(pytest.param(more, marks=pytest.mark.slow) for more in (1, 2, 3, 5, 8))]
)
def test_processes_fork_after_exceptions_at_any_place_of_a_fork(
    tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, further: int
) -> None:
    """Two exceptions if `further` is not 0; the receiver keeps them, with their frames."""
    kept: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", kept.append)
    with ExitStack() as stack:
        clients = []
        for number in range(3):
            ledger = stack.enter_context(FileLedger(tmp_path / f"{number}.db", create=True, relaxed=True))
            uplink = SteppedUplink(URL, ledger=ledger, transport=recorder)
            clients.append(Client(uplink, tasks=[TASK], ledger=ledger))

        def child() -> bool:
            return all(client.report("task", 1.0) is Outcome.ACCEPTED for client in clients)

        place, profile = 0, SignalsAt()
        while profile.reached >= place:
            place += 1
            profile = SignalsAt(place, place + further)
            before = sys.getprofile()
            sys.setprofile(profile)
            try:
                reported = in_child(child)
            finally:
                sys.setprofile(before)
            for client in clients:
                assert outcome(client, other_thread=True) is Outcome.ACCEPTED, place
            # If the hook has not even begun, the child refuses the ledgers that it inherited.
            assert reported or "call before" in profile.raised_in, place
        assert place > 20
        assert kept
    kept.clear()


def interrupted_report(client: Client, place: int) -> SignalsAt:
    """Report with a signal at a place, also within a lock that is written in Python."""
    profile = SignalsAt(place, modules=("arcwise/client", "contextlib", "threading.py"))
    sys.setprofile(profile)
    try:  # without contextlib, into which the profiler sends signals too
        client.report("task", 1.0)
    except Signal:
        pass
    finally:
        sys.setprofile(None)
    return profile


@pytest.mark.parametrize("kind", ["memory", pytest.param("file", marks=pytest.mark.slow)])
def test_an_interrupted_report_leaves_the_sender_at_work(tmp_path: Path, kind: str) -> None:
    """A report that starts a batch wakes the sender, and may be interrupted in between."""
    file = FileLedger(tmp_path / "ledger.db", create=True, relaxed=True)
    ledger = file if kind == "file" else MemoryLedger()
    uplink = Uplink(URL, ledger=ledger, transport=RecordingTransport(), interval=0.0)
    client = Client(uplink, tasks=[TASK], ledger=ledger)
    assert client.report("task", 1.0)
    place, more = 1, True
    while more:
        profile = interrupted_report(client, place)
        more = profile.reached >= place
        # In another thread: this one may own the lock at which it was interrupted.
        assert Started(partial(client.flush, 30)).result(), profile.raised_in
        place += 1
    assert place > 20
    uplink.close()
    file.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize("reports", [True, False], ids=["reports", "raises"])
def test_a_signal_handler_leaves_no_connection_of_a_database_in_use(reports: bool) -> None:
    """There is one connection; after any handler at any place, the next report gets it again."""
    with fresh_ledgers(connections=1, busy_timeout=1) as ledgers:
        ledgers.create_account("somebody")
        uplink = Uplink(URL, ledger=ledgers, transport=RecordingTransport(), interval=600)
        client = Client(uplink, tasks=[TASK], ledger=ledgers.account("somebody"))
        assert client.report("task", 1.0)
        if reports:
            signal.signal(signal.SIGUSR1, lambda *_: client.report("task", 1.0))
        place, more = 1, True
        while more:
            profile = interrupted_report(client, place)
            more = profile.reached >= place
            assert client.report("task", 1.0) is Outcome.ACCEPTED, profile.raised_in
            place += 1
        assert place > 20
        uplink.close(0)


@pytest.mark.parametrize("act", [DOORS["flush"], opt_out_and_in, close], ids=["flush", "opt out", "close"])
@pytest.mark.parametrize("kind", ["memory", pytest.param("file", marks=pytest.mark.slow)])
@pytest.mark.parametrize("reports", [1, 3])
def test_what_a_signal_handler_reports_at_any_place_is_sent_or_counted_as_dropped(
    tmp_path: Path,
    recorder: Recorder,
    kind: str,
    reports: int,
    act: Callable[[Client, SteppedUplink], object],
) -> None:
    place, more = 1, True
    while more:
        file = FileLedger(tmp_path / f"{place}.db", create=True, relaxed=True)
        ledger = file if kind == "file" else MemoryLedger()
        client, uplink = stepped(ledger, recorder, TASK, batch_size=3)
        accepted = 4
        for _ in range(4):  # one batch is full, one is open
            assert client.report("task", 1.0)

        def report(_number: int, _frame: object, client: Client = client) -> None:
            nonlocal accepted
            with suppress(RuntimeError):  # closed
                for _ in range(reports):
                    accepted += bool(client.report("task", 1.0))

        signal.signal(signal.SIGUSR1, report)
        profile = SignalsAt(place)
        sys.setprofile(profile)
        try:
            act(client, uplink)
        finally:
            sys.setprofile(None)
        more = profile.reached >= place
        counters = client.counters
        assert counters.pending + counters.sent + sum(counters.dropped.values()) == accepted, (
            profile.raised_in
        )
        if act is not close:
            uplink.expedite()
            assert client.pending == 0, profile.raised_in
        uplink.close(0)
        file.close()
        place += 1
    assert place > 10
