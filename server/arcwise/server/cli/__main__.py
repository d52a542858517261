"""``python -m arcwise.server.cli``: the `arcwise` command of this very interpreter."""

from arcwise.server.cli.main import main

__all__: list[str] = []

main(prog_name="arcwise")
