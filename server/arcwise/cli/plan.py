"""`arcwise plan`: given two of reports, error and epsilon, find the third for every mechanism."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

import click

from arcwise.analysis.csv_rows import write_csv
from arcwise.analysis.planning import plan as make_plan
from arcwise.cli.options import (
    NEW,
    CentralOptions,
    DataOptions,
    central_options,
    data_options,
    domain_options,
    lattice_options,
    plot_option,
    read_statement,
)
from arcwise.cli.own_data import read_population
from arcwise.cli.terminal import number_table, progress_bar, whole_number, wide_console, writing_files
from arcwise.digits import rounded_up

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table
    from typing_extensions import Unpack

    from arcwise.analysis.planning import Plan


class _Options(DataOptions, CentralOptions):
    """The options that `arcwise plan` shares with other commands."""


@click.command()
@domain_options
@lattice_options
@click.option("--epsilon", type=float, help="Privacy loss of one report, 0.01 to 20.")
@click.option(
    "--error", help="Error in the unit of the values, or a share of the range or period such as 1%."
)
@click.option("--reports", metavar="N", callback=whole_number, help="Devices that report, such as 1e5.")
@click.option(
    "--goal", help="Interval: mean (default), distribution. Circle: direction (default), distribution."
)
@click.option(
    "--population",
    "populations",
    multiple=True,
    metavar="LINE",
    help="Distribution of the values, as for `arcwise simulate --distribution`; the worst case unless given. "
    "Repeatable, with equal weights.",
)
@data_options
@click.option(
    "--length",
    type=float,
    help="With the goal direction: resultant length of the population; 0.5 unless given.",
)
@click.option(
    "--target",
    type=click.Choice(["population", "users"]),
    default="population",
    show_default=True,
    help="Target: the mean of the population, or of the users who report.",
)
@click.option("--level", default=0.95, show_default=True, help="Level of the interval shown with the error.")
@click.option(
    "--delta",
    type=float,
    help="Also compare mechanisms that spend this delta; with --central the delta of the promise, 1e-8 "
    "unless given.",
)
@central_options
@click.option("--compare/--no-compare", default=True, help="Compare mechanisms other than the goal's own.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--csv", "csv_file", type=NEW, help="Write a line for each mechanism to this file.")
@plot_option
def plan(  # noqa: PLR0917 (click calls it by keyword)
    epsilon: float | None,
    error: str | None,
    reports: int | None,
    goal: str | None,
    populations: tuple[str, ...],
    length: float | None,
    target: str,
    level: float,
    delta: float | None,
    compare: bool,
    as_json: bool,
    csv_file: Path | None,
    plot_file: Path | None,
    **options: Unpack[_Options],
) -> None:
    """Plan a survey: give two of --epsilon, --error and --reports, and the third is computed.

    \b
    arcwise plan --domain 0:180 --epsilon 1 --error 0.5
    arcwise plan --domain 0:180 --epsilon 1 --reports 1e5 --population "normal:40,10"
    arcwise plan --domain 0:10 --step 1 --epsilon 1 --error 0.1
    arcwise plan --circle 360 --reports 1e5 --error 2 --length 0.3
    arcwise plan --domain 0:180 --epsilon 1 --error 1% --goal distribution
    arcwise plan --data survey.csv --column age --epsilon 1 --error 1%
    arcwise plan --domain 0:180 --central 1 --reports 1e4 --releases 30 --goal distribution

    With --central and --reports, the command computes the largest local epsilon at which the counts of this
    many reports keep the central epsilon, and the error at that local epsilon.

    With --data, the values in the file are the population, and bounds are taken from them unless given.

    Errors of means and directions are computed from the integers that devices sample from. Errors of
    distributions are simulated. This takes ten seconds to a minute of one core, and longer for smaller
    errors. With --no-compare it takes a quarter of that time.
    """  # noqa: D301 (\b is click's mark for a block that it must not rewrap)
    central = read_statement(options, delta, reports)
    if central is not None:
        if epsilon is not None or error is not None:
            raise click.UsageError(
                "with --central give --reports, but not --epsilon and --error: these are computed"
            )
        epsilon = reports = delta = None
    elif sum(value is not None for value in (epsilon, error, reports)) != 2:
        raise click.UsageError("give two of --epsilon, --error and --reports: the third is computed")
    if populations and options["data"] is not None:
        raise click.UsageError("give one of --data and --population")
    domain, values = read_population(options)
    with progress_bar() as progress:
        made = make_plan(
            domain,
            epsilon=epsilon,
            error=error,
            reports=reports,
            goal=goal,
            population=(populations or None) if values is None else values,
            length=length,
            target=target,
            level=level,
            delta=delta,
            compare=compare,
            central=central,
            progress=progress,
        )
    if as_json:
        click.echo(json.dumps(made.to_dict(), indent=2))
    else:
        _print(made)
    with writing_files():
        if csv_file is not None:
            names = [each.name for each in fields(made.chosen) if each.name != "points"]
            write_csv(csv_file, names, map(asdict, made.rows))
            click.echo(f"wrote {csv_file}", err=True)
        if plot_file is not None:
            made.plot().savefig(plot_file)
            click.echo(f"wrote {plot_file}", err=True)


def _print(made: Plan) -> None:
    click.echo(made.summary())
    if len(made.rows) > 1:
        click.echo()
        wide_console(120).print(_table(made), highlight=False)
        click.echo("* the default for this goal")
    for label, reason in made.left_out.items():
        click.echo(f"Left out: {label}: {reason}.")


def _table(made: Plan) -> Table:
    half_widths = any(row.half_width is not None for row in made.rows)
    headings = ["reports", "epsilon", "error"]
    headings += [f"{made.level:.4g} interval"] if half_widths else []
    headings += [f"times the {made.compared}"]
    table = number_table("mechanism", headings)
    for row in made.rows:
        cells = [
            f"{row.label}{' *' if row.chosen else ''}{' †' if row.delta else ''}",
            f"{row.reports:,}",
            rounded_up(row.epsilon),
            f"{row.error:.4g}",
        ]
        if half_widths:
            cells.append("" if row.half_width is None else f"± {row.half_width:.4g}")
        table.add_row(
            *cells, f"{row.relative:.3f}", style="bold" if row.chosen else "yellow" if row.delta else None
        )
    if any(row.delta for row in made.rows):
        table.caption = "† also spends a delta"
        table.caption_justify = "left"
    return table
