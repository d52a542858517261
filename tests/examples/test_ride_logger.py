"""The example app as its user runs it: real processes, a real server, a kill, a full budget, opting out."""

from __future__ import annotations

import importlib
import os
import signal
import struct
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from arcwise.cli.demo.run import running_server
from arcwise.client import Inspection, inspect
from arcwise.tasks import Group

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = Path(__file__).parents[2] / "examples"
RIDE = Group.load(EXAMPLES / "ride_logger" / "ride.json")
MOST_RIDES = 10
SECONDS = 60.0
"""The longest wait for a process; nothing here is timed."""


class App:
    """The app of one user, with its own folder."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.place = EXAMPLES
        """The folder of the app's package."""
        self.ledger = folder / "telemetry.db"
        self._command = [sys.executable, "-W", "error", "-m", "ride_logger", "--url", url]
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "RIDE_LOGGER_HOME": str(folder),
        }

    def popen(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._command, *arguments],
            cwd=self.place,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str, rides: str = "", code: int = 0) -> str:
        """Run a command to its end; return its output, including its log."""
        with self.popen(*arguments) as process:
            out, err = process.communicate(rides, timeout=SECONDS)
        assert process.returncode == code, err
        assert "Traceback" not in err
        return out + err

    @contextmanager
    def running(self, *rides: str) -> Iterator[subprocess.Popen[str]]:
        """Run it until it has logged these rides, and leave its input open."""
        with self.popen("run") as process:
            try:
                assert process.stdin is not None
                assert process.stderr is not None
                for ride in rides:
                    process.stdin.write(f"{ride}\n")
                    process.stdin.flush()
                    assert "logged a ride" in process.stderr.readline()
                yield process
            finally:
                process.kill()

    def delivered(self, url: str) -> int:
        """Run the app until nothing waits (an exit on a busy machine leaves reports). Return `counted`."""
        deadline = time.monotonic() + SECONDS
        while self.inspect().pending:
            assert time.monotonic() < deadline
            self("run")
        return counted(url)

    def inspect(self) -> Inspection:
        return inspect(self.ledger)

    def spent(self) -> dict[str, float]:
        return {account.name: account.epsilon for account in self.inspect().accounts}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with running_server(tmp_path, RIDE.tasks) as (address, _server):
        yield address


@pytest.fixture
def app(tmp_path: Path, url: str) -> App:
    return App(tmp_path / "user", url)


def counted(url: str) -> int:
    """Return the number of reports that the server has of both tasks; each ride is a report to one task."""
    with httpx.Client(base_url=url, timeout=60) as http:
        answers = [http.get(f"/v1/tasks/{task.id}/estimate") for task in RIDE.tasks]
    return sum(int(answer.raise_for_status().json()["n"]) for answer in answers)


@pytest.mark.slow
def test_the_app_lives_through_consent_crashes_a_full_budget_and_opting_out(app: App, url: str) -> None:
    # Nobody was asked: the app works, and nothing is written down or sent.
    assert "you have not agreed" in app("status")
    assert "logged a ride\n" in app("run", rides="350,20\n")
    assert not app.ledger.exists()

    said = app("consent", "yes")
    assert "epsilon 0 is spent; 10 more rides can be reported, ever" in said
    app("run", rides="350,20\n5.5,31\nnot a ride\n15,44\n")
    assert app.delivered(url) == 3
    assert app.spent()["ride"] == app.spent()["everything"] == 3.0

    # A crash between two rides: charged reports are queued, and the next run sends them.
    with app.running("12,30", "350.5,25") as process:
        process.kill()
        process.wait(SECONDS)
        assert counted(url) == 3
    assert app.spent()["ride"] == 5.0
    assert app.inspect().pending == 2
    assert app.delivered(url) == app.inspect().sent == 5

    # SIGTERM while it waits for a ride: it sends its queue, and exits by itself.
    with app.running("7,12") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
    assert app.delivered(url) == 6

    # The budget applies to one ledger, not to one run.
    said = app("run", rides="1,2\n" * 6)
    assert said.count("its report is on its way") == MOST_RIDES - 6
    assert said.count("this device has used up its lifetime budget") == 2
    assert app.delivered(url) == MOST_RIDES
    assert app.spent()["ride"] == 10.0
    assert "0 more rides can be reported, ever" in app("status")

    said = app("consent", "no")
    assert "you have opted out" in said
    assert "not reported: you have opted out" in app("run", rides="1,2\n")

    # Agreeing again gives no budget back.
    assert "epsilon 10 is spent; 0 more rides" in app("consent", "yes")
    assert counted(url) == MOST_RIDES

    # The user's own log has every ride, with or without a report.
    rides = (app.folder / "rides.csv").read_text(encoding="ascii").splitlines()
    assert len(rides) == 1 + 3 + 2 + 1 + 6 + 1
    assert rides[:3] == ["350,20", "350,20", "5.5,31"]


@pytest.mark.slow
def test_opting_out_drops_what_was_not_sent(app: App, url: str) -> None:
    app("consent", "yes")
    with app.running("12,30") as process:
        assert app.inspect().pending == 1
        assert "opted out" in app("consent", "no")  # in another process while the app runs
        assert app.inspect().pending == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
    app("run")
    assert counted(url) == 0
    assert app.inspect().dropped == {"opted-out": 1}
    assert app.spent()["ride"] == 1.0


@pytest.mark.slow
def test_without_a_server_the_app_goes_on_and_reports_wait(tmp_path: Path) -> None:
    app = App(tmp_path / "user", "http://127.0.0.1:9")
    app("consent", "yes")
    with app.running("12,30", "13,31") as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 0
    assert app.inspect().pending == 2
    assert "2 wait to be sent" in app("status")


@pytest.mark.slow
def test_a_lost_ledger_stops_telemetry_and_not_the_app(app: App, url: str) -> None:
    app("consent", "yes")
    app.ledger.unlink()
    said = app("run", rides="12,30\n")
    assert "continuing without telemetry: there is no ledger" in said
    assert "logged a ride\n" in said
    for command, code in ((("consent", "yes"), 1), (("consent", "no"), 0), (("status",), 0)):
        assert "Telemetry is off: its ledger cannot be used" in app(*command, code=code)
    assert not app.ledger.exists()
    assert counted(url) == 0


def test_the_log_and_the_ledger_hold_no_values(app: App) -> None:
    app("consent", "yes")
    said = app("run", rides="123.25,57.5\n")
    assert "123" not in said
    assert "57" not in said
    stored = b"".join(path.read_bytes() for path in app.folder.iterdir() if path.name != "rides.csv")
    for value in (123.25, 57.5):
        assert str(value).encode() not in stored
        assert struct.pack(">d", value) not in stored  # as SQLite writes a float


@pytest.mark.slow
def test_simulated_rides_run_until_they_are_stopped(app: App, url: str) -> None:
    app("consent", "yes")
    with app.popen("run", "--simulate", "0.01") as process:
        assert process.stderr is not None
        for _ in range(3):
            assert "its report is on its way" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
    assert app.delivered(url) == app.inspect().sent >= 3


@pytest.mark.slow
def test_an_exchanged_question_is_refused(app: App, tmp_path: Path) -> None:
    package = tmp_path / "ride_logger"
    package.mkdir()
    for path in (EXAMPLES / "ride_logger").glob("*.py"):
        (package / path.name).write_bytes(path.read_bytes())
    Group.share_budget("ride", {task.name: task.domain for task in RIDE.tasks}, epsilon=20.0).save(
        package / "ride.json"
    )
    app.place = tmp_path
    assert "ride.json is not what this app was written for" in app("status", code=1)


def test_states_lie_where_the_platform_wants_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    state_folder = importlib.import_module("ride_logger.places").state_folder
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RIDE_LOGGER_HOME", raising=False)
    assert state_folder().name == "ride-logger"
    assert state_folder().is_relative_to(tmp_path)
