"""Results as JSON objects and back: every number, note and word survives."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcwise.analysis import (
    Comparison,
    Estimate,
    Series,
    compare_reference,
    compare_samples,
    estimate,
    series,
)
from arcwise.analysis.estimators.comparison import no_comparison
from arcwise.analysis.estimators.estimation import empty_estimate
from arcwise.analysis.estimators.poststratification import post_stratify
from arcwise.analysis.timeseries.series import PointSpan, empty_series
from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import ParameterError
from arcwise.tasks import DAY, Task
from tests.support.cases import mostly_slow
from tests.support.known import there
from tests.support.strategies import ALL_EXAMPLES, LATTICE_EXAMPLES, Example, tasks

DOMAINS: list[Domain] = [
    Interval(-60, 180, clip=True),
    Interval(0, 20, step=1),
    Interval(0, 1, step=0.1, rounding="stochastic"),
    Circle(360),
    Circle(24, step=0.5, rounding="nearest"),
]
FEW = [0, 1, 2, 5, 300]


def sent(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document as it arrives after it was sent over the network."""
    received: dict[str, Any] = json.loads(json.dumps(document, allow_nan=False))
    return received


def counts_of(task: Task, n: int, seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    generator = np.random.default_rng(seed)
    return generator.multinomial(n, generator.dirichlet(np.full(task.mechanism.kernel.codes, 0.3)))


def check(task: Task, n: int, seed: int, **options: Any) -> None:
    counts = counts_of(task, n, seed)
    result = estimate(task, counts, **options) if n else empty_estimate(task)
    read = Estimate.from_dict(sent(result.to_dict()))
    assert read == result
    assert (str(read), read.domain_words) == (str(result), task.domain_words)
    if task.domain.circular and n:
        assert there(read.direction).period == task.domain.length


@settings(max_examples=8)
@given(
    task=tasks(), seed=st.integers(0, 2**32), n=st.sampled_from([*FEW, 10**6, 10**10]), bands=st.booleans()
)
def test_every_estimate_is_read_back(task: Task, seed: int, n: int, bands: bool) -> None:
    check(task, n, seed, bands=bands)


@pytest.mark.parametrize("example", mostly_slow([*ALL_EXAMPLES, *LATTICE_EXAMPLES], every=7, ids=repr))
def test_estimates_of_every_mechanism_are_read_back(example: Example) -> None:
    mechanism = example.make(2.0)
    words: dict[str, Any] = {"unit": "min", "description": "how long"}
    task = Task("survey", mechanism.domain, mechanism.epsilon, mechanism=mechanism, **words)
    for n in FEW:
        check(task, n, n)
    period = {"origin": 0.1} if task.domain.circular else {}
    ends = (task.domain.start, task.domain.start + task.domain.length / 2)
    check(task, 5_000, 1, bands=True, between=[ends], target="users", level=0.9, **period)


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@pytest.mark.parametrize("every", mostly_slow([7, 1, "month"], every=3))
def test_series_are_read_back(domain: Domain, every: Any) -> None:
    task = Task("age", domain, 1.0, unit="years", description="how old", epoch_seconds=DAY // 4)
    origin = {"origin": 1.0} if domain.circular else {}
    by_epoch = {80_000 + 50 * k: counts_of(task, n, n) for k, n in enumerate([1, 2, 300, 300])}
    for options in ({}, {"quantiles": True, **origin}, {"between": [(1.0, 5.0)], "simultaneous": True}):
        result = series(task, by_epoch, every=every, **options)
        read = Series.from_dict(sent(result.to_dict()))
        assert read == result
        assert (str(read), read.period) == (str(result), result.period)
    spans = [PointSpan(point.first, point.last) for point in result.points]
    for empty in (empty_series(task, spans, every=every), empty_series(task, [], every=every, level=0.9)):
        assert Series.from_dict(sent(empty.to_dict())) == empty
        assert str(empty).startswith("age: 0 reports")


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_comparisons_are_read_back(domain: Domain) -> None:
    task = Task("age", domain, 1.0, unit="years")
    one, two = counts_of(task, 500, 1), counts_of(task, 300, 2)
    for result in (
        compare_samples(task, one, two, bands=True, between=[(1.0, 5.0)]),
        compare_reference(task, one, "uniform"),
        no_comparison(task, one, two * 0),
    ):
        read = Comparison.from_dict(sent(result.to_document()))
        assert read == result
        assert str(read) == str(result)


def test_the_whole_of_several_strata_is_read_back() -> None:
    task = Task("age", Interval(0, 100), 1.0)
    strata = {name: counts_of(task, n, n) for name, n in (("ios", 400), ("android", 900))}
    result = post_stratify(task, strata, {"ios": 1.0, "android": 3.0})
    assert Estimate.from_dict(sent(result.to_dict())) == result


def test_a_document_says_what_the_domain_is() -> None:
    shown = [empty_estimate(Task("a", domain, 1.0)).to_dict()["domain"] for domain in DOMAINS]
    assert shown == [
        {"kind": "interval", "low": -60.0, "high": 180.0, "clip": True},
        {"kind": "interval", "low": 0.0, "high": 20.0, "clip": False, "step": 1.0, "rounding": "refuse"},
        {"kind": "interval", "low": 0.0, "high": 1.0, "clip": False, "step": 0.1, "rounding": "stochastic"},
        {"kind": "circle", "period": 360.0},
        {"kind": "circle", "period": 24.0, "step": 0.5, "rounding": "nearest"},
    ]


def is_refused(kind: Any, document: Any) -> bool:
    try:
        kind.from_dict(document)
    except ParameterError as error:
        return str(error).startswith("document must be the JSON object of ")
    return False


@pytest.mark.parametrize("kind", [Estimate, Series, Comparison])
def test_what_is_not_a_document_is_refused(kind: Any) -> None:
    task = Task("age", Circle(360), 1.0)
    counts = counts_of(task, 300, 1)
    good = {
        Estimate: estimate(task, counts).to_dict(),
        Series: series(task, {20_000: counts}).to_dict(),
        Comparison: compare_samples(task, counts, counts).to_document(),
    }[kind]
    assert kind.from_dict(sent(good))
    wrong: list[Any] = [
        None,
        [],
        {},
        "text",
        *({k: v for k, v in good.items() if k != name} for name in good),
    ]
    wrong += [good | {"domain": "circle"}, good | {"domain": {"kind": "ball"}}, good | {"points": [None]}]
    wrong += [good | {"direction": {"value": "x"}}, good | {"difference": 3}]
    assert sum(is_refused(kind, document) for document in wrong) >= 9
