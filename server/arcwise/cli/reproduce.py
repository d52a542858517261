"""`arcwise reproduce`: the tables and figures of the sources, as CSV files and pictures."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from arcwise.extras import check_extra
from arcwise.papers import find, reproductions, write_outcome

if TYPE_CHECKING:
    from arcwise.papers import Outcome, Reproduction

__all__ = ["reproduce"]


@click.command()
@click.argument("name", required=False)
@click.option("--list", "listed", is_flag=True, help="List what can be reproduced, and stop.")
@click.option(
    "--output",
    "-o",
    default="reproduced",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder for CSV files and pictures; it is made when it is not there.",
)
@click.option(
    "--format",
    "picture",
    type=click.Choice(["png", "svg"]),
    default="png",
    show_default=True,
    help="Of pictures.",
)
@click.option("--full", is_flag=True, help="The size of the publication where the default is a sample.")
def reproduce(name: str | None, listed: bool, output: Path, picture: str, full: bool) -> None:
    """Compute a table or figure of a source anew; NAME "all" computes every one.

    Writes CSV files and a picture, prints the largest deviation from the published values where there are
    any, and says where the publication errs.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)  # a file or a pipe has no width to keep to
    if listed or name is None:
        _print_list(console)
        if name is None and not listed:
            console.print("\nGive one of these names, or all.")
        return
    check_extra("plots", "matplotlib")
    chosen = list(reproductions().values()) if name == "all" else [find(name)]
    started = time.monotonic()
    try:
        output.mkdir(parents=True, exist_ok=True)
        for one in chosen:
            _run(console, one, output, picture, full)
    except OSError as error:
        raise click.ClickException(f"cannot write {error.filename}: {error.strerror}") from error
    if len(chosen) > 1:
        _say(
            console,
            f"{len(chosen)} reproductions in {time.monotonic() - started:.0f} s, in {output.resolve()}",
        )


def _run(console: Console, one: Reproduction, output: Path, picture: str, full: bool) -> None:
    started = time.monotonic()
    with Progress(
        TextColumn(one.name),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        job = bar.add_task(one.name, total=None)
        outcome = one.run(full, lambda done, total: bar.update(job, completed=done, total=total))
    paths = write_outcome(output, one.name, outcome, picture=picture)
    took = time.monotonic() - started
    console.print(f"[bold]{one.name}[/bold]  ", end="", soft_wrap=True)
    _say(console, f"{one.title} ({one.source}), {took:.1f} s")
    _print_checks(console, outcome)
    for finding in outcome.findings:
        _say(console, f"  {finding}")
    _say(console, f"  wrote {', '.join(str(path) for path in paths)}\n")


def _say(console: Console, text: str) -> None:
    """Print a line: wrapped between words on a terminal, whole where a program may read it."""
    console.print(text, highlight=False, markup=False, soft_wrap=not console.is_terminal)


def _print_checks(console: Console, outcome: Outcome) -> None:
    largest = outcome.largest
    if largest is not None:
        _say(
            console,
            f"  {len(outcome.checks)} published values; largest deviation {largest.deviation:.2g} relative: "
            f"{largest.what}, published {largest.published:g}, computed {largest.computed:.6g}",
        )
    for check in outcome.checks:
        if check.erratum:
            _say(
                console,
                f"  the publication errs: {check.what} is printed as {check.published:g}, "
                f"is {check.computed:.6g}: {check.erratum}",
            )
        elif not check.agrees:
            _say(
                console,
                f"  DEVIATES beyond rounding in print: {check.what}, published {check.published:g}, "
                f"computed {check.computed:.6g}",
            )


def _print_list(console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("name", no_wrap=True)  # it is there to be typed
    table.add_column("source")
    table.add_column("shows")
    for one in reproductions().values():
        table.add_row(one.name, one.source, one.title)
    console.print(table)
