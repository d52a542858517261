"""Figures of the documentation: which command a block or a table names, and whether its output says the same.

Two forms. A console block: a fenced block that begins with ``$ arcwise ...`` or ``$ python -m ...``; what
follows is its output. A line ``...`` stands for any lines, ``...`` at a line's end for the rest of it, and
what is below the last line is left out only after such a line. And a generated part:

    <!-- figures: python -m benchmarks.studies.figures users -->
    (the output)
    <!-- end of figures -->

A line ``<!-- first: COMMAND -->`` right before a console block is run before it, in the same empty folder.

``python -m tests.support.figures [--write] [PAGE ...]`` runs all of them, the dear ones too; `--write` writes
generated parts anew.
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
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from click.testing import CliRunner

from arcwise.cli import main as arcwise

__all__ = ["REPOSITORY", "Figures", "TableAt", "differences", "figures_of", "pages", "run", "tables_of"]

REPOSITORY = Path(__file__).parents[2]

_BEGIN, _END = re.compile(r"<!-- figures: (.+) -->"), "<!-- end of figures -->"
_FIRST = re.compile(r"<!-- first: (.+) -->")
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
_PROGRAMS = ("arcwise", "python")


class Figures(NamedTuple):
    """One command and what a page says that it prints.

    Attributes
    ----------
    page
        Its path.
    line
        The number of the line on which the command stands, from 1.
    first
        Commands to be run before, in the same folder.
    command
        As it is written.
    shown
        Lines of the output, as the page has them.
    """

    page: Path
    line: int
    first: tuple[str, ...]
    command: str
    shown: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}: {self.command}"


def pages() -> list[Path]:
    """Return every page of the documentation that people read."""
    return [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


def figures_of(page: Path, text: str | None = None) -> list[Figures]:
    """Return the console blocks and the generated parts of a page, in their order."""
    lines = (page.read_text(encoding="utf-8") if text is None else text).splitlines()
    found: list[Figures] = []
    first: tuple[str, ...] = ()
    number = 0
    while number < len(lines):
        line = lines[number]
        if match := _FIRST.fullmatch(line.strip()):
            first = (*first, match[1])
        elif match := _BEGIN.fullmatch(line.strip()):
            end = lines.index(_END, number)
            found.append(Figures(page, number + 1, (), match[1], _stripped(lines[number + 1 : end])))
            number = end
        elif line.startswith("```"):
            end = next(n for n in range(number + 1, len(lines)) if lines[n].startswith("```"))
            found += _console(page, number + 1, lines[number + 1 : end], first)
            first, number = (), end
        elif line.strip():
            first = ()
        number += 1
    return found


def _console(page: Path, start: int, block: list[str], first: tuple[str, ...]) -> list[Figures]:
    """Return the commands of a block, each with the lines below it; later ones are run after earlier ones."""
    found: list[Figures] = []
    for number, line in enumerate(block, start + 1):
        if line.startswith("$ "):
            before = first if not found else (*found[-1].first, found[-1].command)
            found.append(Figures(page, number, before, line[2:], ()))
        elif found:
            found[-1] = found[-1]._replace(shown=(*found[-1].shown, line))
        else:
            return []
    known = [figures._replace(shown=_stripped(figures.shown)) for figures in found]
    return [figures for figures in known if figures.command.split()[0] in _PROGRAMS and figures.shown]


def _stripped(lines: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """Return lines without the empty ones at both ends."""
    text = "\n".join(lines).strip("\n")
    return tuple(text.split("\n")) if text else ()


def run(figures: Figures, *, more: str = "") -> list[str]:
    """Run a command in an empty folder, after what comes first, and return the lines of its output."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, COLUMNS="120", NO_COLOR="1"):
        os.chdir(folder)
        try:
            for command in figures.first:
                _output(command)
            return _output(figures.command + more).splitlines()
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


def differences(shown: list[str] | tuple[str, ...], printed: list[str]) -> list[str]:
    """Return what the page shows and the command does not print, in words; empty where it is the same.

    White space counts once, and numbers may differ by one unit of their last digit: floats of two processors
    do.
    """
    at, anywhere = 0, False
    wrong = []
    for line in shown:
        if line.strip() == "...":
            anywhere = True
            continue
        limit = len(printed) if anywhere else at + 1
        place = next((n for n in range(at, min(limit, len(printed))) if _same(line, printed[n])), None)
        if place is None:
            wrong.append(f"shown: {line}\n  printed: {printed[at] if at < len(printed) else '(nothing)'}")
            at += not anywhere
        else:
            at, anywhere = place + 1, False
    if not anywhere and any(line.strip() for line in printed[at:]):
        wrong.append(f"not shown, and no ... in their place: {printed[at:]}")
    return wrong


def _same(shown: str, printed: str) -> bool:
    shown, printed = " ".join(shown.split()), " ".join(printed.split())
    if shown.endswith("..."):
        # Cut after as many characters; a number that is cut through would be another one.
        start = shown[:-3].rstrip()
        return _same(start, printed[: len(start)]) if len(printed) >= len(start) else False
    if _NUMBER.sub("#", shown) != _NUMBER.sub("#", printed):
        return False
    pairs = zip(_NUMBER.findall(shown), _NUMBER.findall(printed), strict=True)
    return all(_close(a, b) for a, b in pairs)


def _close(shown: str, printed: str) -> bool:
    if shown == printed:
        return True
    mantissa, _, exponent = shown.replace(",", "").partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    a, b = float(shown.replace(",", "")), float(printed.replace(",", ""))
    # Whole numbers such as counts are the same everywhere.
    return "." in mantissa and math.isclose(a, b, rel_tol=0.0, abs_tol=1.01 * unit)


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
        if line.startswith(("<!-- figures: ", "<!-- results: ")):
            generated = True
        elif line.startswith(("<!-- end of figures", "<!-- end of results")):
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
    parser.add_argument("--write", action="store_true", help="write generated parts anew")
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
