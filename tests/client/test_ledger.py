"""Charges to a ledger in memory, against caps and a clock."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.client import MemoryLedger
from arcwise.domains import Circle
from arcwise.tasks import Caps, Task
from tests.support.charges import charge, spent


def task(epsilon: float = 1.0, **caps: float) -> Task:
    window = int(caps.pop("window", 100))
    return Task("t", Circle(360), epsilon, caps=Caps(window=window, **caps))


def grants(ledger: MemoryLedger, task: Task, *times: float) -> list[bool]:
    return [charge(ledger, task, now) for now in times]


def test_without_caps_everything_is_granted_and_counted() -> None:
    ledger, uncapped = MemoryLedger(), task(0.1)
    assert all(grants(ledger, uncapped, *range(1000)))
    assert spent(ledger, uncapped) == 1000 * 100_000  # exactly: floats would not add up to 100


def test_a_charge_is_rounded_up_to_a_micro_epsilon() -> None:
    ledger, odd = MemoryLedger(), task(0.123_456_1)
    charge(ledger, odd, 0.0)
    assert spent(ledger, odd) == 123_457


def test_lifetime_cap_holds_for_ever() -> None:
    ledger, capped = MemoryLedger(), task(lifetime=2.5)
    assert grants(ledger, capped, 0.0, 1.0, 2.0, 1e9, 1e12) == [True, True, False, False, False]
    assert spent(ledger, capped) == 2_000_000


def test_rolling_cap_frees_what_has_left_the_window() -> None:
    ledger, capped = MemoryLedger(), task(rolling=2.0, window=100)
    assert grants(ledger, capped, 0.0, 50.0, 99.9) == [True, True, False]
    assert grants(ledger, capped, 100.0, 100.1, 149.9, 150.0) == [True, False, False, True]
    assert spent(ledger, capped) == 4_000_000


def test_a_clock_that_steps_back_opens_no_window() -> None:
    ledger, capped = MemoryLedger(), task(rolling=1.0, window=100)
    assert grants(ledger, capped, 1000.0, 0.0, 500.0, 1099.0) == [True, False, False, False]
    assert charge(ledger, capped, 1100.0)


def test_a_charge_made_with_the_clock_back_counts_at_ledger_time() -> None:
    ledger, capped = MemoryLedger(), task(rolling=1.0, window=100)
    other = Task("other", Circle(24), 1.0)
    charge(ledger, other, 1000.0)  # the ledger's time is one for all tasks
    assert charge(ledger, capped, 0.0)
    assert not charge(ledger, capped, 1099.0)
    assert charge(ledger, capped, 1100.0)


def test_a_refusal_by_one_cap_uses_up_none_of_the_other() -> None:
    ledger, capped = MemoryLedger(), task(lifetime=2.0, rolling=1.0, window=10)
    assert grants(ledger, capped, 0.0, 1.0, 2.0, 10.0) == [True, False, False, True]
    assert spent(ledger, capped) == 2_000_000


def test_tasks_are_charged_apart() -> None:
    ledger, first = MemoryLedger(), task(lifetime=1.0)
    second = task(2.0, lifetime=2.0)
    assert charge(ledger, first, 0.0)
    assert not charge(ledger, first, 0.0)
    assert charge(ledger, second, 0.0)
    assert (spent(ledger, first), spent(ledger, second)) == (1_000_000, 2_000_000)


def test_an_equal_task_shares_what_was_spent() -> None:
    ledger = MemoryLedger()
    assert charge(ledger, task(lifetime=1.0), 0.0)
    assert not charge(ledger, task(lifetime=1.0), 0.0)


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("caps", [{"lifetime": 15_000.0}, {"rolling": 15_000.0}])
def test_threads_together_do_not_exceed_a_cap(caps: dict[str, float]) -> None:
    ledger, capped = MemoryLedger(), task(**caps)
    with ThreadPoolExecutor(8) as pool:
        granted = pool.map(lambda _: sum(grants(ledger, capped, *[0.0] * 2000)), range(8))
    assert sum(granted) == 15_000
    assert spent(ledger, capped) == 15_000_000_000


@given(
    epsilon=st.sampled_from([0.1, 0.3, 1.0]),
    lifetime=st.none() | st.floats(1.0, 5.0),
    rolling=st.none() | st.floats(1.0, 3.0),
    window=st.integers(1, 50),
    steps=st.lists(st.floats(-60, 60), max_size=60),
)
def test_grants_exactly_what_the_caps_allow(
    epsilon: float, lifetime: float | None, rolling: float | None, window: int, steps: list[float]
) -> None:
    """Against a model that looks at every charge ever made."""
    capped = Task("t", Circle(360), epsilon, caps=Caps(lifetime, rolling, window))
    cost = round(epsilon * 1_000_000)
    ledger, clock, ledger_time = MemoryLedger(), 0.0, float("-inf")
    charges: list[float] = []
    for step in steps:
        clock += step
        ledger_time = max(ledger_time, clock)
        inside = sum(ledger_time - at < window for at in charges)
        allowed = (lifetime is None or (len(charges) + 1) * cost <= (capped.caps.lifetime_micro or 0)) and (
            rolling is None or (inside + 1) * cost <= (capped.caps.rolling_micro or 0)
        )
        assert charge(ledger, capped, clock) is allowed
        if allowed:
            charges.append(math.ceil(ledger_time))  # entered at whole seconds, never earlier
        assert spent(ledger, capped) == len(charges) * cost
