"""The store for several workers: one PostgreSQL database."""

from __future__ import annotations

from arcwise.errors import MissingExtraError

# This comes before the other modules of this package, which all import psycopg.
try:
    import psycopg as _psycopg  # noqa: F401
except ImportError:  # also raised if psycopg finds no libpq
    raise MissingExtraError("a PostgreSQL store needs psycopg: pip install 'arcwise[postgres]'") from None

__all__: list[str] = []
