"""Plain and smoothed EM: the published steps, their stopping rules, and their weaknesses."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcwise.analysis.estimators.histogram import histogram
from arcwise.analysis.likelihood.alternatives import maximum_likelihood, plain_em, smoothed_em
from arcwise.analysis.likelihood.distribution import fit_held_out
from arcwise.domains import Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms import Mechanism, OptimalPiecewise
from arcwise.typing import FloatArray, IntArray
from tests.support.strategies import mechanisms
from tests.support.surveys import drawn_counts, em_fit, node_distribution

LINE = OptimalPiecewise(Interval(0, 1), 1.0, nodes=32)


def counts_of(mechanism: Mechanism, seed: int) -> IntArray:
    generator = np.random.default_rng(seed)
    return np.asarray(generator.poisson(20.0, mechanism.kernel.codes) + 1, dtype=np.int64)


def dense(mechanism: Mechanism, counts: IntArray, steps: int, smooth: bool) -> FloatArray:
    """Return the textbook's steps with the matrix of the kernel and, for EMS, a matrix of weights."""
    kernel, matrix = mechanism.kernel, mechanism.kernel.matrix()
    n = kernel.nodes
    weights = 2 * np.eye(n)
    for s in range(n - 1):
        weights[s, s + 1] += 1
        weights[s + 1, s] += 1
    if kernel.circular:
        weights[0, -1] += 1
        weights[-1, 0] += 1
    weights /= weights.sum(axis=1, keepdims=True)
    f = np.full(n, 1 / n)
    for _ in range(steps):
        f = f * (matrix @ (counts / (f @ matrix)))
        f = weights @ f if smooth else f
        f /= f.sum()
    return f


@given(mechanism=mechanisms(max_nodes=40), seed=st.integers(0, 2**32), steps=st.integers(1, 8))
def test_steps_are_the_published_ones(mechanism: Mechanism, seed: int, steps: int) -> None:
    counts = counts_of(mechanism, seed)
    tiny = 5e-324
    for smooth, function in ((False, plain_em), (True, smoothed_em)):
        result = function(mechanism, counts, tolerance=tiny, max_iterations=steps)
        if result.iterations == steps:  # otherwise, no step changed a bit of the likelihood
            expected = dense(mechanism, counts, steps, smooth)
            np.testing.assert_allclose(result.probabilities, expected, rtol=1e-7, atol=1e-9)
        assert result.probabilities.sum() == pytest.approx(1.0)
        likelihood = counts @ np.log(result.probabilities @ mechanism.kernel.matrix())
        assert result.log_likelihood == pytest.approx(likelihood, rel=1e-9)


@pytest.mark.parametrize("smooth", [False, True], ids=["EM", "EMS"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.slow
def test_stops_after_the_first_step_that_changes_less_than_the_tolerance(
    smooth: bool, epsilon: float
) -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), epsilon, nodes=32)
    counts = counts_of(mechanism, 1)
    function = smoothed_em if smooth else plain_em
    tolerance = 1e-3 if smooth else 1e-3 * math.exp(epsilon)
    result = function(mechanism, counts)
    path = [
        float(counts @ np.log(dense(mechanism, counts, t, smooth) @ mechanism.kernel.matrix()))
        for t in range(result.iterations + 1)
    ]
    changes = np.abs(np.diff(path))
    assert result.iterations > 1
    assert (changes[:-1] >= tolerance).all()
    assert changes[-1] < tolerance
    assert function(mechanism, counts, tolerance=tolerance).iterations == result.iterations
    assert function(mechanism, counts, max_iterations=1).iterations == 1


def test_smoothing_spreads_a_pile_that_held_out_reports_find() -> None:
    # One fixed survey with many values at the low end; benchmarks/studies/accuracy.py covers many surveys.
    mechanism = OptimalPiecewise(Interval(0, 1), 2.0)
    values = np.append(np.zeros(50_000), np.random.default_rng(0).random(50_000))
    truth = node_distribution(mechanism, values)
    counts = drawn_counts(mechanism, truth, 100_000, 1)
    held_out = fit_held_out(mechanism, counts)
    smoothed = smoothed_em(mechanism, counts.astype(np.int64))

    def distance(f: FloatArray) -> float:
        return float(np.abs(np.cumsum(f - truth)).mean())

    assert distance(held_out.probabilities) < 0.5 * distance(smoothed.probabilities)


def test_alternatives_are_shown_under_their_name() -> None:
    fitted = smoothed_em(LINE, counts_of(LINE, 2))
    result = histogram(LINE, fitted, method="smoothed EM")
    assert result.method == "smoothed EM"
    assert sum(result.probabilities) == pytest.approx(1.0)
    assert "held-out" not in result.method + result.note


def test_arguments_out_of_bounds() -> None:
    counts = np.ones(LINE.kernel.codes, dtype=np.int64)
    options: dict[str, Any]
    for wrong, options, message in (
        (counts, {"tolerance": 0}, "tolerance must be positive, got 0"),
        (counts, {"max_iterations": 0}, "max_iterations must be at least 1, got 0"),
        (0 * counts, {}, "at least one report"),
        (counts[1:], {}, "must have the shape"),
    ):
        for function in (plain_em, smoothed_em):
            with pytest.raises(ParameterError, match=message):
                function(LINE, wrong, **options)


@settings(max_examples=25)
@given(mechanism=mechanisms(), seed=st.integers(0, 1000))
def test_the_most_likely_distribution_is_certified_and_no_em_is_above(
    mechanism: Mechanism, seed: int
) -> None:
    counts = counts_of(mechanism, seed)
    best = maximum_likelihood(mechanism, counts)
    assert best.gap <= 0.001
    assert best.probabilities.sum() == pytest.approx(1.0)
    assert best.probabilities.min() >= 0.0
    em = em_fit(mechanism.kernel, counts, iterations=300)
    assert em.log_likelihood <= best.log_likelihood + best.gap + 1e-6
    assert best.log_likelihood <= em.log_likelihood + em.gap + 1e-6


def test_maximum_likelihood_of_a_fine_grid() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0, nodes=1024)
    values = np.random.default_rng(1).beta(2, 5, 20_000)
    counts = drawn_counts(mechanism, node_distribution(mechanism, values), 50_000, 2).astype(np.int64)
    best = maximum_likelihood(mechanism, counts)
    assert best.gap <= 0.001
    assert np.count_nonzero(best.probabilities > 1e-6) < 100  # a few spikes
