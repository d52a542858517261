"""The planned error of directions: by draws, random populations, surveys. False alarms: 1e-6 a case."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from arcwise.analysis.estimators.direction import direction
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.planning.direction import DirectionCurve, rms_angle
from arcwise.analysis.simulate import Atoms, as_population, code_law
from arcwise.domains import Circle
from arcwise.errors import ParameterError
from arcwise.mechanisms import OptimalCircular, VonMises
from tests.support.known import bounded, there
from tests.support.surveys import many_counts, turns_of

UNIT = Circle(1)
SURVEYS = 2500
SIGMA = float(norm.isf(5e-7))


def within_chance(squares: list[float], predicted: float) -> bool:
    """Return whether an average of squares agrees with the prediction, up to a chance of 1e-6 (normal)."""
    found = np.array(squares)
    return bool(abs(found.mean() - predicted**2) <= SIGMA * found.std(ddof=1) / math.sqrt(len(found)))


@pytest.mark.parametrize("length", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("covariance", [(0.5, 0.2, 0.1), (0.04, 0.09, -0.03), (1e-4, 2e-4, 0.0)])
def test_the_argument_of_normal_points(length: float, covariance: tuple[float, float, float]) -> None:
    along, across, slant = covariance
    points = np.random.default_rng(1).multivariate_normal(
        [length, 0], [[along, slant], [slant, across]], 200_000
    )
    turns = np.arctan2(points[:, 1], points[:, 0]) / (2 * math.pi)
    assert within_chance((turns**2).tolist(), rms_angle(length, along, across, slant))


@pytest.mark.parametrize("smaller", [1.0, 1e-5, 1e-10, 1e-18])
def test_small_errors_are_those_of_the_delta_method(smaller: float) -> None:
    found = rms_angle(0.5, 1e-8 * smaller, 4e-8 * smaller)
    assert found == pytest.approx(2e-4 * math.sqrt(smaller) / 0.5 / (2 * math.pi), rel=1e-5)


def test_without_a_direction_every_one_is_as_likely() -> None:
    assert rms_angle(1e-9, 0.1, 0.1) == pytest.approx(1 / math.sqrt(12), rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 2 * math.log(2), pytest.param(4.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("vonmises:0.2,1", 300),
        ("0.6*vonmises:0,4 + 0.4*vonmises:0.4,8", 20_000),
        pytest.param("vonmises:0.2,1", 20_000, marks=pytest.mark.slow),
        pytest.param("uniform:0,0.9", 20_000, marks=pytest.mark.slow),
    ],
)
def test_surveys_have_the_planned_error(epsilon: float, text: str, n: int) -> None:
    mechanism, law = OptimalCircular(UNIT, epsilon), as_population(text, UNIT)
    truth = float(np.angle(law.trigonometric_moment())) / (2 * math.pi)
    predicted = DirectionCurve(mechanism, law, 0.5).error(n)
    found = turns_of(mechanism, many_counts(mechanism, law, n, SURVEYS, seed=2))
    assert within_chance([((value - truth + 0.5) % 1.0 - 0.5) ** 2 for value in found], predicted)


@pytest.mark.slow
@given(data=st.data(), epsilon=st.sampled_from([0.5, 2.0, 6.0]), von_mises=st.booleans())
def test_no_population_of_a_length_is_worse_than_the_worst(
    data: st.DataObject, epsilon: float, von_mises: bool
) -> None:
    mechanism = (VonMises if von_mises else OptimalCircular)(UNIT, epsilon)
    places = np.array(data.draw(st.lists(st.floats(0, 0.999), min_size=1, max_size=5)))
    law = Atoms(places)
    length = abs(law.trigonometric_moment())
    if length < 0.01:
        return
    worst = DirectionCurve(mechanism, None, length)
    # If errors are small, the bound is exact; otherwise the component along the direction adds a little.
    assert DirectionCurve(mechanism, law, 0.5).error(10**8) <= worst.error(10**8) * (1 + 1e-9)


@pytest.mark.parametrize("length", [0.1, 0.5, 0.95])
def test_the_worst_population_exists(length: float) -> None:
    """Two equal groups at +-arccos R: on a fine grid their error is the worst one."""
    mechanism = OptimalCircular(UNIT, 1.0, nodes=4096)
    half = math.acos(length) / (2 * math.pi)
    law = Atoms([0.3 - half, 0.3 + half])
    worst = DirectionCurve(mechanism, None, length).error(10**6)
    assert DirectionCurve(mechanism, law, 0.5).error(10**6) == pytest.approx(worst, rel=1e-4)


@pytest.mark.parametrize("error", [0.3, 0.05, 1e-3])
def test_numbers_of_reports_invert_errors(error: float) -> None:
    curve = DirectionCurve(OptimalCircular(UNIT, 1.0), None, 0.5)
    n = there(curve.reports(error))
    assert curve.error(n) <= error
    assert n == 5 or curve.error(math.floor(n * (1 - 1e-6)) - 1) > error


@pytest.mark.parametrize(("length", "n"), [(0.7, 10_000), (0.2, 20_000), (0.02, 1_000)])
def test_half_widths_are_those_of_intervals(length: float, n: int) -> None:
    """From expected counts, the estimate's interval is the planned one, up to whole counts."""
    mechanism = OptimalCircular(UNIT, 1.0)
    half = math.acos(length) / (2 * math.pi)
    law = Atoms([0.3 - half, 0.3 + half])
    curve = DirectionCurve(mechanism, law, 0.5)
    result = bounded(direction(Survey(mechanism, n * code_law(mechanism, law))))
    assert (result.high - result.low) / 2 == pytest.approx(curve.half_width(n, 0.95), rel=1e-3)


def test_few_reports_and_no_direction() -> None:
    mechanism = OptimalCircular(UNIT, 1.0)
    curve = DirectionCurve(mechanism, None, 0.5)
    assert math.isinf(curve.error(4))
    assert curve.half_width(4, 0.95) is None
    assert curve.reports(1e-12) is None
    with pytest.raises(ParameterError, match="must have a direction"):
        DirectionCurve(mechanism, as_population("uniform", UNIT), 0.5)
    with pytest.raises(ParameterError, match="show no direction"):
        DirectionCurve(OptimalCircular(UNIT, 1.0, nodes=2), None, 0.5)
