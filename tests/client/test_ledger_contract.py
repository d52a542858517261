"""All ledgers compared with the truth: a list of every charge ever made, with its time."""

from __future__ import annotations

import contextlib
import json
import math
import secrets
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcwise.client import Budget, FileLedger, Ledger, MemoryLedger, PostgresLedgers
from arcwise.client.accounts import Item
from arcwise.domains import Circle
from arcwise.kernels.certificate import UNIT
from arcwise.tasks import Caps, Task
from tests.support.charges import charge, spent, transaction
from tests.support.ledgers import fresh_ledgers
from tests.support.waiting import in_threads
from tests.vectors.make import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.client.accounts import Bill

ACCOUNTS = ("first", "second", "")


@dataclass
class Truth:
    """Every charge: account, ledger time, epsilon, delta. Ledger time is the largest time seen so far."""

    time: float = -math.inf
    charges: list[tuple[str, float, int, int]] = field(default_factory=list)

    def spent(self, account: str, window: float = math.inf) -> tuple[int, int]:
        """Return the spending of an account within the window; a charge counts from the end of its second."""
        inside = [
            (epsilon, delta)
            for other, at, epsilon, delta in self.charges
            if other == account and self.time - math.ceil(at) < window
        ]
        return sum(epsilon for epsilon, _ in inside), sum(delta for _, delta in inside)

    def left(self, item: Item) -> list[tuple[int, int]]:
        """Return (what a cap leaves, what the item charges) for each of its caps."""
        everything, recent = self.spent(item.account), self.spent(item.account, item.window)
        caps = (
            (item.lifetime, everything[0], item.epsilon),
            (item.rolling, recent[0], item.epsilon),
            (item.lifetime_delta, everything[1], item.delta),
            (item.rolling_delta, recent[1], item.delta),
        )
        return [(cap - spent, charge) for cap, spent, charge in caps if cap is not None]

    def allows(self, bill: Bill) -> bool:
        return all(charge <= max(left, 0) for item in bill for left, charge in self.left(item))

    def enter(self, bill: Bill) -> None:
        self.charges += [(item.account, self.time, item.epsilon, item.delta) for item in bill]

    def budget(self, bill: Bill) -> Budget:
        """Return the budget of the first account of a bill."""
        item = bill[0]
        (epsilon, delta), recent = self.spent(item.account), self.spent(item.account, item.window)

        def left(cap: int | None, spent: int, unit: int) -> float | None:
            return None if cap is None else max(0, cap - spent) / unit

        rolls = item.rolling is not None or item.rolling_delta is not None
        reports = [max(0, left) // charge for item in bill for left, charge in self.left(item) if charge]
        return Budget(
            epsilon=epsilon / 1e6,
            delta=delta / UNIT,
            epsilon_left=left(item.lifetime, epsilon, 1_000_000),
            delta_left=left(item.lifetime_delta, delta, UNIT),
            recent_epsilon=None if item.rolling is None else recent[0] / 1e6,
            recent_delta=None if item.rolling_delta is None else recent[1] / UNIT,
            recent_epsilon_left=left(item.rolling, recent[0], 1_000_000),
            recent_delta_left=left(item.rolling_delta, recent[1], UNIT),
            window=item.window if rolls else None,
            reports_left=min(reports, default=None),
        )


def charge_all(ledger: Ledger, bill: Bill, now: float) -> bool:
    """Charge a bill at a Unix time; return whether the caps allowed all of it."""
    with transaction(ledger, now) as opened:
        return opened.charge(bill)


EPSILONS = st.integers(0, 3)
DELTAS = st.sampled_from([0, 0, 1, 2**62, 2**63 + 1])  # sums beyond 64-bit integers


@st.composite
def caps(draw: st.DrawFn, account: str) -> Item:
    """Return an item without a charge: an account and its caps."""
    cap, delta_cap = st.none() | st.integers(3, 9), st.none() | st.sampled_from([2**63 + 1, 2**64 - 1])
    return Item(
        account,
        f"the {account} account",
        0,
        0,
        draw(cap),
        draw(cap),
        draw(delta_cap),
        draw(delta_cap),
        draw(st.integers(1, 50)),
    )


@st.composite
def charges(draw: st.DrawFn, capped: st.SearchStrategy[tuple[Item, ...]]) -> Bill:
    """Return a bill of one account or several, in any order."""
    items = draw(st.lists(st.sampled_from(draw(capped)), min_size=1, unique_by=lambda item: item.account))
    return tuple(item._replace(epsilon=draw(EPSILONS), delta=draw(DELTAS)) for item in items)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresLedgers]:
    with fresh_ledgers(relaxed=True) as ledgers:
        yield ledgers


def hosted_ledger(ledgers: PostgresLedgers) -> Ledger:
    """Return the ledger of a new account."""
    name = secrets.token_hex(6)
    assert ledgers.create_account(name)
    return ledgers.account(name)


STEPS = st.sampled_from([0.0, 0.25, 1.0, 10.0]) | st.floats(-60, 60)
CAPPED = st.tuples(*map(caps, ACCOUNTS))


@pytest.mark.parametrize("kinds", ["memory", pytest.param("all", marks=pytest.mark.slow)])
@given(st.data(), CAPPED, st.lists(STEPS, max_size=40))
@settings(max_examples=60)
def test_every_ledger_grants_exactly_what_the_caps_allow(
    request: pytest.FixtureRequest,
    kinds: str,
    data: st.DataObject,
    capped: tuple[Item, ...],
    steps: list[float],
) -> None:
    """All of a bill is charged or nothing, even if the clock jumps or the ledger restarts."""
    truth, clock = Truth(), 1000.0
    ledgers: list[Ledger] = [MemoryLedger()]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as opened:
        path = Path(folder) / "ledger.db"
        if kinds == "all":
            ledgers.append(hosted_ledger(request.getfixturevalue("postgres")))
            ledgers.append(opened.enter_context(FileLedger(path, create=True, relaxed=True)))
        for step in steps:
            clock = max(0.0, clock + step)
            bill = data.draw(charges(st.just(capped)))
            truth.time = max(truth.time, clock)
            allowed = truth.allows(bill)
            assert {charge_all(ledger, bill, clock) for ledger in ledgers} == {allowed}
            if allowed:
                truth.enter(bill)
            if kinds == "all" and data.draw(st.integers(0, 9)) == 0:
                opened.close()
                ledgers[-1] = opened.enter_context(FileLedger(path, relaxed=True))
            assert [ledger.budget(bill, clock) for ledger in ledgers] == [truth.budget(bill)] * len(ledgers)
    for item in capped:  # and so in every window of ledger time
        for _, end, _, _ in truth.charges:
            inside = [c for c in truth.charges if c[0] == item.account and end - item.window < c[1] <= end]
            assert sum(c[2] for c in inside) <= (math.inf if item.rolling is None else item.rolling)
            assert sum(c[3] for c in inside) <= (item.rolling_delta or math.inf)


@pytest.mark.slow
@given(st.data(), st.lists(STEPS, max_size=40))
@settings(max_examples=60)
def test_caps_and_windows_that_change_are_never_kept_too_laxly(
    postgres: PostgresLedgers, data: st.DataObject, steps: list[float]
) -> None:
    """An update of the app may change caps; earlier spending still counts, as far as it is known."""
    truth, clock = Truth(), 1000.0
    memory, hosted = MemoryLedger(), hosted_ledger(postgres)
    with (
        tempfile.TemporaryDirectory() as folder,
        FileLedger(Path(folder) / "ledger.db", create=True, relaxed=True) as file,
    ):
        for step in steps:
            clock = max(0.0, clock + step)
            bill = data.draw(charges(CAPPED))
            truth.time = max(truth.time, clock)
            granted = charge_all(memory, bill, clock)
            assert charge_all(file, bill, clock) is charge_all(hosted, bill, clock) is granted
            if granted:
                assert truth.allows(bill)
                truth.enter(bill)
            exact = truth.budget(bill)
            for budget in (ledger.budget(bill, clock) for ledger in (memory, file, hosted)):
                assert (budget.epsilon, budget.delta) == (exact.epsilon, exact.delta)
                assert (budget.recent_epsilon or 0) >= (exact.recent_epsilon or 0)
                assert (budget.recent_delta or 0) >= (exact.recent_delta or 0)


@settings(max_examples=40)  # each creates a file
@given(st.lists(st.sampled_from([1, 5, 20, 50]), min_size=1, max_size=6), st.integers(0, 60))
def test_what_left_a_shorter_window_counts_again_in_a_longer_one(windows: list[int], pause: int) -> None:
    """It counts at the latest possible time of the charge: it is never forgotten, and never kept for ever."""
    with (
        tempfile.TemporaryDirectory() as folder,
        FileLedger(Path(folder) / "ledger.db", create=True, relaxed=True) as file,
    ):
        for ledger in (MemoryLedger(), file):
            item = Item("first", "first", 1, 0, rolling=1, window=windows[0])
            assert charge_all(ledger, (item,), 1000.0)
            now = 1000.0 + pause
            for window in windows:
                if pause < window:
                    assert not charge_all(ledger, (item._replace(window=window),), now)
                else:  # a charge of nothing is always granted, and lets the window change
                    assert charge_all(ledger, (item._replace(window=window, epsilon=0),), now)
            last = item._replace(window=windows[-1])
            assert charge_all(ledger, (last,), now + windows[-1])


def test_a_refusal_is_remembered_as_a_time(ledger: Ledger) -> None:
    """Otherwise, a clock that was set back would put a charge into the window that the refusal had ended."""
    rolling = Item("first", "first", 1, 0, rolling=1, window=100)
    spent = Item("second", "second", 1, 0, lifetime=1)
    assert charge_all(ledger, (rolling, spent), 1000.0)
    assert not charge_all(ledger, (rolling, spent), 2000.0)
    assert charge_all(ledger, (rolling,), 1050.0)  # at ledger time 2000
    assert not charge_all(ledger, (rolling,), 2099.0)
    assert charge_all(ledger, (rolling,), 2100.0)


VECTORS = json.loads((FOLDER / "ledger.json").read_text(encoding="ascii"))


@pytest.mark.parametrize("case", VECTORS.values(), ids=VECTORS)
def test_ledgers_grant_what_the_vectors_say(ledger: Ledger, case: Any) -> None:
    task = Task.from_bytes(bytes.fromhex(case["task"]))
    assert [charge(ledger, task, now) for now in case["times"]] == case["granted"]
    assert spent(ledger, task) == case["spent"]


def task(epsilon: float = 1.0, **caps: Any) -> Task:
    return Task("t", Circle(360), epsilon, caps=Caps(**caps))


@pytest.mark.parametrize(
    ("epsilon", "charges", "micro"),
    [
        (0.1, 1000, 100_000_000),  # exactly: floats would not add up to 100
        (0.123_456_1, 1, 123_457),  # rounded up to a millionth
    ],
)
def test_what_is_spent_adds_up_in_millionths(epsilon: float, charges: int, micro: int) -> None:
    ledger, uncapped = MemoryLedger(), task(epsilon)
    assert all(charge(ledger, uncapped, now) for now in range(charges))
    assert spent(ledger, uncapped) == micro


def test_tasks_are_charged_apart_and_equal_ones_together(ledger: Ledger) -> None:
    assert [charge(ledger, task(lifetime=1.0), 0.0) for _ in range(2)] == [True, False]
    assert charge(ledger, task(2.0, lifetime=2.0), 0.0)
    assert spent(ledger, task(lifetime=1.0)) == 1_000_000
    assert spent(ledger, task(2.0, lifetime=2.0)) == 2_000_000


def test_a_charge_made_with_the_clock_back_counts_at_ledger_time(ledger: Ledger) -> None:
    capped = task(rolling=1.0, window=100)
    charge(ledger, task(2.0), 1000.0)  # all tasks share the ledger's time
    assert [charge(ledger, capped, now) for now in (0.0, 1099.0, 1100.0)] == [True, False, True]


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("caps", [{"lifetime": 15_000.0}, {"rolling": 15_000.0}])
def test_threads_together_do_not_exceed_a_cap(caps: dict[str, float]) -> None:
    ledger, capped = MemoryLedger(), task(**caps)
    granted = in_threads(*[lambda: sum(charge(ledger, capped, 0.0) for _ in range(2000))] * 8)
    assert sum(granted) == 15_000
    assert spent(ledger, capped) == 15_000_000_000
