"""The golden vectors of `tests/vectors`: what was once published comes out the same for ever."""

from __future__ import annotations

import hashlib
import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arcwise.kernels import WindowKernel
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms.registry import MECHANISMS
from arcwise.tasks import Task
from arcwise.wire import Batch, code_width, decode_batch, encode_batch, pack_codes
from fixed_draw import FixedDraw

VECTORS = Path(__file__).parent.parent / "vectors"


def read(name: str) -> Any:
    return json.loads((VECTORS / name).read_text(encoding="ascii"))


TASKS = read("tasks.json")
ROWS = read("rows.json")
DRAWS = read("draws.json")
BATCHES = read("batches.json")


@pytest.fixture(params=TASKS)
def label(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def task_of(label: str) -> Task:
    return Task.from_bytes(bytes.fromhex(TASKS[label]["bytes"]))


def test_the_script_still_writes_these_files() -> None:
    built = runpy.run_path(str(VECTORS / "make.py"))["build"]()
    assert sorted(built) == sorted(path.name for path in VECTORS.glob("*.json"))
    for name, content in built.items():
        assert read(name) == content, f"{name} would change: see the first lines of make.py"


def test_vectors_cover_every_kind_of_kernel_placement_and_width() -> None:
    assert set(TASKS) == set(ROWS) == set(DRAWS)
    tasks = [task_of(label) for label in TASKS]
    kinds = {mechanism.kind for mechanism in MECHANISMS.values()}
    assert {task.mechanism.kind for task in tasks} == kinds == {"window", "table", "circulant"}
    seen = {(task.mechanism.placement, code_width(task.mechanism.kernel.codes)) for task in tasks}
    assert seen == {(placement, width) for placement in ("inset", "clamp", "wrap") for width in (1, 2)}


def test_tasks_have_these_bytes_and_ids(label: str) -> None:
    entry = TASKS[label]
    data = bytes.fromhex(entry["bytes"])
    task = Task.from_bytes(data)
    assert task.to_bytes() == data
    assert task.id == entry["id"] == hashlib.sha256(data).hexdigest()
    assert task.to_json() == entry["json"]
    assert Task.from_json(entry["json"]) == task


def test_kernels_have_these_rows(label: str) -> None:
    kernel = task_of(label).mechanism.kernel
    digest = hashlib.sha256()
    for node in range(kernel.nodes):
        row = kernel.row(node)
        assert sum(row) == UNIT
        digest.update((",".join(map(str, row)) + "\n").encode())
    assert digest.hexdigest() == ROWS[label]["sha256_of_all_rows"]
    for node, weights in ROWS[label]["rows"].items():
        assert [str(weight) for weight in kernel.row(int(node))] == weights


def test_draws_give_these_codes(label: str) -> None:
    mechanism = task_of(label).mechanism
    kernel = mechanism.kernel
    assert len(DRAWS[label]) >= 20
    for case in DRAWS[label]:
        r, u, node, code = int(case["r"]), int(case["u"]), case["node"], case["code"]
        assert mechanism.randomize(case["value"], randomness=FixedDraw(r, u)) == code
        assert mechanism.randomize_many([case["value"]], randomness=FixedDraw(r, u)).tolist() == [code]
        assert kernel.sample(node, u) == code
        assert kernel.sample_many(np.array([node], np.uint32), np.array([u], np.uint64)).tolist() == [code]
        if isinstance(kernel, WindowKernel) and kernel.inside_from <= u < kernel.leftover_from:
            # Inside the window the code names the node, so the vector fixes the rounding too.
            assert (code - (u - kernel.inside_from) // kernel.extra) % kernel.codes == node


def test_batches_have_these_bodies() -> None:
    for case in BATCHES:
        body = bytes.fromhex(case["body"])
        task = task_of(case["task"])
        width = code_width(task.mechanism.kernel.codes)
        assert (case["task_id"], case["code_width"]) == (task.id, width)
        batch = Batch(
            task_id=bytes.fromhex(case["task_id"]),
            batch_id=bytes.fromhex(case["batch_id"]),
            epoch=case["epoch"],
            codes=pack_codes(case["codes"], width),
        )
        assert max(case["codes"]) < task.mechanism.kernel.codes
        assert encode_batch(batch) == body
        assert decode_batch(body) == batch
    assert {case["code_width"] for case in BATCHES} == {1, 2}
