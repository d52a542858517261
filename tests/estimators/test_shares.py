"""Shares of the population between two values: exact expectations, edges, a small coverage study."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from arcwise.analysis import estimate
from arcwise.analysis.estimators.estimation import unwrapped_estimate
from arcwise.analysis.estimators.shares import covered, share
from arcwise.analysis.estimators.survey import Survey
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms import Duchi, OptimalPiecewise
from arcwise.tasks import Task
from tests.support.surveys import drawn_counts, node_distribution, surveyed

DOMAIN = Interval(0, 100)


def asked(mechanism: OptimalPiecewise, values: Any, reports: int, seed: int, low: float, high: float) -> Any:
    return share(surveyed(mechanism, values, reports, seed), low, high)


@pytest.mark.slow
def test_coverage_of_shares() -> None:
    """120 surveys: with a true coverage of 0.93, fewer than 0.87 are covered in 1 % of runs."""
    mechanism = OptimalPiecewise(DOMAIN, 2.0, nodes=64)
    values = 100 * np.random.default_rng(1).beta(2, 5, 50_000)
    nodes = node_distribution(mechanism, values)
    widths = {(0.0, 30.0): 0.22, (20.0, 40.0): 0.38, (30.0, 100.0): 0.22}
    found: dict[tuple[float, float], list[Any]] = {part: [] for part in widths}
    for seed in range(120):
        survey = Survey(mechanism, drawn_counts(mechanism, nodes, 5000, seed))
        for part, values_of_part in found.items():
            values_of_part.append(share(survey, *part))
    for (low, high), shares in found.items():
        truth = float(((values >= low) & (values <= high)).mean())
        assert np.mean([each.contains(truth) for each in shares]) >= 0.87
        assert np.mean([each.high - each.low for each in shares]) < widths[low, high]
        assert abs(np.mean([each.value for each in shares]) - truth) < 0.02


def test_shares_of_nearly_exact_reports_are_the_truth() -> None:
    values = np.random.default_rng(1).random(100_000) * 100
    for low, high in ((0, 25), (25, 75), (90, 100), (-5, 50)):
        value = asked(OptimalPiecewise(DOMAIN, 12.0), values, 100_000, 3, low, high)
        truth = (min(high, 100) - max(low, 0)) / 100
        assert value.low - 0.005 <= truth <= value.high + 0.005
        assert value.high - value.low < 0.03


def test_an_estimate_without_shares_makes_no_bounds() -> None:
    """They cost two more fits of the reports, and quantiles of a circle are computed on request only."""
    task = Task("heading", Circle(360), 2.0)
    survey = Survey.of(task, [1] * task.mechanism.kernel.codes)
    assert unwrapped_estimate(task, survey).shares == {}
    assert "bounds" not in vars(survey)
    assert len(unwrapped_estimate(task, survey, between=[(0, 90)]).shares) == 1
    assert "bounds" in vars(survey)


def test_everything_is_one_and_what_lies_outside_nothing() -> None:
    values = np.random.default_rng(1).random(1000) * 100
    mechanism = OptimalPiecewise(DOMAIN, 1.0)
    whole = asked(mechanism, values, 1000, 1, -1, 101)
    assert (whole.value, whole.low, whole.high) == (pytest.approx(1), pytest.approx(1), pytest.approx(1))
    outside = asked(mechanism, values, 1000, 1, 101, 102)
    assert (outside.value, outside.low, outside.high) == (0, 0, 0)


def test_a_wider_range_never_has_a_lower_end_or_top() -> None:
    mechanism = OptimalPiecewise(DOMAIN, 1.0)
    values = 100 * np.random.default_rng(1).beta(2, 5, 5000)
    found = [asked(mechanism, values, 10_000, 5, 0, high) for high in (10, 20, 40, 80)]
    for narrow, wide in pairwise(found):
        assert narrow.value <= wide.value
        assert narrow.low <= wide.low + 2e-3
        assert narrow.high <= wide.high + 2e-3


def test_clamp_tells_no_share_within_its_end_zones() -> None:
    mechanism = OptimalPiecewise(DOMAIN, 1.0, placement="clamp")
    zone = 100 * mechanism.kernel.window / (2 * mechanism.kernel.codes)
    for at in (0.0, 0.99 * zone):
        value = asked(mechanism, [at], 20_000, 3, 0, zone / 2)
        assert value.value is None
        assert "end zone" in value.note
        assert value.contains(1.0 if at == 0 else 0.0)


def test_coarse_grids_are_wider() -> None:
    mechanism: Any = Duchi(DOMAIN, 8.0)
    values = np.full(1000, 40.0)
    value = asked(mechanism, values, 20_000, 3, 30, 50)
    assert (value.low, value.high) == (0.0, 1.0)
    assert "only 2 nodes" in value.note


def test_cells_are_covered_by_their_parts() -> None:
    edges = np.array([0.0, 0.1, 0.3, 0.5, 1.0])
    assert covered(edges, 0.2, 0.4, outer=True).tolist() == pytest.approx([0, 0.5, 0.5, 0])
    assert covered(edges, 0.05, 0.4, outer=False).tolist() == pytest.approx([0, 1, 0.5, 0])
    assert covered(edges, 0.05, 0.6, outer=True).tolist() == pytest.approx([1, 1, 1, 1])


def test_estimates_hold_the_shares_that_were_asked_for() -> None:
    task = Task("age", DOMAIN, 1.0)
    counts = [10] * task.mechanism.kernel.codes
    result = estimate(task, counts, between=[(0, 50), (90, 1e3)])
    assert list(result.shares) == ["0:50", "90:1000"]
    assert list(result.to_dict()["shares"]) == ["0:50", "90:1000"]
    assert "share 0:50" in str(result)
    assert "shares" not in estimate(task, counts).to_dict()
    for bad in ((5, 5), (6, 5), (math.nan, 1)):
        with pytest.raises(ParameterError, match="low and high must satisfy low < high"):
            estimate(task, counts, between=[bad])
    heading = Task("heading", Circle(360), 1.0)
    assert list(estimate(heading, [10] * 128, between=[(350, 10)]).shares) == ["350:10"]
