"""The parameters that are called optimal beat all others, and have the published closed forms and limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.noise import (
    BoxStaircase,
    DiscreteStaircase,
    Geometric,
    Laplace,
    Staircase,
    UniformAtom,
    heuristic_gamma,
    interval_gamma,
    optimal_alpha,
    optimal_gamma,
    optimal_r,
)
from arcwise.noise.series import lerch_sum
from tests.noise.families import epsilons, sensitivities

powers = st.floats(0.05, 12)


@given(epsilons, powers, sensitivities)
def test_gamma_beats_all_others(epsilon: float, power: float, sensitivity: float) -> None:
    best = Staircase.optimal(epsilon, sensitivity, power=power)
    assert 0 < best.gamma < 1
    cost = best.abs_moment(power)
    for gamma in (*np.linspace(0, 1, 21), best.gamma * 0.99, best.gamma * 1.01):
        assert Staircase(epsilon, sensitivity, min(gamma, 1)).abs_moment(power) >= cost * (1 - 1e-13)
    assert cost <= Laplace(epsilon, sensitivity).abs_moment(power)
    if epsilon > 0.5:  # strictly: not a flat function
        assert Staircase(epsilon, sensitivity, best.gamma * 0.5).abs_moment(power) > cost * (1 + 1e-9)


@given(epsilons, st.sampled_from([1.0, 2.0]))
def test_closed_forms_of_gamma_are_the_root(epsilon: float, power: float) -> None:
    """The general search next to the power agrees with the closed forms of powers 1 and 2."""
    nearby = (optimal_gamma(epsilon, power * (1 - 1e-7)) + optimal_gamma(epsilon, power * (1 + 1e-7))) / 2
    assert nearby == pytest.approx(optimal_gamma(epsilon, power), rel=1e-9, abs=1e-9)


@given(epsilons)
def test_published_costs(epsilon: float) -> None:
    """Geng and Viswanath, Theorems 4 and 6."""
    b = math.exp(-epsilon)
    assert Staircase.optimal(epsilon).abs_moment(1) == pytest.approx(
        math.exp(epsilon / 2) / math.expm1(epsilon), rel=1e-12
    )
    # Their Theorem 6, with its terms as printed, loses digits as epsilon goes to 0.
    least = (2 ** (-2 / 3) * b ** (2 / 3) * (1 + b) ** (2 / 3) + b) / (1 - b) ** 2
    assert Staircase.optimal(epsilon, power=2).var() == pytest.approx(least, rel=1e-9)
    printed = -b / (1 - b) + (b - 2 * b**2 + 2 * b**4 - b**5) ** (1 / 3) / (2 ** (1 / 3) * (1 - b) ** 2)
    assert optimal_gamma(epsilon, 2) == pytest.approx(printed, abs=1e-7)


@pytest.mark.parametrize("power", [0.5, 1, 2, 3, 5])
def test_limits_of_gamma(power: float) -> None:
    """Geng and Viswanath, Theorem 8: 1/2 as epsilon goes to 0, and 0 as it grows."""
    assert optimal_gamma(1e-4, power) == pytest.approx(0.5, abs=1e-3)
    assert optimal_gamma(50.0, power) < 1e-3
    assert heuristic_gamma(1e-9) == pytest.approx(0.5)
    noise = Staircase.heuristic(30.0)
    assert 1 - 2 * noise.sf(noise.half_step) == pytest.approx(1 / 3, rel=1e-9)


@given(epsilons, st.floats(0.01, 0.999), sensitivities)
def test_the_shortest_interval_is_shortest(epsilon: float, level: float, sensitivity: float) -> None:
    best = Staircase.shortest_interval(epsilon, sensitivity, level=level)
    width = best.half_width(level)
    assert 1 - 2 * best.sf(width) == pytest.approx(level, rel=1e-10)
    for gamma in np.linspace(0, 1, 41):
        assert Staircase(epsilon, sensitivity, gamma).half_width(level) >= width * (1 - 1e-12)
    assert best.gamma == interval_gamma(epsilon, level)


@given(epsilons, st.integers(1, 40), powers)
def test_r_beats_all_others(epsilon: float, sensitivity: int, power: float) -> None:
    costs = [DiscreteStaircase(epsilon, sensitivity, r).abs_moment(power) for r in range(1, sensitivity + 1)]
    r = optimal_r(epsilon, sensitivity, power)
    assert costs[r - 1] <= min(costs) * (1 + 1e-13)
    assert costs[r - 1] <= Geometric(epsilon, sensitivity).abs_moment(power) * (1 + 1e-13)


@given(epsilons)
def test_sensitivity_one_is_geometric(epsilon: float) -> None:
    staircase, geometric = DiscreteStaircase.optimal(epsilon), Geometric(epsilon)
    n = np.arange(-20, 21)
    np.testing.assert_allclose(staircase.pmf(n), geometric.pmf(n), rtol=1e-12)
    assert geometric.abs_moment(1) == pytest.approx(1 / math.sinh(epsilon), rel=1e-12)
    assert geometric.var() == pytest.approx(0.5 / math.sinh(epsilon / 2) ** 2, rel=1e-12)


def test_r_over_the_sensitivity_tends_to_gamma() -> None:
    for power in (1, 2, 0.5):
        assert optimal_r(1.0, 2**16, power) / 2**16 == pytest.approx(optimal_gamma(1.0, power), abs=1e-4)


@given(st.floats(1e-3, 0.999), powers, sensitivities)
def test_alpha_beats_all_others(delta: float, power: float, sensitivity: float) -> None:
    best = UniformAtom.optimal(delta, sensitivity, power=power)
    cost = best.abs_moment(power)
    for share in np.linspace(0, 0.999, 30):
        assert UniformAtom(delta, sensitivity, share * delta).abs_moment(power) >= cost * (1 - 1e-12)
    # Theorem 3.
    if delta <= power / (power + 1):
        printed = sensitivity**power / (2**power * (power + 1) * delta**power)
    else:
        printed = (power + 1) ** power / (2 * power) ** power * (1 - delta) * sensitivity**power
    assert cost == pytest.approx(printed, rel=1e-11)
    assert best.alpha == optimal_alpha(delta, power)


@pytest.mark.slow
@given(epsilons, st.integers(1, 5), st.floats(0.5, 4))
def test_the_core_of_boxes_beats_all_others(epsilon: float, dimension: int, power: float) -> None:
    lengths = tuple(float(n) for n in range(1, dimension + 1))
    best = BoxStaircase.optimal(epsilon, lengths, power=power)
    costs = [best.component(j).abs_moment(power) / lengths[j] ** power for j in range(dimension)]
    assert max(costs) == pytest.approx(min(costs), rel=1e-9)
    for gamma in np.linspace(0, 1, 41):
        other = BoxStaircase.proportional(epsilon, lengths, gamma).component(0).abs_moment(power)
        assert other >= costs[0] * (1 - 1e-10)


@given(st.floats(0.002, 30), st.floats(0, 20), st.floats(0, 2))
def test_the_series_is_its_sum(rate: float, power: float, offset: float) -> None:
    k = np.arange(np.ceil((120 + 10 * power) / rate) + 10)
    expected = math.fsum(np.exp(-rate * k) * (k + offset) ** power)
    assert float(lerch_sum(rate, power, offset)) == pytest.approx(expected, rel=1e-13)
