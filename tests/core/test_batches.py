"""Whole columns: values that `Task.randomize`, `Task.count` and `Group.randomize` take, refuse and return."""

from __future__ import annotations

import datetime as dt
import itertools
import sys
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from arcwise.domains import Circle, Interval
from arcwise.errors import DomainError, ParameterError
from arcwise.mechanisms import OptimalPiecewise
from arcwise.randomness import InsecureSeededRandomness as Seeded
from arcwise.tasks import Group, Task
from arcwise.tasks.batches import _below, _chosen
from tests.support.fixed_draw import Untouchable
from tests.support.strategies import ALL_EXAMPLES, LATTICE_EXAMPLES, Example, inner_values

if TYPE_CHECKING:
    from collections.abc import Callable

FALSE_ALARM = 1e-6
"""The rate for each statistical test here."""

DELAY = Task("delay", Interval(0, 180), epsilon=1.0)
SCORE = Task("score", Interval(0, 10, step=1), epsilon=1.0)
HEADING = Task("heading", Circle(360), epsilon=1.0)


class Given:
    """A source that returns given second halves, call by call."""

    secure = False

    def __init__(self, *numbers: tuple[int, ...]) -> None:
        self.numbers = list(numbers)

    def draw(self) -> tuple[int, int]:
        raise AssertionError

    def draws(self, count: int) -> bytes:
        numbers = self.numbers.pop(0)
        assert len(numbers) == count
        return b"".join(bytes(8) + number.to_bytes(8, "little") for number in numbers)


def as_floats(values: list[float | None]) -> list[float]:
    return [np.nan if value is None else value for value in values]


COLUMNS: dict[str, Callable[[list[float | None]], Any]] = {
    "list": list,
    "tuple": tuple,
    "numpy": lambda values: np.array(as_floats(values)),
    "numpy objects": lambda values: np.array(values, dtype=object),
    "masked": lambda values: np.ma.array([v or 0.0 for v in values], mask=[v is None for v in values]),
    "pandas": lambda values: pd.Series(values, dtype="float64"),
    "pandas objects": lambda values: pd.Series(values, dtype=object),
    "pandas nullable": lambda values: pd.Series(values, dtype="Float64"),
    "pandas of Arrow": lambda values: pd.Series(values, dtype="float64[pyarrow]"),
    "Polars": lambda values: pl.Series(values, dtype=pl.Float64),
    "Polars in chunks": lambda values: pl.concat(
        [pl.Series(values[:2], dtype=pl.Float64), pl.Series(values[2:], dtype=pl.Float64)], rechunk=False
    ),
    "Arrow": lambda values: pa.array(values, pa.float64()),
    "Arrow in chunks": lambda values: pa.chunked_array([values[:1], values[1:]], pa.float64()),
    "Arrow dictionary": lambda values: pa.array(values, pa.float64()).dictionary_encode(),
}
"""Ways to hold a column of floats with missing values."""


@given(st.sampled_from([*ALL_EXAMPLES, *LATTICE_EXAMPLES]), st.data())
def test_a_column_is_randomised_as_its_values(example: Example, data: st.DataObject) -> None:
    mechanism = example.make(1.0)
    task = Task("x", mechanism.domain, mechanism.epsilon, mechanism=mechanism)
    inside = st.sampled_from(inner_values(mechanism, 9))
    values = data.draw(st.lists(inside | st.none(), max_size=12))
    there = [value for value in values if value is not None]
    expected = mechanism.randomize_many(there, randomness=Seeded(3))
    column = COLUMNS[data.draw(st.sampled_from(sorted(COLUMNS)))](values)
    codes = task.randomize(column, missing="drop", randomness=Seeded(3))
    assert codes.dtype == mechanism.kernel.code_dtype
    assert codes.shape == (len(there),)
    np.testing.assert_array_equal(codes, expected)
    if len(there) == len(values):
        np.testing.assert_array_equal(task.randomize(column, randomness=Seeded(3)), expected)


INTEGERS: dict[str, Any] = {
    "numpy": np.array([3, 0, 10], np.int8),
    "unsigned": np.array([3, 0, 10], np.uint64),
    "range": range(0, 9, 3),
    "pandas": pd.Series([3, 0, 10]),
    "pandas nullable": pd.Series([3, 0, 10], dtype="UInt8"),
    "pandas categories": pd.Series([3, 0, 10]).astype("category"),
    "pandas index": pd.Index([3, 0, 10]),
    "Polars": pl.Series([3, 0, 10], dtype=pl.UInt16),
    "Arrow": pa.array([3, 0, 10], pa.int32()),
    "fractions": [Fraction(3), 0, Fraction(20, 2)],
    "half floats": pa.array(np.array([3, 0, 10], np.float16)),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_numbers(name: str) -> None:
    column = INTEGERS[name]
    expected = SCORE.mechanism.randomize_many(np.asarray(column, float), randomness=Seeded(1))
    np.testing.assert_array_equal(SCORE.randomize(column, randomness=Seeded(1)), expected)


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        (7.5, ()),
        (np.float32(7.5), ()),
        (np.array(7), ()),
        ([], (0,)),
        (pl.Series([], dtype=pl.Int32), (0,)),
        (pa.chunked_array([], pa.int8()), (0,)),
        ([[1, 2, 3], [4, 5, 6]], (2, 3)),
        (np.zeros((2, 0, 3)), (2, 0, 3)),
    ],
)
def test_codes_have_the_shape_of_the_values(values: Any, shape: tuple[int, ...]) -> None:
    codes = DELAY.randomize(values)
    assert codes.shape == shape
    assert codes.dtype == np.uint8


def test_codes_of_two_bytes() -> None:
    wide = OptimalPiecewise(Interval(0, 1), epsilon=1.0, nodes=300)
    task = Task("wide", wide.domain, wide.epsilon, mechanism=wide)
    codes = task.randomize([0.5] * 5)
    assert codes.dtype == np.uint16
    assert task.count(codes).sum() == 5


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA, pd.NaT])
def test_a_single_missing_value(nothing: Any) -> None:
    with pytest.raises(DomainError, match=r"got 1 of 1 missing, the first at index 0; leave them out"):
        DELAY.randomize(nothing)
    assert DELAY.randomize(nothing, missing="drop").shape == (0,)


@pytest.mark.parametrize("name", COLUMNS)
def test_missing_values_are_counted(name: str) -> None:
    column = COLUMNS[name]([1.0, 2.0, None, 4.0, None])
    with pytest.raises(
        DomainError,
        match=r'^values must not be missing, got 2 of 5 missing, the first at index 2; .* missing="drop"$',
    ):
        DELAY.randomize(column, randomness=Untouchable())


def test_what_is_missing_in_two_dimensions_leaves_a_flat_array() -> None:
    codes = DELAY.randomize([[1.0, None], [None, 4.0]], "drop", randomness=Seeded(4))
    assert codes.tolist() == DELAY.randomize([1.0, 4.0], randomness=Seeded(4)).tolist()


@pytest.mark.parametrize("missing", ["", "ignore", None, 0])
def test_missing_is_one_of_two_words(missing: Any) -> None:
    with pytest.raises(ParameterError, match='missing must be "error" or "drop"'):
        DELAY.randomize([1.0], missing=missing)


@pytest.mark.parametrize(
    ("task", "values", "words"),
    [
        (DELAY, [1, 200, None, -3, 181], r"\[0, 180\]; wrong at index 1 and 2 more: clip them"),
        (DELAY, [None, None, 200], r"\[0, 180\]; wrong at index 2: clip them"),
        (DELAY, [None, 5, np.inf], r"finite and in \[0, 180\]; wrong at index 2$"),
        (DELAY, [5, 10**400, None], r"finite and in \[0, 180\]; wrong at index 1$"),
        (SCORE, [None, 3, 4.5, 0.5], r"wrong at index 2 and 1 more: it is between two steps"),
        (HEADING, [None, -np.inf], r"finite and in \[0, 360\) modulo 360; wrong at index 1"),
    ],
)
def test_all_values_are_checked_before_any_is_randomised(task: Task, values: list[Any], words: str) -> None:
    """The error names their places, also if missing values before them are left out."""
    with pytest.raises(DomainError, match=words):
        task.randomize(values, missing="drop", randomness=Untouchable())


def test_a_task_clips_and_rounds_as_it_says() -> None:
    clipped = Task("c", Interval(0, 10, clip=True), epsilon=1.0)
    assert (
        clipped.randomize([-5, 5, None, 50], "drop", randomness=Seeded(2)).tolist()
        == clipped.randomize([0, 5, 10], randomness=Seeded(2)).tolist()
    )
    rounded = Task("r", Interval(0, 10, step=1, rounding="nearest"), epsilon=1.0)
    assert (
        rounded.randomize([1.2, 9.7], randomness=Seeded(2)).tolist()
        == rounded.randomize([1, 10], randomness=Seeded(2)).tolist()
    )


NO_NUMBERS: list[tuple[Any, str]] = [
    ([1, True], "got True at index 1: if 0 and 1 are values"),
    (np.array([True]), "dtype bool: if 0 and 1"),
    (pd.Series([True, None], dtype="boolean"), "dtype boolean: if 0 and 1"),
    (pl.Series([True, None]), "if 0 and 1"),
    (["7"], "parse the numbers first"),
    ("7", "parse the numbers first"),
    (pd.Series(["7"]), "parse the numbers first"),
    (pl.Series(["7"]), "parse the numbers first"),
    (pa.array(["7"]).dictionary_encode(), "parse the numbers first"),
    ([Decimal(1)], "convert it to floats"),
    (pl.Series([Decimal("1.5")]), "convert it to floats"),
    (pa.array([Decimal("1.5")]), "convert it to floats"),
    (pd.Series([Decimal("1.5")], dtype=pd.ArrowDtype(pa.decimal128(5, 2))), "convert it to floats"),
    ([dt.datetime(2026, 1, 1)], "the hour of the day"),
    (dt.date(2026, 1, 1), "the hour of the day"),
    (np.array(["2026"], "M8[D]"), "the hour of the day"),
    (pd.Series(pd.to_datetime(["2026-01-01"])), "the hour of the day"),
    (pl.Series([dt.time(3)]), "the hour of the day"),
    (pa.array([dt.date(2026, 1, 1)]), "the hour of the day"),
    ([dt.timedelta(minutes=3)], "divide it by a unit"),
    (pd.Series(pd.to_timedelta([3])), "divide it by a unit"),
    (pl.Series([dt.timedelta(3)]), "divide it by a unit"),
    (pl.Series([[1, 2], [3]]), "flatten it first"),
    ([[1], [2, 3]], "numbers; a list fails to convert"),
    ((number for number in [1.0]), r"pass list\(...\) of it"),
    (pd.DataFrame({"a": [1.0]}), r'whole DataFrame: pass table\["NAME"\]'),
    (pl.DataFrame({"a": [1.0]}), "whole DataFrame"),
    (pl.LazyFrame({"a": [1.0]}), "whole LazyFrame"),
    (pa.table({"a": [1.0]}), "whole Table"),
    (pa.array([{"a": 1}]), "a column of struct"),
    ({"a": 1}, "numbers, got {'a': 1}"),
    (np.array([1j]), "dtype complex128"),
    (object(), "numbers, got <object"),
    # Values that a library cannot convert.
    (pl.Series(["1"]).cast(pl.Categorical), "parse the numbers first"),
    (pl.Series([1], dtype=pl.Int128), "of Int128: cast it to 64-bit integers or floats first"),
    (pl.Series([{"a": 1}]), "take the field of numbers out of it"),
    (pa.RunEndEncodedArray.from_arrays([2], [1.0]), "run_end_decode"),
]


@pytest.mark.parametrize(("values", "words"), NO_NUMBERS)
def test_what_is_no_number_is_refused_with_advice(values: Any, words: str) -> None:
    with pytest.raises(DomainError, match=f"^values must be .*{words}"):
        DELAY.randomize(values, missing="drop", randomness=Untouchable())


@pytest.mark.parametrize("name", ["Polars", "Polars in chunks", "pandas nullable"])
def test_columns_are_read_without_pyarrow(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    column = COLUMNS[name]([1.0, None, 180.0])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    codes = DELAY.randomize(column, "drop", randomness=Seeded(1))
    assert codes.tolist() == DELAY.randomize([1.0, 180.0], randomness=Seeded(1)).tolist()


@given(st.lists(st.integers(0, HEADING.mechanism.kernel.codes - 1)))
def test_counts_are_how_often_each_code_occurs(codes: list[int]) -> None:
    expected = [codes.count(code) for code in range(HEADING.mechanism.kernel.codes)]
    for column in (codes, np.array(codes, np.uint16), pl.Series(codes, dtype=pl.UInt8), pa.array(codes)):
        counts = HEADING.count(column)
        assert counts.dtype == np.int64
        assert counts.tolist() == expected


def test_many_codes_are_counted_in_slices() -> None:
    codes = np.tile(np.arange(128, dtype=np.uint8), (3, 10_000))
    assert HEADING.count(codes).tolist() == [30_000] * 128


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        ([3, 128, 4, 300], r"\[0, 128\); wrong at index 1 and 1 more"),
        (np.array([3, -1]), "wrong at index 1"),
        (np.array([255], np.uint8), "wrong at index 0"),
        ([2**70], "wrong at index 0"),
        ([1.5], "wrong at index 0"),
        ([1, None], "wrong at index 1"),
        (["3"], "codes must be numbers"),
        ([True], "codes must be numbers"),
        (pl.DataFrame({"codes": [1]}), "codes must be one column"),
    ],
)
def test_what_is_no_code_is_refused(codes: Any, words: str) -> None:
    with pytest.raises(DomainError, match=words):
        HEADING.count(codes)


DOMAINS: dict[str, Interval | Circle] = {
    "a": Interval(0, 1),
    "b": Circle(24, step=1),
    "c": Interval(0, 9, step=1),
    "d": Circle(360),
}
ROWS = 24_000
TABLE: dict[str, Any] = {"other": ["x"] * ROWS, **{name: np.ones(ROWS) for name in DOMAINS}}


@pytest.mark.parametrize("table", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_a_group_takes_tables(table: Any) -> None:
    group = Group.share_budget("g", DOMAINS, 4.0, sample=None)
    rows = {"x": ["?"] * 3, **{name: [1.0, 0.0, 1.0] for name in DOMAINS}}
    codes = group.randomize(table(rows), randomness=Seeded(1))
    seeded = Seeded(1)
    assert list(codes) == list(DOMAINS)
    for task in group.tasks:
        assert codes[task.name].tolist() == task.randomize(rows[task.name], randomness=seeded).tolist()


def test_every_set_of_tasks_is_drawn_as_often_as_any_other() -> None:
    """Draws 2 of 4 tasks. Each task has its own value, whose report is almost never another one."""
    group = Group("g", [Task(name, Interval(0, 3, step=1), epsilon=20.0) for name in "abcd"], sample=2)
    rows = 12_000
    codes = group.randomize({name: np.full(rows, 3) for name in "abcd"}, randomness=Seeded(6))
    lengths = [len(codes[name]) for name in "abcd"]
    assert sum(lengths) == 2 * rows
    assert stats.chisquare(lengths).pvalue > FALSE_ALARM
    chosen = _chosen(rows, 4, 2, Seeded(7))
    assert (chosen.sum(axis=1) == 2).all()
    pairs = [int((chosen[:, i] & chosen[:, j]).sum()) for i, j in itertools.combinations(range(4), 2)]
    assert stats.chisquare(pairs).pvalue > FALSE_ALARM


def test_a_draw_beyond_the_last_multiple_is_thrown_away() -> None:
    """As in `Group.choose`: with 3 tasks, the largest of the 2**64 numbers would favour one task."""
    assert _below(3, 2, Given((2**64 - 1, 5), (7,))).tolist() == [1, 2]
    assert _below(2, 2, Given((2**64 - 1, 5))).tolist() == [1, 1]


def test_a_row_without_a_value_reports_the_others() -> None:
    group = Group.share_budget("g", DOMAINS, 4.0, sample=2)
    rows = {**TABLE, "a": [None, *[1.0] * (ROWS - 1)]}
    with pytest.raises(DomainError, match=r"^'a': values must not be missing, got 1 of 24,000 missing"):
        group.randomize(rows, randomness=Untouchable())
    found = group.randomize(rows, "drop", randomness=Seeded(9))
    whole = group.randomize(TABLE, randomness=Seeded(9))
    assert len(whole["a"]) - len(found["a"]) in {0, 1}
    assert [len(found[name]) for name in "bcd"] == [len(whole[name]) for name in "bcd"]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (
            {"a": [2.0] * ROWS},
            DomainError,
            r"^'a': values must be in \[0, 1\]; wrong at index 0 and 23,999 more",
        ),
        ({"d": None}, DomainError, "^'d': values must not be missing"),
        ({"d": [np.inf] * ROWS}, DomainError, "^'d': values must be finite"),
        ({"a": [0.5]}, ParameterError, "one length"),
        ({"a": np.zeros((ROWS, 2))}, ParameterError, "one dimension"),
    ],
)
def test_a_group_checks_all_columns_first(change: dict[str, Any], error: type[Exception], words: str) -> None:
    group = Group.share_budget("g", DOMAINS, 4.0, sample=2)
    with pytest.raises(error, match=words):
        group.randomize({**TABLE, **change}, randomness=Untouchable())


@pytest.mark.parametrize("table", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_a_group_needs_a_column_for_each_task(table: Any) -> None:
    group = Group.share_budget("g", DOMAINS, 4.0)
    with pytest.raises(ParameterError, match="columns must include 'b', since the group has this task"):
        group.randomize(table({"a": [0.5]}))
