"""A server killed with SIGKILL under load: every acknowledged report is there once, whatever happened.

Each batch carries a code that no other batch carries, so a 2 anywhere is a double count and a 0 a loss.
"""

import concurrent.futures
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx

from arcwise.domains import Interval
from arcwise.mechanisms import OptimalPiecewise
from arcwise.server.store import open_store
from arcwise.tasks import Task
from arcwise.wire import MEDIA_TYPE, Batch, encode_batch, pack_codes

DOMAIN = Interval(0, 1)
TASK = Task("kill", DOMAIN, 1.0, mechanism=OptimalPiecewise(DOMAIN, 1.0, nodes=32_000))
KILLS = 4
CONNECTIONS = 8


def start(folder: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "arcwise.server.cli", "serve", "--port", "0", "--tasks", str(folder)]
    server = subprocess.Popen(
        [*command, "--store", f"sqlite:///{folder / 'kill.db'}"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout
    line = server.stdout.readline()
    assert line.startswith("arcwise is listening on http://127.0.0.1:")
    return server, line.split()[-1]


def body(number: int) -> bytes:
    epoch = TASK.epoch(time.time())
    return encode_batch(
        Batch(bytes.fromhex(TASK.id), number.to_bytes(16, "big"), epoch, pack_codes([number], 2))
    )


def test_nothing_acknowledged_is_lost_or_counted_twice(tmp_path: Path) -> None:
    TASK.save(tmp_path / "kill.json")
    generator = random.Random(9)
    numbers = iter(range(TASK.mechanism.kernel.codes))
    bodies: dict[int, bytes] = {}
    acknowledged: set[int] = set()
    lock = threading.Lock()

    def send(url: str) -> None:
        with httpx.Client(base_url=url, headers={"content-type": MEDIA_TYPE}, timeout=10) as http:
            while True:
                with lock:
                    number = next(numbers)
                    bodies[number] = body(number)
                try:
                    answer = http.post(f"/v1/tasks/{TASK.id}/reports", content=bodies[number])
                except httpx.HTTPError:
                    return  # killed: whether this one was counted is not known
                assert answer.status_code == 204
                with lock:
                    acknowledged.add(number)

    for _ in range(KILLS):
        server, url = start(tmp_path)
        with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as pool:
            senders = [pool.submit(send, url) for _ in range(CONNECTIONS)]
            before = len(acknowledged)
            while len(acknowledged) < before + 50:
                time.sleep(0.01)
            time.sleep(generator.uniform(0, 0.2))
            os.kill(server.pid, signal.SIGKILL)
            for sender in senders:
                sender.result(30)
        server.wait(10)
        assert server.stdout
        server.stdout.close()

        store = open_store(f"sqlite:///{tmp_path / 'kill.db'}")
        counts = store.counts(TASK)
        store.close()
        assert counts.max() == 1
        assert {number for number in acknowledged if counts[number] != 1} == set()

    # The senders resend everything, as clients do that lost the answer: still once each.
    server, url = start(tmp_path)
    with httpx.Client(base_url=url, headers={"content-type": MEDIA_TYPE}, timeout=10) as http:
        for sent in bodies.values():
            assert http.post(f"/v1/tasks/{TASK.id}/reports", content=sent).status_code == 204
    server.terminate()
    assert server.wait(20) == -signal.SIGTERM  # uvicorn ends by the signal it was sent, once all is written
    assert server.stdout
    server.stdout.close()
    store = open_store(f"sqlite:///{tmp_path / 'kill.db'}")
    counts = store.counts(TASK)
    store.close()
    assert counts.sum() == len(bodies)
    assert counts.max() == 1
