"""Ledgers of every past schema: each opens, and keeps its spending and its queue.

A new schema needs a new version and a file `ledger_N.sql` next to this one, as that version writes it (the
output of `iterdump` of sqlite3, after its two pragmas). The earlier files stay as they are.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from arcwise.client import Caps, Circle, Client, Counters, FileLedger, Outcome, PostgresLedgers, Task, inspect
from arcwise.client.file.schema import INDEXES, VERSION
from arcwise.client.postgres.schema import VERSION as HOSTED_VERSION
from tests.support.clock import Clock
from tests.support.ledgers import fresh_ledgers, ledger_schema, ledger_url
from tests.support.stepped import SteppedUplink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.client import Ledger
    from arcwise.client.ledger import QueueOwner
    from tests.support.recorder import Recorder

FILES = {int(path.stem.partition("_")[2]): path for path in Path(__file__).parent.glob("ledger_*.sql")}
HEADING = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=30.0, rolling=5.0, window=86_400))
HOUR = Task("hour", Circle(24, step=1), epsilon=0.5)
WRITTEN = 1_750_000_180.0
"""The Unix time of the last report in every file."""


def restored(version: int, path: Path) -> Path:
    """Write a ledger of this version to a path."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FILES[version].read_text(encoding="utf-8"))
        connection.execute("PRAGMA journal_mode = WAL")
    return path


def tables(path: Path) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return set(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))


def test_every_version_has_a_file() -> None:
    assert sorted(FILES) == list(range(1, VERSION + 1))


def test_the_schema_of_this_version_is_the_one_that_was_frozen(tmp_path: Path) -> None:
    FileLedger(tmp_path / "new.db", create=True).close()
    frozen = tables(restored(VERSION, tmp_path / "frozen.db"))
    assert frozen | set(INDEXES.items()) == tables(tmp_path / "new.db")


class Restored:
    """A device that continues with a ledger of an earlier version, a minute after its last report."""

    def __init__(self, owner: QueueOwner, recorder: Recorder) -> None:
        self.recorder, self.clock = recorder, Clock(WRITTEN + 60)
        self.uplink = SteppedUplink(
            "http://127.0.0.1:1", ledger=owner, transport=recorder, environment=self.clock
        )

    def client(self, ledger: Ledger) -> Client:
        tasks, caps = [HEADING, HOUR], Caps(lifetime=500.0)
        return Client(self.uplink, tasks=tasks, ledger=ledger, caps=caps, memoize={"hour": 3})

    def check_account(self, client: Client) -> None:
        """Check that past spending, the rolling cap and earlier answers stay in force."""
        assert self.uplink.counters == Counters(pending=4, sent=2, dropped={"410": 1})
        assert (client.budget().epsilon, client.budget("hour").epsilon) == (5.5, 1.5)
        heading = client.budget("heading")
        assert (heading.epsilon, heading.recent_epsilon, heading.reports_left) == (4.0, 4.0, 1)
        assert [client.report("heading", 1.0) for _ in range(2)] == [Outcome.ACCEPTED, Outcome.CAPPED]
        assert client.report("hour", 17) is client.report("hour", 17) is Outcome.ACCEPTED
        assert client.budget("hour").epsilon == 1.5

    def check_queue(self, sealed: bytes) -> None:
        """Check that everything is sent after the hour that the server asked for."""
        assert self.uplink.expedite() == pytest.approx(3480)
        assert self.recorder.posts == []
        self.clock.wait(3600)
        self.uplink.expedite()
        assert (self.uplink.counters.pending, self.uplink.counters.sent) == (0, 9)
        bodies = {post.body: post.batch for post in self.recorder.posts}
        del bodies[sealed]
        answered = [batch.codes for batch in bodies.values() if batch.task_id.hex() == HOUR.id]
        assert answered == [b"\x02\x02"]  # the stored answer of 17 o'clock's node


@pytest.mark.parametrize("version", FILES)
def test_a_ledger_keeps_its_account_and_its_queue(tmp_path: Path, recorder: Recorder, version: int) -> None:
    path = restored(version, tmp_path / "ledger.db")
    with closing(sqlite3.connect(path)) as connection:
        (sealed,) = connection.execute("SELECT body FROM batches").fetchone()
    with FileLedger(path) as ledger:
        device = Restored(ledger, recorder)
        device.check_account(device.client(ledger))
        device.check_queue(sealed)
        assert device.uplink.counters == Counters(sent=9, dropped={"410": 1}, refused={"capped": 1})
    assert inspect(path).memoized == {HOUR.id: (3, 2)}


HOSTED = {
    int(path.stem.rpartition("_")[2]): path for path in Path(__file__).parent.glob("postgres_ledger_*.sql")
}


@contextmanager
def restored_hosted(version: int) -> Iterator[str]:
    """Make the tables of this version; give their schema."""
    with ledger_schema() as schema:
        with closing(psycopg.connect(ledger_url())) as connection:
            connection.execute(f"CREATE SCHEMA {schema}; SET search_path TO {schema}".encode())
            connection.execute(HOSTED[version].read_bytes())
            connection.commit()
        yield schema


def columns(schema: str) -> list[tuple[object, ...]]:
    """Return PostgreSQL's description of the columns and the constraints of a schema."""
    with closing(psycopg.connect(ledger_url())) as connection:
        found = connection.execute(
            """SELECT table_name, column_name, data_type, is_nullable, column_default, is_identity
               FROM information_schema.columns WHERE table_schema = %s ORDER BY 1, 2""",
            (schema,),
        ).fetchall()
        found += connection.execute(
            """SELECT conrelid::regclass::text, contype::text, pg_get_constraintdef(oid) FROM pg_constraint
               WHERE connamespace = to_regnamespace(%s) ORDER BY 1, 2, 3""",
            (schema,),
        ).fetchall()
        found += connection.execute(
            "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = %s ORDER BY 1, 2",
            (schema,),
        ).fetchall()
    return [tuple(str(value).replace(f"{schema}.", "") for value in row) for row in found]


def test_every_version_of_ledgers_in_a_database_has_a_file() -> None:
    assert sorted(HOSTED) == list(range(1, HOSTED_VERSION + 1))


def test_the_tables_of_this_version_are_those_that_were_frozen() -> None:
    with restored_hosted(HOSTED_VERSION) as frozen, fresh_ledgers() as ledgers:
        PostgresLedgers(ledger_url(), schema=frozen, create=True).close()  # adds what earlier versions lack
        assert columns(frozen) == columns(ledgers._database.schema)


@pytest.mark.parametrize("version", HOSTED)
def test_an_account_in_a_database_keeps_its_spending_and_its_queue(recorder: Recorder, version: int) -> None:
    with restored_hosted(version) as schema, PostgresLedgers(ledger_url(), schema=schema) as ledgers:
        with ledgers._database.reading() as session:
            ((sealed,),) = session.execute("SELECT body FROM batches").fetchall()
        device = Restored(ledgers, recorder)
        device.check_account(device.client(ledgers.account("somebody")))
        assert device.client(ledgers.account("other")).report("heading", 1.0) is Outcome.OPTED_OUT
        device.check_queue(bytes(sealed))
