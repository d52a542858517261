"""`arcwise client`: a device's ledger, also as ``python -m arcwise.client`` without the server's extra."""

from __future__ import annotations

import json
from pathlib import Path

import click

from arcwise.cli.main import CommandGroup
from arcwise.client import FileLedger, inspect

_FILE = click.Path(path_type=Path)


@click.group(cls=CommandGroup)
def client() -> None:
    """Create the ledger of a device, and show what it holds."""


@client.command("inspect")
@click.argument("file", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(file: Path, as_json: bool) -> None:
    """Show what the ledger FILE holds: charges, the queue, and what became of reports.

    The file may be in use. The ledger holds no values, and this command does not change it.
    """
    found = inspect(file)
    click.echo(json.dumps(found.to_dict(), indent=2) if as_json else found)


@client.command()
@click.argument("file", type=_FILE)
def create(file: Path) -> None:
    """Create FILE, the ledger of a device. Do this once in the device's life.

    A second ledger would grant the whole budget again.
    """
    FileLedger(file, create=True).close()
    click.echo(f"created the ledger {file}; nothing is spent yet")
