"""Tasks: one canonical form, an id that covers everything, and only arcwise's own errors from bad bytes."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import random
import re
from typing import TYPE_CHECKING, Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcwise.domains import Circle, Interval
from arcwise.errors import ArcwiseError, CertificateError, ParameterError, TaskError
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms import OptimalCircular, OptimalPiecewise
from arcwise.tasks import DAY, Caps, Task
from arcwise.tasks.optional import OPTIONAL
from tests.support.strategies import json_values, mutations, tasks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEIGHT = Interval(0, 220, clip=True)
HEADING = Circle(360)


def a_task() -> Task:
    return Task("height", HEIGHT, 1.0, caps=Caps(lifetime=30.0, rolling=2.0))


# --- round trips and identity ------------------------------------------------------------------------


def same(task: Task, other: Task) -> bool:
    """Return whether two tasks agree in every part, not only in their ids."""
    return (
        task == other
        and task.id == other.id
        and task.to_bytes() == other.to_bytes()
        and (task.name, task.domain, task.epsilon, task.goal, task.epoch_seconds, task.caps)
        == (other.name, other.domain, other.epsilon, other.goal, other.epoch_seconds, other.caps)
        and all(getattr(task, key) == getattr(other, key) for key in OPTIONAL)
        and (type(task.mechanism), task.mechanism.placement, task.mechanism.kernel)
        == (type(other.mechanism), other.mechanism.placement, other.mechanism.kernel)
    )


@given(tasks())
def test_bytes_and_json_give_the_task_back(task: Task) -> None:
    assert same(Task.from_bytes(task.to_bytes()), task)
    assert same(Task.from_json(task.to_json()), task)
    assert same(Task.from_json(json.loads(json.dumps(task.to_json()))), task)
    assert task.id == hashlib.sha256(task.to_bytes()).hexdigest()
    assert hash(task) == hash(Task.from_bytes(task.to_bytes()))


@given(tasks())
@settings(max_examples=25)
def test_files_give_the_task_back(tmp_path_factory: pytest.TempPathFactory, task: Task) -> None:
    path = tmp_path_factory.mktemp("task") / "task.json"
    task.save(path)
    assert same(Task.load(path), task)
    assert same(Task.load(str(path)), task)
    shown = json.loads(path.read_text(encoding="utf-8"))
    assert shown["id"] == task.id
    assert shown["name"] == task.name
    assert shown["mechanism"]["kernel"]["extra"] == str(task.mechanism.kernel_fields()[-1])
    assert (
        task.name in path.read_text(encoding="utf-8")
        or not task.name.isascii()
        or {'"', "\\"} & set(task.name)
    )


def test_the_id_covers_every_part() -> None:
    caps = Caps(lifetime=30.0, rolling=2.0)
    clamped = OptimalPiecewise(HEIGHT, 1.0, placement="clamp")
    given: dict[str, Any] = {"name": "height", "domain": HEIGHT, "epsilon": 1.0, "caps": caps}
    changes: list[dict[str, Any]] = [
        {},
        {"name": "heights"},
        {"domain": Interval(0, 220)},
        {"domain": Interval(0, 221, clip=True)},
        {"domain": Circle(220)},
        {"epsilon": 1.1},
        {"goal": "value"},
        {"epoch_seconds": 3600},
        {"caps": Caps(lifetime=31.0, rolling=2.0)},
        {"caps": Caps(lifetime=30.0, rolling=3.0)},
        {"caps": Caps(lifetime=30.0, rolling=2.0, window=DAY + 1)},
        {"caps": Caps(lifetime=30.0)},
        {"expected_reports": 10**6},
        {"goal": "distribution", "mechanism": clamped},
    ]
    variants = [Task(**{**given, **change}) for change in changes]
    assert len({task.id for task in variants}) == len(variants)
    assert len(set(variants)) == len(variants)
    assert a_task() == a_task()
    assert {a_task(): 1}[a_task()] == 1
    assert a_task() != a_task().id


def test_names_are_normalised() -> None:
    assert Task("x" * 64, HEIGHT, 1.0).name == "x" * 64
    composed, decomposed = "Gr\u00f6\u00dfe", "Gro\u0308\u00dfe"
    task = Task(decomposed, HEIGHT, 1.0)
    assert task.name == composed
    assert task == Task(composed, HEIGHT, 1.0)
    forged = msgpack.unpackb(task.to_bytes())
    forged[1] = decomposed
    with pytest.raises(TaskError, match="not the canonical bytes of a task"):
        Task.from_bytes(msgpack.packb(forged))


def test_tasks_cannot_be_changed() -> None:
    task: Any = a_task()
    for name in ("name", "epsilon", "caps", "id", "_bytes", "mechanism", "other"):
        with pytest.raises(AttributeError, match=f"a Task is immutable; cannot set '{name}'"):
            setattr(task, name, None)
    with pytest.raises(AttributeError, match="a Task is immutable; cannot delete 'caps'"):
        del task.caps
    with pytest.raises(AttributeError):
        task.caps.lifetime = 1e6
    with pytest.raises(AttributeError):
        task.domain.low = -1.0
    assert same(task, a_task())
    interval = "Interval(low=0.0, high=220.0, clip=True)"
    assert repr(task) == f"Task('height', {interval}, epsilon=1.0, goal='distribution')"


def test_epochs_count_periods_since_1970() -> None:
    task = Task("x", HEADING, 1.0)
    assert [task.epoch(time) for time in (0, 86_399.9, 86_400, 1.7e9)] == [0, 0, 1, 19_675]
    hourly = Task("x", HEADING, 1.0, epoch_seconds=3600)
    assert hourly.epoch(7200.5) == 2
    assert type(hourly.epoch(7200.5)) is int


# --- goals and mechanisms ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "goal", "expected", "goal_kept", "placement"),
    [
        (HEIGHT, None, OptimalPiecewise, "distribution", "inset"),
        (HEIGHT, "distribution", OptimalPiecewise, "distribution", "inset"),
        (HEIGHT, "value", OptimalPiecewise, "value", "clamp"),
        (HEADING, None, OptimalCircular, "direction", "wrap"),
        (HEADING, "direction", OptimalCircular, "direction", "wrap"),
        (HEADING, "distribution", OptimalCircular, "distribution", "wrap"),
    ],
)
def test_goals_pick_the_mechanism(
    domain: Any, goal: Any, expected: Any, goal_kept: str, placement: str
) -> None:
    task = Task("x", domain, 1.0, goal=goal)
    assert type(task.mechanism) is expected
    assert (task.goal, task.mechanism.placement) == (goal_kept, placement)
    assert task.mechanism.kernel.nodes == 128
    assert task.mechanism.domain == domain
    assert task.mechanism.epsilon == task.epsilon == 1.0


@pytest.mark.parametrize(
    ("expected_reports", "nodes"),
    [
        (None, (128, 128, 128, 225)),
        (1, (128, 128, 128, 225)),
        (5000, (128, 128, 128, 225)),
        (100_000, (128, 256, 512, 512)),
        (1_000_000, (256, 512, 512, 512)),
        (10**9, (512, 512, 512, 512)),
    ],
)
def test_a_distribution_takes_the_nodes_that_reports_can_use(
    expected_reports: int | None, nodes: tuple[int, ...]
) -> None:
    for epsilon, many in zip((0.1, 1.0, 2.5, 4.0), nodes, strict=True):
        task = Task("x", HEIGHT, epsilon, expected_reports=expected_reports)
        assert task.mechanism.kernel.nodes == many
    heading = Task("x", HEADING, 8.0, goal="distribution", expected_reports=expected_reports)
    assert heading.mechanism.kernel.nodes == {None: 256, 1: 256, 5000: 512}.get(expected_reports, 1024)
    value = Task("x", HEIGHT, 1.0, goal="value", expected_reports=expected_reports)
    assert value.mechanism.kernel.nodes == 128


def test_a_large_epsilon_takes_as_many_nodes_as_one_byte_codes_allow() -> None:
    for tenth in range(30, 201):
        kernel = Task("x", HEIGHT, tenth / 10).mechanism.kernel
        assert 250 <= kernel.codes <= 256
        finer = OptimalPiecewise(HEIGHT, tenth / 10, nodes=kernel.nodes + 7).kernel
        assert finer.codes > 256
    cases: list[tuple[Any, str, float, int]] = [
        (HEIGHT, "distribution", 3.0, 209),
        (HEIGHT, "distribution", 4.0, 225),
        (HEIGHT, "distribution", 8.0, 251),
        (HEIGHT, "distribution", 20.0, 255),
        (HEIGHT, "value", 4.0, 128),
        (HEADING, "distribution", 2.99, 128),
        (HEADING, "distribution", 3.0, 256),
        (HEADING, "direction", 3.0, 128),
        (Interval(0, 100, step=1), "distribution", 4.0, 101),
        (Circle(24, step=1), "distribution", 4.0, 24),
    ]
    for domain, goal, epsilon, nodes in cases:
        assert Task("x", domain, epsilon, goal=goal).mechanism.kernel.nodes == nodes


def test_a_mechanism_sets_the_default_goal() -> None:
    clamp = OptimalPiecewise(HEIGHT, 1.0, placement="clamp", nodes=33)
    task = Task("x", HEIGHT, 1.0, mechanism=clamp)
    assert task.mechanism is clamp
    assert task.goal == "value"
    inset = OptimalPiecewise(HEIGHT, 1.0)
    assert Task("x", HEIGHT, 1.0, mechanism=inset).goal == "distribution"
    assert Task("x", HEIGHT, 1.0, mechanism=inset, goal="mean").goal == "mean"
    assert Task("x", HEADING, 1.0, mechanism=OptimalCircular(HEADING, 1.0)).goal == "direction"


@pytest.mark.parametrize(
    ("domain", "epsilon"),
    [(HEIGHT, 2.0), (Interval(0, 221, clip=True), 1.0), (Interval(0, 220), 1.0), (HEADING, 1.0)],
)
def test_a_mechanism_must_agree_with_its_task(domain: Any, epsilon: float) -> None:
    with pytest.raises(TaskError, match=r"must agree with the task|goal on Circle must be one of"):
        Task("x", domain, epsilon, mechanism=OptimalPiecewise(HEIGHT, 1.0), goal="value")
    with pytest.raises(
        TaskError, match=r"mechanism must agree with the task: it has Interval.* and epsilon 1\.0"
    ):
        Task("x", domain, epsilon, mechanism=OptimalPiecewise(HEIGHT, 1.0), goal="distribution")


INSET = OptimalPiecewise(HEIGHT, 1.0)
SECONDS = r"epoch_seconds must be an integer .* 31622400, got .* seconds, up to a year"
REPORTS = "expected_reports must be an integer of at least 1, got"
KNOWN = {
    HEIGHT: 'goal on Interval must be one of "distribution", "mean", "value"; got ',
    HEADING: 'goal on Circle must be one of "direction", "distribution"; got ',
}
BAD: list[tuple[dict[str, Any], str]] = [
    *(
        ({"name": bad}, r"name must be (a string|1 to 64 printable characters)")
        for bad in (None, 7, b"x", "", " ", " x", "x ", "a\nb", "a\x00", "\ud800", "x" * 65, "a\u00a0b")
    ),
    *(
        ({"domain": bad}, "domain must be an Interval or a Circle, got")
        for bad in (None, (0, 1), "interval", Interval, 5)
    ),
    *(({"epoch_seconds": bad}, SECONDS) for bad in (0, -1, 3600.0, True, None, "day", 366 * DAY + 1)),
    *(
        ({"epsilon": bad}, r"epsilon must be .*from 0\.01 to 20, got")
        for bad in (True, None, "1", math.nan, 0.001, 21, 10**400)
    ),
    *(({"goal": bad}, f"^{KNOWN[HEIGHT]}{bad!r}$") for bad in ("direction", "", 3)),
    *(({"goal": bad, "domain": HEADING}, f"^{KNOWN[HEADING]}{bad!r}$") for bad in ("value", "mean")),
    ({"goal": "mean"}, 'goal "mean" .*the default goal "distribution" gives an unbiased mean too'),
    *(({"expected_reports": bad}, REPORTS) for bad in (0, -1, 1.5, True, "many")),
    *(({"expected_reports": bad, "domain": HEADING}, REPORTS) for bad in (0, -1, 1.5, True, "many")),
    # Also if they have no effect.
    *(({"expected_reports": bad, "goal": "value"}, REPORTS) for bad in (0, "many")),
    *(({"expected_reports": bad, "mechanism": INSET}, REPORTS) for bad in (0, "many")),
]


@pytest.mark.parametrize(("bad", "message"), BAD)
def test_bad_arguments_are_refused(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError if "epsilon" in bad else TaskError, match=message):
        Task(**{"name": "x", "domain": HEIGHT, "epsilon": 1.0, **bad})


def stronger(mechanism: Any) -> Any:
    """Return the mechanism with one more unit of extra weight than e^epsilon allows."""
    k = mechanism.kernel
    background = (UNIT - k.window * (k.extra + 1)) // k.codes
    fields = [k.codes, k.nodes, k.window, background, k.extra + 1]
    return type(mechanism).from_fields(mechanism.domain, mechanism.epsilon, mechanism.placement, fields)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("domain", [HEIGHT, HEADING], ids=str)
def test_a_task_that_is_too_strong_cannot_exist(domain: Any, epsilon: float, tmp_path: Path) -> None:
    honest = Task("x", domain, epsilon)
    with pytest.raises(CertificateError, match=r"more than e\^epsilon"):
        Task("x", domain, epsilon, mechanism=stronger(honest.mechanism))
    # The same integers, put into canonical bytes and into a file by hand.
    kernel = stronger(honest.mechanism).kernel
    fields = msgpack.unpackb(honest.to_bytes())
    fields[7][2][5:] = [kernel.background, kernel.extra]
    forged = msgpack.packb(fields)
    assert len(forged) == len(honest.to_bytes())
    with pytest.raises(CertificateError, match=r"more than e\^epsilon"):
        Task.from_bytes(forged)
    data = honest.to_json()
    data["mechanism"]["kernel"].update(background=str(kernel.background), extra=str(kernel.extra))
    data["id"] = hashlib.sha256(forged).hexdigest()
    with pytest.raises(CertificateError, match=r"more than e\^epsilon"):
        Task.from_json(data)
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(CertificateError, match=r"forged\.json: the kernel's largest ratio"):
        Task.load(path)


# --- bytes that are no task ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not the bytes of a task"),
        (b"\xc1", "not the bytes of a task"),
        (b"\x91", "not the bytes of a task"),
        (b"\x91\x01\x00", "not the bytes of a task"),
        (b"\x91" * 5000 + b"\x01", "not the bytes of a task"),
        (b"\xdd\xff\xff\xff\xff", "not the bytes of a task"),
        (b"\xc6\xff\xff\xff\xff", "not the bytes of a task"),
        (b"\xa1\xff", "not the bytes of a task"),
        (b"\xc0", "a task is an array that starts with its schema version"),
        (b"\x90", "a task is an array that starts with its schema version"),
        (b"\x80", "a task is an array that starts with its schema version"),
        (b"\x91\xc3", "a task is an array that starts with its schema version"),
        (b"\x91\x02", "task schema version 2 is not known to this arcwise; it knows 1"),
        (b"\x91\x01", "the fields do not describe a task"),
        (b"\x00" * ((1 << 20) + 1), "a task takes at most 1048576 bytes, got 1048577"),
    ],
    ids=range(15),
)
def test_bytes_of_no_task_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        Task.from_bytes(data)


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every part of nested lists and dictionaries."""
    yield at
    if isinstance(value, list | dict):
        for key in range(len(value)) if isinstance(value, list) else value:
            yield from paths(value[key], (*at, key))


def part(value: Any, at: tuple[Any, ...]) -> Any:
    for key in at:
        value = value[key]
    return value


def replaced(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    """Return a copy with the part at this path replaced."""
    if not at:
        return new
    result = copy.deepcopy(value)
    part(result, at[:-1])[at[-1]] = new
    return result


def removed(value: Any, at: tuple[Any, ...]) -> Any:
    """Return a copy without the part at this path."""
    result = copy.deepcopy(value)
    del part(result, at[:-1])[at[-1]]
    return result


FIELDS = msgpack.unpackb(a_task().to_bytes())


JUNK: list[Any] = [None, True, False, -1, 0, 1, 2**64 - 1, -0.0, 1.0, 1.5, math.nan, "junk", b"junk"]
JUNK += [[], {}, [[1]]]


def test_every_part_of_the_bytes_is_needed() -> None:
    for at in paths(FIELDS):
        if not at:
            continue
        with pytest.raises(TaskError):
            Task.from_bytes(msgpack.packb(removed(FIELDS, at)))
        good = part(FIELDS, at)
        # The same number as another type is a different encoding, which no device may accept as this task.
        for junk in [*JUNK, float(good)] if type(good) is int else JUNK:
            if junk == good and repr(junk) == repr(good):
                continue
            forged = msgpack.packb(replaced(FIELDS, at, junk))
            try:
                task = Task.from_bytes(forged)
            except ArcwiseError:
                continue
            # A valid new value of a free field, such as another epsilon, gives that other task.
            assert task.to_bytes() == forged
            assert task != a_task()


def test_other_encodings_of_the_same_fields_are_refused() -> None:
    good = a_task().to_bytes()
    packer = msgpack.Packer(use_single_float=True)
    single_floats = packer.pack(FIELDS)
    # The array header and the version in longer forms: equal content, other bytes, so another id.
    long_array = b"\xdc\x00\x08" + good[1:]
    long_version = good[:1] + b"\xcc\x01" + good[2:]
    long_string = good[:2] + b"\xd9\x06" + good[3:]
    for other in (single_floats, long_array, long_version, long_string):
        assert msgpack.unpackb(other) == FIELDS
        with pytest.raises(
            TaskError, match="not the canonical bytes of a task: encoding it again gives other"
        ):
            Task.from_bytes(other)
    assert Task.from_bytes(good) == a_task()


def reads_or_refuses(data: bytes) -> None:
    """Check that bytes are a task that agrees with them, or raise one of arcwise's errors."""
    try:
        task = Task.from_bytes(data)
    except ArcwiseError:
        return
    assert task.to_bytes() == data
    assert task.mechanism.certificate()


@pytest.mark.slow
@given(st.data(), tasks())
@settings(max_examples=300)
def test_mutated_bytes_raise_only_arcwise_errors(data: st.DataObject, task: Task) -> None:
    reads_or_refuses(data.draw(mutations(task.to_bytes())))


def test_many_mutations_raise_only_arcwise_errors() -> None:
    generator = random.Random(1)
    good = a_task().to_bytes()
    for at in range(len(good)):
        for byte in range(0, 256, 5):
            reads_or_refuses(good[:at] + bytes([byte]) + good[at + 1 :])
        reads_or_refuses(good[:at])
        reads_or_refuses(good[:at] + generator.randbytes(4) + good[at:])
        reads_or_refuses(good[:at] + good[at + 1 :])


@given(st.data())
@settings(max_examples=300)
def test_wrong_fields_raise_only_arcwise_errors(data: st.DataObject) -> None:
    fields = FIELDS
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.sampled_from(list(paths(fields))))
        new = data.draw(json_values | st.binary(max_size=4))
        fields = replaced(fields, at, new)
    try:
        packed = msgpack.packb(fields)
    except (OverflowError, UnicodeEncodeError):  # msgpack has no integer of this size, no lone surrogate
        packed = b""
    reads_or_refuses(packed)


# --- files that are no task ------------------------------------------------------------------------------


def test_every_key_of_the_json_is_needed() -> None:
    good = a_task().to_json()
    for at in paths(good):
        if at:
            with pytest.raises(
                TaskError, match=r"a task file needs the key '|the fields do not describe a task"
            ):
                Task.from_json(removed(good, at))


@pytest.mark.parametrize(
    ("at", "new"),
    [
        (("name",), "weight"),
        (("epsilon",), 1.5),
        (("domain", "high"), 230.0),
        (("domain", "clip"), False),
        (("goal",), "value"),
        (("period_seconds",), 3600),
        (("caps", "lifetime_micro_epsilon"), 10**12),
        (("caps", "rolling_micro_epsilon"), None),
        (("caps", "rolling_window_seconds"), 60),
        (("mechanism", "kernel", "placement"), "clamp"),
        (("id",), "0" * 64),
        (("id",), None),
    ],
)
def test_an_edited_file_is_refused(at: tuple[str, ...], new: Any, tmp_path: Path) -> None:
    data = replaced(a_task().to_json(), at, new)
    with pytest.raises(TaskError, match=r"the id in the file, .*, is not that of the task it describes"):
        Task.from_json(data)
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(TaskError, match=r"edited\.json: the id in the file"):
        Task.load(path)


@pytest.mark.parametrize("huge", [10**400, -(10**400), 2**64, 1e308])
def test_huge_numbers_in_json_are_refused(huge: float) -> None:
    good = a_task().to_json()
    for at in paths(good):
        if at and not isinstance(part(good, at), dict):
            with pytest.raises(ArcwiseError):
                Task.from_json(replaced(good, at, huge))


@pytest.mark.parametrize(
    "bad", [None, 3, "text", [], [1], {}, {"domain": []}, {"domain": {}, "caps": 1, "mechanism": 2}]
)
def test_json_of_no_task_is_refused(bad: Any) -> None:
    with pytest.raises(
        TaskError, match=r"a task file (needs the key '|holds one JSON object with objects inside)"
    ):
        Task.from_json(bad)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"nul",
        b"[" * 100_000,
        b'{"domain": ' * 50_000,
        b"9" * 5000,
        b"NaN",
        b'"\\ud800"',
        # A reader of the file may see the first key, while the device would take the last.
        json.dumps(a_task().to_json()).replace("{", '{"epsilon": 0.01, ', 1).encode(),
    ],
    ids=range(11),
)
def test_a_file_of_no_task_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    twice = "a name appears twice in one object" if b"0.01" in content else ""
    with pytest.raises(TaskError, match=rf"broken\.json: {twice}"):
        Task.load(path)
    with pytest.raises(TaskError, match=f"{tmp_path.name}: cannot be read: "):
        Task.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        Task.load(tmp_path / "absent.json")


def test_a_file_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arcwise.tasks.files._MOST_CHARACTERS", 1000)
    with pytest.raises(TaskError, match="/dev/zero: the file is too large for a task"):
        Task.load("/dev/zero")


def test_a_file_that_may_not_be_read_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> str:  # root may read everything, so no mode would work
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(TaskError, match=r"secret\.json: cannot be read: Permission denied"):
        Task.load(tmp_path / "secret.json")


@pytest.mark.parametrize("kind", ["sphere", "", None, 1, ["circle"]])
def test_the_kind_of_a_domain_names_the_known_ones(kind: Any) -> None:
    message = re.escape(f'the kind of a domain must be "interval" or "circle", got {kind!r}')
    with pytest.raises(TaskError, match=f"^{message}$"):
        Task.from_json(replaced(a_task().to_json(), ("domain", "kind"), kind))
    with pytest.raises(TaskError, match=f"^{message}$"):
        Task.from_bytes(msgpack.packb(replaced(FIELDS, (2, 0), kind)))


WRONG_PARTS: list[tuple[tuple[str, ...], Any, str]] = [
    *(
        (("mechanism", "kernel", key), bad, f"{key} must be a decimal string, got")
        for key in ("background", "extra")
        for bad in (7, None, "", "x", "-1", "+1", "1.0", " 1", "٣", "1e3", "9" * 21, "1_000")
    ),
    *(
        (
            ("caps", f"{name}_micro_epsilon"),
            bad,
            f"^the {name} cap must be a whole number of micro-epsilon or none, got {re.escape(repr(bad))}$",
        )
        for name in ("lifetime", "rolling")
        for bad in ("30000000", 3e7, True, [1])
    ),
    *(
        (("mechanism", "version"), bad, "the version of a mechanism must be an integer, got ")
        for bad in (True, 1.0, "1", None)
    ),
]


@pytest.mark.parametrize(("at", "bad", "message"), WRONG_PARTS)
def test_parts_of_another_type_are_refused(at: tuple[str, ...], bad: Any, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        Task.from_json(replaced(a_task().to_json(), at, bad))


@pytest.mark.slow
@given(st.data())
@settings(max_examples=400)
def test_wrong_json_raises_only_arcwise_errors(data: st.DataObject) -> None:
    shown = a_task().to_json()
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.sampled_from(list(paths(shown))))
        shown = replaced(shown, at, data.draw(json_values))
    try:
        task = Task.from_json(shown)
    except ArcwiseError:
        return
    assert shown["id"] == task.id
