"""Failures that only the SQLite store can have."""

import contextlib
import os
import shutil
import sqlite3
import stat
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import pytest

from arcwise.errors import ParameterError, StoreError
from arcwise.server.store import Outcome, open_store
from arcwise.server.store.sqlite import database, upkeep
from arcwise.server.store.sqlite.store import SQLiteStore
from tests.support.commands import good
from tests.support.store_samples import CLOSED, COUNTED, DELAY, REPLAYED, TASKS, batch, counted
from tests.support.stores import opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    with contextlib.closing(SQLiteStore(f"sqlite:///{path}")) as store:
        store.register(TASKS)
        yield store


def test_a_full_disk_stores_nothing_of_the_group_and_heals(store: SQLiteStore) -> None:
    store.add([batch(DELAY, [1])])
    connection = store._database.writer
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    group = [batch(DELAY, [2], number=n) for n in range(1, 2000)]
    with pytest.raises(StoreError, match="full"):
        store.add(group)
    assert store.counts(DELAY).sum() == 1
    connection.execute("PRAGMA max_page_count = 1000000")
    assert store.add(group) == [COUNTED] * 1999


if sys.version_info >= (3, 11):  # sqlite3 cannot set limits before

    def test_a_large_group_where_statements_take_few_variables(store: SQLiteStore) -> None:
        """SQLite before 3.32 takes 999."""
        store._database.writer.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)
        group = [batch(DELAY, [number % 7], number=number) for number in range(1100)]
        assert store.add(group) == [COUNTED] * 1100


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("CREATE TABLE theirs (x)", "not one of arcwise"),
        ("PRAGMA user_version = 99", "schema 99"),
        (None, "cannot open"),
    ],
    ids=["another program's", "a newer schema's", "no database"],
)
def test_another_file_is_refused(path: Path, statement: str | None, words: str) -> None:
    if statement is None:
        path.write_text("hello " * 1000)
    else:
        if "version" in statement:
            open_store(f"sqlite:///{path}").close()
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute(statement)
    with pytest.raises(StoreError, match=words):
        open_store(f"sqlite:///{path}")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        open_store(f"sqlite:///{tmp_path}/nope/a.db")
    folder = os.path.realpath(tmp_path / "nope")
    assert str(caught.value) == f"cannot make a store at {folder}/a.db: the folder {folder} does not exist"


def test_a_file_with_a_second_name_is_refused(tmp_path: Path) -> None:
    """SQLite would keep a separate log under each name, and one would overwrite the other's data."""
    url, second = f"sqlite:///{tmp_path / 'a.db'}", tmp_path / "second.db"
    open_store(url).close()
    os.link(tmp_path / "a.db", second)
    for name in (url, f"sqlite:///{second}"):
        with pytest.raises(StoreError, match=r"has 2 names \(hard links\).*remove the others"):
            open_store(name)
    second.unlink()
    open_store(url).close()


@pytest.mark.parametrize(
    ("away", "replaced"),
    [
        *product(["a.db", "a.db-wal", "a.db-shm", "."], ["", "copy"]),
        ("a.db", "link"),  # the next process to open it keeps a log next to the file, not next to the link
    ],
)
def test_nothing_is_written_to_a_file_that_is_not_at_its_path(
    tmp_path: Path, away: str, replaced: str
) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    moved, aside = folder / away, tmp_path / "aside"
    with opened(f"sqlite:///{folder / 'a.db'}", [DELAY]) as store:
        assert store.add([batch(DELAY, [1])]) == [COUNTED]
        moved.rename(aside)
        if replaced == "link":
            moved.symlink_to(aside)
        elif replaced:
            (shutil.copytree if aside.is_dir() else shutil.copy)(aside, moved)
        for write in (lambda: store.add([batch(DELAY, [1], number=1)]), store.try_writing):
            with pytest.raises(
                StoreError, match=r"a\.db, its -wal or its -shm was removed or replaced.*put the file back"
            ):
                write()
        if replaced:
            moved.rename(tmp_path / "copy")
        aside.rename(moved)
        store.try_writing()
        assert store.add([batch(DELAY, [1], number=1)]) == [COUNTED]
    with contextlib.closing(open_store(f"sqlite:///{folder / 'a.db'}")) as store:
        assert store.counts(DELAY).sum() == 2


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
@pytest.mark.parametrize("link", ["arcwise.db", "current", "chain"])
@pytest.mark.parametrize("turned_to", ["b", "second name", "nothing", "itself", "a file"])
def test_nothing_is_written_to_a_file_that_its_path_does_not_lead_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str, turned_to: str
) -> None:
    """A link on the path is changed, so the next process to open the store would not find the counts."""
    monkeypatch.chdir(tmp_path)
    folders = [tmp_path / name for name in ("a", "b", "elsewhere")]
    for folder in folders:
        folder.mkdir()
    name = "" if link == "current" else "/arcwise.db"
    turned = tmp_path / ("arcwise.db" if link == "arcwise.db" else "current")
    turned.symlink_to(f"a{name}")
    if link == "chain":
        (tmp_path / "chain").symlink_to("current")
    path = "current/arcwise.db" if link == "current" else link

    def turn(target: str) -> None:
        (tmp_path / "new").symlink_to(target)
        (tmp_path / "new").replace(turned)

    with contextlib.closing(open_store(f"sqlite:///{path}")) as store:
        monkeypatch.chdir(tmp_path / "elsewhere")  # a relative path starts at the start folder
        store.register([DELAY])
        assert store.add([batch(DELAY, [1])]) == [COUNTED]
        if turned_to == "b":
            with contextlib.closing(sqlite3.connect(tmp_path / "a/arcwise.db")) as copied:
                copied.execute("VACUUM INTO ?", [str(tmp_path / "b/arcwise.db")])
        elif turned_to == "second name":
            os.link(tmp_path / "a/arcwise.db", tmp_path / "b/arcwise.db")
        elif turned_to == "a file":
            (tmp_path / "file").touch()
        turn({"nothing": "nowhere", "itself": turned.name, "a file": "file"}.get(turned_to, f"b{name}"))
        for write in (lambda: store.add([batch(DELAY, [1], number=1)]), store.try_writing):
            with pytest.raises(StoreError, match=rf"{path} no longer leads to .*a/arcwise\.db"):
                write()
        if turned_to == "second name":
            (tmp_path / "b/arcwise.db").unlink()
        turn(f"a{name}")
        store.try_writing()
        assert store.add([batch(DELAY, [1], number=1)]) == [COUNTED]
        if link == "current":  # the same file, log and index, over another folder
            (tmp_path / "again").symlink_to("a")
            turn("again")
            assert store.add([batch(DELAY, [1], number=2)]) == [COUNTED]
    with contextlib.closing(open_store(f"sqlite:///{tmp_path / path}")) as store:
        assert store.counts(DELAY).sum() == (3 if link == "current" else 2)


def test_what_a_killed_maker_left_is_no_second_name(tmp_path: Path) -> None:
    path = tmp_path / "a[b].db"
    open_store(f"sqlite:///{path}").close()
    draft, other = tmp_path / f".{path.name}.0123456789ab.new", tmp_path / f".{path.name}.ba9876543210.new"
    os.link(path, draft)
    other.write_bytes(b"of a maker that is at work")
    open_store(f"sqlite:///{path}").close()
    assert not draft.exists()
    assert other.exists()


@pytest.mark.parametrize("url", ["sqlite:///:memory:", "sqlite:///", "counts.db", "mysql:///a", "sqlite://a"])
def test_a_url_that_names_no_store(url: str) -> None:
    with pytest.raises(ParameterError, match="store must be sqlite:///FILE"):
        open_store(url)


def test_a_vacuum_gives_the_space_of_forgotten_ids_back(store: SQLiteStore) -> None:
    store.add([batch(DELAY, [1], number=n, epoch=n // 5000 * 2) for n in range(5001)])
    store.prune(DELAY, before=1)
    before = store.size
    store.vacuum()
    assert store.size < before / 4


def test_a_copy_by_vacuum_is_a_whole_store_with_a_log(tmp_path: Path) -> None:
    with opened(f"sqlite:///{tmp_path / 'a.db'}", [DELAY]) as store:
        store.add([batch(DELAY, [1])])
        with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as connection:
            connection.execute("VACUUM INTO ?", [str(tmp_path / "copy.db")])  # while a server has it open
    with contextlib.closing(open_store(f"sqlite:///{tmp_path / 'copy.db'}")) as copy:
        connection = copy._database.writer  # type: ignore[attr-defined]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert copy.check() == []
        assert copy.add([batch(DELAY, [1])]) == [REPLAYED]


def test_what_a_close_leaves_of_old_ids_goes_with_the_next_epoch(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add([batch(DELAY, [1], number=n, epoch=10) for n in range(100)])
    store.add([batch(DELAY, [2], number=n, epoch=20 + n) for n in range(100, 104)])
    monkeypatch.setattr(upkeep, "_STEP", 10)
    steps: list[float] = []

    def closed_after_three(seconds: float) -> None:
        steps.append(seconds)
        if len(steps) == 3:
            store.close()

    with pytest.raises(StoreError, match="cannot prune"):
        upkeep.prune(store._database, DELAY, 100, pause=closed_after_three)
    monkeypatch.undo()
    with opened(f"sqlite:///{path}") as again:
        assert again.add([batch(DELAY, [1], number=n, epoch=10) for n in (0, 99)]) == [CLOSED] * 2
        assert again.counts(DELAY).tolist() == counted(DELAY, [1] * 100 + [2] * 4)
        assert again.prune(DELAY, before=100) == 0
        assert again.prune(DELAY, before=122) == 70 + 2
        assert again.check() == []


def test_batches_are_counted_between_the_steps_of_pruning(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add([batch(DELAY, [1], number=n, epoch=10) for n in range(100)])
    store.add([batch(DELAY, [2], number=100, epoch=20)])
    monkeypatch.setattr(upkeep, "_STEP", 10)
    added: list[Outcome] = []

    def add_meanwhile(_seconds: float) -> None:
        added.extend(store.add([batch(DELAY, [3], number=200 + len(added), epoch=20)]))
        assert store.add([batch(DELAY, [1], number=0, epoch=10)]) == [CLOSED]

    assert upkeep.prune(store._database, DELAY, 20, pause=add_meanwhile) == 100
    assert len(added) >= 10
    assert set(added) == {COUNTED}
    assert store.add([batch(DELAY, [3], number=200, epoch=20)]) == [REPLAYED]
    assert store.check() == []


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("UPDATE counts SET reports = 2", "epoch 100: 3 reports, but its row says 2"),
        ("UPDATE counts SET per_code = zeroblob(15)", "epoch 100: 1.875 counts instead of 2"),
        ("UPDATE counts SET codes = x'0200'", "epoch 100: 2 counts instead of 1"),
        ("UPDATE counts SET codes = x'02000100'", "epoch 100: its codes are not ascending numbers below 204"),
        ("UPDATE counts SET codes = x'0100FF00'", "epoch 100: its codes are not ascending numbers below 204"),
        ("UPDATE counts SET codes = NULL", "epoch 100: 2 counts instead of 204"),
        ("UPDATE counts SET per_code = x'FFFFFFFFFFFFFFFF0400000000000000'", "epoch 100: negative counts"),
        (
            "UPDATE counts SET reports = 0, per_code = x'00000000000000400000000000000040'",
            "epoch 100: 9,223,372,036,854,775,808 reports, but its row says 0",
        ),
        (
            "UPDATE counts SET reports = 2305843009213693952, per_code = x'00000000000000100000000000000010'",
            "2,305,843,009,213,693,952 reports are more than 2^53",
        ),
        ("UPDATE counts SET epoch = 'soon'", "1 rows of table counts hold values that are not INTEGER in"),
        ("UPDATE counts SET reports = 'x'", "values that are not INTEGER in column reports"),
        ("UPDATE counts SET per_code = 'x'", "values that are not BLOB in column per_code"),
        ("UPDATE total SET reports = x'00'", "total hold values that are not INTEGER in column reports"),
        ("UPDATE task SET open_from = 'x'", "task hold values that are not INTEGER in column open_from"),
        ("UPDATE task SET closed = 1.5", "table task hold values that are not INTEGER in column closed"),
        ("UPDATE task SET definition = 'x'", "values that are not BLOB in column definition"),
        ("CREATE TRIGGER x AFTER INSERT ON counts BEGIN DELETE FROM batch; END", "trigger 'x' does not"),
        ("CREATE TRIGGER sqlitex AFTER INSERT ON counts BEGIN DELETE FROM batch; END", "trigger 'sqlitex'"),
        ("ALTER TABLE batch ADD COLUMN more INTEGER", "table 'batch' is not defined as arcwise defines it"),
        ("DROP TABLE staged", "table 'staged' is missing"),
        ("CREATE VIEW x AS SELECT 1", "view 'x' does not belong to arcwise"),
        ('CREATE TABLE "a b" (c)', "table 'a b' does not belong to arcwise: drop it"),
        ("CREATE UNIQUE INDEX x ON counts (reports)", "index 'x' does not belong to arcwise"),
    ],
)
def test_check_finds_rows_that_cannot_be(store: SQLiteStore, path: Path, damage: str, problem: str) -> None:
    store.add([batch(DELAY, [1, 1, 2])])
    assert store.check() == []
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    assert [found for found in store.check() if problem in found]


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.skipif(os.name == "nt", reason="files have no such modes there")
@pytest.mark.usefixtures("open_umask")
def test_nobody_else_reads_the_files_of_a_store(tmp_path: Path) -> None:
    link, file = tmp_path / "link.db", tmp_path / "real.db"
    link.symlink_to(file)
    with opened(f"sqlite:///{link}", [DELAY]) as store:
        store.add([batch(DELAY, [1])])
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
        log = (tmp_path / "real.db-wal").stat().st_size
        assert log > 0
        assert store.size == file.stat().st_size + log  # its log is next to the file, not next to the link
        assert not store.is_readable_by_others
    assert modes == dict.fromkeys(("link.db", "real.db", "real.db-shm", "real.db-wal"), 0o600)
    file.chmod(0o640)  # to share it, the owner sets the mode once
    with contextlib.closing(open_store(f"sqlite:///{file}")) as store:
        assert store.counts(DELAY).sum() == 1
        assert (tmp_path / "real.db-wal").stat().st_mode & 0o777 == 0o640
        assert store.is_readable_by_others


@pytest.mark.skipif(os.name == "nt", reason="files have no such modes there")
@pytest.mark.usefixtures("open_umask")
def test_nobody_else_reads_an_export(tmp_path: Path) -> None:
    file, part = tmp_path / "a.jsonl", tmp_path / "a.jsonl.part"
    open_store(f"sqlite:///{tmp_path / 'a.db'}").close()
    part.write_text("what an end of the process left")
    assert part.stat().st_mode & 0o777 == 0o666
    good("store", "export", f"sqlite:///{tmp_path / 'a.db'}", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    assert not part.exists()


def test_a_commit_reaches_the_disk_on_every_system(store: SQLiteStore) -> None:
    """On macOS, fsync alone leaves data in the disk's cache; elsewhere the last settings have no effect."""
    settings = {"journal_mode": "wal", "synchronous": 2, "fullfsync": 1, "checkpoint_fullfsync": 1}
    for name, value in settings.items():
        assert store._database.writer.execute(f"PRAGMA {name}").fetchone() == (value,)


def test_a_writer_tries_again_and_again_while_another_process_writes(store: SQLiteStore, path: Path) -> None:
    """SQLite itself pauses for up to 100 ms, in which processes that write all the time would always win."""
    tries: list[str] = []
    store._database.writer.set_trace_callback(tries.append)
    with (
        ThreadPoolExecutor(1) as threads,
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        added = threads.submit(store.add, [batch(DELAY, [1])])
        while tries.count("BEGIN IMMEDIATE") < 20:
            assert not added.done()
            time.sleep(0.001)
        other.execute("ROLLBACK")
        assert added.result() == [COUNTED]


def test_a_log_that_grew_while_somebody_read_is_cut_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LOG_PAGES", 20)
    log = path.with_name("a.db-wal")
    with opened(f"sqlite:///{path}") as store:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM batch").fetchone()
            for number in range(100):
                store.add([batch(DELAY, [1], number=number)])
            assert log.stat().st_size > 40 * 4096
        for number in range(100, 104):
            store.add([batch(DELAY, [1], number=number)])
        assert log.stat().st_size <= 21 * 4096
