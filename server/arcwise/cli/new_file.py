"""Files that a command makes: not over others unless asked to, and errors that name them."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from arcwise.cli.terminal import writing_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.tasks import Group, Task


def new_path(name: str, output: Path | None, force: bool, *, ending: str = ".json") -> Path:
    """Return the file to write, NAME with `ending` unless given.

    Raises `click.ClickException` when it is taken.
    """
    path = output or Path(re.sub(r"[^\w.-]+", "-", name) + ending)
    with writing_files():
        taken = path.exists() and not force
    if taken:
        raise click.ClickException(f"{path} already exists; use another --output, or --force")
    return path


def write_new(made: Task | Group, path: Path) -> None:
    """Save a task or a group, in folders that are made where they are missing."""
    with writing_files():
        path.parent.mkdir(parents=True, exist_ok=True)
        made.save(path)
    click.echo(f"wrote {path}\n")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield the file to write, which becomes `path` when the block ends well; else nothing is left of it."""
    part = path.with_name(path.name + ".part")  # a file of the right name is a whole one
    try:
        part.unlink(missing_ok=True)  # of a command that was killed: its mode would stay
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)
