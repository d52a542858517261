"""The mode: windows on intervals and circles, atoms and narrow cells at the ends, its interval."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.analysis import estimate
from arcwise.analysis.estimators.mode import _covered, _hull, _Windows, _windows, mode
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.grid import cell_edges
from arcwise.analysis.likelihood.distribution import uniform_start
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import Duchi, Mechanism, OptimalCircular, OptimalPiecewise
from arcwise.tasks import Task
from arcwise.typing import FloatArray
from tests.support.known import bounded, known, there, width
from tests.support.strategies import ALL_EXAMPLES, Example
from tests.support.surveys import drawn_counts, expected_counts, node_distribution, surveyed

AGE = Interval(0, 100)
HEADING = Circle(360)


def counted(mechanism: Mechanism) -> FloatArray:
    """Return some counts; the point estimate needs only their number."""
    return np.full(mechanism.kernel.codes, 100.0)


def test_a_window_counts_not_a_cell() -> None:
    """The half cell at the end is densest, but its window holds less than another window."""
    mechanism = OptimalPiecewise(AGE, 1.0)
    fitted = uniform_start(mechanism)
    fitted[0] *= 3.0
    fitted[60:76] *= 1.2
    fitted /= fitted.sum()
    densities = fitted / np.diff(cell_edges(mechanism))
    assert densities.argmax() == 0
    found = mode(Survey(mechanism, counted(mechanism), probabilities=fitted), interval=False)
    assert 47 <= there(found.value) <= 60
    assert found.low is None
    assert "not computed without bands" in found.note


@pytest.mark.parametrize(("end", "expected"), [(0, 0.0), (-1, 100.0)])
def test_people_at_an_end_are_an_atom_there(end: int, expected: float) -> None:
    mechanism = OptimalPiecewise(AGE, 1.0)
    fitted = uniform_start(mechanism)
    fitted[end] += 0.1
    fitted /= fitted.sum()
    assert mode(Survey(mechanism, counted(mechanism), probabilities=fitted), interval=False).value == expected


@pytest.mark.parametrize("node", [0, 1, 40, 63])
def test_a_circle_has_no_ends(node: int) -> None:
    mechanism = OptimalCircular(HEADING, 1.0, nodes=64)
    fitted = np.roll(np.r_[0.03, 0.06, 0.03, np.zeros(61)], node - 1) + 0.01
    fitted /= fitted.sum()
    found = there(mode(Survey(mechanism, counted(mechanism), probabilities=fitted), interval=False).value)
    at = 360 * float(mechanism.node_units(np.array([float(node)]))[0])
    assert (found - at + 180) % 360 - 180 == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    "mechanism", [OptimalPiecewise(AGE, 1.0), OptimalCircular(HEADING, 1.0)], ids=["interval", "circle"]
)
def test_where_no_window_holds_more_there_is_no_mode(mechanism: Mechanism) -> None:
    counts = drawn_counts(mechanism, uniform_start(mechanism), 5000, 3)
    found = mode(Survey(mechanism, counts, probabilities=uniform_start(mechanism)))
    assert found.value is None
    assert "no window of the fitted distribution holds more" in found.note
    assert (found.low, found.high) == (0.0, mechanism.domain.length)


def test_few_nodes_show_no_mode() -> None:
    found = mode(
        Survey(Duchi(AGE, 1.0), np.array([5.0, 9.0]), probabilities=np.array([0.2, 0.8])), interval=False
    )
    assert (found.value, found.low, found.high) == (None, None, None)
    assert "too few nodes (2)" in found.note


@given(nodes=st.integers(9, 300), circular=st.booleans(), seed=st.integers(0, 2**32))
def test_windows_cover_the_domain_evenly(nodes: int, circular: bool, seed: int) -> None:
    mechanism: Mechanism = (
        OptimalCircular(HEADING, 1.0, nodes=nodes) if circular else OptimalPiecewise(AGE, 1.0, nodes=nodes)
    )
    windows = _windows(2.0 / (nodes if circular else nodes - 1), circular=circular)
    edges = cell_edges(mechanism)
    least, most = _covered(edges, windows, circular=circular)
    np.testing.assert_array_equal(least, most)  # for an inset mechanism no end cell is cut
    # For a uniform population, every window holds its width; for any other, at most everything.
    np.testing.assert_allclose(least @ np.diff(edges), windows.width, atol=1e-9)
    law = np.random.default_rng(seed).dirichlet(np.ones(nodes) / 5)
    assert (least @ law).max() >= windows.width - 1e-9
    assert (least @ law).max() <= 1.0 + 1e-9
    assert np.diff(windows.starts).max() <= windows.width / 2


def test_the_arc_of_windows_is_the_smallest() -> None:
    windows = _Windows(np.arange(32) / 32, 1 / 8)

    def arc(*kept: int) -> tuple[float, float]:
        marked = np.zeros(32, dtype=bool)
        marked[list(kept)] = True
        return _hull(marked, windows, circular=True)

    assert arc(3) == pytest.approx((3 / 32, 7 / 32))
    assert arc(30, 31, 1) == pytest.approx((30 / 32, 37 / 32))
    assert arc(1, 20) == pytest.approx((20 / 32, 37 / 32))
    assert arc(1, 6, 9) == pytest.approx((1 / 32, 13 / 32))
    assert arc(*range(0, 32, 4)) == (0.0, 1.0)


def test_clamp_tells_a_mode_only_outside_of_the_end_zones() -> None:
    mechanism = OptimalPiecewise(AGE, 1.0, placement="clamp")
    found = mode(surveyed(mechanism, [48.0, 50.0, 52.0], 50_000, 1))
    assert found.value == pytest.approx(50, abs=5)
    assert bounded(found).low > 20
    # Each zone holds 19 % of the uniform population, and all of it may be at one place.
    found = mode(surveyed(mechanism, np.linspace(0, 100, 999), 50_000, 1))
    assert found.value is None
    assert "an end zone" in found.note
    assert (found.low, found.high) == (0.0, 100.0)


def fullest(values: FloatArray, windows: _Windows, *, circular: bool) -> float:
    """Return the middle of the window that holds most of the values."""
    copies = np.concatenate([values, values + 1.0]) if circular else values
    inside = np.abs(copies[:, None] - windows.starts - windows.width / 2) <= windows.width / 2
    held = inside.sum(axis=0)
    return float(windows.starts[int(np.argmax(held))] + windows.width / 2)


@pytest.mark.slow
@pytest.mark.parametrize("circular", [False, True], ids=["interval", "circle"])
def test_coverage_and_length_of_the_interval(circular: bool) -> None:
    """60 surveys of two groups, the second four fifths of the first.

    At a coverage of 0.95, fewer than 51 have probability 2e-4; Bonferroni makes the coverage higher.
    """
    generator = np.random.default_rng(2)
    groups = generator.normal(0.25, 0.04, 5000), generator.normal(0.7, 0.04, 4000)
    values = np.clip(np.concatenate(groups), 0.0, 1.0 - 1e-12)
    mechanism: Mechanism = (
        OptimalCircular(Circle(1), 4.0) if circular else OptimalPiecewise(Interval(0, 1), 4.0)
    )
    truth = fullest(values, _windows(0.0, circular=circular), circular=circular)
    assert truth == pytest.approx(0.25, abs=0.05)
    law = node_distribution(mechanism, values)
    covered, lengths = 0, []
    for seed in range(60):
        found = known(mode(Survey(mechanism, drawn_counts(mechanism, law, 20_000, seed))))
        assert found.low <= found.value <= found.high
        covered += found.contains(truth, period=1 if circular else None)
        lengths.append(found.high - found.low)
    assert covered >= 51
    # Most surveys distinguish the two groups, and no interval is shorter than a window.
    assert np.median(lengths) < 0.3
    assert min(lengths) >= 1 / 8 - 1e-9


def test_more_reports_do_not_lose_the_mode() -> None:
    mechanism = OptimalPiecewise(AGE, 1.0)
    values = 100 * np.random.default_rng(1).beta(2, 5, 20_000)
    lengths = []
    for n in (1e3, 1e5, 1e7):
        counts = expected_counts(mechanism, node_distribution(mechanism, values), n).round()
        found = mode(Survey(mechanism, counts))
        assert found.contains(20.0)
        lengths.append(width(found))
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < 35


@pytest.mark.parametrize("example", ALL_EXAMPLES, ids=repr)
def test_every_mechanism_has_a_mode_or_says_why_not(example: Example) -> None:
    mechanism = example.make(4.0)
    values = mechanism.domain.from_unit(np.random.default_rng(1).normal(0.5, 0.03, 5000))
    counts = drawn_counts(mechanism, node_distribution(mechanism, values), 50_000, 1).astype(np.int64)
    found = estimate(Task("survey", mechanism.domain, mechanism.epsilon, mechanism=mechanism), counts).mode
    assert found is not None
    if mechanism.kernel.nodes < 9:
        assert "too few nodes" in found.note
        return
    middle, length = float(mechanism.domain.from_unit(np.float64(0.5))), mechanism.domain.length
    assert found.value is not None
    assert abs(found.value - middle) <= 0.1 * length + 2 * length / mechanism.kernel.nodes


@pytest.mark.parametrize("domain", [AGE, HEADING], ids=["interval", "circle"])
def test_estimate_has_the_interval_with_bands(domain: Any) -> None:
    task = Task("place", domain, epsilon=4.0)
    mechanism = task.mechanism
    values = 0.05 * domain.length + np.random.default_rng(1).normal(0, 0.01 * domain.length, 3000)
    law = node_distribution(mechanism, np.maximum(values, 0.0))
    counts = drawn_counts(mechanism, law, 20_000, 1).astype(np.int64)
    plain, banded = there(estimate(task, counts).mode), bounded(estimate(task, counts, bands=True).mode)
    assert plain.low is None
    assert plain.value == banded.value
    assert banded.contains(0.05 * domain.length)
    assert banded.high - banded.low < 0.3 * domain.length
    assert "Bonferroni" in banded.method
