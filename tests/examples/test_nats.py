"""examples/nats in practice: a device, a broker that is killed meanwhile, a consumer, a lake, a server."""

from __future__ import annotations

import asyncio
import contextlib
import runpy
import secrets
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from arcwise.cli.demo.run import running_server
from arcwise.domains import Circle
from arcwise.server.store import open_store
from arcwise.tasks import Caps, Task
from arcwise.wire import Batch, decode_batch, encode_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

nats: Any = pytest.importorskip("nats", reason="nats-py is not installed")

FOLDER = Path(__file__).parents[2] / "examples" / "nats"
HEADING = Task("heading", Circle(360), 1.0, caps=Caps(lifetime=1.0))
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
    assert messages(broker) == 0


def publish(broker: Broker, batches: list[Batch]) -> list[str]:
    """Publish batches; return for each "stored", "duplicate" or "refused"."""

    async def scenario() -> list[str]:
        connection = await nats.connect(broker.url)
        found = []
        for batch in batches:
            headers = {"Nats-Msg-Id": batch.batch_id.hex()}
            try:
                told = await connection.jetstream().publish(
                    "arcwise.reports", encode_batch(batch), headers=headers
                )
                found.append("duplicate" if told.duplicate else "stored")
            except nats.js.errors.APIError:
                found.append("refused")
        await connection.close()
        return found

    return asyncio.run(scenario())


def messages(broker: Broker, **changes: int) -> int:
    """Return the number of messages in the stream, after a change of its bounds."""

    async def scenario() -> int:
        connection = await nats.connect(broker.url)
        stream = connection.jetstream()
        info = await stream.stream_info("ARCWISE")
        if changes:
            info = await stream.update_stream(info.config, **changes)
        await connection.close()
        return int(info.state.messages)

    return asyncio.run(scenario())


def batches(task: Task, number: int) -> list[Batch]:
    epoch = task.epoch(time.time())
    return [Batch(bytes.fromhex(task.id), secrets.token_bytes(16), epoch, b"\x07") for _ in range(number)]


def test_a_full_stream_has_room_again_for_what_was_taken(broker: Broker, tmp_path: Path) -> None:
    lake = str(tmp_path / "landed")
    consume(broker, "--lake", lake)
    messages(broker, max_msgs=3)
    sent = batches(HEADING, 7)
    assert publish(broker, sent[:4]) == ["stored"] * 3 + ["refused"]
    assert consume(broker, "--lake", lake) == 3
    assert publish(broker, sent[2:7]) == ["duplicate", *["stored"] * 3, "refused"]
    assert consume(broker, "--lake", lake) == 3
    assert {each.batch_id for each in landed(Path(lake))} == {each.batch_id for each in sent[:6]}


def test_the_server_takes_what_it_can_and_the_rest_goes(broker: Broker, tmp_path: Path) -> None:
    consume(broker, "--lake", str(tmp_path / "landed"))
    with running_server(tmp_path, [HEADING]) as (url, _):
        publish(broker, batches(HEADING, 5) + batches(Task("other", Circle(360), 2.0), 2))
        told = program("consumer.py", broker.url, "--server", url, "--until-idle")
        out, err = told.communicate(timeout=SECONDS)
        assert (told.returncode, out) == (0, "5 messages taken\n"), err
        assert err.count("refused a batch permanently: 404 unknown-task") == 2
        assert messages(broker) == 0
        publish(broker, batches(HEADING, 2))
        # Another server's 404: nothing is lost.
        told = program("consumer.py", broker.url, "--server", f"{url}/elsewhere", "--until-idle")
        _, err = told.communicate(timeout=SECONDS)
        assert told.returncode == 1
        assert "the server refuses everything: 404" in err
        assert "Traceback" not in err
        assert consume(broker, "--server", url) == 2
    with contextlib.closing(open_store(f"sqlite:///{tmp_path / 'arcwise.db'}")) as store:
        assert store.report_count(HEADING) == 7


@pytest.mark.parametrize(
    ("status", "kind", "retry_after", "fate", "seconds"),
    [
        (204, None, None, "TAKEN", 0),
        *((status, "kind", None, "REFUSED", 0) for status in (400, 409, 410, 413, 415, 422)),
        (404, "unknown-task", None, "REFUSED", 0),
        (404, "not-found", None, "STOPPED", 0),
        (413, None, None, "REFUSED", 0),
        (404, None, None, "STOPPED", 0),
        (401, "key-missing", None, "STOPPED", 0),
        (403, None, None, "STOPPED", 0),
        (429, "too-many-requests", "60", "LATER", 60),
        (503, "store-busy", "2", "LATER", 2),
        (503, None, None, "LATER", 1),
        (500, None, None, "LATER", 1),
    ],
)
def test_what_an_answer_means(
    status: int, kind: str | None, retry_after: str | None, fate: str, seconds: float
) -> None:
    judge = runpy.run_path(str(FOLDER / "consumer.py"))["judge"]
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    content = {"text": "somebody"} if kind is None else {"json": {"type": f"urn:arcwise:problem:{kind}"}}
    found = judge(httpx.Response(status, headers=headers, **content))
    assert (found.fate.name, found.seconds) == (fate, seconds)
    assert bool(found.reason) == (fate == "STOPPED")
