"""Stores of every earlier schema, frozen with their content, still open and lose nothing.

Freeze a new schema with ``python -m tests.server.store.test_store_schemas``, which writes the file of the
newest schema. Files of older schemas never change, because such stores exist.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
from psycopg import sql

from arcwise.domains import Circle, Interval
from arcwise.errors import StoreError
from arcwise.mechanisms import OptimalCircular, OptimalPiecewise
from arcwise.server.store import (
    SourceTask,
    StoredAction,
    StoredKey,
    StoredSession,
    StoredSource,
    migrate_store,
    open_store,
)
from arcwise.server.store.postgres import database as postgres
from arcwise.server.store.releases import Decided
from arcwise.server.store.sqlite import database as sqlite
from arcwise.server.store.staging import staging
from arcwise.tasks import Task
from tests.support.postgres import fresh_schema
from tests.support.store_samples import CLOSED, COUNTED, REPLAYED, batch, counted
from tests.support.stores import URLS, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.server.store.migrations import Migration

FOLDER = Path(__file__).parent / "schemas"
KINDS = {"sqlite": sqlite._MIGRATIONS, "postgres": postgres._MIGRATIONS}

DELAY = Task("delay", Interval(0, 1), 1.0, mechanism=OptimalPiecewise(Interval(0, 1), 1.0, nodes=3))
HEADING = Task("heading", Circle(360), 1.0, mechanism=OptimalCircular(Circle(360), 1.0, nodes=8))
OLD, NEW = batch(DELAY, [0, 1, 1], number=1, epoch=20), batch(DELAY, [2], number=2, epoch=31)
SHUT = batch(HEADING, [3, 4], number=1, epoch=21)
KEYS = [
    StoredKey("k1", bytes(range(32)), "ingest", None, "the app; Größe", 1_000, 5_000),
    StoredKey("k2", bytes(32), "read", (DELAY.id,), "", 2_000, None),
]
CLOSED_AT, OPEN_FROM, CLOCK, REPLACED = 86_400, 10, 1_700_000_000, 1_700_000_100
WITHOUT_KEYS = {("sqlite", 1)}
WITHOUT_CLOCK = {("sqlite", 1), ("sqlite", 2), ("postgres", 1)}
WITHOUT_SOURCES = {("sqlite", 1), ("sqlite", 2), ("sqlite", 3), ("postgres", 1), ("postgres", 2)}
WITHOUT_STAGED = WITHOUT_SOURCES | {("sqlite", 4), ("postgres", 3)}
WITHOUT_SESSIONS = WITHOUT_STAGED | {("sqlite", 5), ("postgres", 4)}
WITHOUT_RELEASES = WITHOUT_SESSIONS | {("sqlite", 6), ("postgres", 5)}
METRICS_KEY = StoredKey("k3", bytes(reversed(range(32))), "metrics", None, "Prometheus", 3_000, None)
SESSION = StoredSession(bytes(range(32, 64)), "k2", 4_000, 4_100, 5_000)
ACTION = StoredAction(4_200, "k2", "close task", "heading", "done")
LAKE = batch(DELAY, [2, 2], number=7, epoch=31)


COMPATIBILITY = Path(__file__).parents[3] / "docs" / "reference" / "compatibility.md"


@pytest.mark.parametrize(("kind", "title"), [("sqlite", "SQLite"), ("postgres", "PostgreSQL")])
def test_compatibility_names_every_schema(kind: str, title: str) -> None:
    assert f"| store in {title} | 1 to {len(KINDS[kind])} |" in COMPATIBILITY.read_text(encoding="utf-8")


def fill(url: str) -> None:
    """Fill a store with every kind of data of this version."""
    with opened(url, [DELAY, HEADING]) as store:
        store.add([batch(DELAY, [0], number=9, epoch=9), OLD, SHUT])
        staging(store).add_staged([NEW])
        store.prune(DELAY, OPEN_FROM)
        store.release(DELAY, OPEN_FROM)
        for key in [*KEYS, METRICS_KEY]:
            store.add_key(key)
        store.add_session(SESSION)
        store.begin_action(ACTION)
        store.remember("min_reports", 50)
        store.close_task(HEADING.id, CLOSED_AT)
        store.advance_clock(CLOCK)
        counts = {(LAKE.task_id, 31): np.array(counted(DELAY, [2, 2]))}
        store.replace_source("lake", counts, [(LAKE.task_id, 31, LAKE.batch_id)], now=REPLACED)


def dump_sqlite(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return "\n".join([*connection.iterdump(), f"PRAGMA user_version = {version};\n"])


def dump_postgres(url: str, migrations: list[Migration]) -> str:
    """Return the scripts that made the tables, and the rows; the text does not depend on a tool's version."""
    with closing(psycopg.connect(url)) as connection:
        ((version,),) = connection.execute("SELECT version FROM arcwise_schema").fetchall()
        text = [step.script for step in migrations if step.version <= version]
        text.append("CREATE TABLE arcwise_schema (version integer NOT NULL);")
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
        )
        for (table,) in tables.fetchall():
            rows = connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table)))
            text.append(f"DELETE FROM {table};")
            text += [
                sql.SQL("INSERT INTO {} OVERRIDING SYSTEM VALUE VALUES ({});")
                .format(sql.Identifier(table), sql.SQL(", ").join(map(sql.Literal, row)))
                .as_string(connection)
                for row in rows.fetchall()
            ]
    text.append("SELECT setval(pg_get_serial_sequence('task', 'number'), (SELECT max(number) FROM task));\n")
    return "\n".join(text)


def restore(kind: str, version: int, url: str) -> None:
    script = (FOLDER / f"{kind}_{version}.sql").read_text(encoding="utf-8")
    if kind == "sqlite":
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.executescript(script)
    else:
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            connection.execute(script.encode())


def tables(kind: str, url: str) -> list[tuple[Any, ...]]:
    """Return the definition of everything in a store except its rows."""
    if kind == "sqlite":
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            return connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
    with closing(psycopg.connect(url)) as connection:
        ((schema,),) = connection.execute("SELECT current_schema()").fetchall()
        found = connection.execute(
            "SELECT table_name, column_name, data_type, is_nullable, column_default FROM"
            " information_schema.columns WHERE table_schema = current_schema() UNION ALL"
            " SELECT tablename, indexdef, '', '', '' FROM pg_indexes WHERE schemaname = current_schema()"
            " UNION ALL SELECT proname, prosrc, '', '', '' FROM pg_proc"
            " WHERE pronamespace = current_schema()::regnamespace ORDER BY 1, 2"
        ).fetchall()
    return [tuple(str(each).replace(schema, "S") for each in row) for row in found]


FROZEN = [(kind, step.version) for kind, steps in KINDS.items() for step in steps]


@pytest.fixture(params=FROZEN, ids=lambda frozen: f"{frozen[0]}-{frozen[1]}")
def frozen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, int, str]]:
    """Yield the kind, the schema and the URL of a frozen store."""
    kind, version = request.param
    with URLS[kind](tmp_path / "old") as url:
        restore(kind, version, url)
        yield kind, version, url


def test_every_schema_is_frozen() -> None:
    """If a schema has no file: run this module, look at its output, and commit it."""
    names = {path.stem for path in FOLDER.iterdir()}
    assert names == {f"{kind}_{version}" for kind, version in FROZEN}


def test_a_store_of_any_schema_keeps_everything(frozen: tuple[str, int, str]) -> None:
    kind, version, url = frozen
    newest = KINDS[kind][-1].version
    with_lake = (kind, version) not in WITHOUT_SOURCES
    if version < newest:
        with pytest.raises(StoreError, match=f"has schema {version}; .*arcwise store migrate "):
            open_store(url)
    assert [step.version for step in migrate_store(url)] == list(range(version + 1, newest + 1))
    with closing(open_store(url, create=False)) as store:
        assert store.check() == []
        assert {epoch: counts.tolist() for epoch, counts in store.counts_by_epoch(DELAY).items()} == {
            9: counted(DELAY, [0]),
            20: counted(DELAY, [0, 1, 1]),
            31: counted(DELAY, [2, 2, 2] if with_lake else [2]),
        }
        assert store.reports_by_epoch(HEADING) == {21: 2}
        assert [store.report_count(task) for task in (DELAY, HEADING)] == [5 + 2 * with_lake, 2]
        lake = StoredSource("lake", REPLACED, (SourceTask(DELAY.id, 31, 31, 1, 2),))
        assert store.sources() == ([lake] if with_lake else [])
        with_sessions = (kind, version) not in WITHOUT_SESSIONS
        keys = [] if (kind, version) in WITHOUT_KEYS else KEYS
        assert store.keys() == keys + [METRICS_KEY] * with_sessions
        assert store.session(SESSION.digest) == (SESSION if with_sessions else None)
        assert [entry for _, entry in store.actions(10)] == [ACTION] * with_sessions
        assert store.recall("min_reports") == (50 if with_sessions else None)
        assert store.clock() == (None if (kind, version) in WITHOUT_CLOCK else CLOCK)
        closed_at = None if (kind, version) in WITHOUT_KEYS else CLOSED_AT
        assert [(each.task, each.closed, each.open_from) for each in store.tasks()] == [
            (DELAY, None, OPEN_FROM),
            (HEADING, closed_at, 0),
        ]
        with_releases = (kind, version) not in WITHOUT_RELEASES
        assert store.decided(DELAY) == (Decided(OPEN_FROM, 0) if with_releases else Decided(0, 0))
        assert store.released(DELAY) == ({9: 1} if with_releases else {})
        waiting = [each.batch for each in staging(store).staged(-1, 10, 1000)]
        assert waiting == ([] if (kind, version) in WITHOUT_STAGED else [NEW])
        late = batch(DELAY, [0], number=3, epoch=OPEN_FROM - 1)
        fresh = batch(DELAY, [0], number=4, epoch=OPEN_FROM)
        shut = CLOSED if closed_at else REPLAYED
        assert store.add([OLD, NEW, late, fresh, SHUT]) == [REPLAYED, REPLAYED, CLOSED, COUNTED, shut]
        assert store.add([LAKE]) == [REPLAYED if with_lake else COUNTED]
        assert store.report_count(DELAY) == 8
        assert len(store.secret) == 32
        assert store.check() == []


def test_a_migrated_store_has_the_tables_of_a_new_one(frozen: tuple[str, int, str], tmp_path: Path) -> None:
    kind, _, url = frozen
    migrate_store(url)
    with URLS[kind](tmp_path / "new") as new:
        open_store(new).close()
        assert tables(kind, url) == tables(kind, new)


def test_a_frozen_store_is_what_its_migrations_make(
    frozen: tuple[str, int, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A released migration must not be edited, because a store of its schema would then differ."""
    kind, version, url = frozen
    with URLS[kind](tmp_path / "made") as made:
        if kind == "sqlite":
            monkeypatch.setattr(sqlite, "_MIGRATIONS", KINDS[kind][:version])
            sqlite.Database(tmp_path / "made.db").close()
        else:
            postgres.Database(made).migrate(version)
        assert tables(kind, url) == tables(kind, made)


def test_rows_of_sqlites_schema_2_become_as_small_as_they_can(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}"
    restore("sqlite", 2, url)
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection, connection:
        connection.execute("INSERT INTO counts VALUES (1, 22, ?)", (np.ones(3, "<i8").tobytes(),))
        connection.execute("UPDATE total SET reports = reports + 3 WHERE task = 1")
    assert [step.version for step in migrate_store(url, to=3)] == [3]
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        rows = connection.execute("SELECT epoch, codes, length(per_code) FROM counts ORDER BY 1").fetchall()
    assert rows == [
        (9, b"\0\0", 8),
        (20, b"\0\0\1\0", 16),
        (21, b"\3\0\4\0", 16),
        (22, None, 24),
        (31, b"\2\0", 8),
    ]
    migrate_store(url)
    with closing(open_store(url)) as store:
        assert store.check() == []
        assert store.counts_by_epoch(DELAY)[22].tolist() == [1, 1, 1]


def freeze() -> None:
    """Write the files of the newest schemas."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "new.db"
        fill(f"sqlite:///{path}")
        (FOLDER / f"sqlite_{sqlite._MIGRATIONS[-1].version}.sql").write_text(dump_sqlite(path), "utf-8")
    with fresh_schema() as url:
        fill(url)
        text = dump_postgres(url, postgres._MIGRATIONS)
        (FOLDER / f"postgres_{postgres._MIGRATIONS[-1].version}.sql").write_text(text, "utf-8")


if __name__ == "__main__":
    freeze()
