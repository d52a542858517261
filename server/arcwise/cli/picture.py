"""The files that commands draw to: checked when the command is read, before any work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from arcwise.analysis.plotting.style import PICTURES
from arcwise.extras import check_extra

if TYPE_CHECKING:
    from pathlib import Path


def checked_picture(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """Return the path of a `--plot` option, after checking its suffix and that a picture can be drawn."""
    if path is not None and path.suffix not in PICTURES:
        raise click.UsageError(f"--plot takes a file that ends in .png, .svg or .pdf; got {str(path)!r}")
    if path is not None:
        check_extra("plots", "matplotlib")
    return path
