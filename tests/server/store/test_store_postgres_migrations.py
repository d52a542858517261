"""PostgreSQL stores of older schemas. Those after the newest are of these tests alone."""

import contextlib
import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection

import psycopg
import pytest

from arcwise.errors import ParameterError, StoreError
from arcwise.server.store import migrate_store, open_store
from arcwise.server.store.migrations import Migration
from arcwise.server.store.postgres import database
from tests.support.store_samples import COUNTED, DELAY, REPLAYED, TASKS, batch, counted

SPAWN = multiprocessing.get_context("spawn")
REAL = list(database._MIGRATIONS)
NEWEST = REAL[-1].version
SECOND = Migration(
    NEWEST + 1,
    "Counts have a note",
    "-- Counts have a note.\n"
    "ALTER TABLE counts ADD note text NOT NULL DEFAULT 'none';\n"
    "UPDATE counts SET note = 'old';\n",
)
THIRD = Migration(NEWEST + 2, "Tasks have a note", "-- Tasks have a note.\nALTER TABLE task ADD note text;\n")
BROKEN = Migration(NEWEST + 1, "Broken", SECOND.script + "INSERT INTO counts (task) SELECT 1 FROM counts;\n")
SLOW = Migration(NEWEST + 1, "Slow", "SELECT pg_sleep(0.3);\n" + SECOND.script)


@pytest.fixture
def old(postgres_url: str) -> str:
    """Return the URL of a store of the newest schema with one counted batch."""
    with contextlib.closing(open_store(postgres_url)) as store:
        store.register(TASKS)
        store.add([batch(DELAY, [1, 2])])
    return postgres_url


@pytest.fixture
def connection(old: str) -> Iterator[psycopg.Connection]:
    with contextlib.closing(psycopg.connect(old, autocommit=True)) as opened:
        yield opened


def known(monkeypatch: pytest.MonkeyPatch, *later: Migration) -> None:
    monkeypatch.setattr(database, "_MIGRATIONS", [*REAL, *later])


def state(connection: psycopg.Connection) -> tuple[list[int], list[tuple[str, str]], int]:
    """Return the rows with the schema, every column, and the reports."""
    versions = [version for (version,) in connection.execute("SELECT version FROM arcwise_schema")]
    columns = connection.execute(
        "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position"
    ).fetchall()
    (reports,) = connection.execute("SELECT sum(reports)::bigint FROM counts").fetchone() or (0,)
    return versions, columns, reports


def test_an_older_schema_is_refused_with_the_command_to_run(
    old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(monkeypatch, SECOND)
    with pytest.raises(
        StoreError,
        match=rf"has schema {NEWEST}; .* schema {NEWEST + 1}: .*arcwise store migrate postgresql://",
    ):
        open_store(old)


def test_migrating_keeps_everything(
    old: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(monkeypatch, SECOND, THIRD)
    assert migrate_store(old) == [SECOND, THIRD]
    assert migrate_store(old) == []
    assert state(connection)[0] == [NEWEST + 2]
    assert connection.execute("SELECT DISTINCT note FROM counts").fetchall() == [("old",)]
    with contextlib.closing(open_store(old, create=False)) as store:
        assert store.add([batch(DELAY, [1, 2]), batch(DELAY, [3], number=1)]) == [REPLAYED, COUNTED]
        assert store.counts(DELAY).tolist() == counted(DELAY, [1, 2, 3])
        assert store.check() == []


def test_steps_can_be_taken_one_by_one(
    old: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(monkeypatch, SECOND, THIRD)
    assert migrate_store(old, to=NEWEST) == []
    assert migrate_store(old, to=NEWEST + 1) == [SECOND]
    assert state(connection)[0] == [NEWEST + 1]
    with pytest.raises(StoreError, match=rf"has schema {NEWEST + 1}; .* schema {NEWEST + 2}"):
        open_store(old)
    assert migrate_store(old) == [THIRD]
    with pytest.raises(
        ParameterError, match=rf"from {NEWEST + 2}, which the store has, to {NEWEST + 2}, got"
    ):
        migrate_store(old, to=NEWEST + 1)


def test_a_store_of_schema_1_keeps_everything(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(psycopg.connect(postgres_url)) as connection:
        monkeypatch.setattr(database, "_MIGRATIONS", REAL[:1])
        with contextlib.closing(open_store(postgres_url)) as store:
            store.register(TASKS)
            store.add([batch(DELAY, [1, 2])])
        tables = state(connection)[1]
        monkeypatch.undo()
        with pytest.raises(StoreError, match="has schema 1"):
            open_store(postgres_url)
        assert migrate_store(postgres_url) == REAL[1:]
        with contextlib.closing(open_store(postgres_url)) as store:
            assert store.add([batch(DELAY, [1, 2]), batch(DELAY, [3], number=1)]) == [REPLAYED, COUNTED]
            assert store.counts(DELAY).tolist() == counted(DELAY, [1, 2, 3])
            assert len(store.secret) == 32
            assert store.check() == []
        assert set(tables) < set(state(connection)[1])


def test_a_new_store_takes_every_step(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, SECOND, THIRD)
    open_store(postgres_url).close()
    with contextlib.closing(psycopg.connect(postgres_url)) as connection:
        assert state(connection)[0] == [NEWEST + 2]
    assert migrate_store(postgres_url) == []


def test_a_dry_run_changes_nothing(
    old: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(connection)
    known(monkeypatch, SECOND, THIRD)
    assert migrate_store(old, dry_run=True) == [SECOND, THIRD]
    assert state(connection) == before
    known(monkeypatch, BROKEN)
    with pytest.raises(StoreError, match="cannot migrate"):
        migrate_store(old, dry_run=True)
    assert state(connection) == before


@pytest.mark.parametrize(
    "steps", [[BROKEN], [SECOND, BROKEN._replace(version=NEWEST + 2, script="SELECT nothing;")]]
)
def test_a_migration_that_fails_half_way_leaves_everything_as_it_was(
    old: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, steps: list[Migration]
) -> None:
    before = state(connection)
    known(monkeypatch, *steps)
    with pytest.raises(StoreError, match=r"cannot migrate postgresql://.*: (null value|column)"):
        migrate_store(old)
    assert state(connection) == before
    known(monkeypatch)
    with contextlib.closing(open_store(old)) as store:
        assert store.add([batch(DELAY, [1, 2])]) == [REPLAYED]
    known(monkeypatch, SECOND)
    assert migrate_store(old) == [SECOND]


def migrate(url: str, results: Connection) -> None:
    database._MIGRATIONS[:] = [*REAL, SLOW]
    results.send(None)
    results.send([step.version for step in migrate_store(url)])


@pytest.mark.slow
def test_of_two_processes_at_once_one_migrates_and_the_other_has_nothing_to_do(
    old: str, connection: psycopg.Connection
) -> None:
    pipes = [SPAWN.Pipe(duplex=False) for _ in range(2)]
    processes = [SPAWN.Process(target=migrate, args=(old, sender)) for _, sender in pipes]
    with connection.transaction():
        connection.execute(database._MIGRATION_LOCK)  # until both are there
        for process, (receiver, sender) in zip(processes, pipes, strict=True):
            process.start()
            sender.close()  # a process that fails then ends the wait below
            receiver.recv()
    done = [receiver.recv() for receiver, _ in pipes]
    for process in processes:
        process.join()
    assert sorted(done) == [[], [NEWEST + 1]]
    assert state(connection)[0] == [NEWEST + 1]
    assert connection.execute("SELECT DISTINCT note FROM counts").fetchall() == [("old",)]
