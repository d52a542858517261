"""`estimate` as a whole: its result for each task, its JSON, its errors, and merging of counts."""

import json
import re
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcwise.analysis import Value, estimate
from arcwise.analysis.counts import check_counts
from arcwise.domains import Circle, Interval
from arcwise.errors import ParameterError
from arcwise.randomness import InsecureSeededRandomness
from arcwise.tasks import Task
from tests.support.cases import mostly_slow
from tests.support.known import there
from tests.support.strategies import tasks
from tests.support.surveys import drawn_counts, node_distribution

AGE = Task("age", Interval(0, 100), epsilon=1.0)
RATING = Task("rating", Interval(0, 10), epsilon=1.0, goal="value")
HEADING = Task("heading", Circle(360), epsilon=1.0)


def reports(task: Task, values: Any, n: int = 10_000, seed: int = 1) -> Any:
    nodes = node_distribution(task.mechanism, values)
    return drawn_counts(task.mechanism, nodes, n, seed).astype(np.int64)


def test_an_interval_has_a_mean_a_distribution_and_quantiles() -> None:
    values = 100 * np.random.default_rng(0).beta(2, 5, 5000)
    result = estimate(AGE, reports(AGE, values))
    document = result.to_dict()
    assert set(document) == {
        "task", "task_id", "n", "epsilon", "level", "target", "mean", "variance", "standard_deviation",
        "mode", "distribution", "quantiles", "domain",
    }  # fmt: skip
    assert document["task"] == "age"
    assert document["task_id"] == AGE.id
    assert (document["n"], document["epsilon"], document["level"]) == (10_000, 1.0, 0.95)
    assert set(document["mean"]) == {"value", "low", "high", "method", "note", "notes"}
    assert list(document["quantiles"]) == ["0.05", "0.25", "0.5", "0.75", "0.95"]
    assert set(document["distribution"]) == {
        "edges",
        "probabilities",
        "method",
        "note",
        "notes",
        "fitted_mean",
        "modes",
        "resolution",
    }
    assert document["distribution"]["edges"][0] == 0.0
    assert document["distribution"]["edges"][-1] == 100.0
    assert document["mean"]["value"] == pytest.approx(values.mean(), abs=4)
    assert "mean" in str(result)
    assert "quantile 0.5" in str(result)


def test_a_clamped_interval_has_a_range_of_means() -> None:
    result = estimate(RATING, reports(RATING, [1.0, 5.0, 9.0]))
    assert there(result.mean).value is None
    assert result.to_dict()["mean"]["value"] is None
    assert "between" in str(result)
    assert "note:" in str(result)


def test_a_circle_has_a_direction_and_a_length_and_no_quantiles() -> None:
    result = estimate(HEADING, reports(HEADING, [80.0, 90.0, 100.0]))
    document = result.to_dict()
    assert {"direction", "resultant_length", "circular_variance", "mode", "distribution"} < set(document)
    assert not {"mean", "variance", "quantiles"} & set(document)
    assert document["direction"]["value"] == pytest.approx(90, abs=5)
    assert document["resultant_length"]["value"] == pytest.approx(1.0, abs=0.1)
    assert "resultant length" in str(result)


@pytest.mark.slow
@settings(max_examples=40)
@given(task=tasks(), seed=st.integers(0, 2**32), n=st.sampled_from([1, 2, 5, 300, 10**6, 10**10]))
def test_every_task_and_number_of_reports_gives_plain_json(task: Task, seed: int, n: int) -> None:
    codes = task.mechanism.kernel.codes
    law = np.random.default_rng(seed).dirichlet(np.full(codes, 0.3))
    counts = np.random.default_rng(seed).multinomial(n, law)
    result = estimate(task, counts)
    document = result.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert str(result)
    values = [part for part in document.values() if isinstance(part, dict) and "value" in part]
    for part in [*values, *document.get("quantiles", {}).values()]:
        if part["low"] is None:
            assert part["note"]
        else:
            through_origin = part.get("through_origin", False)
            assert through_origin == (part["low"] > part["high"])
            place = part["value"]
            if through_origin:
                assert place is None or place >= part["low"] or place <= part["high"]
            else:
                assert place is None or part["low"] <= place <= part["high"]
    fitted = document["distribution"]
    assert len(fitted["edges"]) == len(fitted["probabilities"]) + 1
    assert sum(fitted["probabilities"]) == pytest.approx(1.0)


def test_merged_counts_are_the_estimate_of_all_reports() -> None:
    generator = InsecureSeededRandomness(3)
    codes = AGE.randomize(np.linspace(0, 100, 3000), randomness=generator)
    parts = [AGE.count(part) for part in np.array_split(codes, 7)]
    merged = estimate(AGE, np.sum(parts, axis=0))
    assert merged.to_dict() == estimate(AGE, AGE.count(codes)).to_dict()
    means = [estimate(AGE, part).mean for part in parts]
    weights = [part.sum() for part in parts]
    values = [value.value for value in means if value is not None and value.value is not None]
    assert there(merged.mean).value == pytest.approx(np.average(values, weights=weights))


def test_plain_lists_and_any_integer_type_are_taken() -> None:
    counts = [1] * AGE.mechanism.kernel.codes
    expected = estimate(AGE, counts).to_dict()
    for dtype in (np.uint8, np.int32, np.uint64):
        assert estimate(AGE, np.array(counts, dtype=dtype)).to_dict() == expected


def test_counts_out_of_bounds() -> None:
    k = AGE.mechanism.kernel.codes
    wrong: Any
    for wrong, message in (
        ([1, 2, 3], rf"shape \({k},\), one number per code; got \(3,\)"),
        (np.ones(k), "must be integers, got dtype float64"),
        (np.ones(k, dtype=bool), "must be integers, got dtype bool"),
        ([1, 1, 1, 1, -2] + [1] * (k - 5), "at least 0, got -2 for code 4"),
        ([0] * k, "no reports yet"),
        (np.full(k, 2**50), "sum to at most"),
    ):
        with pytest.raises(ParameterError, match=message):
            estimate(AGE, wrong)
    # The largest sum is accepted, one more is not, and a sum beyond 64 bits does not wrap.
    most = np.zeros(k, dtype=np.int64)
    most[k // 2] = 2**53
    assert check_counts(most, k).sum() == 2**53
    most[0] = 1
    with pytest.raises(ParameterError, match=f"sum to at most {2**53}, got {2**53 + 1}"):
        check_counts(most, k)
    with pytest.raises(ParameterError, match=f"got {k * 2**63}"):
        check_counts(np.full(k, 2**63, dtype=np.uint64), k)
    for level in (0.0, 0.4, 1.0, float("nan")):
        with pytest.raises(ParameterError, match=r"level must be from 0\.5 to 0\.9999"):
            estimate(AGE, np.ones(k, dtype=np.int64), level=level)


def test_values_know_what_they_contain() -> None:
    interval = Value(1.0, 0.5, 2.0, "method")
    assert interval.contains(0.5)
    assert not interval.contains(2.1)
    arc = Value(5.0, -10.0, 20.0, "method")
    assert arc.contains(355.0, period=360)
    assert arc.contains(380.0, period=360)
    assert not arc.contains(349.0, period=360)
    assert Value(5.0, 0.0, 360.0, "method").contains(1234.5, period=360)
    assert not Value(1.0, None, None, "method", ("why",)).contains(1.0)
    with pytest.raises(ArithmeticError, match="low is nan"):
        Value(1.0, float("nan"), 2.0, "method")


def test_quantiles_and_shares_are_found_by_their_numbers() -> None:
    result = estimate(AGE, reports(AGE, [10.0, 3.0, 7.0]), between=[(0, 30), (0.1, 12)])
    assert result.quantile(0.5) is result.quantiles["0.5"]
    assert result.quantile(1 / 20) is result.quantiles["0.05"]
    assert result.share(0.0, 30) is result.shares["0:30"]
    with pytest.raises(ParameterError, match=r"quantiles' levels \(0\.05, 0\.25, 0\.5, .*\), got 0\.9"):
        result.quantile(0.9)
    with pytest.raises(ParameterError, match=r"a pair of `between` \(0:30, 0\.1:12\), got 0:40"):
        result.share(0, 40)
    circle = estimate(HEADING, reports(HEADING, [10.0, 3.0, 7.0]))
    with pytest.raises(ParameterError, match=r"none in this result\), got 0\.5"):
        circle.quantile(0.5)


@pytest.mark.parametrize("task", [AGE, RATING, HEADING], ids=lambda task: task.name)
@pytest.mark.parametrize("n", mostly_slow([3, 1, 40], every=3))
def test_notes_are_separate_until_they_are_written(task: Task, n: int) -> None:
    result = estimate(task, reports(task, [10.0, 3.0, 7.0] * n), bands=True)
    parts: list[Any] = [
        result.mean,
        result.variance,
        result.direction,
        result.resultant_length,
        result.mode,
        result.band,
    ]
    parts += [result.distribution, *result.quantiles.values(), *result.bins.values()]
    for part in filter(None, parts):
        assert isinstance(part.notes, tuple)
        assert not any("; " in note or not note for note in part.notes)
        assert part.to_dict()["note"] == part.note == "; ".join(part.notes)
    assert result.to_dict()["distribution"]["note"].count("; ") == len(result.distribution.notes) - 1  # type: ignore[union-attr]


@pytest.mark.parametrize("task", [AGE, RATING, HEADING], ids=lambda task: task.name)
def test_every_value_says_what_it_is_and_what_it_is_not(task: Task) -> None:
    result = estimate(task, reports(task, [10.0, 3.0, 7.0]))
    spread = [result.variance, result.standard_deviation, result.circular_variance, result.mode]
    values = [result.mean, result.direction, result.resultant_length, *result.quantiles.values()]
    for part in [*values, *spread, result.distribution]:
        if part is not None:
            assert part.method
            assert re.search(r"\b(not?|cancel)\b", part.note), part.note


@pytest.mark.parametrize("task", [AGE, RATING, HEADING], ids=lambda task: task.name)
def test_it_is_quick_enough_for_a_request(task: Task) -> None:
    counts = reports(task, [10.0, 3.0, 7.0], n=100_000)
    started = time.process_time()
    estimate(task, counts)
    assert time.process_time() - started < 3.0  # about 0.3 s of one core; a wide margin for slow machines
