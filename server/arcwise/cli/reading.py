"""Read columns of files block by block: Parquet and CSV with pyarrow, JSON lines with the standard library.

Without pyarrow the standard library also reads CSV, several times as slowly.
"""

from __future__ import annotations

import csv as standard_csv
import io
import json
import math
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import click
import numpy as np

from arcwise.checks import shown
from arcwise.columns import read_column
from arcwise.errors import DomainError
from arcwise.extras import installed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from arcwise.typing import FloatArray

MISSING = frozenset(
    (
        *("", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "NULL", "null", "NaN", "nan", "-NaN", "-nan"),
        *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    )
)
"""Cells of CSV that count as missing, the same as in pyarrow."""

PARQUET = (".parquet", ".pq")
"""Suffixes of files that need pyarrow."""

_IN_UNIT = "--column must hold numbers in the unit of the domain, such as 6.25 for 06:15"
_BLOCK = 1 << 16
"""Number of rows that are in memory together."""


class Rows(NamedTuple):
    """Some rows of a file.

    `first` is the number of the first row, from 1 on, without headings. `times` is None if no time column is
    requested. `done` and `total` show how far the file has been read, in a unit that depends on the format.
    """

    first: int
    values: Any
    times: Any
    done: int
    total: int


def read_rows(path: Path, column: str, time_column: str | None) -> Iterator[Rows]:
    """Yield the rows of a file in the format of its suffix."""
    names = [column] if time_column is None else [column, time_column]
    first = 1
    with _reading(path):
        for values, times, done, total in READABLE[path.suffix.lower()](path, names):
            yield Rows(first, values, times, done, total)
            first += len(values)


def read_seconds(times: Any) -> FloatArray:
    """Return times as Unix seconds, with NaN for missing times.

    `times` is an Arrow column or a list of times, dates, numbers, or texts of these (ISO 8601, UTC unless
    they name an offset; dates, times and offsets may be mixed). Raises `DomainError` for anything else,
    naming the first invalid text.
    """
    if not installed("pyarrow"):
        return _plain_seconds(times)
    import pyarrow as pa

    try:
        column = pa.chunked_array(times) if hasattr(times, "__arrow_c_stream__") else pa.array(times)
    except pa.ArrowException as error:
        raise DomainError(f"times must be of one kind: {error}") from None
    kinds = [pa.timestamp("us")] if pa.types.is_temporal(column.type) else []
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        kinds = [pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC")]
    for kind in kinds:
        try:
            column = column.cast(kind, safe=not pa.types.is_timestamp(column.type))
        except pa.ArrowException:
            continue
        break
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.array([_seconds(*each) for each in enumerate(column.to_pylist())])
    if not pa.types.is_timestamp(column.type):
        return read_column(column, "times")
    since = column.cast(pa.int64())
    seconds: FloatArray = read_column(since) / 1e6
    return seconds


def _plain_seconds(times: list[Any]) -> FloatArray:
    """Return the Unix seconds of texts or numbers, the types that CSV and JSON lines have."""
    texts = [time is None or isinstance(time, str) for time in times]
    if not all(texts):
        if any(isinstance(time, str) for time in times):
            raise DomainError("times must be of one kind: these are texts and values of other kinds")
        return read_column(times, "times")
    return np.array([_seconds(*each) for each in enumerate(times)], dtype=np.float64)


def _seconds(index: int, text: str | None) -> float:
    """Return the Unix seconds of one text, for columns of mixed formats, which pyarrow cannot read."""
    if text is None:
        return math.nan
    with suppress(ValueError):
        return float(text)
    try:
        time = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))  # Python 3.10 does not read the Z
    except ValueError:
        raise DomainError(
            "times must be ISO 8601, such as 2026-11-01T06:00Z, or Unix seconds; "
            f"the text at index {index} is neither"
        ) from None
    return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp()


def _parquet(path: Path, names: list[str]) -> Iterator[tuple[Any, Any, int, int]]:
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    for name in names:
        _check_name(path, name, file.schema_arrow.names)
    done = 0
    for batch in file.iter_batches(batch_size=_BLOCK, columns=names):
        done += batch.num_rows
        columns = [batch.column(name) for name in names]
        yield columns[0], columns[1] if len(names) > 1 else None, done, file.metadata.num_rows


def _csv(path: Path, names: list[str]) -> Iterator[tuple[Any, Any, int, int]]:
    if not installed("pyarrow"):
        yield from _plain_csv(path, names)
        return
    import pyarrow as pa
    from pyarrow import csv

    kinds = {name: pa.float64() if place == 0 else pa.string() for place, name in enumerate(names)}
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open("rb") as file:
        head = file.readline().decode("utf-8-sig", errors="replace")
        file.seek(0)
        try:
            heads = next(standard_csv.reader(head.splitlines()[:1], delimiter=delimiter), [])
        except standard_csv.Error as error:
            raise click.ClickException(f"cannot read {path}: its first line: {error}") from None
        for name in names:
            _check_name(path, name, heads)
        reader = csv.open_csv(
            file,
            # In a file with one column, an empty line is a missing value.
            parse_options=csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=len(heads) > 1
            ),
            convert_options=csv.ConvertOptions(
                include_columns=names, column_types=kinds, strings_can_be_null=True
            ),
        )
        total = path.stat().st_size
        for batch in reader:
            if batch.num_rows:
                times = batch.column(1) if len(names) > 1 else None
                yield batch.column(0), times, min(file.tell(), total), total


def _plain_csv(path: Path, names: list[str]) -> Iterator[tuple[Any, Any, int, int]]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open("rb") as file:
        lines = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        reader = standard_csv.reader(lines, delimiter=delimiter)
        yield from _in_blocks(path, file, _csv_rows(path, reader, names))


def _csv_rows(path: Path, reader: Any, names: list[str]) -> Iterator[list[Any]]:
    try:
        heads: list[str] = next(reader, [])
        for name in names:
            _check_name(path, name, heads)
        places = [heads.index(name) for name in names]
        for cells in reader:
            if not cells and len(heads) > 1:
                continue
            if cells and len(cells) != len(heads):
                raise click.ClickException(
                    f"cannot read {path}, line {reader.line_num}: {len(cells)} cells, not {len(heads)}"
                )
            found: list[Any] = [cells[place] if cells else "" for place in places]
            found[1:] = [None if cell in MISSING else cell for cell in found[1:]]
            found[0] = _number_of(path, reader.line_num, found[0])
            yield found
    except (standard_csv.Error, UnicodeDecodeError) as error:
        raise click.ClickException(f"cannot read {path}, line {reader.line_num}: {error}") from None


def _number_of(path: Path, line: int, cell: str) -> float | None:
    if cell in MISSING:
        return None
    try:
        return float(cell)
    except ValueError:
        raise click.ClickException(
            f"cannot read {path}, line {line}: {shown(cell)} is not a number; {_IN_UNIT}"
        ) from None


def _json(path: Path, names: list[str]) -> Iterator[tuple[Any, Any, int, int]]:
    with path.open("rb") as file:
        yield from _in_blocks(path, file, _json_rows(path, file, names))


def _json_rows(path: Path, file: BinaryIO, names: list[str]) -> Iterator[list[Any]]:
    line, found = 0, dict.fromkeys(names, False)
    for line, text in enumerate(file, 1):
        if not text.strip():
            continue
        if line == 1 and text.lstrip().startswith(b"[") and path.suffix.lower() == ".json":
            raise click.ClickException(f"{path}: this is an array; write JSON lines, an object a line")
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise click.ClickException(f"{path}, line {line}: not a line of JSON: {error}") from None
        if not isinstance(row, dict):
            raise click.ClickException(f"{path}, line {line}: must be a JSON object with {names[0]!r}")
        for name in names:
            found[name] |= name in row
        yield [row.get(name) for name in names]
    for name in names:
        if line and not found[name]:
            raise click.ClickException(f"{path}: no line has {name!r}")


def _in_blocks(path: Path, file: BinaryIO, rows: Iterator[list[Any]]) -> Iterator[tuple[Any, Any, int, int]]:
    """Yield the columns of the rows of a file, with times if requested, block by block."""
    total = path.stat().st_size
    while block := list(islice(rows, _BLOCK)):
        values, *times = (list(column) for column in zip(*block, strict=True))
        yield values, times[0] if times else None, min(file.tell(), total), total


READABLE: dict[str, Callable[[Path, list[str]], Iterator[tuple[Any, Any, int, int]]]] = {
    ".parquet": _parquet,
    ".pq": _parquet,
    ".csv": _csv,
    ".tsv": _csv,
    ".jsonl": _json,
    ".ndjson": _json,
    ".json": _json,
}
"""Readers by file suffix: they yield values, times, the amount read, and the total."""


def _check_name(path: Path, name: str, names: list[str]) -> None:
    if name not in names:
        found = ", ".join(names) or "none"
        raise click.ClickException(f"{path} must have a column {name!r}; it has {found:.200}")
    if names.count(name) > 1:
        raise click.ClickException(f"{path} must have one column {name!r}; it has {names.count(name)}")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into a message that names the file."""
    errors: tuple[type[Exception], ...] = (OSError,)
    if installed("pyarrow"):
        import pyarrow as pa

        errors += (pa.ArrowException,)
    try:
        yield
    except errors as error:
        words = getattr(error, "strerror", None) or str(error)
        if "conversion error to double" in words:
            words += f"; {_IN_UNIT}"
        raise click.ClickException(f"cannot read {path}: {words}") from error
