"""Groups: `arcwise group`, `arcwise estimate` and `arcwise serve` as a user types them, and devices."""

from __future__ import annotations

import doctest
import importlib
import json
from pathlib import Path

import httpx
import numpy as np
import pytest

from arcwise.analysis import estimate
from arcwise.analysis.estimators.groups import group_reports
from arcwise.cli.demo.run import running_server
from arcwise.client import MemoryLedger, Uplink
from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import TaskError
from arcwise.mechanisms import DesignedTable
from arcwise.randomness import InsecureSeededRandomness
from arcwise.server.settings import load_tasks
from arcwise.server.store import open_store
from arcwise.tasks import Caps, Group, Task
from arcwise.wire import Batch, code_width, pack_codes
from tests.support.commands import bad, good, run
from tests.support.unlimited import Client

VEHICLE = ("--task", "heading=circle:360", "--task", "speed=0:180")
STORE = ("--store", "sqlite:///a.db")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def new(*args: str) -> Group:
    good("group", "new", "vehicle", *VEHICLE, *args)
    return Group.load("vehicle.json")


def test_new_show_and_verify() -> None:
    made = good("group", "new", "vehicle", *VEHICLE, "--epsilon", "2", "--lifetime-cap", "30")
    group = Group.load("vehicle.json")
    assert [task.domain for task in group.tasks] == [Circle(360), Interval(0, 180)]
    assert (group.sample, group.epsilon, group.caps) == (1, 2.0, Caps(lifetime=30.0))
    shown = good("group", "show", "vehicle.json")
    assert made == f"wrote vehicle.json\n\n{shown}"
    for words in (
        group.id,
        "1 of the 2 tasks, drawn by the device",
        "epsilon      2 a round, also if a value is missing",
        "epsilon 30 in all",
        "heading  epsilon 2, [0, 360) modulo 360, goal direction, optimal-circular",
        *(task.id for task in group.tasks),
    ):
        assert words in shown
    verified = good("group", "verify", "vehicle.json").splitlines()
    assert [line.split(": ")[:3] for line in verified] == [
        ["ok      vehicle.json", name, "128 rows sum to 2**64; epsilon = 2, delta = 0"]
        for name in ("heading", "speed")
    ]
    assert "vehicle.json already exists" in bad("group", "new", "vehicle", *VEHICLE, "--epsilon", "1")
    assert new("--epsilon", "1", "--force").epsilon == 1.0


def test_tasks_have_units_and_descriptions() -> None:
    args = ("--epsilon", "2", "--unit", "speed=km/h", "--description", "speed=v = s/t", "--description")
    made = good("group", "new", "vehicle", *VEHICLE, *args, "heading=0 is north")
    heading, speed = Group.load("vehicle.json").tasks
    assert (heading.unit, heading.description) == (None, "0 is north")
    assert (speed.unit, speed.description) == ("km/h", "v = s/t")
    assert "speed    epsilon 2, [0, 180] km/h, goal distribution, optimal-piecewise\n" in made
    assert f"\n{'':<20}  v = s/t\n{'':<20}  {speed.id}" in made
    for option in ("--unit", "--description"):
        command = ("group", "new", "x", *VEHICLE, "--epsilon", "2", option)
        for text in ("height=m", "speed", "=m"):
            assert f"{option} takes NAME=TEXT with the NAME of a --task, one of heading, speed" in bad(
                *command, text
            )
        assert "must name a task once, got 'speed' twice" in bad(*command, "speed=m", option, "speed=s")
        assert "must be 1 to" in bad(*command, "speed=")
    names = ("--task", "a=0:1", "--task", "a=b=0:1", "--unit", "a=b=m", "--epsilon", "2")
    good("group", "new", "names", *names)
    assert [task.unit for task in Group.load("names.json").tasks] == [None, "m"]


@pytest.mark.slow
def test_every_way_to_share() -> None:
    assert new("--epsilon", "4").sample == 1
    assert new("--epsilon", "4", "--sample", "best", "--force").sample is None
    whole = new("--epsilon", "4", "--sample", "all", "--force")
    assert [task.epsilon for task in whole.tasks] == [2.0, 2.0]
    weights = ("--sample", "2", "--weight", "speed=1", "--weight", "heading=3")
    assert [task.epsilon for task in new("--epsilon", "4", *weights, "--force").tasks] == [3.0, 1.0]
    split = new("--epsilon", "2", "--sample", "all", "--split", "estimate", "--force")
    assert split.tasks[0].epsilon > 1.0 > split.tasks[1].epsilon
    assert split.charge.micro_epsilon == 2_000_000
    near = ("--sample", "all", "--split", "value", "--goal", "speed=value")
    valued = new("--epsilon", "2", *near, "--force")
    assert valued.tasks[1].mechanism.placement == "clamp"
    assert valued.tasks[0].epsilon == pytest.approx(1.0, abs=0.05)


@pytest.mark.slow
def test_other_options_of_tasks() -> None:
    options = ("--clip", "--epoch-seconds", "3600", "--goal", "speed=mean", "-o", "in/vehicle.json")
    good("group", "new", "vehicle", *VEHICLE, "--epsilon", "1", *options, "--rolling-delta-cap", "0.5")
    group = Group.load("in/vehicle.json")
    assert {task.epoch_seconds for task in group.tasks} == {3600}
    assert group.tasks[1].domain == Interval(0, 180, clip=True)
    assert isinstance(group.tasks[1].mechanism, DesignedTable)
    assert group.caps == Caps(rolling_delta=0.5)
    assert "delta 0.5 within any 86400 s" in good("group", "show", "in/vehicle.json")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--epsilon", "0"), "epsilon must be a number above 0"),
        (("--epsilon", "1", "--sample", "3"), "an integer from 1 to 2"),
        (
            ("--epsilon", "1", "--sample", "some"),
            "--sample takes a number of tasks, all, auto or best; got 'some'",
        ),
        (("--epsilon", "1", "--goal", "speed"), "--goal takes NAME=..., got 'speed'"),
        (("--epsilon", "1", "--goal", "pace=mean"), "--goal must name a --task, one of heading, speed"),
        (("--epsilon", "1", "--goal", "speed=direction"), "goal on Interval must be one of"),
        (("--epsilon", "1", "--weight", "speed=1"), "give sample=None"),
        (("--epsilon", "1", "--sample", "all", "--weight", "speed=1"), "weights must name every task once"),
        (("--epsilon", "1", "--sample", "all", "--weight", "speed=x"), "--weight takes NAME=NUMBER"),
        (("--epsilon", "1", "--split", "value"), "--split value goes with --sample all"),
        (("--epsilon", "1", "--task", "speed=0:1"), "--task must name a task once, got 'speed' twice"),
        (("--epsilon", "1", "--task", "x=5:1"), "low < high"),
        (("--epsilon", "1", "--task", "x=y"), "--domain takes LOW:HIGH"),
        (("--epsilon", "1", "--lifetime-cap", "0.5"), "allows no round: one costs epsilon = 1"),
    ],
)
def test_new_says_what_is_wrong(args: tuple[str, ...], message: str) -> None:
    assert message in bad("group", "new", "vehicle", *VEHICLE, *args)
    assert not Path("vehicle.json").exists()


def test_a_group_that_does_not_hold_is_named() -> None:
    group = new("--epsilon", "2")
    shown = group.to_json()
    kernel = shown["tasks"][1]["mechanism"]["kernel"]
    k, w, extra = kernel["codes"], kernel["window"], int(kernel["extra"]) + 2**40
    kernel.update(extra=str(extra), background=str((2**64 - w * extra) // k))
    Path("forged.json").write_text(json.dumps(shown), encoding="utf-8")
    result = run("group", "verify", "vehicle.json", "forged.json")
    assert result.exit_code == 1
    assert result.stdout.count("ok ") == 2
    assert "FAILED  forged.json: the kernel's largest ratio" in result.stderr
    group.tasks[0].save("task.json")
    assert "this is the file of a task, not of a group" in bad("group", "show", "task.json")
    assert "this is the file of a group, not of a task" in bad("task", "show", "vehicle.json")


def test_caps_of_delta_on_the_command_line() -> None:
    options = ("--mechanism", "gaussian", "--delta", "1e-6", "--epsilon", "1", "--domain", "0:1")
    assert "1e-06 per report: its caps do not bound delta" in good("task", "new", "x", *options).replace(
        "9.99999e-07", "1e-06"
    )
    capped = good("task", "new", "y", *options, "--lifetime-delta-cap", "1e-4")
    assert "do not bound delta" not in capped
    assert "caps         delta 0.0001 in all" in capped
    assert Task.load("y.json").caps == Caps(lifetime_delta=1e-4)
    assert "allows no report: one costs delta" in bad(
        "task", "new", "z", *options, "--rolling-delta-cap", "1e-7"
    )


# --- served and estimated -----------------------------------------------------------------------------------


def test_a_folder_of_tasks_holds_groups_too() -> None:
    group = new("--epsilon", "2")
    other = Task("wind", Circle(360), 1.0)
    other.save("a.json")
    assert load_tasks(".") == (other, *group.tasks)
    group.tasks[0].save("heading.json")  # the same task in two files is one
    assert load_tasks(".") == (other, *group.tasks)
    Path("b.json").write_text('{"arcwise_group": 1}', encoding="utf-8")
    with pytest.raises(TaskError, match=r"b\.json: a group file needs the key 'caps'"):
        load_tasks(".")


@pytest.fixture
def reported() -> Group:
    """Fill a store with the reports of 900 devices, each for the task that it drew."""
    group = new("--epsilon", "6", "--sample", "1")
    randomness = InsecureSeededRandomness(1)
    values = {"heading": 350.0, "speed": 30.0}
    codes: dict[str, list[int]] = {name: [] for name in values}
    for _ in range(900):
        for task in group.choose(randomness):
            code = task.mechanism.randomize(values[task.name], randomness=randomness)
            codes[task.name].append(code)
    store = open_store("sqlite:///a.db")
    store.register(group.tasks)
    for number, task in enumerate(group.tasks):
        packed = pack_codes(sorted(codes[task.name]), code_width(task.mechanism.kernel.codes))
        store.add([Batch(bytes.fromhex(task.id), bytes([number]) * 16, 20_000, packed)])
    store.close()
    return group


def test_estimates_of_a_group(reported: Group) -> None:
    text = good("estimate", "--group", "vehicle.json", *STORE)
    store = open_store("sqlite:///a.db", create=False)
    counts = {task.name: store.counts(task) for task in reported.tasks}
    store.close()
    numbers = {name: int(array.sum()) for name, array in counts.items()}
    assert sum(numbers.values()) == 900
    for task in reported.tasks:
        assert str(estimate(task, counts[task.name])) in text
        assert f"{numbers[task.name]:,} reports, {2 * numbers[task.name]:,} [" in text
    assert "the numbers agree with tasks drawn equally often" in text
    document = json.loads(good("estimate", "--group", "vehicle.json", *STORE, "--json"))
    assert [each["task"] for each in document["tasks"]] == ["heading", "speed"]
    assert document["group"]["group_id"] == reported.id
    assert [row["reports"] for row in document["group"]["tasks"]] == list(numbers.values())


@pytest.mark.slow
def test_users_of_a_group_are_all_its_devices(reported: Group) -> None:
    asked = ("estimate", "--group", "vehicle.json", *STORE, "--target", "users")
    document = json.loads(good(*asked, "--json"))
    store = open_store("sqlite:///a.db", create=False)
    for shown, task in zip(document["tasks"], reported.tasks, strict=True):
        expected = estimate(task, store.counts(task), target="users", sampled=0.5).to_dict()
        assert shown == json.loads(json.dumps(expected))
        alone = estimate(task, store.counts(task), target="users").to_dict()
        assert shown != json.loads(json.dumps(alone))
    store.close()
    assert "all devices of the group, of which 0.5 drew this task" in good(*asked)
    over_time = good(*asked, "--by", "day")
    assert "all devices of the group at each point" in over_time
    assert "tasks drawn equally often" in over_time


def test_a_task_that_misses_values_is_told(reported: Group) -> None:
    heading = reported.tasks[0]
    store = open_store("sqlite:///a.db")
    store.register([heading])
    codes = pack_codes([0] * 400, code_width(heading.mechanism.kernel.codes))
    store.add([Batch(bytes.fromhex(heading.id), bytes(15) + b"x", 20_001, codes)])
    store.close()
    assert "more than random drawing explains" in good("estimate", "--group", "vehicle.json", *STORE)
    before = good("estimate", "--group", "vehicle.json", *STORE, "--to", "20001")
    assert "the numbers agree with tasks drawn equally often" in before


def test_what_does_not_go_with_a_group(reported: Group) -> None:
    reported.tasks[0].save("heading.json")
    assert "leave the task files out" in bad("estimate", "heading.json", "--group", "vehicle.json", *STORE)
    assert "Missing argument 'TASK_FILE...', or option '--group'" in bad("estimate", *STORE)
    assert "--share takes a single task, got 2" in bad(
        "estimate", "--group", "vehicle.json", *STORE, "--share", "0:1"
    )
    np.savetxt("counts.txt", np.ones(128, np.int64), fmt="%d")
    assert "--counts takes a single task, got 2" in bad(
        "estimate", "--group", "vehicle.json", "--counts", "counts.txt"
    )


def test_tasks_of_a_group_have_steps() -> None:
    group = new("--step", "heading=10", "--step", "speed=1", "--rounding", "speed=nearest", "--epsilon", "2")
    assert [task.domain for task in group.tasks] == [
        Circle(360, step=10),
        Interval(0, 180, step=1, rounding="nearest"),
    ]
    args = ("group", "new", "x", *VEHICLE, "--epsilon", "2")
    assert "--step must name a --task, one of heading, speed; got 'sped'" in bad(*args, "--step", "sped=1")
    assert "--step takes NAME=NUMBER" in bad(*args, "--step", "speed=one")
    assert "--rounding is for a domain with a --step" in bad(*args, "--rounding", "speed=nearest")


# --- from one end to the other ------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_devices_report_groups_to_a_real_server(sample: int, tmp_path: Path) -> None:
    """800 devices; a p-value below 1e-4 has that probability, an estimate 5 errors off a smaller one."""
    domains: dict[str, Domain] = {"heading": Circle(360), "speed": Interval(0, 180)}
    group = Group.share_budget("vehicle", domains, 6.0, sample=sample)
    randomness = InsecureSeededRandomness(sample)
    with running_server(tmp_path, [group]) as (url, _), Uplink(url) as uplink:
        for _ in range(800):
            device = Client(uplink, tasks=[group], ledger=MemoryLedger(), randomness=randomness)
            assert device.report("vehicle", {"heading": 350.0, "speed": 30.0})
            assert device.budget("vehicle").epsilon == 6.0
        assert uplink.flush(60)
        found = {
            task.name: httpx.get(f"{url}/v1/tasks/{task.id}/estimate", timeout=60).json()
            for task in group.tasks
        }
    reports = {name: estimate["n"] for name, estimate in found.items()}
    together = group_reports(group, reports)
    if sample == 2:
        assert reports == {"heading": 800, "speed": 800}
        assert together.note == "equal numbers of reports"
    else:
        assert sum(reports.values()) == 800
        assert together.p_value is not None
        assert together.p_value > 1e-4
    mean, direction = found["speed"]["mean"], found["heading"]["direction"]
    off = (direction["value"] - 350.0 + 180.0) % 360.0 - 180.0
    for error, interval in ((mean["value"] - 30.0, mean), (off, direction)):
        assert abs(error) < 5 * (interval["high"] - interval["low"]) / 2 / 1.96


@pytest.mark.parametrize("name", ["estimators.groups", "estimators.result", "planning.sharing"])
def test_examples_of_docstrings_run(name: str) -> None:
    results = doctest.testmod(importlib.import_module(f"arcwise.analysis.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
