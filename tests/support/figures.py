"""Figures of the documentation: the commands that pages name, and whether their output agrees.

    <!-- figures: python -m benchmarks.studies.figures users -->
    (the output)
    <!-- end of figures -->

Commands are those of arcwise or modules of this repository. (`tests.docs.pages` runs blocks and compares
their output.)

``python -m tests.support.figures [--write] [PAGE ...]`` runs all of them, including slow ones; `--write`
writes the parts again.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import re
import shlex
import sys
import tempfile
from contextlib import redirect_stdout
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

from click.testing import CliRunner

from arcwise.cli import main as arcwise

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["REPOSITORY", "Figures", "TableAt", "differences", "figures_of", "pages", "run", "tables_of"]

REPOSITORY = Path(__file__).parents[2]

_BEGIN, _END = re.compile(r"<!-- figures: (.+) -->"), "<!-- end of figures -->"
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


class Figures(NamedTuple):
    """One command and its output according to a page.

    Attributes
    ----------
    page
        Its path.
    line
        The number of the command's line, from 1.
    command
        The command as written.
    shown
        Lines of the output, as the page has them.
    """

    page: Path
    line: int
    command: str
    shown: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}: {self.command}"


def pages() -> list[Path]:
    """Return every page of the documentation that people read."""
    return [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


def figures_of(page: Path, text: str | None = None) -> list[Figures]:
    """Return the generated parts of a page, in order."""
    lines = (page.read_text(encoding="utf-8") if text is None else text).splitlines()
    found = []
    for number, line in enumerate(lines):
        if match := _BEGIN.fullmatch(line):
            shown = lines[number + 1 : lines.index(_END, number)]
            found.append(Figures(page, number + 1, match[1], tuple(line for line in shown if line)))
    return found


def run(figures: Figures, *, more: str = "") -> list[str]:
    """Run a command in an empty folder, and return the lines of its output that are not empty."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, COLUMNS="120", NO_COLOR="1"):
        os.chdir(folder)
        try:
            return [line for line in _output(figures.command + more).splitlines() if line]
        finally:
            os.chdir(here)


def _output(command: str) -> str:
    """Run a command in this process, where everything is imported already."""
    program, *arguments = shlex.split(command, comments=True)
    if program == "arcwise":
        result = CliRunner().invoke(arcwise, arguments)
        if result.exit_code:
            raise AssertionError(f"{command} exits with {result.exit_code}: {result.output}")
        return result.stdout
    option, module, *arguments = arguments
    if option != "-m" or module.partition(".")[0] not in {"benchmarks", "tests"}:
        raise AssertionError(f"{command} is neither an arcwise command nor a module of this repository")
    with patch.object(sys, "argv", [module, *arguments]), redirect_stdout(io.StringIO()) as printed:
        import_module(module).main()
    return printed.getvalue()


def differences(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """Return the differences between the page and the command's output in words; empty if they agree.

    White space counts once, and numbers may differ by one unit of their last digit, because floats differ
    between processors.
    """
    pairs = zip_longest(shown, printed, fillvalue="(nothing)")
    return [f"shown: {ours}\n  printed: {theirs}" for ours, theirs in pairs if not _same(ours, theirs)]


def _same(shown: str, printed: str) -> bool:
    shown, printed = " ".join(shown.split()), " ".join(printed.split())
    if _NUMBER.sub("#", shown) != _NUMBER.sub("#", printed):
        return False
    pairs = zip(_NUMBER.findall(shown), _NUMBER.findall(printed), strict=True)
    return all(_close(a, b) for a, b in pairs)


def _close(shown: str, printed: str) -> bool:
    if shown == printed:
        return True
    mantissa, _, exponent = shown.replace(",", "").partition("e")
    decimals = len(mantissa.partition(".")[2])
    if decimals != len(printed.partition("e")[0].partition(".")[2]):
        return False
    unit = 10.0 ** (int(exponent or 0) - decimals)
    a, b = float(shown.replace(",", "")), float(printed.replace(",", ""))
    # Whole numbers such as counts are the same everywhere.
    return decimals > 0 and math.isclose(a, b, rel_tol=0.0, abs_tol=1.01 * unit)


class TableAt(NamedTuple):
    """A Markdown table: where it begins, the headings above it and its cells, row by row."""

    page: Path
    line: int
    around: str
    cells: tuple[tuple[str, ...], ...]
    generated: bool


def tables_of(page: Path, text: str | None = None) -> list[TableAt]:
    """Return the tables of a page, each with the text of its section (the part between two headings)."""
    lines = (page.read_text(encoding="utf-8") if text is None else text).splitlines()
    fence, generated = False, False
    starts: list[tuple[int, bool]] = []
    headings = [0]
    for number, line in enumerate(lines):
        if line.startswith("```"):
            fence = not fence
        if fence:
            continue
        if line.startswith("#"):
            headings.append(number)
        if line.startswith(("<!-- figures: ", "<!-- results: ", "<!-- table: ")):
            generated = True
        elif line.startswith(("<!-- end of figures", "<!-- end of results", "<!-- end -->")):
            generated = False
        elif re.fullmatch(r"\|[-:| ]+\|", line):
            starts.append((number - 1, generated))
    found = []
    for start, made in starts:
        rows = []
        for line in lines[start + 2 :]:
            if not line.startswith("|"):
                break
            rows.append(tuple(cell.strip() for cell in line.strip("|").split("|")))
        begin = max(heading for heading in headings if heading <= start)
        end = min((heading for heading in headings if heading > start), default=len(lines))
        found.append(TableAt(page, start + 1, "\n".join(lines[begin:end]), tuple(rows), made))
    return found


def _write(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for figures in figures_of(page):
        begin = f"<!-- figures: {figures.command} -->\n"
        if begin in text:
            head, rest = text.split(begin, 1)
            tail = rest[rest.index(_END) :]
            printed = "\n".join(run(figures)).strip("\n")
            text = f"{head}{begin}\n{printed}\n\n{tail}"
    page.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--write", action="store_true", help="write generated parts again")
    parser.add_argument("pages", nargs="*", type=Path)
    given = parser.parse_args()
    failed = 0
    for page in [path.resolve() for path in given.pages] or pages():
        if given.write:
            _write(page)
        for figures in figures_of(page):
            wrong = differences(figures.shown, run(figures))
            failed += bool(wrong)
            sys.stdout.write("\n  ".join([str(figures), *(wrong or ["the same"])]) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
