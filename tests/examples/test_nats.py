"""examples/nats, run for real: a device, a broker that is killed meanwhile, a consumer, a lake, a server."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from arcwise.cli.demo.run import running_server
from arcwise.domains import Circle
from arcwise.server.store import open_store
from arcwise.tasks import Task
from arcwise.wire import Batch, decode_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parents[2] / "examples" / "nats"
HEADING = Task("heading", Circle(360), 1.0)
REPORTS = 20_000
SECONDS = 60.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nats-server") is None, reason="nats-server is not installed"),
]


class Broker:
    """A nats-server that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self._port}"
        self._command = ["nats-server", "-js", "-sd", str(folder), "-a", "127.0.0.1", "-p", str(self._port)]

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port)):
                return
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    pytest.importorskip("nats", reason="nats-py is not installed")
    broker = Broker(tmp_path / "stream")
    broker.start()
    yield broker
    broker.kill()


def program(name: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(FOLDER / name), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, err
    return out


def consume(broker: Broker, *sink: str) -> int:
    return int(ended(program("consumer.py", broker.url, *sink, "--until-idle")).split()[0])


def landed(folder: Path) -> list[Batch]:
    from pyarrow import parquet

    files = [parquet.read_table(file) for file in folder.glob("*.parquet")]
    assert all(table.column_names == ["body"] for table in files)
    return [decode_batch(body) for table in files for body in table.column("body").to_pylist()]


def test_every_report_arrives_once_over_a_kill_of_the_broker(broker: Broker, tmp_path: Path) -> None:
    HEADING.save(tmp_path / "heading.json")
    lake = tmp_path / "landed"
    assert consume(broker, "--lake", str(lake)) == 0  # it makes the stream
    device = program("device.py", broker.url, str(tmp_path / "heading.json"), str(REPORTS))
    taken = 0
    deadline = time.monotonic() + SECONDS
    while not taken:  # in the middle of it
        taken = consume(broker, "--lake", str(lake))
        assert time.monotonic() < deadline
    broker.kill()
    broker.start()
    assert ended(device) == f"{REPORTS} acknowledged, 0 still pending\n"
    taken += consume(broker, "--lake", str(lake))
    batches = landed(lake)
    assert len(batches) == taken
    unique = {batch.batch_id: batch for batch in batches}
    assert sum(len(batch.codes) for batch in unique.values()) == REPORTS
    counts = np.bincount(
        np.frombuffer(b"".join(batch.codes for batch in unique.values()), "u1"),
        minlength=HEADING.mechanism.kernel.codes,
    )
    with running_server(tmp_path, [HEADING]) as (url, _):
        assert consume(broker, "--server", url) >= taken  # of its own: the stream keeps its messages
    with contextlib.closing(open_store(f"sqlite:///{tmp_path / 'arcwise.db'}")) as store:
        assert store.counts(HEADING).tolist() == counts.tolist()
