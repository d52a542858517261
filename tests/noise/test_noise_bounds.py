"""The lower bounds for (epsilon, delta) noise: below existing noise, and below linear programs' optima."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.errors import ParameterError
from arcwise.noise import AnalyticGaussian, TruncatedLaplace, approximate_lower_bound
from tests.noise.families import epsilons, least_loss, sensitivities


@given(epsilons, st.floats(1e-12, 0.5), sensitivities, st.floats(0.1, 6))
def test_no_known_noise_is_below(epsilon: float, delta: float, sensitivity: float, power: float) -> None:
    bound = approximate_lower_bound(epsilon, delta, sensitivity, power=power)
    assert bound >= 0
    truncated = TruncatedLaplace(epsilon, delta, sensitivity)
    assert bound == truncated.lower_bound(power)
    assert bound <= truncated.abs_moment(power)
    assert bound <= AnalyticGaussian(epsilon, delta, sensitivity).abs_moment(power)


@given(st.floats(0.05, 5), st.integers(2, 30))
def test_published_form_where_n_is_an_integer(epsilon: float, n: int) -> None:
    """Theorems 4 and 5, with delta chosen so that ``a (1 + b + ... + b^(n-1)) = 1/2``."""
    b = math.exp(-epsilon)
    a = 0.5 * (1 - b) / (1 - b**n)
    delta = (a - (1 - b) / 2) / b
    if not 1e-9 < delta <= 0.5:
        return
    k = np.arange(n)
    first, second = 2 * a * (b**k * k).sum(), 2 * a * (b**k * k**2).sum()
    assert approximate_lower_bound(epsilon, delta) == pytest.approx(first, rel=1e-9)
    assert approximate_lower_bound(epsilon, delta, power=2) == pytest.approx(second, rel=1e-9)
    printed = 2 * a * ((b - b**n) / (1 - b) ** 2 - (n - 1) * b**n / (1 - b))
    assert first == pytest.approx(printed, rel=1e-9)
    inner = 2 * (b * (1 - b ** (n - 1)) / (1 - b) ** 2 - (n - 1) * b**n / (1 - b))
    inner += -b - b**2 * (1 - b ** (n - 2)) / (1 - b) - (n - 1) ** 2 * b**n
    assert second == pytest.approx(2 * a / (1 - b) * inner, rel=1e-6)


@pytest.mark.parametrize("power", [0.5, 1, 2])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.4, 0.1), (1.0, 0.05), (1.0, 0.4), (3.0, 0.01)])
def test_no_noise_on_a_lattice_is_below(epsilon: float, delta: float, power: float) -> None:
    """The cheapest noise on thirds of the sensitivity, from a linear program over all such noise."""
    fine, reach = 3, 30
    least = least_loss(epsilon, delta, fine, (np.abs(np.arange(-reach, reach + 1)) / fine) ** power)
    bound = approximate_lower_bound(epsilon, delta, power=power)
    assert bound <= least * (1 + 1e-6)
    assert bound > 0 or delta == 0.5


@given(epsilons, st.floats(1e-9, 0.499))
def test_the_bound_is_continuous(epsilon: float, delta: float) -> None:
    """A change of delta's last digit does not change the bound, also where n passes an integer."""
    near = approximate_lower_bound(epsilon, delta * (1 + 1e-12))
    assert near == pytest.approx(approximate_lower_bound(epsilon, delta), rel=1e-8, abs=1e-12)
    wider = approximate_lower_bound(epsilon, delta * 1.001)
    assert wider <= approximate_lower_bound(epsilon, delta)


def test_half_a_delta_needs_no_noise() -> None:
    assert approximate_lower_bound(1.0, 0.5) == 0


def test_too_many_terms_are_refused() -> None:
    with pytest.raises(ParameterError, match="more than 268435456 terms, got 1e-10 and 1e-12"):
        approximate_lower_bound(1e-10, 1e-12)
