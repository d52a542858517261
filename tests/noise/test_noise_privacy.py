"""The privacy of noise: bounds between a distribution and its shifts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from arcwise.noise import (
    AnalyticGaussian,
    BoxStaircase,
    DiscreteStaircase,
    Geometric,
    Laplace,
    Staircase,
    TruncatedLaplace,
    UniformAtom,
    gaussian_delta,
)
from tests.noise.families import epsilons, sensitivities

shares = st.floats(-0.999999, 0.999999)
deltas = st.floats(1e-12, 0.5)


@given(
    st.one_of(
        st.builds(Laplace, epsilons, sensitivities),
        st.builds(Staircase, epsilons, sensitivities, st.floats(0, 1)),
    ),
    st.floats(-30, 30),
    shares,
)
def test_densities_of_pure_noise(noise: Laplace | Staircase, at: float, share: float) -> None:
    x = at * noise.sensitivity
    # Positions near an edge are rounded; a millionth of the sensitivity is more than that.
    ratio = noise.pdf(x) / noise.pdf(x + share * noise.sensitivity)
    assert math.exp(-noise.epsilon) * (1 - 1e-12) <= ratio <= math.exp(noise.epsilon) * (1 + 1e-12)


@given(epsilons, st.integers(1, 40), st.integers(1, 40))
def test_masses_of_pure_noise(epsilon: float, sensitivity: int, r: int) -> None:
    n = np.arange(-3 * sensitivity - 2, 3 * sensitivity + 3)
    noises = (Geometric(epsilon, sensitivity), DiscreteStaircase(epsilon, sensitivity, min(r, sensitivity)))
    for noise in noises:
        masses = np.log(noise.pmf(n))
        for shift in range(1, sensitivity + 1):
            assert np.abs(masses[shift:] - masses[:-shift]).max() <= epsilon * (1 + 1e-12) + 1e-12
        assert np.abs(masses[sensitivity:] - masses[:-sensitivity]).max() == pytest.approx(epsilon, rel=1e-9)


def hockey_stick(noise: Any, epsilon: float, shift: float) -> float:
    """Return the delta of a unimodal symmetric density for its shift, by integrating the excess."""
    h = noise.support[1]
    ends = np.linspace(-h, h + shift, 20001)
    # Breaks of the density and of its copy are among the ends, so that each stretch is smooth.
    ends = np.unique(np.concatenate([ends, [0.0, shift, h, -h + shift]]))
    nodes, weights = np.polynomial.legendre.leggauss(8)
    half, middle = np.diff(ends)[:, None] / 2, (ends[1:] + ends[:-1])[:, None] / 2
    x = middle + half * nodes
    excess = noise.pdf(x - shift) - math.exp(epsilon) * noise.pdf(x)
    # Rounding leaves either sign where the ratio is exactly e^epsilon.
    excess[np.abs(excess) < 1e-12 * noise.pdf(0.0)] = 0.0
    return float((np.maximum(excess, 0.0) * weights * half).sum())


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.1, 0.5])
def test_truncated_laplace_spends_exactly_delta(epsilon: float, delta: float) -> None:
    noise = TruncatedLaplace(epsilon, delta, 2.0)
    assert noise.sf(noise.half_support - 2.0) == pytest.approx(delta, rel=1e-9)
    if epsilon < 10:  # beyond, the density falls too fast for an even grid
        assert hockey_stick(noise, epsilon, 2.0) == pytest.approx(delta, rel=1e-6)
        assert hockey_stick(noise, epsilon, 1.1) <= delta


@given(st.floats(1e-3, 0.999), st.floats(0, 0.999), sensitivities, st.floats(0, 1))
def test_uniform_with_an_atom_spends_exactly_delta(
    delta: float, fraction: float, sensitivity: float, share: float
) -> None:
    noise = UniformAtom(delta, sensitivity, fraction * delta)
    assert noise.half_support * 2 >= sensitivity * (1 - 1e-12)
    # A shift uncovers the atom and a stretch of the density.
    uncovered = noise.alpha + noise.density * share * sensitivity
    assert uncovered <= delta * (1 + 1e-12)
    assert noise.alpha + noise.density * sensitivity == pytest.approx(delta, rel=1e-12)
    h = noise.half_support
    assert noise.cdf(-h + share * sensitivity) <= noise.alpha + noise.density * share * sensitivity + 1e-12


@given(st.floats(0, 20), st.floats(1e-12, 0.999), sensitivities)
def test_gaussian_noise_spends_exactly_delta(epsilon: float, delta: float, sensitivity: float) -> None:
    noise = AnalyticGaussian(epsilon, delta, sensitivity)
    assert gaussian_delta(noise.sigma, epsilon, sensitivity) == pytest.approx(delta, rel=1e-12)
    # By the formula as printed, if its two terms are far enough apart to be subtracted.
    u, v = sensitivity / noise.sigma / 2, epsilon * noise.sigma / sensitivity
    first, second = special.ndtr(u - v), math.exp(epsilon + special.log_ndtr(-u - v))
    assert first - second == pytest.approx(delta, rel=1e-9, abs=1e-14 * first)


@pytest.mark.slow
@given(st.floats(0, 20), st.floats(1e-300, 0.9), st.floats(1.0001, 2.0))
def test_less_gaussian_noise_spends_more(epsilon: float, delta: float, factor: float) -> None:
    sigma = AnalyticGaussian(epsilon, delta).sigma
    assert gaussian_delta(sigma / factor, epsilon) > delta > gaussian_delta(sigma * factor, epsilon)


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 1e-6, 1e-4])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_gaussian_noise_at_small_epsilon(epsilon: float, delta: float) -> None:
    """At epsilon 0 delta is erf(u / sqrt 2); at small epsilon slightly less noise is needed."""
    alone = 0.5 / (math.sqrt(2) * special.erfinv(delta))
    assert AnalyticGaussian(0.0, delta).sigma == pytest.approx(alone, rel=1e-12)
    assert AnalyticGaussian(epsilon, delta).sigma <= alone * (1 + 1e-12)


@given(
    epsilons,
    st.lists(st.tuples(st.floats(0.1, 10), st.floats(0, 1)), min_size=1, max_size=4),
    st.integers(0, 2**32),
)
def test_densities_of_box_noise(epsilon: float, sides: list[tuple[float, float]], seed: int) -> None:
    lengths = np.array([side for side, _ in sides])
    noise = BoxStaircase(epsilon, tuple(lengths), tuple(side * share for side, share in sides))
    generator = np.random.default_rng(seed)
    x = generator.uniform(-20, 20, (200, len(sides))) * lengths
    moved = x + generator.uniform(-0.999999, 0.999999, x.shape) * lengths
    steps = noise.shell(x) - noise.shell(moved)
    assert np.abs(steps).max() <= 1
    np.testing.assert_allclose(noise.pdf(moved), noise.pdf(x) * np.exp(epsilon * steps), rtol=1e-11)
