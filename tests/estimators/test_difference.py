"""Differences of two means: exact expectations, coverage, ranges where a mean is one."""

from typing import Any

import numpy as np
import pytest

from arcwise.analysis.estimators.differences import mean_difference
from arcwise.analysis.estimators.mean import mean
from arcwise.analysis.estimators.survey import Survey
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms import OptimalCircular, OptimalPiecewise, SquareWave
from tests.support.known import bounded, known
from tests.support.surveys import surveyed

DOMAIN = Interval(-20, 180)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(2000, 2000), (400, 20_000)])
def test_coverage_of_differences(sizes: tuple[int, int]) -> None:
    """400 surveys of two tasks: 4 standard errors of a coverage of 0.95 are 0.044 (false alarm 6e-5)."""
    first, second = OptimalPiecewise(DOMAIN, 2.0), SquareWave(DOMAIN, 1.0)
    generator = np.random.default_rng(1)
    one, two = 200 * generator.beta(2, 5, 5000) - 20, 200 * generator.beta(5, 3, 5000) - 20
    truth = two.mean() - one.mean()
    found = [
        mean_difference(surveyed(first, one, sizes[0], 2 * s), surveyed(second, two, sizes[1], 2 * s + 1))
        for s in range(400)
    ]
    assert abs(np.mean([value.contains(truth) for value in found]) - 0.95) < 0.044
    errors = np.array([value.value - truth for value in found if value.value is not None])
    assert abs(errors.mean()) < 4 * errors.std() / 20


def test_it_is_the_difference_of_the_means() -> None:
    mechanism = OptimalPiecewise(DOMAIN, 2.0)
    one, two = surveyed(mechanism, [10.0], 5000, 1), surveyed(mechanism, [90.0], 5000, 2)
    value, turned = known(mean_difference(one, two)), mean_difference(two, one)
    assert value.value == pytest.approx(known(mean(two)).value - known(mean(one)).value)
    assert (turned.value, turned.low, turned.high) == pytest.approx((-value.value, -value.high, -value.low))
    assert value.contains(80.0)
    assert bounded(mean_difference(one, two, level=0.99)).low < value.low


@pytest.mark.parametrize("length", [1e-300, 1e-150, 1e160, 1e300])
def test_a_difference_is_in_the_unit_of_the_domain_however_long_that_is(length: float) -> None:
    one, other = (
        [
            surveyed(OptimalPiecewise(Interval(0, end), 2.0), [share * end], 500, seed)
            for seed, share in enumerate((0.2, 0.9))
        ]
        for end in (1.0, length)
    )
    unit, scaled = mean_difference(*one), mean_difference(*other)
    for found, expected in ((scaled.value, unit.value), (scaled.low, unit.low), (scaled.high, unit.high)):
        assert found is not None
        assert found / length == pytest.approx(expected, rel=1e-6)


def test_a_mean_that_is_a_range_gives_a_range_of_differences() -> None:
    clamp = OptimalPiecewise(DOMAIN, 2.0, placement="clamp")
    value = mean_difference(
        surveyed(clamp, [-20.0], 5000, 1), surveyed(OptimalPiecewise(DOMAIN, 2.0), [90.0], 5000, 2)
    )
    assert value.value is None
    assert value.contains(110.0)
    assert "no single difference" in value.note


def test_circles_and_single_reports_are_refused() -> None:
    mechanism = OptimalPiecewise(DOMAIN, 2.0)
    good = surveyed(mechanism, [10.0], 100, 1)
    circle: Any = OptimalCircular(Circle(360), 1.0)
    with pytest.raises(ParameterError, match="domain must be an Interval for a difference"):
        mean_difference(good, Survey(circle, np.full(128, 5.0)))
    single = np.zeros(mechanism.kernel.codes)
    single[3] = 1
    with pytest.raises(ParameterError, match="first must hold at least 2 reports, got 1"):
        mean_difference(Survey(mechanism, single), good)
    with pytest.raises(ParameterError, match=r"second .* at least 2 devices, got 30 of at least 1\.5"):
        mean_difference(good, Survey(mechanism, 30 * single, reports_per_device=20))
