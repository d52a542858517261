"""CSV files: no text in them is a formula, and texts and numbers can be read back."""

from __future__ import annotations

import ast
import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import arcwise.server
from arcwise.analysis import estimate
from arcwise.analysis.csv_rows import write_rows
from arcwise.domains import Interval
from arcwise.errors import TaskError
from arcwise.server.estimates.representations import render
from arcwise.tasks import Task

FORMULAS = ("=1+1", "=cmd|' /C calc'!A0", "+1", "-1+1", "@SUM(1)", "＝1", "－1")  # noqa: RUF001
WRITERS = {"writer", "DictWriter"}


def written(rows: list[dict[str, Any]], columns: list[str]) -> list[dict[str, str]]:
    text = io.StringIO(newline="")
    write_rows(text, columns, rows)
    return list(csv.DictReader(io.StringIO(text.getvalue(), newline="")))


def document(name: str) -> dict[str, Any]:
    task = Task(name, Interval(0, 1), 1.0)
    return estimate(task, [3] * task.mechanism.kernel.codes).to_dict()


@pytest.mark.parametrize("name", FORMULAS)
def test_the_name_of_a_task_is_no_formula(name: str) -> None:
    found = document(name)
    rows = list(csv.DictReader(io.StringIO(render(found, "csv").decode(), newline="")))
    assert {row["task"] for row in rows} == {f"'{name}"}
    (mean,) = (row for row in rows if row["estimate"] == "mean")
    assert float(mean["low"]) == found["mean"]["low"]


def test_what_no_name_may_begin_with() -> None:
    for name in ("\t=1", "\r=1", " =1"):
        with pytest.raises(TaskError, match="printable"):
            Task(name, Interval(0, 1), 1.0)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_texts_can_be_read_back(text: str) -> None:
    (row,) = written([{"text": text}], ["text"])
    assert row["text"][0] not in "=+-@\t\r\n＝＋－＠"  # noqa: RUF001
    assert row["text"].removeprefix("'") == text


def test_numbers_stay_numbers() -> None:
    (row,) = written([{"a": -0.1, "b": -3, "c": 1e300, "d": None}], ["a", "b", "c", "d", "e"])
    assert row == {"a": "-0.1", "b": "-3", "c": "1e+300", "d": "", "e": ""}


@pytest.mark.slow
def test_every_csv_is_written_in_this_way() -> None:
    (root,) = arcwise.server.__path__
    for path in Path(root).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "csv"
            ):
                assert node.attr not in WRITERS or path.name == "csv_rows.py", path
