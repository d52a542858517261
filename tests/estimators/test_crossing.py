"""The search for where a rising function reaches a bound."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from arcwise.server.estimators.crossing import NEAR, outer_crossing


@given(
    bound=st.floats(0.5, 4.0),
    slope=st.floats(0.01, 1e4),
    power=st.floats(0.3, 3.0),
    guess=st.floats(1e-6, 2.0),
    side=st.sampled_from([-1.0, 1.0]),
    span=st.floats(1e-3, 10.0),
)
def test_the_place_is_never_short_of_the_bound_and_hardly_beyond(
    bound: float, slope: float, power: float, guess: float, side: float, span: float
) -> None:
    def function(x: float) -> float:
        return math.pow(slope * abs(x), power)

    found = outer_crossing(function, bound, 0.0, side * span, guess)
    exact = bound ** (1 / power) / slope
    if exact > span:
        assert found is None
        return
    assert found is not None
    assert function(found) >= bound
    assert function(found) <= bound * NEAR * 1.001 or abs(found) - exact <= 0.0601 * abs(found) + 1e-8 * span


@given(jump=st.floats(0.01, 0.99), flat=st.floats(0.0, 1.9), guess=st.floats(1e-3, 1.0))
def test_a_jump_is_bracketed(jump: float, flat: float, guess: float) -> None:
    calls = 0

    def function(x: float) -> float:
        nonlocal calls
        calls += 1
        return 0.0 if x == 0 else flat if x < jump else math.inf

    found = outer_crossing(function, 1.96, 0.0, 1.0, guess)
    assert found is not None
    assert jump <= found <= jump + 0.0601 * found + 1e-8
    assert calls < 30


@given(share=st.floats(0.01, 0.99), guess=st.floats(1e-3, 1.0), side=st.sampled_from([-1.0, 1.0]))
def test_an_infinite_value_of_the_wrong_sign_next_to_the_middle_is_bisected(
    share: float, guess: float, side: float
) -> None:
    def function(x: float) -> float:
        return -math.inf if abs(x) < 0.49 * share else 4.0 * abs(x)

    found = outer_crossing(function, 1.96, 0.0, side, guess)
    assert found is not None
    assert function(found) >= 1.96
    assert abs(found) <= 0.49 * 1.0601
