"""A connection that takes the statements which SQLite and PostgreSQL share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class SqlConnection(ABC):
    """Runs shared statements, which are written for PostgreSQL 13 and for SQLite 3.24.

    A parameter is ``:name``, and sums are cast to ``bigint``: PostgreSQL's are of another type than what they
    add up. SQLite has one writer, so locks of rows (``FOR SHARE``) are left out there. It joins tables in the
    order in which they stand.
    """

    @abstractmethod
    def _run(self, statement: str, values: Mapping[str, object]) -> Any:
        """Run a statement; return its cursor."""

    def rows(self, statement: str, /, **values: object) -> list[Any]:
        """Return the rows that a statement yields."""
        found: list[Any] = self._run(statement, values).fetchall()
        return found

    def row(self, statement: str, /, **values: object) -> Any:
        """Return the first row that a statement yields; None where there is none."""
        return self._run(statement, values).fetchone()

    def change(self, statement: str, /, **values: object) -> int:
        """Run a statement; return how many rows it changed."""
        changed: int = self._run(statement, values).rowcount
        return changed

    @abstractmethod
    def change_each(self, statement: str, values: Iterable[Mapping[str, object]]) -> None:
        """Run a statement once for each of the values."""

    @abstractmethod
    def insert(self, statement: str, /, **values: object) -> int:
        """Insert a row into a table that numbers its rows; return the number."""
