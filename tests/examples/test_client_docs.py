"""docs/howto/embed-a-client.md and hosted-app.md, the first example of overview.md and the smallest app.

A comment after a `print` shows its output.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from arcwise.cli import main
from arcwise.cli.demo.run import running_server
from arcwise.client import Event, Outcome, inspect
from arcwise.client.delivery import Verdict, classify
from arcwise.client.outcomes import _MESSAGES
from arcwise.domains import Circle
from arcwise.tasks import Caps, Task
from tests.support.ledgers import ledger_schema, ledger_url

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "howto" / "embed-a-client.md").read_text(encoding="utf-8")
HOSTED = (ROOT / "docs" / "howto" / "hosted-app.md").read_text(encoding="utf-8")
OVERVIEW = (ROOT / "docs" / "explanation" / "overview.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands(text: str) -> list[list[str]]:
    """Return the arguments of every `arcwise` command in the shell blocks of a text."""
    lines = [line for block in blocks(text, "sh") for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("arcwise ")]


def run_program(program: str, folder: Path) -> str:
    path = folder / "app.py"
    path.write_text(program, encoding="utf-8")
    return run_file(path, folder)


def run_file(path: Path, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def printed(program: str) -> list[str]:
    """Return the expected output of a program's `print`s, line by line."""
    return re.findall(r"^\s*print\(.*\)  # (.*)$", program, re.MULTILINE)


def counted(url: str, task: Task) -> int:
    answer = httpx.get(f"{url}/v1/tasks/{task.id}/estimate", timeout=60)
    return int(answer.raise_for_status().json()["n"])


@pytest.mark.slow
def test_the_page_runs_and_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make, look = commands(PAGE)
    assert CliRunner().invoke(main, make).exit_code == 0
    task = Task.load("heading.json")
    with running_server(tmp_path, [task]) as (url, _server):
        program = "\n".join(blocks(PAGE, "python"))
        assert program.count("https://reports.example") >= 6
        output = run_program(program.replace("https://reports.example", url), tmp_path)
        assert len(printed(program)) >= 12
        assert output.splitlines() == printed(program)
        # Two through the ledger, three of the gateway, two of the page's budget; recorders send nothing.
        assert counted(url, task) == 7
    shown = CliRunner().invoke(main, look)
    assert shown.exit_code == 0
    assert "heading     epsilon 2; 2 within 1 day" in shown.output
    assert inspect("telemetry.db").sent == 2


def test_the_first_example_of_the_overview_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = blocks(OVERVIEW, "python")[0]
    (make,) = re.findall(r"^arcwise (task new .*?)  #", OVERVIEW, re.MULTILINE)
    assert CliRunner().invoke(main, make.split()).exit_code == 0
    task = Task.load("tasks/heading.json")
    (tmp_path / "server").mkdir()
    with running_server(tmp_path / "server", [task]) as (url, _server):
        assert "http://127.0.0.1:8000" in program
        output = run_program(program.replace("http://127.0.0.1:8000", url), tmp_path)
        assert output.splitlines() == printed(program)
        assert counted(url, task) == 2


@pytest.mark.slow
def test_the_small_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=2.0)).save("heading.json")
    example = ROOT / "examples" / "device.py"
    task = Task.load("heading.json")
    (make,) = re.findall(r"^arcwise (client create .*)$", example.read_text(encoding="utf-8"), re.MULTILINE)
    assert CliRunner().invoke(main, make.split()).exit_code == 0
    with running_server(tmp_path, [task]) as (url, _server):
        said = run_file(example, tmp_path, url, "heading.json", "telemetry.db").splitlines()
        assert said == ["accepted", "accepted", "capped", "2 acknowledged, 0 dropped, 0 still pending"]
        assert counted(url, task) == 2


def test_the_table_of_outcomes_is_complete() -> None:
    assert {f"| `{outcome.name}` |" for outcome in Outcome} == set(
        re.findall(r"^\| `[A-Z_]+` \|", PAGE, re.M)
    )


def test_the_kinds_of_events_are_complete() -> None:
    (sentence,) = re.findall(r"^Kinds are (.*)\.$", PAGE, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", sentence)) == set(_MESSAGES)
    described = (Event.__doc__ or "").partition("kind\n")[2].partition("task\n")[0]
    assert set(re.findall(r'"(\w+)"', described)) == set(_MESSAGES)


@pytest.mark.parametrize(("status", "place"), [(204, 0), (503, 1), (200, 1), (401, 2), (404, 3), (410, 4)])
def test_the_table_of_answers_is_what_the_client_does(status: int, place: int) -> None:
    verdicts = [Verdict.SENT, Verdict.RETRY, Verdict.PAUSE, Verdict.KEEP, Verdict.DROP]
    assert classify(status) is verdicts[place]
    rows = PAGE.partition("| answer | the batch |")[2].splitlines()[2:7]
    words = ["acknowledged", "the same bytes again", "30 to 60 minutes", "until it expires", "dropped"]
    assert all(word in row for word, row in zip(words, rows, strict=True))


def test_all_of_the_overview_asks_one_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device with different caps from the server's has a different task, and its reports would wait."""
    monkeypatch.chdir(tmp_path)
    (line,) = re.findall(r"^arcwise (task new heading [^\n#]*)", OVERVIEW, re.MULTILINE)
    assert CliRunner().invoke(main, shlex.split(line)).exit_code == 0
    (source,) = re.findall(r"^task = (Task\(.*?\))(?:  #.*)?$", OVERVIEW, re.MULTILINE)
    task = eval(source, {"Task": Task, "Circle": Circle, "Caps": Caps})
    assert Task.load("tasks/heading.json").id == task.id


def test_the_page_of_hosted_apps_holds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its ledgers are in a separate schema, and its requests are recorded."""
    found = re.findall(r"<!-- run by: \S+ -->\n```python\n(.*?)```", HOSTED, re.DOTALL)
    monkeypatch.setenv("DATABASE_URL", ledger_url())
    names: dict[str, Any] = {}
    with ledger_schema() as schema:
        for block in found:
            text = block.replace("create=True)", f"create=True, schema={schema!r})")
            text = text.replace("ledger=ledgers)", "ledger=ledgers, transport=RecordingTransport())")
            text = text.replace(
                "from arcwise.client import ", "from arcwise.client import RecordingTransport, "
            )
            exec(compile(text, "hosted-app.md", "exec"), names)
            said = re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE)
            assert capsys.readouterr().out.splitlines() == said
    assert len(found) == 5
