"""`arcwise quickstart`: write the program of `quickstart.txt`, which README.md also shows.

The program is not a module because importing it would run it.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from arcwise.cli.terminal import writing_files


def program() -> str:
    """Return the text of the program."""
    return files(__package__).joinpath("quickstart.txt").read_text(encoding="utf-8")


@click.command()
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("quickstart.py"),
    show_default=True,
    help="File to write.",
)
def quickstart(output: Path) -> None:
    """Write a Python file with a device, a server and an estimate, to run and to change.

    It never overwrites a file. Run it with `python quickstart.py`: 10,000 simulated phones report to a server
    in a thread, in less than a minute.
    """
    with writing_files():
        output.parent.mkdir(parents=True, exist_ok=True)
        try:
            with output.open("x", encoding="utf-8") as file:
                file.write(program())
        except FileExistsError:
            raise click.ClickException(
                f"{output} already exists; remove it, or give another --output"
            ) from None
    click.echo(f"wrote {output}; run it with: python {output}")
