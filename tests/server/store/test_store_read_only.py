"""A store that is opened read-only stays unchanged while servers go on writing."""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from arcwise.errors import ParameterError, StoreError
from arcwise.server.access.keys import new_key
from arcwise.server.store import Store, open_store
from tests.support.store_samples import DELAY, HEADING, TASKS, batch, counted
from tests.support.stores import URLS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with URLS[request.param](tmp_path / "counts") as url:
        yield url


def fill(url: str) -> Store:
    store = open_store(url)
    store.register(TASKS)
    store.add([batch(DELAY, [1, 1, 203]), batch(HEADING, [5], number=1)])
    store.add_key(new_key("read", now=0)[1])
    return store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the file of a store that nobody has open."""
    path = tmp_path / "counts.db"
    fill(f"sqlite:///{path}").close()
    return path


def read(path: Path) -> closing[Store]:
    return closing(open_store(f"sqlite:///{path}", read_only=True))


def test_what_is_read_is_what_servers_have_written(url: str) -> None:
    with closing(fill(url)) as server, closing(open_store(url, read_only=True)) as store:
        for number in range(2, 5):
            assert store.counts(DELAY).tolist() == server.counts(DELAY).tolist()
            assert store.sums(DELAY, {100: 0}).tolist() == server.sums(DELAY, {100: 0}).tolist()
            assert store.reports_by_epoch(DELAY) == server.reports_by_epoch(DELAY)
            assert store.revision(DELAY) == server.revision(DELAY)
            server.add([batch(DELAY, [number], number=number)])
        assert [each.task.id for each in store.tasks()] == [each.task.id for each in server.tasks()]
        assert (store.keys(), store.sources()) == (server.keys(), [])
        assert (store.clock(), store.secret) == (server.clock(), server.secret)
        assert store.size > 0
        assert store.check() == []
    with closing(open_store(url, read_only=True)) as store:  # when nobody has it open
        assert store.counts(DELAY).tolist() == counted(DELAY, [1, 1, 203, 2, 3, 4])


CHANGES: dict[str, Callable[[Store], object]] = {
    "register": lambda store: store.register([DELAY]),
    "add": lambda store: store.add([batch(DELAY, [1], number=9)]),
    "close_task": lambda store: store.close_task(DELAY.id, 1),
    "prune": lambda store: store.prune(DELAY, 100),
    "advance_clock": lambda store: store.advance_clock(10**9),
    "add_key": lambda store: store.add_key(new_key("read", now=0)[1]),
    "revoke_key": lambda store: store.revoke_key("", 1),
    "replace_source": lambda store: store.replace_source("lake", {}, []),
    "merge": lambda store: store.merge(iter([]), 1),
    "vacuum": lambda store: store.vacuum(),
}


def test_nothing_can_be_changed(url: str) -> None:
    with closing(fill(url)) as server:
        before = list(server.export(ids=True)), server.keys(), server.clock()
        with closing(open_store(url, read_only=True)) as store:
            for name, change in CHANGES.items():
                if name == "vacuum" and url.startswith("postgresql"):
                    continue  # it changes no stored data
                with pytest.raises((StoreError, ParameterError)) as raised:
                    change(store)
                assert name == "merge" or isinstance(raised.value, StoreError), name
        after = list(server.export(ids=True)), server.keys(), server.clock()
        assert str(after) == str(before)


def test_there_must_be_a_store(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store at"):
        open_store(url, read_only=True)
    assert list(tmp_path.iterdir()) == []


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_reading_leaves_the_file_and_nothing_beside_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'odd ?#%20.db'}"
    fill(url).close()
    before = files(tmp_path)
    with closing(open_store(url, read_only=True)) as store:
        assert store.counts(DELAY).tolist() == counted(DELAY, [1, 1, 203])
        assert store.check() == []
        assert files(tmp_path) == before
    assert files(tmp_path) == before


def test_the_last_server_still_folds_its_log(path: Path) -> None:
    server = open_store(f"sqlite:///{path}")
    with read(path) as store:
        assert store.report_count(DELAY) == 3
        server.close()
        assert os.listdir(path.parent) == ["counts.db"]  # noqa: PTH208
        assert store.report_count(DELAY) == 3


def test_a_server_that_starts_while_a_file_is_read_is_noticed(path: Path) -> None:
    with read(path) as store:
        reading = store._database.read()  # type: ignore[attr-defined]
        reading.__enter__()
        with closing(open_store(f"sqlite:///{path}")) as server:
            server.add([batch(DELAY, [7], number=7)])
            with pytest.raises(StoreError, match="began to write"):
                reading.__exit__(None, None, None)
            assert store.report_count(DELAY) == 4


def test_a_file_with_a_journal_of_its_own_is_read_as_it_is(path: Path, tmp_path: Path) -> None:
    """A copy made by VACUUM INTO has no write-ahead log, and reading does not create one."""
    copy = tmp_path / "copy" / "copy.db"
    copy.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM INTO ?", [str(copy)])
    before = files(copy.parent)
    with read(copy) as store:
        assert store.report_count(DELAY) == 3
    assert files(copy.parent) == before


def test_a_file_that_goes_away_is_an_error_of_the_store(path: Path, tmp_path: Path) -> None:
    with read(path) as store:
        elsewhere = path.rename(tmp_path / "elsewhere.db")
        with pytest.raises(StoreError, match="cannot read"):
            store.report_count(DELAY)
        elsewhere.rename(path)
        assert store.report_count(DELAY) == 3


@pytest.mark.parametrize("content", [b"", b"SECRET" * 1000])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.db"
    path.write_bytes(content)
    with pytest.raises(StoreError):
        read(path)
    assert path.read_bytes() == content


def test_a_second_name_is_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "second.db").hardlink_to(path)
    with pytest.raises(StoreError, match="hard links"):
        read(path)


def test_an_older_schema_is_refused_with_the_command_to_run(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"has schema 2.*arcwise store migrate"):
        read(path)
    assert path.read_bytes() == before


def test_a_role_that_may_only_select_is_enough() -> None:
    with URLS["postgres"](Path()) as url, closing(fill(url)):
        role = f"reader_{secrets.token_hex(4)}"
        (schema,) = re.findall("search_path%3D(\\w+)", url)
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            for statement in (
                f"CREATE ROLE {role} LOGIN",
                f"GRANT USAGE ON SCHEMA {schema} TO {role}",
                f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
            ):
                connection.execute(statement.encode())
            try:
                with closing(open_store(f"{url}&user={role}", read_only=True)) as store:
                    assert store.counts(DELAY).tolist() == counted(DELAY, [1, 1, 203])
                    assert store.size > 0
                    assert store.recall("min_reports") is None
            finally:
                connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())
