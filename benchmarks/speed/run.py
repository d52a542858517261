"""Every speed in one run: ``make bench``, or ``python -m benchmarks.speed.run [NAME...]``. Fifteen minutes.

Prints all results, and stores them with date and machine in `results.json` next to this file, in place of
earlier results with the same names. `python -m benchmarks.speed.page` shows them in
docs/reference/performance.md and docs/howto/scaling.md. Without names, it runs all except those that install
other libraries or write gigabytes: `randomize_rivals` and `lake`. Options after ``--`` go to a single
benchmark:

    python -m benchmarks.speed.run lake -- --reports 1e8

The studies of accuracy and coverage are run separately.
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
    """Keeps the printed text, and prints it."""

    def write(self, text: str) -> int:
        sys.__stdout__.write(text) if sys.__stdout__ else None
        return super().write(text)


def printed_by(name: str, call: Callable[[], object], options: Sequence[str] = ()) -> Printed:
    """Return the output of a benchmark."""
    # Some exit if they miss a bound, as may happen on a busy machine.
    with redirect_stdout(_Tee()) as printed, suppress(SystemExit):
        call()
    return Printed(name, " ".join(["python -m benchmarks.speed." + name, *options]), printed.getvalue())


def main() -> None:
    given, options = sys.argv[1:], list[str]()
    if "--" in given:
        given, options = given[: given.index("--")], given[given.index("--") + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--keep", type=Path, default=RESULTS, metavar="FILE", help="file for the results")
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
