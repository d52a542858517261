"""Caps of epsilon and delta, and the charge of a task."""

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
from arcwise.tasks import DAY, Caps, Charge, Task, micro_epsilon
from tests.support.strategies import epsilons

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


BAD: dict[str, list[Any]] = {
    "lifetime": [0, -1.0, True, "1", math.nan, math.inf, 1.1e9, 10**400, 1j, [1.0]],
    "lifetime_delta": [0, -1e-6, 1.0, 2, True, "1", math.nan, math.inf, 2.0**-65, 10**400],
    "window": [0, -1, 1.5, True, None, 366 * DAY + 1],
}
BAD |= {"rolling": BAD["lifetime"], "rolling_delta": BAD["lifetime_delta"]}
BOUNDS = {
    "lifetime": "None or an epsilon above 0 and up to 1e9, got",
    "lifetime_delta": r"None or a delta from 2\*\*-64 to below 1, got ",
    "window": "an integer .* 31622400, got .* seconds, up to a year",
}


@pytest.mark.parametrize(("kind", "bad"), [(kind, bad) for kind in BAD for bad in BAD[kind]])
def test_bad_caps_are_refused(kind: str, bad: Any) -> None:
    with pytest.raises(ParameterError, match=f"{kind} must be {BOUNDS[kind.replace('rolling', 'lifetime')]}"):
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
    # A report of a pure mechanism costs no delta, so any cap allows it.
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
        [None, None, 60, None, None],  # three with the same meaning
        [None, None, 60, None],
        [None, None, 60, 1, None, None],
        [None, None, 60, 0, None],
        [None, None, 60, UNIT - 1, None],  # a float cannot hold it
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


# --- epsilon ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "micro"),
    [
        (0.1, 100_000),
        (0.3, 300_000),
        (0.7, 700_000),
        (1.0, 1_000_000),
        (1.1, 1_100_000),
        (0.000001, 1),
        (1e-9, 1),
        (math.log(2), 693_148),
        (1 / 3, 333_334),
        (2 * math.log(2), 1_386_295),
        (0.1 + 0.2, 300_001),  # a float sum that is slightly more than 0.3
        (20.0, 20_000_000),
    ],
)
def test_charges_are_rounded_up_to_millionths(epsilon: float, micro: int) -> None:
    assert micro_epsilon(epsilon) == micro


@given(epsilons)
def test_a_charge_is_never_too_small(epsilon: float) -> None:
    micro = micro_epsilon(epsilon)
    assert micro >= math.floor(epsilon * 1e6 * (1 - 1e-12))
    assert micro - 1 < epsilon * 1e6 * (1 + 1e-12)


@given(st.integers(1, 10**7))
def test_decimals_of_up_to_six_digits_are_charged_exactly(micro: int) -> None:
    assert micro_epsilon(micro / 1_000_000) == micro
    assert micro_epsilon(float(f"{micro // 10**6}.{micro % 10**6:06d}")) == micro


def test_caps_allow_whole_numbers_of_decimal_charges() -> None:
    caps = Caps(lifetime=0.5)
    assert caps.lifetime_micro == 500_000 == 5 * micro_epsilon(0.1)
    for cap, epsilon, reports in (
        (0.3, 0.1, 3),
        (0.7, 0.1, 7),
        (2.1, 0.3, 7),
        (1.0, 0.05, 20),
        (30, 1.5, 20),
    ):
        lifetime = Caps(lifetime=cap).lifetime_micro
        assert lifetime is not None
        assert divmod(lifetime, micro_epsilon(epsilon)) == (reports, 0)
    assert Caps(rolling=0.7).rolling_micro == 700_000
    assert Caps() == Caps(None, None, DAY)
    assert (Caps().lifetime_micro, Caps().rolling_micro) == (None, None)


@given(st.floats(1e-9, 1e9))
def test_caps_are_stable(cap: float) -> None:
    """A stored cap reads back as the same number of millionths, after any number of rounds."""
    caps = Caps(lifetime=cap, rolling=cap)
    assert caps.lifetime is not None
    assert caps.lifetime_micro == caps.rolling_micro == micro_epsilon(cap)
    again = Caps(caps.lifetime, caps.rolling)
    assert again == caps
    assert again.lifetime_micro == caps.lifetime_micro


@pytest.mark.parametrize("kind", ["lifetime", "rolling"])
def test_caps_that_allow_no_report_are_refused(kind: str) -> None:
    with pytest.raises(
        TaskError, match=rf"caps\.{kind} = 0\.999999 allows no report: one costs epsilon = 1$"
    ):
        Task("x", Interval(0, 220), 1.0, caps=Caps(**{kind: 0.999999}))  # type: ignore[arg-type]
    assert Task("x", Interval(0, 220), 1.0, caps=Caps(**{kind: 1.0}))  # type: ignore[arg-type]
