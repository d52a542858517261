"""Groups: the cost of a round, which tasks are drawn, and round trips through files and bytes."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import pickle
from collections import Counter
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcwise.domains import Circle, Interval
from arcwise.errors import ArcwiseError, CertificateError, ParameterError, TaskError
from arcwise.kernels.certificate import exact_epsilon
from arcwise.mechanisms import GaussianMechanism
from arcwise.randomness import SYSTEM
from arcwise.tasks import Caps, Charge, Group, Task, micro_epsilon
from arcwise.tasks.group_budget import epsilon_shares, wang_sample
from tests.support.strategies import caps, json_values, mutations, names, tasks

if TYPE_CHECKING:
    from pathlib import Path

    from arcwise.domains import Domain

HEADING = Task("heading", Circle(360), 1.0)
SPEED = Task("speed", Interval(0, 180), 2.0)
LOAD = Task("load", Interval(0, 1), 0.5)
DOMAINS: dict[str, Domain] = {"heading": Circle(360), "speed": Interval(0, 180), "load": Interval(0, 1)}


def noisy(name: str, epsilon: float, delta: float) -> Task:
    domain = Interval(0, 1)
    return Task(name, domain, epsilon, mechanism=GaussianMechanism(domain, epsilon, delta, nodes=5))


@st.composite
def groups(draw: st.DrawFn) -> Group:
    members = draw(st.lists(tasks(), min_size=2, max_size=4, unique_by=lambda task: task.name))
    sample = draw(st.none() | st.integers(1, len(members)))
    bounds = draw(st.none() | caps(sum(task.epsilon for task in members) + 1e-5))
    return Group(draw(names), members, sample=sample, caps=bounds)


# --- round trips and identity ------------------------------------------------------------------------


def same(group: Group, other: Group) -> bool:
    return (
        group == other
        and hash(group) == hash(other)
        and group.to_bytes() == other.to_bytes()
        and (group.id, group.name, group.tasks, group.sample, group.caps, group.charge)
        == (other.id, other.name, other.tasks, other.sample, other.caps, other.charge)
    )


@given(groups())
@settings(max_examples=40)
def test_bytes_json_and_copies_give_the_group_back(group: Group) -> None:
    assert same(Group.from_bytes(group.to_bytes()), group)
    assert same(Group.from_json(json.loads(json.dumps(group.to_json()))), group)
    assert same(pickle.loads(pickle.dumps(group)), group)
    assert same(copy.deepcopy(group), group)
    assert group.id == hashlib.sha256(group.to_bytes()).hexdigest()


def test_a_file_gives_the_group_back(tmp_path: Path) -> None:
    group = Group("vehicle", [HEADING, SPEED], sample=1, caps=Caps(lifetime=40.0, rolling_delta=1e-5))
    path = tmp_path / "vehicle.json"
    group.save(path)
    assert same(Group.load(path), group)
    shown = json.loads(path.read_text(encoding="utf-8"))
    assert list(shown) == ["arcwise_group", "name", "id", "sample", "caps", "tasks"]
    assert [Task.from_json(task) for task in shown["tasks"]] == [HEADING, SPEED]


def test_canonical_bytes() -> None:
    group = Group("vehicle", [HEADING, SPEED], sample=1, caps=Caps(lifetime=40.0))
    assert msgpack.unpackb(group.to_bytes()) == [
        1,
        "group",
        "vehicle",
        1,
        [40_000_000, None, 86_400],
        [HEADING.to_bytes(), SPEED.to_bytes()],
    ]
    whole = Group("vehicle", [HEADING, SPEED], caps=Caps(lifetime_delta=0.25))
    assert msgpack.unpackb(whole.to_bytes())[3:5] == [None, [None, None, 86_400, 1 << 62, None]]


def test_the_id_covers_every_part() -> None:
    variants = [
        Group("vehicle", [HEADING, SPEED]),
        Group("vehicle", [SPEED, HEADING]),
        Group("vehicles", [HEADING, SPEED]),
        Group("vehicle", [HEADING, LOAD]),
        Group("vehicle", [HEADING, SPEED], sample=1),
        Group("vehicle", [HEADING, SPEED], caps=Caps(lifetime=4.0)),
    ]
    assert len({group.id for group in variants}) == len(set(variants)) == len(variants)
    assert Group("vehicle", [HEADING, SPEED], sample=2) == variants[0]  # the same as no sample
    assert variants[0] != variants[0].id


def test_groups_cannot_be_changed() -> None:
    group: Any = Group("vehicle", [HEADING, SPEED])
    for name in ("name", "tasks", "caps", "id", "sample", "charge", "other"):
        with pytest.raises(AttributeError, match=f"a Group is immutable; cannot set '{name}'"):
            setattr(group, name, None)
    with pytest.raises(AttributeError, match="a Group is immutable; cannot delete 'caps'"):
        del group.caps
    assert repr(group) == "Group('vehicle', ['heading', 'speed'], sample=None, epsilon=3.0)"


# --- what cannot be a group ----------------------------------------------------------------------------


SAMPLE = "sample must be None or an integer from 1 to 2, the tasks; got"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"tasks": []}, "tasks must be 2 to 256, got 0$"),
        ({"tasks": [HEADING]}, "tasks must be 2 to 256, got 1$"),
        ({"tasks": [HEADING] * 257}, "tasks must be 2 to 256, got 257$"),
        (
            {"tasks": [HEADING, Task("heading", Circle(24), 1.0)]},
            "tasks must have different names, got 'heading' twice$",
        ),
        ({"tasks": [HEADING, SPEED, HEADING]}, "tasks must have different names, got 'heading' twice$"),
        ({"tasks": [HEADING, "speed"]}, "tasks must be an iterable of tasks, got 'speed' among them$"),
        ({"tasks": 3}, "tasks must be an iterable of tasks, got 3$"),
        *(({"sample": bad}, SAMPLE) for bad in (0, 3, -1, True, 1.0, "auto")),
        ({"name": " "}, "name must be 1 to 64 printable characters"),
        ({"caps": {"lifetime": 3.0}}, "caps must be a Caps or None, got"),
    ],
)
def test_bad_arguments_are_refused(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=f"^{message}"):
        Group(**{"name": "vehicle", "tasks": [HEADING, SPEED], **bad})


@pytest.mark.parametrize("kind", ["lifetime", "rolling"])
def test_caps_that_allow_no_round_are_refused(kind: str) -> None:
    low: Any = {kind: 2.9}
    with pytest.raises(TaskError, match=rf"caps\.{kind} = 2\.9 allows no round: one costs epsilon = 3$"):
        Group("vehicle", [HEADING, SPEED], caps=Caps(**low))
    assert Group("vehicle", [HEADING, SPEED], sample=1, caps=Caps(**low)).charge == Charge(2_000_000, 0)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x01", HEADING.to_bytes(), msgpack.packb([1, "group"])])
def test_bytes_of_no_group_are_refused(data: bytes) -> None:
    with pytest.raises(TaskError, match="not the bytes of a group"):
        Group.from_bytes(data)


@given(st.data())
@settings(max_examples=200)
def test_wrong_bytes_raise_only_arcwise_errors(data: st.DataObject) -> None:
    group = Group("vehicle", [HEADING, SPEED], sample=1)
    mutated = data.draw(mutations(group.to_bytes()))
    try:
        found = Group.from_bytes(mutated)
    except ArcwiseError:
        return
    assert found.to_bytes() == mutated


def test_other_spellings_of_a_group_are_refused() -> None:
    fields = msgpack.unpackb(Group("vehicle", [HEADING, SPEED]).to_bytes())
    for at, other in ((0, 2), (0, True), (1, "task"), (3, 2), (4, [None, None, 86_400, None, None])):
        changed = [*fields[:at], other, *fields[at + 1 :]]
        with pytest.raises(TaskError, match=r"not the (canonical )?bytes of a group"):
            Group.from_bytes(msgpack.packb(changed))


@pytest.mark.parametrize("kind", ["lifetime_micro_epsilon", "rolling_micro_epsilon"])
def test_caps_of_a_file_are_not_beyond_floats(kind: str, tmp_path: Path) -> None:
    file = Group("vehicle", [HEADING, SPEED], caps=Caps(rolling=9.0)).to_json()
    path = tmp_path / "vehicle.json"
    for huge in (10**400, 10**4000, math.inf):
        path.write_text(json.dumps({**file, "caps": {**file["caps"], kind: huge}}), encoding="utf-8")
        whole = "the .* cap must be a whole number of micro-epsilon or none, got inf"
        floats = "caps of a group file must be numbers that a float can hold"
        with pytest.raises(TaskError, match=rf"vehicle\.json: {whole if huge == math.inf else floats}"):
            Group.load(path)


@pytest.mark.parametrize("key", ["arcwise_group", "name", "id", "sample", "caps", "tasks"])
@given(value=json_values)
@settings(max_examples=40)
def test_a_changed_file_is_refused(key: str, value: object) -> None:
    good = Group("vehicle", [HEADING, SPEED], sample=1).to_json()
    with pytest.raises(TaskError, match=f"a group file needs the key '{key}'"):
        Group.from_json({name: part for name, part in good.items() if name != key})
    try:
        found = Group.from_json({**good, key: value})
    except ArcwiseError:
        return
    assert found.id == good["id"]
    assert good[key] == value


def test_a_task_too_strong_in_a_file_is_refused_by_name(tmp_path: Path) -> None:
    shown = Group("vehicle", [HEADING, SPEED]).to_json()
    kernel = shown["tasks"][1]["mechanism"]["kernel"]
    k, w, extra = kernel["codes"], kernel["window"], int(kernel["extra"]) + 2**40
    kernel.update(extra=str(extra), background=str((2**64 - w * extra) // k))
    path = tmp_path / "vehicle.json"
    path.write_text(json.dumps(shown), encoding="utf-8")
    with pytest.raises(CertificateError, match=r"vehicle\.json: the kernel's largest ratio"):
        Group.load(path)
    HEADING.save(path)
    with pytest.raises(TaskError, match=r"vehicle\.json: this is the file of a task, not of a group"):
        Group.load(path)
    Group("vehicle", [HEADING, SPEED]).save(path)
    with pytest.raises(TaskError, match=r"vehicle\.json: this is the file of a group, not of a task"):
        Task.load(path)


# --- what a round costs ---------------------------------------------------------------------------------


@pytest.mark.slow
@given(groups())
@settings(max_examples=40)
def test_no_choice_costs_more_than_the_round(group: Group) -> None:
    """And one choice costs exactly the round's epsilon, so the charge is not larger than necessary."""
    k = len(group.tasks) if group.sample is None else group.sample
    costs = [sum(task.charge.micro_epsilon for task in chosen) for chosen in combinations(group.tasks, k)]
    assert max(costs) == group.charge.micro_epsilon
    assert group.epsilon == group.charge.micro_epsilon / 1e6
    assert group.share == pytest.approx(k / len(group.tasks))


def test_delta_and_epsilon_are_charged_for_their_own_dearest_tasks() -> None:
    weak, strong = noisy("weak", 1.0, 1e-3), noisy("strong", 2.0, 1e-6)
    assert 0 < strong.charge.delta_units < weak.charge.delta_units
    group = Group("noise", [weak, strong, HEADING], sample=1)
    assert group.charge == Charge(2_000_000, weak.charge.delta_units)
    two = Group("noise", [weak, strong, HEADING], sample=2)
    assert two.charge == Charge(3_000_000, weak.charge.delta_units + strong.charge.delta_units)
    units = two.charge.delta_units
    with pytest.raises(TaskError, match=rf"allows no round: one costs delta = .*, {units} / 2\*\*64$"):
        Group("noise", [weak, strong], caps=Caps(lifetime_delta=(units - 10**4) / 2**64))


# --- who is drawn ---------------------------------------------------------------------------------------


class Draws:
    """Gives the given draws, then no more."""

    secure = False

    def __init__(self, *u: int) -> None:
        self.left = list(u)

    def draw(self) -> tuple[int, int]:
        return 0, self.left.pop(0)

    def draws(self, count: int) -> bytes:
        raise NotImplementedError


def members(count: int) -> list[Task]:
    return [Task(f"task {i}", Circle(360), 0.5) for i in range(count)]


@pytest.mark.parametrize(("d", "k"), [(2, 1), (3, 1), (3, 2), (4, 2), (5, 3), (5, 4), (6, 3)])
def test_every_set_of_k_is_chosen_by_equally_many_draws(d: int, k: int) -> None:
    """Exactly: below its limit, u is uniform modulo m, and the test enumerates all tuples of remainders."""
    group = Group("g", members(d), sample=k)
    tuples: list[tuple[int, ...]] = [()]
    for i in range(k):
        tuples = [(*head, last) for head in tuples for last in range(d - i)]
    chosen = Counter(group.choose(Draws(*remainders)) for remainders in tuples)
    assert set(chosen) == set(combinations(group.tasks, k))  # each in the order of the group
    assert set(chosen.values()) == {len(tuples) // math.comb(d, k)}


def test_draws_that_would_bias_the_choice_are_thrown_away() -> None:
    group = Group("g", members(3), sample=1)
    assert 2**64 % 3 == 1
    draws = Draws(2**64 - 1, 2**64 - 1, 2**64 - 2, 7)
    assert group.choose(draws) == (group.tasks[(2**64 - 2) % 3],)
    assert draws.left == [7]
    halves = Draws(2**64 - 1)
    assert Group("g", members(2), sample=1).choose(halves)[0].name == "task 1"  # no draw is rejected


def test_a_published_group_and_its_choices_never_change() -> None:
    """A client in another language with this id and these choices has the same groups."""
    group = Group("golden", members(5), sample=2, caps=Caps(lifetime=7.0, lifetime_delta=1e-6))
    assert group.id == "0047d3fc8db920efefe7dfc1dcfdfa30dcec6f8996fb2476468baddc641d7b4b"
    source = Draws(*(i * 0x9E3779B97F4A7C15 % 2**64 for i in range(1, 17)))
    chosen = [[task.name[-1] for task in group.choose(source)] for _ in range(8)]
    assert ["".join(names) for names in chosen] == ["03", "14", "23", "01", "03", "14", "23", "01"]
    assert not source.left


def test_without_sampling_every_task_is_chosen_and_nothing_is_drawn() -> None:
    group = Group("vehicle", [HEADING, SPEED, LOAD])
    assert group.choose(Draws()) == group.tasks
    assert len(Group("vehicle", [HEADING, SPEED, LOAD], sample=2).choose(SYSTEM)) == 2


# --- one budget -----------------------------------------------------------------------------------------


@given(
    epsilon=st.floats(0.3, 60.0),
    sample=st.sampled_from([None, 1, 2, 3, "auto"]),
    weights=st.none() | st.fixed_dictionaries({name: st.floats(0.2, 5.0) for name in DOMAINS}),
)
@settings(max_examples=200)
def test_a_round_never_costs_more_than_the_budget(epsilon: float, sample: Any, weights: Any) -> None:
    try:
        k, shares = epsilon_shares(DOMAINS, epsilon, sample=sample, weights=weights)
    except TaskError as error:
        assert "a task takes 0.01 to 20" in str(error) or "whose tasks are all reported" in str(error)  # noqa: PT017
        return
    dearest = sorted(shares.values())[-(k or 3) :]
    assert sum(map(exact_epsilon, dearest)) <= exact_epsilon(epsilon)  # as rational numbers
    assert sum(map(micro_epsilon, dearest)) <= micro_epsilon(epsilon)
    # The remainder is less than a millionth for each task plus one for the budget.
    assert exact_epsilon(epsilon) - sum(map(exact_epsilon, dearest)) < Fraction(4, 10**6)


def test_a_budget_makes_a_group() -> None:
    group = Group.share_budget(
        "vehicle",
        DOMAINS,
        1.0,
        sample=None,
        goals={"speed": "value"},
        epoch_seconds=3600,
        caps=Caps(lifetime=9.0),
    )
    assert [task.name for task in group.tasks] == list(DOMAINS)
    assert [task.domain for task in group.tasks] == list(DOMAINS.values())
    assert {task.epsilon for task in group.tasks} == {0.333333}
    assert [task.goal for task in group.tasks] == ["direction", "value", "distribution"]
    assert {task.epoch_seconds for task in group.tasks} == {3600}
    assert (group.sample, group.caps, group.charge) == (None, Caps(lifetime=9.0), Charge(999_999, 0))
    weighted = Group.share_budget("v", DOMAINS, 2.0, sample=3, weights={"load": 1, "speed": 1, "heading": 2})
    assert [task.epsilon for task in weighted.tasks] == [1.0, 0.5, 0.5]
    sampled = Group.share_budget("v", DOMAINS, 5.0)
    assert (sampled.sample, sampled.epsilon) == (2, 5.0)
    assert {task.epsilon for task in sampled.tasks} == {2.5}


def test_the_rule_of_wang() -> None:
    cases = {(0.1, 5): 1, (2.5, 5): 1, (4.999, 5): 1, (5.0, 5): 2, (7.5, 5): 3, (12.5, 5): 5, (99.0, 5): 5}
    for (epsilon, d), k in cases.items():
        assert wang_sample(epsilon, d) == k


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be a number above 0, the most that a round costs; got 0.0"),
        ({"epsilon": True}, "epsilon must be a number above 0, the most that a round costs; got True"),
        ({"epsilon": float("nan")}, "epsilon must be a number above 0, the most that a round costs; got nan"),
        ({"sample": 4}, 'sample must be "auto", None or an integer from 1 to 3, the tasks; got 4'),
        ({"sample": 0}, 'sample must be "auto", None or an integer from 1 to 3, the tasks; got 0'),
        ({"sample": "all"}, "sample must be \"auto\", None or an integer from 1 to 3, the tasks; got 'all'"),
        ({"weights": {"load": 1.0}, "sample": None}, "weights must name every task once, "),
        ({"weights": dict.fromkeys(DOMAINS, 0.0), "sample": None}, "weights must be positive numbers, got 0"),
        ({"weights": dict.fromkeys(DOMAINS, 1.0)}, "weights need a group whose tasks are all reported"),
        ({"epsilon": 0.02, "sample": None}, "task 'heading' would have epsilon = 0.006666, .* fewer tasks"),
        ({"epsilon": 50.0, "sample": 1}, "task 'heading' would have epsilon = 50, and .* let .* more tasks"),
        ({"goals": {"height": "mean"}}, "goals must name tasks of the group, got 'height'"),
        ({"domains": {}}, "names must hold the names of the tasks, got none"),
        ({"domains": {"x": Circle(1)}}, "tasks must be 2 to 256, got 1"),
    ],
)
def test_bad_budgets_are_refused(options: Any, message: str) -> None:
    given: dict[str, Any] = {"domains": DOMAINS, "epsilon": 1.0, **options}
    with pytest.raises(TaskError, match=message):
        Group.share_budget("vehicle", **given)


def test_a_budget_does_not_hide_what_a_task_refuses() -> None:
    with pytest.raises(TaskError, match=r'goal on Circle must be one of "direction"'):
        Group.share_budget("vehicle", DOMAINS, 1.0, goals={"heading": "mean"})
    nothing: Any = {"x": None, "y": None}
    with pytest.raises(TaskError, match="domain must be an Interval or a Circle, got None"):
        Group.share_budget("vehicle", nothing, 1.0)
    with pytest.raises(ParameterError, match="lifetime must be None or an epsilon above 0"):
        Group.share_budget("vehicle", DOMAINS, 1.0, caps=Caps(lifetime=-1))
