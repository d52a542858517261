"""``python -m arcwise.cli``: the `arcwise` command of this very interpreter."""

from arcwise.cli.main import main

main(prog_name="arcwise")
