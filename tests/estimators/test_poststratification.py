"""Populations from strata with known weights: coverage, one stratum, and refusals."""

from typing import Any

import numpy as np
import pytest

from arcwise.analysis import estimate
from arcwise.analysis.estimators.poststratification import post_stratify
from arcwise.analysis.estimators.quantiles import LEVELS
from arcwise.analysis.simulate import (
    Mixture,
    as_population,
    code_law,
    multinomial,
    parse_population,
    simulate_counts,
)
from arcwise.analysis.simulate.truth import Truth, on_lattice
from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms import OptimalCircular, OptimalPiecewise
from arcwise.tasks import Task
from tests.support.known import there

LINE, CIRCLE = Interval(0, 100), Circle(360)


@pytest.mark.parametrize(
    ("domain", "epsilon", "populations", "sizes", "weights"),
    [
        (LINE, 1.0, ("normal:30,10", "normal:60,10"), (4000, 1000), (1.0, 3.0)),
        (LINE, 6.0, ("atom:20", "0.5*atom:20 + 0.5*atom:80", "uniform"), (500, 100, 60), (1.0, 2.0, 1.0)),
        (Interval(0, 10, step=1), 2.0, ("normal:3,1", "0.5*atom:0 + 0.5*atom:10"), (2000, 500), (2.0, 1.0)),
        (CIRCLE, 2.0, ("vonmises:30,2", "vonmises:120,1"), (1000, 3000), (0.5, 0.25)),
    ],
)
@pytest.mark.slow
def test_coverage_of_weighted_estimates(
    domain: Domain,
    epsilon: float,
    populations: tuple[str, ...],
    sizes: tuple[int, ...],
    weights: tuple[float, ...],
) -> None:
    """16 surveys: at 0.95, more than 5 misses of an interval have a probability of 9e-5."""
    mechanism = None
    if domain.lattice is None:
        mechanism = (OptimalCircular if domain is CIRCLE else OptimalPiecewise)(domain, epsilon, nodes=48)  # type: ignore[arg-type]
    task = Task("a", domain, epsilon, mechanism=mechanism)
    parts = tuple(on_lattice(as_population(each, domain), domain) for each in populations)
    whole = Truth(Mixture(np.array(weights) / sum(weights), parts))
    low, length, circular = float(domain.from_unit(np.float64(0.0))), domain.length, domain is CIRCLE
    generator = np.random.default_rng(12)
    missed: dict[str, int] = {}
    for number in range(16):
        strata = {
            each: simulate_counts(task, part, n, generator)
            for each, part, n in zip("abc", parts, sizes, strict=False)
        }
        named = dict(zip("abc", weights, strict=False))
        result = post_stratify(
            task,
            strata,
            named,
            between=[(low + 0.2 * length, low + 0.6 * length)],
            bands=number < 3,
            origin=0.0 if circular else None,
        )
        assert result.n == sum(sizes)
        truths: dict[str, tuple[Any, float]] = {
            f"quantile {tau}": (
                result.quantile(tau),
                low + length * (whole.quantile_above(0.0, tau) if circular else whole.quantile(tau)),
            )
            for tau in LEVELS
        }
        part = whole.arc(0.2, 0.6) if circular else whole.share(0.2, 0.6)
        truths["share"] = next(iter(result.shares.values())), part
        if circular:
            truths["direction"] = result.direction, float(np.angle(whole.moment)) / (2 * np.pi) * length
            truths["resultant length"] = result.resultant_length, abs(whole.moment)
        else:
            truths["mean"] = result.mean, low + length * whole.mean
            truths["variance"] = result.variance, length**2 * whole.variance
            if result.band is not None:
                assert len(result.bins) > 1
                for x in result.band.at:
                    least, most = result.band.bounds(x)
                    assert least - 0.05 <= whole.below((x - low) / length) <= most + 0.05
        for name, (value, truth) in truths.items():
            slack = 1e-6 * length
            held = value.low - slack <= truth <= value.high + slack or value.contains(
                truth, period=length if circular else None
            )
            missed[name] = missed.get(name, 0) + (not held)
    assert max(missed.values()) <= 5, missed


@pytest.mark.parametrize("domain", [LINE, CIRCLE, Interval(0, 10, step=1)])
def test_one_stratum_is_the_population(domain: Domain) -> None:
    task = Task("a", domain, epsilon=2.0)
    counts = simulate_counts(task, "0.5*uniform + 0.5*atom:3", 3000, np.random.default_rng(13))
    alone, weighted = estimate(task, counts), post_stratify(task, {"all": counts}, {"all": 7})
    pairs = [
        (getattr(alone, name), getattr(weighted, name))
        for name in ("mean", "variance", "direction", "resultant_length", "mode")
    ]
    pairs += [(alone.quantiles[tau], weighted.quantiles[tau]) for tau in alone.quantiles]
    for one, other in pairs:
        if one is None:
            assert other is None
            continue
        for name in ("value", "low", "high"):
            number = getattr(one, name)
            if number is not None:
                assert getattr(other, name) == pytest.approx(number, rel=0.02, abs=1e-6 * domain.length**2)
    assert there(weighted.distribution).probabilities == pytest.approx(
        there(alone.distribution).probabilities
    )
    assert "strata: all 1" in weighted.target


def test_weights_decide_and_not_who_reports() -> None:
    task = Task("a", LINE, epsilon=4.0)
    generator = np.random.default_rng(14)
    strata = {
        "young": simulate_counts(task, "normal:20,5", 9000, generator),
        "old": simulate_counts(task, "normal:80,5", 1000, generator),
    }
    mean = there(post_stratify(task, strata, {"young": 1, "old": 1}).mean)
    assert mean.contains(50.0)
    assert estimate(task, sum(strata.values())).mean.contains(26.0)  # type: ignore[union-attr]


def test_a_stratum_whose_mean_is_a_range_gives_a_range() -> None:
    task = Task("a", LINE, epsilon=2.0, mechanism=OptimalPiecewise(LINE, 2.0, placement="clamp"))
    generator = np.random.default_rng(15)
    strata = {name: simulate_counts(task, "uniform", 3000, generator) for name in "ab"}
    result = post_stratify(task, strata, {"a": 1, "b": 1}, bands=True)
    assert there(result.mean).value is None
    assert there(result.mean).contains(50.0)
    assert result.variance is None


@pytest.mark.parametrize(
    ("strata", "weights", "message"),
    [
        ({}, {}, "at least one"),
        ({"a": [5] * 174}, {"b": 1.0}, "the same names"),
        ({"a": [5] * 174, "b": [1] + [0] * 173}, {"a": 1, "b": 1}, "'b' must hold at least 2 reports, got 1"),
        ({"a": [5] * 174}, {"a": 0.0}, "weights must be positive"),
        ({"a": [5] * 174}, {"a": float("inf")}, "weights must be positive"),
        ({"a": [5] * 174}, {"a": "7"}, "weights must be positive"),
        ({"a": [5] * 3}, {"a": 1}, "counts of the stratum 'a' must have the shape"),
    ],
)
def test_what_is_no_population_of_strata(strata: Any, weights: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        post_stratify(Task("a", LINE, epsilon=2.0), strata, weights)
    with pytest.raises(ParameterError, match="level must be"):
        post_stratify(Task("a", LINE, epsilon=2.0), {"a": [5] * 174}, {"a": 1}, level=2.0)


@pytest.mark.slow
def test_many_small_strata_with_a_rare_value() -> None:
    """20 surveys of 60 strata: at 0.95, more than 5 misses of an interval have a probability of 3e-4."""
    task = Task("a", Interval(0, 1, step=1), 5.0)
    law = code_law(task.mechanism, parse_population("0.0125*atom:1 + rest*atom:0", task.domain))
    weights = np.full(60, 1 / 60)
    missed = np.zeros(2)
    for seed in range(20):
        counts = multinomial(np.full(60, 40), np.tile(law, (60, 1)), np.random.default_rng(seed))
        strata = {str(k): each for k, each in enumerate(counts)}
        result = post_stratify(task, strata, dict(zip(strata, weights, strict=True)), between=[(1, 1)])
        missed += [not each.contains(0.0125) for each in (result.share(1, 1), there(result.mean))]
    assert missed.max() <= 5
