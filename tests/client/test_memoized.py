"""Memoised tasks: one answer per node, all paid for together; after the last, the nearest answer is used."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcwise.client import FileLedger, Ledger, MemoryLedger, Outcome
from arcwise.client.environment import Source
from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms import OptimalCircular, OptimalPiecewise
from arcwise.randomness import InsecureSeededRandomness
from arcwise.tasks import Caps, CentralStatement, Group, Task
from tests.support.charges import transaction
from tests.support.recorder import Recorder
from tests.support.stepped import SteppedUplink
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from collections.abc import Mapping

URL = "http://127.0.0.1:1"
HOURS = Circle(8)
HOUR = Task("hour", HOURS, 1.0, mechanism=OptimalCircular(HOURS, 1.0, nodes=8))
"""Eight nodes on a circle; see `VALUES`."""
LEVELS = Interval(0, 7)
LEVEL = Task("level", LEVELS, 1.0, mechanism=OptimalPiecewise(LEVELS, 1.0, nodes=8))
"""Eight nodes on an interval."""
VALUES = {HOUR: [(node + 1.5) % 8 for node in range(8)], LEVEL: [float(node) for node in range(8)]}
"""For each node, a value that is rounded to it for every draw."""


class Device:
    """A client whose answers can be read one by one."""

    def __init__(self, ledger: Ledger, task: Task, answers: int, seed: int = 1, **options: Any) -> None:
        self.recorder = Recorder()
        self.uplink = SteppedUplink(URL, ledger=ledger, transport=self.recorder, batch_size=1, max_pending=9)
        self.randomness = InsecureSeededRandomness(seed)
        self.client = Client(
            self.uplink,
            tasks=[task],
            ledger=ledger,
            memoize={task.name: answers},
            randomness=self.randomness,
            **options,
        )
        self.ledger, self.task = ledger, task

    def answer(self, value: float) -> int:
        assert self.client.report(self.task.name, value) is Outcome.ACCEPTED
        self.uplink.send()
        return self.recorder.posts[-1].batch.codes[0]

    def at(self, node: int) -> int:
        return self.answer(VALUES[self.task][node])

    def spent(self) -> float:
        assert self.client.budget().epsilon == self.client.budget(self.task.name).epsilon
        return self.client.budget().epsilon

    def memo(self) -> Mapping[int, int]:
        """Return the stored answers: codes by node."""
        with transaction(self.ledger, 0.0) as opened:
            memo = opened.memo(self.task)
            return {} if memo is None else {node: memo[node] for node in memo}


@pytest.mark.parametrize("task", [HOUR, LEVEL], ids=["circle", "interval"])
def test_the_values_are_those_of_the_nodes(task: Task) -> None:
    for draw in (0, 2**64 - 1):
        assert [task.mechanism.node(value, draw) for value in VALUES[task]] == list(range(8))


def test_a_value_between_two_nodes_has_one_node_for_ever(ledger: Ledger) -> None:
    """With a new draw for each report, the shares of two answers would show where between them the value
    lies.
    """
    device = Device(ledger, HOUR, 3)
    assert len({device.answer(2.0) for _ in range(40)}) == 1
    assert len(device.memo()) == 1


def test_one_draw_rounds_all_values(ledger: Ledger) -> None:
    device = Device(ledger, HOUR, 8)
    values = [n / 10 for n in range(80)]
    for value in values:
        device.answer(value)
    draw = InsecureSeededRandomness(1).draw()[0]
    assert set(device.memo()) == {HOUR.mechanism.node(value, draw) for value in values}
    assert len({device.answer(value) for value in (2.5, 2.5 + 1e-9, 2.5 - 1e-9)}) == 1  # equal nodes


@pytest.mark.parametrize("first", [0.0, 3.3, 7.9])
def test_all_answers_are_paid_with_the_first_report_whatever_its_value(ledger: Ledger, first: float) -> None:
    device = Device(ledger, HOUR, 5)
    assert device.spent() == 0.0
    spent = []
    for value in (first, first, 1.0, 2.0, 6.0, 7.0, 0.5, first):
        device.answer(value)
        spent.append(device.spent())
    assert spent == [5.0] * 8
    assert device.client.budget("hour").reports_left is None


def test_past_the_last_answer_the_nearest_node_answers_around_the_circle(ledger: Ledger) -> None:
    device = Device(ledger, HOUR, 2, seed=3)
    one, six = device.at(1), device.at(6)
    assert one != six
    assert device.at(3) == one
    assert device.at(5) == six
    assert device.at(7) == six
    assert device.at(0) == one  # two away from 6, on the circle
    assert device.memo() == {1: one, 6: six}
    assert device.spent() == 2.0


def test_of_two_nodes_as_near_the_lower_one_answers(ledger: Ledger) -> None:
    device = Device(ledger, HOUR, 2, seed=3)
    five, one = device.at(5), device.at(1)
    assert one != five
    assert device.at(3) == device.at(7) == one


def test_on_an_interval_the_ends_are_far_apart(ledger: Ledger) -> None:
    device = Device(ledger, LEVEL, 2, seed=3)
    zero, five = device.at(0), device.at(5)
    assert zero != five
    assert device.at(7) == five
    assert device.at(2) == zero
    assert device.memo() == {0: zero, 5: five}


def test_more_answers_cost_what_they_are_more(ledger: Ledger) -> None:
    few = Device(ledger, HOUR, 2)
    kept = {node: few.at(node) for node in (1, 6)}
    more = Device(ledger, HOUR, 4, seed=2)
    assert {node: more.at(node) for node in (1, 6)} == kept
    assert more.spent() == 4.0
    more.at(3)
    more.at(4)
    more.at(0)
    assert set(more.memo()) == {1, 3, 4, 6}
    assert more.spent() == 4.0


def test_fewer_answers_give_nothing_back(ledger: Ledger) -> None:
    many = Device(ledger, HOUR, 4)
    kept = {node: many.at(node) for node in (1, 4, 6)}
    few = Device(ledger, HOUR, 2, seed=2)
    assert {node: few.at(node) for node in (1, 4, 6)} == kept
    few.at(0)
    assert few.memo() == kept
    assert few.spent() == 4.0
    again = Device(ledger, HOUR, 4, seed=3)
    again.at(0)
    assert set(again.memo()) == {0, 1, 4, 6}
    assert again.spent() == 4.0  # the fourth was paid for long ago


def spend(ledger: Ledger, caps: Caps) -> None:
    """Report to another task, for an epsilon of 1."""
    with Client(
        URL, tasks=[Task("other", Circle(24), 1.0)], ledger=ledger, caps=caps, transport=Recorder()
    ) as client:
        assert client.report("other", 1)


def test_a_cap_that_forbids_more_answers_leaves_those_that_are_paid(ledger: Ledger) -> None:
    few = Device(ledger, HOUR, 2)
    kept = {node: few.at(node) for node in (1, 6)}
    caps = Caps(lifetime=5.0)
    spend(ledger, caps)
    more = Device(ledger, HOUR, 5, seed=2, caps=caps)
    assert more.at(2) == kept[1]
    assert more.memo() == kept
    assert more.client.budget("hour").epsilon == 2.0


def test_a_cap_that_forbids_the_first_answer_forbids_all(ledger: Ledger) -> None:
    caps = Caps(lifetime=3.0)
    spend(ledger, caps)
    device = Device(ledger, HOUR, 3, caps=caps)
    assert device.client.report("hour", 1) is Outcome.CAPPED
    assert device.client.budget("hour").epsilon == 0.0
    assert device.memo() == {}


def test_a_full_queue_stores_no_answer_and_charges_nothing(ledger: Ledger) -> None:
    device = Device(ledger, HOUR, 8)
    for node in (1, 1, 1, 2, 2, 2, 3, 3, 3):
        assert device.client.report("hour", VALUES[HOUR][node])
    assert device.client.report("hour", VALUES[HOUR][4]) is Outcome.FULL
    assert set(device.memo()) == {1, 2, 3}


def test_answers_outlive_a_restart(tmp_path: Path) -> None:
    path, values = tmp_path / "ledger.db", [0.5 * n for n in range(16)]
    with FileLedger(path, create=True) as ledger:
        device = Device(ledger, HOUR, 3)
        before = [device.answer(value) for value in values]
        stored = device.memo()
    with FileLedger(path) as ledger:
        device = Device(ledger, HOUR, 3, seed=99)
        assert [device.answer(value) for value in values] == before
        assert (device.memo(), device.spent()) == (stored, 3.0)


@pytest.mark.slow
@given(
    task=st.sampled_from([HOUR, LEVEL]),
    seed=st.integers(0, 2**32),
    sessions=st.lists(
        st.tuples(st.integers(1, 9), st.lists(st.floats(0, 7), min_size=1, max_size=8)), max_size=4
    ),
)
@settings(max_examples=25)
def test_both_ledgers_answer_as_a_plain_description_does(
    task: Task, seed: int, sessions: list[tuple[int, list[float]]]
) -> None:
    """Also through updates that change the number of answers."""
    twin, stored, paid, draw = InsecureSeededRandomness(seed), dict[int, int](), 0, 0
    kernel = task.mechanism.kernel
    with tempfile.TemporaryDirectory() as folder:
        devices: list[Device] = []
        ledgers: list[Ledger] = [
            MemoryLedger(),
            FileLedger(Path(folder) / "ledger.db", create=True, relaxed=True),
        ]
        for answers, values in sessions:
            before = [device.randomness for device in devices]
            devices = [Device(ledger, task, answers, seed) for ledger in ledgers]
            for device, randomness in zip(devices, before, strict=False):
                device.randomness = randomness
                device.client._randomness = Source(randomness)
            for value in values:
                if not paid:
                    draw = twin.draw()[0]
                paid = max(paid, answers)
                node = task.mechanism.node(value, draw)
                if node not in stored and len(stored) < answers:
                    stored[node] = kernel.sample(node, twin.draw()[1])
                around = kernel.nodes if kernel.circular else 10**9
                nearest = min((min((node - n) % around, (n - node) % around), n) for n in stored)[1]
                assert [device.answer(value) for device in devices] == [stored[nearest]] * 2
                assert [device.spent() for device in devices] == [paid * task.epsilon] * 2
                assert [device.memo() for device in devices] == [stored] * 2
        ledgers[1].close()  # type: ignore[attr-defined]


SPEED = Task("speed", Interval(0, 180), 1.0)
GROUP = Group("vehicle", [SPEED, Task("load", Interval(0, 1), 1.0)])
CAPPED = Task("capped", HOURS, 1.0, caps=Caps(lifetime=3.0))
PROMISED = Task(
    "promised",
    HOURS,
    1.0,
    caps=Caps(lifetime=7.0, rolling=1.0),
    central=CentralStatement(0.2, 1e-8, 10_000, releases=7),
)


@pytest.mark.parametrize(
    ("memoize", "message"),
    [
        ({"hours": 2}, "memoize must name tasks of this client that are in no group, got 'hours'"),
        ({"speed": 2}, "in no group, got 'speed'"),
        ({"vehicle": 2}, "in no group, got 'vehicle'"),
        ({"hour": 0}, "from 1 to 1,000,000 answers, got 0"),
        ({"hour": 10**15}, "from 1 to 1,000,000 answers, got 1000000000000000"),
        ({"hour": True}, r"from task names to integers, got \{'hour': True\}"),
        ({"hour": 2.0}, r"from task names to integers, got \{'hour': 2\.0\}"),
        (
            {"promised": 2},
            "memoize must not name task 'promised': its central statement assumes .* leave it",
        ),
        ({"capped": 4}, "caps.lifetime = 3 allows no set of 4 memoised answers of task 'capped'"),
        ({"hour": 9}, "caps.lifetime = 8 allows no set of 9 memoised answers of task 'hour'"),
        (["hour"], r"memoize must be None or a mapping .* got \['hour'\]"),
        ({7: 2}, "in no group, got 7"),
        ({"hour": 2, 7: 2}, "memoize"),
    ],
)
def test_bad_arguments(memoize: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Client(
            URL,
            tasks=[HOUR, GROUP, CAPPED, PROMISED],
            memoize=memoize,
            ledger=MemoryLedger(),
            caps=Caps(lifetime=8.0),
        )


@pytest.mark.parametrize("domain", [HOURS, LEVELS])
def test_memoised_tasks_need_a_ledger(domain: Domain) -> None:
    with pytest.raises(ParameterError, match="memoised answers of task 't' need a ledger: give ledger="):
        Client(URL, tasks=[Task("t", domain, 1.0)], memoize={"t": 2})
