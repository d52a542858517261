"""Domains: which values they take, where these lie on the unit domain, and what errors they raise."""

from __future__ import annotations

import itertools
import math
import re
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import ArcwiseError, DomainError, ParameterError
from arcwise.mechanisms import OptimalCircular
from tests.support.strategies import circles, domains, intervals, values_in

if TYPE_CHECKING:
    from collections.abc import Callable

HEIGHT = Interval(-20, 180)
CLIPPED = Interval(-20, 180, clip=True)
HEADING = Circle(360)


class Broken(float):
    """A float that fails to convert."""

    def __float__(self) -> float:
        raise RuntimeError("broken")


class Silent:
    """An object whose repr fails."""

    def __repr__(self) -> str:
        raise RuntimeError("silent")


class Array:
    """An object that claims to be an array but fails to convert."""

    def __array__(self, *_: object, **__: object) -> Any:
        raise RuntimeError("broken")


def real(number: Callable[[object], object]) -> Any:
    """Return an instance of a new class that Python takes for a real number."""
    methods: dict[str, Any] = dict.fromkeys(Real.__abstractmethods__, lambda *_: NotImplemented)
    return type("Odd", (Real,), methods | {"__float__": number})()


NO_NUMBERS = [
    True,
    False,
    np.bool_(True),
    "45",
    "",
    None,
    1j,
    b"45",
    [45.0],
    (45.0,),
    {},
    Decimal(45),
    object(),
    np.timedelta64(45, "D"),
    np.timedelta64(45, "s"),
    np.timedelta64("NaT", "s"),
    np.datetime64("2026-01-01"),
    np.datetime64("NaT", "s"),
    np.array(45.0),
    np.array([45.0]),
    np.array(45.0, dtype=object),
    np.complex128(45),
    np.str_("45"),
    np.ma.masked,
    pd.NaT,
    pd.NA,
    pd.Timedelta(45),
    timedelta(45),
    Decimal("sNaN"),
    Broken(45.0),
    real(lambda _: "45"),
    real(lambda _: 1 // 0),
    real(lambda _: 45),
]
"""Refused, even if Python could convert them to float."""

NOT_FINITE = [math.nan, math.inf, -math.inf, np.float64("nan"), np.float32("inf")]


@pytest.fixture(params=[HEIGHT, CLIPPED, HEADING], ids=str)
def domain(request: pytest.FixtureRequest) -> Domain:
    return request.param  # type: ignore[no-any-return]


def refusal(domain: Domain, value: Any, *, many: bool = False) -> str:
    """Return the message with which a domain refuses a value or an array; it names the domain."""
    with pytest.raises(DomainError) as caught:
        domain.to_unit_many(value) if many else domain.to_unit(value)
    assert str(domain) in str(caught.value)
    return str(caught.value).replace(str(domain), "DOMAIN")


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: type(value).__name__)
def test_what_is_no_number_is_refused(domain: Domain, value: Any) -> None:
    expected = f"value must be a real number in DOMAIN, got a {type(value).__name__}"
    assert refusal(domain, value) == expected
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.dtype == float):
        return  # arrays may hold arrays of numbers
    for values in ([value], [value, 5.0], [5.0, value]):
        assert re.match("values must be .*in DOMAIN", refusal(domain, values, many=True))


def test_what_cannot_even_be_shown_is_refused(domain: Domain) -> None:
    assert refusal(domain, Silent()) == "value must be a real number in DOMAIN, got a Silent"
    assert refusal(domain, [10**5000]) == "value must be a real number in DOMAIN, got a list"
    assert re.match("values must be .* in DOMAIN", refusal(domain, [Silent(), 5.0], many=True))


@pytest.mark.parametrize("value", NOT_FINITE, ids=repr)
def test_what_is_not_finite_is_refused(domain: Domain, value: Any) -> None:
    assert refusal(domain, value) == "value must be finite and in DOMAIN"
    expected = "values must be finite and in DOMAIN; wrong at index 1"
    assert refusal(domain, [0.0, value, 5.0], many=True) == expected


@pytest.mark.parametrize("value", [10**400, -(10**400), 10**5000, Fraction(10**400)], ids="abcd")
def test_integers_beyond_a_float_are_refused(domain: Domain, value: Any) -> None:
    expected = "value must be finite and in DOMAIN, got an integer beyond the range of a float"
    assert refusal(domain, value) == expected
    many = refusal(domain, [value], many=True)
    assert many.startswith("values must be real numbers in DOMAIN, got an array of dtype object")


@pytest.mark.parametrize("value", [-20.000001, 180.5, 1e300, -1e300, 181, np.float32(200), Fraction(-21)])
def test_an_interval_names_the_value_outside_and_its_bounds(value: Any) -> None:
    with pytest.raises(DomainError, match=r"^value must be in \[-20, 180\]: clip it, or give") as error:
        HEIGHT.to_unit(value)
    assert repr(float(value)) not in str(error.value)
    with pytest.raises(DomainError, match=r"^values must be in \[-20, 180\]; wrong at index 2: clip them"):
        HEIGHT.to_unit_many([0.0, 180.0, float(value), 5.0])
    assert CLIPPED.to_unit(value) == (1.0 if value > 0 else 0.0)
    assert CLIPPED.to_unit_many([float(value)]).tolist() == [1.0 if value > 0 else 0.0]


@pytest.mark.parametrize(
    "values",
    [
        ["a"],
        [None],
        [1j],
        [b"1"],
        [Decimal(1)],
        [True],
        [[1.0], [2.0, 3.0]],
        "12",
        None,
        [Fraction(1, 2)],
        object(),
        np.timedelta64(1, "s"),
        np.array([1, 2], "timedelta64[s]"),
        np.array(["2026-01-01"], "datetime64[D]"),
        np.zeros(2, [("x", float)]),
        Array(),
    ],
    ids=range(16),
)
def test_arrays_that_hold_no_numbers_are_refused(domain: Domain, values: Any) -> None:
    expected = "values must be (an array of )?real numbers in DOMAIN"
    assert re.match(expected, refusal(domain, values, many=True))


@pytest.mark.parametrize(
    ("values", "index"),
    [
        ([True, 0.5], 0),
        ((0.5, False), 1),
        ([1, np.True_], 1),
        ([[1.0, 2.0], [3.0, True]], 3),
        ([np.array([0.5]), np.array([True])], 1),
    ],
    ids=range(5),
)
def test_a_bool_among_numbers_is_refused(domain: Domain, values: Any, index: int) -> None:
    expected = f"values must be real numbers in DOMAIN, got a bool at index {index}"
    assert refusal(domain, values, many=True) == expected
    with pytest.raises(DomainError):
        OptimalCircular(HEADING, 1.0).randomize_many(values)


def test_masked_arrays_are_refused(domain: Domain) -> None:
    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    for values in (masked, [masked]):
        with pytest.raises(DomainError, match=r"masked array.*compressed\(\)"):
            domain.to_unit_many(values)


@pytest.mark.parametrize(
    "value",
    [45, 45.0, np.float32(45), np.float64(45), np.int64(45), np.uint8(45), np.int16(45), Fraction(45)],
)
def test_real_numbers_of_every_kind_are_taken(value: Any) -> None:
    assert Interval(0, 180).to_unit(value) == 0.25
    assert Circle(180).to_unit(value) == 0.25
    assert type(Circle(180).to_unit(value)) is float
    assert type(Interval(0, 180).to_unit(value)) is float
    if not isinstance(value, Fraction):
        assert float(Interval(0, 180).to_unit_many(value)) == 0.25
        assert Circle(180).to_unit_many(np.array([[value]])).tolist() == [[0.25]]


def test_examples_of_positions() -> None:
    assert HEIGHT.to_unit(-20) == 0.0
    assert HEIGHT.to_unit(180) == 1.0
    assert HEIGHT.to_unit(30) == 0.25
    assert HEIGHT.length == 200
    assert HEADING.to_unit(0) == 0.0
    assert HEADING.to_unit(90) == 0.25
    assert HEADING.to_unit(360) == 0.0
    assert HEADING.to_unit(-90) == 0.75
    assert HEADING.to_unit(3690) == 0.25
    assert HEADING.length == 360
    assert HEIGHT.from_unit(np.array([0.0, 0.25, 1.0, 1.5])).tolist() == [-20, 30, 180, 280]
    assert HEADING.from_unit(np.array([0.0, 0.25])).tolist() == [0, 90]


@pytest.mark.parametrize("value", [-1e-300, -5e-324, -1e-17, 1e300, -1e300, 1.7e308, 360 - 1e-14, -0.0])
def test_circles_stay_below_one(value: float) -> None:
    for circle in (HEADING, Circle(1e-3), Circle(2 * math.pi), Circle(1e300), Circle(5e-324)):
        unit = circle.to_unit(value)
        assert 0.0 <= unit < 1.0
        assert circle.to_unit_many([value]).tolist() == [unit]
    assert HEADING.to_unit(-1e-300) == 0.0


@given(st.data(), domains())
def test_arrays_agree_with_single_values(data: st.DataObject, domain: Domain) -> None:
    values = data.draw(st.lists(values_in(domain), max_size=6))
    expected = [domain.to_unit(value) for value in values]
    assert all(0.0 <= unit <= 1.0 for unit in expected)
    assert domain.to_unit_many(values).tolist() == expected
    column = domain.to_unit_many(np.array(values, np.float64).reshape(-1, 1))
    assert column.shape == (len(values), 1)
    assert column.ravel().tolist() == expected
    for value, unit in zip(values, expected, strict=True):
        single = domain.to_unit_many(value)
        assert np.shape(single) == ()
        assert float(single) == unit


@given(intervals(), st.floats(allow_nan=True, allow_infinity=True))
def test_arrays_refuse_what_single_values_refuse(interval: Interval, value: float) -> None:
    if math.isfinite(value) and (interval.clip or interval.low <= value <= interval.high):
        unit = interval.to_unit(value)
        assert 0.0 <= unit <= 1.0
        assert interval.to_unit_many([value]).tolist() == [unit]
        return
    with pytest.raises(DomainError, match=r"^value must be"):
        interval.to_unit(value)
    with pytest.raises(DomainError, match=r"^values must be .* at index 0"):
        interval.to_unit_many([value])


@given(st.data(), intervals())
def test_intervals_map_there_and_back_in_order(data: st.DataObject, interval: Interval) -> None:
    low, high = sorted(data.draw(st.tuples(values_in(interval), values_in(interval))))
    assert interval.to_unit(low) <= interval.to_unit(high)
    back = float(interval.from_unit(interval.to_unit_many([low]))[0])
    assert back == pytest.approx(low, abs=1e-9 * max(abs(interval.low), abs(interval.high)))
    assert interval.to_unit(interval.low) == 0.0
    assert interval.to_unit(interval.high) == 1.0


@given(circles, st.floats(0, 1, exclude_max=True), st.integers(-5, 5))
def test_circles_ignore_whole_turns(circle: Circle, unit: float, turns: int) -> None:
    gap = abs(circle.to_unit((unit + turns) * circle.period) - unit)
    assert min(gap, 1 - gap) < 1e-12


def test_arrays_that_come_in_stay_as_they_are() -> None:
    values = np.array([-500.0, 0.0, 500.0])
    for domain in (CLIPPED, HEADING):
        domain.to_unit_many(values)
        assert values.tolist() == [-500.0, 0.0, 500.0]


NO_BOUNDS: list[Any] = [
    True,
    np.bool_(False),
    "0",
    None,
    1j,
    Decimal(0),
    [0],
    np.timedelta64(1, "s"),
    Broken(0.0),
]
FINITE = r"(low and high|low|high) must be finite( with low < high)?, got "


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        *((Interval, (bad, 1), "low must be a real number, got") for bad in NO_BOUNDS),
        *((Interval, (0, bad), "high must be a real number, got") for bad in NO_BOUNDS),
        *((Circle, (bad,), "period must be a real number, positive and finite, got") for bad in NO_BOUNDS),
        *(
            (Interval, bounds, FINITE)
            for bounds in ((1, 1), (2, 1), (math.nan, 1), (0, math.nan), (-math.inf, 0), (0, math.inf))
        ),
        (Interval, (0, 10**400), "high must be finite, got an integer beyond"),
        (Interval, (-1.7e308, 1.7e308), r"high - low must be finite, got -1.7e\+308 and 1.7e\+308"),
        *((Interval, (0, 1, bad), "clip must be True or False, got") for bad in (1, 0, None, "no")),
        *(
            (Circle, (bad,), "period must be positive and finite, got ")
            for bad in (0, -1, -0.0, math.nan, math.inf)
        ),
        (Circle, (10**5000,), "period must be positive and finite, got an integer beyond"),
    ],
    ids=itertools.count(),
)
def test_bounds_that_are_none_are_refused(make: Any, given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make(*given)


def test_domains_are_values() -> None:
    assert Interval(0, 180) == Interval(np.float32(0), Fraction(180))  # type: ignore[arg-type]
    assert Interval(0, 1) != Interval(0, 1, clip=True)
    assert Interval(-0.0, 1) == Interval(0, 1)
    assert math.copysign(1, Interval(-0.0, 1).low) == 1.0
    assert {Circle(360), Circle(360.0)} == {Circle(360)}
    assert type(Interval(0, 1).low) is float
    assert str(Interval(-2.5, 1e6)) == "[-2.5, 1e+06]"
    frozen: Any = Circle(24)
    with pytest.raises(AttributeError):
        frozen.period = 12


def test_errors_can_be_caught_as_arcwise_errors_and_as_value_errors() -> None:
    for base in (ArcwiseError, ValueError):
        with pytest.raises(base):
            HEIGHT.to_unit(1000)
        with pytest.raises(base):
            Circle(0)
