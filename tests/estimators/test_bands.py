"""The simultaneous band, bins, arcs and quantiles of a circle."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcwise.analysis import Band, estimate
from arcwise.analysis.estimators.quantiles import circular_quantiles
from arcwise.analysis.estimators.shares import bins, cdf_band, share
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.grid import arc_cover
from arcwise.analysis.simulate import simulate_counts
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms import OptimalCircular, OptimalPiecewise
from arcwise.tasks import Task
from arcwise.typing import FloatArray
from tests.support.known import there
from tests.support.surveys import drawn_counts, node_distribution, surveyed

CLOCK = Circle(24)


def headings(concentration: float, centre: float = 1.0) -> FloatArray:
    """Return 20,000 hours around one o'clock, many of them before midnight."""
    turns = np.random.default_rng(1).vonmises(0.0, concentration, 20_000) / (2 * math.pi)
    return (centre + 24 * turns) % 24


@pytest.mark.slow
def test_the_band_covers_the_whole_function() -> None:
    """Bonferroni ensures 0.95 or more: fewer than 16 of 20 has a probability of at most 0.003."""
    mechanism = OptimalPiecewise(Interval(0, 100), 2.0, nodes=64)
    values = np.sort(100 * np.random.default_rng(1).beta(2, 5, 20_000))
    truth = np.arange(1, len(values) + 1) / len(values)
    nodes = node_distribution(mechanism, values)
    covered, widths = 0, []
    for seed in range(20):
        counts = drawn_counts(mechanism, nodes, 5000, seed)
        band = cdf_band(Survey(mechanism, counts))
        bounds = np.array([band.bounds(x) for x in values[::50]])
        covered += bool(((bounds[:, 0] <= truth[::50]) & (truth[::50] <= bounds[:, 1])).all())
        widths.append(np.mean(bounds[:, 1] - bounds[:, 0]))
    assert covered >= 16
    assert np.mean(widths) < 0.3


def test_the_band_is_ordered_and_narrows_with_the_reports() -> None:
    mechanism = OptimalPiecewise(Interval(-5, 5), 4.0)
    values = np.random.default_rng(1).normal(0, 1, 20_000).clip(-5, 5)
    widths = []
    for n in (2000, 200_000):
        band = cdf_band(surveyed(mechanism, values, n, 1))
        assert list(band.at) == sorted(band.at)
        assert list(band.low) == sorted(band.low)
        assert list(band.high) == sorted(band.high)
        assert all(0 <= low <= high <= 1 for low, high in zip(band.low, band.high, strict=True))
        widths.append(np.mean(np.subtract(band.high, band.low)))
    assert widths[1] < 0.3 * widths[0]


def test_bounds_of_a_band_between_its_places() -> None:
    band = Band((1.0, 2.0), (0.1, 0.5), (0.3, 0.7), "by hand")
    assert band.bounds(0.0) == (0.0, 0.3)
    assert band.bounds(1.0) == (0.1, 0.3)
    assert band.bounds(1.5) == (0.1, 0.7)
    assert band.bounds(2.0) == (0.5, 0.7)
    assert band.bounds(3.0) == (0.5, 1.0)


def test_an_atom_at_an_end_is_inside_the_band() -> None:
    mechanism = OptimalPiecewise(Interval(0, 1), 2.0)
    values = np.concatenate([np.zeros(3000), np.random.default_rng(1).random(5000), np.ones(2000)])
    band = cdf_band(surveyed(mechanism, values, 50_000, 3))
    for x in (0.02, 0.1, 0.5, 0.9, 0.98):
        low, high = band.bounds(x)
        assert low <= 0.3 + 0.5 * x <= high
    assert band.bounds(0.9)[1] < 0.9


def test_bins_are_shares_and_their_points_sum_to_one() -> None:
    mechanism = OptimalPiecewise(Interval(10, 20), 1.0)
    survey = surveyed(mechanism, [12.0, 13.0, 17.0], 10_000, 2)
    found = bins(survey)
    assert next(iter(found)) == "10:11"
    assert len(found) == 10
    # End cells count as a half for a bound that falls inside; none does here.
    assert sum(value.value or 0.0 for value in found.values()) == pytest.approx(1.0)
    alone = share(Survey(mechanism, survey.counts), 12, 13)
    assert found["12:13"].value == alone.value
    # The weights that are tried for a bound depend a little on the previous ones.
    assert found["12:13"].low == pytest.approx(alone.low, abs=0.01)
    assert found["12:13"].high == pytest.approx(alone.high, abs=0.01)
    sectors = OptimalCircular(CLOCK, 1.0)
    found = bins(surveyed(sectors, headings(2.0), 10_000, 2))
    assert list(found)[-1] == "22:24"
    assert sum(value.value or 0.0 for value in found.values()) == pytest.approx(1.0)
    coarse = OptimalPiecewise(Interval(0, 1), 1.0, nodes=8)
    assert bins(Survey(coarse, np.ones(coarse.kernel.codes), probabilities=np.full(8, 1 / 8))) == {}


@given(start=st.floats(-0.5, 0.5), first=st.floats(-3, 3), length=st.floats(0, 1.5), cells=st.integers(2, 40))
def test_arcs_cover_their_length(start: float, first: float, length: float, cells: int) -> None:
    edges = start + np.arange(cells + 1) / cells
    part = arc_cover(edges, first, length)
    assert part.min() >= 0.0
    assert part.max() <= 1.0
    assert part.sum() / cells == pytest.approx(min(length, 1.0), abs=1e-9)
    rest = arc_cover(edges, first + length, 1.0 - length)
    if length <= 1:
        np.testing.assert_allclose(part + rest, 1.0, atol=1e-6)


def test_arcs_across_midnight() -> None:
    mechanism = OptimalCircular(CLOCK, 3.0)
    values = headings(2.0)
    survey = surveyed(mechanism, values, 100_000, 2)
    truth = float(((values >= 22) | (values < 4)).mean())
    for low, high in ((22, 4), (-2, 4), (22, 28)):
        found = share(survey, low, high)
        assert found.contains(truth)
        assert found.value == pytest.approx(truth, abs=0.03)
    assert share(survey, 4, 22).value == pytest.approx(1 - (found.value or 0.0), abs=1e-9)
    whole = share(survey, 5, 29)
    assert (whole.value, whole.low, whole.high) == pytest.approx((1.0, 1.0, 1.0))
    for bad in ((3.0, 3.0), (math.nan, 1.0), (0.0, -24.0)):
        with pytest.raises(ParameterError, match="low and high"):
            share(survey, *bad)


AROUND = OptimalCircular(CLOCK, 2.0, nodes=64)


@cache
def headings_reported(seed: int) -> Survey:
    return surveyed(AROUND, headings(1.0), 5000, seed)


@pytest.mark.parametrize("origin", [12.0, -11.0, 0.0])
@pytest.mark.slow
def test_coverage_of_circular_quantiles(origin: float) -> None:
    """30 surveys of 5 quantiles: at 0.95 each, fewer than 24 of 30 has a probability of 0.003 in all."""
    truth = np.quantile((headings(1.0) - origin) % 24, [0.05, 0.25, 0.5, 0.75, 0.95]) + origin
    covered = np.zeros(5)
    for seed in range(30):
        found = list(circular_quantiles(headings_reported(seed), origin).values())
        covered += [value.contains(t, period=24) for value, t in zip(found, truth, strict=True)]
        assert all(0 <= (value.value or 0.0) < 24 for value in found)
        assert max((value.high or 0) - (value.low or 0) for value in found) < 24
    assert covered.min() >= 24


def test_the_default_origin_is_opposite_the_mean_direction() -> None:
    task = Task("hour", CLOCK, epsilon=2.0)
    counts = surveyed(task.mechanism, headings(2.0), 50_000, 2).counts.astype(int)
    plain = estimate(task, counts)
    assert plain.quantiles == {}
    assert plain.bins == {}
    result = estimate(task, counts, bands=True)
    assert result.quantile(0.5).contains(1.0, period=24)
    assert "counted upwards from 13" in result.quantile(0.5).note or "from 12.9" in str(result)
    assert len(result.bins) == 12
    midnight = estimate(task, counts, origin=0.0)
    assert midnight.quantile(0.5).value != result.quantile(0.5).value
    assert "counted upwards from 0" in midnight.quantile(0.5).note
    assert midnight.bins == {}
    uniform = drawn_counts(task.mechanism, np.full(128, 1 / 128), 1000, 1).astype(int)
    assert estimate(task, uniform, bands=True).quantiles == {}
    with pytest.raises(ParameterError, match="origin"):
        estimate(task, counts, origin=math.nan)


def test_bands_of_an_interval_and_their_json() -> None:
    task = Task("age", Interval(0, 100), epsilon=2.0)
    counts = surveyed(task.mechanism, [20.0, 30.0, 70.0], 5000, 2).counts.astype(int)
    shown = estimate(task, counts, bands=True).to_dict()
    assert set(shown["band"]) == {"at", "low", "high", "method", "note", "notes"}
    assert len(shown["bins"]) == 10
    assert shown["mode"]["low"] is not None
    with pytest.raises(ParameterError, match="origin"):
        estimate(task, counts, origin=0.0)
    circle = OptimalCircular(CLOCK, 1.0)
    with pytest.raises(ParameterError, match="circle"):
        cdf_band(Survey(circle, np.ones(circle.kernel.codes), probabilities=np.full(128, 1 / 128)))


def test_numbers_far_from_zero_are_told_apart() -> None:
    """In seconds since 1970, six digits would give the whole day the same number."""
    day = Interval(1.7e9, 1.7e9 + 86_400)
    task = Task("event", day, 2.0)
    counts = simulate_counts(task, "uniform", 20_000, np.random.default_rng(1))
    shares = [(1.7e9 + hour, 1.7e9 + 40_000) for hour in (3_600, 7_200)]
    result = estimate(task, counts, bands=True, between=shares)
    assert (len(result.bins), len(result.shares)) == (10, 2)
    bounds = [tuple(map(float, name.split(":"))) for name in result.bins]
    assert bounds == [(1.7e9 + 8640 * k, 1.7e9 + 8640 * (k + 1)) for k in range(10)]
    assert str(day) == "[1700000000, 1700086400]"
    assert result.mean is not None
    words = str(result.mean).replace("[", "").replace("]", "").replace(",", "").split()
    told = [result.mean.value, result.mean.low, result.mean.high]
    assert list(map(float, words)) == pytest.approx(told, rel=0, abs=50)
    result.plot()


def test_notes_are_told_once_with_the_rows_that_they_are_about() -> None:
    task = Task("x <y>", Interval(0, 1), 1.0)
    counts = np.zeros(task.mechanism.kernel.codes, dtype=np.int64)
    counts[100] = 1
    result = estimate(task, counts, bands=True)
    text, page = str(result), result._repr_html_()
    notes = [line for line in text.splitlines() if line.startswith("  note: ")]
    few = [note for note in notes if "few reports" in note]
    assert len(few) == 1
    assert few[0].endswith("rough")  # all rows have the note
    assert sum("the value is from a smoothed fit" in note for note in notes) == 1
    assert any(note.endswith("(quantiles, bins)") for note in notes)
    assert page.count("<p>note: ") == len(notes)
    assert text.startswith("x <y>: 1 report at")


def test_a_domain_of_a_few_floats_has_no_bins_and_no_variance() -> None:
    task = Task("tiny", Interval(0, 5e-324), epsilon=1.0)
    result = estimate(task, [10] * task.mechanism.kernel.codes, bands=True)
    assert result.bins == {}
    assert there(result.variance).low is None
    assert "exceed the range of a float" in there(result.variance).note
    huge = Task("huge", Interval(-1e307, 1e307), epsilon=1.0)
    wide = estimate(huge, [10] * huge.mechanism.kernel.codes)
    assert there(wide.variance).value is None
    assert 1e306 < (there(wide.standard_deviation).value or 0.0) < 1e307
