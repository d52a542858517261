"""`arcwise store`, as an operator types it, over both kinds of stores."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from arcwise.domains import Interval
from arcwise.server.store import StoredKey, open_store
from arcwise.tasks import Task
from tests.support import commands
from tests.support.store_samples import COUNTED, DELAY, HEADING, NOW, REPLAYED, batch, counted
from tests.support.stores import opened

SCHEMA_1 = Path(__file__).parent / "schemas" / "sqlite_1.sql"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


run = partial(commands.run, "store")
good = partial(commands.good, "store")


def refused(*args: str) -> str:
    result = run(*args)
    assert result.exit_code == 1, result.output
    return result.stderr


@pytest.fixture
def filled(url: str) -> str:
    with opened(url) as store:
        store.add([batch(DELAY, [1, 1, 2]), batch(DELAY, [5], number=1, epoch=103)])
        store.add([batch(HEADING, [9], number=n) for n in range(3000)])
        store.close_task(HEADING.id, 86_400)
        store.add_key(StoredKey("k1", bytes(32), "read", None, "", 1, None))
    return url


def test_info(filled: str) -> None:
    lines = good("info", filled).splitlines()
    assert lines[0] == "delay  (open)"
    assert f"  id        {DELAY.id}" in lines
    assert "  reports   4" in lines
    assert "  epochs    100 to 103, 2 with reports" in lines
    assert "heading  (closed since 1970-01-02)" in lines
    assert "  reports   3,000" in lines
    assert lines[-1].startswith("3 tasks, 1 key, ")
    assert not any("epochs before" in line for line in lines)
    with contextlib.closing(open_store(filled)) as store:
        store.prune(DELAY, before=101)
    assert "  refused   epochs before 101, whose batch ids were deleted" in good("info", filled).splitlines()


def test_a_store_that_is_not_there_is_not_made(url: str) -> None:
    for command in ("info", "check", "vacuum", "migrate"):
        assert "there is no store at" in refused(command, url)
    assert "there is no store at" in refused("merge", "sqlite:///new.db", url)


def test_check_and_vacuum(filled: str) -> None:
    assert good("check", filled) == "the store is whole\n"
    assert "bytes before" in good("vacuum", filled)
    assert good("check", filled) == "the store is whole\n"
    assert good("migrate", filled) == "nothing to do\n"


def test_sources_are_listed_and_dropped(filled: str) -> None:
    assert good("sources", filled) == ""
    key = bytes.fromhex(DELAY.id)
    with contextlib.closing(open_store(filled)) as store:
        counts = {(key, epoch): np.array(counted(DELAY, [7, 7])) for epoch in (101, 103)}
        ids = [(key, epoch, epoch.to_bytes(16, "big")) for epoch in (101, 103)]
        store.replace_source("lake", counts, ids, now=NOW)
    assert good("sources", filled).splitlines() == [
        "lake  (replaced 1970-05-31T02:30Z, 4 reports)",
        f"  delay  4 reports, epochs 101 to 103, 2 with reports  {DELAY.id}",
    ]
    assert "  reports   8" in good("info", filled).splitlines()
    assert "the store has no source 'sea'" in refused("drop-source", filled, "sea")
    assert good("drop-source", filled, "lake") == "dropped source lake: 4 reports\n"
    assert good("sources", filled) == ""
    assert good("check", filled) == "the store is whole\n"


def test_check_finds_counts_of_a_source_that_is_not_there(tmp_path: Path) -> None:
    key = bytes.fromhex(DELAY.id)
    with opened("sqlite:///a.db") as store:
        counts = {(key, 100): np.array(counted(DELAY, [7]))}
        store.replace_source("lake", counts, [(key, 100, bytes(16))])
    with contextlib.closing(sqlite3.connect("a.db")) as connection, connection:
        connection.execute("DELETE FROM source")
    result = run("check", "sqlite:///a.db")
    assert "table counts names source 1, which does not exist" in result.stdout
    assert "of table batch refers to a missing row of table source" in result.stdout


def test_check_finds_what_is_wrong(tmp_path: Path) -> None:
    with opened("sqlite:///a.db") as store:
        store.add([batch(DELAY, [1, 1, 2]), batch(HEADING, [1])])
    with contextlib.closing(sqlite3.connect("a.db")) as connection:
        connection.execute("UPDATE total SET reports = 7 WHERE task = 1")
        connection.execute("UPDATE counts SET per_code = x'00' WHERE task = 2")
        connection.execute("UPDATE task SET definition = x'00' WHERE number = 3")
        connection.commit()
    result = run("check", "sqlite:///a.db")
    assert result.exit_code == 1
    assert f"task {DELAY.id}: the counts hold 3 reports, its total says 7" in result.stdout
    assert f"task {HEADING.id}, epoch 100: 0.125 counts instead of" in result.stdout
    assert "cannot be loaded: a task is an array" in result.stdout
    assert "problems: restore a backup" in result.stderr


def test_one_of_anything_has_no_plural(tmp_path: Path) -> None:
    with opened("sqlite:///a.db", [DELAY]) as store:
        store.add([batch(DELAY, [1])])
    assert good("info", "sqlite:///a.db").splitlines()[-1].startswith("1 task, 0 keys, ")
    assert "1 task, 1 report, 1 batch id\n" in good("export", "sqlite:///a.db", "a.jsonl", "--ids")
    with contextlib.closing(sqlite3.connect("a.db")) as connection, connection:
        connection.execute("UPDATE total SET reports = 7")
    assert "Error: 1 problem: restore a backup" in refused("check", "sqlite:///a.db")


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    with opened("sqlite:///a.db") as store:
        store.add([batch(DELAY, [1], number=n) for n in range(5000)])
    data = bytearray(Path("a.db").read_bytes())
    data[len(data) // 2 : len(data) // 2 + 4096] = bytes(4096)
    Path("a.db").write_bytes(data)
    result = run("check", "sqlite:///a.db")
    assert result.exit_code == 1
    assert "the store is whole" not in result.stdout


def test_a_file_with_a_damaged_schema_is_told() -> None:
    open_store("sqlite:///a.db").close()
    data = Path("a.db").read_bytes()
    assert b"CREATE TABLE state" in data
    Path("a.db").write_bytes(data.replace(b"CREATE TABLE state", b"CREATE \xf4ABLE state"))
    assert "a.db: " in refused("check", "sqlite:///a.db")


def test_export_and_merge(filled: str) -> None:
    assert good("export", filled, "a.jsonl", "--ids") == (
        "wrote a.jsonl: 3 tasks, 3,004 reports, 3,002 batch ids\n"
    )
    assert not Path("a.jsonl.part").exists()
    assert "a.jsonl already exists; name another file, or use --force" in refused("export", filled, "a.jsonl")
    good("export", filled, "a.jsonl", "--ids", "--force")
    assert good("merge", "sqlite:///b.db", "a.jsonl") == (
        "merged a.jsonl: 3 tasks, 3,004 reports, 3,002 batch ids\n"
    )
    assert "would count them twice" in refused("merge", "sqlite:///b.db", "a.jsonl")
    assert "would count them twice" in refused("merge", "sqlite:///b.db", filled)
    with contextlib.closing(open_store("sqlite:///b.db")) as store:
        assert store.counts(DELAY).tolist() == counted(DELAY, [1, 1, 2, 5])
        assert store.add([batch(DELAY, [1, 1, 2])]) == [REPLAYED]


@pytest.mark.parametrize("wrong", ["sqlite:///missing.db", "missing.jsonl", "hello.txt", "empty.txt", "."])
def test_a_merge_of_what_is_not_there_makes_no_store(filled: str, wrong: str) -> None:
    Path("hello.txt").write_text("hello")
    Path("empty.txt").write_text("")
    good("export", filled, "a.jsonl", "--ids")
    refused("merge", "sqlite:///new.db", wrong)
    refused("merge", "sqlite:///new.db", "a.jsonl", wrong)
    assert not list(Path().glob("new.db*"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_an_export_may_come_through_a_pipe(filled: str) -> None:
    good("export", filled, "a.jsonl", "--ids")
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(Path("a.jsonl").read_bytes()))
    writer.start()
    assert "merged pipe: 3 tasks, 3,004 reports, 3,002 batch ids" in good("merge", "sqlite:///b.db", "pipe")
    writer.join(60)


def test_a_store_moves_to_another_one_directly(filled: str) -> None:
    assert "merged a store: 3 tasks, 3,004 reports, 3,002 batch ids" in good(
        "merge", "sqlite:///b.db", filled
    )
    told = good("merge", "sqlite:///c.db", filled, "--without-ids")
    assert "it has no batch ids: its batches count twice if devices send them again" in told
    with contextlib.closing(open_store("sqlite:///c.db")) as store:
        assert store.add([batch(DELAY, [1, 1, 2])]) == [COUNTED]  # as it said


def test_batches_in_both_stores(filled: str) -> None:
    with opened("sqlite:///b.db") as store:
        store.add([batch(DELAY, [1, 1, 2])])
    assert "A merge without batch ids counts them twice" in refused("merge", "sqlite:///b.db", filled)
    good("merge", "sqlite:///b.db", filled, "--without-ids")


def test_files_that_cannot_be_read_or_written(filled: str) -> None:
    Path("hello.txt").write_text("hello\n")
    assert "hello.txt, line 1: not a valid arcwise export record" in refused(
        "merge", "sqlite:///b.db", "hello.txt"
    )
    assert "cannot read none.jsonl: No such file" in refused("merge", "sqlite:///b.db", "none.jsonl")
    assert "cannot write no/a.jsonl: No such file" in refused("export", filled, "no/a.jsonl")
    Path("binary").write_bytes(b"\xff\xfe")
    assert "binary, line 1: not a valid arcwise export record" in refused("merge", "sqlite:///b.db", "binary")


def test_migrate(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect("old.db")) as connection:
        connection.executescript(SCHEMA_1.read_text(encoding="utf-8"))
    assert "run `arcwise store migrate sqlite:///old.db`" in refused("info", "sqlite:///old.db")
    steps = [
        "Keys, closed tasks, report totals, and a name for the store",
        "Counts that take no more than what was sent, a secret, and the time that servers believe",
        "Named sources, whose counts of an epoch are replaced and never added to",
        "Batches that wait for the archive",
        "Sessions, the audit log, keys for metrics, and numbers of the server that ran last",
        "Released epochs",
    ]
    told = "".join(f"schema {number}: {step}\n" for number, step in enumerate(steps, 2))
    dry = good("migrate", "sqlite:///old.db", "--dry-run")
    assert dry == told + "nothing was changed: this was a dry run\n"
    assert "to must be a schema from 1" in refused("migrate", "sqlite:///old.db", "--to", "8")
    assert good("migrate", "sqlite:///old.db", "--to", "1") == "nothing to do\n"
    assert good("migrate", "sqlite:///old.db") == told
    assert good("check", "sqlite:///old.db") == "the store is whole\n"


def test_a_merge_refuses_an_open_task_with_the_name_of_another(tmp_path: Path) -> None:
    here, there = (f"sqlite:///{tmp_path / name}.db" for name in ("here", "there"))
    other = Task("delay", Interval(0, 2), 1.0)
    for url, task in ((here, DELAY), (there, other)):
        with opened(url, [task]):
            pass
    told = refused("merge", here, there)
    assert f"task {DELAY.id} of this store and task {other.id} of the other store are open and" in told
    with contextlib.closing(open_store(there)) as store:
        store.close_task(other.id, 1_700_000_000)
    good("merge", here, there)
