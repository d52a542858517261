"""A task whose central statement is not true comes into no store, by whichever way."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from arcwise.cli import main
from arcwise.domains import Interval
from arcwise.errors import CertificateError
from arcwise.server.keys import new_key
from arcwise.server.store import open_store
from arcwise.tasks import CentralStatement, Task
from arcwise.wire import Batch
from tests.support.lake import Row, arrow_table

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.apps import Serve

pytestmark = pytest.mark.anyio

ONCE = CentralStatement(1.0, 1e-8, 10_000)
TRUE = Task("true", Interval(0, 100), 5.17, caps=ONCE.caps(5.17, 86_400), central=ONCE)
TOO_GOOD = CentralStatement(0.9, 1e-8, 10_000)
UNTRUE = Task("secret", Interval(0, 100), 5.17, caps=TOO_GOOD.caps(5.17, 86_400), central=TOO_GOOD)
PLAIN = Task("plain", Interval(0, 100), 1.0)
WORDS = (
    " is not true. It promises epsilon = 0.9, delta = 1e-08, for the counts of one epoch, each closed with "
    "at least 10,000 reports and one report of a device; what holds of its kernel is epsilon = 0.99"
)


def known(url: str) -> list[Task]:
    with closing(open_store(url)) as store:
        return [entry.task for entry in store.tasks()]


def fails(*args: str) -> str:
    done = CliRunner().invoke(main, args)
    assert done.exit_code == 1, done.output
    return " ".join(done.output.split())


async def test_an_admin_gets_422(serve: Serve, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'app.db'}"
    secret, key = new_key("admin", now=time.time())
    with closing(open_store(url)) as store:
        store.add_key(key)

    http = await serve([PLAIN])
    http.headers["authorization"] = f"Bearer {secret}"
    answer = await http.post("/v1/tasks", json=UNTRUE.to_json())
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:arcwise:problem:untrue-statement")
    assert answer.json()["detail"].startswith(
        f"The server does not take the task: the central statement of this task{WORDS}"
    )
    assert "secret" not in answer.text
    assert (await http.post("/v1/tasks", json=TRUE.to_json())).status_code == 201
    assert (await http.post("/v1/tasks", json=TRUE.to_json())).status_code == 200
    await http.stop()
    assert known(url) == [PLAIN, TRUE]


async def test_a_server_does_not_start_with_it(serve: Serve, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'app.db'}"
    with pytest.raises(CertificateError, match=r"^the central statement of task 'secret' is not true\."):
        await serve([TRUE, UNTRUE])
    assert known(url) == []
    UNTRUE.save(tmp_path / "secret.json")
    said = fails("serve", "--tasks", str(tmp_path), "--store", url, "--port", "0")
    assert said.startswith(f"Error: the central statement of task 'secret'{WORDS}")
    assert known(url) == []


async def test_what_a_store_has_is_not_checked_at_each_start(serve: Serve, tmp_path: Path) -> None:
    """The id covers kernel and statement; several releases take seconds, and devices have it."""
    url = f"sqlite:///{tmp_path / 'app.db'}"
    with closing(open_store(url)) as store:
        store.register([UNTRUE])  # as an older version did

    http = await serve([UNTRUE])
    assert http.runtime.catalogue.tasks.keys() == {UNTRUE.id}


def test_a_merge_does_not_bring_it(tmp_path: Path) -> None:
    target, other = (f"sqlite:///{tmp_path / name}" for name in ("target.db", "other.db"))
    with closing(open_store(other)) as store:
        store.register([TRUE, UNTRUE])
        store.add([Batch(bytes.fromhex(TRUE.id), bytes(16), 3, b"\x01")])
    assert "of task 'secret' is not true" in fails("store", "merge", target, other)
    assert known(target) == []
    with closing(open_store(target)) as store:
        store.register([UNTRUE])  # what it has, it keeps
    assert CliRunner().invoke(main, ["store", "merge", target, other]).exit_code == 0
    assert known(target) == [UNTRUE, TRUE]


@pytest.mark.slow  # of its libraries
def test_a_count_does_not_bring_it(tmp_path: Path) -> None:
    UNTRUE.save(tmp_path / "secret.json")
    url, lake = f"sqlite:///{tmp_path / 'app.db'}", tmp_path / "lake.parquet"
    pq.write_table(arrow_table([Row(UNTRUE.id, 20_000, bytes(16), (1,))]), lake)
    said = fails(
        "count", str(lake), "--task", str(tmp_path / "secret.json"), "--into", url, "--source", "lake"
    )
    assert "of task 'secret' is not true" in said
    assert known(url) == []
