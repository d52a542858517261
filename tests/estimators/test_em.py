"""EM: equal to the dense textbook step, never downhill, and certified."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcwise.analysis.likelihood.em import EMSteps
from arcwise.analysis.likelihood.linear_maps import node_means
from arcwise.analysis.likelihood.maximum import Likelihood
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.kernels import Kernel, WindowKernel
from arcwise.mechanisms import Mechanism, OptimalCircular, OptimalPiecewise
from arcwise.typing import FloatArray
from tests.support.strategies import mechanisms
from tests.support.surveys import em_fit


def dense_step(matrix: FloatArray, counts: FloatArray, f: FloatArray) -> FloatArray:
    """Return Bayes' rule for every report, averaged: EM as the textbooks have it."""
    posterior = f[:, None] * matrix / (f @ matrix)
    stepped: FloatArray = posterior @ counts / counts.sum()
    return stepped


def random_counts(kernel: Kernel, seed: int) -> FloatArray:
    generator = np.random.default_rng(seed)
    counts = generator.poisson(generator.exponential(5.0, kernel.codes)).astype(np.float64)
    counts[int(generator.integers(kernel.codes))] += 1.0  # always at least one report
    return counts


# A kernel with six leftover units in a tiny row; the arithmetic does not depend on e^epsilon.
LEFTOVER = WindowKernel(7, 5, 3, 2**61, (2**64 - 7 * 2**61) // 3, circular=False)


@given(mechanism=mechanisms(max_nodes=60), seed=st.integers(0, 2**32))
def test_a_step_is_the_dense_step(mechanism: Mechanism, seed: int) -> None:
    kernel = mechanism.kernel
    counts, matrix = random_counts(kernel, seed), kernel.matrix()
    start = np.random.default_rng(seed).dirichlet(np.ones(kernel.nodes)) + 1e-9
    start /= start.sum()
    steps = EMSteps(kernel, counts, start=start)
    dense = start
    for _ in range(3):
        # Differences of prefix sums of numbers up to 1 are exact to about 1e-16 at any size.
        np.testing.assert_allclose(steps.codes[0], dense @ matrix, rtol=1e-9, atol=1e-15)
        steps.step()
        dense = dense_step(matrix, counts, dense)
    np.testing.assert_allclose(steps.probabilities[0], dense, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "mechanism",
    [
        OptimalPiecewise(Interval(0, 1), 0.5),
        OptimalPiecewise(Interval(0, 1), 4.0, placement="clamp"),
        OptimalCircular(Circle(1), 2.0),
    ],
    ids=lambda m: m.placement,
)
def test_a_thousand_steps_are_a_thousand_dense_steps(mechanism: Mechanism) -> None:
    matrix = mechanism.kernel.matrix()
    generator = np.random.default_rng(8)
    law = generator.dirichlet(np.ones(len(matrix)) / 9)
    counts = generator.multinomial(100_000, law @ matrix).astype(np.float64)
    dense: FloatArray = np.full(len(matrix), 1 / len(matrix))
    steps = EMSteps(mechanism.kernel, counts)
    for _ in range(1000):
        dense = dense_step(matrix, counts, dense)
        steps.step()
    assert np.abs(steps.probabilities[0] - dense).max() <= 1e-10
    assert steps.probabilities.sum() == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize(
    "kernel", [LEFTOVER, WindowKernel.fit(nodes=9, window=4, epsilon=1.0, circular=True)]
)
def test_sums_over_windows_are_those_of_the_rows(kernel: WindowKernel) -> None:
    values = np.random.default_rng(5).normal(size=kernel.codes)
    np.testing.assert_allclose(node_means(kernel, values), kernel.matrix() @ values, rtol=1e-12)


@settings(max_examples=30)
@given(mechanism=mechanisms(max_nodes=60), seed=st.integers(0, 2**32))
def test_the_likelihood_never_falls(mechanism: Mechanism, seed: int) -> None:
    counts = random_counts(mechanism.kernel, seed)
    steps = EMSteps(mechanism.kernel, counts)
    before = steps.log_likelihood()[0]
    for _ in range(50):
        steps.step()
        after = steps.log_likelihood()[0]
        assert after >= before - 1e-12 * abs(before)
        before = after
    assert steps.probabilities.min() >= 0
    assert steps.probabilities.sum() == pytest.approx(1.0, abs=1e-12)


MECHANISMS = [
    OptimalPiecewise(Interval(0, 1), 1.0, nodes=24),
    OptimalPiecewise(Interval(0, 1), 3.0, nodes=24, placement="clamp"),
    OptimalCircular(Circle(24), 1.0, nodes=24),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.placement)
def test_no_distribution_beats_the_certificate(mechanism: Mechanism) -> None:
    kernel = mechanism.kernel
    counts, matrix = random_counts(kernel, 11), kernel.matrix()
    dense = np.full(kernel.nodes, 1 / kernel.nodes)
    for _ in range(20_000):
        dense = dense_step(matrix, counts, dense)
    best = float(counts @ np.log(dense @ matrix))
    for iterations in (0, 1, 10, 100, 1000):
        result = em_fit(kernel, counts, iterations=iterations)
        assert result.iterations == iterations
        assert result.log_likelihood <= best + 1e-9
        assert best <= result.log_likelihood + result.gap + 1e-9
    certified = em_fit(kernel, counts, gap=0.01)
    assert certified.gap <= 0.01
    assert best - certified.log_likelihood <= 0.01
    # The interior point reaches the same maximum by another method.
    newton = Likelihood(matrix, counts).maximize(gap=1e-6)
    assert newton.gap <= 1e-6
    assert best - 1e-9 <= newton.log_likelihood + newton.gap
    assert newton.log_likelihood <= best + 0.01


@pytest.mark.slow
def test_expected_counts_are_fitted_exactly() -> None:
    mechanism = MECHANISMS[0]
    truth = np.random.default_rng(1).dirichlet(np.ones(24))
    counts = 1e5 * (truth @ mechanism.kernel.matrix())
    result = em_fit(mechanism.kernel, counts, gap=0.01)
    assert result.gap <= 0.01
    # The gap is n times a Kullback-Leibler divergence, which bounds the L1 distance (Pinsker).
    distance = np.abs(result.probabilities @ mechanism.kernel.matrix() - counts / 1e5).sum()
    assert distance <= np.sqrt(2 * 0.01 / 1e5)


def test_data_sets_in_lockstep_do_not_touch_one_another() -> None:
    kernel = MECHANISMS[2].kernel
    sets = np.stack([random_counts(kernel, seed) for seed in range(3)])
    together = EMSteps(kernel, sets)
    for _ in range(25):
        together.step()
    for i, counts in enumerate(sets):
        alone = em_fit(kernel, counts, iterations=25)
        np.testing.assert_allclose(together.probabilities[i], alone.probabilities, rtol=1e-10)
        assert together.log_likelihood()[i] == pytest.approx(alone.log_likelihood)
        assert together.current(i).gap == pytest.approx(alone.gap, abs=1e-9)


@given(mechanism=mechanisms(max_nodes=60), seed=st.integers(0, 2**32))
def test_a_leap_of_one_stage_is_a_step(mechanism: Mechanism, seed: int) -> None:
    counts = random_counts(mechanism.kernel, seed)
    one, other = EMSteps(mechanism.kernel, counts), EMSteps(mechanism.kernel, counts)
    for _ in range(3):
        one.leap(1)
        other.step()
    np.testing.assert_array_equal(one.probabilities, other.probabilities)
    assert one.iterations == other.iterations == 3


@pytest.mark.slow
@given(mechanism=mechanisms(max_nodes=60), seed=st.integers(0, 2**32))
def test_leaps_go_where_steps_go_and_never_downhill(mechanism: Mechanism, seed: int) -> None:
    kernel = mechanism.kernel
    counts = random_counts(kernel, seed)
    leaps, steps = EMSteps(kernel, counts), EMSteps(kernel, counts)
    for _ in range(36):
        leaps.step()
    likelihood = float(leaps.log_likelihood()[0])
    while leaps.iterations < 300:
        stages = 2 if leaps.iterations < 72 else 3
        before = leaps.iterations
        leaps.leap(stages)
        assert leaps.iterations == before + {2: 3, 3: 6}[stages]
        assert leaps.log_likelihood()[0] >= likelihood - 1e-9 * abs(likelihood)
        likelihood = float(leaps.log_likelihood()[0])
    while steps.iterations < leaps.iterations:
        steps.step()
    assert leaps.probabilities.sum() == pytest.approx(1.0)
    assert likelihood == pytest.approx(steps.log_likelihood()[0], abs=0.02)
    # A leap may be a step or two ahead or behind at nodes that still change.
    assert np.abs(np.cumsum(leaps.probabilities - steps.probabilities)).max() < 0.01


def test_long_leaps_are_stable_and_cheap() -> None:
    # As fit_held_out runs them: 534 stages instead of 3000 steps, within half a thousandth of EM.
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0)
    counts = random_counts(mechanism.kernel, 5) * 100
    leaps, steps = EMSteps(mechanism.kernel, counts), EMSteps(mechanism.kernel, counts)
    spent, likelihood = 0, -np.inf
    while leaps.iterations < 3000:
        stages = max(1, int((np.sqrt(1 + 8 * leaps.iterations / 12) - 1) / 2))
        leaps.leap(stages)
        spent += stages
        assert leaps.log_likelihood()[0] >= likelihood
        likelihood = float(leaps.log_likelihood()[0])
    while steps.iterations < leaps.iterations:
        steps.step()
    assert spent < 600
    assert np.abs(np.cumsum(leaps.probabilities - steps.probabilities)).mean() < 5e-4


def test_arguments_out_of_bounds() -> None:
    kernel = MECHANISMS[0].kernel
    with pytest.raises(ParameterError, match="stages must be at least 1, got 0"):
        EMSteps(kernel, np.ones(kernel.codes)).leap(0)
    counts = np.ones(kernel.codes)
    for wrong, options, message in (
        (np.ones(3), {}, f"must have {kernel.codes} codes"),
        (0 * counts, {}, "non-negative with a positive sum"),
        (counts, {"start": np.zeros(24)}, "start must be 24 positive numbers"),
    ):
        with pytest.raises(ParameterError, match=message):
            EMSteps(kernel, wrong, **options)
