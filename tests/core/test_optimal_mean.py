"""E[y|x] of the optimal piecewise mechanism: against an integral and against the integer kernel."""

from __future__ import annotations

import pytest
from scipy.integrate import quad

from arcwise.domains import Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms import OptimalPiecewise
from arcwise.mechanisms.closed_forms.optimal import interval_mean, optimal_levels


@pytest.mark.parametrize("power", [1.0, 1.7, 3.0])
@pytest.mark.parametrize("epsilon", [0.03, 0.71, 3.9, 11.0])
def test_against_an_integral(epsilon: float, power: float) -> None:
    p, q, c = optimal_levels(epsilon, power)
    for x in (0.0, 0.013, 0.31, 0.5, 0.77, 1.0):
        start = min(max(x - c, 0.0), 1.0 - 2.0 * c)
        edges = [0.0, start, start + 2.0 * c, 1.0]
        pieces = [quad(lambda y: y, *edges[k : k + 2])[0] for k in range(3)]
        expected = q * pieces[0] + p * pieces[1] + q * pieces[2]
        assert interval_mean(x, epsilon, power) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("epsilon", [0.4, 2.3])
def test_the_kernel_comes_close(epsilon: float) -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), epsilon, placement="clamp", nodes=600)
    for x in (0.0, 0.2, 0.43, 0.9):
        assert mechanism.mean(x) == pytest.approx(interval_mean(x, epsilon), abs=3e-3)


def test_default_power_and_bounds() -> None:
    c = optimal_levels(2.0).half_window
    assert interval_mean(0.0, 2.0) == interval_mean(c, 2.0) < interval_mean(c + 1e-6, 2.0)
    assert interval_mean(0.5, 2.0) == 0.5
    with pytest.raises(ParameterError, match="x must"):
        interval_mean(1.2, 1.0)
