"""The certified maximum of the likelihood: a distribution, the best, and finite where floats end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from arcwise.analysis.likelihood.likelihood import Likelihood
from arcwise.domains import Interval
from arcwise.mechanisms import OptimalPiecewise
from tests.support.surveys import drawn_counts

if TYPE_CHECKING:
    from arcwise.typing import FloatArray


@pytest.mark.parametrize("n", [1, 2**53])
def test_reports_of_a_single_code_give_a_number_and_no_warning(n: int) -> None:
    # Two of the codes have no probability at one of the nodes, as of mechanisms with a delta.
    rows = np.array([[0.5, 0.5, 0.0], [0.2, 0.5, 0.3], [0.0, 0.5, 0.5]])
    for counts in np.eye(3) * n:
        found = Likelihood(rows, counts).maximize()
        assert math.isfinite(found.log_likelihood)
        assert not math.isnan(found.gap)
        assert found.probabilities.min() >= 0.0
        np.testing.assert_allclose(found.probabilities.sum(), 1.0, rtol=1e-12)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), epsilon=st.floats(0.1, 8.0), n=st.sampled_from([3, 100, 10_000, 10**7]))
def test_the_maximum_is_a_distribution_and_certified(seed: int, epsilon: float, n: int) -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), epsilon, nodes=20)
    truth = np.random.default_rng(seed).dirichlet(np.ones(20) / 4)
    rows, counts = mechanism.kernel.matrix(), drawn_counts(mechanism, truth, n, seed)
    best = Likelihood(rows, counts).maximize(gap=0.005)
    assert best.probabilities.min() > 0
    assert best.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    assert best.log_likelihood == pytest.approx(float(counts @ np.log(best.probabilities @ rows)), rel=1e-12)
    assert best.gap <= 0.005
    # No distribution is better by more than the gap: try the mixture with any other one.
    other = np.random.default_rng(seed + 1).dirichlet(np.ones(20))
    for weight in (1e-4, 1e-2, 1.0):
        mixed = (1 - weight) * best.probabilities + weight * other
        assert counts @ np.log(mixed @ rows) <= best.log_likelihood + best.gap + 1e-9 * n


def test_the_maximum_agrees_with_a_general_optimiser() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 2.0, nodes=6)
    truth = np.array([0.1, 0.3, 0.2, 0.1, 0.2, 0.1])
    rows, counts = mechanism.kernel.matrix(), drawn_counts(mechanism, truth, 500, 4)

    def loss(f: FloatArray) -> float:
        return -float(counts @ np.log(f @ rows))

    def slope(f: FloatArray) -> FloatArray:
        return -rows @ (counts / (f @ rows))

    options: dict[str, Any] = {
        "jac": slope,
        "bounds": [(0, 1)] * 6,
        "constraints": [{"type": "eq", "fun": lambda f: f.sum() - 1}],
        "method": "SLSQP",
        "options": {"ftol": 1e-12, "maxiter": 500},
    }
    general = minimize(loss, np.full(6, 1 / 6), **options)
    ours = Likelihood(rows, counts).maximize(gap=1e-6)
    assert ours.log_likelihood == pytest.approx(-float(general.fun), abs=1e-4)


# Of a survey of 1,000 reports at epsilon 8, nearly all of one value: a draw of the fit, and its face.
_FACE = (
    "0 6 9 12 18 21 24 78 79 80 94 123 124 125 136 137 141 147 150 162 168 169 170 171 177 180 186 "
    "189 195 205 206 207 211 212 213 214 219 223 224 225 226 231 234 241 249 250"
)
_ONCE = (
    "23 27 41 43 59 65 81 82 85 90 92 98 100 112 125 126 127 136 143 150 152 168 170 178 180 181 183 "
    "184 196 208 209 215 220 222 225 229 231 238 249 251"
)
_OFTEN = {0: 184, 1: 198, 2: 189, 3: 167, 4: 205, 137: 3}
_TWICE = [94, 95, 138, 140, 145, 182, 197]


def test_steps_that_are_short_do_not_go_round_in_circles() -> None:
    # With a correction of second order the steps came back to where they had been, 135 nats below.
    kernel = OptimalPiecewise(Interval(0, 1), 8.0, nodes=251).kernel
    counts = np.zeros(kernel.codes)
    counts[np.array(_ONCE.split(), dtype=int)] = 1.0
    counts[_TWICE] = 2.0
    counts[list(_OFTEN)] = list(_OFTEN.values())
    rows = kernel.probabilities(np.array(_FACE.split(), dtype=int))
    best = Likelihood(rows, counts).maximize(gap=1e-3)
    assert best.gap <= 1e-3
    assert best.steps < 30
