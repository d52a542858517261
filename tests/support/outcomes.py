"""The result of each reproduction, computed once for all tests that need it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from arcwise.papers import Outcome, find

__all__ = ["numbers", "outcome", "records"]


@cache
def outcome(name: str) -> Outcome:
    """Return the outcome of a reproduction at the size of a sample; its progress must never go back."""
    seen: list[tuple[int, int]] = []
    found = find(name).run(False, lambda done, total: seen.append((done, total)))
    parts = [done for done, _ in seen]
    assert parts == sorted(parts), parts
    assert len({total for _, total in seen}) <= 1, seen
    assert not seen or parts[-1] <= seen[-1][1], seen
    return found


def numbers(name: str, table: str = "") -> np.ndarray:
    """Return a table of a reproduction that has only numbers, as an array."""
    return np.array(outcome(name).tables[table].rows, dtype=float)


def records(name: str, table: str, **where: object) -> list[dict[str, Any]]:
    """Return the rows of a table by column, without units; only those with these values."""
    found = outcome(name).tables[table]
    columns = [column.partition(" (")[0] for column in found.columns]
    rows = [dict(zip(columns, row, strict=True)) for row in found.rows]
    return [row for row in rows if all(row[column] == value for column, value in where.items())]
