"""The best noise on the integers for (epsilon, delta), compared with a linear program over all laws."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from arcwise.errors import ParameterError
from arcwise.kernels.certificate import UNIT
from arcwise.noise import Geometric, GridNoise, IntegerNoise, TruncatedLaplace
from tests.noise.families import least_loss

if TYPE_CHECKING:
    from collections.abc import Callable


LOSSES: dict[str, Callable[[Any], Any]] = {
    "size": abs,
    "square": lambda x: x**2,
    "huber": lambda x: np.where(abs(x) < 1.5, x**2 / 2, 1.5 * (abs(x) - 0.75)),
    "beyond 2": lambda x: (abs(x) > 2) + 0.0,
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.15, 0.08), (0.7, 0.002), (1.3, 0.03), (2.4, 1e-3), (4.0, 0.2), (0.4, 0.6)]
)
def test_no_law_is_better_at_sensitivity_1(name: str, epsilon: float, delta: float) -> None:
    loss = LOSSES[name]
    best = IntegerNoise.optimal(epsilon, delta, loss=loss)
    n = np.arange(-2.0 - best.support[1], 3.0 + best.support[1])
    least = least_loss(epsilon, delta, 1, np.asarray(loss(n), dtype=float))
    assert best.expect(loss) == pytest.approx(least, rel=1e-6, abs=1e-9)
    assert best.delta(epsilon, 1) <= delta * (1 + 1e-9)


CASES = [(0.9, 0.03, 2), (2.1, 0.004, 3), (1.4, 0.11, 5), (3.0, 0.02, 4), (0.6, 0.25, 3)]
LARGER = [(1.1, 0.05, 8), (2.0, 0.03, 13), (0.5, 0.4, 9)]


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in LARGER)],
)
def test_no_law_is_better_at_larger_sensitivities(epsilon: float, delta: float, sensitivity: int) -> None:
    best = IntegerNoise.optimal(epsilon, delta, sensitivity)
    near = IntegerNoise.truncated_staircase(epsilon, delta, sensitivity)
    end = near.support[1] + sensitivity
    least = least_loss(epsilon, delta, sensitivity, abs(np.arange(-end, end + 1)))
    assert best.abs_moment(1) == pytest.approx(least, rel=3e-6)
    assert best.abs_moment(1) <= near.abs_moment(1) <= 1.13 * least
    assert max(each.delta(epsilon, sensitivity) for each in (best, near)) <= delta * (1 + 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity", "beyond", "before"),
    [(4.37, 0.494, 4, 2, 1.0), (0.66, 0.41, 2, 0, 1.022), (0.9, 0.14, 3, 0, 1.0078), (0.7, 0.3, 3, 1, 1.0)],
)
def test_no_law_on_a_far_wider_support_is_better_for_a_bounded_loss(
    epsilon: float, delta: float, sensitivity: int, beyond: int, before: float
) -> None:
    """Such a loss needs a long tail; on 2 periods beyond the staircase it is `before` times the least."""
    loss = LOSSES["beyond 2"] if beyond == 2 else lambda x: (abs(x) > beyond) + 0.0
    best = IntegerNoise.optimal(epsilon, delta, sensitivity, loss=loss)
    near = IntegerNoise.truncated_staircase(epsilon, delta, sensitivity, loss=loss)
    short = near.support[1] + 2 * sensitivity
    wide, narrow = (
        least_loss(epsilon, delta, sensitivity, np.asarray(loss(np.arange(-end, end + 1)), dtype=float))
        for end in (max(3 * short, 40), short)
    )
    assert best.delta(epsilon, sensitivity) <= delta
    assert wide * (1 - 2e-5) <= best.expect(loss) <= wide * (1 + 2e-5)
    assert narrow == pytest.approx(before * wide, rel=1e-3)


def test_an_optimum_that_no_program_proves_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arcwise.noise.integer_noise._PROGRAM_MOST", 30)
    with pytest.raises(ParameterError, match="no program on fewer than 24 integers proves the optimum"):
        IntegerNoise.optimal(0.66, 0.41, 2, loss=lambda x: (abs(x) > 0) + 0.0)


@pytest.mark.parametrize("delta", [1e-11, 3e-6, 0.04, 0.35, 0.97])
@pytest.mark.parametrize("epsilon", [0.06, 1.7, 9.0, 33.0])
def test_a_staircase_that_is_cut_off_spends_exactly_delta(epsilon: float, delta: float) -> None:
    """By the masses of both sides and all shifts, and no half line leaves room for a shorter tail."""
    for sensitivity in (1, 2, 6, 11):
        for power in (0.5, 3.0):
            near = IntegerNoise.truncated_staircase(epsilon, delta, sensitivity, power=power)
            assert near.delta(epsilon, sensitivity) == pytest.approx(delta, rel=1e-9, abs=2e-15)
            n = np.arange(1.0, near.support[1] + 1)
            least = (near.sf(n - 1) - delta) * math.exp(-epsilon)
            assert near.sf(n + sensitivity - 1) == pytest.approx(np.maximum(least, 0), rel=1e-6, abs=1e-14)


@pytest.mark.parametrize("delta", [1e-9, 1e-13])
def test_a_small_delta_costs_hardly_more_than_none(delta: float) -> None:
    best = IntegerNoise.optimal(0.8, delta, 3)
    assert best.delta(0.8, 3) <= delta + 2e-15
    assert 1 - 1e-6 < best.abs_moment(1) / IntegerNoise.optimal(0.8, 1e-15, 3).abs_moment(1) <= 1 + 1e-12


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity"), [(1.0, 1e-4, 1), (0.3, 0.05, 1), (1.6, 1e-12, 1), (1.1, 0.02, 4)]
)
def test_the_certificate_of_the_integers_keeps_both(epsilon: float, delta: float, sensitivity: int) -> None:
    grid = GridNoise.for_integers(epsilon, delta, sensitivity)
    certificate = grid.certificate(epsilon, sensitivity)
    assert 0.99 * delta <= certificate.delta / UNIT <= delta
    best = IntegerNoise.optimal(epsilon, delta, sensitivity)
    assert grid.var() == pytest.approx(best.var(), rel=1e-4)


def test_it_beats_what_was_there_before() -> None:
    """A rounded truncated Laplace has 0.9585, and the geometric, which is pure, 0.8509."""
    best = GridNoise.for_integers(1.0, 1e-4)
    size = float(abs(best.values) @ np.ldexp(best.weights.astype(float), -64))
    rounded = GridNoise.from_noise(TruncatedLaplace(1.0, 1e-4))
    assert size == pytest.approx(0.849865, abs=2e-6)
    assert size < Geometric(1.0).abs_moment(1) < 0.8510
    assert 0.95 < float(abs(rounded.values) @ np.ldexp(rounded.weights.astype(float), -64)) < 0.96


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: IntegerNoise.optimal(1.0, 0.0), "delta must be"),
        (lambda: IntegerNoise.optimal(1.0, 1.0), "delta must be"),
        (lambda: IntegerNoise.optimal(0.0, 0.1), "epsilon must be"),
        (lambda: IntegerNoise.optimal(1.0, 0.1, 0), "sensitivity must be"),
        (lambda: IntegerNoise.optimal(0.01, 1e-6, 1000), "sensitivity must be smaller"),
        (lambda: IntegerNoise.optimal(1.0, 0.1, power=2.0, loss=abs), "either power or loss"),
        (lambda: IntegerNoise((0.5, 0.5)), "masses must sum to 1 with both signs"),
        (lambda: IntegerNoise((1.0,)), "masses must be at least two"),
        (lambda: GridNoise.for_integers(1.0, 1e-18), "delta must be at least"),
    ],
)
def test_what_is_wrong_is_named(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        make()
