"""The store for several workers: one PostgreSQL database."""

from arcwise.errors import MissingExtraError

# Before the modules of this package, each of which imports it.
try:
    import psycopg as _psycopg  # noqa: F401
except ImportError:  # also where it has no libpq
    raise MissingExtraError("a PostgreSQL store needs psycopg: pip install 'arcwise[postgres]'") from None

from arcwise.server.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
