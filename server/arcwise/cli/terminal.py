"""Helpers that commands share: progress bars, tables, numbers, and the files that they write."""

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
"""Seconds that a command may run without output."""

_STARTED: Final = time.monotonic()
"""The time when the command began, as each command loads this module."""


@contextmanager
def progress_bar(
    words: str = "", *, counted: bool = True, console: Console | None = None
) -> Iterator[Callable[[float, float, str], None]]:
    """Show a bar on stderr while the block runs, if stderr is a terminal; the bar disappears at the end.

    The bar appears once the command has run for two seconds. Nothing else may be printed meanwhile. If the
    yielded function is never called, the bar shows only the time elapsed.

    Yields a function of the steps done, the total steps, and a description. Without `counted` the numbers are
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
    """Return the console of stdout, with this width for a file or a pipe, which has no width of its own."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


def number_table(first: str, headings: Iterable[str], title: str | None = None) -> Table:
    """Return a table without rows and lines: a column of names, unless `first` is "", then number columns."""
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
    """Read a number of reports, which may be written 1e6; callers check its bounds."""
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
    """Return the file to write: `output`, or NAME with `ending`.

    Raises `click.ClickException` if the file exists and `force` is false.
    """
    path = output or Path(re.sub(r"[^\w.-]+", "-", name) + ending)
    with writing_files():
        taken = path.exists() and not force
    if taken:
        raise click.ClickException(f"{path} already exists; use another --output, or --force")
    return path


def write_new(made: Task | Group, path: Path) -> None:
    """Save a task or a group, and create missing folders."""
    with writing_files():
        path.parent.mkdir(parents=True, exist_ok=True)
        made.save(path)
    click.echo(f"wrote {path}\n")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` if the block succeeds, and is deleted otherwise."""
    part = path.with_name(path.name + ".part")  # so a file with the final name is always complete
    try:
        part.unlink(missing_ok=True)  # a killed command may have left one, and its mode would stay
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens on this host and port; raise `click.ClickException` if that fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise click.ClickException(f"cannot listen on {host} port {port}: {error.strerror}") from error


def rendered(template: Path, **values: Any) -> str:
    """Render an HTML template with these values, which are escaped unless the template marks them as safe."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=True,  # task files hold text that other people wrote
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template.name).render(values)


def reader_lines(task: Task, n: int) -> list[str]:
    """Return the task's promise to each kind of reader for counts of `n` reports; empty without promises."""
    if task.central is None:
        return []
    lines = [f"Against {who}: {what}." for who, what in task.readers.items()]
    if n < task.least_reports:
        lines.append(f"{n:,} reports are fewer than {task.least_reports:,}: a server does not release them.")
    return lines
