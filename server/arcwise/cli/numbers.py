"""Read numbers from a file of the user's, for `--data` and `--from-data`."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from arcwise.cli.reading import MISSING, PARQUET, read_rows
from arcwise.columns import read_column
from arcwise.digits import counted
from arcwise.errors import DomainError
from arcwise.extras import check_extra

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from arcwise.typing import FloatArray


def read_numbers(
    path: Path, column: str | None, *, option: str = "--data", missing: bool = False
) -> FloatArray:
    """Return the numbers of a file, shape (n,), at least one; missing values are NaN.

    The file holds one number a line, a column of CSV, a JSON array, JSON lines, or a column of Parquet.
    `column` names the column, or the key if JSON holds objects. It may be left out for CSV with a single
    column. The path "-" is stdin; the suffix matters only for Parquet and for files separated by tabs. Empty
    fields of a CSV file are left out, or are missing values if `missing` allows them. `option` is the option
    that named the file; errors quote it.
    """
    if path.suffix.lower() in PARQUET:
        values = _of_parquet(path, column, option)
    else:
        values = np.array(_Text(path, column, option, missing=missing).numbers(), dtype=np.float64)
    wrong = np.isinf(values) if missing else ~np.isfinite(values)
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise click.ClickException(
            f"{option} must hold finite numbers, got {float(values[first])!r} as number {first + 1}: "
            "leave missing values out"
        )
    if not values.size or np.isnan(values).all():
        raise click.ClickException(f"{option} must hold at least one number, got none")
    return values


def _of_parquet(path: Path, column: str | None, option: str) -> FloatArray:
    check_extra("lake", "pyarrow", user=f"{option} with a Parquet file")
    if column is None:
        from pyarrow import ArrowException, parquet

        try:
            names = parquet.read_schema(path).names
        except (ArrowException, OSError) as error:
            raise click.ClickException(f"cannot read {path}: {error}") from None
        if len(names) != 1:
            raise click.ClickException(f"{option} has {len(names)} columns: name one with --column")
        column = str(names[0])
    try:
        parts = [read_column(rows.values, column) for rows in read_rows(path, column, None)]
    except DomainError as error:
        raise click.ClickException(f"{option}: {error}") from None
    return np.concatenate([np.empty(0), *parts])


class _Text:
    """The numbers of a text: JSON if it starts like JSON, lines or CSV otherwise."""

    def __init__(self, path: Path, column: str | None, option: str, *, missing: bool) -> None:
        self._path, self._column, self._option, self._missing = path, column, option, missing

    def numbers(self) -> list[float]:
        try:
            with click.open_file(str(self._path), "r", encoding="utf-8-sig") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise click.ClickException(f"{self._option} cannot be read: {error}") from None
        stripped = text.removeprefix("\ufeff").lstrip()  # stdin keeps the byte order mark
        try:
            if stripped.startswith("["):
                return self._of_items(json.loads(stripped))
            if stripped.startswith("{"):
                return self._of_items(json.loads(line) for line in stripped.splitlines() if line.strip())
        except (json.JSONDecodeError, RecursionError) as error:
            raise click.ClickException(f"{self._option} is not JSON: {error}") from None
        return self._of_rows(text.removeprefix("\ufeff"))

    def _of_items(self, items: Iterable[Any]) -> list[float]:
        found, column = [], self._column
        known = False
        for place, item in enumerate(items, 1):
            is_object = isinstance(item, dict)
            if is_object and column is None:
                raise click.ClickException(
                    f"{self._option} holds objects: name one of {_names(item)} with --column"
                )
            value = item.get(column) if is_object else item
            known |= is_object and column in item
            if value is None and self._missing:
                found.append(float("nan"))
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                of = f" of {_names(item)}" if is_object else ""
                raise click.ClickException(
                    f"{self._option} must hold numbers, got {value!r} as item {place}{of}"
                )
            found.append(float(value))
        return found

    def _of_rows(self, text: str) -> list[float]:
        """Return the column of a CSV file; a first line that is not a number is its header."""
        delimiter = "\t" if self._path.suffix.lower() == ".tsv" else ","
        rows = (row for row in csv.reader(text.splitlines(keepends=True), delimiter=delimiter) if row)
        try:
            return self._of_lines(rows)
        except csv.Error as error:
            raise click.ClickException(f"{self._option} is not CSV: {error}") from None

    def _of_lines(self, rows: Iterable[list[str]]) -> list[float]:
        rows = iter(rows)
        first = next(rows, None)
        if first is None:
            return []
        column, place = self._column, 0
        header = column is not None or _number(first[-1]) is None
        if column is not None:
            if column not in first:
                raise click.ClickException(f"--column must be one of {', '.join(first)}; got {column!r}")
            place = first.index(column)
        elif len(first) > 1:
            raise click.ClickException(f"{self._option} has {len(first)} columns: name one with --column")
        found = [] if header else [self._of_cell(first, place, 1)]
        found += [self._of_cell(row, place, line) for line, row in enumerate(rows, 2)]
        present = [value for value in found if value is not None]
        if empty := len(found) - len(present):
            click.echo(f"note: {counted(empty, 'empty field')} of {self._option} left out", err=True)
        return present

    def _of_cell(self, row: list[str], place: int, line: int) -> float | None:
        """Return the number of a field; None for an empty field if missing values are not allowed."""
        if not self._missing and place < len(row) and not row[place].strip():
            return None
        cell = row[place] if place < len(row) else ""
        value = _number(cell)
        if value is None and self._missing and cell.strip() in MISSING:
            return float("nan")
        if value is None:
            raise click.ClickException(f"{self._option} must hold numbers, got {cell!r} in row {line}")
        return value


def _names(item: dict[str, Any]) -> str:
    return ", ".join(map(str, item))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
