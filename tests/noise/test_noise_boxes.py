"""Box-shaped noise for several attributes: compared with its definition, and its pieces with one another.

Statistical tests have a fixed seed and false-alarm rates of one in a million each.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from arcwise.errors import ParameterError
from arcwise.noise import BoxStaircase, IndependentLaplace, Laplace, Staircase
from tests.noise.families import epsilons

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = (
    BoxStaircase(1.0, (1.0, 10.0), (0.1, 1.0)),
    BoxStaircase(0.05, (2.0, 1.0), (0.0, 1.0)),
    BoxStaircase(0.5, (1.0, 2.0, 3.0), (0.5, 0.0, 3.0)),
    BoxStaircase(7.0, (1.0, 2.0, 3.0, 4.0), (0.5, 0.1, 0.3, 2.0)),
    BoxStaircase(2.0, (3.0,), (1.0,)),
)
FALSE_ALARM = 1e-6


def mixture(noise: BoxStaircase) -> tuple[Any, Any]:
    """Return the half widths of the boxes, shape (n, d), and their weights, without closed forms."""
    i = np.arange(math.ceil(200 / noise.epsilon))[:, None]
    sides = np.array(noise.core) + i * np.array(noise.sensitivities)
    weights = np.exp(-noise.epsilon * i[:, 0]) * sides.prod(axis=1)
    return sides, weights / math.fsum(weights)


@pytest.mark.parametrize("noise", EXAMPLES, ids=str)
def test_pieces_agree_with_the_mixture(noise: BoxStaircase) -> None:
    sides, weights = mixture(noise)
    volumes = (2 * sides).prod(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(weights > 0, weights / volumes, 0)
    # An empty core is missing from the sum; the next shell has its density times e^-epsilon.
    highest = noise.peak * (1 if volumes[0] > 0 else math.exp(-noise.epsilon))
    assert highest == pytest.approx(math.fsum(share), rel=1e-12)
    np.testing.assert_allclose(noise.var(), weights @ sides**2 / 3, rtol=1e-12)
    assert (noise.cov() == np.diag(noise.var())).all()
    for j, power in itertools.product(range(noise.dimension), (0.4, 1, 3.3)):
        expected = math.fsum(weights * sides[:, j] ** power) / (power + 1)
        assert noise.component(j).abs_moment(power) == pytest.approx(expected, rel=1e-12)
    for scale in (0.01, 0.7, 3.3, 20.0):
        h = scale * np.array(noise.sensitivities)
        with np.errstate(divide="ignore"):
            inside = math.fsum(weights * np.minimum(h / sides, 1).prod(axis=1))
        assert noise.box_probability(h) == pytest.approx(inside, rel=1e-12)
        # A box that is open in the other directions is an interval of one component.
        for j in range(noise.dimension):
            wide = np.full(noise.dimension, 1e3 / noise.epsilon) * noise.sensitivities
            wide[j] = h[j]
            expected = noise.component(j).cdf(h[j]) - noise.component(j).cdf(-h[j])
            assert noise.box_probability(wide) == pytest.approx(expected, rel=1e-11)
    # The shells: M e^(-epsilon i) times their volumes.
    shells = noise.peak * np.exp(-noise.epsilon * np.arange(len(volumes))) * np.diff(volumes, prepend=0)
    assert math.fsum(shells) == pytest.approx(1, rel=1e-12)
    shells = shells[shells > 0]
    heights = np.log(noise.peak) - noise.epsilon * np.arange(len(volumes))[: len(shells)]
    if volumes[0] > 0:
        assert noise.entropy() == pytest.approx(-math.fsum(shells * heights), rel=1e-11)


@pytest.mark.parametrize("noise", EXAMPLES, ids=str)
def test_quantiles_of_components_in_an_array_are_those_of_each(noise: BoxStaircase) -> None:
    """Both in the core and in far shells."""
    levels = np.concatenate([np.linspace(0, 1, 41), [1e-300, 1 - 1e-15]])
    for j in range(noise.dimension):
        component = noise.component(j)
        together = component.ppf(levels)
        assert together.tolist() == [component.ppf(float(level)) for level in levels]
        np.testing.assert_allclose(component.cdf(together[1:40]), levels[1:40], rtol=1e-9)


def test_the_published_density_of_components() -> None:
    """Soria-Comas and Domingo-Ferrer, section 6, for two attributes."""
    noise = EXAMPLES[0]
    x = np.linspace(0, 30, 301) + 0.003
    tail = 1 / math.expm1(1.0)
    i = np.floor(x - 0.1 + 1)
    first = 2 * noise.peak * np.exp(-i) * (1 + 10 * i + 10 * tail)
    np.testing.assert_allclose(noise.component(0).pdf(x), first, rtol=1e-12)
    i = np.floor((x - 1) / 10 + 1)
    second = 2 * noise.peak * np.exp(-i) * (0.1 + i + tail)
    np.testing.assert_allclose(noise.component(1).pdf(x), second, rtol=1e-12)


@given(epsilons, st.floats(0.01, 100), st.floats(0, 1), st.floats(1e-6, 1 - 1e-9))
def test_one_attribute_is_the_staircase(epsilon: float, sensitivity: float, gamma: float, q: float) -> None:
    line = Staircase(epsilon, sensitivity, gamma)
    box = BoxStaircase.proportional(epsilon, (sensitivity,), gamma)
    component = box.component(0)
    x = line.ppf(q)
    assert component.cdf(x) == pytest.approx(q, rel=1e-10)
    assert component.sf(component.isf(q)) == pytest.approx(q, rel=1e-10)
    inside = (abs(x) / sensitivity - gamma) % 1
    if 1e-9 < inside < 1 - 1e-9:  # not on an edge, where a last digit changes the step
        assert component.pdf(x) == pytest.approx(line.pdf(x), rel=1e-10)
        assert box.pdf([x]) == pytest.approx(line.pdf(x), rel=1e-10)
    assert component.var() == pytest.approx(line.var(), rel=1e-11)
    assert component.abs_moment(1.5) == pytest.approx(line.abs_moment(1.5), rel=1e-11)
    assert box.entropy() == pytest.approx(line.entropy(), rel=1e-9, abs=1e-9)
    assert box.confidence_box(q).half_widths[0] == pytest.approx(line.half_width(q), rel=1e-8, abs=1e-12)


@given(st.sampled_from(EXAMPLES), st.floats(1e-9, 1 - 1e-9))
def test_confidence_boxes_hold_their_level(noise: BoxStaircase, level: float) -> None:
    box = noise.confidence_box(level)
    assert noise.box_probability(box.half_widths) == pytest.approx(level, rel=1e-12)
    assert box.volume == pytest.approx(np.prod(2 * np.array(box.half_widths)), rel=1e-12)
    # No smaller region: every point outside has at most the density of any point inside.
    inside = noise.pdf(np.array(box.half_widths) * (1 - 1e-9))
    outside = noise.pdf(np.array(box.half_widths) * (1 + 1e-9))
    assert outside <= inside


@pytest.mark.parametrize("noise", EXAMPLES, ids=str)
def test_joint_samples(noise: BoxStaircase) -> None:
    x = noise.rvs(60_000, generator=np.random.default_rng(5))
    assert x.shape == (60_000, noise.dimension)
    for j in range(noise.dimension):
        component = noise.component(j)
        assert stats.kstest(x[:, j], component.cdf).pvalue > FALSE_ALARM
        own = component.rvs(20_000, generator=np.random.default_rng(6))
        assert stats.kstest(own, component.cdf).pvalue > FALSE_ALARM
    for level in (0.1, 0.5, 0.9, 0.99):
        inside = (np.abs(x) <= noise.confidence_box(level).half_widths).all(axis=1).sum()
        assert stats.binomtest(int(inside), len(x), level).pvalue > FALSE_ALARM
    # Inside its box a point is uniform, with independent coordinates: the signs are fair and independent.
    signs = (x > 0) @ (2 ** np.arange(noise.dimension))
    assert stats.chisquare(np.bincount(signs, minlength=2**noise.dimension)).pvalue > FALSE_ALARM
    assert noise.rvs(generator=np.random.default_rng(1)).shape == (noise.dimension,)
    assert noise.rvs((2, 3), generator=np.random.default_rng(1)).shape == (2, 3, noise.dimension)


def test_boxes_beat_independent_laplace_noise() -> None:
    for dimension in (2, 3, 5):
        lengths = tuple(float(n) for n in range(1, dimension + 1))
        box, laplace = BoxStaircase.optimal(1.0, lengths), IndependentLaplace(1.0, lengths)
        relative = np.array(lengths) ** 2
        assert (box.var() / relative).sum() < (laplace.var() / relative).sum()
        assert box.confidence_box(0.95).volume < laplace.confidence_region(0.95).volume


@given(epsilons, st.lists(st.floats(0.1, 10), min_size=1, max_size=4), st.floats(0.01, 0.999))
def test_independent_laplace(epsilon: float, lengths: list[float], level: float) -> None:
    noise = IndependentLaplace(epsilon, tuple(lengths))
    assert noise.component(0) == Laplace(epsilon, math.fsum(lengths))
    region = noise.confidence_region(level)
    scaled = region.radius / noise.component(0).scale
    # P(gamma of shape d > r) = e^-r sum_{k < d} r^k / k!
    outside = math.exp(-scaled) * sum(scaled**k / math.factorial(k) for k in range(noise.dimension))
    assert outside == pytest.approx(1 - level, rel=1e-10)
    expected = (2 * region.radius) ** noise.dimension / math.factorial(noise.dimension)
    assert region.volume == pytest.approx(expected, rel=1e-11)
    x = noise.rvs((5, 2), generator=np.random.default_rng(0))
    assert x.shape == (5, 2, noise.dimension)
    density = (epsilon / (2 * math.fsum(lengths))) ** noise.dimension
    np.testing.assert_allclose(
        noise.pdf(x), density * np.exp(-np.abs(x).sum(axis=-1) * epsilon / math.fsum(lengths)), rtol=1e-10
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: BoxStaircase(1.0, (1.0, 2.0), (0.5,)),
            "sensitivities and core must .* long, got 2 and 1 numbers",
        ),
        (
            lambda: BoxStaircase(1.0, (), ()),
            "must be equally long, got 0 and 0 numbers",
        ),
        (
            lambda: BoxStaircase(1.0, (1.0, 2.0), (0.5, 2.5)),
            r"core\[1\] must be from 0 to 2, got 2\.5; the upper bound is sensitivities\[1\]",
        ),
        (
            lambda: BoxStaircase(1.0, (1.0, -2.0), (0.5, 1.0)),
            r"sensitivity must be positive and finite, got -2\.0",
        ),
        (
            lambda: BoxStaircase(1.0, 3.0, (1.0,)),  # type: ignore[arg-type]
            r"sensitivities must be a sequence of numbers, got 3\.0",
        ),
        (lambda: EXAMPLES[0].pdf([1.0, 2.0, 3.0]), r"points must be real numbers of shape \(\.\.\., 2\)"),
        (lambda: EXAMPLES[0].box_probability([-1.0, 1.0]), "half_widths must be 2 non-negative numbers"),
        (lambda: EXAMPLES[0].component(2), "index must be an integer from 0 to 1, got 2"),
        (lambda: EXAMPLES[0].confidence_box(0), "level must be more than 0"),
    ],
)
def test_what_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()
