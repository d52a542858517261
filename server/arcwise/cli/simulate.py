"""`arcwise simulate`: draw the counts of simulated devices, and estimate from them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import click
import numpy as np
from rich.table import Table

from arcwise.analysis import estimate
from arcwise.analysis.estimators.quantiles import LEVELS
from arcwise.analysis.simulate import MAX_DEVICES, as_population, simulate_counts
from arcwise.analysis.simulate.populations import CIRCLE, INTERVAL
from arcwise.analysis.simulate.truth import NO_DIRECTION
from arcwise.cli.options import EXISTING, NEW, data_options
from arcwise.cli.own_data import read_own_numbers
from arcwise.cli.terminal import progress_bar, reader_lines, whole_number, wide_console, writing_files
from arcwise.digits import rounded_up
from arcwise.tasks import Task

if TYPE_CHECKING:
    from pathlib import Path

    from arcwise.analysis import Estimate, Value
    from arcwise.analysis.estimators.inference_target import Target
    from arcwise.analysis.simulate import Population
    from arcwise.domains import Domain
    from arcwise.typing import FloatArray

_POPULATIONS = f"""
\b
A DISTRIBUTION is one part, or several parts with weights, in the unit of the domain:
  uniform  uniform:LOW,HIGH  atom:PLACE  comb:FIRST,STEP,COUNT (equal atoms)
  on an interval  beta:A,B (over the domain), and restricted to the domain:
                  normal:MEAN,SD  lognormal:MEDIAN,SIGMA  pareto:LEAST,SHAPE
                  by name (data sets of studies):
                  {"  ".join(INTERVAL)}
  on a circle     vonmises:MEAN,KAPPA  normal:MEAN,SD (wrapped), by name:
                  {"  ".join(CIRCLE)}
\b
  and KIND@STEP: the nearest multiples of STEP
\b
  --distribution normal:35,10
  --distribution "0.1*atom:18 + rest*normal:35,10@1"
  --distribution "0.3*atom:0 + 0.2*atom:180 + rest*uniform"
  --distribution "0.6*vonmises:0,4 + 0.4*vonmises:140,8"
"""


def _devices(context: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """Read a number of devices that may be written 1e6."""
    number = whole_number(context, option, text)
    if number is not None and not 1 <= number <= MAX_DEVICES:
        raise click.BadParameter(f"{text!r} is not a whole number from 1 to 10^12, such as 250000 or 1e6")
    return number


@click.command(epilog=_POPULATIONS)
@click.argument("task_file", type=EXISTING)
@click.option("--distribution", help="Distribution of the devices' values, see below.")
@data_options
@click.option(
    "--reports",
    metavar="N",
    callback=_devices,
    help="Number of devices, up to 1e12; with --data, the number of its rows unless given.",
)
@click.option(
    "--fixed",
    is_flag=True,
    help="Give each row of --data to the same number of devices, and vary only their randomness.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), help="Seed, to repeat the same counts; random unless given."
)
@click.option("--output", "-o", type=NEW, help="Write the counts to this file.")
@click.option("--lines", is_flag=True, help="Write one count a line in place of a JSON array.")
@click.option("--estimate", "estimated", is_flag=True, help="Print the truth next to the estimates.")
@click.option("--level", default=0.95, show_default=True, help="Level of the intervals of --estimate.")
def simulate(  # noqa: PLR0917 (click calls it by keyword)
    task_file: Path,
    distribution: str | None,
    data: Path | None,
    column: str | None,
    reports: int | None,
    fixed: bool,
    seed: int | None,
    output: Path | None,
    lines: bool,
    estimated: bool,
    level: float,
) -> None:
    """Draw the counts of the task in TASK_FILE for any number of devices, up to 10^12.

    The counts have the format that `arcwise estimate TASK_FILE --counts FILE` reads. With --estimate they go
    only to --output, and the estimates from them are printed next to the truth.
    """
    if (distribution is None) == (data is None):
        raise click.UsageError("give one of --distribution and --data")
    if data is None and (fixed or column is not None):
        raise click.UsageError(f"{'--fixed' if fixed else '--column'} is for --data")
    task = Task.load(task_file)
    if data is None and reports is None:
        raise click.UsageError("give --reports, the number of devices")
    with progress_bar("simulating", counted=False):
        source: str | FloatArray = distribution or "" if data is None else read_own_numbers(data, column)
        if reports is None:
            reports = len(source)
        population = as_population(source, task.domain)
        generator = np.random.default_rng(seed)
        counts = simulate_counts(task, source if fixed else population, reports, generator, fixed=fixed)
    numbers = counts.tolist()
    text = "\n".join(map(str, numbers)) if lines else json.dumps(numbers)
    if output is not None:
        with writing_files():
            output.write_text(text + "\n", encoding="utf-8")
        click.echo(f"wrote {output}", err=True)
    elif not estimated:
        click.echo(text)
    if estimated:
        target: Target = "users" if fixed else "population"
        with progress_bar("estimating", counted=False):
            result = estimate(task, counts, level=level, target=target)
        _print(result, population, task.domain, fixed=fixed)
        for line in reader_lines(task, result.n):
            click.echo(line)


def _print(result: Estimate, population: Population, domain: Domain, *, fixed: bool) -> None:
    console = wide_console(100)
    epsilon = rounded_up(result.epsilon)
    head = f"{result.n:,} simulated reports at epsilon {epsilon}, values in {result.domain_words}"
    console.print(head, markup=False)
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for heading in ("truth", "estimate", f"{result.level:.4g} interval", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, truth, value, period in _rows(result, population, domain):
        held = value.contains(truth, period=period)
        interval = value.interval_words()
        table.add_row(
            name,
            "none" if math.isnan(truth) else replace(value, value=truth).written()[0],
            value.written()[0],
            f"[{interval}]" if interval else "none",
            ("inside" if held else "outside") if interval else "",
            style=None if held or not interval else "yellow",
        )
    console.print(table, highlight=False)
    if fixed:
        click.echo(
            "Intervals of mean, direction and resultant length are for these devices. Those of quantiles "
            "are for the population that devices were drawn from: for fixed devices they are wider than "
            "needed."
        )


def _rows(
    result: Estimate, population: Population, domain: Domain
) -> list[tuple[str, float, Value, float | None]]:
    """Return name, truth, estimate and period of every number in the estimate."""
    if domain.circular:
        moment = population.trigonometric_moment()
        # Without a direction, the only correct interval is the whole circle.
        turn = float(np.angle(moment)) / (2 * math.pi) % 1.0 if abs(moment) > NO_DIRECTION else math.nan
        rows = [
            ("mean direction", turn * domain.period, result.direction, domain.period),
            ("resultant length", abs(moment), result.resultant_length, None),
        ]
    else:
        truths = domain.from_unit(np.append(population.mean(), population.quantiles(LEVELS))).tolist()
        rows = [("mean", truths[0], result.mean, None)]
        rows += [
            (f"{tau:.0%} quantile", truth, result.quantile(tau), None)
            for tau, truth in zip(LEVELS, truths[1:], strict=True)
        ]
    return [(name, truth, value, period) for name, truth, value, period in rows if value is not None]
