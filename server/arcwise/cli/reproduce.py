"""`arcwise reproduce`: recompute the tables and figures of publications, as CSV files and pictures."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from arcwise.cli.options import data_options
from arcwise.cli.own_data import read_own_data
from arcwise.cli.terminal import progress_bar, wide_console, writing_files
from arcwise.extras import check_extra
from arcwise.papers import find, reproductions, write_outcome

if TYPE_CHECKING:
    from rich.console import Console

    from arcwise.cli.options import DataOptions
    from arcwise.papers import Outcome, Reproduction

_ON_DATA = "opm-distribution"
"""The reproduction that accepts other values in place of its populations."""


@click.command()
@click.argument("name", required=False)
@click.option("--list", "listed", is_flag=True, help="List what can be reproduced, and stop.")
@click.option(
    "--output",
    "-o",
    default="reproduced",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder for CSV files and pictures; created if it does not exist.",
)
@click.option(
    "--format",
    "picture",
    type=click.Choice(["png", "svg"]),
    default="png",
    show_default=True,
    help="Format of pictures.",
)
@data_options
@click.option(
    "--domain",
    "domain_text",
    metavar="LOW:HIGH",
    help="Range of the values of --data; taken from them unless given.",
)
@click.option(
    "--full",
    is_flag=True,
    help="Use the publication's number of users where the default is a sample of them.",
)
def reproduce(  # noqa: PLR0917 (click calls it by keyword)
    name: str | None,
    listed: bool,
    output: Path,
    picture: str,
    data: Path | None,
    column: str | None,
    domain_text: str | None,
    full: bool,
) -> None:
    """Recompute a table or figure of a publication; the NAME "all" recomputes every one.

    Writes CSV files and a picture, prints the largest deviation from any published values, and reports errors
    of the publication.

    \b
    arcwise reproduce opm-interval
    arcwise reproduce opm-distribution --data survey.csv --column age

    With --data, the experiment on distributions has one user for each value.
    """  # noqa: D301 (\b is click's mark for a block that it must not rewrap)
    console = wide_console(160)
    if listed or name is None:
        _print_list(console)
        if name is None and not listed:
            console.print("\nGive one of these names, or all.")
        return
    check_extra("plots", "matplotlib")
    if data is not None and name != _ON_DATA:
        raise click.UsageError(f"--data is for the reproduction {_ON_DATA}, got {name}")
    if data is None and (column is not None or domain_text is not None):
        raise click.UsageError(f"{'--domain' if column is None else '--column'} is for --data")
    if data is not None:
        chosen = [_of_data(data, column, domain_text)]
    else:
        chosen = list(reproductions().values()) if name == "all" else [find(name)]
    started = time.monotonic()
    with writing_files():
        output.mkdir(parents=True, exist_ok=True)
        for one in chosen:
            _run(console, one, output, picture, full)
    if len(chosen) > 1:
        _say(
            console,
            f"{len(chosen)} reproductions in {time.monotonic() - started:.0f} s, in {output.resolve()}",
        )


def _of_data(data: Path, column: str | None, domain_text: str | None) -> Reproduction:
    """Return the experiment on distributions with the values of a file."""
    from arcwise.papers.opm_distribution import on_values

    options: DataOptions = {
        "data": data,
        "column": column,
        "domain_text": domain_text,
        "circle": None,
        "step": None,
        "rounding": None,
    }
    domain, values = read_own_data(data, options, stepped=False)
    if domain.circular:
        raise click.UsageError(f"{_ON_DATA} is on an interval: --domain takes LOW:HIGH, two numbers")
    return on_values(domain.to_unit_many(values), f"the values of {column or data.stem}")


def _run(console: Console, one: Reproduction, output: Path, picture: str, full: bool) -> None:
    started = time.monotonic()
    with progress_bar(one.name, console=console) as progress:
        outcome = one.run(full, lambda done, total: progress(done, total, one.name))
    paths = write_outcome(output, one.name, outcome, picture=picture)
    took = time.monotonic() - started
    console.print(f"[bold]{one.name}[/bold]  ", end="", soft_wrap=True)
    _say(console, f"{one.title} ({one.source}), {took:.1f} s")
    _print_checks(console, outcome)
    for finding in outcome.findings:
        _say(console, f"  {finding}")
    _say(console, f"  wrote {', '.join(str(path) for path in paths)}\n")


def _say(console: Console, text: str) -> None:
    """Print a line: wrapped between words on a terminal, unwrapped otherwise, for programs."""
    console.print(text, highlight=False, markup=False, soft_wrap=not console.is_terminal)


def _print_checks(console: Console, outcome: Outcome) -> None:
    largest = outcome.largest
    if largest is not None:
        _say(
            console,
            f"  {_counted(outcome)}; largest deviation {largest.deviation:.2g} relative: "
            f"{largest.what}, published {largest.published:g}, computed {largest.computed:.6g}",
        )
    for check in outcome.checks:
        if check.erratum:
            _say(
                console,
                f"  the publication errs: {check.what} is printed as {check.published:g}, but is "
                f"{check.computed:.6g}: {check.erratum}",
            )
        elif not check.agrees:
            _say(
                console,
                f"  DEVIATES beyond rounding in print: {check.what}, published {check.published:g}, "
                f"computed {check.computed:.6g}",
            )


def _counted(outcome: Outcome) -> str:
    """Return the numbers of values and of formulas, limits and claims that are checked, in words."""
    formulas = sum(check.formula for check in outcome.checks)
    values = len(outcome.checks) - formulas
    parts = [
        f"{count} published {what}{'' if count == 1 else 's'}"
        for count, what in ((values, "value"), (formulas, "formula or limit"))
        if count
    ]
    return ", ".join(parts).replace("formula or limits", "formulas or limits")


def _print_list(console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("name", no_wrap=True)  # users type this name
    table.add_column("source")
    table.add_column("shows")
    for one in reproductions().values():
        table.add_row(one.name, one.source, one.title)
    console.print(table)
