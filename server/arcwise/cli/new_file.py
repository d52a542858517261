"""Files that a command makes: not over others unless asked to, and errors that name them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from arcwise.cli.terminal import writing_files

if TYPE_CHECKING:
    from arcwise.tasks import Group, Task

__all__ = ["new_path", "write_new"]


def new_path(name: str, output: Path | None, force: bool) -> Path:
    """Return the file to write, NAME.json unless given; raises `click.ClickException` when it is taken."""
    path = output or Path(re.sub(r"[^\w.-]+", "-", name) + ".json")
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
