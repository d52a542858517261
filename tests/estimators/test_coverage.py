"""The coverage study, a small seeded part of it: its truths, its figures and its bounds.

The whole study is ``python benchmarks/coverage.py``.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from coverage_study import GAP, Study, run, summary
from scipy.stats import binom
from truths import CIRCLES, INTERVALS, Range, Truth

from arcwise.server.simulate import Atoms, Beta, Histogram

FALSE_ALARM = 1e-4
"""Of each bound here, were every interval to cover in exactly 0.95 of surveys. Seeds are fixed."""


def pooled(studies: list[Study], estimate: str) -> tuple[int, float]:
    """Return the number of surveys and the share of intervals that cover, each survey's items averaged."""
    each = [
        np.stack([rows[:, 0] for (name, _), rows in study.found.items() if name == estimate]).mean(axis=0)
        for study in studies
        if any(name == estimate for name, _ in study.found)
    ]
    together = np.concatenate(each)
    return len(together), float(together.mean())


@pytest.fixture(scope="module")
def moments() -> list[Study]:
    return run(parts=["moments"], repeats=80, reports=[10_000], epsilons=[1.0])


@pytest.mark.parametrize(
    "estimate",
    ["mean", "variance", "standard deviation", "direction", "resultant length", "whole circle"],
)
def test_coverage_of_moments(moments: list[Study], estimate: str) -> None:
    # Surveys are independent, one interval each: 80 (whole circle), 320 (direction), 400 or 480 of them.
    surveys, covered = pooled(moments, estimate)
    assert covered * surveys >= binom.ppf(FALSE_ALARM, surveys, 0.95)
    if estimate == "mean":
        assert covered * surveys <= binom.isf(FALSE_ALARM, surveys, 0.95)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "estimates"),
    [
        ("profile", {"quantiles": 24, "distribution function": 24, "quantiles of circles": 20, "arcs": 20}),
        ("bands", {"simultaneous band": 12, "bins": 12, "bins of circles": 10}),
    ],
)
def test_coverage_by_profile_likelihood(part: str, estimates: dict[str, int]) -> None:
    # Intervals of one survey go together; were they all to cover or all to fail, the average over the items
    # of 24 surveys would still be that of 24 coins.
    repeats = max(estimates.values()) // len(INTERVALS)
    studies = run(parts=[part], repeats=repeats, reports=[10_000], epsilons=[1.0])
    for estimate, number in estimates.items():
        surveys, covered = pooled(studies, estimate)
        assert surveys == number
        assert covered * surveys >= binom.ppf(FALSE_ALARM, surveys, 0.95)
    assert 0 < max(study.gap for study in studies) <= GAP


def test_every_data_set_is_surveyed_and_shown(moments: list[Study]) -> None:
    places = [(study.place.circular, study.place.population) for study in moments]
    assert places == [(False, name) for name in INTERVALS] + [(True, name) for name in CIRCLES]
    lines, missed = summary(moments)
    assert not missed
    for name in (*INTERVALS, *(f"{name}, circle" for name in CIRCLES)):
        assert any(re.match(f"    {re.escape(name)} +80 ", line) for line in lines), name


@pytest.mark.parametrize(("level", "missing"), [(0.85, "variance"), (0.85, "direction"), (0.995, "mean")])
def test_intervals_of_another_level_miss_the_bounds(level: float, missing: str) -> None:
    studies = run(parts=["moments"], repeats=60, reports=[10_000], epsilons=[1.0], level=level)
    assert any(each.startswith(missing) for each in summary(studies)[1])


def test_surveys_do_not_depend_on_the_number_of_jobs() -> None:
    asked = {"parts": ["moments"], "repeats": 3, "reports": [1000], "epsilons": [2.0], "seed": 4}
    one, two = (run(**asked, jobs=jobs) for jobs in (1, 2))  # type: ignore[arg-type]
    assert [study.place for study in one] == [study.place for study in two]
    for left, right in zip(one, two, strict=True):
        assert list(left.found) == list(right.found)
        for name, rows in left.found.items():
            np.testing.assert_array_equal(rows, right.found[name])


def test_truths() -> None:
    beta = Truth(Beta(2, 5))
    assert beta.mean == pytest.approx(2 / 7, abs=1e-12)
    assert beta.variance == pytest.approx(10 / (49 * 8), abs=1e-10)
    low, high = beta.quantile(0.3)
    assert low == pytest.approx(high, abs=1e-9)
    assert beta.population.cdf(np.array([low]))[0] == pytest.approx(0.3, abs=1e-9)
    atoms = Truth(Atoms([0.2, 0.8]))
    assert atoms.variance == pytest.approx(0.09, abs=1e-9)
    assert atoms.quantile(0.5) == pytest.approx((0.2, 0.8))  # any number between the two is a median
    assert atoms.quantile(0.4) == pytest.approx((0.2, 0.2))
    assert atoms.share(0.0, 0.8) == Range(0.5, 1.0)  # without and with the atom
    assert atoms.share(0.2, 0.5) == Range(0.0, 0.5)
    flat = Truth(Histogram([0.0, 0.3, 0.6, 1.0], [0.25, 0.0, 0.75]))
    assert flat.quantile(0.25) == pytest.approx((0.3, 0.6), abs=1e-9)
