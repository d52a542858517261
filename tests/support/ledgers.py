"""Ledgers of many accounts in a real PostgreSQL, each time in a schema of their own."""

from __future__ import annotations

import os
import secrets
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from arcwise.client import PostgresLedgers
from tests.support.postgres import own_url

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["fresh_ledgers", "ledger_schema", "ledger_url"]


def ledger_url() -> str:
    """Return the URL of a server for tests."""
    return os.environ.get("ARCWISE_TEST_POSTGRES") or own_url()


@contextmanager
def ledger_schema(url: str | None = None) -> Iterator[str]:
    """Give the name of a schema that is not there yet; drop it afterwards."""
    name = f"ledger_{secrets.token_hex(6)}"
    yield name
    with closing(psycopg.connect(url or ledger_url(), autocommit=True)) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())


@contextmanager
def fresh_ledgers(url: str | None = None, **options: Any) -> Iterator[PostgresLedgers]:
    """Give ledgers without an account."""
    with (
        ledger_schema(url) as schema,
        PostgresLedgers(url or ledger_url(), create=True, schema=schema, **options) as ledgers,
    ):
        yield ledgers
