"""The CSV file of `arcwise estimate`: a line for every number with an interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arcwise.analysis.csv_rows import write_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["write_csv"]

_COLUMNS = ("task", "start", "end", "n", "estimate", "value", "low", "high", "level", "method", "note")


def write_csv(path: Path, documents: Iterable[dict[str, Any]]) -> None:
    """Write a line for every number with an interval, of estimates and of each point of a series.

    The columns are the same whatever the tasks. `start` and `end` are those of the epochs that were merged,
    the end excluded; empty where all were. A point without reports has no line. Texts are
    those of `write_rows`.

    Raises
    ------
    OSError
        When the file cannot be written.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        write_rows(file, _COLUMNS, _rows(documents))


def _rows(documents: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for document in documents:
        head = {"task": document["task"], "level": document.get("level", "")}
        whole = {**document, **{name: document.get("epochs", {}).get(name) for name in ("start", "end")}}
        for part in document.get("points", [whole]):
            yield from _lines(part, head)


def _lines(part: dict[str, Any], head: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the values in a document: those of its own, and those in mappings, as of quantiles."""
    head = head | {name: part[name] for name in ("start", "end", "n")}
    for label, value in _values(part, ""):
        yield head | {"estimate": label} | {key: value[key] for key in _COLUMNS if key in value}


def _values(part: dict[str, Any], prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the values in a mapping, and in mappings in it, each with the names that lead to it."""
    for name, inner in part.items():
        if isinstance(inner, dict):
            if "value" in inner:
                yield prefix + name, inner
            else:
                yield from _values(inner, f"{prefix}{name} ")
