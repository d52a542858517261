"""The information matrix of window kernels from prefix sums, beside the product of matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcwise.analysis.likelihood.information import (
    dense_information,
    whole_window_information,
    window_information,
)
from arcwise.analysis.likelihood.likelihood import Likelihood
from arcwise.domains import Circle, Interval
from arcwise.kernels.window import WindowKernel
from arcwise.mechanisms import Mechanism, OptimalCircular, OptimalPiecewise


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
    for factored in (window_information(kernel, taken, seen)(s, more), dense_information(rows)(s, more)):
        assert factored is not None
        solve, tilt, level = factored
        # With the matrix itself: what A lacks of it acts on x by two products.
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
    solve = information.solver(more)
    assert solve is not None
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
