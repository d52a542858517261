"""Stores of older schemas: told on opening, migrated when asked, in one transaction."""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from arcwise.errors import ParameterError, StoreError
from arcwise.server.store import migrate_store, open_store
from arcwise.server.store.sqlite import database
from tests.support.store_samples import CLOSED, COUNTED, DELAY, REPLAYED, batch

NEWEST = database._MIGRATIONS[-1].version
# As the first arcwise made it. It never changes: such files exist.
SCHEMA_1 = Path(__file__).parent / "schema_1.sql"


@pytest.fixture
def old(tmp_path: Path) -> str:
    """Return the URL of a store of schema 1 with two counted batches and epochs below 10 closed."""
    path = tmp_path / "old.db"
    connection = sqlite3.connect(path)
    connection.executescript(SCHEMA_1.read_text(encoding="utf-8"))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA user_version = 1")
    connection.execute("INSERT INTO task VALUES (1, ?, ?, 10)", (bytes.fromhex(DELAY.id), DELAY.to_bytes()))
    for number, epoch, code in ((0, 20, 3), (1, 21, 203)):
        counts = np.zeros(DELAY.mechanism.kernel.codes, "<i8")
        counts[code] = 7
        connection.execute("INSERT INTO batch VALUES (1, ?, ?)", (number.to_bytes(16, "big"), epoch))
        connection.execute("INSERT INTO counts VALUES (1, ?, ?)", (epoch, counts.tobytes()))
    connection.commit()
    connection.close()
    return f"sqlite:///{path}"


def test_an_older_schema_is_refused_with_the_command_to_run(old: str) -> None:
    with pytest.raises(StoreError, match=f"has schema 1.*arcwise store migrate {old}"):
        open_store(old)


def test_a_store_of_schema_1_keeps_everything(old: str) -> None:
    assert [step.version for step in migrate_store(old)] == list(range(2, NEWEST + 1))
    assert migrate_store(old) == []
    store = open_store(old)
    assert store.check() == []
    assert store.report_count(DELAY) == 14
    assert store.reports_by_epoch(DELAY) == {20: 7, 21: 7}
    assert len(store.secret) == 32
    assert {
        epoch: counts.nonzero()[0].tolist() for epoch, counts in store.counts_by_epoch(DELAY).items()
    } == {
        20: [3],
        21: [203],
    }
    again = [batch(DELAY, [5], epoch=20), batch(DELAY, [5], number=2, epoch=9), batch(DELAY, [5], number=3)]
    assert store.add(again) == [REPLAYED, CLOSED, COUNTED]
    assert [(each.task.id, each.open_from) for each in store.tasks()] == [(DELAY.id, 10)]
    store.close()


def test_rows_of_schema_2_become_as_small_as_they_can(old: str, tmp_path: Path) -> None:
    migrate_store(old, to=2)
    dense = np.ones(DELAY.mechanism.kernel.codes, "<i8")
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection, connection:
        connection.execute("INSERT INTO counts VALUES (1, 22, ?)", (dense.tobytes(),))
        connection.execute("UPDATE total SET reports = reports + ?", (len(dense),))
    assert [step.version for step in migrate_store(old, to=3)] == [3]
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        rows = connection.execute("SELECT epoch, codes, length(per_code) FROM counts").fetchall()
    assert rows == [(20, b"\x03\x00", 8), (21, b"\xcb\x00", 8), (22, None, 8 * len(dense))]
    migrate_store(old)
    with closing(open_store(old)) as store:
        assert store.check() == []
        assert store.reports_by_epoch(DELAY) == {20: 7, 21: 7, 22: len(dense)}
        assert store.counts_by_epoch(DELAY)[22].tolist() == dense.tolist()


def test_a_migrated_store_has_the_tables_of_a_new_one(old: str, tmp_path: Path) -> None:
    def tables(path: Path) -> list[tuple[str, str]]:
        connection = sqlite3.connect(path)
        found = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
        connection.close()
        return found

    migrate_store(old)
    open_store(f"sqlite:///{tmp_path / 'new.db'}").close()
    assert tables(tmp_path / "old.db") == tables(tmp_path / "new.db")


def test_a_dry_run_changes_nothing(old: str) -> None:
    assert [step.version for step in migrate_store(old, dry_run=True)] == list(range(2, NEWEST + 1))
    with pytest.raises(StoreError, match="has schema 1"):
        open_store(old)
    assert len(migrate_store(old)) == NEWEST - 1


def test_a_migration_that_fails_leaves_the_store_as_it_was(old: str, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "old.db")
    connection.execute("CREATE TABLE origin (theirs)")  # in the way of schema 2, after its other statements
    connection.close()
    with pytest.raises(StoreError, match=r"cannot migrate .*origin already exists"):
        migrate_store(old)
    connection = sqlite3.connect(tmp_path / "old.db")
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'total'").fetchone() == (0,)
    connection.execute("DROP TABLE origin")
    connection.close()
    assert len(migrate_store(old)) == NEWEST - 1


@pytest.mark.parametrize("to", [0, NEWEST + 1, -1])
def test_there_is_no_way_to_an_older_or_unknown_schema(old: str, to: int) -> None:
    with pytest.raises(ParameterError, match=f"to must be a schema from 1, which the store has, to {NEWEST}"):
        migrate_store(old, to=to)


def test_migrating_makes_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store at"):
        migrate_store(f"sqlite:///{tmp_path / 'none.db'}")
    assert not (tmp_path / "none.db").exists()
