"""Groups on a device: what a round draws, charges and queues, on either ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.client import Ledger, MemoryLedger, Outcome
from arcwise.domains import Circle, Interval
from arcwise.errors import CertificateError, DomainError, ParameterError, UnknownTaskError
from arcwise.randomness import InsecureSeededRandomness
from arcwise.tasks import Caps, Group, Task
from tests.support.recorder import Recorder
from tests.support.stepped import SteppedUplink
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from collections.abc import Mapping

URL = "http://127.0.0.1:1"
HEADING = Task("heading", Circle(360), 1.0)
SPEED = Task("speed", Interval(0, 180), 2.0)
LOAD = Task("load", Interval(0, 1), 0.5)
ALL = Group("vehicle", [HEADING, SPEED, LOAD])
SOME = Group("vehicle", [HEADING, SPEED, LOAD], sample=2)
VALUES = {"heading": 350.5, "speed": 31.0, "load": 0.25}


class Device:
    def __init__(self, ledger: Ledger, group: Group, seed: int = 1, **options: Any) -> None:
        self.recorder = Recorder()
        max_pending = options.pop("max_pending", 10_000)
        self.uplink = SteppedUplink(URL, ledger=ledger, transport=self.recorder, max_pending=max_pending)
        self.randomness = InsecureSeededRandomness(seed)
        self.client = Client(self.uplink, tasks=[group], ledger=ledger, randomness=self.randomness, **options)
        self.group = group

    def spent(self) -> dict[str, float]:
        names = [self.group.name, *(task.name for task in self.group.tasks)]
        spent = {name: self.client.budget(name).epsilon for name in names}
        return {**spent, "everything": self.client.budget().epsilon}

    def reported(self) -> dict[str, int]:
        """Send the queue; return the number of reports of each task."""
        self.recorder.posts.clear()
        self.uplink.expedite()
        names = {task.id: task.name for task in self.group.tasks}
        return {names[post.batch.task_id.hex()]: len(post.batch.codes) for post in self.recorder.posts}


def test_a_round_of_all_tasks(ledger: Ledger) -> None:
    device = Device(ledger, ALL)
    assert device.client.report("vehicle", VALUES) is Outcome.ACCEPTED
    assert device.client.pending == 3
    assert device.spent() == {
        "vehicle": 3.5,
        "heading": 1.0,
        "speed": 2.0,
        "load": 0.5,
        "everything": 3.5,
    }
    assert device.reported() == {"heading": 1, "speed": 1, "load": 1}
    twin = InsecureSeededRandomness(1)
    expected = {task.id: [task.mechanism.randomize(VALUES[task.name], randomness=twin)] for task in ALL.tasks}
    assert {post.batch.task_id.hex(): list(post.batch.codes) for post in device.recorder.posts} == expected


def test_a_sampled_round_charges_the_same_whatever_is_drawn(ledger: Ledger) -> None:
    device, twin = Device(ledger, SOME), InsecureSeededRandomness(1)
    own = dict.fromkeys(VALUES, 0.0)
    for rounds in range(1, 20):
        assert device.client.report("vehicle", VALUES)
        chosen = SOME.choose(twin)
        for task in chosen:
            task.mechanism.randomize(VALUES[task.name], randomness=twin)
            own[task.name] += task.epsilon
        assert device.reported() == {task.name: 1 for task in chosen}
        assert device.spent() == {**own, "vehicle": 3.0 * rounds, "everything": 3.0 * rounds}


NUMBERS = st.fixed_dictionaries(
    {},
    optional={
        "heading": st.none() | st.floats(-1000, 1000),
        "speed": st.none() | st.floats(0, 180),
        "load": st.none() | st.floats(0, 1),
    },
)


@pytest.mark.slow
@given(seed=st.integers(0, 2**32), values=NUMBERS, group=st.sampled_from([ALL, SOME]))
def test_the_choice_and_the_charge_do_not_depend_on_the_values(
    seed: int, values: Mapping[str, float | None], group: Group
) -> None:
    """They also do not depend on whether there are values; only drawn tasks with a value are queued."""
    full, other = Device(MemoryLedger(), group, seed), Device(MemoryLedger(), group, seed)
    assert full.client.report("vehicle", VALUES) is other.client.report("vehicle", values)
    assert full.spent() == other.spent()
    present = {name for name, value in values.items() if value is not None}
    assert other.reported() == {name: 1 for name in full.reported() if name in present}


@pytest.mark.parametrize("values", [{}, dict.fromkeys(VALUES), {"load": None}])
def test_missing_values_cost_the_same(ledger: Ledger, values: dict[str, None]) -> None:
    device = Device(ledger, SOME)
    assert device.client.report("vehicle", values) is Outcome.ACCEPTED
    assert device.client.pending == 0
    spent = device.spent()
    assert (spent["vehicle"], spent["everything"]) == (3.0, 3.0)
    assert sorted([spent["heading"], spent["speed"], spent["load"]])[0] == 0.0


def test_a_cap_of_one_task_forbids_the_whole_round(ledger: Ledger) -> None:
    speed = Task("speed", Interval(0, 180), 2.0, caps=Caps(lifetime=4.0))
    device = Device(ledger, Group("vehicle", [HEADING, LOAD, speed]))
    outcomes = [device.client.report("vehicle", VALUES) for _ in range(4)]
    assert outcomes == [Outcome.ACCEPTED] * 2 + [Outcome.CAPPED] * 2
    assert device.spent() == {
        "vehicle": 7.0,
        "heading": 2.0,
        "load": 1.0,
        "speed": 4.0,
        "everything": 7.0,
    }
    assert device.reported() == {"heading": 2, "load": 2, "speed": 2}
    assert device.client.budget("vehicle").reports_left == device.client.budget("speed").reports_left == 0
    assert device.client.budget("vehicle").epsilon_left is None  # the group itself has no cap
    assert device.client.budget("load").reports_left is None


def test_a_task_that_is_not_drawn_forbids_nothing(ledger: Ledger) -> None:
    load = Task("load", Interval(0, 1), 0.5, caps=Caps(lifetime=0.5))
    group = Group("vehicle", [HEADING, SPEED, load], sample=1)
    device, twin = Device(ledger, group, seed=5), InsecureSeededRandomness(5)
    given = []
    for _ in range(30):
        (drawn,) = group.choose(twin)
        allowed = drawn is not load or "load" not in given
        assert device.client.report("vehicle", VALUES) is (Outcome.ACCEPTED if allowed else Outcome.CAPPED)
        twin.draw()  # before the charge, even if the round then fails
        if allowed:
            given.append(drawn.name)
    assert given.count("load") == 1
    assert len(given) < 30
    assert device.spent()["vehicle"] == 2.0 * len(given)  # a round costs as much as its dearest choice


@pytest.mark.parametrize("where", ["group", "client"])
def test_caps_of_the_group_and_of_everything(ledger: Ledger, where: str) -> None:
    caps = Caps(lifetime=8.0)
    group = Group("vehicle", ALL.tasks, caps=caps if where == "group" else None)
    device = Device(ledger, group, caps=caps if where == "client" else None)
    assert [bool(device.client.report("vehicle", VALUES)) for _ in range(3)] == [True, True, False]
    assert device.client.budget("vehicle").reports_left == 0
    assert device.client.budget("heading").reports_left == 0
    assert device.client.budget("heading").epsilon_left is None


def test_a_round_is_queued_whole_or_not_at_all(ledger: Ledger) -> None:
    device = Device(ledger, ALL, max_pending=5)
    assert device.client.report("vehicle", VALUES)
    assert device.client.report("vehicle", VALUES) is Outcome.FULL  # there is room for two
    assert device.client.pending == 3
    assert device.spent()["everything"] == 3.5


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (12.0, ParameterError, r"group 'vehicle' must be a mapping from task names to numbers, got a float"),
        ([("heading", 1.0)], ParameterError, "must be a mapping"),
        ({"hedding": 1.0}, UnknownTaskError, "no task 'hedding' in group 'vehicle'; it has 'heading', 'sp"),
        ({"heading": 1.0, "speed": 181.0}, DomainError, r"value must be in \[0, 180\]: clip"),
        ({"heading": "north"}, DomainError, "got a str"),
        ({"load": True}, DomainError, "got a bool"),
    ],
)
def test_what_is_no_round_costs_nothing(
    ledger: Ledger, value: Any, error: type[Exception], message: str
) -> None:
    device = Device(ledger, ALL)
    with pytest.raises(error, match=message):
        device.client.report("vehicle", value)
    assert set(device.spent().values()) == {0.0}
    assert device.client.pending == 0


def test_a_task_of_a_group_is_not_reported_alone(ledger: Ledger) -> None:
    device = Device(ledger, SOME)
    with pytest.raises(UnknownTaskError, match="'speed' belongs to group 'vehicle': report the group"):
        device.client.report("speed", 31.0)
    with pytest.raises(UnknownTaskError, match="no task 'spead'; this client has 'vehicle'"):
        device.client.report("spead", 31.0)


@pytest.mark.parametrize(
    "tasks",
    [
        [ALL, Task("vehicle", Circle(1), 1.0)],
        [ALL, Task("heading", Circle(1), 1.0)],
        [Task("load", Interval(0, 2), 1.0), ALL],
        [ALL, Group("other", [LOAD, Task("more", Circle(1), 1.0)])],
    ],
)
def test_names_are_unique_over_tasks_and_groups(tasks: list[Task | Group]) -> None:
    with pytest.raises(
        ParameterError, match=r"must have different names, got '(vehicle|heading|load)' twice"
    ):
        Client(URL, tasks=tasks)


def test_a_round_is_what_max_epsilon_is_about() -> None:
    for group, cost in ((ALL, 3.5), (SOME, 3.0)):
        Client(URL, tasks=[group], max_epsilon=cost)
        with pytest.raises(CertificateError, match=rf"a round of group 'vehicle' spends epsilon = {cost}"):
            Client(URL, tasks=[group], max_epsilon=cost - 1e-6)
        with pytest.raises(ParameterError, match="allows no round of group 'vehicle'"):
            Client(URL, tasks=[group], ledger=MemoryLedger(), caps=Caps(rolling=cost - 1e-6))


@pytest.mark.parametrize("inner", [True, False])
def test_groups_with_caps_need_a_ledger(inner: bool) -> None:
    load = Task("load", Interval(0, 1), 0.5, caps=Caps(rolling=1.0) if inner else None)
    group = Group("vehicle", [HEADING, load], caps=None if inner else Caps(lifetime=9.0))
    owner = "load" if inner else "vehicle"
    with pytest.raises(ParameterError, match=f"caps of '{owner}' need a ledger"):
        Client(URL, tasks=[group])
