"""What `arcwise group new` was given, read into a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

import click

from arcwise.analysis.planning import best_sample, best_shares
from arcwise.cli.domain import read_domain
from arcwise.cli.task.making import mechanism_for
from arcwise.tasks import Group, Task
from arcwise.tasks.group_budget import epsilon_shares

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcwise.analysis.planning.sharing import Measure
    from arcwise.domains import Domain
    from arcwise.tasks import Caps
    from arcwise.tasks.group_budget import Sample

SPLITS: Final = ("equal", "estimate", "value", "average")


class Request(NamedTuple):
    """The options, as they were typed."""

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


def made_group(name: str, request: Request, caps: Caps) -> Group:
    """Return the group; raises `click.UsageError` where the text of an option is not valid."""
    texts = _pairs("--task", request.tasks)
    steps = _numbers("--step", request.steps)
    roundings = _pairs("--rounding", request.roundings)
    _check_names("--step", steps, texts)
    _check_names("--rounding", roundings, texts)
    domains = {
        task: read_domain(
            text,
            None,
            clip=request.clip and not text.startswith("circle"),
            step=steps.get(task),
            rounding=roundings.get(task),
        )
        for task, text in texts.items()
    }
    goals = _pairs("--goal", request.goals)
    _check_names("--goal", goals, domains)
    units = _texts("--unit", request.units, domains)
    descriptions = _texts("--description", request.descriptions, domains)
    weights = _weights(request, domains)
    sample: Sample
    if request.sample == "best":
        sample = best_sample(domains, request.epsilon, goals=goals)
    else:
        sample = _sample(request.sample)
    if request.split != "equal":
        if weights is not None or sample not in (None, len(domains)):
            raise click.UsageError(f"--split {request.split} goes with --sample all and without --weight")
        if (
            request.split != "estimate"
        ):  # a task that reports for averages has no single reports that are near
            values = {name: "value" for name, domain in domains.items() if not domain.circular}
            goals = values | goals
        weights = best_shares(domains, request.epsilon, goals=goals, measure=cast("Measure", request.split))
    k, shares = epsilon_shares(domains, request.epsilon, sample=sample, weights=weights)
    tasks = [
        Task(
            task,
            domain,
            shares[task],
            goal=goals.get(task),
            mechanism=mechanism_for(domain, shares[task], goal=goals.get(task), name=None, delta=None),
            epoch_seconds=request.epoch_seconds,
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


def _weights(request: Request, domains: dict[str, Domain]) -> dict[str, float] | None:
    if not request.weights:
        return None
    weights = _numbers("--weight", request.weights)
    _check_names("--weight", weights, domains)
    return weights


def _numbers(option: str, texts: tuple[str, ...]) -> dict[str, float]:
    try:
        return {name: float(text) for name, text in _pairs(option, texts).items()}
    except ValueError as error:
        raise click.UsageError(f"{option} takes NAME=NUMBER: {error}") from None


def _pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """Return NAME=TEXT pairs; the name is what stands before the last equals sign."""
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
    """Return NAME=TEXT pairs, in which a text may hold equals signs: the name is the longest that fits."""
    pairs: dict[str, str] = {}
    for text in texts:
        name = max((task for task in tasks if text.startswith(f"{task}=")), key=len, default=None)
        if name is None:
            raise click.UsageError(
                f"{option} takes NAME=TEXT, NAME that of a --task, one of {', '.join(tasks)}; got {text!r}"
            )
        if name in pairs:
            raise click.UsageError(f"{option} must name a task once, got {name!r} twice")
        pairs[name] = text[len(name) + 1 :]
    return pairs


def _check_names(option: str, pairs: Iterable[str], domains: Iterable[str]) -> None:
    for name in pairs:
        if name not in domains:
            raise click.UsageError(f"{option} must name a --task, one of {', '.join(domains)}; got {name!r}")
