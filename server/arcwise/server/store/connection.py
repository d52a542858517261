"""A connection for the statements that SQLite and PostgreSQL share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class SqlConnection(ABC):
    """Runs shared statements, which are written for PostgreSQL 13 and for SQLite 3.24.

    Parameters are written ``:name``. Sums are cast to ``bigint``, because in PostgreSQL a sum has another
    type than its terms. SQLite has only one writer, so row locks (``FOR SHARE``) are left out for SQLite.
    SQLite joins tables in the order of the statement.
    """

    @abstractmethod
    def _run(self, statement: str, values: Mapping[str, object]) -> Any:
        """Run a statement; return its cursor."""

    def rows(self, statement: str, /, **values: object) -> list[Any]:
        """Run a statement; return its rows."""
        found: list[Any] = self._run(statement, values).fetchall()
        return found

    def row(self, statement: str, /, **values: object) -> Any:
        """Run a statement; return its first row, or None."""
        return self._run(statement, values).fetchone()

    def change(self, statement: str, /, **values: object) -> int:
        """Run a statement; return the number of changed rows."""
        changed: int = self._run(statement, values).rowcount
        return changed

    @abstractmethod
    def change_each(self, statement: str, values: Iterable[Mapping[str, object]]) -> None:
        """Run a statement once for each of the values."""

    @abstractmethod
    def insert(self, statement: str, /, **values: object) -> int:
        """Insert a row into a table with numbered rows; return the number."""
