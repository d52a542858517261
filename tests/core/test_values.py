"""Immutable values behave as with `dataclasses`, for type checkers too."""

from __future__ import annotations

import copy
import pickle
import sys

import pytest

from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.kernels import Certificate, CirculantKernel, TableKernel, WindowKernel
from arcwise.tasks import Caps
from arcwise.values import Value
from arcwise.wire import Batch

ROW = (2**63, 2**62, 2**62)

VALUES: list[Value] = [
    Interval(-60, 180, clip=True),
    Circle(360),
    Caps(lifetime=30.0, window=3600),
    Batch(bytes(32), bytes(16), 3, b"\x01"),
    Certificate(1.0, 5, None),
    WindowKernel.fit(nodes=5, window=2, epsilon=1.0, circular=False),
    TableKernel((ROW, ROW[::-1])),
    CirculantKernel(ROW),
]


@pytest.fixture(params=VALUES, ids=lambda value: type(value).__name__)
def value(request: pytest.FixtureRequest) -> Value:
    assert isinstance(request.param, Value)
    return request.param


def key(value: Value) -> tuple[object, ...]:
    return tuple(getattr(value, name) for name in value.__match_args__)


def test_copies_are_equal_and_show_how_they_are_made(value: Value) -> None:
    for other in (
        copy.copy(value),
        copy.deepcopy(value),
        *(pickle.loads(pickle.dumps(value, version)) for version in range(pickle.HIGHEST_PROTOCOL + 1)),
        type(value)(*key(value)),
        type(value)(**dict(zip(value.__match_args__, key(value), strict=True))),
        eval(repr(value), vars(sys.modules[__name__]).copy()),
    ):
        assert type(other) is type(value)
        assert (other == value, other != value, hash(other) == hash(value)) == (True, False, True)
        assert all(getattr(other, name) == getattr(value, name) for name in public(value))


def public(value: Value) -> list[str]:
    slots = {slot for cls in type(value).__mro__ for slot in getattr(cls, "__slots__", ())}
    return [slot for slot in slots if not slot.startswith("_")]


def test_nothing_changes_and_nothing_is_added(value: Value) -> None:
    name = type(value).__name__
    for field in (*public(value), "other"):
        with pytest.raises(AttributeError, match=f"a {name} is immutable; cannot set '{field}'"):
            setattr(value, field, 1)
    with pytest.raises(AttributeError, match=f"a {name} is immutable; cannot delete"):
        delattr(value, value.__match_args__[0])
    assert not hasattr(value, "__dict__")


def test_type_checkers_refuse_assignments() -> None:
    """mypy reports an ignore without an error, so `make types` fails if these assignments pass."""
    domain, kernel = Interval(0, 1), CirculantKernel(ROW)
    with pytest.raises(AttributeError):
        domain.low = 0.5  # type: ignore[misc]
    with pytest.raises(AttributeError):
        kernel.weights = ROW  # type: ignore[misc]


def test_other_fields_and_other_classes_are_not_equal() -> None:
    class Unit(Interval):
        __slots__ = ()

        def __init__(self) -> None:
            super().__init__(0, 1)

    assert Interval(0, 1) != Interval(0, 2)
    assert Interval(0, 1) != Unit()
    assert Unit() == Unit()
    assert Circle(360) != (360.0,)
    assert len({Interval(0, 1), Interval(0, 1), Unit(), Circle(1)}) == 3


def test_a_match_statement_takes_the_fields_in_order() -> None:
    match Interval(0, 180):
        case Interval(low, high, False):
            assert (low, high) == (0.0, 180.0)
        case _:
            pytest.fail("no match")


def test_a_pickle_of_what_cannot_be_made_is_refused() -> None:
    forged = pickle.dumps(Circle(360), 0).replace(b"360", b"-36")
    with pytest.raises(ParameterError, match="period must be positive"):
        pickle.loads(forged)
