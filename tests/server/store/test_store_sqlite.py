"""What only the SQLite store can do wrong."""

import contextlib
import sqlite3
import sys
from pathlib import Path

import pytest

from arcwise.errors import ParameterError, StoreError
from arcwise.server.store import Outcome, SQLiteStore, open_store
from store_samples import CLOSED, COUNTED, DELAY, REPLAYED, batch, counted


def test_every_commit_is_synced(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'a.db'}")
    connection: sqlite3.Connection = store._database.writer  # type: ignore[attr-defined]
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    store.close()


def test_a_full_disk_stores_nothing_of_the_group_and_heals(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'a.db'}")
    store.register([DELAY])
    store.add([batch(DELAY, [1])])
    connection: sqlite3.Connection = store._database.writer  # type: ignore[attr-defined]
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    group = [batch(DELAY, [2], number=n) for n in range(1, 2000)]
    with pytest.raises(StoreError, match="full"):
        store.add(group)
    assert store.counts(DELAY).sum() == 1
    connection.execute("PRAGMA max_page_count = 1000000")
    assert store.add(group) == [COUNTED] * 1999
    store.close()


if sys.version_info >= (3, 11):  # sqlite3 cannot set limits before

    def test_a_large_group_where_statements_take_few_variables(tmp_path: Path) -> None:
        """SQLite before 3.32 takes 999."""
        with contextlib.closing(SQLiteStore(tmp_path / "a.db")) as store:
            store.register([DELAY])
            store._database.writer.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)
            group = [batch(DELAY, [number % 7], number=number) for number in range(1100)]
            assert store.add(group) == [COUNTED] * 1100


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    with pytest.raises(StoreError, match="not one of arcwise"):
        open_store(f"sqlite:///{path}")


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    open_store(f"sqlite:///{path}").close()
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(StoreError, match="schema 99"):
        open_store(f"sqlite:///{path}")


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("hello " * 1000)
    with pytest.raises(StoreError, match="cannot open"):
        open_store(f"sqlite:///{path}")


@pytest.mark.parametrize("url", ["sqlite:///:memory:", "sqlite:///", "counts.db", "mysql:///a", "sqlite://a"])
def test_a_url_that_names_no_store(url: str) -> None:
    with pytest.raises(ParameterError, match="store must be sqlite:///FILE"):
        open_store(url)


def test_a_vacuum_gives_the_space_of_forgotten_ids_back(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'a.db'}")
    store.register([DELAY])
    store.add([batch(DELAY, [1], number=n, epoch=n // 5000) for n in range(5001)])
    store.prune(DELAY, before=1)
    before = store.size
    store.vacuum()
    assert store.size < before / 4
    store.close()


def test_a_copy_by_vacuum_is_a_whole_store_with_a_log(tmp_path: Path) -> None:
    with contextlib.closing(open_store(f"sqlite:///{tmp_path / 'a.db'}")) as store:
        store.register([DELAY])
        store.add([batch(DELAY, [1])])
        with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as connection:
            connection.execute("VACUUM INTO ?", [str(tmp_path / "copy.db")])  # while a server has it open
    with contextlib.closing(open_store(f"sqlite:///{tmp_path / 'copy.db'}")) as copy:
        connection = copy._database.writer  # type: ignore[attr-defined]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert copy.check() == []
        assert copy.add([batch(DELAY, [1])]) == [REPLAYED]


def test_what_a_close_leaves_of_old_ids_goes_with_the_next_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with contextlib.closing(open_store(url)) as store:
        store.register([DELAY])
        store.add([batch(DELAY, [1], number=n, epoch=10) for n in range(100)])
        store.add([batch(DELAY, [2], number=n, epoch=20 + n) for n in range(100, 103)])
        monkeypatch.setattr("arcwise.server.store.sqlite.upkeep._STEP", 10)
        steps: list[float] = []

        def closed_after_three(seconds: float) -> None:
            steps.append(seconds)
            if len(steps) == 3:
                store.close()

        monkeypatch.setattr("arcwise.server.store.sqlite.upkeep.time.sleep", closed_after_three)
        with pytest.raises(StoreError, match="cannot prune"):
            store.prune(DELAY, before=100)
        monkeypatch.undo()
    with contextlib.closing(open_store(url)) as store:
        assert store.add([batch(DELAY, [1], number=n, epoch=10) for n in (0, 99)]) == [CLOSED] * 2
        assert store.counts(DELAY).tolist() == counted(DELAY, [1] * 100 + [2] * 3)
        assert store.prune(DELAY, before=100) == 0
        assert store.prune(DELAY, before=122) == 70 + 2
        assert store.check() == []


def test_batches_are_counted_between_the_steps_of_pruning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(open_store(f"sqlite:///{tmp_path / 'a.db'}")) as store:
        store.register([DELAY])
        store.add([batch(DELAY, [1], number=n, epoch=10) for n in range(100)])
        store.add([batch(DELAY, [2], number=100, epoch=20)])
        monkeypatch.setattr("arcwise.server.store.sqlite.upkeep._STEP", 10)
        added: list[Outcome] = []

        def add_meanwhile(_seconds: float) -> None:
            added.extend(store.add([batch(DELAY, [3], number=200 + len(added), epoch=20)]))
            assert store.add([batch(DELAY, [1], number=0, epoch=10)]) == [CLOSED]

        monkeypatch.setattr("arcwise.server.store.sqlite.upkeep.time.sleep", add_meanwhile)
        assert store.prune(DELAY, before=20) == 100
        assert len(added) >= 10
        assert set(added) == {COUNTED}
