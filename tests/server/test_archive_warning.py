"""An archive keeps batches, so beside a task with a central statement it warns: once for each task."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from arcwise.domains import Interval
from arcwise.server.keys import new_key
from arcwise.server.store import open_store
from arcwise.tasks import CentralStatement, Task

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.apps import Serve

pytestmark = pytest.mark.anyio

ONCE = CentralStatement(1.0, 1e-8, 10_000)
GIVEN, STORED, ADDED = (
    Task(name, Interval(0, 100), 5.17, caps=ONCE.caps(5.17, 86_400), central=ONCE)
    for name in ("given", "stored", "added")
)
PLAIN = Task("plain", Interval(0, 100), 1.0)


@pytest.mark.parametrize("archive", [True, False])
async def test_an_archive_beside_a_central_task_warns(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture, archive: bool
) -> None:
    caplog.set_level(logging.WARNING, "arcwise.server")
    secret, key = new_key("admin", now=time.time())
    with closing(open_store(f"sqlite:///{tmp_path / 'app.db'}")) as store:
        store.add_key(key)
        store.register([STORED])

    def warned() -> list[list[str]]:
        said = [record.getMessage() for record in caplog.records if "central statement" in record.message]
        caplog.clear()
        return [
            [task.name for task in (GIVEN, STORED, ADDED, PLAIN) if f"'{task.name}'" in each] for each in said
        ]

    http = await serve([GIVEN, PLAIN], **{"archive": tmp_path / "archive"} if archive else {})
    assert warned() == ([["given", "stored"]] if archive else [])
    headers = {"authorization": f"Bearer {secret}"}
    assert (await http.post("/v1/tasks", json=ADDED.to_json(), headers=headers)).status_code == 201
    assert warned() == ([["added"]] if archive else [])
    http.runtime.refresh()
    assert warned() == []
