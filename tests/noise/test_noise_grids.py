"""Noise for privacy: sums, certificates and draws of integer weights, all exact."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.errors import ParameterError
from arcwise.kernels.certificate import UNIT, exp_lower_bound
from arcwise.noise import (
    AnalyticGaussian,
    BoxStaircase,
    DiscreteStaircase,
    Geometric,
    GridNoise,
    Laplace,
    Noise,
    Staircase,
    TruncatedLaplace,
    UniformAtom,
)
from arcwise.noise.grid import largest_delta
from arcwise.randomness import InsecureSeededRandomness
from tests.support.fixed_draw import FixedDraw

if TYPE_CHECKING:
    from collections.abc import Callable

SLACK = 1 - 1e-9

CASES: tuple[tuple[Noise, float, float, int, float], ...] = (
    # noise, step, epsilon, sensitivity in steps, the delta that theory allows
    (Laplace(SLACK), 0.1, 1.0, 10, 0.0),
    (Staircase.optimal(SLACK), 0.05, 1.0, 20, 0.0),
    (Staircase.optimal(5 * SLACK, 2.0, power=2), 0.25, 5.0, 8, 0.0),
    (Geometric(0.5 * SLACK), 1.0, 0.5, 1, 0.0),
    (Geometric(20 * SLACK, 3), 0.1, 20.0, 3, 0.0),
    (DiscreteStaircase.optimal(2 * SLACK, 7), 1.0, 2.0, 7, 0.0),
    (TruncatedLaplace(SLACK, 1e-3 * SLACK), 0.125, 1.0, 8, 1e-3),
    (UniformAtom.optimal(0.75 * SLACK), 0.05, 0.0, 20, 0.75),
    (AnalyticGaussian(SLACK, 1e-6 * SLACK), 0.25, 1.0, 4, 1e-6),
    (BoxStaircase(SLACK, (1.0, 2.0), (0.5, 1.0)).component(0), 0.5, 1.0, 2, 0.0),
)
weights = st.lists(st.integers(0, 2**62), min_size=1, max_size=12).map(
    lambda part: [*part, UNIT - sum(part)] if 0 < UNIT - sum(part) < UNIT else [UNIT // 2, UNIT // 2]
)


@pytest.mark.parametrize(("noise", "step", "epsilon", "sensitivity", "delta"), CASES)
def test_certificates_of_grids(
    noise: Noise, step: float, epsilon: float, sensitivity: int, delta: float
) -> None:
    grid = GridNoise.from_noise(noise, step=step)
    assert sum(grid.weights.tolist()) == UNIT
    assert (grid.weights == grid.weights[::-1]).all()
    assert grid.first == -(grid.weights.size // 2)
    certificate = grid.certificate(epsilon, sensitivity)
    assert certificate.epsilon == epsilon
    assert certificate.ratio is None
    # A finite table is never pure. Beyond theory there is only the rounding of weights to integers, half a
    # unit of each weight and of e^epsilon times the shifted one.
    assert 0 < certificate.delta <= delta * UNIT + (math.exp(epsilon) + 1) / 2 * (grid.weights.size + 1)
    if delta:
        assert certificate.delta > 0.9 * delta * UNIT
    assert grid.certificate(epsilon, sensitivity + 1).delta > certificate.delta
    # A smaller epsilon is not proved with so small a delta, if the weights fall by e^epsilon at all.
    if epsilon:
        assert grid.certificate(epsilon * 0.99, sensitivity).delta > certificate.delta


@pytest.mark.parametrize(("noise", "step", "epsilon", "sensitivity", "delta"), CASES)
def test_weights_are_the_masses_of_cells(
    noise: Any, step: float, epsilon: float, sensitivity: int, delta: float
) -> None:
    grid = GridNoise.from_noise(noise, step=step)
    k = np.arange(grid.first, -grid.first + 1)
    if isinstance(noise, (Geometric, DiscreteStaircase)):
        masses = noise.pmf(k)
    else:
        masses = noise.cdf((k + 0.5) * step) - noise.cdf((k - 0.5) * step)
    np.testing.assert_allclose(grid.weights / UNIT, masses, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(grid.values, k * step)
    if isinstance(noise, (Geometric, DiscreteStaircase)):
        assert grid.var() == pytest.approx(noise.var() * step**2, rel=1e-12)


def exact_delta(weights: list[int], epsilon: float, reach: int) -> int:
    """Return the delta by its definition, in rational arithmetic term by term."""
    bound, worst = exp_lower_bound(epsilon), Fraction(0)
    for shift in (*range(-reach, 0), *range(1, reach + 1)):
        total = Fraction(0)
        for k, weight in enumerate(weights):
            other = weights[k + shift] if 0 <= k + shift < len(weights) else 0
            total += max(Fraction(0), weight - bound * other)
        worst = max(worst, total)
    return math.ceil(worst)


@given(weights, st.floats(0, 20), st.integers(1, 14))
def test_delta_is_its_definition(table: list[int], epsilon: float, reach: int) -> None:
    computed = largest_delta(np.array(table, dtype=np.uint64), epsilon, reach)
    assert computed == exact_delta(table, epsilon, reach)


@given(weights, st.integers(-100, 100), st.integers(0, UNIT - 1))
def test_a_draw_is_in_its_stretch(table: list[int], first: int, u: int) -> None:
    grid = GridNoise(table, first=first, step=0.5)
    k = grid.draw(randomness=FixedDraw(12345, u)) - first
    assert sum(table[:k]) <= u < sum(table[: k + 1])
    assert grid.draw_many(3, randomness=FixedDraw(0, u)).tolist() == [k + first] * 3


@pytest.mark.parametrize("weight", [1, 2**63, UNIT - 1])
def test_the_ends_of_a_stretch(weight: int) -> None:
    grid = GridNoise([0, weight, 0, UNIT - weight, 0], first=0)
    draws = (0, weight - 1, weight, UNIT - 1)
    assert [grid.draw(randomness=FixedDraw(0, u)) for u in draws] == [1, 1, 3, 3]


@pytest.mark.parametrize("step", [1.0, 0.01, 0.002])  # the last has more than 2**16 weights
def test_scalar_and_vector_draws_are_the_same(step: float) -> None:
    grid = GridNoise.from_noise(Staircase.optimal(0.5), step=step)
    assert (grid.weights.size > 2**16) == (step == 0.002)
    many = grid.draw_many(5000, randomness=InsecureSeededRandomness(8))
    one = InsecureSeededRandomness(8)
    assert many.tolist() == [grid.draw(randomness=one) for _ in range(5000)]
    assert type(grid.draw()) is int
    assert many.dtype == np.int64
    assert grid.draw_many(0).size == 0
    # Twelve standard deviations of the sample variance.
    noise = grid.draw_many(200_000, randomness=InsecureSeededRandomness(9)) * grid.step
    assert abs(noise.var() / grid.var() - 1) < 12 * math.sqrt(5 / noise.size)


def test_grids_are_values() -> None:
    grid = GridNoise.from_noise(Geometric(1.0))
    same = GridNoise(grid.weights.tolist(), first=grid.first)
    assert same == grid
    assert hash(same) == hash(grid)
    assert GridNoise(grid.weights.tolist(), first=0) != grid
    assert GridNoise.from_noise(Geometric(1.0), step=2.0) != grid
    assert grid != 3
    words = f"{grid.weights.size} weights, k from {grid.first} to {-grid.first}, step=1.0"
    assert repr(grid) == f"GridNoise({words})"
    with pytest.raises(ValueError, match="read-only"):
        grid.weights[0] = 1


def test_a_large_grid_is_certified_in_moderate_time() -> None:
    grid = GridNoise.from_noise(Staircase.optimal(0.1 * SLACK), step=0.01)
    assert 70_000 < grid.weights.size < 100_000
    assert grid.certificate(0.1, 100).delta < 2**24
    assert grid.certificate(0.1, 10**9).delta == UNIT


EVEN = GridNoise([UNIT // 2, UNIT // 2], first=0)
BAD: tuple[tuple[Callable[[Any], object], Any, str], ...] = (
    *(
        (partial(GridNoise, first=0), table, message)
        for table, message in (
            ([UNIT // 2, UNIT // 2 - 1], f"weights must sum to .* got {UNIT - 1}"),
            ([UNIT - 1, UNIT - 1, 2], f"weights must sum to .* got {2 * UNIT}"),
            ([0, 0], "weights must sum to .* got 0"),
            ([UNIT], "weights must be 2 to 4194304 integers, got 1"),
            ([UNIT, 0], r"weights\[0\] must be an integer from 0 to"),
            ([0.5, 0.5], r"weights\[0\] must be an integer from 0 to 18446744073709551615, got 0\.5"),
            ([-1, UNIT // 2], r"weights\[0\] must be an integer from 0"),
        )
    ),
    (
        partial(GridNoise.from_noise, step=1e-6),
        Laplace(1.0),
        "step must be large enough for at most 4194304 grid points",
    ),
    (
        partial(GridNoise.from_noise, step=100.0),
        UniformAtom(0.5, 1.0, 0.0),
        "step must be small enough for noise other than 0",
    ),
    (partial(GridNoise.from_noise, step=0), Laplace(1.0), "step must be|sensitivity must be positive"),
    (GridNoise.from_noise, 3, "noise must be a distribution"),
    (partial(EVEN.certificate, 1.0), 0, "sensitivity must be an integer of at least 1, got 0"),
    # The series of e^1e9 would not end.
    *(
        (partial(EVEN.certificate, sensitivity=1), epsilon, "epsilon must be")
        for epsilon in (1e9, math.inf, math.nan, -1.0, "1")
    ),
)


@pytest.mark.parametrize(("call", "bad", "message"), BAD)
def test_what_is_refused(call: Callable[[Any], object], bad: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call(bad)
