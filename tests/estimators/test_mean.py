"""The mean: unbiased in exact arithmetic, its interval, and the identified set of the clamp placement."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.domains import Interval
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms import OptimalPiecewise
from arcwise.server.estimators.grid import node_units
from arcwise.server.estimators.mean import clamp_bounds, clamp_units, mean
from strategies import epsilons
from surveys import drawn_counts, expected_counts, node_distribution

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
    estimate = mean(mechanism, counts)
    assert estimate.value == pytest.approx(values.mean(), abs=1e-8)
    assert estimate.contains(float(values.mean()))


@given(epsilon=epsilons, nodes=st.integers(2, 60), seed=st.integers(0, 2**32))
def test_clamp_bounds_are_those_of_the_node_distribution(epsilon: float, nodes: int, seed: int) -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), epsilon, placement="clamp", nodes=nodes)
    kernel = mechanism.kernel
    f = np.random.default_rng(seed).dirichlet(np.ones(nodes))
    middle = float(f @ node_units(mechanism, np.arange(nodes, dtype=np.float64)))
    zone = kernel.window / (2 * kernel.codes)
    scale = float(np.abs(np.stack(clamp_units(kernel))).max())
    low, high = clamp_bounds(kernel, f)
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
        estimate = mean(mechanism, counts)
        assert estimate.value is None
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.contains(float(values.mean()))
        assert -20 <= estimate.low <= estimate.high <= 180
        assert "no single mean" in estimate.note
        if population != "uniform":
            assert estimate.high - estimate.low >= zone  # the reports are the same all over the zone


def test_piled_up_anywhere_in_a_zone_is_one_identified_set() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0, placement="clamp")
    zone = mechanism.kernel.window / (2 * mechanism.kernel.codes)
    laws = [node_distribution(mechanism, [x]) for x in (0.0, zone / 2, zone)]
    low, high = clamp_bounds(mechanism.kernel, laws[0])
    np.testing.assert_array_equal(laws[0], laws[1])
    np.testing.assert_array_equal(laws[0], laws[2])
    assert low == pytest.approx(0.0, abs=1e-12)
    assert high == pytest.approx(zone, abs=1e-12)


def test_coverage_of_the_mean() -> None:
    # 400 surveys: were the coverage 0.95, fewer than 364 or more than 394 would have probability 4e-4.
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0, nodes=32)
    values = np.random.default_rng(3).beta(2, 5, 2000)
    nodes = node_distribution(mechanism, values)
    covered = sum(
        mean(mechanism, drawn_counts(mechanism, nodes, 1000, seed)).contains(float(values.mean()))
        for seed in range(400)
    )
    assert 364 <= covered <= 394


def test_one_report_has_no_interval_and_agreeing_reports_a_wide_one() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0)
    counts = np.zeros(mechanism.kernel.codes)
    counts[50] = 1
    one = mean(mechanism, counts)
    assert one.value == pytest.approx(mechanism.values[50])
    assert (one.low, one.high) == (None, None)
    assert "one report" in one.note
    counts[50] = 3
    three = mean(mechanism, counts)
    assert three.low is not None
    assert three.high is not None
    # Three equal reports: the sample variance is 0, the device's own randomness is not.
    assert three.high - three.low > 1.0
    assert "outside the domain" in three.note


def test_a_higher_level_is_a_wider_interval() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 1.0)
    counts = np.full(mechanism.kernel.codes, 100.0)
    narrow, wide = mean(mechanism, counts, level=0.9), mean(mechanism, counts, level=0.99)
    assert narrow.low is not None
    assert wide.low is not None
    assert wide.low < narrow.low
