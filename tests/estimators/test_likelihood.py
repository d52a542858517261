"""The certified maximum, with one functional held: feasible, the best, and finite where floats end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from arcwise.domains import Interval
from arcwise.mechanisms import OptimalPiecewise
from arcwise.server.estimators.likelihood import Likelihood, maximize
from surveys import drawn_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray: TypeAlias = NDArray[np.float64]


@pytest.mark.parametrize("value", [1e-17, 1e-9, 1.0 - 2.0**-53, 1.0 - 1e-9])
@pytest.mark.parametrize("n", [1, 2**53])
def test_a_value_next_to_the_end_of_the_range_gives_a_number_and_no_warning(value: float, n: int) -> None:
    # Two of the codes have no probability at one of the nodes, as of mechanisms with a delta.
    rows = np.array([[0.5, 0.5, 0.0], [0.2, 0.5, 0.3], [0.0, 0.5, 0.5]])
    for counts in np.eye(3) * n:
        for functional in (np.array([1.0, 0.4, 0.0]), np.array([0.0, 1.0, 1.0])):
            found = Likelihood(rows, counts).maximize(functional=functional, value=value)
            assert math.isfinite(found.log_likelihood)
            assert not math.isnan(found.gap)
            assert found.probabilities.min() >= 0.0
            np.testing.assert_allclose(found.probabilities.sum(), 1.0, rtol=1e-12)
            np.testing.assert_allclose(functional @ found.probabilities, value, rtol=1e-9, atol=2e-14)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32),
    epsilon=st.floats(0.1, 8.0),
    n=st.sampled_from([3, 100, 10_000, 10**7]),
    unit=st.floats(0.05, 0.95),
    tau=st.floats(0.05, 0.95),
)
def test_the_constrained_maximum_is_feasible_and_certified(
    seed: int, epsilon: float, n: int, unit: float, tau: float
) -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), epsilon, nodes=20)
    truth = np.random.default_rng(seed).dirichlet(np.ones(20) / 4)
    rows, counts = mechanism.kernel.matrix(), drawn_counts(mechanism, truth, n, seed)
    best = maximize(rows, counts, gap=0.005)
    below = np.clip(unit * 19 - np.arange(20) + 0.5, 0.0, 1.0)  # about the share below
    held = maximize(rows, counts, functional=below, value=tau, gap=0.005)
    assert held.probabilities.min() > 0
    assert held.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    assert below @ held.probabilities == pytest.approx(tau, abs=1e-12)
    assert held.log_likelihood == pytest.approx(float(counts @ np.log(held.probabilities @ rows)), rel=1e-12)
    assert held.gap <= 0.005
    assert held.log_likelihood <= best.log_likelihood + best.gap
    # No feasible distribution is better by more than the gap: try the mixture with any other feasible one.
    other = np.random.default_rng(seed + 1).dirichlet(np.ones(20))
    low = below @ other > tau
    corner = np.eye(20)[0 if not low else -1]
    share = (tau - below @ other) / (below @ corner - below @ other)
    other = (1 - share) * other + share * corner
    for weight in (1e-4, 1e-2, 1.0):
        mixed = (1 - weight) * held.probabilities + weight * other
        assert counts @ np.log(mixed @ rows) <= held.log_likelihood + held.gap + 1e-9 * n


def test_the_constrained_maximum_agrees_with_a_general_optimiser() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 2.0, nodes=6)
    truth = np.array([0.1, 0.3, 0.2, 0.1, 0.2, 0.1])
    rows, counts = mechanism.kernel.matrix(), drawn_counts(mechanism, truth, 500, 4)
    below, tau = np.array([1.0, 1.0, 0.5, 0.0, 0.0, 0.0]), 0.6

    def loss(f: FloatArray) -> float:
        return -float(counts @ np.log(f @ rows))

    def slope(f: FloatArray) -> FloatArray:
        return -rows @ (counts / (f @ rows))

    options: dict[str, Any] = {
        "jac": slope,
        "bounds": [(0, 1)] * 6,
        "constraints": [
            {"type": "eq", "fun": lambda f: f.sum() - 1},
            {"type": "eq", "fun": lambda f: below @ f - tau},
        ],
        "method": "SLSQP",
        "options": {"ftol": 1e-12, "maxiter": 500},
    }
    general = minimize(loss, np.full(6, 1 / 6), **options)
    ours = maximize(rows, counts, functional=below, value=tau, gap=1e-6)
    assert ours.log_likelihood == pytest.approx(-float(general.fun), abs=1e-4)
