"""`arcwise group`: make, show and verify groups of tasks that share a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from arcwise.analysis.planning import best_sample, best_shares
from arcwise.cli.certificates import verified, verify_files
from arcwise.cli.describing import describe_group
from arcwise.cli.main import CommandGroup
from arcwise.cli.mechanisms import mechanism_for
from arcwise.cli.options import (
    EXISTING,
    CapOptions,
    caps_options,
    epoch_option,
    read_caps,
    read_domain,
    save_options,
)
from arcwise.cli.terminal import new_path, progress_bar, write_new
from arcwise.tasks import Group, Task
from arcwise.tasks.group_budget import epsilon_shares

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from typing_extensions import Unpack

    from arcwise.analysis.planning.sharing import Measure
    from arcwise.tasks import Caps
    from arcwise.tasks.group_budget import Sample


class _Options(CapOptions):
    """The values of the options of `arcwise group new`, as typed."""

    tasks: tuple[str, ...]
    clip: bool
    steps: tuple[str, ...]
    roundings: tuple[str, ...]
    epsilon: float
    sample: str
    goals: tuple[str, ...]
    weights: tuple[str, ...]
    split: str
    epoch_seconds: int
    units: tuple[str, ...]
    descriptions: tuple[str, ...]


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
    help="A task and the domain of its values: speed=0:180, heading=circle:360. Give one for each task.",
)
@click.option("--clip", is_flag=True, help="Move values outside an interval to its nearer end.")
@click.option(
    "--step", "steps", multiple=True, metavar="NAME=STEP", help="A task's step, as in arcwise task new."
)
@click.option(
    "--rounding",
    "roundings",
    multiple=True,
    metavar="NAME=WORD",
    help="A task's rounding, as in arcwise task new.",
)
@click.option("--epsilon", type=float, required=True, help="Privacy loss of a round of the group.")
@click.option(
    "--sample",
    default="auto",
    show_default=True,
    metavar="K",
    help="Tasks that a device reports in a round: a number, all, auto (the rule of Wang et al. 2019), or "
    "best (computed, for the smallest error of the estimates).",
)
@click.option(
    "--goal", "goals", multiple=True, metavar="NAME=GOAL", help="A task's goal, as in arcwise task new."
)
@click.option(
    "--weight",
    "weights",
    multiple=True,
    metavar="NAME=NUMBER",
    help="With --sample all: weight of a task. Each task's share of epsilon is proportional to its weight.",
)
@click.option(
    "--split",
    type=click.Choice(("equal", "estimate", "value", "average")),
    default="equal",
    show_default=True,
    help="With --sample all: give the tasks equal shares of epsilon, or the shares that minimise a sum of "
    "errors: of the estimates, of the worst single values (with goal value), or of single values on "
    "average (with goal value).",
)
@epoch_option
@click.option(
    "--unit", "units", multiple=True, metavar="NAME=TEXT", help="A task's unit, as in arcwise task new."
)
@click.option(
    "--description",
    "descriptions",
    multiple=True,
    metavar="NAME=TEXT",
    help="A task's description, as in arcwise task new.",
)
@caps_options
@save_options
def new(name: str, output: Path | None, force: bool, **options: Unpack[_Options]) -> None:
    """Make the group NAME with its tasks and write its file.

    \b
    arcwise group new vehicle --task heading=circle:360 --task speed=0:180 --epsilon 2
    arcwise group new walk --task direction=circle:360 --task distance=0:50 --epsilon 2 \\
        --sample all --split value
    """  # noqa: D301 (\b is click's mark for a block that it must not rewrap)
    bounds = read_caps(options)
    path = new_path(name, output, force)  # fail before the solver runs
    with progress_bar("making the group", counted=False):
        made = _made(name, options, bounds)
        words = describe_group(made)
    write_new(made, path)
    click.echo(words)


@group.command()
@click.argument("files", nargs=-1, required=True, type=EXISTING)
def show(files: tuple[Path, ...]) -> None:
    """Show what each FILE asks of devices, in words and numbers."""
    with progress_bar("checking", counted=False):
        words = [describe_group(Group.load(path)) for path in files]
    click.echo("\n\n".join(words))


@group.command()
@click.argument("files", nargs=-1, required=True, type=EXISTING)
def verify(files: tuple[Path, ...]) -> None:
    """Check the certificate of each task in each FILE in exact arithmetic: all rows, or a window's integers.

    Exits with 1 if a certificate does not hold.
    """
    verify_files(files, lambda path: (f"{task.name}: {verified(task)}" for task in Group.load(path).tasks))


def _made(name: str, options: _Options, caps: Caps) -> Group:
    """Return the group; raises `click.UsageError` if the text of an option is not valid."""
    texts = _pairs("--task", options["tasks"])
    steps = _numbers("--step", options["steps"])
    roundings = _pairs("--rounding", options["roundings"])
    _check_names("--step", steps, texts)
    _check_names("--rounding", roundings, texts)
    domains = {
        task: read_domain(
            {
                "domain_text": text,
                "circle": None,
                "step": steps.get(task),
                "rounding": roundings.get(task),
            },
            clip=options["clip"] and not text.startswith("circle"),
        )
        for task, text in texts.items()
    }
    goals = _pairs("--goal", options["goals"])
    _check_names("--goal", goals, domains)
    units = _texts("--unit", options["units"], domains)
    descriptions = _texts("--description", options["descriptions"], domains)
    weights = _numbers("--weight", options["weights"]) or None
    _check_names("--weight", weights or (), domains)
    if options["sample"] == "best":
        sample: Sample = best_sample(domains, options["epsilon"], goals=goals)
    else:
        sample = _sample(options["sample"])
    if options["split"] != "equal":
        if weights is not None or sample not in (None, len(domains)):
            raise click.UsageError(f"--split {options['split']} goes with --sample all and without --weight")
        if options["split"] != "estimate":  # the goal "value" keeps reports near single values
            values = {name: "value" for name, domain in domains.items() if not domain.circular}
            goals = values | goals
        weights = best_shares(
            domains, options["epsilon"], goals=goals, measure=cast("Measure", options["split"])
        )
    k, shares = epsilon_shares(domains, options["epsilon"], sample=sample, weights=weights)
    tasks = [
        Task(
            task,
            domain,
            shares[task],
            goal=goals.get(task),
            mechanism=mechanism_for(domain, shares[task], goal=goals.get(task), name=None, delta=None),
            epoch_seconds=options["epoch_seconds"],
            description=descriptions.get(task),
            unit=units.get(task),
        )
        for task, domain in domains.items()
    ]
    return Group(name, tasks, sample=k, caps=caps)


def _sample(text: str) -> Sample:
    if text == "auto":
        return "auto"
    if text == "all":
        return None
    if not text.isascii() or not text.isdecimal():
        raise click.UsageError(f"--sample takes a number of tasks, all, auto or best; got {text!r}")
    return int(text)


def _numbers(option: str, texts: tuple[str, ...]) -> dict[str, float]:
    try:
        return {name: float(text) for name, text in _pairs(option, texts).items()}
    except ValueError as error:
        raise click.UsageError(f"{option} takes NAME=NUMBER: {error}") from None


def _pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """Return NAME=TEXT pairs; the name is the text before the last equals sign."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.rpartition("=")
        if not separator or not name or not value:
            raise click.UsageError(f"{option} takes NAME=..., got {text!r}")
        if name in pairs:
            raise click.UsageError(f"{option} must name a task once, got {name!r} twice")
        pairs[name] = value
    return pairs


def _texts(option: str, texts: tuple[str, ...], tasks: Iterable[str]) -> dict[str, str]:
    """Return NAME=TEXT pairs; both may contain equals signs, so the name is the longest one of a task."""
    pairs: dict[str, str] = {}
    for text in texts:
        name = max((task for task in tasks if text.startswith(f"{task}=")), key=len, default=None)
        if name is None:
            raise click.UsageError(
                f"{option} takes NAME=TEXT with the NAME of a --task, one of {', '.join(tasks)}; got {text!r}"
            )
        if name in pairs:
            raise click.UsageError(f"{option} must name a task once, got {name!r} twice")
        pairs[name] = text[len(name) + 1 :]
    return pairs


def _check_names(option: str, pairs: Iterable[str], domains: Iterable[str]) -> None:
    for name in pairs:
        if name not in domains:
            raise click.UsageError(f"{option} must name a --task, one of {', '.join(domains)}; got {name!r}")
