"""The clients in JavaScript and Java pass the conformance kit."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from arcwise.client.conformance import all_cases, check
from arcwise.client.conformance.__main__ import main
from arcwise.domains import Circle
from arcwise.tasks import Caps, Task
from arcwise.wire import decode_batch
from tests.support.nodejs import JAVASCRIPT, NODE
from tests.support.scripted import Answer, Request, serving

if TYPE_CHECKING:
    from arcwise.client.conformance import Report

JAVA = Path(__file__).parents[2] / "examples" / "java" / "Client.java"
QUIET = {case.kind for case in all_cases()} - {"deliver"}
IN_JAVASCRIPT = [NODE, str(JAVASCRIPT / "conformance.js")]

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="java is not installed")


def assert_conforms(report: Report) -> None:
    assert [failure for tally in report.tallies for failure in tally.failures] == []
    assert {tally.kind for tally in report.tallies if tally.skipped} <= {"group"}
    assert report.passed


def test_the_client_in_javascript_conforms() -> None:
    assert_conforms(check(IN_JAVASCRIPT, kinds=QUIET))


@pytest.mark.slow
def test_the_client_in_javascript_delivers() -> None:
    assert_conforms(check(IN_JAVASCRIPT, kinds={"deliver"}))


@pytest.mark.slow
@needs_java
def test_the_client_in_java_conforms() -> None:
    assert_conforms(check(["java", str(JAVA)]))


@pytest.mark.slow
@needs_java
def test_the_command_of_the_page_passes() -> None:
    """The command of docs/howto/write-a-client.md."""
    text = (JAVA.parents[2] / "docs" / "howto" / "write-a-client.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^python -m arcwise\.client\.conformance (.*)$", text, re.MULTILINE)
    assert main(command.replace("examples/", f"{JAVA.parents[1]}/").split()) == 0


@pytest.mark.slow
@needs_java
def test_the_client_in_java_reports_from_the_command_line(tmp_path: Path) -> None:
    heading = Task("heading", Circle(360), 1.0, caps=Caps(lifetime=2.0))
    heading.save(tmp_path / "heading.json")
    Task("heading", Circle(360), 1.0).save(tmp_path / "unlimited.json")

    def run(url: str, task: str) -> subprocess.CompletedProcess[str]:
        command = ["java", str(JAVA), url, str(tmp_path / task), "12.5", "350", "7"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def answer(request: Request) -> Answer:
        assert decode_batch(request.body).task_id.hex() == heading.id
        return 204, {}

    with serving(answer) as (url, requests):
        done = run(url, "heading.json")
        assert "nothing limits what the task reveals" in run(url, "unlimited.json").stderr
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "queued\nqueued\nnot made: a cap is spent\n{dropped=0, pending=0, sent=2}\n",
        "",
    )
    assert [len(request.batch.codes) for request in requests] == [2]
    assert "use https://" in run("http://reports.example", "heading.json").stderr
