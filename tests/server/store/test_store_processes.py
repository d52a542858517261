"""Several processes on one store, one of which may be killed."""

import contextlib
import multiprocessing
import os
import signal
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import psycopg
import pytest

from arcwise.server.store import Outcome, Store, open_store
from arcwise.server.store.sqlite.database import Database
from arcwise.wire import Batch
from tests.soak.races import Race
from tests.support.store_samples import COUNTED, DELAY, REPLAYED, batch, counted
from tests.support.stores import Opener, opened

SPAWN = multiprocessing.get_context("spawn")
WRITERS = 4
GROUPS = 30
GROUP = 20


def write(url: str, writer: int, results: Connection) -> None:
    """Add groups of batches: half of each group belongs to this writer, the other half to all."""
    with opened(url) as store:
        new = 0
        for group in range(GROUPS):
            own = [
                batch(DELAY, [writer], number=10**6 * (writer + 1) + GROUP * group + n) for n in range(GROUP)
            ]
            shared = [batch(DELAY, [100], number=GROUP * group + n) for n in range(GROUP)]
            if writer % 2:
                shared.reverse()  # opposite orders, a deadlock unless the store sorts
            new += store.add(own + shared).count(COUNTED)
    results.send(new)


def test_processes_lose_nothing_and_count_nothing_twice(url: str) -> None:
    pipes = [SPAWN.Pipe(duplex=False) for _ in range(WRITERS)]
    writers = [SPAWN.Process(target=write, args=(url, number, pipe[1])) for number, pipe in enumerate(pipes)]
    for writer, (_, sender) in zip(writers, pipes, strict=True):
        writer.start()
        sender.close()  # a writer that fails then ends the wait below
    new = [pipe[0].recv() for pipe in pipes]
    for writer in writers:
        writer.join()
    with contextlib.closing(open_store(url, create=False)) as store:
        own = GROUPS * GROUP
        expected = dict.fromkeys([*range(WRITERS), 100], own)
        counts = store.counts(DELAY)
        assert {int(code): int(counts[code]) for code in counts.nonzero()[0]} == expected
        assert sum(new) == store.report_count(DELAY) == own * (WRITERS + 1)
        assert store.check() == []


def test_a_batch_that_reaches_two_workers_at_one_moment_is_counted_once(opener: Opener) -> None:
    places = list(range(50))
    start = threading.Barrier(2)

    def add(worker: Store, batches: list[Batch]) -> list[Outcome]:
        start.wait()
        return worker.add(batches)

    with opener() as one, opener() as two, ThreadPoolExecutor(2) as threads:
        for first in range(0, 20_000, 1000):
            batches = [batch(DELAY, [n], number=first + n) for n in places]
            outcomes = list(threads.map(add, (one, two), (batches, batches[::-1])))
            assert sum(told.count(COUNTED) for told in outcomes) == 50
        assert one.counts(DELAY).tolist() == counted(DELAY, places * 20)


def die_between_id_and_counts(url: str) -> None:
    with opened(url) as store:
        Database.add_counts = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
        store.add([batch(DELAY, [1])])


def test_a_sqlite_writer_killed_between_id_and_counts_leaves_neither(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    victim = SPAWN.Process(target=die_between_id_and_counts, args=(url,))
    victim.start()
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    with contextlib.closing(sqlite3.connect(f"{tmp_path}/a.db")) as connection:
        assert connection.execute("SELECT count(*) FROM batch").fetchone() == (0,)
    with contextlib.closing(open_store(url)) as store:
        assert store.counts(DELAY).sum() == 0
        assert store.add([batch(DELAY, [1])]) == [COUNTED]


def add_one(url: str) -> None:
    with contextlib.closing(open_store(url)) as store:
        store.add([batch(DELAY, [1])])


@pytest.mark.slow
@pytest.mark.parametrize("end", ["the process", "its backend"])
def test_a_postgres_writer_that_ends_between_id_and_counts_leaves_both_or_neither(
    postgres_url: str, end: str
) -> None:
    """A statement is stopped between ids and counts; then one process is killed, or both."""
    with (
        opened(postgres_url) as store,
        contextlib.closing(psycopg.connect(postgres_url, autocommit=True)) as connection,
    ):
        connection.execute(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_advisory_xact_lock(99); RETURN new; END $$;"
            "CREATE TRIGGER wait BEFORE INSERT ON counts FOR EACH ROW EXECUTE FUNCTION wait()"
        )
        connection.execute("SELECT pg_advisory_lock(99)")
        victim = SPAWN.Process(target=add_one, args=(postgres_url,))
        victim.start()
        backend = None
        while backend is None:
            backend = connection.execute(
                "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 99 AND NOT granted"
            ).fetchone()
            time.sleep(0.01)
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        if end == "its backend":
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", backend)
        connection.execute("SELECT pg_advisory_unlock(99)")
        # The server finishes the statement of a client that is gone, as if the reply had been lost.
        expected = REPLAYED if end == "the process" else COUNTED
        assert store.add([batch(DELAY, [1])]) == [expected]
        assert store.counts(DELAY).sum() == store.report_count(DELAY) == 1


@pytest.mark.slow
def test_all_that_changes_a_store_at_the_same_time_loses_nothing(url: str, tmp_path: Path) -> None:
    """Runs a soak for some seconds."""
    found = Race(url, tmp_path, seed=1).run(4.0)
    assert found.wrong == []
    assert len(found.done) > 3
