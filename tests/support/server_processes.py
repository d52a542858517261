"""`arcwise serve` as a separate process, for tests of sockets and signals."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["serving"]


@contextmanager
def serving(
    folder: Path, *options: str, environment: Mapping[str, str] | None = None, files: bool = True
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve the tasks in a folder from a store in it, on a free port; yield the URL and the process.

    Without `files`, it serves the store's tasks. Its standard error goes to ``folder / "stderr"``.
    """
    command = [sys.executable, "-m", "arcwise.cli", "serve", "--port", "0"]
    command += ["--tasks", str(folder)] if files else []
    with (folder / "stderr").open("a", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [*command, "--store", f"sqlite:///{folder / 'server.db'}", *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=None if environment is None else dict(environment),
        )
    with process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            assert line.startswith("arcwise is listening on http://"), (folder / "stderr").read_text("utf-8")
            yield line.split()[-1], process
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    process.kill()
