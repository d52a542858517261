"""Backup and restore, as docs/howto/run-a-server.md does them, while batches come in.

What was acknowledged before the backup is there once, and what is sent again counts once, whether it was in
the backup or came after it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from arcwise.server.store import open_store
from tests.support.postgres import own_url, programs
from tests.support.store_samples import COUNTED, DELAY, REPLAYED, batch
from tests.support.stores import opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.wire import Batch

BATCHES = [batch(DELAY, [number % 7, 3], number=number, epoch=100 + number % 3) for number in range(120)]


def followed(live: str, back_up: Callable[[], object], restore: Callable[[], str]) -> None:
    """Back a store up while it takes batches, restore the backup, and send everything again."""
    acknowledged: list[Batch] = []
    begun, enough = threading.Event(), threading.Event()
    with opened(live) as store:

        def take() -> None:
            for number, each in enumerate(BATCHES):
                assert store.add([each]) == [COUNTED]
                acknowledged.append(each)
                if number == 20:
                    begun.set()
                if number == 60:
                    assert enough.wait(60)  # some come after the backup, however slow it is

        taking = threading.Thread(target=take)
        taking.start()
        assert begun.wait(60)
        before = list(acknowledged)
        back_up()
        enough.set()
        taking.join()
    with contextlib.closing(open_store(restore(), create=False)) as store:
        assert store.check() == []
        there = store.report_count(DELAY) // 2
        assert len(before) <= there < len(BATCHES)
        outcomes = [store.add([each])[0] for each in BATCHES]
        assert outcomes == [REPLAYED] * there + [COUNTED] * (len(BATCHES) - there)
        expected = DELAY.count([code for number in range(120) for code in (number % 7, 3)])
        assert store.counts(DELAY).tolist() == expected.tolist()  # each once
        assert store.check() == []


def test_sqlite(tmp_path: Path) -> None:
    live, backup, restored = (tmp_path / name for name in ("arcwise.db", "backup.db", "restored.db"))

    def back_up() -> None:
        with contextlib.closing(sqlite3.connect(live)) as connection:
            connection.execute("VACUUM INTO ?", [str(backup)])

    def restore() -> str:
        restored.write_bytes(backup.read_bytes())
        return f"sqlite:///{restored}"

    followed(f"sqlite:///{live}", back_up, restore)


@pytest.mark.slow
def test_postgresql(tmp_path: Path) -> None:
    url = own_url()
    dump = tmp_path / "backup.dump"
    names = [f"{part}_{os.getpid()}" for part in ("live", "restored")]
    live, restored = (psycopg.conninfo.make_conninfo(url, dbname=name) for name in names)
    urls = [url.replace("/postgres?", f"/{name}?", 1) for name in names]

    def run(program: str, *arguments: str) -> None:
        subprocess.run([str(Path(programs()) / program), *arguments], check=True, timeout=60)

    with contextlib.closing(psycopg.connect(url, autocommit=True)) as connection:
        for name in names:
            connection.execute(f"CREATE DATABASE {name}".encode())
        try:

            def restore() -> str:
                run("pg_restore", "--exit-on-error", "--dbname", restored, str(dump))
                return urls[1]

            followed(
                urls[0],
                lambda: run("pg_dump", "--format=custom", f"--file={dump}", "--dbname", live),
                restore,
            )
        finally:
            for name in names:
                connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
