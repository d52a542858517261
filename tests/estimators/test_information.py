"""The information matrix of window kernels from prefix sums, beside the product of matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcwise.analysis.likelihood.information import dense_information, window_information
from arcwise.analysis.likelihood.likelihood import Likelihood
from arcwise.domains import Circle, Interval
from arcwise.kernels.window import WindowKernel
from arcwise.mechanisms import Mechanism, OptimalCircular, OptimalPiecewise


@settings(max_examples=60)
@given(
    circular=st.booleans(),
    nodes=st.integers(4, 60),
    epsilon=st.floats(0.1, 8.0),
    start=st.integers(0, 59),
    seed=st.integers(0, 2**32),
)
def test_prefix_sums_give_the_product(
    circular: bool, nodes: int, epsilon: float, start: int, seed: int
) -> None:
    mechanism: Mechanism = (
        OptimalCircular(Circle(360), epsilon, nodes=nodes)
        if circular
        else OptimalPiecewise(Interval(0, 1), epsilon, nodes=nodes)
    )
    kernel = mechanism.kernel
    assert isinstance(kernel, WindowKernel)
    generator = np.random.default_rng(seed)
    taken = np.arange(kernel.nodes)
    if circular:
        taken = (taken + start) % kernel.nodes
    taken = taken[generator.random(len(taken)) < 0.7]
    seen = generator.random(kernel.codes) < 0.7
    if not len(taken) or not seen.any():
        return
    s = generator.random(int(seen.sum()))
    expected = dense_information(kernel.probabilities(taken)[:, seen])(s)
    found = np.tril(window_information(kernel, taken, seen)(s))
    np.testing.assert_allclose(found, np.tril(expected), rtol=1e-9, atol=1e-13 * expected.max())


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_a_maximum_is_the_same_with_either(epsilon: float) -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), epsilon, nodes=32)
    kernel = mechanism.kernel
    assert isinstance(kernel, WindowKernel)
    rows, nodes = kernel.matrix(), np.arange(32)
    counts = np.random.default_rng(2).multinomial(5000, rows.mean(axis=0)).astype(float)
    dense = Likelihood(rows, counts)
    window = Likelihood(rows, counts, information=lambda seen: window_information(kernel, nodes, seen))
    a, b = dense.maximize(gap=1e-6), window.maximize(gap=1e-6)
    assert max(a.gap, b.gap) <= 1e-6
    assert a.log_likelihood == pytest.approx(b.log_likelihood, abs=2e-6)
