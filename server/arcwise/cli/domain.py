"""The options that name a domain, alike for every command: `--domain` and `--circle`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import ArcwiseError

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDINGS = ("refuse", "nearest", "stochastic")


def domain_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options `--domain` (or `--interval`) as `domain_text`, and `--circle`."""
    circle = click.option(
        "--circle", type=float, metavar="PERIOD", help="Values lie on a circle: 360, 24, 6.283185307."
    )
    interval = click.option(
        "--domain",
        "--interval",
        "domain_text",
        metavar="LOW:HIGH",
        help="Range of the values: -60:180, 0:1, or circle:360 for a circle.",
    )
    return interval(circle(command))


def lattice_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options `--step` and `--rounding` of the one domain that it takes."""
    step = click.option(
        "--step",
        type=float,
        help="Values are low, low + STEP, ..., high (on a circle 0, STEP, ...): each is a value of its own.",
    )
    rounding = click.option(
        "--rounding",
        type=click.Choice(_ROUNDINGS),
        help="Handling of a number between two steps: refuse (default), nearest, or stochastic (unbiased).",
    )
    return step(rounding(command))


def read_domain(
    text: str | None,
    circle: float | None,
    *,
    clip: bool = False,
    step: float | None = None,
    rounding: str | None = None,
) -> Domain:
    """Return the domain that the options name; raises `click.UsageError` where they name none."""
    if (text is None) == (circle is None):
        raise click.UsageError("give one of --domain LOW:HIGH, --domain circle:PERIOD and --circle PERIOD")
    first, separator, second = f"circle:{circle}".partition(":") if text is None else text.partition(":")
    circular = first == "circle"
    if step is None and rounding is not None:
        raise click.UsageError("--rounding is for a domain with a --step")
    lattice: dict[str, Any] = {"step": step, "rounding": rounding or "refuse"}
    if circular and clip:
        raise click.UsageError("--clip is for an interval; a circle takes every value modulo its period")
    try:
        if circular:
            return Circle(float(second), **lattice)
        return Interval(float(first), float(second), clip=clip, **lattice)
    except ValueError as error:
        if separator and isinstance(error, ArcwiseError):
            raise
        raise click.UsageError(
            f"--domain takes LOW:HIGH, two numbers, or circle:PERIOD; got {text!r}"
        ) from None
