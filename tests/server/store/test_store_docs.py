"""The commands of docs/operating.md on stores are run: backups, restores, migrations, moves."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from arcwise.server.store import open_store
from postgres import fresh_schema, own_url, programs
from store_samples import COUNTED, DELAY, REPLAYED, TASKS, batch, counted

PAGE = Path(__file__).parents[3] / "docs" / "operating.md"
DATABASE = "postgresql://arcwise@db.example/arcwise"


def commands(heading: str) -> list[str]:
    """Return the lines of shell under a heading of the page."""
    text = PAGE.read_text(encoding="utf-8")
    section = re.split(r"^##+ ", text.partition(f"### {heading}\n")[2], maxsplit=1, flags=re.M)[0]
    lines = [line for block in re.findall(r"```sh\n(.*?)```", section, re.S) for line in block.splitlines()]
    assert lines
    return lines


def run(line: str, path: str = "") -> str:
    """Run a line as a shell does, `arcwise` and `python` from this very environment."""
    words = shlex.split(line)
    if words[0] == "arcwise":
        words[:1] = [sys.executable, "-m", "arcwise.server.cli"]
    elif words[0] == "python":
        words[0] = sys.executable
    environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
    return subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_backup_and_restore_of_sqlite() -> None:
    backup, check, remove, copy = commands("SQLite: one machine")
    with closing(open_store("sqlite:///arcwise.db")) as store:
        store.register(TASKS)
        store.add([batch(DELAY, [1])])
        run(backup)  # while it is open
        store.add([batch(DELAY, [2], number=1)])
    assert run(check) == "the store is whole\n"
    run(remove)
    run(copy)
    with closing(open_store("sqlite:///arcwise.db")) as store:
        assert store.counts(DELAY).tolist() == counted(DELAY, [1])
        assert store.add([batch(DELAY, [1]), batch(DELAY, [2], number=1)]) == [REPLAYED, COUNTED]


@pytest.fixture
def own_schema() -> Iterator[str]:
    """Yield a URL on the server that the programs are made for."""
    with fresh_schema(own_url()) as schema:
        yield schema


def test_backup_and_restore_of_postgres(own_schema: str) -> None:
    serve, dump, restore = commands("PostgreSQL: several workers")
    assert serve.endswith(DATABASE)
    with closing(psycopg.connect(own_schema, autocommit=True)) as connection:
        (schema,) = connection.execute("SELECT current_schema()").fetchone() or ("",)
        server = own_schema.rpartition("options=")[0].rstrip(
            "?&"
        )  # the programs set a search path of their own
        with closing(open_store(own_schema)) as store:
            store.register(TASKS)
            store.add([batch(DELAY, [1])])
            run(dump.replace(DATABASE, f"'{server}'") + f" --schema={schema}", programs())
            store.add([batch(DELAY, [2], number=1)])
        connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())
        run(restore.replace(DATABASE, f"'{server}'"), programs())
    with closing(open_store(own_schema, create=False)) as store:
        assert store.check() == []
        assert store.counts(DELAY).tolist() == counted(DELAY, [1])
        assert store.add([batch(DELAY, [1]), batch(DELAY, [2], number=1)]) == [REPLAYED, COUNTED]


def test_moving_and_merging_and_migrating() -> None:
    with closing(open_store("sqlite:///arcwise.db")) as store:
        store.register(TASKS)
        store.add([batch(DELAY, [1])])
    for line in commands("Moving and merging"):
        run(line)
    for name in ("central", "elsewhere"):
        with closing(open_store(f"sqlite:///{name}.db")) as store:
            assert store.add([batch(DELAY, [1])]) == [REPLAYED]
    dry, wet = commands("A newer arcwise")
    assert run(dry) == run(wet) == "nothing to do\n"
