"""Durable ingestion beside empty handlers, on one server in one run.

The server is one uvicorn process with the app of `create_app` on a SQLite file (WAL, synchronous=FULL),
to which two routes are added that do nothing: a FastAPI handler and a plain ASGI one. The load comes
from another process over 64 connections. Rounds are interleaved; the ratios are those of the medians.

    python benchmarks/ingest.py
"""

from __future__ import annotations

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from arcwise.domains import Interval
from arcwise.tasks import Task

CONNECTIONS = 64
ROUNDS = 5
REQUESTS = 8_000
BATCHES = 400
BATCH_CODES = 10_000
HERE = Path(__file__).parent
TASK = Task("benchmark", Interval(0, 1), epsilon=1.0)


def serve(store: str, port_file: str) -> None:
    """Run the server in this process; used by the benchmark as a subprocess."""
    from fastapi import Response
    from starlette.routing import Route

    from arcwise.server import Settings, create_app
    from arcwise.server.cli.serve import run

    app = create_app(Settings([TASK], store=store, estimates_apart=True))

    @app.post("/empty")
    async def empty() -> Response:
        return Response(status_code=204)

    class Plain:
        async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
            await receive()
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    app.router.routes.insert(1, Route("/plain", Plain(), methods=["POST"]))
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    Path(port_file).write_text(str(listener.getsockname()[1]), encoding="ascii")
    run(app, listener)


def load(port: int, path: str, count: int, batch: int = 0) -> float:
    """Send the load and return requests a second."""
    job = {"port": port, "path": path, "count": count, "connections": CONNECTIONS}
    if batch:
        job |= {
            "task": TASK.id,
            "epoch": TASK.epoch(time.time()),
            "batch": batch,
            "codes": TASK.mechanism.kernel.codes,
        }
    command = [sys.executable, str(HERE / "load.py"), json.dumps(job)]
    output = subprocess.run(command, check=True, capture_output=True, timeout=300).stdout
    result = json.loads(output)
    if result["statuses"] != {"204": count}:
        raise SystemExit(f"unexpected answers: {result['statuses']}")
    return count / float(result["seconds"])


def run() -> None:
    """Print requests a second and the ratios."""
    from arcwise.server.store import open_store

    with tempfile.TemporaryDirectory() as folder:
        store, port_file = f"sqlite:///{folder}/arcwise.db", Path(folder, "port")
        server = subprocess.Popen([sys.executable, __file__, "serve", store, str(port_file)], env=os.environ)
        try:
            deadline = time.monotonic() + 30
            while not port_file.exists() or not port_file.read_text(encoding="ascii"):
                if time.monotonic() > deadline:
                    raise SystemExit("the server did not start")
                time.sleep(0.05)
            port = int(port_file.read_text(encoding="ascii"))
            reports = f"/v1/tasks/{TASK.id}/reports"
            kinds = {
                "empty FastAPI handler": ("/empty", REQUESTS, 0),
                "empty ASGI route": ("/plain", REQUESTS, 0),
                "durable single reports": (reports, REQUESTS, 1),
                f"batches of {BATCH_CODES:,}": (reports, BATCHES, BATCH_CODES),
            }
            rates: dict[str, list[float]] = {kind: [] for kind in kinds}
            for round_number in range(ROUNDS + 1):
                for kind, (path, count, batch) in kinds.items():
                    rate = load(port, path, count, batch)
                    if round_number:  # the first round warms up
                        rates[kind].append(rate)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)
        total = int(open_store(store).counts(TASK).sum())
        expected = (ROUNDS + 1) * (REQUESTS + BATCHES * BATCH_CODES)
        if total != expected:
            raise SystemExit(f"the store counts {total} reports, {expected} were acknowledged")
    base = statistics.median(rates["empty FastAPI handler"])
    print(f"ingestion, {CONNECTIONS} connections, one worker, SQLite FULL")
    for kind, values in rates.items():
        rate = statistics.median(values)
        print(f"  {kind:<24} {rate:>9,.0f} requests/s   {rate / base:5.2f} of the empty FastAPI handler")
    codes = statistics.median(rates[f"batches of {BATCH_CODES:,}"]) * BATCH_CODES
    print(f"  {'':<24} {codes / 1e6:>9,.1f} million codes/s")
    print(f"  every acknowledged report is in the store: {total:,}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2], sys.argv[3])
    else:
        run()
