"""`arcwise randomize`, as a user types it: from a file of values to a complete file of reports, or none."""

from __future__ import annotations

import datetime as dt
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest
from click.testing import CliRunner, Result

from arcwise.analysis import count_table
from arcwise.cli import main, randomize, reading
from arcwise.cli.reading import read_seconds
from arcwise.domains import Interval
from arcwise.errors import DomainError
from arcwise.tasks import DAY, Task

if TYPE_CHECKING:
    from collections.abc import Callable

# At epsilon 20, one report in 5 * 10^7 differs from the true value: false alarms below 1e-5.
SCORE = Task("score", Interval(0, 10, step=1), epsilon=20.0)
VALUES = [n * n % 11 for n in range(300)]
START = dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone.utc)
TIMES = [START + dt.timedelta(hours=n) for n in range(300)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    SCORE.save("score.json")
    return tmp_path


def run(file: str, *options: str, output: str = "reports.parquet") -> Result:
    return CliRunner().invoke(
        main, ["randomize", file, "--column", "score", "--task", "score.json", "-o", output, *options]
    )


def good(file: str, *options: str, output: str = "reports.parquet") -> str:
    result = run(file, *options, output=output)
    assert result.exit_code == 0, result.output
    return result.output


def bad(file: str, *options: str, output: str = "reports.parquet", code: int = 1) -> str:
    """Return the error of a command that leaves nothing behind."""
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    result = run(file, *options, output=output)
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before
    return " ".join(result.output.split())


FORMS: dict[str, Callable[[pl.DataFrame, str], object]] = {
    "parquet": lambda frame, name: frame.write_parquet(name),
    "csv": lambda frame, name: frame.write_csv(name),
    "tsv": lambda frame, name: frame.write_csv(name, separator="\t"),
    "jsonl": lambda frame, name: frame.write_ndjson(name),
}


def write(form: str, **columns: Any) -> str:
    """Write columns to a file and return its name."""
    FORMS[form](pl.DataFrame(columns), f"scores.{form}")
    return f"scores.{form}"


def read(name: str) -> pl.DataFrame:
    """Return a file of reports with a batch in each row, and its ids as bytes."""
    if name.endswith(".parquet"):
        return pl.read_parquet(name)
    if name.endswith(".jsonl"):
        frame = pl.read_ndjson(name)
    else:
        frame = pl.read_csv(name).with_columns(pl.concat_list("codes"))
    return frame.with_columns(pl.col("batch_id").str.decode("hex"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("output", ["reports.parquet", "reports.jsonl", "reports.csv"])
def test_reports_of_a_file(form: str, output: str) -> None:
    words = good(write(form, other=["x"] * 300, score=VALUES), output=output)
    assert words == f"wrote {output}: 300 reports in 1 epoch\n"
    reports = read(output)
    assert reports.columns == ["task_id", "epoch", "batch_id", "codes"]
    assert set(reports["task_id"]) == {SCORE.id}
    ids = reports["batch_id"].to_list()
    assert {len(batch_id) for batch_id in ids} == {16}
    assert len(set(ids)) == len(ids) == (300 if output.endswith(".csv") else 1)
    assert SCORE.count(reports["codes"].explode()).tolist() == np.bincount(VALUES, minlength=11).tolist()
    assert reports["codes"].to_list() == [sorted(codes) for codes in reports["codes"].to_list()]
    assert [path.name for path in Path().glob("*.part")] == []


@pytest.mark.parametrize("form", FORMS)
def test_times_decide_the_epochs(form: str) -> None:
    times = TIMES if form == "parquet" else [time.isoformat() for time in TIMES]
    values = [None if n % 7 == 0 else value for n, value in enumerate(VALUES)]
    words = good(write(form, score=values, at=times), "--time", "at", "--missing", "drop")
    assert "257 reports in 13 epochs; left out 43 rows without a value" in words
    found = {epoch: SCORE.count(codes) for epoch, codes in read("reports.parquet")["epoch", "codes"].rows()}
    expected: dict[int, list[int]] = {}
    for value, time in zip(values, TIMES, strict=True):
        if value is not None:
            expected.setdefault(SCORE.epoch(time.timestamp()), []).append(value)
    assert {epoch: counts.tolist() for epoch, counts in found.items()} == {
        epoch: np.bincount(each, minlength=11).tolist() for epoch, each in expected.items()
    }


def test_without_times_all_reports_are_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arcwise.cli.randomize.time.time", lambda: 20_000.5 * DAY)
    good(write("csv", score=VALUES))
    assert read("reports.parquet")["epoch"].to_list() == [20_000]


def test_large_files_make_full_batches_and_remainders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_BLOCK", 70)
    monkeypatch.setattr(randomize, "_BATCH", 64)
    monkeypatch.setattr(randomize, "_TOGETHER", 2)
    for form in ("parquet", "jsonl"):
        assert "300 reports in 2 epochs" in good(
            write(form, score=VALUES, at=[0, DAY] * 150), "--time", "at", "--force"
        )
        reports = read("reports.parquet")
        sizes = {
            epoch: sorted(reports.filter(pl.col("epoch") == epoch)["codes"].list.len()) for epoch in (0, 1)
        }
        assert sizes == {0: [22, 64, 64], 1: [22, 64, 64]}
        assert SCORE.count(reports["codes"].explode()).tolist() == np.bincount(VALUES, minlength=11).tolist()
        assert reports["batch_id"].n_unique() == 6


@pytest.mark.parametrize("form", FORMS)
def test_missing_values_are_counted_over_the_whole_file(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_BLOCK", 100)
    values = [None if n in {120, 280} else value for n, value in enumerate(VALUES)]
    assert (
        f"scores.{form}: 2 of 300 rows have no value in 'score' or no time, the first is row 121; leave them "
        "out with --missing drop"
    ) in bad(write(form, score=values))


@pytest.mark.parametrize("form", FORMS)
def test_a_bad_value_late_in_the_file_leaves_nothing(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_BLOCK", 100)
    name = write(form, score=[*VALUES[:-1], 11])
    Path("reports.parquet").write_bytes(b"an older file")
    error = bad(name, "--force")
    assert "values must be in [0, 10] in steps of 1; wrong at index" in error
    assert "to 300: " in error
    assert "already exists" in bad(name)


@pytest.mark.parametrize(
    ("form", "values", "words"),
    [
        ("parquet", [True], "a column of bool"),
        ("parquet", ["7"], "parse the numbers first"),
        ("parquet", [START], "the hour of the day"),
        ("parquet", [[1]], "flatten it first"),
        ("csv", ["seven"], "invalid value 'seven'"),
        ("csv", ["true"], "invalid value 'true'"),
        ("jsonl", ["7"], "parse the numbers first"),
        ("jsonl", [True], "dtype bool"),
        ("parquet", [None], "no value in 'score'"),
        ("csv", [None, None], "2 of 2 rows have no value"),
        ("parquet", [4.5], "it is between two steps"),
        ("csv", [-1], "wrong at index 0"),
        ("jsonl", [float("inf")], "scores.jsonl"),
    ],
)
def test_what_is_no_value_of_the_task_is_refused(form: str, values: list[Any], words: str) -> None:
    assert words in bad(write(form, score=values))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"", "must have a column 'score'; it has none"),
        ("a.csv", b"score\n", "has no values in 'score'"),
        ("a.csv", b"score,b\n\n", "has no values in 'score'"),
        ("a.csv", b"scores,\xff\n1,2\n", "must have a column 'score'; it has scores"),
        ("a.csv", b"score,score\n1,2\n", "must have one column 'score'; it has 2"),
        ("a.csv", b"score\n1\n2,3\n", "cannot read a.csv: CSV parse error"),
        ("a.csv", b"score\n06:15\n", "must hold numbers in the unit of the domain, such as 6.25 for 06:15"),
        ("a.csv", bytes(range(256)), "a.csv"),
        ("a.parquet", b"", "cannot read a.parquet"),
        ("a.parquet", b"PAR1", "cannot read a.parquet"),
        ("a.jsonl", b"", "has no values in 'score'"),
        ("a.jsonl", b'{"scores": 1}\n', "no line has 'score'"),
        ("a.jsonl", b'{"score": 1}\n\n{"score": \n', "line 3: not a line of JSON"),
        ("a.jsonl", b"[1, 2]\n", "line 1: must be a JSON object"),
        ("a.json", b'[{"score": 1},\n{"score": 2}]\n', "this is an array; write JSON lines"),
        ("a.jsonl", b"\xff\xfe\n", "line 1: not a line of JSON"),
        ("a.jsonl", b"[" * 100_000, "line 1: not a line of JSON"),
    ],
)
def test_a_file_that_is_none_is_named(name: str, content: bytes, words: str) -> None:
    Path(name).write_bytes(content)
    assert words in bad(name)


def test_columns_that_are_not_there() -> None:
    name = write("parquet", delay=[1.0], at=[0])
    assert "scores.parquet must have a column 'score'; it has delay, at" in bad(name)
    assert "must have a column 'when'" in bad(write("csv", score=[1]), "--time", "when")
    assert "no line has 'when'" in bad(write("jsonl", score=[1]), "--time", "when")


def test_files_that_must_not_be_written() -> None:
    name = write("csv", score=VALUES)
    assert "is FILE itself" in bad(name, "--force", output=name)
    assert "must end with .parquet" in bad(name, output="reports.txt", code=2)
    assert "cannot write no/reports.parquet" in bad(name, output="no/reports.parquet")
    Path("scores.xlsx").write_bytes(b"PK")
    assert "must end with .parquet" in bad("scores.xlsx", code=2)


@pytest.fixture
def without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arcwise.extras.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # an import fails


@pytest.mark.usefixtures("without_pyarrow")
def test_parquet_without_pyarrow_names_the_extra() -> None:
    words = "needs pyarrow: pip install 'arcwise[lake]'"
    assert f"arcwise randomize of reports.parquet {words}" in bad(write("csv", score=VALUES), code=2)
    Path("values.pq").write_bytes(b"PAR1")
    assert f"arcwise randomize of values.pq {words}" in bad("values.pq", output="reports.csv", code=2)


@pytest.mark.usefixtures("without_pyarrow")
@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
@pytest.mark.parametrize("output", ["reports.jsonl", "reports.csv"])
def test_text_needs_no_pyarrow(form: str, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_BLOCK", 64)
    times = [time.isoformat() for time in TIMES]
    values = [None if n % 7 == 0 else value for n, value in enumerate(VALUES)]
    name = write(form, other=["x,\ny"] * 300, score=values, at=times)
    words = good(name, "--time", "at", "--missing", "drop", output=output)
    assert "257 reports in 13 epochs; left out 43 rows without a value" in words
    kept = [value for value in values if value is not None]
    assert SCORE.count(read(output)["codes"].explode()).tolist() == np.bincount(kept, minlength=11).tolist()


@pytest.mark.usefixtures("without_pyarrow")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("score\n1\n06:15\n", "line 3: '06:15' is not a number; --column must hold numbers in the unit"),
        ("score,a\n1,2\n3\n", "line 3: 1 cells, not 2"),
        ("a\n1\n", "must have a column 'score'; it has a"),
        ("score\n1\n\n2\nNA\n", "2 of 4 rows have no value in 'score'"),
        ("", "it has none"),
        ("score\n\xff\n", "cannot read"),
        ('score\n1\n"2', "wrote reports.csv: 2 reports"),
    ],
)
def test_text_that_is_wrong_without_pyarrow(text: str, words: str) -> None:
    Path("scores.csv").write_bytes(text.encode("latin-1"))
    assert words in " ".join(run("scores.csv", output="reports.csv").output.split())


def test_the_same_cells_are_missing_with_and_without_pyarrow() -> None:
    assert frozenset(pyarrow.csv.ConvertOptions().null_values) == reading.MISSING


@pytest.mark.usefixtures("without_pyarrow")
def test_times_without_pyarrow() -> None:
    texts = ["2026-03-01T00:00:00Z", None, "1772323200.5"]
    np.testing.assert_array_equal(read_seconds(texts), [1_772_323_200, math.nan, 1_772_323_200.5])
    np.testing.assert_array_equal(read_seconds([3, None]), [3, math.nan])
    with pytest.raises(DomainError, match="times must be of one kind"):
        read_seconds([1, "2026-03-01"])
    with pytest.raises(DomainError, match="the text at index 0 is neither"):
        read_seconds(["soon"])


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ([0, 1.5, None], [0, 1.5, np.nan]),
        (["1700000000", "1.5", None], [1_700_000_000, 1.5, np.nan]),
        (["2026-03-01", "2026-03-02"], [1_772_323_200, 1_772_409_600]),
        (["2026-03-01 00:00:00.5"], [1_772_323_200.5]),
        (["2026-03-01T00:00:00Z", "2026-03-01T01:00:00+01:00"], [1_772_323_200] * 2),
        ([dt.date(2026, 3, 1)], [1_772_323_200]),
        ([dt.datetime(2026, 3, 1)], [1_772_323_200]),
        ([dt.datetime(2026, 3, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))], [1_772_323_200]),
        (["2026-03-01", "2026-03-01T01:00+01:00", "2026-03-01T00:00:00Z"], [1_772_323_200] * 3),
        (["1772323200", "2026-03-01", None], [1_772_323_200, 1_772_323_200, math.nan]),
        (pa.array([1_772_323_200_999_999_999], pa.timestamp("ns")), [1_772_323_200.999999]),
        (pa.array([1_772_323_200], pa.timestamp("s", "Europe/Berlin")), [1_772_323_200]),
    ],
)
def test_times_are_read_as_unix_seconds(times: Any, seconds: list[float]) -> None:
    np.testing.assert_array_equal(read_seconds(times), seconds)


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (["2026-03-01", "soon"], "times must be ISO 8601, such as .* the text at index 1 is neither"),
        ([1, "2026-03-01"], "times must be of one kind"),
        ([dt.time(3)], "times must be numbers"),
        ([True], "times must be numbers"),
    ],
)
def test_what_is_no_time_is_refused(times: list[Any], words: str) -> None:
    with pytest.raises(DomainError, match=words):
        read_seconds(times)


@pytest.mark.parametrize("time", [-1, 1e18])
def test_times_without_an_epoch_are_refused(time: float) -> None:
    assert "times must be from 1970 on" in bad(write("csv", score=[1], at=[time]), "--time", "at")


def test_times_in_milliseconds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arcwise.cli.randomize.time.time", lambda: 1_772_323_200.0)
    tomorrow = 1_772_323_200 + 86_400
    good(write("csv", score=[1], at=[tomorrow]), "--time", "at")
    Path("reports.parquet").unlink()
    for time in (tomorrow + 86_400, 1_772_323_200_000):
        words = bad(write("csv", score=[1], at=[time]), "--time", "at")
        assert f"at most a day ahead of now, which is 1772323200 in Unix seconds; got {time} (mill" in words


@pytest.mark.parametrize("output", ["reports.parquet", "reports.jsonl", "reports.csv"])
def test_the_reports_are_counted_where_they_lie(output: str) -> None:
    """Each once, also from a copy of the file."""
    good(write("parquet", score=VALUES, at=TIMES), "--time", "at", output=output)
    counted = count_table([output, output], SCORE, now=math.inf)
    expected: dict[tuple[str, int], list[int]] = {}
    for value, time in zip(VALUES, TIMES, strict=True):
        expected.setdefault((SCORE.id, SCORE.epoch(time.timestamp())), []).append(value)
    assert {key: counts.tolist() for key, counts in counted.counts.items()} == {
        key: np.bincount(each, minlength=11).tolist() for key, each in expected.items()
    }
    assert [(rejected.reason, rejected.reports) for rejected in counted.rejected] == [("replayed", 300)]


def test_reports_can_be_read_with_the_standard_library() -> None:
    good(write("csv", score=VALUES), output="reports.jsonl")
    (line,) = Path("reports.jsonl").read_text(encoding="ascii").splitlines()
    assert sorted(json.loads(line)) == ["batch_id", "codes", "epoch", "task_id"]
