"""Central statements: stores refuse untrue ones, each reader sees their own, an archive warns."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from arcwise.analysis import Estimate, estimate
from arcwise.analysis.tidy import tidy_rows
from arcwise.domains import Interval
from arcwise.errors import CertificateError
from arcwise.server.store import open_store
from arcwise.tasks import CentralStatement, Task
from arcwise.wire import Batch
from tests.support.apps import add_key
from tests.support.commands import bad, good
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
    "at least 10,000 reports and one report of a device; its kernel guarantees epsilon = 0.99"
)


def known(url: str) -> list[Task]:
    with closing(open_store(url)) as store:
        return [entry.task for entry in store.tasks()]


async def test_an_admin_gets_422(serve: Serve, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'app.db'}"
    secret = add_key(url, "admin")
    http = await serve([PLAIN])
    http.headers["authorization"] = f"Bearer {secret}"
    answer = await http.post("/v1/tasks", json=UNTRUE.to_json())
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:arcwise:problem:untrue-statement")
    assert answer.json()["detail"].startswith(
        f"The server does not accept the task: the central statement of this task{WORDS}"
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
    said = bad("serve", "--tasks", str(tmp_path), "--store", url, "--port", "0")
    assert said.startswith(f"Error: the central statement of task 'secret'{WORDS}")
    assert known(url) == []


async def test_what_a_store_has_is_not_checked_at_each_start(serve: Serve, tmp_path: Path) -> None:
    """The id covers kernel and statement; a check of several releases takes seconds, and devices have it."""
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
    assert "of task 'secret' is not true" in bad("store", "merge", target, other)
    assert known(target) == []
    with closing(open_store(target)) as store:
        store.register([UNTRUE])  # it keeps existing tasks
    good("store", "merge", target, other)
    assert known(target) == [UNTRUE, TRUE]


@pytest.mark.slow  # warnings of its libraries
def test_a_count_does_not_bring_it(tmp_path: Path) -> None:
    UNTRUE.save(tmp_path / "secret.json")
    url, lake = f"sqlite:///{tmp_path / 'app.db'}", tmp_path / "lake.parquet"
    pq.write_table(arrow_table([Row(UNTRUE.id, 20_000, bytes(16), (1,))]), lake)
    said = bad("count", str(lake), "--task", str(tmp_path / "secret.json"), "--into", url, "--source", "lake")
    assert "of task 'secret' is not true" in said
    assert known(url) == []


AGE = Task("age", Interval(0, 100), 5.17, caps=ONCE.caps(5.17, 86_400), central=ONCE, lateness_seconds=60)


async def test_the_page_of_a_task_has_a_statement_for_each_reader(serve: Serve) -> None:
    http = await serve([AGE, PLAIN])
    page = (await http.get(f"/tasks/{AGE.id}")).text
    at = [page.index(f"<p>Against {who}: {what}.</p>") for who, what in AGE.readers.items()]
    assert len(at) == 3
    assert sorted(at) == at
    assert page.index("That is epsilon&nbsp;5.17") < at[0]
    assert f"<p>A{AGE.release_words[1:]}.</p>" in page
    assert "Against who" not in (await http.get(f"/tasks/{PLAIN.id}")).text


async def test_json_has_a_statement_for_each_reader(serve: Serve) -> None:
    kinds = ("estimate", "series", "fit", "plan?half_width=1", "difference?to=3&against_from=3")
    local = "epsilon = 5.17 per report"
    assert list(AGE.readers.values()) == [local, f"{local}, without its address", str(ONCE)]
    http = await serve([AGE, PLAIN])
    listed = (await http.get("/v1/tasks")).json()["tasks"]
    assert listed == [AGE.to_json() | {"readers": AGE.readers}, PLAIN.to_json()]
    for task in (AGE, PLAIN):
        path = f"/v1/tasks/{task.id}"
        shown = (await http.get(path)).json()
        assert Task.from_json(shown) == task
        for kind in kinds:
            found = (await http.get(f"{path}/{kind}")).json()
            assert found.get("readers") == shown.get("readers") == (AGE.readers if task == AGE else None)
        for file in ("estimate.csv", "series.csv", "series.svg"):
            answer = await http.get(f"{path}/{file}")
            assert answer.status_code in (200, 404)
            assert "readers" not in answer.text
    described = (await http.get("/openapi.json")).json()["paths"]
    for path in ("/v1/tasks", "/v1/tasks/{task}"):
        assert "readers" in described[path]["get"]["description"]
    assert "readers" in described["/v1/tasks/{task}/fit"]["get"]["responses"]["200"]["description"]


def test_documents_with_statements_are_read_as_before() -> None:
    found = estimate(AGE, [100] * AGE.mechanism.kernel.codes)
    said = found.to_dict() | {"readers": AGE.readers}
    assert Estimate.from_dict(said) == found
    assert list(tidy_rows(said)) == list(tidy_rows(found.to_dict()))


GIVEN, STORED, ADDED = (
    Task(name, Interval(0, 100), 5.17, caps=ONCE.caps(5.17, 86_400), central=ONCE)
    for name in ("given", "stored", "added")
)


@pytest.mark.parametrize("archive", [True, False])
async def test_an_archive_beside_a_central_task_warns(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture, archive: bool
) -> None:
    caplog.set_level(logging.WARNING, "arcwise.server")
    url = f"sqlite:///{tmp_path / 'app.db'}"
    secret = add_key(url, "admin")
    with closing(open_store(url)) as store:
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
