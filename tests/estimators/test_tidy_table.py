"""The tidy table: the same rows as CSV, JSON and frames, for every kind of task."""

import csv
import io
import json
import sys
from dataclasses import fields
from datetime import datetime, timezone
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from arcwise.analysis import compare_reference, compare_samples, estimate, post_stratify, series, tidy_rows
from arcwise.analysis.csv_rows import write_rows
from arcwise.analysis.estimators.result import Estimate
from arcwise.analysis.tidy import COLUMNS, in_unit
from arcwise.domains import Circle, Interval
from arcwise.errors import MissingExtraError, ParameterError
from arcwise.mechanisms import OptimalCircular, OptimalPiecewise
from arcwise.server.estimates.representations import render
from arcwise.tasks import Group, Task
from tests.support.known import there
from tests.support.strategies import ALL_EXAMPLES
from tests.support.surveys import expected_counts

GROUP = Group(
    "trip", [Task("minutes", Interval(0, 90), 1.0, unit="min"), Task("at", Circle(24), 1.0)], sample=1
)
SPAN, CIRCLE = Interval(-20, 180), Circle(360)
TASKS = {
    "interval": Task("minutes", SPAN, 2.0, unit="min", mechanism=OptimalPiecewise(SPAN, 2.0, nodes=32)),
    "clamp": Task("minutes", SPAN, 2.0, mechanism=OptimalPiecewise(SPAN, 2.0, nodes=32, placement="clamp")),
    "circle": Task("=heading", CIRCLE, 2.0, unit="°", mechanism=OptimalCircular(CIRCLE, 2.0, nodes=32)),
    "lattice": Task("score", Interval(0, 10, step=1), 2.0, unit="km/h"),
    "lattice circle": Task("hour", Circle(24, step=1), 2.0, unit="h"),
    "group": GROUP.tasks[0],
}
KINDS = ("", "series", "difference", "reference", "strata")
LABELS = [(label, kind) for label in TASKS for kind in KINDS if not kind or label in {"interval", "circle"}]


def the_counts(task: Task, turn: int = 0) -> Any:
    """Return counts with a peak near the origin, so that arcs cross it."""
    at = task.mechanism.node_units(np.arange(task.mechanism.kernel.nodes, dtype=np.float64))
    law = np.roll(np.exp(3 * np.cos(2 * np.pi * at)), turn)
    return np.round(expected_counts(task.mechanism, law / law.sum(), 20_000)).astype(np.int64)


@cache
def a_result(label: str, kind: str = "") -> Any:
    """Return a result of a kind of task."""
    task = TASKS[label]
    counts, other = the_counts(task), the_counts(task, 1)
    if kind == "series":
        return series(task, {20_758: counts, 20_760: other})
    if kind == "difference":
        return compare_samples(task, counts, other, bands=True)
    if kind == "reference":
        return compare_reference(task, counts, "uniform", bands=True)
    if kind == "strata":
        return post_stratify(task, {"a": counts, "b": other}, {"a": 1, "b": 3}, bands=True)
    origin = 12.0 if task.domain.circular else None
    sampled = GROUP.share if label == "group" else 1.0
    return estimate(task, counts, bands=True, between=[(0.0, 5.0)], sampled=sampled, origin=origin)


def document_of(label: str, kind: str) -> dict[str, Any]:
    """Return the JSON object that a command or a server returns."""
    result = a_result(label, kind)
    found: dict[str, Any] = result.to_dict()
    if kind not in {"difference", "reference"}:
        return found
    whole = a_result(label).to_dict()
    return {key: whole.get(key) for key in ("task", "n", "unit", "level")} | {kind: found}


@pytest.mark.parametrize(("label", "kind"), LABELS)
def test_csv_json_and_frames_are_the_same_rows(label: str, kind: str) -> None:
    result, document = a_result(label, kind), document_of(label, kind)
    through_json = json.loads(json.dumps(document, allow_nan=False))
    rows = list(tidy_rows(through_json))
    assert rows == list(tidy_rows(result._document()))
    assert rows
    assert all(tuple(row) == COLUMNS for row in rows)
    text = render(through_json, "csv").decode()
    lines = list(csv.DictReader(io.StringIO(text, newline="")))
    file = io.StringIO()
    write_rows(file, COLUMNS, rows)
    assert text == file.getvalue()
    frames = result.to_frame("pandas"), result.to_frame("polars")
    assert [list(frame.columns) for frame in frames] == [list(COLUMNS)] * 2
    for kind, other in (("pandas", frames[0].to_dict("records")), ("polars", frames[1].to_dicts())):
        for row, line, cells in zip(rows, lines, other, strict=True):
            for name in ("value", "low", "high", "level"):
                number = row[name]
                assert line[name] == ("" if number is None else repr(float(number)))  # to the last digit
                assert cells[name] == number or (
                    number is None and (kind == "polars" or np.isnan(cells[name]))
                )
            for name in ("task", "estimate", "unit", "method", "note"):
                assert cells[name] == row[name]
                assert line[name].removeprefix("'") == (row[name] or "")
            assert cells["n"] == row["n"] == int(line["n"])
            assert cells["through_origin"] == row["through_origin"] == (line["through_origin"] == "True")


@pytest.mark.parametrize(("label", "kind"), LABELS)
def test_names_can_be_filtered_and_read(label: str, kind: str) -> None:
    result = a_result(label, kind)
    frame = result.to_frame("pandas")
    assert not frame.duplicated(["start", "estimate"]).any()
    task = TASKS[label]
    for name in frame["estimate"]:
        words = name.removeprefix("difference ").removeprefix("reference ").split(" ")
        if words[0] in {"share", "bin", "cell"} and ":" in words[1]:
            low, high = map(float, words[1].split(":"))
            assert low < high or (task.domain.step is not None and low == high)
        elif words[0] in {"cell", "cdf", "quantile"}:
            float(words[1])
        else:
            assert len(words) == 1


def rows_of(label: str, start: str) -> Any:
    frame = a_result(label).to_frame("pandas")
    return frame[frame["estimate"].str.startswith(start)]


def test_every_part_of_an_estimate_has_its_rows() -> None:
    result = a_result("interval")
    assert result.distribution is not None
    cells = rows_of("interval", "cell ")
    assert cells["value"].tolist() == list(result.distribution.probabilities)
    edges = [[float(end) for end in name.removeprefix("cell ").split(":")] for name in cells["estimate"]]
    np.testing.assert_allclose(
        edges, np.column_stack([result.distribution.edges[:-1], result.distribution.edges[1:]])
    )
    band = rows_of("interval", "cdf ")
    assert band["low"].tolist() == list(there(result.band).low)
    assert band["value"].isna().all()
    assert rows_of("interval", "bin ")["value"].tolist() == [value.value for value in result.bins.values()]
    assert rows_of("interval", "fitted_mean")["value"].tolist() == [result.distribution.fitted_mean]
    assert rows_of("interval", "share ")["estimate"].tolist() == ["share 0:5"]
    lattice = rows_of("lattice", "cell ")
    assert lattice["estimate"].tolist() == [f"cell {score}" for score in range(11)]


def test_numbers_have_their_unit() -> None:
    frame = a_result("interval").to_frame("pandas").set_index("estimate")["unit"]
    for name in ("mean", "standard_deviation", "quantile 0.5", "mode", "fitted_mean"):
        assert frame[name] == "min"
    assert frame["variance"] == "min^2"
    assert frame["share 0:5"] is None
    lattice = a_result("lattice").to_frame("polars")
    assert lattice.filter(pl.col("estimate") == "variance")["unit"][0] == "(km/h)^2"
    apart = a_result("interval", "difference").to_frame("pandas").set_index("estimate")["unit"]
    assert (apart["difference mean"], apart["difference quantile 0.5"]) == ("min", "min")
    assert a_result("interval", "difference").to_dict()["unit"] == "min"
    assert a_result("clamp").to_frame("polars")["unit"].null_count() == len(a_result("clamp").to_frame())
    circle = a_result("circle").to_frame("pandas").set_index("estimate")["unit"]
    assert (circle["direction"], circle["resultant_length"]) == ("°", None)


def test_every_value_of_an_estimate_has_a_unit_or_is_known_to_have_none() -> None:
    values = {each.name for each in fields(Estimate) if each.type == "Value | None"}
    without = {name for name in values if in_unit(name, "min") is None}
    assert without == {"resultant_length", "circular_variance"}
    assert in_unit("variance", "min") == "min^2"


def test_arcs_through_the_origin_are_flagged() -> None:
    for label in ("circle", "lattice circle"):
        through = a_result(label).to_frame("pandas").set_index("estimate")
        assert through.loc["direction", "through_origin"]
        assert through.loc["direction", "low"] > through.loc["direction", "high"]
        assert not through.loc["resultant_length", "through_origin"]


def test_points_have_their_times_and_gaps_no_rows() -> None:
    result = a_result("interval", "series")
    frame = result.to_frame("pandas")
    assert frame["start"].tolist() == [
        pd.Timestamp("2026-11-01", tz="UTC"),
        pd.Timestamp("2026-11-03", tz="UTC"),
    ]
    assert str(frame["start"].dtype) == "datetime64[us, UTC]"
    other = result.to_frame("polars")
    assert other["end"].to_list()[0] == datetime(2026, 11, 2, tzinfo=timezone.utc)
    assert a_result("interval").to_frame("pandas")["start"].isna().all()
    hours = Task("hourly", Interval(0, 1), 2.0, epoch_seconds=3600)
    late = series(
        hours, {20_758 * 24 + 7: the_counts(hours), 253_300_000_000 // 3600: the_counts(hours)}, every=8760
    )
    assert late.to_frame("pandas")["start"].tolist()[-1].year == 9996


@pytest.mark.slow
def test_every_mechanism_has_its_table() -> None:
    for example in ALL_EXAMPLES:
        mechanism = example.make(2.0)
        task = Task("any", mechanism.domain, mechanism.epsilon, mechanism=mechanism, unit="s")
        rows = list(tidy_rows(estimate(task, [7] * mechanism.kernel.codes).to_dict()))
        assert sum(row["estimate"].startswith("cell ") for row in rows) == mechanism.kernel.nodes
        assert {row["unit"] for row in rows if row["estimate"] in {"mean", "direction"}} == {"s"}


def test_the_library_can_be_chosen_and_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    result = a_result("interval")
    assert isinstance(result.to_frame(), pd.DataFrame)
    assert isinstance(result.to_frame("polars"), pl.DataFrame)
    with pytest.raises(ParameterError, match="library must be pandas, polars or None, got 'arrow'"):
        result.to_frame("arrow")
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert isinstance(result.to_frame(), pl.DataFrame)
    with pytest.raises(MissingExtraError, match="a table needs pandas: pip install pandas"):
        result.to_frame("pandas")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtraError, match="pandas or polars: pip install pandas or pip install polars"):
        result.to_frame()


def test_a_task_without_reports_has_no_rows() -> None:
    document = {"task": "x", "task_id": "", "epsilon": 1.0, "n": 0}
    assert list(tidy_rows(document)) == []
    assert render(document, "csv").decode() == ",".join(COLUMNS) + "\r\n"
