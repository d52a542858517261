"""The shell of a person who follows a page."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from typing_extensions import Self

__all__ = ["Shell"]

_END = "the end of this block"


class Shell:
    """One bash for all blocks, so that variables persist; it ends at the first command that fails.

    Parameters
    ----------
    folder
        Its first working folder; standard error goes to "shell.err" there.
    environment
        Its variables.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._errors = folder / "shell.err"
        with self._errors.open("wb") as errors:
            self._bash = subprocess.Popen(
                ["bash", "--noprofile", "--norc", "-eu", "-o", "pipefail"],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def run(self, block: str) -> str:
        """Run a block and return its output."""
        assert self._bash.stdin
        assert self._bash.stdout
        self._bash.stdin.write(f"{block}\necho; echo '{_END}'\n")
        self._bash.stdin.flush()
        printed: list[str] = []
        for line in self._bash.stdout:
            if line.rstrip("\n") == _END:
                return "".join(printed).rstrip("\n")
            printed.append(line)
        raise AssertionError(f"{block}\n{''.join(printed)}\n{self._errors.read_text('utf-8')}")

    def variable(self, name: str) -> str:
        return self.run(f'echo "${name}"')

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGKILL)  # including its background processes
        self._bash.communicate()
