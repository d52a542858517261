"""Ledgers of each kind; those of many accounts are in a real PostgreSQL, each time in a separate schema."""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from arcwise.client import FileLedger, MemoryLedger, PostgresLedgers
from tests.support.postgres import own_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from arcwise.client import Ledger
    from arcwise.client.ledger import QueueOwner

__all__ = ["fresh_ledgers", "ledger_opener", "ledger_schema", "ledger_url"]


def ledger_url() -> str:
    """Return the URL of a server for tests."""
    return os.environ.get("ARCWISE_TEST_POSTGRES") or own_url()


@contextmanager
def ledger_schema(url: str | None = None) -> Iterator[str]:
    """Give the name of a schema that does not exist yet; drop it afterwards."""
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


@contextmanager
def ledger_opener(kind: str, path: Path, **options: Any) -> Iterator[Callable[[], tuple[Ledger, QueueOwner]]]:
    """Give a function that reopens a device's ledger and its queue, as each of its processes does.

    A ledger in memory is always the same; one in a file is made at the path; one in a database has an
    account.
    """
    with ExitStack() as stack:
        if kind == "memory":
            memory = MemoryLedger()
            yield lambda: (memory, memory)
        elif kind == "file":
            FileLedger(path, create=True).close()

            def file() -> tuple[Ledger, QueueOwner]:
                ledger = stack.enter_context(FileLedger(path, **options))
                return ledger, ledger

            yield file
        else:
            schema = stack.enter_context(ledger_schema())
            with PostgresLedgers(ledger_url(), create=True, schema=schema) as made:
                made.create_account("somebody")

            def database() -> tuple[Ledger, QueueOwner]:
                ledgers = stack.enter_context(PostgresLedgers(ledger_url(), schema=schema, **options))
                return ledgers.account("somebody"), ledgers

            yield database
