"""GET /metrics: a worker's activity, and nothing about the senders."""

import platform
import re
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from arcwise.domains import Interval
from arcwise.mechanisms import OptimalPiecewise
from arcwise.server.access.keys import new_key
from arcwise.server.store import open_store
from arcwise.server.store.sqlite.store import SQLiteStore
from arcwise.tasks import Task
from arcwise.version import __version__
from arcwise.wire import Batch, pack_codes
from tests.support.apps import Serve, add_key
from tests.support.machines import find_program
from tests.support.reports import body_of, report

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
DOMAIN = Interval(0, 1)
DELAY = Task("delay", DOMAIN, 1.0)
WIDE = Task("wide", DOMAIN, 1.0, mechanism=OptimalPiecewise(DOMAIN, 1.0, nodes=300))


async def post(http: httpx.AsyncClient, task: Task, codes: list[int], number: int) -> int:
    packed = pack_codes(codes, 1 if task is DELAY else 2)
    return (await report(http, task, body_of(task, packed, number=number))).status_code


async def read(http: httpx.AsyncClient) -> dict[str, float]:
    """Return the samples as Prometheus reads them, by name and labels."""
    answer = await http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        f"{sample.name}{sorted(sample.labels.values())}": sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def test_everything_is_counted_by_what_became_of_it(serve: Serve) -> None:
    http = await serve([DELAY, WIDE])
    before = await read(http)
    assert before["arcwise_batches_total['counted']"] == 0
    assert before["arcwise_ready[]"] == 1
    for number in (1, 2, 2):
        assert await post(http, DELAY, [1, 2, 3], number) == 204
    assert await post(http, WIDE, [299] * 5, 3) == 204
    assert await post(http, DELAY, [255], 4) == 422
    assert (await http.post(f"/v1/tasks/{DELAY.id}/reports", content=b"SECRET")).status_code == 415
    assert (await http.get("/v1/tasks/SECRET")).status_code == 404
    assert (await http.get("/SECRET")).status_code == 404
    after = await read(http)
    assert after["arcwise_batches_total['counted']"] == 3
    assert after["arcwise_batches_total['replayed']"] == 1
    assert after[f"arcwise_reports_total{sorted(['delay', DELAY.id])}"] == 6
    assert after[f"arcwise_reports_total{sorted(['wide', WIDE.id])}"] == 5
    for reason in ("bad-codes", "media-type", "unknown-task", "not-found"):
        assert after[f"arcwise_refused_total['{reason}']"] == 1
    assert after["arcwise_commit_seconds_count[]"] == after["arcwise_group_batches_count[]"] == 4
    assert after["arcwise_group_batches_sum[]"] == 4
    assert after["arcwise_commit_seconds_sum[]"] > 0
    assert after["arcwise_queue_batches[]"] == after["arcwise_reading_bytes[]"] == 0
    assert "SECRET" not in str(after)
    recent = http.runtime.metrics.recent()
    assert (recent.reports, recent.batches, recent.replayed, recent.commits) == (11, 3, 1, 4)
    assert recent.refused == {"bad-codes": 1, "media-type": 1, "not-found": 1, "unknown-task": 1}
    assert 0 < recent.commit_median <= recent.commit_worst


async def test_groups_that_the_store_does_not_take_are_counted(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: SQLiteStore, batches: list[Batch]) -> None:
        raise OSError("SECRET")

    http = await serve([DELAY])
    monkeypatch.setattr(SQLiteStore, "add", fails)
    assert await post(http, DELAY, [1], 1) == 503
    after = await read(http)
    assert after["arcwise_groups_failed_total[]"] == 1
    assert after["arcwise_refused_total['store-busy']"] == 1
    assert after["arcwise_commit_seconds_count[]"] == 0
    assert http.runtime.metrics.recent().failed == 1


async def test_metrics_take_a_key_of_their_own(serve: Serve, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'app.db'}"
    keys = {scope: add_key(url, scope) for scope in ("metrics", "read", "ingest", "admin")}
    keys["one"] = add_key(url, "read", tasks=[DELAY.id])
    http = await serve([DELAY], open=None)
    found = {}
    for name, key in keys.items():
        answer = await http.get("/metrics", headers={"authorization": f"Bearer {key}"})
        found[name] = answer.status_code
    assert found == {"metrics": 200, "read": 403, "one": 403, "ingest": 403, "admin": 200}
    assert (
        await http.get("/v1/tasks", headers={"authorization": f"Bearer {keys['metrics']}"})
    ).status_code == 403
    assert (await http.get("/metrics")).status_code == 401


async def test_sources_are_shown_while_they_are_there(serve: Serve, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'counts.db'}"
    key = bytes.fromhex(DELAY.id)
    with closing(open_store(url)) as store:
        store.register([DELAY])
        counts = np.bincount([1, 1, 1], minlength=DELAY.mechanism.kernel.codes)
        store.replace_source("lake", {(key, 1): counts}, [(key, 1, bytes(16))], now=9_000)
    reports = f"arcwise_source_reports{sorted(['lake', 'delay', DELAY.id])}"
    replaced = "arcwise_source_replaced_timestamp_seconds['lake']"
    http = await serve([DELAY], store=url)
    shown = await read(http)
    assert (shown[reports], shown[replaced]) == (3, 9_000)
    http.runtime.store().drop_source("lake")
    http.runtime.show_store()
    assert not {reports, replaced} & (await read(http)).keys()


async def test_the_state_of_the_store_and_of_the_process_is_shown(serve: Serve, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'app.db'}"
    with closing(open_store(url)) as store:
        for scope in ("ingest", "ingest", "read"):
            store.add_key(new_key(scope, now=time.time())[1])
        revoked = new_key("admin", now=time.time())[1]
        store.add_key(revoked)
        store.revoke_key(revoked.id, 1)
        store.register([WIDE])
        store.close_task(WIDE.id, 1)

    http = await serve([DELAY])
    before = http.runtime.store().size
    http.runtime.show_store()  # as it does every minute
    shown = await read(http)
    assert shown[f"arcwise_build_info{sorted([__version__, platform.python_version()])}"] == 1
    assert (shown["arcwise_tasks['open']"], shown["arcwise_tasks['closed']"]) == (1, 1)
    keys = {scope: shown[f"arcwise_keys['{scope}']"] for scope in ("ingest", "read", "admin")}
    assert keys == {"ingest": 2, "read": 1, "admin": 0}
    # The server sometimes writes on its own, for instance the progress of its clock.
    assert 0 < before <= shown["arcwise_store_bytes[]"] <= http.runtime.store().size
    if sys.platform.startswith("linux"):
        assert shown["process_resident_memory_bytes[]"] > 1e6
        assert shown["process_open_fds[]"] > 3
    assert shown["python_gc_collections_total['2']"] >= 0


def documented() -> dict[str, tuple[str, set[str]]]:
    """Return type and labels by metric, as docs/reference/metrics.md lists them."""
    found = {}
    for line in PAGE.read_text("utf-8").splitlines():
        if row := re.fullmatch(r"\| `(\w+)` \| (counter|gauge|histogram) \|([^|]*)\| [^|]+ \|", line):
            found[row[1]] = row[2], set(re.findall(r"`(\w+)`", row[3]))
    return found


async def test_every_metric_is_documented(serve: Serve, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'counts.db'}"
    key = bytes.fromhex(DELAY.id)
    with closing(open_store(url)) as store:
        store.register([DELAY])
        counts = np.bincount([1], minlength=DELAY.mechanism.kernel.codes)
        store.replace_source("lake", {(key, 1): counts}, [(key, 1, bytes(16))], now=9_000)

    http = await serve([DELAY], store=url, archive=str(tmp_path / "archive"))
    assert await post(http, DELAY, [1], 1) == 204
    assert (await http.get("/SECRET")).status_code == 404
    http.runtime.metrics.cut("slow-head")
    with http.runtime.metrics.estimating("estimate"):
        pass
    shown = {}
    for family in text_string_to_metric_families((await http.get("/metrics")).text):
        if family.name.endswith("_created"):
            continue
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        shown[family.name + "_total" * (family.type == "counter")] = family.type, labels
    named = documented()
    if not sys.platform.startswith("linux"):
        named = {name: row for name, row in named.items() if not name.startswith("process_")}
    assert shown == named


async def test_promtool_finds_nothing_to_improve(serve: Serve) -> None:
    if (promtool := find_program("promtool")) is None:
        pytest.skip("promtool is not here")

    http = await serve([DELAY])
    assert await post(http, DELAY, [1], 1) == 204
    text = (await http.get("/metrics")).text
    done = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


async def test_estimates_are_timed_where_they_are_computed(serve: Serve) -> None:
    http = await serve([DELAY])

    def timed(shown: dict[str, float]) -> dict[str, float]:
        start = "arcwise_estimate_seconds_count["
        return {name[len(start) + 1 : -2]: count for name, count in shown.items() if start in name}

    path = f"/v1/tasks/{DELAY.id}"
    assert await post(http, DELAY, [1, 2, 3] * 50, 1) == 204
    for _ in range(3):  # the second and third answers are kept
        assert (await http.get(f"{path}/estimate")).status_code == 200
    assert (await http.get(f"{path}/series")).status_code == 200
    assert timed(await read(http)) == {"estimate": 1, "series": 1}
    assert (await http.get(f"{path}/picture.svg")).status_code == 200
    assert timed(await read(http)) == {"estimate": 1, "series": 1, "picture": 1}
