"""Every speed in one run: ``make bench``, or ``python -m benchmarks.speed.run [NAME...]``. Fifteen minutes.

Prints everything, and keeps it with date and machine in `results.json` beside this file, in place of what is
there under the same names; `python -m benchmarks.speed.page` shows it in docs/reference/performance.md and
docs/howto/scaling.md. Without names, all are run but those that install other libraries or write gigabytes:
`randomize_rivals` and `lake`. After ``--`` come options of a single one:

    python -m benchmarks.speed.run lake -- --reports 1e8

The studies of accuracy and coverage beside this file are run by themselves.
"""

from __future__ import annotations

import argparse
import importlib
import io
import sys
from contextlib import redirect_stdout, suppress
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.speed.tables import Printed, Table, keep, print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["RESULTS"]

RESULTS = Path(__file__).with_name("results.json")
NAMES = (
    "sampling",
    "loops",
    "em",
    "estimates",
    "imports",
    "report",
    "first_estimate",
    "ingest",
    "rivals",
    "scaling",
)


class _Tee(io.StringIO):
    """Keeps what is printed, and prints it."""

    def write(self, text: str) -> int:
        sys.__stdout__.write(text) if sys.__stdout__ else None
        return super().write(text)


def printed_by(name: str, call: Callable[[], object], options: Sequence[str] = ()) -> Printed:
    """Return what a benchmark prints."""
    # Some end with a bound that they miss, as on a machine that does other things too.
    with redirect_stdout(_Tee()) as printed, suppress(SystemExit):
        call()
    return Printed(name, " ".join(["python -m benchmarks.speed." + name, *options]), printed.getvalue())


def main() -> None:
    given, options = sys.argv[1:], list[str]()
    if "--" in given:
        given, options = given[: given.index("--")], given[given.index("--") + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--keep", type=Path, default=RESULTS, metavar="FILE", help="where results are kept")
    arguments = parser.parse_args(given)

    def show(table: Table) -> None:
        print_table(table)
        keep(arguments.keep, table)

    for name in arguments.names:
        module = importlib.import_module(f"benchmarks.speed.{name}")
        if options or not hasattr(module, "run"):
            sys.argv = [module.__name__, *options]
            keep(arguments.keep, printed_by(name, module.main, options))
        elif "show" in signature(module.run).parameters:
            module.run(show=show)
        else:
            keep(arguments.keep, printed_by(name, module.run))
        print(flush=True)


if __name__ == "__main__":
    main()
