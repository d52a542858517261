"""CSV that is safe to open in a spreadsheet: every CSV of the server is written here."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001 (full width works, too)
"""First characters that make a cell a formula in a spreadsheet, which may run programs or send cells away."""


def write_rows(file: TextIO, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a line of column names and a line for each row; an absent or None value is an empty cell.

    A text that a spreadsheet would read as a formula gets an apostrophe in front. A text that begins with an
    apostrophe gets another one. So removing one leading apostrophe from each text restores the original.
    Numbers stay numbers, with all their digits. The file must be opened with ``newline=""``.
    """
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(_cell(name) for name in columns)
    writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write the rows to a file, as `write_rows` does."""
    with path.open("w", encoding="utf-8", newline="") as file:
        write_rows(file, columns, rows)


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value.startswith((*_FORMULA, "'")):
        return f"'{value}"
    return repr(float(value)) if isinstance(value, float) else value
