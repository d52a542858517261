"""Entry point of the `arcwise` command: if the server's extra is missing, it says what to install."""

from __future__ import annotations

import sys

from arcwise.errors import MissingExtraError
from arcwise.version import __version__

__all__ = ["main"]


def main() -> None:
    """Run the command; exit with 2 if a library that it needs is not installed."""
    try:
        from arcwise.cli import main as run
    except MissingExtraError as error:
        if sys.argv[1:] == ["--version"]:  # works with the client alone, too
            sys.stdout.write(f"arcwise, version {__version__}\n")
            return
        sys.stderr.write(f"Error: {error}\n")
        sys.exit(2)
    run(prog_name="arcwise")
