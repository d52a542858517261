"""The search for the smallest epsilon, on functions whose answer is known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.analysis.planning.epsilon import HIGHEST, LOWEST, smallest_epsilon

if TYPE_CHECKING:
    from collections.abc import Callable


def counted(function: Callable[[float], float]) -> tuple[Callable[[float], float], list[float]]:
    seen: list[float] = []

    def reached(epsilon: float) -> float:
        seen.append(epsilon)
        return function(epsilon)

    return reached, seen


@given(
    answer=st.floats(0.06, 9.0), power=st.floats(0.4, 2.5), start=st.floats(0.05, 10.0), jumps=st.booleans()
)
def test_the_answer_reaches_and_a_smaller_one_does_not(
    answer: float, power: float, start: float, jumps: bool
) -> None:
    def error(epsilon: float) -> float:
        # Windows hold whole numbers of codes: errors fall in steps too.
        at = math.floor(epsilon * 50) / 50 if jumps else epsilon
        return float((answer / at) ** power)

    reached, seen = counted(error)
    found = smallest_epsilon(reached, 1.0, start=start, tolerance=0.005)
    assert found.epsilon is not None
    assert error(found.epsilon) <= 1.0
    assert float(f"{found.epsilon:.3g}") == found.epsilon
    missed = [epsilon for epsilon in seen if error(epsilon) > 1.0]
    below = max(missed, default=0.0)
    assert found.epsilon <= max(below * 1.005, float(f"{below * 1.0101:.3g}")) or found.epsilon == LOWEST
    assert len(seen) == len(set(seen)) <= (24 if jumps else 14)
    assert found.tried == tuple(sorted((epsilon, error(epsilon)) for epsilon in seen))


def test_nothing_reaches() -> None:
    found = smallest_epsilon(lambda epsilon: 5.0 + 1 / epsilon, 1.0, start=1.0, tolerance=0.005)
    assert found.epsilon is None
    assert found.tried[-1][0] == HIGHEST


def test_even_the_smallest_reaches() -> None:
    assert smallest_epsilon(lambda _: 0.5, 1.0, start=1.0, tolerance=0.005).epsilon == LOWEST


def test_errors_may_be_infinite_below() -> None:
    found = smallest_epsilon(
        lambda epsilon: math.inf if epsilon < 2 else 1 / epsilon, 1.0, start=0.3, tolerance=0.005
    )
    assert found.epsilon == pytest.approx(2.0, rel=0.01)
