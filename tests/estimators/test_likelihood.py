"""The certified maximum of the likelihood, and the information matrix of window kernels that it uses."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from arcwise.analysis.likelihood.information import (
    dense_information,
    whole_window_information,
    window_information,
)
from arcwise.analysis.likelihood.maximum import Likelihood
from arcwise.domains import Circle, Interval
from arcwise.kernels.window import WindowKernel
from arcwise.mechanisms import Mechanism, OptimalCircular, OptimalPiecewise
from arcwise.typing import FloatArray
from tests.support.known import there
from tests.support.surveys import drawn_counts


@pytest.mark.parametrize("n", [1, 2**53])
def test_reports_of_a_single_code_give_a_number_and_no_warning(n: int) -> None:
    # Two of the codes have no probability at one of the nodes, as in mechanisms with a delta.
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


# From a survey of 1,000 reports at epsilon 8, nearly all of one value: a draw of the fit, and its face.
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
    # With a second-order correction, the steps returned to an earlier point, 135 nats below.
    kernel = OptimalPiecewise(Interval(0, 1), 8.0, nodes=251).kernel
    counts = np.zeros(kernel.codes)
    counts[np.array(_ONCE.split(), dtype=int)] = 1.0
    counts[_TWICE] = 2.0
    counts[list(_OFTEN)] = list(_OFTEN.values())
    rows = kernel.probabilities(np.array(_FACE.split(), dtype=int))
    best = Likelihood(rows, counts).maximize(gap=1e-3)
    assert best.gap <= 1e-3
    assert best.steps < 30


def _window(circular: bool, nodes: int, epsilon: float) -> WindowKernel:
    mechanism: Mechanism = (
        OptimalCircular(Circle(360), epsilon, nodes=nodes)
        if circular
        else OptimalPiecewise(Interval(0, 1), epsilon, nodes=nodes)
    )
    assert isinstance(mechanism.kernel, WindowKernel)
    return mechanism.kernel


@settings(max_examples=60)
@given(
    circular=st.booleans(),
    nodes=st.integers(4, 60),
    epsilon=st.floats(0.1, 12.0),
    start=st.integers(0, 59),
    kept=st.sampled_from([0.3, 0.7, 1.0]),
    seed=st.integers(0, 2**32),
)
def test_prefix_sums_give_the_product(
    circular: bool, nodes: int, epsilon: float, start: int, kept: float, seed: int
) -> None:
    kernel = _window(circular, nodes, epsilon)
    generator = np.random.default_rng(seed)
    taken = np.arange(kernel.nodes)
    if circular:
        taken = (taken + start) % kernel.nodes
    taken = taken[generator.random(len(taken)) < kept]
    seen = generator.random(kernel.codes) < kept
    if not len(taken) or not seen.any():
        return
    s, more = generator.random(int(seen.sum())), 0.5 + generator.random(len(taken))
    rows = kernel.probabilities(taken)[:, seen]
    product = rows * s @ rows.T + np.diag(more)
    x = generator.normal(size=len(taken))
    for factored in map(
        there, (window_information(kernel, taken, seen)(s, more), dense_information(rows)(s, more))
    ):
        solve, tilt, level = factored
        # With the matrix itself: the part that A lacks acts on x by two products.
        rest = tilt * x.sum() + tilt @ x + level * x.sum()
        np.testing.assert_allclose(solve(product @ x - rest), x, rtol=0, atol=1e-9)


@settings(max_examples=60)
@given(
    circular=st.booleans(),
    nodes=st.integers(40, 90),
    epsilon=st.floats(5.0, 12.0),
    start=st.integers(0, 59),
    seed=st.integers(0, 2**32),
)
def test_all_nodes_have_the_product_up_to_a_constant(
    circular: bool, nodes: int, epsilon: float, start: int, seed: int
) -> None:
    kernel = _window(circular, nodes, epsilon)
    generator = np.random.default_rng(seed)
    order = np.roll(np.arange(nodes), start * circular)
    weights = 10.0 ** generator.uniform(-6, 6, kernel.codes)
    rows = kernel.probabilities(order)
    whole = rows * weights @ rows.T
    information = whole_window_information(kernel, order, weights)
    change = generator.normal(size=nodes)
    change -= change.mean()
    missing = whole @ change - information.times(change)
    scale = np.abs(whole @ np.diag(change)).sum(axis=1).max()
    assert np.ptp(missing) <= 1e-12 * scale
    more = np.exp(generator.normal(size=nodes)) * np.diag(whole)
    solve = there(information.solver(more))
    sides = np.array([change, np.ones(nodes)])
    for side, found in zip(sides, solve(sides), strict=True):
        np.testing.assert_allclose(information.times(found) + more * found, side, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(solve(side), found, rtol=1e-12)
    assert information.solver(-2.0 * more) is None


@pytest.mark.parametrize(("circular", "epsilon"), [(False, 0.5), (False, 8.0), (True, 0.5), (True, 8.0)])
def test_a_matrix_that_is_not_positive_definite_has_no_factors(circular: bool, epsilon: float) -> None:
    kernel = _window(circular, 64, epsilon)
    seen, less = np.ones(kernel.codes, dtype=bool), np.full(64, -1e3)
    rows = kernel.probabilities(np.arange(64))
    for information in (window_information(kernel, np.arange(64), seen), dense_information(rows)):
        assert information(np.ones(kernel.codes), less) is None
        assert information(np.ones(kernel.codes), -less) is not None


@pytest.mark.parametrize(("circular", "epsilon"), [(False, 0.5), (False, 4.0), (True, 4.0), (True, 9.0)])
def test_a_maximum_is_the_same_with_either(circular: bool, epsilon: float) -> None:
    kernel = _window(circular, 48, epsilon)
    rows, nodes = kernel.matrix(), np.arange(48)
    counts = np.random.default_rng(2).multinomial(5000, rows.mean(axis=0)).astype(float)
    dense = Likelihood(rows, counts)
    window = Likelihood(rows, counts, information=lambda seen: window_information(kernel, nodes, seen))
    a, b = dense.maximize(gap=1e-6), window.maximize(gap=1e-6)
    assert max(a.gap, b.gap) <= 1e-6
    assert a.log_likelihood == pytest.approx(b.log_likelihood, abs=2e-6)
