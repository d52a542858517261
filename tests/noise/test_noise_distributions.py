"""Relations that hold for every family: one function is the integral, inverse or mirror image of another.

Statistical tests have a fixed seed and false-alarm rates of one in a million each.
"""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import arcwise.noise
from arcwise.errors import ParameterError
from arcwise.noise import (
    AnalyticGaussian,
    BoxStaircase,
    ContinuousNoise,
    DiscreteNoise,
    DiscreteStaircase,
    Geometric,
    Laplace,
    Noise,
    Staircase,
    TruncatedLaplace,
    UniformAtom,
)
from tests.noise.families import CONTINUOUS, DISCRETE, continuous, discrete, edges
from tests.support.chances import chi_square
from tests.support.interpreters import printed

if TYPE_CHECKING:
    from collections.abc import Callable

ALL: tuple[Noise, ...] = (*CONTINUOUS, *DISCRETE)
FALSE_ALARM = 1e-6

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


def integral(function: Any, points: list[float]) -> float:
    """Integrate over [points[0], points[-1]] with 20 Gauss-Legendre nodes in each stretch."""
    ends = np.array(points)
    half, middle = np.diff(ends)[:, None] / 2, (ends[1:, None] + ends[:-1, None]) / 2
    return float((function(middle + half * NODES) * WEIGHTS * half).sum())


def atom(noise: Noise) -> float:
    return noise.alpha if isinstance(noise, UniformAtom) else 0.0


@pytest.mark.parametrize("noise", CONTINUOUS, ids=str)
def test_the_density_integrates_to_the_distribution(noise: ContinuousNoise) -> None:
    points = edges(noise)
    assert 2 * integral(noise.pdf, points) + atom(noise) == pytest.approx(1, abs=1e-12)
    total = (1 + atom(noise)) / 2
    for low, high in pairwise(points[:40]):
        total += integral(noise.pdf, [low, high])
        assert noise.cdf(high) == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("noise", CONTINUOUS, ids=str)
@pytest.mark.parametrize("power", [0.5, 1, 2, 3.7])
def test_moments_are_integrals(noise: ContinuousNoise, power: float) -> None:
    # x**0.5 is not smooth at 0, so stretches shrink towards it.
    points = edges(noise, 1e-30)
    points = sorted({*points, *(points[-1] * 2.0**-n for n in range(1, 80))})
    expected = 2 * integral(lambda x: x**power * noise.pdf(x), points)
    assert noise.abs_moment(power) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("noise", [noise for noise in CONTINUOUS if hasattr(noise, "entropy")], ids=str)
def test_entropy_is_an_integral(noise: Any) -> None:
    if atom(noise):
        assert noise.entropy() == -math.inf
        return

    def surprise(x: Any) -> Any:
        density = noise.pdf(x)
        return -density * np.log(np.where(density > 0, density, 1))

    assert noise.entropy() == pytest.approx(2 * integral(surprise, edges(noise, 1e-30)), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("noise", DISCRETE, ids=str)
def test_masses_add_up(noise: DiscreteNoise) -> None:
    most = -int(noise.ppf(1e-30))
    n = np.arange(-most, most + 1)
    masses = noise.pmf(n)
    assert masses.sum() == pytest.approx(1, abs=1e-13)
    np.testing.assert_allclose(noise.cdf(n), np.cumsum(masses), rtol=1e-9, atol=1e-29)
    np.testing.assert_allclose(noise.cdf(n + 0.5), noise.cdf(n), rtol=0)
    for power in (0.3, 1, 2, 5):
        assert noise.abs_moment(power) == pytest.approx((masses * np.abs(n) ** float(power)).sum(), rel=1e-12)
    entropy = -(masses * np.log(masses)).sum()
    assert noise.entropy() == pytest.approx(entropy, rel=1e-12)  # type: ignore[attr-defined]
    assert noise.pmf([0.5, math.inf, -math.inf]).tolist() == [0, 0, 0]


@given(continuous, st.floats(1e-12, 1 - 1e-12))
def test_quantiles_invert(noise: ContinuousNoise, q: float) -> None:
    x = noise.ppf(q)
    if atom(noise) and abs(q - 0.5) <= atom(noise) / 2 * (1 + 1e-9):
        assert x == pytest.approx(0, abs=1e-9 * noise.support[1])
        return
    assert noise.cdf(x) == pytest.approx(q, rel=1e-11)
    assert noise.ppf(noise.cdf(-abs(x))) == pytest.approx(-abs(x), rel=1e-9, abs=1e-12 * noise.std())
    assert noise.isf(q) == -x
    assert noise.sf(noise.isf(q)) == pytest.approx(q, rel=1e-11)


@given(continuous, st.floats(1e-200, 0.4))
def test_the_tail_keeps_its_digits(noise: ContinuousNoise, s: float) -> None:
    x = noise.isf(s)
    if s >= (1 - atom(noise)) / 2 * (1 - 1e-9):
        assert x == pytest.approx(0, abs=1e-9 * noise.support[1])
    elif x == noise.support[1]:
        assert s < 4 * np.spacing(x) * noise.pdf(x)
    else:
        assert x > 0
        # x itself has limited digits; near a finite end of the support, those of that end.
        spacing = np.spacing(noise.support[1] if math.isfinite(noise.support[1]) else x)
        digits = 4 * spacing * noise.pdf(x - 4 * spacing)
        assert noise.sf(x) == pytest.approx(s, rel=1e-10, abs=digits)


@given(discrete, st.floats(1e-250, 1 - 1e-12))
def test_quantiles_of_integers_are_the_least(noise: DiscreteNoise, q: float) -> None:
    n = noise.ppf(q)
    assert n == int(n)
    assert noise.cdf(n - 1) < q <= noise.cdf(n)
    assert noise.ppf(noise.cdf(-abs(n))) == -abs(n)


@given(st.one_of(continuous, discrete), st.floats(-50, 50))
def test_symmetry(noise: Noise, scaled: float) -> None:
    x = scaled * noise.std()
    assert noise.cdf(x) + noise.sf(x) == pytest.approx(1, abs=1e-15)
    if isinstance(noise, ContinuousNoise):
        assert noise.pdf(-x) == noise.pdf(x) >= 0
        assert noise.sf(-x) == (noise.cdf(x) if x else noise.sf(0))
    else:
        assert isinstance(noise, DiscreteNoise)
        assert noise.pmf(-math.floor(x)) == noise.pmf(math.floor(x))
    assert noise.moment(0) == 1
    assert noise.moment(3) == noise.mean() == 0
    assert noise.moment(4) == noise.abs_moment(4) >= noise.var() ** 2
    low, high = noise.interval(0.9)
    assert low == -high
    assert noise.cdf(high) - noise.cdf(low) >= 0.9 - 1e-12 or atom(noise) or isinstance(noise, DiscreteNoise)


@pytest.mark.parametrize("noise", ALL, ids=str)
def test_samples_follow_the_distribution(noise: Noise) -> None:
    generator = np.random.default_rng(2024)
    x = noise.rvs(100_000, generator=generator)
    if isinstance(noise, DiscreteNoise):
        assert x.dtype == np.int64
        most = -int(noise.ppf(1e-3))
        n = np.arange(-most, most + 1)
        observed = [(x < -most).sum(), *((x == k).sum() for k in n), (x > most).sum()]
        expected = [noise.cdf(-most - 1), *noise.pmf(n), noise.sf(most)]
        assert chi_square(observed, expected) > FALSE_ALARM
        return
    if atom(noise):
        zeros = stats.binomtest(int((x == 0).sum()), x.size, atom(noise))
        assert zeros.pvalue > FALSE_ALARM
        x = x[x != 0]
        h = noise.support[1]
        assert stats.kstest(x, stats.uniform(-h, 2 * h).cdf).pvalue > FALSE_ALARM
        return
    assert stats.kstest(x, noise.cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("noise", ALL, ids=str)
def test_samples_of_any_shape(noise: Noise) -> None:
    generator = np.random.default_rng(1)
    single = noise.rvs(generator=generator)
    assert type(single) is (int if isinstance(noise, DiscreteNoise) else float)
    assert noise.rvs(3, generator=generator).shape == (3,)
    assert noise.rvs((2, 0), generator=generator).shape == (2, 0)
    many = noise.rvs((300, 200), generator=generator)
    assert many.shape == (300, 200)
    assert len(np.unique(many)) > 1
    again = noise.rvs((300, 200), generator=np.random.default_rng(7))
    assert (again == noise.rvs((300, 200), generator=np.random.default_rng(7))).all()
    with pytest.raises(ParameterError, match="generator must be"):
        noise.rvs(3, generator=5)  # type: ignore[call-overload]
    with pytest.raises(ParameterError, match="size must be an integer of at least 0, got -1"):
        noise.rvs(-1, generator=generator)


@pytest.mark.parametrize("noise", ALL, ids=str)
def test_scalars_and_arrays_agree(noise: Any) -> None:
    x = np.array([[-7.0, -1.5, 0.0], [0.25, 3.0, 40.0]]) * noise.std()
    if isinstance(noise, DiscreteNoise):
        x = np.round(x)
    density = noise.pmf if isinstance(noise, DiscreteNoise) else noise.pdf
    for function in (noise.cdf, noise.sf, density):
        values = function(x)
        assert values.shape == x.shape
        assert values.dtype == np.float64
        assert function(x.tolist()).tolist() == values.tolist()
        for index, point in np.ndenumerate(x):
            assert type(function(float(point))) is float
            assert function(point) == values[index]
        assert function(np.array([])).shape == (0,)
        assert math.isnan(function(math.nan))
        with pytest.raises(ParameterError, match="must be real numbers"):
            function("a")
    assert type(noise.cdf(1)) is float
    assert (noise.cdf(-math.inf), noise.cdf(math.inf)) == (0, 1)
    assert (noise.sf(-math.inf), noise.sf(math.inf)) == (1, 0)
    assert (density(-math.inf), density(math.inf)) == (0, 0)
    assert (noise.ppf(0), noise.ppf(1)) == noise.support
    assert np.isnan(noise.ppf([-0.1, 1.1, math.nan])).all()
    assert str(noise.ppf(0.5)) == "0.0"


@pytest.mark.parametrize("noise", ALL, ids=str)
def test_values_are_frozen_and_written_out(noise: Any) -> None:
    copy = eval(repr(noise), vars(arcwise.noise))
    assert copy == noise
    assert hash(copy) == hash(noise)
    assert [other for other in ALL if other == noise] == [noise]
    with pytest.raises(FrozenInstanceError):
        setattr(noise, fields(noise)[0].name, 0.5)


MAKERS: tuple[Any, ...] = (
    lambda unit: Laplace(0.01, unit),
    lambda unit: Laplace(20.0, unit),
    lambda unit: Staircase(0.01, unit, 0.3),
    lambda unit: Staircase(20.0, unit, 0.01),
    lambda unit: TruncatedLaplace(0.01, 0.1, unit),
    lambda unit: TruncatedLaplace(20.0, 1e-12, unit),
    lambda unit: UniformAtom(0.5, unit, 0.2),
    lambda unit: AnalyticGaussian(1.0, 1e-9, unit),
    lambda unit: BoxStaircase(0.3, (unit, 3.0, 1.0), (0.0, 1.0, 1.0)).component(0),
    lambda unit: BoxStaircase(3.0, (unit, 3.0), (0.0, 1.0)).component(0),
)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("power", [0.01, 1.0, 19.5, 40.0, 100.0])
def test_moments_scale_and_neither_overflow_nor_vanish(make: Any, power: float) -> None:
    """Far powers and units, where a power alone would be infinite or 0."""
    moment = make(1.0).abs_moment(power)
    for unit in (1e-3, 0.1, 7.0):
        expected = math.log(moment) + power * math.log(unit) if 0 < moment < math.inf else None
        scaled = make(unit).abs_moment(power)
        if expected is not None and -700 < expected < 700:
            assert math.log(scaled) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    # Where a formula changes its form, the value does not jump.
    assert make(1.0).abs_moment(20.0 * (1 + 1e-15)) == pytest.approx(make(1.0).abs_moment(20.0), rel=1e-11)


def test_importing_the_package_loads_no_scipy() -> None:
    assert printed("import sys, arcwise.noise; print('scipy' in sys.modules)") == "False"


@pytest.mark.parametrize("epsilon", [20.0, 37.5, 50.0])
def test_entropy_at_large_epsilon_keeps_its_digits(epsilon: float) -> None:
    """To first order in b = e^-epsilon: b at -1 and at 1 contribute epsilon each, and 0 loses 2 b."""
    first = 2 * math.exp(-epsilon) * (epsilon + 1)
    assert Geometric(epsilon).entropy() == pytest.approx(first, rel=1e-7)
    same = DiscreteStaircase(epsilon, 1, 1).entropy()
    assert same == pytest.approx(Geometric(epsilon).entropy(), rel=1e-12)


def test_quantiles_of_the_lower_part_of_a_step_at_large_epsilon() -> None:
    """Along that part, the mass before it does not change as a float."""
    noise = Staircase(40.0, 1.0, 0.25)
    for place in (0.3, 0.5, 0.75, 0.99):
        assert noise.isf(noise.sf(15.0 + place)) == pytest.approx(15.0 + place, abs=1e-9)
    for level in np.exp(-np.linspace(600.0, 660.0, 997)):
        assert (
            noise.sf(noise.isf(level)) == pytest.approx(level, rel=1e-9)
            or noise.sf(np.nextafter(noise.isf(level), np.inf)) <= level
        )


def test_no_probability_is_a_negative_zero() -> None:
    noise = TruncatedLaplace(1.0, 0.1)
    assert not np.signbit([noise.sf(np.inf), noise.cdf(-np.inf), noise.sf(9.0)]).any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Laplace(0), r"epsilon must be more than 0 and at most 50, got 0\.0"),
        (lambda: Laplace(51), "epsilon must be more than 0 and at most 50, got 51"),
        (lambda: Laplace(math.nan), "epsilon must be more than 0 and at most 50, got nan"),
        (lambda: Laplace(True), "epsilon must be a real number, more than 0 and at most 50, got True"),
        (lambda: Laplace("1"), "epsilon must be a real number, more than 0 and at most 50, got '1'"),  # type: ignore[arg-type]
        (lambda: Laplace(1, 0), r"sensitivity must be positive and finite, got 0\.0"),
        (lambda: Laplace(1, math.inf), "sensitivity must be positive and finite, got inf"),
        (lambda: Staircase(1, 1, 1.5), r"gamma must be from 0 to 1, got 1\.5"),
        (lambda: Geometric(1, 1.5), r"sensitivity must be an integer of at least 1, got 1\.5"),  # type: ignore[arg-type]
        (lambda: Geometric(1, 0), "sensitivity must be an integer of at least 1, got 0"),
        (lambda: DiscreteStaircase(1, 4, 5), "r must be an integer from 1 to 4, got 5"),
        (lambda: TruncatedLaplace(1, 0.6), r"delta must be more than 0 and at most 0\.5, got 0\.6"),
        (lambda: TruncatedLaplace(1, 0), "delta must be more than 0 and at most 0.5"),
        (lambda: AnalyticGaussian(-1, 0.1), "epsilon must be from 0 to 50"),
        (lambda: AnalyticGaussian(1, 1), r"delta must be more than 0 and less than 1, got 1\.0"),
        (lambda: UniformAtom(0.5, 1, 0.5), "alpha must be less than delta = 0.5"),
        (lambda: UniformAtom(0.5, 1, -0.1), "alpha must be from 0 to 0.5, got -0.1"),
        (lambda: ALL[0].abs_moment(0), r"power must be positive and finite, got 0\.0"),
        (lambda: ALL[-1].abs_moment(0), r"power must be positive and finite, got 0\.0"),
        (lambda: ALL[0].moment(-2), "order must be an integer of at least 0, got -2"),
        (lambda: ALL[0].interval(1), r"level must be more than 0 and less than 1, got 1\.0"),
        (lambda: Laplace(1.0).cdf([[1.0], [1.0, 2.0]]), "must be an array of real numbers"),
    ],
)
def test_what_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()
