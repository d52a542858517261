"""How an interpreter ends without closing its client, and that an idle client does nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from arcwise.client import Counters, FileLedger, Ledger, MemoryLedger, Uplink, inspect
from tests.support.cases import mostly_slow
from tests.support.scripted import serving
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from arcwise.tasks import Task
    from tests.support.recorder import Recorder
    from tests.support.scripted import Request

APP = """
import sys
from pathlib import Path
from arcwise.client import Client, FileLedger, HttpxTransport, MemoryLedger
from arcwise.domains import Circle
from arcwise.tasks import Task

url, path, *options = sys.argv[1:]
options.insert(0, "exit_timeout=60")  # however busy the machine is
ledger = FileLedger(path) if path else MemoryLedger()
client = Client(
    url,
    tasks=[Task("heading", Circle(360), 1.0)],
    caps="unlimited",
    ledger=ledger,
    interval=600,
    transport=HttpxTransport(trust_env=False),
    **{name: float(value) for name, value in (option.split("=") for option in options)},
)
for heading in range(5):
    assert client.report("heading", heading)
"""


def run(code: str, *arguments: str) -> None:
    """Run an app to its end; the app hangs if it takes two minutes."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(params=["memory", "file"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return ""
    FileLedger(tmp_path / "ledger.db", create=True).close()
    return str(tmp_path / "ledger.db")


def codes(seen: list[Request]) -> list[int]:
    return [len(request.batch.codes) for request in seen]


@pytest.mark.parametrize(
    "ending", ["", *mostly_slow(["del client, ledger", "sys.exit(0)", "raise SystemExit"], every=3)]
)
def test_what_is_queued_is_sent_before_the_interpreter_ends(path: str, ending: str) -> None:
    with serving() as (url, seen):
        run(f"{APP}\n{ending}", url, path)
        assert codes(seen) == [5]
    if path:
        assert (inspect(path).sent, inspect(path).pending) == (5, 0)


def test_a_server_in_trouble_is_asked_once(path: str) -> None:
    with serving(lambda _: (503, {})) as (url, seen):
        run(APP, url, path, "exit_timeout=1000")
        assert codes(seen) == [5]
    if path:
        assert inspect(path).pending == 5


class Late:
    """An outbox that delays the last look at exit until the thread could have sent again."""

    def __init__(self, uplink: Uplink, recorder: Recorder) -> None:
        self._expedite = uplink._outbox.expedite
        self._recorder = recorder

    def __call__(self) -> Callable[[], bool]:
        is_done = self._expedite()
        return lambda: self._look(is_done)

    def _look(self, is_done: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + 0.3
        while self._recorder.posts and len(self._recorder.posts) < 2 and time.monotonic() < deadline:
            time.sleep(0.001)
        return is_done()


def test_whoever_ends_late_finds_one_attempt(
    recorder: Recorder, heading: Task, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread's wait after the failure is over before the interpreter's last thread looks."""
    recorder.script.append(503)
    uplink = Uplink("http://127.0.0.1:1", ledger=MemoryLedger(), transport=recorder, exit_timeout=60)
    with Client(uplink, tasks=[heading]) as client:
        client.report("heading", 1.0)
        monkeypatch.setattr(uplink._outbox, "expedite", Late(uplink, recorder))
        uplink._at_exit()
    assert len(recorder.posts) == 1


@pytest.mark.slow
def test_a_network_that_is_down_is_not_waited_for(path: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    run(APP, url, path, "exit_timeout=1000")  # refused immediately: nobody listens there any more
    if path:
        assert inspect(path).pending == 5


@pytest.mark.slow
def test_a_server_that_never_answers_is_waited_for_as_long_as_it_may(path: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        run(APP, url, path, "exit_timeout=0.2", "request_timeout=100000")
    if path:
        assert inspect(path).pending == 5


@pytest.mark.slow
def test_a_delay_is_kept_where_the_file_remembers(path: str) -> None:
    """From a file it is sent later; in memory it would be lost."""
    with serving() as (url, seen):
        run(APP, url, path, "delay=3600")
        assert codes(seen) == ([] if path else [5])
        if path:
            assert inspect(path).pending == 5
            run(f"{APP}\nclient.flush(20)", url, path, "delay=3600")
            assert sum(codes(seen)) == 10


class Counted(Uplink):
    """Counts how often its thread looks at the queue."""

    looks = 0

    def _step(self) -> float:
        wait = super()._step()
        self.looks += 1
        self.waits.append(wait)
        return wait

    def __init__(self, url: str, *, ledger: Ledger, transport: Recorder, interval: float) -> None:
        self.waits: list[float] = []
        super().__init__(url, ledger=ledger, transport=transport, interval=interval)


@contextmanager
def settled(uplink: Counted) -> Iterator[None]:
    """Wait until the thread sleeps: it holds its condition except while it waits for it."""
    yield
    while True:
        with uplink._changed:
            if uplink._changed._waiters and not uplink._is_news:  # type: ignore[attr-defined]
                return


def test_an_idle_client_does_nothing(ledger: Ledger, recorder: Recorder, heading: Task) -> None:
    """There is no thread before the first report; then the thread sleeps until the interval ends, or for
    ever.
    """
    before = set(threading.enumerate())
    with (
        Counted("http://127.0.0.1:1", ledger=ledger, transport=recorder, interval=600) as uplink,
        Client(uplink, tasks=[heading], ledger=ledger) as client,
    ):
        assert set(threading.enumerate()) <= before
        with settled(uplink):
            client.report("heading", 1.0)
        looks = uplink.looks
        assert 590 < uplink.waits[-1] <= 600
        for _ in range(50):
            client.report("heading", 1.0)  # joins the batch that the thread waits for
        with settled(uplink):
            pass
        assert uplink.looks == looks
        with settled(uplink):
            assert client.flush(60)
        assert uplink.waits[-1] == float("inf")
        assert client.counters == Counters(sent=51)
        assert uplink.looks <= looks + 4
    assert set(threading.enumerate()) <= before


def test_an_idle_gateway_has_one_thread(recorder: Recorder, heading: Task) -> None:
    before = set(threading.enumerate())
    with Uplink("http://127.0.0.1:1", transport=recorder) as uplink:
        clients = [Client(uplink, tasks=[heading], ledger=MemoryLedger()) for _ in range(100)]
        assert all(client.report("heading", 1.0) for client in clients)
        assert len(set(threading.enumerate()) - before) == 1
