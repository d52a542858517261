"""Notes on uninformative estimates: domains far too wide, and means that leave their domain."""

import re

import numpy as np
import pytest

from arcwise.analysis import estimate, post_stratify, simulate_counts
from arcwise.domains import Circle, Interval
from arcwise.tasks import Task
from tests.support.known import bounded, there


def notes(task: Task, population: str, n: int, seed: int = 1) -> str:
    counts = simulate_counts(task, population, n, np.random.default_rng(seed))
    return there(estimate(task, counts).mean).note


@pytest.mark.parametrize(
    ("domain", "population", "epsilon", "n"),
    [
        (Interval(0, 10_000), "normal:30,8", 1.0, 100_000),
        (Interval(-5000, 5000), "normal:30,8", 2.0, 100_000),
        (Interval(0, 1000, step=1), "normal:130,2", 2.0, 200_000),
        (Interval(0, 100_000, step=1), "normal:30,8", 4.0, 10_000),
    ],
    ids=str,
)
def test_a_domain_a_hundred_times_too_wide_is_told(
    domain: Interval, population: str, epsilon: float, n: int
) -> None:
    note = notes(Task("x", domain, epsilon, unit="min"), population, n)
    assert "nine in ten values lie between" in note
    assert " min, and the error of a mean grows with the length of the domain" in note
    assert "cost no device more privacy, but they publish that most values lie there" in note
    low, high = map(float, re.findall(r"bounds from (\S+) to (\S+) with clip", note)[0])
    middle = float(population.split(":")[1].split(",", maxsplit=1)[0])
    assert domain.low <= low <= middle - 16 or low == domain.low
    assert middle + 16 <= high <= domain.high
    assert (high - low) <= domain.length / 3


@pytest.mark.parametrize(
    ("domain", "population", "epsilon", "n"),
    [
        (Interval(0, 10_000), "normal:30,8", 1.0, 300),  # too few reports to know
        (Interval(0, 100), "normal:40,2", 4.0, 100_000),  # a tenth of the domain
        (Interval(0, 10_000), "0.9*normal:30,8 + 0.1*normal:8000,10", 4.0, 100_000),
        (Interval(1, 5, step=1), "atom:3", 4.0, 100_000),  # five values are not too many
    ],
    ids=str,
)
def test_other_domains_are_not(domain: Interval, population: str, epsilon: float, n: int) -> None:
    assert "nine in ten" not in notes(Task("x", domain, epsilon), population, n)


def test_strata_are_told_and_circles_are_not() -> None:
    task = Task("x", Interval(0, 10_000), 2.0)
    rng = np.random.default_rng(1)
    strata = {name: simulate_counts(task, "normal:30,8", 100_000, rng) for name in "ab"}
    mean = there(post_stratify(task, strata, {"a": 1, "b": 1}).mean)
    assert "nine in ten" in mean.note
    heading = Task("x", Circle(360), 4.0)
    counts = simulate_counts(heading, "vonmises:20,500", 50_000, rng)
    assert "nine in ten" not in str(estimate(heading, counts))


def test_a_mean_that_leaves_its_domain_is_told_and_not_clipped() -> None:
    task = Task("x", Interval(0, 100), 0.5)
    rng = np.random.default_rng(1)
    counts = simulate_counts(task, "atom:0", 200, rng)
    found = bounded(estimate(task, counts).mean)
    assert found.low < 0.0
    assert (
        "reaches outside the domain, where the mean cannot be: the part inside holds it as often"
        in found.note
    )
    whole = bounded(post_stratify(task, {"a": counts, "b": counts}, {"a": 1, "b": 1}).mean)
    assert ("reaches outside" in whole.note) == (whole.low < 0.0)


@pytest.mark.parametrize(
    "domain", [Interval(-1e308, 7e307), Interval(0, 1e-300), Interval(1e15, 1e15 + 1)], ids=str
)
def test_no_domain_is_too_much(domain: Interval) -> None:
    task = Task("x", domain, 4.0)
    counts = np.zeros(task.mechanism.kernel.codes, np.int64)
    counts[40:44] = 100_000
    assert estimate(task, counts).mean is not None
