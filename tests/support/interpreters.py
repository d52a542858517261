"""Programs in a new interpreter, which has loaded nothing yet."""

from __future__ import annotations

import os
import subprocess
import sys

__all__ = ["printed"]


def printed(code: str, *arguments: str, stdin: str = "") -> str:
    """Run a program, with warnings as errors, and return its output; nothing may go to stderr."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        input=stdin,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()
