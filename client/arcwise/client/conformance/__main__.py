"""``python -m arcwise.client.conformance EXECUTABLE...``: check a client in any language.

With the server's extra, ``arcwise conformance`` does the same.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from arcwise.client.conformance.cases import OPTIONAL
from arcwise.client.conformance.runner import check
from arcwise.errors import ArcwiseError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from arcwise.client.conformance.runner import Failure, Report, Tally

_SHOWN = 400
"""Largest number of characters shown of each line of a failure."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a client; return 0 if it conforms, 1 if it does not, 2 if it could not be checked."""
    chosen = _parser().parse_args(arguments)
    try:
        return run([chosen.executable, *chosen.arguments], chosen.kind, chosen.timeout, chosen.failures)
    except ArcwiseError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2


def run(command: Sequence[str], kinds: Collection[str] | None, timeout: float, failures: int) -> int:
    """Check the client that a command starts, print the results, and return 0 if it conforms and 1 if not."""
    report = check(
        command, kinds=kinds, timeout=timeout, progress=lambda tally: _write_tally(tally, failures)
    )
    sys.stdout.write(_summary(report))
    return 0 if report.passed else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m arcwise.client.conformance",
        description="Check a client in any language: an executable that reads a JSON line for each case and "
        "answers with one JSON line.",
    )
    parser.add_argument("executable", metavar="EXECUTABLE", help="the client's program")
    parser.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="its arguments")
    parser.add_argument(
        "--kind", action="append", metavar="KIND", help="check cases of this kind only; repeatable"
    )
    parser.add_argument("--timeout", type=float, default=60, metavar="SECONDS", help="for each answer; 60")
    parser.add_argument("--failures", type=int, default=5, metavar="N", help="show at most N of each kind; 5")
    return parser


def _write_tally(tally: Tally, shown: int) -> None:
    """Write one line for a kind of case, and then the failures of this kind."""
    parts = [f"{tally.passed} of {tally.cases} passed"]
    if tally.skipped:
        missing = "optional" if tally.kind in OPTIONAL else "REQUIRED"
        parts.append(f"{tally.skipped} skipped, {missing}: {tally.why_skipped}")
    if tally.failures:
        parts.append(f"{len(tally.failures)} FAILED")
    sys.stdout.write(f"{tally.kind:<12} {', '.join(parts)}\n")
    for failure in tally.failures[:shown]:
        sys.stdout.write(_text(failure))
    if len(tally.failures) > shown:
        sys.stdout.write(f"  ... and {len(tally.failures) - shown} more; --failures shows them\n")
    sys.stdout.flush()


def _text(failure: Failure) -> str:
    lines = {
        "sent": json.dumps(failure.case.request),
        "expected": failure.expected,
        "got": failure.got,
    }
    text = f"  {failure.case.name}\n"
    for name, line in lines.items():
        cut = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}... ({len(line)} characters)"
        text += f"    {name:<9} {cut}\n"
    return text


def _summary(report: Report) -> str:
    passed, skipped, failed = (
        sum(counts)
        for counts in zip(*((t.passed, t.skipped, len(t.failures)) for t in report.tallies), strict=True)
    )
    verdict = "conforms" if report.passed else "does not conform"
    return f"{passed} passed, {failed} failed, {skipped} skipped: the client {verdict}\n"


if __name__ == "__main__":
    sys.exit(main())
