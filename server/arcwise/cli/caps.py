"""The options that cap what one device may spend, alike for tasks and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

import click

from arcwise.tasks import DAY, Caps

if TYPE_CHECKING:
    from collections.abc import Callable


class CapOptions(TypedDict):
    """What the options give to a command."""

    lifetime_cap: float | None
    rolling_cap: float | None
    rolling_window: int
    lifetime_delta_cap: float | None
    rolling_delta_cap: float | None


def caps_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of `CapOptions`."""
    options = [
        click.option("--lifetime-cap", type=float, help="Epsilon that one device may spend in all."),
        click.option(
            "--rolling-cap", type=float, help="Epsilon that it may spend within any --rolling-window."
        ),
        click.option(
            "--rolling-window",
            type=int,
            default=DAY,
            show_default=True,
            help="Length of the window, in seconds.",
        ),
        click.option("--lifetime-delta-cap", type=float, help="Delta that one device may spend in all."),
        click.option(
            "--rolling-delta-cap", type=float, help="Delta that it may spend within any --rolling-window."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def read_caps(options: CapOptions) -> Caps:
    """Return the caps that the options name."""
    return Caps(
        options["lifetime_cap"],
        options["rolling_cap"],
        options["rolling_window"],
        options["lifetime_delta_cap"],
        options["rolling_delta_cap"],
    )
