"""Tables of results: printed as text, kept as JSON, and shown in docs/reference/performance.md."""

from __future__ import annotations

import json
import os
import platform
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Show = Callable[["Table"], None]

__all__ = ["Printed", "Show", "Table", "keep", "print_table", "read", "result_of"]


class Table(NamedTuple):
    """Results with a name.

    Attributes
    ----------
    name
        Letters and hyphens; marks the table's place in docs/reference/performance.md.
    command
        Command that measures it again.
    columns
        The heading of each column, and the format of its numbers, such as ",.0f"; "" for words.
    rows
        A word or a number for each column; None if there is none.
    """

    name: str
    command: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[str | float | None]]

    def cells(self) -> list[list[str]]:
        """Return the headings and the rows as texts."""
        written = [[heading for heading, _ in self.columns]]
        for row in self.rows:
            forms = [form for _, form in self.columns]
            written.append(
                ["" if cell is None else format(cell, form) for cell, form in zip(row, forms, strict=True)]
            )
        return written

    def text(self) -> str:
        """Return lines for a terminal."""
        return _aligned(self.cells(), [bool(form) for _, form in self.columns])

    def markdown(self) -> str:
        """Return lines for a page."""
        heading, *rows = (f"| {' | '.join(cells)} |" for cells in self.cells())
        ruler = "|".join("--:" if form else "---" for _, form in self.columns)
        return "\n".join([heading, f"|{ruler}|", *rows])


class Printed(NamedTuple):
    """The output of a benchmark, with a name and the command that prints it."""

    name: str
    command: str
    text: str

    def markdown(self) -> str:
        """Return lines for a page."""
        return f"```\n{self.text.rstrip()}\n```"


def result_of(entry: dict[str, Any]) -> Table | Printed:
    """Return a result from an entry that `keep` has written."""
    kind: type[Table | Printed] = Printed if "text" in entry else Table
    return kind(**{name: entry[name] for name in kind._fields})


def _aligned(written: list[list[str]], right: list[bool]) -> str:
    widths = [max(map(len, column)) for column in zip(*written, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(cells, widths, right, strict=True)
        ).rstrip()
        for cells in written
    )


def print_table(table: Table) -> None:
    """Print a table."""
    print(table.text(), flush=True)


def machine() -> str:
    """Return a description of this machine."""
    model = ""
    if (info := Path("/proc/cpuinfo")).exists():
        lines = (line.partition(":") for line in info.read_text("utf-8").splitlines())
        model = next((value.strip() for name, _, value in lines if name.strip() == "model name"), "")
    return (
        f"{os.cpu_count()} cores of {model or platform.machine()}, {platform.system()}, "
        f"Python {platform.python_version()}"
    )


def read(path: Path) -> dict[str, Any]:
    """Return the results of a file by the names of their tables; empty if the file does not exist."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def keep(path: Path, result: Table | Printed) -> None:
    """Write a result to a file, with date and machine, in place of an earlier one with its name."""
    results = read(path)
    results[result.name] = {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": machine(),
        **result._asdict(),
    }
    path.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n", encoding="utf-8")
