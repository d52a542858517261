"""The options of a central statement, alike for `arcwise plan` and `arcwise task new`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

import click

from arcwise.tasks import CentralStatement

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.tasks import Task

_DELTA = 1e-8


class CentralOptions(TypedDict):
    """What the options give to a command."""

    central: float | None
    honest: float | None
    reports_each: int | None
    releases: int | None


def central_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of `CentralOptions`."""
    options = [
        click.option(
            "--central",
            type=float,
            help="Central epsilon that is promised to those who see released counts alone; needs --reports.",
        ),
        click.option(
            "--releases",
            type=int,
            help="With --central: epochs that one device reports in, at most; 1 unless given.",
        ),
        click.option(
            "--reports-each",
            type=int,
            help="With --central: reports of one device in an epoch, at most; 1 unless given.",
        ),
        click.option(
            "--honest",
            type=float,
            help="With --central: share of the reports that a reader neither sent nor knows; 1 unless given.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def read_statement(
    options: CentralOptions, delta: float | None, reports: int | None
) -> CentralStatement | None:
    """Return the central statement that the options name, or None without --central."""
    epsilon = options["central"]
    asked = {name: options.get(name) for name in ("honest", "reports_each", "releases")}
    beside: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if epsilon is None:
        for name in beside:
            raise click.UsageError(f"--{name.replace('_', '-')} is for --central")
        return None
    if reports is None:
        raise click.UsageError("--central needs --reports: how many an epoch must hold before it is released")
    return CentralStatement(epsilon, _DELTA if delta is None else delta, reports, **beside)


def reader_lines(task: Task, n: int) -> list[str]:
    """Return what holds against whom for counts of `n` reports; nothing where a task promises nothing."""
    if task.central is None:
        return []
    lines = [f"Against {who}: {what}." for who, what in task.readers.items()]
    if n < task.least_reports:
        lines.append(f"{n:,} reports are fewer than {task.least_reports:,}: a server does not release them.")
    return lines
