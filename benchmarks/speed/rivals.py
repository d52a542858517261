"""Durable single reports against other servers for single numbers over HTTP, all in one run, in turns.

Every server listens on 127.0.0.1 and gets one report a request from one load generator over keep-alive
connections. The guarantees for an acknowledged report differ:

- arcwise, SQLite: counted once, in the write-ahead log of the file, fsync before the answer.
- arcwise, PostgreSQL: counted once, in the server's write-ahead log, fsync before the answer.
- InfluxDB 1.x (`influxd` on the path), a point of one field with a time of its own: in its write-ahead log,
  fsync before the answer (`wal-fsync-delay = "0s"`, its default). A point that is sent again overwrites
  itself.
- Prometheus Pushgateway (`prometheus-pushgateway`), one sample, a group for each connection: in memory,
  written to a file every five minutes. Only the last sample of a group is kept, without a sum.
- an empty ASGI handler under uvicorn: nothing is kept. It shows the basic cost of any server in this
  language.

The CPU of a report is user and system time of all processes of a server; for arcwise on PostgreSQL, the
worker and PostgreSQL's own. The load generator's time is shown separately; it uses the same cores.

    python -m benchmarks.speed.rivals [--connections 64] [--rounds 7] [--requests 8000]
"""

from __future__ import annotations

import argparse
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.speed.cpu_time import children_of, cpu_seconds, parent_of
from benchmarks.speed.ingest import REPORTS, Load, check, finish, server, start, store_url
from benchmarks.speed.tables import Table, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.speed.tables import Show

__all__ = ["run"]

CONNECTIONS = 64
ROUNDS = 7
REQUESTS = 8_000
PUSHES = 1_000
"""Requests to Pushgateway in a round: it handles a tenth of the others' rate."""

_INFLUX = """
reporting-disabled = true
bind-address = "127.0.0.1:{rpc}"
[meta]
  dir = "{folder}/meta"
[data]
  dir = "{folder}/data"
  wal-dir = "{folder}/wal"
  wal-fsync-delay = "0s"
  query-log-enabled = false
[monitor]
  store-enabled = false
[http]
  bind-address = "127.0.0.1:{port}"
  log-enabled = false
"""


class Contender(NamedTuple):
    """A server that takes reports: its port and process, its load, and its database's first process."""

    port: int
    process: int
    load: Load
    database: int = 0


class Measured(NamedTuple):
    """Requests a second, percentiles in ms, CPU of a request in us: all, the database, the generator."""

    rate: float
    p50: float
    p99: float
    cpu: float
    database: float
    generator: float


def free_port() -> int:
    """Return a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server answers."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.1)
    raise SystemExit(f"{url} does not answer")


@contextmanager
def program(command: list[str], url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server without a log, and stop it."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(url, process)
        yield process
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def influxdb(folder: str, requests: int) -> Iterator[Contender]:
    """Run InfluxDB with its data in a folder."""
    port, rpc = free_port(), free_port()
    config = Path(folder, "influxdb.conf")
    config.write_text(_INFLUX.format(folder=folder, port=port, rpc=rpc), encoding="utf-8")
    with program(["influxd", "run", "-config", str(config)], f"http://127.0.0.1:{port}/ping") as process:
        query = f"http://127.0.0.1:{port}/query?q=CREATE+DATABASE+reports"
        urllib.request.urlopen(urllib.request.Request(query, method="POST")).close()
        load = Load("/write?db=reports", requests, kind="point")
        yield Contender(port, process.pid, load)


@contextmanager
def pushgateway(folder: str, _requests: int) -> Iterator[Contender]:
    """Run Prometheus Pushgateway with its file in a folder."""
    port = free_port()
    command = [
        "prometheus-pushgateway",
        f"--web.listen-address=127.0.0.1:{port}",
        f"--persistence.file={folder}/pushed",
    ]
    with program(command, f"http://127.0.0.1:{port}/-/ready") as process:
        load = Load("/metrics/job/reports/instance", PUSHES, kind="push", answer="200")
        yield Contender(port, process.pid, load)


def round_of(contender: Contender, connections: int) -> Measured:
    """Send a contender its load and wait for the end."""
    database = [contender.database, *children_of(contender.database)] if contender.database else []
    before = cpu_seconds([contender.process]), cpu_seconds(database)
    result = finish(start(contender.port, contender.load, connections), contender.load)
    used = cpu_seconds([contender.process]) - before[0], cpu_seconds(database) - before[1]
    each = 1e6 / contender.load.requests
    return Measured(
        contender.load.requests / result["seconds"],
        result["p50"],
        result["p99"],
        sum(used) * each,
        used[1] * each,
        result["cpu"] * each,
    )


def postmaster(url: str) -> int:
    """Return the first process of the PostgreSQL at a URL, or 0 if it is not on this machine."""
    import psycopg

    with psycopg.connect(url) as connection:
        if not connection.info.host.startswith(("/", "127.", "localhost")):
            return 0
        return parent_of(connection.info.backend_pid)


def run(
    connections: int = CONNECTIONS,
    rounds: int = ROUNDS,
    requests: int = REQUESTS,
    *,
    show: Show = print_table,
) -> None:
    """Show requests a second and CPU of every server that is installed."""
    single = Load(REPORTS, requests, 1)
    with ExitStack() as stack:
        contenders: dict[str, Contender] = {}
        stores: list[str] = []
        for kind, name in (("sqlite", "SQLite"), ("postgresql", "PostgreSQL")):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            url = stack.enter_context(store_url(kind, folder))
            worker = stack.enter_context(server(url, folder))
            database = postmaster(url) if kind == "postgresql" else 0
            contenders[f"arcwise, {name}"] = Contender(worker.port, worker.process.pid, single, database)
            stores.append(url)
        for name, where in (("InfluxDB", influxdb), ("Pushgateway", pushgateway)):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            with suppress(FileNotFoundError):  # not installed
                contenders[name] = stack.enter_context(where(folder, requests))
        first = contenders["arcwise, SQLite"]
        contenders["empty ASGI handler"] = first._replace(load=Load("/plain", requests))
        taken: dict[str, list[Measured]] = {name: [] for name in contenders}
        for number in range(rounds + 1):
            for name, contender in contenders.items():
                measured = round_of(contender, connections)
                if number:  # the first round warms up
                    taken[name].append(measured)
        for url in stores:
            check(url, (rounds + 1) * requests)
    medians = {
        name: Measured(*map(statistics.median, zip(*each, strict=True))) for name, each in taken.items()
    }
    beside = medians.get("InfluxDB")
    show(
        Table(
            "ingest-rivals",
            "python -m benchmarks.speed.rivals",
            [
                ("one report a request", ""),
                ("requests/s", ",.0f"),
                ("beside InfluxDB", ".2f"),
                ("p50 ms", ".1f"),
                ("p99 ms", ".1f"),
                ("CPU us", ".0f"),
                ("of which database", ".0f"),
                ("generator us", ".0f"),
            ],
            [
                [name, each.rate, each.rate / beside.rate if beside else None, *each[1:]]
                for name, each in medians.items()
            ],
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    given = parser.parse_args()
    run(given.connections, given.rounds, given.requests)


if __name__ == "__main__":
    main()
