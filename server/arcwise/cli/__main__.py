"""``python -m arcwise.cli``: the `arcwise` command of this interpreter."""

from arcwise.cli.main import main

main(prog_name="arcwise")
