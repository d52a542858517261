"""`arcwise simulate`, as a user types it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from arcwise.analysis.simulate import simulate_counts
from arcwise.tasks import Task
from tests.support.commands import bad, good


@pytest.fixture(autouse=True)
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    good("task", "new", "age", "--interval", "0:100", "--epsilon", "1")
    good("task", "new", "heading", "--circle", "360", "--epsilon", "1")


def test_what_is_simulated_is_estimated() -> None:
    line = "0.2*atom:0 + rest*normal:40,10"
    good(
        "simulate",
        "age.json",
        "--distribution",
        line,
        *["--reports", "1e12", "--seed", "3", "-o", "counts.json"],
    )
    counts = json.loads(Path("counts.json").read_text())
    task = Task.load("age.json")
    expected = simulate_counts(task, line, 10**12, np.random.default_rng(3))
    assert counts == expected.tolist()
    result = json.loads(good("estimate", "age.json", "--counts", "counts.json", "--json"))
    assert result["n"] == 10**12
    # At this size, the standard error is a millionth of the range: 5 of them, and the cut normal's shift.
    assert result["mean"]["value"] == pytest.approx(0.8 * 40, abs=0.01)


@pytest.mark.parametrize("lines", [False, True])
def test_counts_go_through_a_pipe(lines: bool) -> None:
    args = [
        "simulate",
        "heading.json",
        "--distribution",
        "vonmises:90,2",
        "--reports",
        "250000",
        "--seed",
        "1",
    ]
    text = good(*args, *(["--lines"] if lines else []))
    assert text.count("\n") == (128 if lines else 1)
    found = json.loads(good("estimate", "heading.json", "--counts", "-", "--json", text=text))
    assert found["direction"]["value"] == pytest.approx(90, abs=2)


def test_without_a_seed_counts_are_new() -> None:
    args = ["simulate", "age.json", "--distribution", "uniform", "--reports", "1e6"]
    assert good(*args) != good(*args)
    assert good(*args, "--seed", "0") == good(*args, "--seed", "0")


def test_the_truth_is_printed_beside_the_estimates() -> None:
    args = ["--reports", "1e6", "--seed", "1", "--estimate"]
    text = good("simulate", "age.json", "--distribution", "beta25", *args)
    assert "1,000,000 simulated reports at epsilon 1" in text
    assert re.search(r"^mean +28\.571 +2[89]\.\d+ +\[.*\] +inside", text, re.MULTILINE)
    assert re.search(r"^95% quantile +58\.18 ", text, re.MULTILINE)
    assert "[" in text
    assert not text.lstrip().startswith("[")
    text = good("simulate", "heading.json", "--distribution", "vonmises:90,2", *args)
    assert re.search(r"^mean direction +90 +(89|90)\.\d+ +\[.*\] +inside", text, re.MULTILINE)
    assert re.search(r"^resultant length +0\.69777 +0\.\d+", text, re.MULTILINE)
    text = good("simulate", "heading.json", "--distribution", "uniform", *args)
    assert re.search(r"^mean direction +none +.* inside", text, re.MULTILINE)
    good("task", "new", "dose", "--interval", "0:1", "--epsilon", "1", "--goal", "value")
    text = good("simulate", "dose.json", "--distribution", "beta25", *args)
    assert re.search(r"^mean +0\.28571 +\[.*\] +inside", text, re.MULTILINE)


def test_a_unit_is_printed_and_is_no_markup() -> None:
    good("task", "new", "height", "--domain", "0:10", "--epsilon", "1", "--unit", "[m]")
    text = good("simulate", "height.json", "--distribution", "uniform", "--reports", "100", "--estimate")
    assert text.splitlines()[0] == "100 simulated reports at epsilon 1, values in [0, 10] [m]"


def test_data_from_files() -> None:
    Path("values.txt").write_text("10\n20\n\n30.5\n")
    Path("table.csv").write_text('name,"age, years"\n"x, y",10\nz,20\nw,30.5\n')
    args = ["--reports", "3e6", "--seed", "4"]
    lines = good("simulate", "age.json", "--data", "values.txt", *args)
    assert lines == good("simulate", "age.json", "--data", "table.csv", "--column", "age, years", *args)
    assert lines == good("simulate", "age.json", "--data", "-", *args, text="10\n20\n30.5\n")
    drawn = simulate_counts(Task.load("age.json"), [10, 20, 30.5], 3 * 10**6, np.random.default_rng(4))
    assert json.loads(lines) == drawn.tolist()
    assert sum(json.loads(good("simulate", "age.json", "--data", "values.txt"))) == 3
    fixed = good("simulate", "age.json", "--data", "values.txt", "--fixed", *args)
    expected = simulate_counts(
        Task.load("age.json"), [10, 20, 30.5], 3 * 10**6, np.random.default_rng(4), fixed=True
    )
    assert json.loads(fixed) == expected.tolist()
    text = good("simulate", "age.json", "--data", "values.txt", "--fixed", *args, "--estimate")
    assert re.search(r"^mean +20\.167 ", text, re.MULTILINE)
    assert "are for these devices" in text


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "give one of --distribution and --data"),
        (["--distribution", "uniform", "--data", "values.txt"], "give one of --distribution and --data"),
        (["--distribution", "uniform"], "give --reports"),
        (["--distribution", "uniform", "--fixed"], "--fixed is for --data"),
        (["--distribution", "uniform", "--column", "x"], "--column is for --data"),
        (["--distribution", "uniform", "--reports", "0"], "whole number from 1 to 10^12"),
        (["--distribution", "uniform", "--reports", "1.5"], "'1.5' is not a whole number"),
        (["--distribution", "uniform", "--reports", "1e13"], "'1e13' is not a whole number"),
        (["--distribution", "uniform", "--reports", "nan"], "'nan' is not a whole number"),
        (["--distribution", "uniform", "--reports", "many"], "'many' is not a whole number"),
        (["--distribution", "uniform", "--reports", "9", "-o", "no/such.json"], "cannot write no/such.json"),
        (["--distribution", "gauss", "--reports", "9"], "a part must be one of uniform:LOW,HIGH, beta:A,B"),
        (["--distribution", "uniform", "--reports", "9", "--estimate", "--level", "2"], "level must be"),
        (["--data", "values.txt", "--reports", "5", "--fixed"], "multiple of the 2 values"),
        (["--data", "outside.txt"], "wrong at index 1"),
        (["--data", "words.txt"], "--data must hold numbers"),
        (["--data", "empty.txt"], "--data must hold at least one number"),
        (["--data", "two.txt"], "--data has 2 columns: name one with --column"),
        (["--data", "two.txt", "--column", "x"], "--column must be one of 1, 2; got 'x'"),
    ],
)
def test_errors_say_what_is_wrong(args: list[str], message: str) -> None:
    files = {"values": "1\n2\n", "outside": "1\n101\n", "words": "1\nx\n", "empty": "", "two": "1,2\n3,4\n"}
    for name, text in files.items():
        Path(f"{name}.txt").write_text(text)
    assert message in bad("simulate", "age.json", *args)


def test_the_help_names_every_population() -> None:
    text = good("simulate", "--help")
    for name in ("two-bumps", "arrival-delays", "two-directions", "vonmises:MEAN,KAPPA", "rest*"):
        assert name in text
    assert "simulate" in good("--help")
