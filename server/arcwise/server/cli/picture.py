"""The files that commands draw to: checked when the command is read, before any work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from arcwise.server.plotting.style import PICTURES

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["checked_picture"]


def checked_picture(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """Return the path of a `--plot` option; raises `click.UsageError` where its suffix is of no picture."""
    if path is not None and path.suffix not in PICTURES:
        raise click.UsageError(f"--plot takes a file that ends in .png, .svg or .pdf; got {str(path)!r}")
    return path
