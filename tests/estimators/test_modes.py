"""The number of modes that reports show, and pictures with as many."""

import math
from dataclasses import replace
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.analysis import Estimate, estimate, post_stratify
from arcwise.analysis.estimators.histogram import as_drawn, k_modal, most_prominent
from arcwise.analysis.estimators.modes import _Waves, count_modes
from arcwise.analysis.simulate import simulate_counts
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.tasks import Task
from benchmarks.studies.modes import survey
from tests.support.known import there

HEIGHTS = st.lists(st.floats(0.0, 1.0, width=16), min_size=3, max_size=7)
LEVEL = Task("level", Interval(0, 1), 2.0)
HEADING = Task("heading", Circle(1), 2.0, goal="distribution")


def rising(heights: list[float], widths: list[float]) -> np.ndarray:
    """Return the isotonic regression by its max-min formula."""
    h, w = np.array(heights), np.array(widths)
    means = [
        [h[a : b + 1] @ w[a : b + 1] / w[a : b + 1].sum() if b >= a else np.inf for b in range(len(h))]
        for a in range(len(h))
    ]
    return np.array([max(min(means[a][i:]) for a in range(i + 1)) for i in range(len(h))])


def modes_of(heights: np.ndarray, *, circular: bool) -> int:
    first = int(np.argmin(heights)) if circular else 0
    line = [0.0, *np.roll(heights, -first), 0.0]
    signs = [np.sign(b - a) for a, b in pairwise(line) if abs(b - a) > 1e-12]
    return sum(left > right for left, right in pairwise(signs))


@given(HEIGHTS, st.integers(1, 2), st.booleans(), st.data())
def test_the_projection_is_the_nearest_with_k_modes(
    heights: list[float], k: int, circular: bool, data: st.DataObject
) -> None:
    size = len(heights)
    widths = (
        [1.0] * size
        if circular
        else data.draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=size, max_size=size))
    )
    h, w = np.array(heights), np.array(widths)
    found = k_modal(h, w, k, circular=circular)
    assert found @ w == pytest.approx(h @ w)
    assert modes_of(found, circular=circular) <= k
    if circular:
        return  # a circle is cut at its lowest cell, without trying others
    costs = []
    for cuts in combinations_with_replacement(range(size + 1), 2 * k - 1):
        nearest = np.empty(size)
        for piece, (a, b) in enumerate(pairwise([0, *cuts, size])):
            sign = (-1) ** piece
            if a < b:
                nearest[a:b] = sign * rising((sign * h[a:b]).tolist(), widths[a:b])
        costs.append(w @ (h - nearest) ** 2)
    assert w @ (h - found) ** 2 == pytest.approx(min(costs), abs=1e-9)


def test_the_most_prominent_modes_stay() -> None:
    heights = np.array([1.0, 3.0, 2.5, 2.8, 0.0, 2.0, 2.0, 1.0, 1.5, 0.5])
    assert most_prominent(heights, 9, circular=False) == [1, 2, 3, 4, 5, 7, 8]
    assert most_prominent(heights, 2, circular=False) == [1, 4, 5]
    assert most_prominent(heights, 1, circular=False) == [1]
    assert most_prominent(np.roll(heights, 3), 1, circular=True) == [7, 14]


@pytest.mark.parametrize("task", [LEVEL, HEADING], ids=["interval", "circle"])
def test_the_search_finds_the_nearest_of_all_with_one_mode(task: Task) -> None:
    """Nearly: it may end in a local minimum, but in none that is further away by more than chance."""
    mechanism, circular = task.mechanism, task.domain.circular
    for seed in range(5):
        counts = simulate_counts(task, "normal:0.4,0.1", 20_000, np.random.default_rng(seed))
        waves = _Waves(mechanism, np.full(mechanism.kernel.nodes, 1.0 / mechanism.kernel.nodes), 20_000.0)
        seen = waves.of(counts / counts.sum())
        cells = len(waves.widths)
        _, spikes = waves.nearest(seen)
        found = waves.search(seen, most_prominent(spikes, 1, circular=circular))
        starts = range(0, cells, 4) if circular else [0]
        every = [
            waves._turning(seen, [start, start + peak] if circular else [peak]).distance
            for start in starts
            for peak in range(0, cells + 1, 4 if circular else 1)
        ]
        assert found.distance <= min(every) + 2.0


@pytest.mark.parametrize(
    ("domain", "population", "modes"),
    [
        ("interval", "normal", 1),
        ("interval", "two-bumps", 2),
        ("circle", "narrow", 1),
        ("circle", "opposite", 2),
    ],
)
def test_surveys_show_the_modes_of_the_population(domain: str, population: str, modes: int) -> None:
    """At most 3 of 20 show more: 2 false alarms in 1,000 at 4 % each. For clear modes, none shows fewer."""
    made = [survey(domain, population, (2.0, 100_000), [7, number]) for number in range(20)]
    assert sum(one.modes > modes for one in made) <= 3
    assert not any(one.modes < modes for one in made)
    assert np.median([one.ratio for one in made]) < 1.05


def test_how_values_fall_on_the_grid_is_no_mode() -> None:
    """Whole years on a grid with other places: in 18 of 20 surveys, a million reports showed a false mode."""
    made = [survey("interval", "ages", (4.0, 1_000_000), [7, number]) for number in range(20)]
    assert sum(one.modes > 1 for one in made) <= 3


def test_the_same_devices_again_are_fewer_reports() -> None:
    """Ten devices at ten places, a thousand reports each: at a large epsilon they look like ten modes."""
    task = Task("level", Interval(0, 1), 6.0)
    values = np.repeat(np.random.default_rng(3).random(10), 1_000)
    counts = simulate_counts(task, values, 10_000, np.random.default_rng(4), fixed=True)
    alone, again = estimate(task, counts), estimate(task, counts, reports_per_device=1_000)
    assert (there(alone.distribution).modes or 0) > 4
    assert there(again.distribution).modes == 1


@pytest.mark.parametrize("task", [LEVEL, HEADING], ids=["interval", "circle"])
def test_pictures_show_as_many_modes(task: Task) -> None:
    counts = simulate_counts(task, "normal:0.4,0.1", 20_000, np.random.default_rng(1))
    result = estimate(task, counts)
    fit = there(result.distribution)
    circular = task.domain.circular
    drawn = as_drawn(fit, circular=circular)
    assert fit.modes == 1
    assert modes_of(drawn / np.diff(fit.edges), circular=circular) == 1
    assert modes_of(np.array(fit.probabilities) / np.diff(fit.edges), circular=circular) > 5
    assert drawn.sum() == pytest.approx(1.0)
    assert "at least 1 mode" in str(result)
    assert Estimate.from_dict(result.to_dict()).distribution == fit
    # In any unit, to the last digit, although squares of heights overflow there.
    for exponent in (-700, -530, 0, 700):
        edges = tuple(math.ldexp(edge, exponent) for edge in fit.edges)
        wide = None if fit.resolution is None else math.ldexp(fit.resolution, exponent)
        scaled = as_drawn(replace(fit, edges=edges, resolution=wide), circular=circular)
        assert scaled.tolist() == drawn.tolist()
    # Documents of earlier versions, and fit="raw", draw the fitted values.
    old = replace(fit, modes=None, resolution=None)
    assert as_drawn(old, circular=circular).tolist() == list(fit.probabilities)
    with pytest.raises(ParameterError, match='fit must be "modes" or "raw"'):
        result.plot(fit="smooth")  # type: ignore[call-overload]


def test_strata_have_modes_of_their_own() -> None:
    rng = np.random.default_rng(1)
    strata = {
        name: simulate_counts(LEVEL, f"normal:{at},0.05", 20_000, rng)
        for name, at in (("a", 0.2), ("b", 0.8))
    }
    whole = there(post_stratify(LEVEL, strata, {"a": 1.0, "b": 1.0}).distribution)
    assert whole.modes == 2


def test_few_reports_and_very_many() -> None:
    kernel = LEVEL.mechanism.kernel
    counts = np.zeros(kernel.codes)
    counts[[5, 50, 100]] = 1.0
    fitted = np.full(kernel.nodes, 1.0 / kernel.nodes)
    assert count_modes(LEVEL.mechanism, counts / 3.0, 3.0, fitted).number == 1
    # Nothing overflows, and details finer than the grid remain.
    law = kernel.probabilities([40])[0]
    assert count_modes(LEVEL.mechanism, law, 1e15, fitted).number == 1
