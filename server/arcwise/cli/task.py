"""`arcwise task`: make, show and verify task files, and report on their privacy."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Literal

import click
from click.core import ParameterSource

from arcwise.analysis.central_privacy.promise import check_promise, largest_local
from arcwise.analysis.planning.mechanisms import domain_words
from arcwise.cli.certificates import verified, verify_files
from arcwise.cli.describing import describe, short_epoch
from arcwise.cli.main import CommandGroup
from arcwise.cli.mechanisms import NAMES, mechanism_for
from arcwise.cli.numbers import read_numbers
from arcwise.cli.options import (
    EXISTING,
    NEW,
    NUMBERS,
    CapOptions,
    CentralOptions,
    DomainOptions,
    caps_options,
    central_options,
    domain_options,
    epoch_option,
    lattice_options,
    read_caps,
    read_domain,
    read_statement,
    save_options,
)
from arcwise.cli.own_data import proposed
from arcwise.cli.terminal import new_path, progress_bar, whole_number, write_new, writing_files
from arcwise.tasks import Caps, Group, Task
from arcwise.tasks.central import CLOSED_EPOCHS
from arcwise.tasks.group import load_task_or_group

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Unpack

    from arcwise.domains import Domain
    from arcwise.kernels import Kernel
    from arcwise.mechanisms import Mechanism


class _Options(DomainOptions, CapOptions, CentralOptions):
    """The options that `arcwise task new` shares with other commands."""


_REPLACED = frozenset(
    ("domain_text", "circle", "clip", "step", "rounding", "sample", "column", "dry_run", "force")
)
"""Options that the proposed command does not need."""


@click.group(cls=CommandGroup)
def task() -> None:
    """Make, show and verify task files, and report on their privacy."""


@task.command()
@click.argument("name")
@domain_options
@click.option("--clip", is_flag=True, help="Move values outside the interval to its nearer end.")
@lattice_options
@click.option(
    "--epsilon",
    type=float,
    help="Privacy loss of one report, 0.01 to 20; with --central the largest that keeps the promise, unless "
    "given.",
)
@click.option(
    "--goal", help="Interval: distribution (default), mean, value. Circle: direction (default), distribution."
)
@click.option(
    "--mechanism",
    type=click.Choice(NAMES),
    metavar="NAME",
    help="Mechanism instead of the goal's: any that `arcwise compare` lists, with its defaults.",
)
@click.option(
    "--delta",
    type=float,
    help="Delta of one report, for mechanisms that spend one; with --central the delta of the promise, 1e-8 "
    "unless given.",
)
@central_options
@click.option(
    "--reports",
    metavar="N",
    callback=whole_number,
    help="With --central: reports that an epoch must hold before it is released, such as 1e4.",
)
@click.option(
    "--release",
    type=click.Choice([CLOSED_EPOCHS]),
    help="Show an epoch only after it has stopped accepting reports; always so with --central.",
)
@click.option(
    "--lateness-seconds",
    type=int,
    help="How long batches are accepted after the end of their epoch, in seconds; the server's setting "
    "unless given.",
)
@click.option(
    "--nodes",
    type=int,
    help="Number of nodes of the grid, in place of the mechanism's or the goal's own.",
)
@click.option(
    "--power",
    type=float,
    help="Exponent of the loss that single reports minimise, for the goals value and direction; "
    "1 unless given.",
)
@click.option(
    "--population",
    "populations",
    multiple=True,
    metavar="LINE",
    help="With --goal mean: design for the variance in this population, in place of the worst case. Written "
    "as for `arcwise simulate --distribution`. Repeatable, with equal weights.",
)
@click.option(
    "--from-data",
    "sample",
    type=NUMBERS,
    metavar="FILE",
    help="Propose domain, step and clipping from a sample: numbers, one a line, a column of CSV, JSON or "
    "Parquet; - reads stdin. Other options that are given take precedence.",
)
@click.option("--column", help="Name of the column or the key, when --from-data has several.")
@click.option("--dry-run", is_flag=True, help="Show the task without writing it.")
@click.option(
    "--expected-reports",
    type=int,
    help="Expected number of reports: from a million on, distributions get a finer grid.",
)
@epoch_option
@click.option("--unit", metavar="TEXT", help="Unit of the values, for people: min, km/h.")
@click.option(
    "--description", metavar="TEXT", help="Description of the question, for people, in up to 200 characters."
)
@caps_options
@save_options
def new(  # noqa: PLR0917 (click calls it by keyword)
    name: str,
    clip: bool,
    epsilon: float | None,
    goal: str | None,
    mechanism: str | None,
    delta: float | None,
    reports: int | None,
    release: Literal["closed-epochs"] | None,
    lateness_seconds: int | None,
    nodes: int | None,
    power: float | None,
    populations: tuple[str, ...],
    sample: Path | None,
    column: str | None,
    dry_run: bool,
    expected_reports: int | None,
    epoch_seconds: int,
    unit: str | None,
    description: str | None,
    output: Path | None,
    force: bool,
    **options: Unpack[_Options],
) -> None:
    """Make the task NAME and write its file.

    \b
    arcwise task new delay --domain -60:180 --clip --epsilon 1
    arcwise task new heading --circle 360 --epsilon 0.5 --lifetime-cap 5
    arcwise task new score --domain 0:100 --step 1 --epsilon 1
    arcwise task new wait --domain 0:60 --unit min --description "Time until the bus came" --epsilon 1
    arcwise task new dose --domain 0:100 --epsilon 1 --goal mean
    arcwise task new age --domain 0:120 --epsilon 2 --goal mean --population "normal:40,12"
    arcwise task new load --domain 0:1 --epsilon 1 --mechanism gaussian --delta 1e-6
    arcwise task new level --domain 0:1 --epsilon 12 --goal value --power 2 --nodes 800
    arcwise task new age --from-data survey.csv --column age --epsilon 1 --dry-run
    arcwise task new pulse --domain 40:200 --central 1 --reports 1e4 --releases 30

    With --central the task promises a bound on what its released counts reveal. Unless caps are given, it
    gets the caps that keep the promise.

    For the goal mean, a linear program designs the mechanism; this takes seconds and happens once. The same
    holds for the goal value with a step, if the design is better for single values than the usual mechanism.
    """  # noqa: D301 (\b is click's mark for a block that it must not rewrap)
    bounds = read_caps(options)
    central = read_statement(options, delta, reports)
    if central is not None:
        if mechanism is not None:
            raise click.UsageError("--central takes no --mechanism: it always uses the goal's own mechanism")
        delta, expected_reports = None, expected_reports or reports
    elif reports is not None:
        raise click.UsageError("--reports is for --central")
    if sample is not None:
        domain = _proposed(name, sample, column, clip, options)
    elif column is not None:
        raise click.UsageError("--column is for --from-data")
    else:
        domain = read_domain(options, clip=clip)
    path = None if dry_run else new_path(name, output, force)  # fail before the solver runs

    def made_of(epsilon: float) -> Mechanism | None:
        return mechanism_for(
            domain,
            epsilon,
            goal=goal,
            name=mechanism,
            delta=delta,
            populations=populations,
            nodes=nodes,
            power=power,
        )

    if epsilon is None:
        if central is None:
            raise click.UsageError("give --epsilon, the privacy loss of one report")
        if goal == "mean" or (goal == "value" and domain.step is not None):
            raise click.UsageError(
                "--central needs --epsilon for a goal that a solver designs for: "
                "arcwise plan --central EPSILON --reports N finds the largest"
            )

        def kernel(trial: float) -> Kernel:
            tried = Task(
                name, domain, trial, goal=goal, mechanism=made_of(trial), expected_reports=expected_reports
            )
            return tried.mechanism.kernel

        with progress_bar("looking for the local epsilon", counted=False):
            epsilon = largest_local(central, kernel, slack=0.0 if central.releases == 1 else 0.01)
    if central is not None and bounds == Caps(window=bounds.window):
        source = click.get_current_context().get_parameter_source("rolling_window")
        window = epoch_seconds if source is ParameterSource.DEFAULT else bounds.window
        bounds = central.caps(epsilon, window)
    chosen = made_of(epsilon)
    with progress_bar("making the task", counted=False):
        made = Task(
            name,
            domain,
            epsilon,
            goal=goal,
            mechanism=chosen,
            expected_reports=expected_reports,
            epoch_seconds=epoch_seconds,
            caps=bounds,
            description=description,
            unit=unit,
            central=central,
            release=release,
            lateness_seconds=lateness_seconds,
        )
        check_promise(made)
        words = describe(made, power)
    if path is not None:
        write_new(made, path)
    click.echo(words)


@task.command()
@click.argument("files", nargs=-1, required=True, type=EXISTING)
def show(files: tuple[Path, ...]) -> None:
    """Show what each FILE asks of devices, in words and numbers."""
    with progress_bar("checking", counted=False):
        words = [describe(Task.load(path)) for path in files]
    click.echo("\n\n".join(words))


@task.command()
@click.argument("files", nargs=-1, required=True, type=EXISTING)
def verify(files: tuple[Path, ...]) -> None:
    """Check the certificate of each FILE in exact arithmetic: all rows, or a window's integers.

    Exits with 1 if a certificate does not hold.
    """
    verify_files(files, lambda path: [verified(Task.load(path))])


@task.command()
@click.argument("files", nargs=-1, required=True, type=EXISTING)
@click.option(
    "--output",
    "-o",
    type=NEW,
    help="File to write, for one FILE; NAME-privacy.html unless given.",
)
@click.option("--force", is_flag=True, help="Overwrite the page when it exists.")
def report(files: tuple[Path, ...], output: Path | None, force: bool) -> None:
    """Write a page about the privacy of the task or group in each FILE, to read and to sign.

    The page is HTML without scripts; a browser prints it as a PDF of one or two pages. It says what is asked,
    what an answer reveals at worst, what the caps add up to, what is not protected, and how to check all
    this.
    """
    if output is not None and len(files) > 1:
        raise click.UsageError("--output is for one FILE; leave it out for several")
    from arcwise.cli.privacy import privacy_page

    made = [(path, load_task_or_group(path)) for path in files]
    targets = [new_path(asked.name, output, force, ending="-privacy.html") for _, asked in made]
    if len(set(targets)) < len(targets):
        raise click.UsageError("two FILEs have the same name: write their pages one by one, with --output")
    for (path, asked), target in zip(made, targets, strict=True):
        with progress_bar(str(path), counted=False):
            text = privacy_page(asked, path.name)
        with writing_files():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        if warning := short_epoch(*(asked.tasks if isinstance(asked, Group) else [asked])):
            click.echo(f"warning: {path}: {warning}", err=True)
        click.echo(f"wrote {target}; open it in a browser to read or print it")


def _proposed(name: str, sample: Path, column: str | None, clip: bool, options: DomainOptions) -> Domain:
    """Return the domain that a sample proposes; print the command with this domain, and notes on it."""
    given = None
    if options["domain_text"] is not None or options["circle"] is not None:
        given = read_domain({**options, "step": None, "rounding": None}, clip=clip)
    values = read_numbers(sample, column, option="--from-data")
    if values.min() == values.max():
        raise click.ClickException(
            f"--from-data must hold different numbers, got {float(values[0]):.12g} only: give --domain "
            "instead"
        )
    domain, notes = proposed(values, given, step=options["step"], rounding=options["rounding"])
    click.echo(_command_line(name, domain))
    click.echo("".join(f"note: {note}\n" for note in notes), err=True, nl=False)
    return domain


def _command_line(name: str, domain: Domain) -> str:
    """Return the running command with this domain in place of the sample and of the options for a domain."""
    context = click.get_current_context()
    words = ["arcwise task new", shlex.quote(name), domain_words(domain)]
    if not domain.circular and domain.clip:
        words.append("--clip")
    for option in context.command.params:
        key = option.name or ""
        given = context.get_parameter_source(key) is ParameterSource.COMMANDLINE
        if isinstance(option, click.Option) and given and key not in _REPLACED:
            values: Any = context.params[key]
            for value in values if option.multiple else [values]:
                words += [
                    option.opts[0],
                    shlex.quote(f"{value:.12g}" if isinstance(value, float) else str(value)),
                ]
    return " ".join(words)
