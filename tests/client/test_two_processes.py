"""Several processes, threads and clients on one ledger's file share one budget and spend it once.

A real server counts; every report has a unique number. The only timeouts here end a hang.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from arcwise.client import FileLedger, HttpxTransport, Outcome
from arcwise.domains import Interval
from arcwise.kernels import WindowKernel
from arcwise.mechanisms import OptimalPiecewise
from arcwise.tasks import DAY, Caps, Task
from tests.support.fixed_draw import FixedDraw
from tests.support.unlimited import Client
from tests.support.waiting import Started, in_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
HANG = 120
NUMBERS = 10_000
DOMAIN = Interval(0, NUMBERS)
MECHANISM = OptimalPiecewise(DOMAIN, 1.0, nodes=NUMBERS + 1)
LIFETIME = Task("lifetime", DOMAIN, 1.0, mechanism=MECHANISM, caps=Caps(lifetime=170.0))
ROLLING = Task("rolling", DOMAIN, 1.0, mechanism=MECHANISM, caps=Caps(rolling=130.0, window=30 * DAY))
EVERYTHING = Caps(lifetime=290.0)
"""Takes effect first: both tasks together may spend 300."""


class Server:
    """A running server and its store."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        (self._store,) = folder.glob("*.db")

    def counted(self) -> set[tuple[str, int]]:
        """Return the counted reports by task and number; check that none is counted twice."""
        from arcwise.server.store import open_store  # not for the processes that report

        store = open_store(f"sqlite:///{self._store}")
        try:
            counts = {task.name: store.counts(task) for task in (LIFETIME, ROLLING)}
        finally:
            store.close()
        assert max(each.max() for each in counts.values()) <= 1
        return {(name, int(number)) for name, each in counts.items() for number in each.nonzero()[0]}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    from arcwise.cli.demo.run import running_server  # not for the processes that report

    folder = tmp_path / "server"
    folder.mkdir()
    with running_server(folder, [LIFETIME, ROLLING]) as (url, _server):
        yield Server(url, folder)


def client_of(url: str, ledger: FileLedger) -> Client:
    kernel = MECHANISM.kernel
    assert isinstance(kernel, WindowKernel)
    return Client(
        url,
        tasks=[LIFETIME, ROLLING],
        ledger=ledger,
        caps=EVERYTHING,
        # A value just above a node becomes that node's code: the report's own number.
        randomness=FixedDraw(2**64 - 1, kernel.codes * kernel.background),
        batch_size=7,
        interval=0.0,
        transport=HttpxTransport(trust_env=False),
    )


def spend(client: Client, first: int) -> list[tuple[str, int]]:
    """Report numbers from `first` to both tasks until no cap allows more; return the accepted ones."""
    accepted: list[tuple[str, int]] = []
    capped: set[str] = set()
    number = first
    while len(capped) < 2:
        for task in {"lifetime", "rolling"} - capped:
            outcome = client.report(task, number + 1e-6)
            if outcome:
                accepted.append((task, number))
            elif outcome is Outcome.CAPPED:
                capped.add(task)
            else:  # another process wrote for longer than the ledger waits: nothing was charged
                assert outcome is Outcome.FAILED
        number += 1
    return accepted


def spend_from_threads(client: Client, first: int, threads: int = 3) -> list[tuple[str, int]]:
    """Let several threads spend, each with its own numbers; return the accepted ones."""
    spenders = [partial(spend, client, first + 300 * which) for which in range(threads)]
    return [report for each in in_threads(*spenders, patience=HANG) for report in each]


def check(server: Server, path: Path, accepted: list[tuple[str, int]]) -> None:
    """Check that exactly the allowed reports were accepted, charged, sent and counted, each once."""
    assert len(accepted) == 290
    for task, most in (("lifetime", 170), ("rolling", 130)):
        assert most - 10 <= sum(name == task for name, _ in accepted) <= most
    with FileLedger(path) as ledger:
        client = client_of(server.url, ledger)
        assert client.budget().epsilon == 290.0
        assert client.flush(HANG)  # the batch that one process had leased when it ended
        counters = client.counters
        client.close()
    assert (counters.pending, counters.sent, counters.dropped) == (0, 290, {})
    assert server.counted() == set(accepted)


def one_process(url: str, path: str, first: int, relaxed: bool) -> None:
    """The work of each process; it sends back the accepted numbers."""
    with FileLedger(path, relaxed=relaxed) as ledger:
        client = client_of(url, ledger)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        accepted = spend_from_threads(client, first)
        client.flush(HANG)
        client.close()
    sys.stdout.write(json.dumps(accepted))


@pytest.mark.slow
@pytest.mark.parametrize(
    "modes",
    [
        pytest.param((False, False, False), id="strict", marks=pytest.mark.slow),
        pytest.param((True, True, True), id="relaxed", marks=pytest.mark.slow),
        pytest.param((True, False, True), id="mixed"),
    ],
)
def test_processes_of_several_threads_spend_one_budget(
    server: Server, path: Path, modes: tuple[bool, ...]
) -> None:
    code = "import json, sys\n"
    code += "from tests.client.test_two_processes import one_process; one_process(*json.loads(sys.argv[1]))"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, json.dumps([server.url, str(path), 1000 * which, relaxed])],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for which, relaxed in enumerate(modes)
    ]
    try:
        for process in processes:  # all at the same moment
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        outputs = [process.communicate(timeout=HANG)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert [process.returncode for process in processes] == [0] * len(modes)
    accepted = [(task, number) for output in outputs for task, number in json.loads(output)]
    check(server, path, accepted)


def forked(deed: Callable[[], list[tuple[str, int]]]) -> Callable[[], list[tuple[str, int]]]:
    """Call a function in a forked child; return a function that waits for the child and its result."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # this test is about forks with threads
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reader)
            with os.fdopen(writer, "w") as pipe:
                json.dump(deed(), pipe)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)

    def wait() -> list[tuple[str, int]]:
        deadline = time.monotonic() + HANG
        while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
            if time.monotonic() > deadline:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
                pytest.fail("a child hangs")
            time.sleep(0.01)
        with os.fdopen(reader) as pipe:
            assert ended[1] == 0
            return [(task, number) for task, number in json.load(pipe)]

    return wait


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    "relaxed", [pytest.param(False, id="strict", marks=pytest.mark.slow), pytest.param(True, id="relaxed")]
)
def test_forked_children_spend_their_parents_budget(server: Server, path: Path, relaxed: bool) -> None:
    with FileLedger(path, relaxed=relaxed) as ledger, client_of(server.url, ledger) as client:
        accepted = [
            ("lifetime", number) for number in range(9000, 9020) if client.report("lifetime", number + 1e-6)
        ]
        assert len(accepted) == 20  # its sender runs, and has a connection

        def child(first: int) -> list[tuple[str, int]]:
            accepted = spend_from_threads(client, first)
            client.flush(HANG)
            return accepted

        # Each is forked while its parent and the earlier children spend.
        parent = Started(lambda: spend_from_threads(client, 0))
        children = [forked(lambda first=first: child(first)) for first in (1000, 2000, 3000)]  # type: ignore[misc]
        for wait in children:
            accepted += wait()
        accepted += parent.result(HANG)
        assert client.flush(HANG)
    check(server, path, accepted)


FORKS = """
import os, sys, threading
from arcwise.client import FileLedger
sys.setswitchinterval(1e-6)
ledgers = [FileLedger(sys.argv[1]) for _ in range(3)]

def fork():
    for _ in range(100):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)

def use():
    for _ in range(200):
        for ledger in ledgers:
            with ledger._database.reading():
                pass

threads = [threading.Thread(target=each) for each in (fork, fork, fork, use)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_threads_that_fork_at_the_same_moment_do_not_wait_for_ever(path: Path) -> None:
    """In a separate process, which can be ended if they do."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS, str(path)], check=True, timeout=HANG)


@pytest.mark.slow
@pytest.mark.parametrize(
    "modes",
    [
        pytest.param((False, False), id="strict", marks=pytest.mark.slow),
        pytest.param((False, True), id="mixed"),
    ],
)
def test_two_clients_of_one_process_spend_one_budget(
    server: Server, path: Path, modes: tuple[bool, ...]
) -> None:
    ledgers = [FileLedger(path, relaxed=relaxed) for relaxed in modes]
    # And a third client, on the first client's ledger.
    clients = [client_of(server.url, ledger) for ledger in (*ledgers, ledgers[0])]
    spenders = [partial(spend, client, 1000 * which) for which, client in enumerate(clients)]
    accepted = in_threads(*spenders, patience=HANG)
    for client in clients:
        assert client.flush(HANG)
        assert client.close()
    for ledger in ledgers:
        ledger.close()
    check(server, path, [report for each in accepted for report in each])
