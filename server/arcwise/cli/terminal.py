"""What commands share while they run: progress bars, tables, numbers, and the files that they write."""

from __future__ import annotations

import math
import os
import re
import socket
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from arcwise.tasks import Group, Task

PATIENCE: Final = 2.0
"""Seconds that a command may take without a word."""

_STARTED: Final = time.monotonic()
"""When the command began: it loads this module."""


@contextmanager
def progress_bar(
    words: str = "", *, counted: bool = True, console: Console | None = None
) -> Iterator[Callable[[float, float, str], None]]:
    """Show a bar while the block runs, on a terminal only: on stderr, and gone when it is done.

    It appears once the command has taken two seconds. Nothing else may be printed meanwhile. Without a call
    of what is yielded it says that something goes on, and for how long.

    Yields what to call with the steps done, the steps in all, and words. Without `counted` the numbers are
    not shown.
    """
    console = Console(stderr=True) if console is None else console
    if not console.is_terminal:
        yield lambda done, total, words: None
        return
    columns: list[ProgressColumn] = [BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}")]
    if counted:
        columns.insert(1, MofNCompleteColumn())
    bar = Progress(*columns, console=console, transient=True)
    job = bar.add_task(words, total=None)
    timer = threading.Timer(_STARTED + PATIENCE - time.monotonic(), bar.start)
    timer.daemon = True
    if timer.interval > 0:
        timer.start()
    else:
        bar.start()
    try:
        yield lambda done, total, words: bar.update(job, completed=done, total=total, description=words)
    finally:
        timer.cancel()
        if timer.is_alive():
            timer.join()
        bar.stop()


def wide_console(width: int) -> Console:
    """Return the console of stdout; a file or a pipe, which has no width of its own, gets this one."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


def number_table(first: str, headings: Iterable[str], title: str | None = None) -> Table:
    """Return a table without rows and lines: a column of names, unless `first` is "", then of numbers."""
    table = Table(box=None, pad_edge=False, title=title)
    if first:
        table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


@contextmanager
def writing_files() -> Iterator[None]:
    """Turn errors of writing a file into a message that names the file."""
    try:
        yield
    except OSError as error:
        raise click.ClickException(f"cannot write {error.filename}: {error.strerror}") from error


def whole_number(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """Read a number of reports that may be written 1e6; its bounds are for others to check."""
    if text is None:
        return None
    try:
        number = int(text) if text.isdigit() else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number != int(number):
        raise click.BadParameter(f"{text!r} is not a whole number, such as 250000 or 1e6")
    return int(number)


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


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens there, or say why none can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise click.ClickException(f"cannot listen on {host} port {port}: {error.strerror}") from error


def rendered(template: Path, **values: Any) -> str:
    """Return a page of HTML: a template with these values, which are escaped unless it marks them as safe."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=True,  # also of what people wrote into a task's file
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template.name).render(values)


def reader_lines(task: Task, n: int) -> list[str]:
    """Return what holds against whom for counts of `n` reports; nothing where a task promises nothing."""
    if task.central is None:
        return []
    lines = [f"Against {who}: {what}." for who, what in task.readers.items()]
    if n < task.least_reports:
        lines.append(f"{n:,} reports are fewer than {task.least_reports:,}: a server does not release them.")
    return lines
