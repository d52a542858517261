"""Options that several commands share, and functions that read their values.

A command takes the values of such a set as ``**options``, typed by the set's `TypedDict`, and passes them on
as one object.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

import click

from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import ArcwiseError
from arcwise.extras import check_extra
from arcwise.tasks import DAY, Caps, CentralStatement

if TYPE_CHECKING:
    from collections.abc import Callable

Command = TypeVar("Command", bound="Callable[..., Any]")

EXISTING: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
"""The type of a file that a command reads."""

NEW: Final = click.Path(dir_okay=False, path_type=Path)
"""The type of a file that a command writes."""

NUMBERS: Final = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
"""The type of a file that `read_numbers` reads; - is stdin."""

_DELTA = 1e-8


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that gives a command these options."""

    def decorated(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


class DomainOptions(TypedDict):
    """The options that `domain_options` and `lattice_options` add: the domain of the values."""

    domain_text: str | None
    circle: float | None
    step: float | None
    rounding: str | None


class DataOptions(DomainOptions):
    """The options that `data_options` adds: the user's own values and their domain."""

    data: Path | None
    column: str | None


class CapOptions(TypedDict):
    """The options that `caps_options` adds: the budget of one device."""

    lifetime_cap: float | None
    rolling_cap: float | None
    rolling_window: int
    lifetime_delta_cap: float | None
    rolling_delta_cap: float | None


class CentralOptions(TypedDict):
    """The options that `central_options` adds: the central statement of a task."""

    central: float | None
    honest: float | None
    reports_each: int | None
    releases: int | None


domain_options = together(
    click.option(
        "--domain",
        "--interval",
        "domain_text",
        metavar="LOW:HIGH",
        help="Range of the values: -60:180, 0:1, or circle:360 for a circle.",
    ),
    click.option(
        "--circle", type=float, metavar="PERIOD", help="Values lie on a circle: 360, 24, 6.283185307."
    ),
)

lattice_options = together(
    click.option(
        "--step",
        type=float,
        help="Distance between possible values: these are low, low + STEP, ..., high (on a circle 0, STEP, "
        "...).",
    ),
    click.option(
        "--rounding",
        type=click.Choice(("refuse", "nearest", "stochastic")),
        help="Handling of a number between two steps: refuse (default), nearest, or stochastic (unbiased).",
    ),
)

data_options = together(
    click.option(
        "--data",
        type=NUMBERS,
        metavar="FILE",
        help="Your own values: numbers, one a line, a column of CSV, JSON, JSON lines or Parquet; - reads "
        "stdin. Rows without a value are left out.",
    ),
    click.option(
        "--column", metavar="NAME", help="The column or the key of the values, if --data has several."
    ),
)

caps_options = together(
    click.option("--lifetime-cap", type=float, help="Epsilon that one device may spend in total."),
    click.option(
        "--rolling-cap", type=float, help="Epsilon that one device may spend within any --rolling-window."
    ),
    click.option(
        "--rolling-window",
        type=int,
        default=DAY,
        show_default=True,
        help="Length of the window, in seconds.",
    ),
    click.option("--lifetime-delta-cap", type=float, help="Delta that one device may spend in total."),
    click.option(
        "--rolling-delta-cap",
        type=float,
        help="Delta that one device may spend within any --rolling-window.",
    ),
)

central_options = together(
    click.option(
        "--central",
        type=float,
        help="Central epsilon to promise against readers who see only released counts; needs --reports.",
    ),
    click.option(
        "--releases",
        type=int,
        help="With --central: largest number of epochs in which one device reports; 1 unless given.",
    ),
    click.option(
        "--reports-each",
        type=int,
        help="With --central: largest number of reports of one device in an epoch; 1 unless given.",
    ),
    click.option(
        "--honest",
        type=float,
        help="With --central: share of the reports that a reader neither sent nor knows; 1 unless given.",
    ),
)

epoch_option = click.option(
    "--epoch-seconds", type=int, default=DAY, show_default=True, help="Length of an epoch in seconds."
)

save_options = together(
    click.option(
        "--output", "-o", type=click.Path(path_type=Path), help="File to write; NAME.json unless given."
    ),
    click.option("--force", is_flag=True, help="Overwrite the file when it exists."),
)


def checked_picture(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """Return the path of a `--plot` option, after checking its suffix and the library that draws it."""
    if path is not None:
        from arcwise.analysis.plotting.style import PICTURES  # loads the drawing library only if needed

        if path.suffix not in PICTURES:
            raise click.UsageError(f"--plot takes a file that ends in .png, .svg or .pdf; got {str(path)!r}")
        check_extra("plots", "matplotlib")
    return path


plot_option = click.option(
    "--plot",
    "plot_file",
    type=NEW,
    callback=checked_picture,
    help="Write a plot to this file: .png, .svg or .pdf.",
)


def read_domain(options: DomainOptions, *, clip: bool = False) -> Domain:
    """Return the domain of the options; raises `click.UsageError` without one."""
    text, circle, step, rounding = (
        options["domain_text"],
        options["circle"],
        options["step"],
        options["rounding"],
    )
    if (text is None) == (circle is None):
        raise click.UsageError("give one of --domain LOW:HIGH, --domain circle:PERIOD and --circle PERIOD")
    first, separator, second = (f"circle:{circle}" if text is None else text).partition(":")
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


def read_caps(options: CapOptions) -> Caps:
    """Return the caps of the options."""
    return Caps(
        options["lifetime_cap"],
        options["rolling_cap"],
        options["rolling_window"],
        options["lifetime_delta_cap"],
        options["rolling_delta_cap"],
    )


def read_statement(
    options: CentralOptions, delta: float | None, reports: int | None
) -> CentralStatement | None:
    """Return the central statement of the options, or None without --central."""
    epsilon = options["central"]
    asked = {name: options.get(name) for name in ("honest", "reports_each", "releases")}
    beside: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if epsilon is None:
        for name in beside:
            raise click.UsageError(f"--{name.replace('_', '-')} is for --central")
        return None
    if reports is None:
        raise click.UsageError(
            "--central needs --reports: the number of reports that an epoch must hold before it is released"
        )
    return CentralStatement(epsilon, _DELTA if delta is None else delta, reports, **beside)
