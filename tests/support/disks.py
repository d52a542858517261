"""A file system of a few bytes, which tests fill."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["small_disk"]


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a file system of this size, such as 64m, in memory; skip the test if that is not allowed."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={size}", "arcwise-test", str(folder)]
    try:
        mounted = not subprocess.run(["mount", *options], capture_output=True, check=False).returncode
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("only root may mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
