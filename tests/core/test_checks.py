"""The checks that every numeric argument goes through."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from arcwise.checks import checked_integer, checked_real, real_or_nan, shown
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError, TaskError
from arcwise.mechanisms.registry import MECHANISMS
from tests.support.cases import mostly_slow


@pytest.mark.parametrize("number", [3, 3.0, np.int8(3), np.float32(3), np.uint64(3), Fraction(3)])
def test_numbers_of_any_type_are_real(number: Any) -> None:
    found = checked_real("x", number, least=3, most=3)
    assert type(found) is float
    assert found == real_or_nan(number) == 3.0


def test_minus_zero_becomes_zero() -> None:
    assert math.copysign(1.0, checked_real("x", -0.0)) == 1.0


@pytest.mark.parametrize("other", [True, np.True_, "3", None, 3j, Decimal(3), [3], np.timedelta64(3, "s")])
def test_nothing_else_is_a_number(other: Any) -> None:
    assert math.isnan(real_or_nan(other))
    with pytest.raises(ParameterError, match=r"^x must be a real number, from 1 to 5, got "):
        checked_real("x", other, least=1, most=5)
    with pytest.raises(ParameterError, match=r"^x must be an integer from 1 to 5, got "):
        checked_integer("x", other, 1, 5)


@pytest.mark.parametrize(
    ("number", "bounds", "message"),
    [
        (math.nan, {}, "x must be finite, got nan"),
        (math.inf, {"above": 0}, "x must be positive and finite, got inf"),
        (0, {"above": 0}, "x must be positive and finite, got 0.0"),
        (-1, {"least": 0}, "x must be finite and at least 0, got -1.0"),
        (1, {"above": 0, "below": 1}, "x must be more than 0 and less than 1, got 1.0"),
        (0.5, {"above": 0, "most": 0.25}, "x must be more than 0 and at most 0.25, got 0.5"),
        (9, {"least": 1, "most": 5, "advice": ": fewer"}, "x must be from 1 to 5, got 9.0: fewer"),
        (
            10**400,
            {"most": 5, "least": 1},
            "x must be from 1 to 5, got an integer beyond the range of a float",
        ),
    ],
)
def test_messages_name_argument_bound_and_value(number: Any, bounds: Any, message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        checked_real("x", number, **bounds)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("x" * 80, repr("x" * 80)),
        ("x" * 100_000, "'" + "x" * 40 + "...' of 100,000 characters"),
        (["x" * 2000], "['" + "x" * 998 + "..."),
    ],
    ids=["short", "text", "list"],
)
def test_a_long_value_is_not_repeated_whole(value: Any, words: str) -> None:
    assert shown(value) == words
    with pytest.raises(ParameterError) as caught:
        checked_real("x", value)
    assert str(caught.value) == f"x must be a real number, got {words}"


def test_integers_of_numpy_become_integers() -> None:
    assert type(checked_integer("n", np.int64(7), 1)) is int


@pytest.mark.parametrize(("number", "most"), [(0, None), (6, 5), (2.0, 5), (np.float64(2), 5)])
def test_integers_have_bounds(number: Any, most: int | None) -> None:
    bound = "of at least 1" if most is None else "from 1 to 5"
    with pytest.raises(TaskError, match=rf"^n must be an integer {bound}, got .*; it is in seconds$"):
        checked_integer("n", number, 1, most, advice="; it is in seconds", error=TaskError)


@pytest.mark.parametrize(
    "number", mostly_slow([np.uint8(64), np.int64(64)], every=2, ids=lambda n: str(n.dtype))
)
def test_nodes_may_be_an_integer_of_numpy(number: Any) -> None:
    made = 0
    for cls in MECHANISMS.values():
        domain = Circle(360) if cls.domain_type is Circle else Interval(0, 1)
        try:
            plain = cls(domain, 1.0, nodes=64)  # type: ignore[call-arg]
        except (TypeError, ParameterError):
            continue  # it takes no nodes, or not these
        assert cls(domain, 1.0, nodes=number).kernel_fields() == plain.kernel_fields()  # type: ignore[call-arg]
        made += 1
    assert made >= 10
