"""The mean: unbiased in exact arithmetic, its interval, and the identified set of the clamp placement."""

import math
import sys
from fractions import Fraction
from statistics import NormalDist
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import f as f_law

from arcwise.analysis.estimators.inference_target import hotelling, two_sided
from arcwise.analysis.estimators.mean import clamp_units, mean
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.likelihood.linear_maps import node_means
from arcwise.domains import Interval
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms import OptimalPiecewise
from arcwise.typing import FloatArray
from tests.support.known import bounded, there
from tests.support.strategies import epsilons
from tests.support.surveys import covered, drawn_counts, expected_counts, node_distribution, surveyed

DOMAIN = Interval(-20, 180)


@given(epsilon=epsilons, nodes=st.integers(2, 100))
def test_every_node_decodes_to_its_position_on_average(epsilon: float, nodes: int) -> None:
    # In rationals: the only error left is that of the K decoded numbers, each rounded to a float.
    mechanism = OptimalPiecewise(Interval(0, 1), epsilon, nodes=nodes)
    values = [Fraction(v) for v in mechanism.code_units().tolist()]
    scale = max(map(abs, values))
    for node in (0, nodes // 2, nodes - 1):
        row = mechanism.kernel.row(node)
        average = sum((w * v for w, v in zip(row, values, strict=True)), Fraction(0)) / UNIT
        assert abs(average - Fraction(node, nodes - 1)) <= scale * Fraction(1, 2**50)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_expected_counts_give_back_the_mean(epsilon: float) -> None:
    values = 200 * np.random.default_rng(2).beta(2, 5, 1000) - 20
    mechanism = OptimalPiecewise(DOMAIN, epsilon)
    counts = expected_counts(mechanism, node_distribution(mechanism, values), 10**6)
    estimate = mean(Survey(mechanism, counts))
    assert estimate.value == pytest.approx(values.mean(), abs=1e-8)
    assert estimate.contains(float(values.mean()))


def clamp_bounds(mechanism: OptimalPiecewise, nodes: FloatArray) -> tuple[float, float]:
    """Return the two averages of `clamp_units` under a node distribution."""
    kernel = mechanism.kernel
    lower, upper = (node_means(kernel, units) for units in clamp_units(mechanism, kernel))
    return float(nodes @ lower), float(nodes @ upper)


@given(epsilon=epsilons, nodes=st.integers(2, 60), seed=st.integers(0, 2**32))
def test_clamp_bounds_are_those_of_the_node_distribution(epsilon: float, nodes: int, seed: int) -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), epsilon, placement="clamp", nodes=nodes)
    kernel = mechanism.kernel
    f = np.random.default_rng(seed).dirichlet(np.ones(nodes))
    middle = float(f @ mechanism.node_units(np.arange(nodes, dtype=np.float64)))
    zone = kernel.window / (2 * kernel.codes)
    scale = float(np.abs(np.stack(clamp_units(mechanism, kernel))).max())
    low, high = clamp_bounds(mechanism, f)
    assert low == pytest.approx(middle - zone * f[0], abs=1e-12 * scale)
    assert high == pytest.approx(middle + zone * f[-1], abs=1e-12 * scale)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("population", ["start", "in the start zone", "end", "in the end zone", "uniform"])
def test_the_identified_set_holds_the_truth(epsilon: float, population: str) -> None:
    # Each bound fails with probability 0.025 at most, and only one of them can: 15 surveys, fixed seed.
    mechanism = OptimalPiecewise(DOMAIN, epsilon, placement="clamp")
    zone = 200 * mechanism.kernel.window / (2 * mechanism.kernel.codes)
    values = {
        "start": np.array([-20.0]),
        "in the start zone": np.array([-20 + zone / 2]),
        "end": np.array([180.0]),
        "in the end zone": np.array([180 - zone / 2]),
        "uniform": np.linspace(-20, 180, 2001),
    }[population]
    nodes = node_distribution(mechanism, values)
    for counts in (expected_counts(mechanism, nodes, 1e5), drawn_counts(mechanism, nodes, 100_000, 7)):
        estimate = bounded(mean(Survey(mechanism, counts)))
        assert estimate.value is None
        assert estimate.contains(float(values.mean()))
        assert -20 <= estimate.low <= estimate.high <= 180
        assert "no single mean" in estimate.note
        if population != "uniform":
            assert estimate.high - estimate.low >= zone  # the reports are the same all over the zone


def test_piled_up_anywhere_in_a_zone_is_one_identified_set() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0, placement="clamp")
    zone = mechanism.kernel.window / (2 * mechanism.kernel.codes)
    laws = [node_distribution(mechanism, [x]) for x in (0.0, zone / 2, zone)]
    low, high = clamp_bounds(mechanism, laws[0])
    np.testing.assert_array_equal(laws[0], laws[1])
    np.testing.assert_array_equal(laws[0], laws[2])
    assert low == pytest.approx(0.0, abs=1e-12)
    assert high == pytest.approx(zone, abs=1e-12)


def test_coverage_of_the_mean() -> None:
    # 400 surveys: at a coverage of 0.95, fewer than 364 or more than 394 have probability 4e-4.
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0, nodes=32)
    values = np.random.default_rng(3).beta(2, 5, 2000)
    nodes = node_distribution(mechanism, values)
    found = [mean(Survey(mechanism, drawn_counts(mechanism, nodes, 1000, seed))) for seed in range(400)]
    assert 364 <= covered(found, float(values.mean())) <= 394


def test_one_report_has_the_domain_and_agreeing_reports_a_wide_interval() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0)
    counts = np.zeros(mechanism.kernel.codes)
    counts[50] = 1
    one = mean(Survey(mechanism, counts))
    assert one.value == pytest.approx(mechanism.values[50])
    assert (one.low, one.high) == (min(0.0, there(one.value)), max(1.0, there(one.value)))
    assert "one report" in one.note
    counts[50] = 3
    three = bounded(mean(Survey(mechanism, counts)))
    # Three equal reports: the sample variance is 0, the device's own randomness is not.
    assert three.high - three.low > 1.0
    assert "outside the domain" in three.note


@given(
    epsilon=epsilons, nodes=st.integers(2, 60), data=st.data(), placement=st.sampled_from(["inset", "clamp"])
)
def test_any_counts_give_an_ordered_interval(
    epsilon: float, nodes: int, data: st.DataObject, placement: Literal["inset", "clamp"]
) -> None:
    mechanism = OptimalPiecewise(DOMAIN, epsilon, placement=placement, nodes=nodes)
    codes = st.integers(0, mechanism.kernel.codes - 1)
    piles = data.draw(st.dictionaries(codes, st.integers(1, 10**9), min_size=1, max_size=4))
    counts = np.zeros(mechanism.kernel.codes)
    counts[list(piles)] = list(piles.values())
    estimate = bounded(mean(Survey(mechanism, counts)))
    assert estimate.low <= estimate.high


@pytest.mark.parametrize("placement", ["inset", "clamp"])
def test_reports_of_no_population_are_said_to_be_that(placement: Literal["inset", "clamp"]) -> None:
    mechanism = OptimalPiecewise(DOMAIN, 1.0, placement=placement)
    counts = np.zeros(mechanism.kernel.codes)
    # Clamp: neither end code occurs, so both ends have a negative share. Inset: beyond the last value.
    counts[mechanism.kernel.codes // 3 if placement == "clamp" else -1] = 100_000
    estimate = bounded(mean(Survey(mechanism, counts)))
    assert estimate.low <= estimate.high
    assert "no population is likely to produce these counts" in estimate.note
    honest = surveyed(mechanism, np.linspace(-20, 180, 99), 1000, 1)
    assert "no population" not in mean(honest).note


@pytest.mark.parametrize("placement", ["inset", "clamp"])
@pytest.mark.parametrize("ends", [(0.0, 1e200), (0.0, 1e-200), (-8e307, 8e307)])
def test_extreme_domains_have_the_same_interval_as_0_to_1(
    ends: tuple[float, float], placement: Literal["inset", "clamp"]
) -> None:
    low, high = ends
    extreme = OptimalPiecewise(Interval(low, high), 1.0, placement=placement)
    plain = OptimalPiecewise(Interval(0, 1), 1.0, placement=placement)
    counts = surveyed(plain, np.linspace(0.2, 0.9, 99), 1000, 1).counts
    expected, got = mean(Survey(plain, counts)).to_dict(), mean(Survey(extreme, counts)).to_dict()
    for name in ("value", "low", "high"):
        if expected[name] is None:
            assert got[name] is None
        else:
            assert got[name] / (high - low) == pytest.approx(expected[name] + low / (high - low), abs=1e-12)
    assert got["low"] < got["high"]


def test_an_estimate_beyond_the_range_of_a_float_stays_finite() -> None:
    mechanism = OptimalPiecewise(Interval(-8e307, 8e307), 0.1)
    counts = np.zeros(mechanism.kernel.codes)
    counts[-1] = 10
    estimate = mean(Survey(mechanism, counts))
    assert estimate.value == sys.float_info.max


@pytest.mark.parametrize("n", [3, 5, 10])
def test_few_reports_have_students_interval(n: int) -> None:
    # 400 surveys of a nearly normal average; at a coverage of 0.95 fewer than 364 have probability 4e-4. The
    # normal quantile would cover 0.82 of them for n = 3 and 0.88 for n = 5.
    mechanism = OptimalPiecewise(Interval(0, 1), 12.0)
    nodes = node_distribution(mechanism, np.random.default_rng(3).normal(0.5, 0.1, 2000))
    estimates = [mean(Survey(mechanism, drawn_counts(mechanism, nodes, n, seed))) for seed in range(400)]
    truth = float(nodes @ np.linspace(0, 1, len(nodes)))
    assert covered(estimates, truth) >= 364
    assert all("few reports" in estimate.note for estimate in estimates)


def test_many_reports_have_the_normal_interval() -> None:
    assert two_sided(0.95, 1000) == pytest.approx(NormalDist().inv_cdf(0.975), rel=2e-3)
    assert two_sided(0.95, 2.0**53) == pytest.approx(two_sided(0.95, math.inf), rel=1e-9)
    assert hotelling(0.95, 1000) == pytest.approx(-2 * math.log(0.05), rel=1e-2)
    assert hotelling(0.95, 2.0**53) == pytest.approx(hotelling(0.95, math.inf), rel=1e-9)
    for n in (5, 17):
        expected = 2 * (n - 1) / (n - 2) * float(f_law.ppf(0.9, 2, n - 2))
        assert hotelling(0.9, n) == pytest.approx(expected, rel=1e-9)


def test_one_report_of_clamp_has_the_domain() -> None:
    mechanism = OptimalPiecewise(DOMAIN, 20.0, placement="clamp")
    counts = np.zeros(mechanism.kernel.codes)
    counts[7] = 1
    estimate = mean(Survey(mechanism, counts))
    assert (estimate.low, estimate.high) == (-20.0, 180.0)
    assert "one report" in estimate.note
