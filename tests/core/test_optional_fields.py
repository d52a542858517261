"""The optional ninth item of a task: absent when empty, part of the id, refused if it has an unknown key."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
from typing import TYPE_CHECKING, Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError, TaskError
from arcwise.tasks import Caps, CentralStatement, Charge, Group, Task, micro_epsilon
from arcwise.tasks.optional import OPTIONAL
from tests.support.nodejs import JAVASCRIPT
from tests.support.strategies import json_values, statements, texts

if TYPE_CHECKING:
    from arcwise.domains import Domain

SPEED = Interval(0, 180)
WORDS = "How fast the car went, in the open"


STATEMENT = CentralStatement(0.25, 1e-8, 10_000, releases=30)
SAID: dict[str, Any] = {
    "central": STATEMENT,
    "description": WORDS,
    "lateness_seconds": 3600,
    "release": "closed-epochs",
    "unit": "km/h",
}
"""A value of each key."""


def a_task(**said: Any) -> Task:
    caps = Caps(lifetime=30.0, rolling=1.0) if "central" in said else None
    return Task("speed", SPEED, 1.0, **({"caps": caps} | said))


def items(task: Task) -> list[Any]:
    fields: list[Any] = msgpack.unpackb(task.to_bytes())
    return fields


# --- what is there -------------------------------------------------------------------------------------


def test_a_task_without_keys_is_what_it_always_was() -> None:
    plain = a_task(description=None, unit=None)
    assert plain.id == "6bb43e2263edd165ab1d8c263cae3473ff0eb493723f0bcee76ec71144bbe4f9"
    assert plain == a_task()
    interval = "Interval(low=0.0, high=180.0, clip=False)"
    assert repr(plain) == f"Task('speed', {interval}, epsilon=1.0, goal='distribution')"
    assert not set(OPTIONAL) & set(plain.to_json())
    assert plain.domain_words == str(SPEED) == "[0, 180]"


def test_the_id_covers_them() -> None:
    variants = [
        a_task(),
        a_task(unit="km/h"),
        a_task(unit="mph"),
        a_task(description=WORDS),
        a_task(description="km/h"),
        a_task(description=WORDS, unit="km/h"),
    ]
    assert len({task.id for task in variants}) == len(set(variants)) == len(variants)
    assert a_task(unit="km/h") == a_task(unit="km/h")


def test_copies_keep_them_and_nothing_changes_them() -> None:
    task: Any = a_task(unit="km/h", description=WORDS, central=STATEMENT)
    assert pickle.loads(pickle.dumps(STATEMENT)) == copy.copy(STATEMENT) == STATEMENT
    for other in (copy.deepcopy(task), pickle.loads(pickle.dumps(task))):
        assert other == task
        assert (other.unit, other.description) == ("km/h", WORDS)
    with pytest.raises(AttributeError, match="a Task is immutable; cannot set 'unit'"):
        task.unit = "mph"


def test_words_for_people() -> None:
    task = a_task(unit="km/h", description=WORDS)
    assert repr(task).endswith(f", goal='distribution', description={WORDS!r}, unit='km/h')")
    assert task.domain_words == "[0, 180] km/h"
    ages = Task("age", Interval(0, 120, step=1), 1.0, unit="years")
    assert ages.domain_words == "[0, 120] in steps of 1 years"


def test_texts_are_normalised() -> None:
    ohm, omega = "\u2126", "\u03a9"
    assert a_task(unit=ohm).unit == omega
    assert a_task(unit=ohm) == a_task(unit=omega)


def test_characters_that_this_python_does_not_know_yet_are_read_but_not_made() -> None:
    newer = "a \u0378".encode()  # not assigned by any version of Unicode so far
    data = a_task(unit="a xy", description=WORDS).to_bytes().replace(b"a xy", newer)
    task = Task.from_bytes(data)
    assert (task.unit, task.to_bytes(), Task.from_json(task.to_json())) == (newer.decode(), data, task)
    for key in ("description", "unit"):
        with pytest.raises(TaskError, match=f"^{key} has a character that is newer than this Python"):
            a_task(**{key: task.unit})


@pytest.mark.parametrize(("key", "most"), [("description", 200), ("unit", 20)])
@pytest.mark.parametrize(
    "bad",
    [
        7,
        b"x",
        ["x"],
        "",
        " ",
        " x",
        "x ",
        "a\nb",
        "a\x00",
        "\ud800",
        "a\u00a0b",
        "a\u200bb",
        "\u2028",
        "\ue000",
        None,
    ],
)
def test_bad_texts_are_refused(key: str, most: int, bad: Any) -> None:
    assert getattr(a_task(**{key: "x" * most}), key) == "x" * most
    bad = "x" * (most + 1) if bad is None else bad
    with pytest.raises(TaskError, match=f"^{key} must be (a string|1 to {most} printable characters)"):
        a_task(**{key: bad})


def test_a_text_that_is_too_long_is_not_repeated_whole() -> None:
    with pytest.raises(TaskError, match=r"got '(spam ){8}\.\.\.' of 5,000 characters$"):
        a_task(description="spam " * 1000)
    with pytest.raises(TaskError, match=r"^name must be 1 to 64 .*, got 'x{40}\.\.\.' of 100 characters$"):
        Task("x" * 100, Interval(0, 1), epsilon=1.0)


# --- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", OPTIONAL)
def test_a_reader_without_the_key_refuses_the_task(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = a_task(**{key: SAID[key]})
    data, shown = task.to_bytes(), task.to_json()
    rest = {name: check for name, check in OPTIONAL.items() if name != key}
    for module in ("optional", "task"):
        monkeypatch.setattr(f"arcwise.tasks.{module}.OPTIONAL", rest)
    with pytest.raises(TaskError, match=f"^the key '{key}' of a task is not known to this arcwise"):
        Task.from_bytes(data)
    with pytest.raises(TaskError, match="or has a key that only a later arcwise knows"):
        Task.from_json(shown)


@given(
    st.dictionaries(
        st.sampled_from([*OPTIONAL, "zone"]),
        texts(20) | json_values | st.sampled_from([*SAID.values()][1:]) | st.just(STATEMENT.to_fields()),
        max_size=3,
    )
)
def test_maps_are_read_or_refused(said: dict[str, Any]) -> None:
    """For any map, a task is read only from the bytes that it writes."""
    try:
        data = msgpack.packb([*items(a_task(central=STATEMENT))[:8], said])
    except (OverflowError, UnicodeEncodeError):  # msgpack has no integer of this size, no lone surrogate
        return
    try:
        task = Task.from_bytes(data)
    except TaskError:
        return
    assert task.to_bytes() == data
    kept = {key: value for key in OPTIONAL if (value := getattr(task, key)) is not None}
    assert kept == ({**said, "central": STATEMENT} if "central" in said else said) != {}


def test_a_file_with_a_key_that_is_not_known_keeps_its_id() -> None:
    """A note in a file is not part of the task; a key that is part of it changes the id."""
    shown = a_task().to_json() | {"note": "by hand"}
    assert Task.from_json(shown) == a_task()
    with pytest.raises(TaskError, match="is not that of the task it describes"):
        Task.from_json(shown | {"unit": "km/h"})


# --- what is released, and what that promises -----------------------------------------------------------


def test_a_statement_is_a_map_of_its_own() -> None:
    task = a_task(central=STATEMENT, lateness_seconds=3600)
    assert (task.central, task.lateness_seconds) == (STATEMENT, 3600)
    said = items(task)[8]
    assert said == {"central": STATEMENT.to_fields(), "lateness_seconds": 3600}
    assert list(said["central"]) == sorted(said["central"])
    assert task.to_json()["central"] == said["central"]
    whole = json.loads(json.dumps(task.to_json()))
    whole["central"]["honest"] = 1  # in a file, a float may lack its fraction
    assert Task.from_json(whole) == task
    assert "releases=30)" in repr(task)
    assert "30 epochs together, each closed with at least 10,000 reports" in task._repr_html_()


def test_a_statement_releases_closed_epochs_of_so_many_reports() -> None:
    promised = a_task(central=STATEMENT)
    assert (promised.release, promised.releases_closed_epochs, promised.least_reports) == (None, True, 10_000)
    closed = a_task(release="closed-epochs")
    assert (closed.releases_closed_epochs, closed.least_reports) == (True, 0)
    assert (a_task().releases_closed_epochs, a_task().least_reports) == (False, 0)
    assert promised.release_words == "an epoch is shown once it is closed and holds at least 10,000 reports"
    assert a_task(release="closed-epochs", lateness_seconds=0).release_words == (
        "an epoch is shown once it is closed; batches are taken until 0 s after their epoch"
    )
    assert a_task().release_words == ""
    assert list(promised.readers.values()) == [
        "epsilon = 1 per report",
        "epsilon = 1 per report, without its address",
        str(STATEMENT),
    ]
    assert list(a_task().readers.values()) == ["epsilon = 1 per report"]


@pytest.mark.parametrize(
    ("caps", "message"),
    [
        (None, r"caps\.lifetime must be at most 30 .* central\.releases = 30 .* cost of 1 .* none: set it"),
        (Caps(rolling=1.0), r"caps\.lifetime must be at most 30 .* got none"),
        (Caps(lifetime=30.000001, rolling=1.0), r"caps\.lifetime must be at most 30 .* got 30"),
        (Caps(lifetime=30.0), r"caps\.rolling must be at most 1 .* central\.reports_each = 1 .* got none"),
        (Caps(30.0, 1.000001), r"caps\.rolling must be at most 1 .* got 1"),
        (Caps(30.0, 1.0, 86_399), r"caps\.window must be at least epoch_seconds = 86400 .* got 86399"),
    ],
)
def test_caps_that_allow_more_than_the_statement_assumes(caps: Caps | None, message: str) -> None:
    with pytest.raises(TaskError, match=f"^{message}"):
        a_task(central=STATEMENT, caps=caps)
    assert a_task(central=STATEMENT, caps=Caps(29.5, 1.0, 86_401)).central == STATEMENT


@given(statements(), st.floats(0.01, 20), st.integers(1, 366 * 86_400))
def test_the_caps_of_a_statement_allow_just_what_it_assumes(
    statement: CentralStatement, epsilon: float, window: int
) -> None:
    caps, charge = statement.caps(epsilon, window), Charge(micro_epsilon(epsilon), 0)
    statement.check_caps(caps, charge, window)
    assert caps.lifetime_micro == statement.releases * charge.micro_epsilon
    assert caps.rolling_micro == statement.reports_each * charge.micro_epsilon


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 0}, "epsilon must be positive and finite, got 0.0"),
        ({"epsilon": "1"}, "epsilon must be a real number, positive and finite, got '1'"),
        ({"delta": 0}, "delta must be at least 1e-200 and less than 1, got 0.0"),
        ({"delta": 1.0}, "delta must be at least 1e-200 and less than 1, got 1.0"),
        ({"reports": 0}, "reports must be an integer from 1 to 1000000000000, got 0"),
        ({"reports": 1e4}, "reports must be an integer from 1 to 1000000000000, got 10000.0"),
        ({"honest": 0}, "honest must be more than 0 and at most 1, got 0.0"),
        ({"reports_each": 10_001}, "reports_each must be an integer from 1 to 10000, got 10001"),
        ({"releases": True}, "releases must be an integer from 1 to 1000000, got True"),
    ],
)
def test_bad_statements_are_refused(wrong: Any, message: str) -> None:
    good = STATEMENT.to_fields()
    with pytest.raises(ParameterError, match=f"^{message}$"):
        CentralStatement(**(good | wrong))
    shown = a_task(central=STATEMENT).to_json() | {"central": good | wrong}
    with pytest.raises(TaskError, match=rf"^central\.{message}$"):
        Task.from_json(shown)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"central": 1.0}, "central must be None or a CentralStatement, got 1.0; for example"),
        ({"central": {"epsilon": 1.0}}, r"central must hold epsilon, delta, .* and nothing else, got"),
        ({"central": {**STATEMENT.to_fields(), "zone": 1}}, "central must hold .* and nothing else"),
        ({"release": "open"}, "release must be None or \"closed-epochs\", got 'open'"),
        ({"release": True}, 'release must be None or "closed-epochs", got True'),
        (
            {"lateness_seconds": -1},
            "lateness_seconds must be an integer from 0 to 31622400, got -1; it is in",
        ),
        ({"lateness_seconds": 1.5}, "lateness_seconds must be an integer from 0 to 31622400, got 1.5"),
    ],
)
def test_bad_values_of_the_release_are_refused(said: Any, message: str) -> None:
    with pytest.raises(TaskError, match=f"^{message}"):
        a_task(**said)


# --- a key is one entry ---------------------------------------------------------------------------------


def test_keys_are_arguments_and_attributes_and_no_other_key_of_a_file() -> None:
    parameters = inspect.signature(Task).parameters
    for key in OPTIONAL:
        assert parameters[key].default is None
        assert parameters[key].kind is inspect.Parameter.KEYWORD_ONLY
        assert key in Task.__slots__
        assert key in Task.__annotations__
        assert key not in a_task().to_json()
    assert list(OPTIONAL) == sorted(OPTIONAL)


def test_the_javascript_client_knows_the_same_keys() -> None:
    source = (JAVASCRIPT / "arcwise" / "optional.js").read_text(encoding="utf-8")
    table = source.partition("const OPTIONAL = {\n")[2].partition("};")[0]
    assert [line.partition(":")[0].strip() for line in table.splitlines()] == list(OPTIONAL)


# --- groups -------------------------------------------------------------------------------------------


def test_tasks_of_a_group_have_their_own() -> None:
    domains: dict[str, Domain] = {"heading": Circle(360), "speed": SPEED}
    group = Group.share_budget("car", domains, 2.0, units={"speed": "km/h"}, descriptions={"heading": WORDS})
    assert [(task.unit, task.description) for task in group.tasks] == [(None, WORDS), ("km/h", None)]
    assert Group.share_budget("car", domains, 2.0, units={}, descriptions={}) != group
    for other in (
        Group.from_bytes(group.to_bytes()),
        Group.from_json(json.loads(json.dumps(group.to_json()))),
    ):
        assert other == group
        assert other.tasks == group.tasks
    for name in ("units", "descriptions"):
        unknown: Any = {name: {"height": "m"}}
        with pytest.raises(TaskError, match=f"^{name} must name tasks of the group, got 'height'$"):
            Group.share_budget("car", domains, 2.0, **unknown)
