"""`arcwise client` and ``python -m arcwise.client``: the same words about a ledger, the same exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from arcwise.cli import main
from arcwise.client import FileLedger, RecordingTransport, inspect
from arcwise.client.__main__ import main as module_main
from arcwise.domains import Circle, Interval
from arcwise.tasks import Caps, Group, Task
from tests.support.unlimited import Client

Run = Callable[..., tuple[int, str, str]]

HEADING = Task("heading", Circle(360), epsilon=0.1, caps=Caps(rolling=2.0, window=7 * 86_400))
SPEED = Task("speed", Interval(0, 180), epsilon=1.0)
WALK = Group.share_budget("walk", {"direction": Circle(360), "minutes": Interval(0, 60)}, epsilon=1.5)


@pytest.fixture(params=["arcwise client", "python -m arcwise.client"])
def run(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Return a function that runs one command and returns its exit code and its output."""
    monkeypatch.chdir(tmp_path)

    def click_run(*arguments: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(main, ["client", *arguments])
        return result.exit_code, result.stdout, result.stderr

    def module_run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = module_main(arguments)
        except SystemExit as ended:  # from argparse, for invalid arguments
            code = int(str(ended.code))
        return code, *capsys.readouterr()

    return click_run if request.param == "arcwise client" else module_run


def client_of(ledger: FileLedger, *answers: int) -> Client:
    """Return a client whose server gives these answers, and then only errors."""
    transport = RecordingTransport([*answers, *[503] * 1000])
    return Client(
        "http://127.0.0.1:9",
        tasks=[HEADING, SPEED, WALK],
        ledger=ledger,
        memoize={"speed": 4},
        transport=transport,
        interval=3600,
    )


@contextmanager
def used_ledger() -> Iterator[Client]:
    """Make a ledger with spending, sealed and loose reports, drops and memoised answers; it is in use."""
    with FileLedger("telemetry.db", create=True, relaxed=True) as ledger:
        with client_of(ledger, 410) as client:
            for value in (1.0, 2.0, 3.0):
                assert client.report("heading", value)
            assert client.flush()  # a 410: dropped
            assert client.report("speed", 12.0)
            assert client.report("speed", 12.0)
            assert not client.close(0.2)  # a 503: sealed, and kept
        with client_of(ledger) as client:
            assert client.report("walk", {"direction": 2.0, "minutes": 7.0})
            yield client
            client.close(0)


def test_a_new_ledger_is_made_once(run: Run) -> None:
    code, out, err = run("create", "telemetry.db")
    assert (code, err) == (0, "")
    assert out == "created the ledger telemetry.db; nothing is spent yet\n"
    code, out, err = run("inspect", "telemetry.db")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "telemetry.db: reporting",
        "  ledger time: none, nothing was ever charged",
        "spent: nothing",
        "queued: 0 reports",
        "acknowledged: 0 reports",
    ]
    before = Path("telemetry.db").read_bytes()
    code, out, err = run("create", "telemetry.db")
    assert (code, out) == (1, "")
    assert err.startswith("Error: there is a file at telemetry.db already")
    assert err.count("\n") == 1
    assert Path("telemetry.db").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["inspect", "no.db"], 1, "Error: there is no ledger at no.db"),
        (["inspect", "notes.txt"], 1, "Error: "),
        (["inspect", "."], 1, "Error: "),
        (
            ["create", "no/such/folder/telemetry.db"],
            1,
            "Error: the ledger no/such/folder/telemetry.db",
        ),
        (["inspect"], 2, "FILE"),
        (["destroy", "telemetry.db"], 2, "destroy"),
    ],
)
def test_what_is_wrong_is_one_line_and_an_exit_code(
    run: Run, arguments: list[str], code: int, message: str
) -> None:
    Path("notes.txt").write_text("not a database " * 300, encoding="ascii")
    found, out, err = run(*arguments)
    assert (found, out) == (code, "")
    assert message in err
    assert "Traceback" not in err
    if code == 1:
        assert err.count("\n") == 1


def test_the_text_says_what_was_spent_and_what_is_queued(run: Run) -> None:
    with used_ledger():
        code, out, err = run("inspect", "telemetry.db")
        assert out == f"{inspect('telemetry.db')}\n"
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "telemetry.db: reporting"
    assert lines[1].startswith(f"  ledger time: {time.strftime('%Y-', time.gmtime())}")
    # Which task of the group was drawn is random.
    (drawn,) = (name for name in ("direction", "minutes") if f"  {name}" in out)
    width = max(map(len, (drawn, "everything")))
    assert f"  {'everything':<{width}}  epsilon 5.8" in lines
    assert f"  {'heading':<{width}}  epsilon 0.3; 0.3 within 7 days" in lines
    assert f"  {'speed':<{width}}  epsilon 4; memoised: 1 of 4 answers given" in lines
    assert f"  {'walk':<{width}}  epsilon 1.5" in lines
    assert f"  {drawn:<{width}}  epsilon 1.5" in lines
    assert "queued: 3 reports" in lines
    queued = [line.partition("; oldest 20")[0] for line in lines if "sealed" in line]
    assert queued == sorted(
        [
            f"  {drawn:<{width}}  1 report, 0 in sealed batches",
            f"  {'speed':<{width}}  2 reports, 2 in sealed batches",
        ]
    )
    assert lines[-2:] == ["acknowledged: 0 reports", "dropped: 3 reports (410)"]


def test_json_holds_the_same(run: Run) -> None:
    with used_ledger():
        code, out, _ = run("inspect", "--json", "telemetry.db")
        found = json.loads(out)
        assert found == inspect("telemetry.db").to_dict()
    assert code == 0
    assert (found["pending"], found["sent"], found["dropped"]) == (3, 0, {"410": 3})
    spent = {account["name"]: account["epsilon"] for account in found["accounts"]}
    assert spent["everything"] == 5.8
    assert found["memoized"] == {SPEED.id: {"paid": 4, "given": 1}}
    assert {queue["name"] for queue in found["queue"]} >= {"speed"}


def test_what_has_left_the_window_is_not_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    later = time.time() + 8 * 86_400
    with used_ledger():
        monkeypatch.setattr("arcwise.client.file.inspection.time.time", lambda: later)
        (heading,) = (account for account in inspect("telemetry.db").accounts if account.name == "heading")
    assert (heading.epsilon, heading.recent_epsilon) == (0.3, 0.0)


def test_it_shows_that_a_device_has_opted_out(run: Run) -> None:
    with used_ledger() as client:
        client.opt_out()
        out = run("inspect", "telemetry.db")[1]
    assert out.startswith("telemetry.db: opted out\n")
    assert "queued: 0 reports" in out
    assert "dropped: 3 reports (opted-out)" in out


def test_numbers_keep_their_millionths(tmp_path: Path) -> None:
    third = Task("third", Circle(1), epsilon=1 / 3)
    with FileLedger(tmp_path / "x.db", create=True, relaxed=True) as ledger:
        client = Client("http://127.0.0.1:9", tasks=[third], ledger=ledger, transport=RecordingTransport())
        for _ in range(31):
            client.report("third", 0.5)
        client.close()
    text = str(inspect(tmp_path / "x.db"))
    assert "epsilon 10.333354" in text
    assert "acknowledged: 31 reports" in text


def test_two_versions_of_a_task_are_told_apart_by_their_ids(run: Run) -> None:
    first, second = (Task("score", Interval(0, 10), epsilon=epsilon) for epsilon in (1.0, 2.0))
    other = Task("other", Interval(0, 10), epsilon=1.0)
    with FileLedger("telemetry.db", create=True, relaxed=True) as ledger:
        for task, reports in ((first, 2), (second, 1), (other, 1)):
            client = Client(
                "http://127.0.0.1:9", tasks=[task], ledger=ledger, transport=RecordingTransport([503] * 99)
            )
            for _ in range(reports):
                assert client.report(task.name, 5.0)
            client.close(0)
    lines = run("inspect", "telemetry.db")[1].splitlines()
    labels = {task: f"score ({task.id[:8]})" for task in (first, second)}
    assert lines[3:7] == [
        "  everything        epsilon 5",
        "  other             epsilon 1",
        *(f"  {labels[task]}  epsilon 2" for task in sorted((first, second), key=lambda task: task.id)),
    ]
    for label, queued in ((labels[first], "2 reports"), (labels[second], "1 report"), ("other", "1 report")):
        assert any(line.startswith(f"  {label:<16}  {queued}, ") for line in lines)
    found = json.loads(run("inspect", "--json", "telemetry.db")[1])
    assert {queue["task"]: queue["reports"] for queue in found["queue"]} == {
        first.id: 2,
        second.id: 1,
        other.id: 1,
    }


def test_a_task_may_be_called_everything(tmp_path: Path) -> None:
    task = Task("everything", Circle(1), epsilon=1.0)
    with FileLedger(tmp_path / "x.db", create=True, relaxed=True) as ledger:
        client = Client("http://127.0.0.1:9", tasks=[task], ledger=ledger, transport=RecordingTransport())
        assert client.report("everything", 0.5)
        assert client.close()
    text = str(inspect(tmp_path / "x.db"))
    assert f"  {'everything':<21}  epsilon 1\n  everything ({task.id[:8]})  epsilon 1\n" in text


def test_the_module_needs_nothing_of_the_server(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "sys.modules['arcwise.server'] = sys.modules['click'] = None\n"  # an import of them fails
        "sys.argv = ['arcwise.client', 'create', 'telemetry.db']\n"
        "import runpy; runpy.run_module('arcwise.client', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "created the ledger telemetry.db; nothing is spent yet\n"
    assert (tmp_path / "telemetry.db").exists()
