"""The commands of `arcwise group`, as a user types them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from arcwise.cli.caps import caps_options, read_caps
from arcwise.cli.commands import CommandGroup
from arcwise.cli.group.making import SPLITS, Request, made_group
from arcwise.cli.group.words import describe
from arcwise.cli.new_file import new_path, write_new
from arcwise.cli.task.checks import verified
from arcwise.cli.terminal import progress_bar, verify_files
from arcwise.tasks import DAY, Group

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from arcwise.cli.caps import CapOptions

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(cls=CommandGroup)
def group() -> None:
    """Make, show and verify groups of tasks that share a budget."""


@group.command()
@click.argument("name")
@click.option(
    "--task",
    "tasks",
    multiple=True,
    required=True,
    metavar="NAME=DOMAIN",
    help="A task and where its values lie: speed=0:180, heading=circle:360. Given for each task.",
)
@click.option("--clip", is_flag=True, help="Move values outside an interval to its nearer end.")
@click.option(
    "--step", "steps", multiple=True, metavar="NAME=STEP", help="A task's step, as of arcwise task new."
)
@click.option(
    "--rounding", "roundings", multiple=True, metavar="NAME=WORD", help="A task's rounding, likewise."
)
@click.option("--epsilon", type=float, required=True, help="Privacy loss of a round of the group.")
@click.option(
    "--sample",
    default="auto",
    show_default=True,
    metavar="K",
    help="Tasks that a device reports in a round: a number, all, auto (the rule of Wang et al. 2019), or "
    "best (the least error of estimates, computed).",
)
@click.option(
    "--goal", "goals", multiple=True, metavar="NAME=GOAL", help="A task's goal, as of arcwise task new."
)
@click.option(
    "--weight",
    "weights",
    multiple=True,
    metavar="NAME=NUMBER",
    help="Of every task, with --sample all: shares of epsilon are proportional to these.",
)
@click.option(
    "--split",
    type=click.Choice(SPLITS),
    default="equal",
    show_default=True,
    help="With --sample all: shares of epsilon that are equal, or that make the summed error least: of "
    "estimates, of the worst single value, or of values on average (the latter two with goal value).",
)
@click.option(
    "--epoch-seconds", type=int, default=DAY, show_default=True, help="Length of an epoch in seconds."
)
@click.option(
    "--unit", "units", multiple=True, metavar="NAME=TEXT", help="A task's unit, as of arcwise task new."
)
@click.option(
    "--description", "descriptions", multiple=True, metavar="NAME=TEXT", help="What a task asks, likewise."
)
@caps_options
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="File to write; NAME.json unless given."
)
@click.option("--force", is_flag=True, help="Overwrite the file when it exists.")
def new(  # noqa: PLR0917 (click calls it by keyword)
    name: str,
    tasks: tuple[str, ...],
    clip: bool,
    steps: tuple[str, ...],
    roundings: tuple[str, ...],
    epsilon: float,
    sample: str,
    goals: tuple[str, ...],
    weights: tuple[str, ...],
    split: str,
    epoch_seconds: int,
    units: tuple[str, ...],
    descriptions: tuple[str, ...],
    output: Path | None,
    force: bool,
    **caps: Unpack[CapOptions],
) -> None:
    """Make the group NAME with its tasks and write its file.

    \b
    arcwise group new vehicle --task heading=circle:360 --task speed=0:180 --epsilon 2
    arcwise group new walk --task direction=circle:360 --task distance=0:50 --epsilon 2 \\
        --sample all --split value
    """  # noqa: D301 (\b is click's mark for a block that it must not rewrap)
    bounds = read_caps(caps)
    path = new_path(name, output, force)  # before a solver takes its time
    request = Request(
        tasks,
        clip,
        steps,
        roundings,
        epsilon,
        sample,
        goals,
        weights,
        split,
        epoch_seconds,
        units,
        descriptions,
    )
    with progress_bar("making the group", counted=False):
        made = made_group(name, request, bounds)
        words = describe(made)
    write_new(made, path)
    click.echo(words)


@group.command()
@click.argument("files", nargs=-1, required=True, type=_FILE)
def show(files: tuple[Path, ...]) -> None:
    """Show what each FILE asks of devices, in words and numbers."""
    with progress_bar("checking", counted=False):
        words = [describe(Group.load(path)) for path in files]
    click.echo("\n\n".join(words))


@group.command()
@click.argument("files", nargs=-1, required=True, type=_FILE)
def verify(files: tuple[Path, ...]) -> None:
    """Check the certificate of each task in each FILE in exact arithmetic: all rows, or a window's integers.

    Exits with 1 when one does not hold.
    """
    verify_files(files, lambda path: (f"{task.name}: {verified(task)}" for task in Group.load(path).tasks))
