"""SIGKILLs of a process that reports, at random moments: ``python -m tests.soak.kill_client --kills 1000``.

One process has everything imported and forks the others: each opens the ledger, reports as fast as it can
while its uplink sends, and is killed. Every report is numbered, and the draws turn its number into its code.
After each kill, the ledger and the arrived batches together show which reports exist: as many as were
charged, each of them once. No more reports were charged than that, and none left without a charge. At the end
all of them arrive.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import psycopg

from arcwise.client import Client, FileLedger, HttpxTransport, PostgresLedgers
from arcwise.client.ledger import OutboxOptions
from arcwise.domains import Interval
from arcwise.kernels import WindowKernel
from arcwise.mechanisms import OptimalPiecewise
from arcwise.tasks import Task
from arcwise.wire import decode_batch
from tests.support.fixed_draw import FixedDraw
from tests.support.ledgers import ledger_schema, ledger_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from arcwise.client import Ledger


NUMBERS = 20_000
"""Reports are numbered up to this, and then from 0 again."""
DOMAIN = Interval(0, NUMBERS)
TASK = Task("kill", DOMAIN, 1.0, mechanism=OptimalPiecewise(DOMAIN, 1.0, nodes=NUMBERS + 1))
LONGEST = 0.06
"""Seconds after which a process is killed at the latest; more if a first batch takes longer to arrive."""


KERNEL = TASK.mechanism.kernel
assert isinstance(KERNEL, WindowKernel)
THROUGH = FixedDraw(2**64 - 1, KERNEL.codes * KERNEL.background)
"""A draw that lets a value just above a node through: its code is the node's number."""


def client_of(url: str, ledger: Ledger) -> Client:
    return Client(
        url,
        tasks=[TASK],
        ledger=ledger,
        caps="unlimited",
        randomness=THROUGH,
        batch_size=50,
        interval=0.0,
        max_pending=1000,
        request_timeout=1.0,  # in a database, a killed process's batch is leased for twice as long
        transport=HttpxTransport(trust_env=False, verify=False),
    )


ACCOUNT = "somebody"


def opened(mode: str, place: str) -> Ledger:
    """Open a ledger: of a file, or of an account in the schema of a database, ``URL SCHEMA``."""
    if mode.startswith("postgres"):
        url, schema = place.split()
        return PostgresLedgers(url, schema=schema, relaxed=mode.endswith("relaxed")).account(ACCOUNT)
    return FileLedger(place, relaxed=mode == "relaxed", create=not Path(place).exists())


def report_for_ever(url: str, place: str, mode: str) -> None:
    client = client_of(url, opened(mode, place))
    number = round(client.budget("kill").epsilon / TASK.epsilon)
    while True:
        if client.report("kill", number % NUMBERS + 1e-6):
            number += 1
        else:  # the queue is full: let the sender catch up
            time.sleep(0.001)


def fork_on_demand(url: str) -> None:
    """Fork a process for every line of input; print its id, and later its exit status."""
    import arcwise.client.postgres.database  # noqa: F401

    logging.getLogger("arcwise.client").disabled = True
    with tempfile.TemporaryDirectory() as folder:  # late imports happen before the forks
        ledger = FileLedger(Path(folder) / "first.db", create=True)
        client = client_of("http://127.0.0.1:9", ledger)
        client.report("kill", 0)
        client.close(1.0)
        ledger.close()
    for line in sys.stdin:
        mode, place = line.rstrip("\n").split(" ", 1)
        pid = os.fork()
        if pid == 0:
            try:
                report_for_ever(url, place, mode)
            finally:
                os._exit(3)
        print(pid, flush=True)
        print(os.waitpid(pid, 0)[1], flush=True)


class Recorder:
    """A server that accepts every batch, once by its id, and answers 204."""

    def __init__(self) -> None:
        self.counts = np.zeros(TASK.mechanism.kernel.codes, np.int64)  # of the batches that arrived
        self.batches: set[bytes] = set()
        self.repeats = 0
        self._lock = threading.Lock()
        self._open = 0
        self._last: object = None
        self._idle = threading.Condition(self._lock)
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                body = self.rfile.read(length)
                if len(body) < length:  # killed while it wrote
                    self.close_connection = True
                    return
                recorder.take(body)
                self.send_response(204)
                self.end_headers()

            def handle(self) -> None:
                try:
                    super().handle()
                except ConnectionError:  # killed while it was answered
                    pass
                finally:
                    recorder.connections(-1)

            def log_message(self, *args: object) -> None:
                """Log nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def get_request(self) -> tuple[socket.socket, Any]:
                connection, address = super().get_request()
                recorder.connections(1, address)
                return connection, address

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    def take(self, body: bytes) -> None:
        batch = decode_batch(body)
        with self._lock:
            if batch.batch_id in self.batches:
                self.repeats += 1
                return
            self.batches.add(batch.batch_id)
            self._idle.notify_all()
            np.add.at(self.counts, np.frombuffer(batch.codes, "<u2"), 1)

    def first(self) -> float:
        """Return the number of seconds until a batch arrives."""
        start = time.perf_counter()
        with self._lock:
            assert self._idle.wait_for(lambda: self.batches, 30)
        return time.perf_counter() - start

    def connections(self, more: int, address: object = None) -> None:
        with self._lock:
            self._open += more
            self._last = address or self._last
            self._idle.notify_all()

    def settle(self) -> None:
        """Wait until everything that was sent has arrived and every connection has ended.

        This includes connections of a dead process that nobody has accepted yet: they come before a
        connection of this process.
        """
        with socket.create_connection(("127.0.0.1", self._server.server_port)) as connection:
            own = connection.getsockname()
            with self._lock:
                assert self._idle.wait_for(lambda: self._last == own, 30)
        with self._lock:
            assert self._idle.wait_for(lambda: self._open == 0, 30)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Kills(NamedTuple):
    """The result of a series of kills: numbers of reports, except `kills` and `repeats` (of batches)."""

    kills: int
    charged: int
    released: int
    repeats: int
    unacknowledged: int
    """Reports that had arrived when their process was killed before it knew; the largest number."""


class Written(NamedTuple):
    """The content of a ledger: micro-epsilon, reports pending and sent, codes that wait, sealed batches."""

    micro: int
    pending: int
    sent: int
    waiting: list[int]
    bodies: list[bytes]


def read_file(place: str) -> Written:
    FileLedger(place).close()  # which checks the whole file
    with closing(sqlite3.connect(place)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        (micro,) = connection.execute("SELECT coalesce(max(epsilon), 0) FROM accounts").fetchone()
        pending, sent = connection.execute("SELECT pending, sent FROM state").fetchone()
        waiting = [code for (code,) in connection.execute("SELECT code FROM reports")]
        return Written(micro, pending, sent, waiting, [body for (body,) in connection.execute(BODIES)])


def read_database(place: str) -> Written:
    url, schema = place.split()
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        while one(connection, OTHERS):  # a killed process's sent statements are still executed
            time.sleep(0.002)
        connection.execute(f"SET search_path TO {schema}".encode())
        micro = one(connection, "SELECT contents->'accounts'->''->'epsilon' FROM accounts") or 0
        sent = one(connection, "SELECT sent FROM state")
        waiting = [code for (code,) in connection.execute("SELECT code FROM reports")]
        bodies = [body for (body,) in connection.execute(BODIES)]
    with PostgresLedgers(url, schema=schema) as ledgers:
        pending = ledgers._open_outbox(OutboxOptions(batch_size=1, capacity=1)).pending
    return Written(micro, pending, sent, waiting, bodies)


def one(connection: psycopg.Connection[Any], query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


BODIES = "SELECT body FROM batches"
OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'arcwise-client'"


def check(mode: str, place: str, recorder: Recorder) -> tuple[int, int]:
    """Check a ledger against the arrived batches; return the numbers of reports charged and acknowledged."""
    read = read_database if mode.startswith("postgres") else read_file
    micro, pending, sent, waiting, bodies = read(place)
    sealed = [decode_batch(body) for body in bodies]
    charged, rest = divmod(micro, TASK.charge.micro_epsilon)
    assert rest == 0
    queued = len(waiting) + sum(len(batch.codes) // 2 for batch in sealed)
    assert queued == pending
    assert charged == pending + sent, "charged, and neither queued nor sent"
    released = int(recorder.counts.sum())
    assert sent <= released <= charged, "left without a charge, or acknowledged and lost"
    codes = recorder.counts + TASK.count(waiting)
    for batch in sealed:
        if batch.batch_id not in recorder.batches:
            codes = codes + np.bincount(np.frombuffer(batch.codes, "<u2"), minlength=len(codes))
    whole, part = divmod(charged, NUMBERS)
    expected = np.zeros_like(codes)
    expected[:NUMBERS] = whole
    expected[:part] += 1
    assert (codes == expected).all(), "a report is there twice, or not at all"
    return charged, sent


class Forks:
    """Processes that report to a recorder, one after the other, while entered."""

    def __init__(self, seed: int) -> None:
        self.recorder = Recorder()
        self._random = random.Random(seed)
        self._forks = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.kill_client", "--forks", self.recorder.url],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Forks:
        return self

    def __exit__(self, *_error: object) -> None:
        self._forks.communicate()
        self.recorder.close()
        assert self._forks.returncode == 0

    def kill(self, mode: str, place: str, wait: Callable[[], object]) -> None:
        """Let a process begin, kill it after a wait, and wait for the data that it has sent."""
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        self._forks.stdin.write(f"{mode} {place}\n")
        self._forks.stdin.flush()
        pid = int(self._forks.stdout.readline())
        wait()
        os.kill(pid, signal.SIGKILL)
        status = int(self._forks.stdout.readline())
        assert os.WTERMSIG(status) == signal.SIGKILL, "it ended by itself"
        self.recorder.settle()

    def kill_within(self, mode: str, place: str, longest: float) -> None:
        """Kill a process at a random moment within this many seconds."""
        self.kill(mode, place, lambda: time.sleep(self._random.uniform(0, longest)))


def kill_reporting(place: str, mode: str, kills: int, seed: int) -> Kills:
    """Kill processes that report to one ledger and one server, and check both after each kill.

    The ledger exists and is unused.
    """
    unacknowledged = 0
    with Forks(seed) as forks:
        recorder = forks.recorder
        firsts: list[float] = []
        forks.kill(mode, place, lambda: firsts.append(recorder.first()))
        for _ in range(kills):
            forks.kill_within(mode, place, max(LONGEST, 2 * firsts[0]))
            _, sent = check(mode, place, recorder)
            unacknowledged = max(unacknowledged, int(recorder.counts.sum()) - sent)
        ledger = opened(mode, place)
        with client_of(recorder.url, ledger) as client:
            assert client.flush(60)
            assert client.pending == 0
        ledger._database.close()  # type: ignore[attr-defined]
        charged, sent = check(mode, place, recorder)
        released = int(recorder.counts.sum())
        assert charged == sent == released
    return Kills(kills, charged, released, recorder.repeats, unacknowledged)


def kill_while_made(folder: Path, kills: int, seed: int, longest: float = 0.05) -> int:
    """Kill processes that make their ledger first: it is complete or absent. Return how many are complete."""
    made = 0
    with Forks(seed) as forks:
        for number in range(kills):
            path = folder / f"made{number}.db"
            forks.kill_within("strict", str(path), longest)
            if path.exists():
                made += 1
                check("strict", str(path), forks.recorder)
                forks.recorder.counts[:] = 0
                forks.recorder.batches.clear()
            else:
                assert not forks.recorder.batches
    return made


def places(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (mode, place) of a new ledger of each kind."""
    for mode in ("strict", "relaxed"):
        path = folder / f"{mode}.db"
        FileLedger(path, create=True).close()
        yield mode, str(path)
    for mode in ("postgres", "postgres-relaxed"):
        with hosted_place() as place:
            yield mode, place


@contextmanager
def hosted_place() -> Iterator[str]:
    """Give the place of a new account in a separate schema."""
    with ledger_schema() as schema:
        with PostgresLedgers(ledger_url(), schema=schema, create=True) as ledgers:
            ledgers.create_account(ACCOUNT)
        yield f"{ledger_url()} {schema}"


def table(kills: int, seed: int) -> Iterator[str]:
    yield f"{'':17}{'kills':>6}{'charged':>9}{'released':>10}{'batches again':>15}{'unacknowledged':>16}  s"
    with tempfile.TemporaryDirectory() as name:
        for mode, place in places(Path(name)):
            start = time.perf_counter()
            went = kill_reporting(place, mode, kills, seed)
            yield (
                f"{mode:17}{went.kills:6}{went.charged:9,}{went.released:10,}{went.repeats:15}"
                f"{went.unacknowledged:16}  {time.perf_counter() - start:.0f}"
            )
        made = kill_while_made(Path(name), kills, seed)
        yield f"{made} of {kills} ledgers were made before the kill, whole; {kills - made} not at all"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500, help="in each mode")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--forks", metavar="URL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.forks:
        fork_on_demand(arguments.forks)
    else:
        for row in table(arguments.kills, arguments.seed):
            print(row, flush=True)
