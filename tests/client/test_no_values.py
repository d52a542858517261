"""No error of a report shows the value, neither in its message nor in a logged traceback."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from arcwise.client import MemoryLedger
from arcwise.domains import Circle, Interval
from arcwise.errors import ArcwiseError, DomainError
from arcwise.tasks import Group, Task
from tests.support.unlimited import Client

if TYPE_CHECKING:
    from collections.abc import Callable

URL = "http://127.0.0.1:1"
SECRET = 7654321.25
TEXT = str(SECRET)
TASKS = {
    "interval": Task("interval", Interval(0, 180), 1.0),
    "steps": Task("steps", Interval(0, 1e9, step=1e8), 1.0),
    "circle": Task("circle", Circle(1e9, step=1e7), 1.0),
}
PAIR = Group("pair", [Task("one", Interval(0, 180), 1.0), Task("two", Circle(360), 1.0)])


class Loud:
    """A value that fails to convert to a number and raises an error with details."""

    def __array__(self, *given: Any, **named: Any) -> Any:
        raise ValueError(f"cannot convert {SECRET}")


REFUSED: dict[str, Callable[[Client], object]] = {
    **{
        f"{name}, {kind}": lambda client, name=name, value=value: client.report(name, value)  # type: ignore[misc]
        for name in TASKS
        for kind, value in {"a number": SECRET, "numpy's": np.float64(SECRET), "a text": TEXT}.items()
    },
    "a list": lambda client: client.report("interval", [SECRET]),
    "a group's": lambda client: client.report("pair", {"one": SECRET, "two": 1.0}),
    "a group without names": lambda client: client.report("pair", SECRET),
    "in the name's place": lambda client: client.report(SECRET, "interval"),  # type: ignore[arg-type]
    "a list in the name's place": lambda client: client.report([SECRET], "interval"),  # type: ignore[arg-type]
    "an array in the name's place": lambda client: client.report(np.array([SECRET] * 2), "pair"),  # type: ignore[arg-type]
    "in a name's place in a group": lambda client: client.report("pair", {SECRET: "one"}),
    **{
        f"a column of {kind}": lambda _client, values=values: TASKS["interval"].randomize(values)  # type: ignore[misc]
        for kind, values in {
            "numbers": [1.0, SECRET],
            "texts": [TEXT],
            "texts among numbers": [1.0, TEXT],
            "arrays of unequal lengths": [[1.0], [SECRET, 2.0]],
            "an array": np.array([1.0, SECRET]),
            "an iterator": iter([SECRET]),
            "its own": Loud(),
        }.items()
    },
    "a column of steps": lambda _client: TASKS["steps"].randomize([1e8, SECRET]),
    "columns of a group": lambda _client: PAIR.randomize({"one": [1.0, SECRET], "two": [1.0, 2.0]}),
    "an array of a mechanism": lambda _client: TASKS["interval"].mechanism.randomize_many([1.0, SECRET]),
    "an array of its own": lambda _client: TASKS["interval"].mechanism.randomize_many(Loud()),
    "values for codes": lambda _client: TASKS["interval"].count([SECRET]),
}


def client_of(**options: Any) -> Client:
    return Client(URL, tasks=[*TASKS.values(), PAIR], ledger=MemoryLedger(), **options)


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_no_error_tells_the_value(refused: Callable[[Client], object]) -> None:
    with pytest.raises(ArcwiseError) as caught:
        refused(client_of())
    error = caught.value
    lines = traceback.format_exception_only(error)
    while error.__cause__ or (error.__context__ and not error.__suppress_context__):
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
        lines += traceback.format_exception_only(error)
    assert "7654321" not in "".join(lines)
    assert "7654321" not in repr(vars(caught.value))


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), True, 10**400])
def test_nor_what_kind_of_no_number(value: Any) -> None:
    with pytest.raises(DomainError) as caught:
        client_of().report("interval", value)
    assert not {"inf", "-inf", "nan", "True", str(value)} & set(str(caught.value).replace(",", "").split())


def test_the_value_is_told_where_that_is_asked_for() -> None:
    client = client_of(show_values=True)
    for name, value in (("interval", SECRET), ("steps", SECRET), ("pair", {"one": SECRET})):
        with pytest.raises(DomainError, match=f"got .*{TEXT}"):
            client.report(name, value)
    assert client.budget().epsilon == 0
