"""The golden vectors of `tests/vectors`: published results must never change."""

from __future__ import annotations

import hashlib
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from arcwise.domains import Circle, Interval
from arcwise.errors import CertificateError, DomainError, TaskError
from arcwise.kernels import Kernel, WindowKernel
from arcwise.kernels.certificate import UNIT, exact_epsilon, exp_lower_bound
from arcwise.mechanisms.registry import MECHANISMS
from arcwise.tasks import Group, Task, micro_epsilon
from arcwise.wire import Batch, code_width, decode_batch, encode_batch, pack_codes
from tests.support.fixed_draw import FixedDraw
from tests.vectors import make

VECTORS = make.FOLDER


def read(name: str) -> Any:
    return json.loads((VECTORS / name).read_text(encoding="ascii"))


TASKS = read("tasks.json")
ROWS = read("rows.json")
DRAWS = read("draws.json")
VALUES = read("values.json")
BATCHES = read("batches.json")
REFUSED = read("refused.json")


@pytest.fixture(params=TASKS)
def label(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def task_of(label: str) -> Task:
    return Task.from_bytes(bytes.fromhex(TASKS[label]["bytes"]))


def kernel_of(label: str) -> Kernel:
    return task_of(label).mechanism.kernel


@pytest.mark.slow
def test_the_script_still_writes_these_files() -> None:
    built = make.build()
    assert sorted(built) == sorted(path.name for path in VECTORS.glob("*.json"))
    for name, content in built.items():
        assert read(name) == content, f"{name} would change: see the first lines of make.py"


def test_vectors_cover_every_kind_of_kernel_placement_and_width() -> None:
    assert set(TASKS) == set(ROWS) == set(DRAWS) == set(VALUES)
    tasks = [task_of(label) for label in TASKS]
    kinds = {mechanism.kind for mechanism in MECHANISMS.values()}
    assert {task.mechanism.kind for task in tasks} == kinds == {"window", "table", "circulant"}
    seen = {(task.mechanism.placement, code_width(task.mechanism.kernel.codes)) for task in tasks}
    assert seen == {(placement, width) for placement in ("inset", "clamp", "wrap") for width in (1, 2)}
    seen_kinds = {(task.mechanism.kind, code_width(task.mechanism.kernel.codes)) for task in tasks}
    assert seen_kinds == {(kind, width) for kind in kinds for width in (1, 2)}


def test_tasks_have_these_bytes_and_ids(label: str) -> None:
    entry = TASKS[label]
    data = bytes.fromhex(entry["bytes"])
    task = Task.from_bytes(data)
    assert task.to_bytes() == data
    assert task.id == entry["id"] == hashlib.sha256(data).hexdigest()
    assert task.to_json() == entry["json"]
    assert Task.from_json(entry["json"]) == task


def test_groups_have_these_bytes_and_ids() -> None:
    for entry in read("groups.json").values():
        data = bytes.fromhex(entry["bytes"])
        group = Group.from_bytes(data)
        assert group.id == entry["id"] == hashlib.sha256(data).hexdigest()
        assert group.to_json() == entry["json"]
        assert Group.from_json(entry["json"]) == group


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


def test_draws_reach_every_branch_of_the_window_sampler() -> None:
    for label in TASKS:
        kernel = kernel_of(label)
        if isinstance(kernel, WindowKernel):
            draws = {int(case["u"]) for case in DRAWS[label]}
            branches = {(u >= kernel.inside_from) + (u >= kernel.leftover_from) for u in draws}
            assert branches == ({0, 1, 2} if kernel.leftover else {0, 1}), label
            assert {0, kernel.inside_from - 1, kernel.inside_from, 2**64 - 1} <= draws
    assert sum(isinstance(k, WindowKernel) and k.leftover > 1 for k in map(kernel_of, TASKS)) >= 5


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
    assert max(case["epoch"] for case in BATCHES) == 2**32 - 1


def test_long_batches_have_these_bodies() -> None:
    for case in read("long_batches.json"):
        codes = case["codes"] * case["times"]
        packed = pack_codes(codes, case["code_width"])
        batch = Batch(bytes.fromhex(case["task_id"]), bytes.fromhex(case["batch_id"]), case["epoch"], packed)
        body = encode_batch(batch)
        assert (len(body), hashlib.sha256(body).hexdigest()) == (case["body_bytes"], case["body_sha256"])
        assert decode_batch(body) == batch


def test_values_outside_are_refused(label: str) -> None:
    domain = task_of(label).domain
    between = 3 * (domain.step is not None and domain.rounding == "refuse")
    assert len(VALUES[label]) == (1 if isinstance(domain, Circle) or domain.clip else 5) + between
    for value in VALUES[label]:
        with pytest.raises(DomainError):
            domain.to_unit(math.nan if value is None else value)
    if isinstance(domain, Interval):
        assert (domain.to_unit(domain.low), domain.to_unit(domain.high)) == (0.0, 1.0)


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_task_is_refused(case: str) -> None:
    entry = REFUSED[case]
    with pytest.raises((TaskError, CertificateError)) as error:
        Task.from_bytes(bytes.fromhex(entry["bytes"])) if "bytes" in entry else Task.from_json(entry["json"])
    if "ratio" in entry["why"] or "kernel spends" in entry["why"] or entry["why"] == "a weight is 0":
        assert error.type is CertificateError


def test_refused_tasks_differ_from_valid_ones() -> None:
    assert len(REFUSED) >= 75
    valid = {entry["bytes"] for entry in TASKS.values()}
    assert not valid & {entry.get("bytes") for entry in REFUSED.values()}
    assert all(TASKS["wrap"]["json"] != entry.get("json") for entry in REFUSED.values())


def test_epsilons_stand_for_these_fractions_and_cost_this() -> None:
    cases = read("epsilons.json")
    for case in cases:
        epsilon = case["epsilon"]
        exact = Fraction(int(case["numerator"]), int(case["denominator"]))
        assert exact == exact_epsilon(epsilon)
        assert case["micro_epsilon"] == micro_epsilon(epsilon) == math.ceil(exact * 1_000_000)
        bound = Fraction(int(case["exp_lower_bound_times_2_to_192"]), 2**192)
        assert bound == exp_lower_bound(epsilon)
        assert bound < Fraction(math.nextafter(math.nextafter(math.exp(epsilon), 1e300), 1e300))
    above, below = (
        sum(relation(Fraction(repr(c["epsilon"])), Fraction(c["epsilon"])) for c in cases)
        for relation in (Fraction.__lt__, Fraction.__gt__)
    )
    assert above >= 5  # floats above their decimal and below it, so the choice shows
    assert below >= 5
