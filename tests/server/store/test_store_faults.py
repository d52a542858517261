"""Lost replies, a database that crashes and comes back, full disks: nothing is lost or counted twice."""

import contextlib
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import psycopg
import pytest

from arcwise.errors import StoreError
from arcwise.server.store import Store, open_store
from tests.soak.kills.database import LossyProxy
from tests.support.postgres import OwnServer, fresh_schema, wait_until_ready
from tests.support.postgres_guard import PATIENCE, is_there
from tests.support.store_samples import COUNTED, DELAY, REPLAYED, TASKS, WIDE, batch, counted
from tests.support.stores import opened

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[LossyProxy]:
    """Yield a proxy that loses the very next reply: a statement that is its own transaction is committed."""
    with LossyProxy(postgres_url, among=1) as opened:
        yield opened


def test_a_commit_whose_reply_was_lost_is_neither_erased_nor_doubled(
    proxy: LossyProxy, postgres_url: str
) -> None:
    with opened(proxy.url) as store:
        assert store.add([batch(DELAY, [1]), batch(WIDE, [5])]) == [COUNTED, COUNTED]
        proxy.lose_next()
        # The store tries again by itself, and finds its own ids.
        group = [batch(DELAY, [2, 2], number=1), batch(WIDE, [300], number=1)]
        assert store.add(group) == [REPLAYED, REPLAYED]
        assert proxy.lost == 1
        assert store.add([batch(DELAY, [3], number=2)]) == [COUNTED]
    with contextlib.closing(open_store(postgres_url)) as other:
        assert other.counts(DELAY).tolist() == counted(DELAY, [1, 2, 2, 3])
        assert other.counts(WIDE).tolist() == counted(WIDE, [5, 300])


def test_a_reply_lost_on_a_network_that_stays_down(proxy: LossyProxy, postgres_url: str) -> None:
    with opened(proxy.url) as store:
        store.add([batch(DELAY, [1])])
        proxy.lose_next()
        proxy.take_down()
        with pytest.raises(StoreError, match="cannot write to postgresql://"):
            store.add([batch(DELAY, [2], number=1)])
        with pytest.raises(StoreError):
            store.add([batch(DELAY, [2], number=1)])
        proxy.take_down(False)
        assert store.add([batch(DELAY, [2], number=1)]) == [REPLAYED]  # had been counted all the same
    with contextlib.closing(open_store(postgres_url)) as other:
        assert other.counts(DELAY).tolist() == counted(DELAY, [1, 2])


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    """Yield a PostgreSQL that tests may crash."""
    own = OwnServer()
    yield own
    own.stop()


@pytest.mark.slow
def test_a_database_that_crashes_under_load(server: OwnServer) -> None:
    """Each code is sent by one batch only, so a 2 is a double count and a missing 1 is a loss."""
    with fresh_schema(server.url) as url:
        stop = threading.Event()
        progress: list[int] = []
        failures: list[int] = []

        def write(store: Store, number: int) -> None:
            while not stop.is_set():
                with contextlib.suppress(StoreError):
                    store.add([batch(DELAY, [number % 200], number=number, epoch=number // 200)])
                    progress.append(number)
                    number += 3
                    continue
                failures.append(number)
                time.sleep(0.02)

        def wait_for_more() -> None:
            enough = len(progress) + 60
            while len(progress) < enough:
                time.sleep(0.01)

        with contextlib.ExitStack() as stack:
            # All of them are open and registered before the first crash, even if a thread starts late.
            stores = [stack.enter_context(opened(url)) for _ in range(3)]
            threads = [threading.Thread(target=write, args=(store, n)) for n, store in enumerate(stores)]
            for thread in threads:
                thread.start()
            for _ in range(3):
                wait_for_more()
                failed = len(failures)
                server.crash()
                while len(failures) == failed:
                    time.sleep(0.01)
                server.start()
                wait_until_ready(url)
            wait_for_more()
            stop.set()
            for thread in threads:
                thread.join()
        with contextlib.closing(open_store(url)) as store:
            found = {
                epoch * 200 + int(code): int(counts[code])
                for epoch, counts in store.counts_by_epoch(DELAY).items()
                for code in counts.nonzero()[0]
            }
            assert set(found.values()) == {1}
            assert set(progress) <= set(found)
            # A last attempt that failed and was not repeated may have been counted: at most one per writer.
            assert len(set(found) - set(progress)) <= 3
            assert store.check() == []


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Limit the size of the files that processes started meanwhile can write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.slow
def test_a_full_disk_under_postgres_stores_nothing_of_the_group_and_heals(server: OwnServer) -> None:
    """The server must not let a table grow any more, which PostgreSQL treats as a full disk."""
    with fresh_schema(server.url) as url, contextlib.closing(open_store(url)) as store:
        store.register(TASKS)
        store.add([batch(DELAY, [1])])
        with contextlib.closing(psycopg.connect(url, autocommit=True)) as connection:
            # Other ids, until the table is larger than a segment of the log (16 MiB): the limit must not hit
            # the log.
            connection.execute(
                "INSERT INTO batch SELECT 0, decode(lpad(to_hex(n), 32, '0'), 'hex'), 0"
                " FROM generate_series(1, 400000) n"
            )
            (size,) = connection.execute("SELECT pg_relation_size('batch')").fetchone() or (0,)
        assert size > 17 * 2**20
        server.crash()
        with largest_file((size // 8192 + 4) * 8192):
            server.start()
        group = [batch(DELAY, [2], number=n) for n in range(1, 4000)]
        with pytest.raises(StoreError, match="File too large"):
            store.add(group)
        assert store.counts(DELAY).tolist() == counted(DELAY, [1])
        assert store.add([batch(DELAY, [1])]) == [REPLAYED]
        server.crash()
        server.start()
        assert store.add(group) == [COUNTED] * 3999
        assert store.counts(DELAY).tolist() == counted(DELAY, [1] + [2] * 3999)
        assert [problem for problem in store.check() if "task 0" not in problem] == []


def fill(url: str, results: Connection) -> None:
    """Fill a store in which no file may grow beyond 256 KiB, then repeat without that limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with opened(url) as store:
        store.add([batch(DELAY, [1])])
        resource.setrlimit(resource.RLIMIT_FSIZE, (256 * 1024, hard))
        group = [batch(DELAY, [2], number=n) for n in range(1, 20_000)]
        try:
            store.add(group)
        except StoreError as error:
            results.send(str(error))
        results.send(int(store.counts(DELAY).sum()))
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        results.send(store.add([batch(DELAY, [1]), *group]).count(COUNTED))
        results.send(store.check())


@pytest.mark.slow
def test_a_full_disk_under_sqlite(tmp_path: Path) -> None:
    receiver, sender = SPAWN.Pipe(duplex=False)
    child = SPAWN.Process(target=fill, args=(f"sqlite:///{tmp_path / 'a.db'}", sender))
    child.start()
    sender.close()
    told = [receiver.recv() for _ in range(4)]
    child.join()
    assert "cannot write to" in told[0]
    assert told[1:] == [1, 19_999, []]


ROOT = Path(__file__).parents[3]
START = (
    "from tests.support.postgres import OwnServer; server = OwnServer(); "
    "print(server.pid, server.folder, flush=True); "
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("then", "ending"), [("input()", signal.SIGKILL), ("", None)], ids=["killed", "ended"]
)
def test_the_server_ends_with_the_process_that_started_it(then: str, ending: signal.Signals | None) -> None:
    """Even if nobody has the time to clean up."""
    with subprocess.Popen(
        [sys.executable, "-c", START + then],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        pid, folder = run.stdout.readline().split()
        if ending is not None:
            assert is_there(int(pid))
            os.kill(run.pid, ending)
        run.wait(PATIENCE)
    until = time.monotonic() + PATIENCE
    while is_there(int(pid)) or Path(folder).exists():
        assert time.monotonic() < until
        time.sleep(0.02)
