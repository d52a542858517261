"""The store for several workers: one PostgreSQL database."""

from arcwise.server.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
