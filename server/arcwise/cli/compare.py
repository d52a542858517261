"""`arcwise compare`: every mechanism that serves a domain, side by side."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from arcwise.analysis.csv_rows import write_csv
from arcwise.analysis.mechanism_table import DEFAULT_DELTA, SORTS
from arcwise.analysis.mechanism_table import compare as compare_mechanisms
from arcwise.analysis.plotting.mechanisms import write_plot
from arcwise.cli.options import NEW, data_options, domain_options, lattice_options, plot_option
from arcwise.cli.own_data import read_population
from arcwise.cli.terminal import number_table, progress_bar, wide_console, writing_files
from arcwise.digits import counted, rounded_up

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from typing_extensions import Unpack

    from arcwise.analysis.mechanism_table.measures import MechanismRow
    from arcwise.cli.options import DataOptions
    from arcwise.domains import Domain

_SORT_OF_DATA = "mean-squared"


@click.command()
@click.option("--epsilon", type=float, required=True, help="Privacy loss of one report, 0.01 to 20.")
@domain_options
@lattice_options
@data_options
@click.option(
    "--delta",
    type=float,
    default=DEFAULT_DELTA,
    show_default=True,
    help="The delta that approximate mechanisms aim for; the table shows the exact delta of each.",
)
@click.option(
    "--nodes",
    type=int,
    help="Number of nodes, for mechanisms that let you choose; the mechanism's default unless given.",
)
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    help=f"Column to sort by, ascending; {SORTS[0]} unless given, and {_SORT_OF_DATA} with --data.",
)
@click.option(
    "--designs/--no-designs", default=True, help="Include designs by linear programming, which take seconds."
)
@click.option("--csv", "csv_file", type=NEW, help="Write every column to this file.")
@plot_option
def compare(  # noqa: PLR0917 (click calls it by keyword)
    epsilon: float,
    delta: float,
    nodes: int | None,
    sort: str | None,
    designs: bool,
    csv_file: Path | None,
    plot_file: Path | None,
    **options: Unpack[DataOptions],
) -> None:
    """Compare every mechanism that serves a domain, at one epsilon.

    \b
    arcwise compare --epsilon 1 --domain 0:1
    arcwise compare --epsilon 1 --domain 0:10 --step 1
    arcwise compare --epsilon 2 --circle 360 --sort mean-absolute --csv circle.csv --plot circle.png
    arcwise compare --epsilon 1 --data survey.csv --column age

    With --data, averages are over the values in the file, and bounds are taken from them unless given.
    """  # noqa: D301 (\b is click's mark for a block that it must not rewrap)
    domain, values = read_population(options)
    sort = sort or (SORTS[0] if values is None else _SORT_OF_DATA)
    average = "uniform inputs" if values is None else f"{counted(values.size, 'value')} of yours"
    with progress_bar() as progress:
        table = compare_mechanisms(
            domain,
            epsilon,
            delta=delta,
            nodes=nodes,
            designs=designs,
            sort=sort,
            population=values,
            progress=progress,
        )
    rows = table.rows
    if not rows:
        raise click.ClickException("; ".join(table.left_out.values()))
    _print(rows, domain, epsilon, sort, average)
    for label, reason in table.left_out.items():
        click.echo(f"Left out: {label}: {reason}.")
    with writing_files():
        if csv_file is not None:
            records = [{**asdict(row), "delta_probability": row.delta_probability} for row in rows]
            write_csv(csv_file, list(records[0]), records)
            click.echo(f"wrote {csv_file}")
        if plot_file is not None:
            write_plot(plot_file, rows, domain, epsilon, average=average)
            click.echo(f"wrote {plot_file}")


def _print(rows: Sequence[MechanismRow], domain: Domain, epsilon: float, sort: str, average: str) -> None:
    circular = domain.circular
    distance = "d" if circular else "|y-x|"
    headings = [f"worst\n{distance}", f"mean\n{distance}", f"worst\n{distance}^2", f"mean\n{distance}^2"]
    headings += ["\nrho_1"] if circular else ["worst |y-x|\ntruncated", "\nbias"]
    headings += ["\ncodes", "bytes a\nreport", "bytes a\ntask"]
    title = f"One report at epsilon = {rounded_up(epsilon)}, values in {domain}"
    table = number_table("\nmechanism", headings, title)
    table.add_column("\ncertificate", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row, circular), style="yellow" if row.delta else None)
    wide_console(160).print(table, highlight=False)
    click.echo(
        f"\nSorted by {sort}. Worst: over every node, the quarters between nodes and 1,025 equal steps. "
        f"Mean:\nover {average}. All are sums over the integer rows; none is simulated."
    )
    if circular:
        click.echo("d: circular distance. rho_1: factor by which the mean vector of the reports shrinks.")
    else:
        click.echo(
            "Optimal-piecewise: inset, the default, is the Piecewise Mechanism; clamp is the published "
            "optimum."
        )
        click.echo("Bias: largest |E y - x|. Truncated: y moved into the domain, as a single answer.")
    if any(row.delta for row in rows):
        click.echo("† also spends a delta: (epsilon, delta)-LDP. The delta is exact, rounded up to 2^-64.")


def _cells(row: MechanismRow, circular: bool) -> list[str]:
    numbers = [row.worst_absolute, row.mean_absolute, row.worst_squared, row.mean_squared]
    numbers += [row.attenuation] if circular else [row.worst_truncated]
    cells = [row.label, *(f"{number:.4g}" for number in numbers)]
    if not circular:
        cells.append("unbiased" if row.unbiased else f"{row.bias:.3g}")
    certificate = f"epsilon {rounded_up(row.epsilon)}"
    if row.delta:
        certificate += f", delta {rounded_up(row.delta_probability, 3)} †"
    return [*cells, str(row.codes), str(row.report_bytes), f"{row.task_bytes:,}", certificate]
