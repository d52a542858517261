"""Where the `arcwise` command starts: says what to install where the server's extra is not."""

from __future__ import annotations

import sys

from arcwise.errors import MissingExtraError
from arcwise.version import __version__

__all__ = ["main"]


def main() -> None:
    """Run the command; exit with 2 where something is not installed that it needs."""
    try:
        from arcwise.cli import main as run
    except MissingExtraError as error:
        if sys.argv[1:] == ["--version"]:  # of the client alone, too
            sys.stdout.write(f"arcwise, version {__version__}\n")
            return
        sys.stderr.write(f"Error: {error}\n")
        sys.exit(2)
    run(prog_name="arcwise")
