"""What commands share on a terminal: progress bars, tables, and errors of the files that they write."""

from __future__ import annotations

import math
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

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

from arcwise.errors import ArcwiseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

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


def verify_files(files: Sequence[Path], verified: Callable[[Path], Iterable[str]]) -> None:
    """Print what `verified` says of each file, and exit with 1 where a file does not hold."""
    failed = 0
    for path in files:
        try:
            with progress_bar(str(path), counted=False):
                found = list(verified(path))
            for words in found:
                click.echo(f"ok      {path}: {words}")
        except ArcwiseError as error:  # noqa: PERF203 (one bad file must not hide the others)
            failed += 1
            click.echo(f"FAILED  {error}", err=True)  # the error names the file
    if failed:
        raise click.exceptions.Exit(1)
