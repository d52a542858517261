"""Caps of delta, and the charge of a task: what tasks without them are is told in `test_tasks`."""

from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError, TaskError
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms import GaussianMechanism, UniformAtomMechanism
from arcwise.tasks import Caps, Charge, Task

KINDS = ["lifetime_delta", "rolling_delta"]
NOISY = GaussianMechanism(Interval(0, 1), 1.0, 1e-5, nodes=5)


def noisy(**caps: Any) -> Task:
    return Task("noisy", NOISY.domain, 1.0, mechanism=NOISY, caps=Caps(**caps))


def test_a_charge_is_what_the_certificate_says() -> None:
    assert Task("heading", Circle(360), math.log(2)).charge == Charge(693_148, 0)
    assert noisy().charge == (1_000_000, NOISY.certificate().delta)
    assert noisy().charge.delta_units > 0
    atom = UniformAtomMechanism(Interval(0, 1), 0.25)
    task = Task("atom", Interval(0, 1), 0.0, mechanism=atom)
    assert task.charge == Charge(0, atom.certificate().delta)
    assert pickle.loads(pickle.dumps(task)).charge == task.charge


@given(st.floats(2.0**-64, 1.0, exclude_max=True))
def test_units_are_rounded_down_and_stay(delta: float) -> None:
    caps = Caps(lifetime_delta=delta, rolling_delta=delta)
    units = caps.lifetime_delta_units
    assert units == caps.rolling_delta_units == math.floor(Fraction(delta) * UNIT)
    assert caps.lifetime_delta == float(Fraction(units, UNIT)) <= delta
    assert Caps(lifetime_delta=caps.lifetime_delta, rolling_delta=caps.rolling_delta) == caps
    assert copy.copy(caps) == pickle.loads(pickle.dumps(caps)) == caps
    assert Caps().lifetime_delta_units is Caps().rolling_delta_units is None


@pytest.mark.parametrize("bad", [0, -1e-6, 1.0, 2, True, "1", math.nan, math.inf, 2.0**-65, 10**400])
@pytest.mark.parametrize("kind", KINDS)
def test_bad_caps_of_delta_are_refused(kind: str, bad: Any) -> None:
    with pytest.raises(
        ParameterError, match=rf"{kind} must be None or a delta from 2\*\*-64 to below 1, got "
    ):
        Caps(**{kind: bad})


@pytest.mark.parametrize("kind", KINDS)
def test_a_cap_allows_one_report_or_the_task_is_refused(kind: str) -> None:
    units = NOISY.certificate().delta
    enough = math.nextafter(units / UNIT, 1.0)
    assert noisy(**{kind: enough}).caps
    less = math.floor(units / 2) / UNIT
    message = rf"^caps\.{kind} = .*, {units // 2} / 2\*\*64, allows no report: one costs delta = .*, {units} "
    with pytest.raises(TaskError, match=message):
        noisy(**{kind: less})
    # A report of a pure mechanism costs no delta: any cap allows it.
    assert Task("heading", Circle(360), 1.0, caps=Caps(**{kind: 2.0**-64}))  # type: ignore[arg-type]


def test_tasks_carry_five_fields_only_where_delta_is_capped() -> None:
    plain = Task("heading", Circle(360), 1.0, caps=Caps(2.0))
    capped = Task("heading", Circle(360), 1.0, caps=Caps(2.0, rolling_delta=0.5))
    assert msgpack.unpackb(plain.to_bytes())[6] == [2_000_000, None, 86_400]
    assert msgpack.unpackb(capped.to_bytes())[6] == [2_000_000, None, 86_400, None, 1 << 63]
    assert list(plain.to_json()["caps"]) == [
        "lifetime_micro_epsilon",
        "rolling_micro_epsilon",
        "rolling_window_seconds",
    ]
    assert capped.to_json()["caps"] == {
        **plain.to_json()["caps"],
        "lifetime_delta_units": None,
        "rolling_delta_units": str(1 << 63),
    }
    assert plain.id != capped.id


@given(
    st.none() | st.floats(2.0**-64, 1.0, exclude_max=True),
    st.none() | st.floats(2.0**-64, 1.0, exclude_max=True),
)
def test_bytes_and_json_give_the_caps_back(lifetime: float | None, rolling: float | None) -> None:
    caps = Caps(1.0, None, 60, lifetime, rolling)
    task = Task("heading", Circle(360), 1.0, caps=caps)
    assert Task.from_bytes(task.to_bytes()).caps == caps
    assert Task.from_json(task.to_json()).caps == caps


@pytest.mark.parametrize(
    "fields",
    [
        [None, None, 60, None, None],  # three say the same
        [None, None, 60, None],
        [None, None, 60, 1, None, None],
        [None, None, 60, 0, None],
        [None, None, 60, UNIT - 1, None],  # a float does not hold it
        [None, None, 60, 1.0, None],
        [None, None, 60, True, None],
        [None, None, 60, -1, None],
    ],
)
def test_other_fields_are_refused(fields: list[Any]) -> None:
    whole = msgpack.unpackb(Task("heading", Circle(360), 1.0).to_bytes())
    whole[6] = fields
    with pytest.raises(TaskError):
        Task.from_bytes(msgpack.packb(whole))


@pytest.mark.parametrize("units", [1, "x", "-1", "0", str(UNIT), str(UNIT - 1), True, 0.5])
def test_units_in_a_file_are_decimal_strings(units: Any) -> None:
    data = Task("heading", Circle(360), 1.0, caps=Caps(lifetime_delta=0.5)).to_json()
    data["caps"]["lifetime_delta_units"] = units
    with pytest.raises(TaskError, match="lifetime_delta"):
        Task.from_json(data)
    del data["caps"]["lifetime_delta_units"]
    with pytest.raises(TaskError, match="a task file needs the key 'lifetime_delta_units'"):
        Task.from_json(data)
