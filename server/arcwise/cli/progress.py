"""The progress bar of commands that count their steps: on a terminal, on stderr, gone when they are done."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["counted_progress"]


@contextmanager
def counted_progress() -> Iterator[Callable[[int, int, str], None]]:
    """Show a bar while the block runs; yield what to call with steps done, steps in all, and words."""
    console = Console(stderr=True)
    with Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        job = bar.add_task("", total=None)
        yield lambda done, total, words: bar.update(job, completed=done, total=total, description=words)
