"""Files of a reproduction: one CSV for each of its tables, one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.analysis.csv_rows import write_rows
from arcwise.analysis.plotting.style import new_figure
from arcwise.papers.pictures import draw

if TYPE_CHECKING:
    from pathlib import Path

    from arcwise.papers.base import Outcome, Table


def write_outcome(folder: Path, name: str, outcome: Outcome, *, picture: str = "png") -> list[Path]:
    """Write the tables and the picture ("png" or "svg") of an outcome into a folder, and return their paths.

    The folder must exist. The files' names start with `name`, that of the reproduction.
    """
    paths = []
    for table_name, table in outcome.tables.items():
        stem = name if len(outcome.tables) == 1 else f"{name}-{table_name}"
        paths.append(write_table(folder / f"{stem}.csv", table))
    path = folder / f"{name}.{picture}"
    with new_figure(outcome.picture.size) as figure:
        draw(figure, outcome.picture)
        metadata = {"Date": None} if picture == "svg" else None
        figure.savefig(path, format=picture, metadata=metadata)
    return [*paths, path]


def write_table(path: Path, table: Table) -> Path:
    """Write a table as CSV, numbers with all their digits."""
    with path.open("w", encoding="utf-8", newline="") as file:
        write_rows(file, table.columns, (dict(zip(table.columns, row, strict=True)) for row in table.rows))
    return path
