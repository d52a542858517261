"""``python -m arcwise.client``: manage a device's ledger without installing the server's extra.

With the server's extra, ``arcwise client`` does the same.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from arcwise.client.file.inspection import inspect
from arcwise.client.file.ledger import FileLedger
from arcwise.errors import ArcwiseError

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 1 if the ledger cannot be used, otherwise 0."""
    chosen = _parser().parse_args(arguments)
    try:
        if chosen.command == "create":
            FileLedger(chosen.file, create=True).close()
            told = f"created the ledger {chosen.file}; nothing is spent yet"
        else:
            found = inspect(chosen.file)
            told = json.dumps(found.to_dict(), indent=2) if chosen.json else str(found)
    except ArcwiseError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    sys.stdout.write(f"{told}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m arcwise.client", description="Create or inspect a device's ledger."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shows = commands.add_parser(
        "inspect", help="show a ledger's charges, its queue, and how many reports were sent or dropped"
    )
    shows.add_argument("file", metavar="FILE")
    shows.add_argument("--json", action="store_true", help="print JSON")
    makes = commands.add_parser("create", help="create a device's ledger; do this only once per device")
    makes.add_argument("file", metavar="FILE")
    return parser


if __name__ == "__main__":
    sys.exit(main())
