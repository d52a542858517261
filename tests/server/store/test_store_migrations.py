"""Stores of older schemas: reported on opening, migrated on request, in one transaction.

Schemas after the newest exist in these tests only. `test_store_schemas.py` has the released ones.
"""

import multiprocessing
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from arcwise.errors import ParameterError, StoreError
from arcwise.server.store import migrate_store, open_store
from arcwise.server.store.migrations import Migration
from arcwise.server.store.postgres import database as postgres
from arcwise.server.store.sqlite import database as sqlite
from tests.support.store_samples import COUNTED, DELAY, REPLAYED, batch, counted
from tests.support.stores import URLS, opened

SPAWN = multiprocessing.get_context("spawn")
MODULES: dict[str, Any] = {"sqlite": sqlite, "postgres": postgres}
COLUMNS = {
    "sqlite": "SELECT name, sql FROM sqlite_master ORDER BY name",
    "postgres": "SELECT table_name, column_name FROM information_schema.columns"
    " WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position",
}
VERSION = {"sqlite": "PRAGMA user_version", "postgres": "SELECT version FROM arcwise_schema"}
NOTE = "ALTER TABLE counts ADD note text NOT NULL DEFAULT 'none';\nUPDATE counts SET note = 'old';\n"


class Old(NamedTuple):
    """A store of the newest released schema with one counted batch, older than the schemas of a test."""

    kind: str
    url: str
    monkeypatch: pytest.MonkeyPatch

    @property
    def real(self) -> list[Migration]:
        return REAL[self.kind]

    @property
    def newest(self) -> int:
        return self.real[-1].version

    @property
    def second(self) -> Migration:
        return Migration(self.newest + 1, "Counts have a note", NOTE)

    @property
    def third(self) -> Migration:
        script = "ALTER TABLE task ADD note text;\n"
        return Migration(self.newest + 2, "Tasks have a note", script)

    def know(self, *later: Migration) -> None:
        self.monkeypatch.setattr(MODULES[self.kind], "_MIGRATIONS", [*self.real, *later])

    def connect(self) -> closing[Any]:
        if self.kind == "postgres":
            return closing(psycopg.connect(self.url, autocommit=True))
        return closing(sqlite3.connect(self.url.removeprefix("sqlite:///")))

    def state(self) -> tuple[int, list[tuple[str, str]], int]:
        """Return the schema, every column, and the reports."""
        with self.connect() as connection:
            ((version,),) = connection.execute(VERSION[self.kind]).fetchall()
            ((reports,),) = connection.execute("SELECT sum(reports) FROM counts").fetchall()
            return version, connection.execute(COLUMNS[self.kind]).fetchall(), int(reports or 0)

    def notes(self) -> list[str]:
        with self.connect() as connection:
            return [note for (note,) in connection.execute("SELECT DISTINCT note FROM counts")]


REAL = {kind: list(module._MIGRATIONS) for kind, module in MODULES.items()}


@pytest.fixture(params=list(MODULES))
def old(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Old]:
    with URLS[request.param](tmp_path / "old") as url:
        with opened(url) as store:
            store.add([batch(DELAY, [1, 2])])
        yield Old(request.param, url, monkeypatch)


def test_migrating_keeps_everything(old: Old) -> None:
    old.know(old.second, old.third)
    with pytest.raises(StoreError, match=rf"has schema {old.newest}; .*arcwise store migrate {old.kind}"):
        open_store(old.url)
    assert migrate_store(old.url) == [old.second, old.third]
    assert migrate_store(old.url) == []
    assert old.state()[0] == old.newest + 2
    assert old.notes() == ["old"]
    with closing(open_store(old.url, create=False)) as store:
        assert store.add([batch(DELAY, [1, 2])]) == [REPLAYED]
        assert store.counts(DELAY).tolist() == counted(DELAY, [1, 2])


def test_steps_can_be_taken_one_by_one(old: Old) -> None:
    old.know(old.second, old.third)
    assert migrate_store(old.url, to=old.newest) == []
    assert migrate_store(old.url, to=old.newest + 1) == [old.second]
    assert old.state()[0] == old.newest + 1
    with pytest.raises(StoreError, match=rf"has schema {old.newest + 1}; .* schema {old.newest + 2}"):
        open_store(old.url)
    for to in (0, -1, old.newest, old.newest + 3):
        which = f"from {old.newest + 1}, which the store has, to {old.newest + 2}, got"
        with pytest.raises(ParameterError, match=f"to must be a schema {which}"):
            migrate_store(old.url, to=to)
    assert migrate_store(old.url) == [old.third]


def test_a_new_store_takes_every_step(old: Old, tmp_path: Path) -> None:
    old.know(old.second, old.third)
    with URLS[old.kind](tmp_path / "new") as url:
        with pytest.raises(StoreError, match="there is no store at"):
            migrate_store(url)
        open_store(url).close()
        assert old._replace(url=url).state()[0] == old.newest + 2
        assert migrate_store(url) == []


def test_a_dry_run_changes_nothing(old: Old) -> None:
    before = old.state()
    old.know(old.second, old.third)
    assert migrate_store(old.url, dry_run=True) == [old.second, old.third]
    assert old.state() == before
    old.know(old.second._replace(script=NOTE + "SELECT absent;"))
    with pytest.raises(StoreError, match="cannot migrate"):
        migrate_store(old.url, dry_run=True)
    assert old.state() == before


@pytest.mark.parametrize("step", [1, 2], ids=["the first", "the second"])
def test_a_migration_that_fails_half_way_leaves_everything_as_it_was(old: Old, step: int) -> None:
    before = old.state()
    first_fails = old.second._replace(script=NOTE + "INSERT INTO counts (task) SELECT 1 FROM counts;\n")
    later_fails = old.third._replace(script="SELECT absent;")
    old.know(*([first_fails] if step == 1 else [old.second, later_fails]))
    said = r"null value|column|no such column|NOT NULL constraint"
    with pytest.raises(StoreError, match=rf"cannot migrate .*: ({said})"):
        migrate_store(old.url)
    assert old.state() == before
    old.know()
    with opened(old.url) as store:
        assert store.add([batch(DELAY, [1, 2])]) == [REPLAYED]
        assert store.add([batch(DELAY, [3], number=1)]) == [COUNTED]
    old.know(old.second)
    assert migrate_store(old.url) == [old.second]


def migrate(kind: str, url: str, slow: Migration, results: Connection) -> None:
    MODULES[kind]._MIGRATIONS[:] = [*REAL[kind], slow]
    results.send(None)
    results.send([step.version for step in migrate_store(url)])


@pytest.mark.slow
@pytest.mark.parametrize("old", ["postgres"], indirect=True)
def test_of_two_processes_at_once_one_migrates_and_the_other_has_nothing_to_do(old: Old) -> None:
    slow = old.second._replace(script="SELECT pg_sleep(0.3);\n" + NOTE)
    pipes = [SPAWN.Pipe(duplex=False) for _ in range(2)]
    processes = [SPAWN.Process(target=migrate, args=(old.kind, old.url, slow, end)) for _, end in pipes]
    with old.connect() as connection, connection.transaction():
        connection.execute(postgres._MIGRATION_LOCK)  # until both processes are waiting
        for process, (receiver, sender) in zip(processes, pipes, strict=True):
            process.start()
            sender.close()  # a process that fails then ends the wait below
            receiver.recv()
    done = [receiver.recv() for receiver, _ in pipes]
    for process in processes:
        process.join()
    assert sorted(done) == [[], [old.newest + 1]]
    assert old.state()[0] == old.newest + 1
    assert old.notes() == ["old"]
