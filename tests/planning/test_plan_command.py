"""`arcwise plan`, as a user types it."""

import csv
import json
from functools import partial
from pathlib import Path

import pytest

from arcwise.analysis.planning import plan
from arcwise.domains import Interval
from tests.support import commands

run = partial(commands.run, "plan")
good = partial(commands.good, "plan")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_table_is_that_of_python() -> None:
    text = good("--domain", "0:180", "--epsilon", "1", "--error", "0.5")
    made = plan(Interval(0, 180), epsilon=1, error=0.5)
    assert text.startswith(f"{made.reports:,} reports at epsilon 1: error 0.5; the interval at level 0.95")
    lines = text.splitlines()
    for row in made.rows:
        (line,) = [line for line in lines if line.startswith(f"{row.label}{' *' if row.chosen else ''}  ")]
        assert f"{row.reports:,}" in line
        assert f"{row.relative:.3f}" in line
    assert "* what a task with this goal gets" in text


def test_a_share_is_one_of_the_range() -> None:
    args = ["--epsilon", "1", "--no-compare", "--json"]
    first = json.loads(good("--domain", "0:180", "--error", "1%", *args))
    second = json.loads(good("--domain", "0:180", "--error", "1.8", *args))
    assert first == second
    assert first["asked"] == pytest.approx(1.8)
    assert [row["label"] for row in first["mechanisms"]] == ["LP design, mean"]


def test_directions_say_what_was_assumed() -> None:
    text = good("--circle", "360", "--reports", "1e5", "--error", "2")
    assert "for every population with a resultant length of at least 0.5" in text
    text = good("--domain", "circle:360", "--reports", "1e5", "--error", "2", "--population", "vonmises:90,1")
    assert "for vonmises:90,1" in text


@pytest.mark.slow
def test_distributions_tell_each_population() -> None:
    given = "--domain 0:1 --goal distribution --epsilon 4 --reports 300 --no-compare"
    text = good(*given.split())
    assert "expected Wasserstein-1 distance" in text
    assert "by case    uniform 0." in text
    assert "two-bumps 0." in text


@pytest.mark.slow
def test_files_are_written() -> None:
    pytest.importorskip("matplotlib")
    result = run("--circle", "24", "--epsilon", "1", "--error", "0.1", "--csv", "a.csv", "--plot", "a.svg")
    assert result.exit_code == 0, result.output
    assert "wrote a.csv" in result.stderr
    with Path("a.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert "optimal-circular" in [row["label"] for row in rows]
    assert all(float(row["error"]) <= 0.1 for row in rows)
    assert "<svg" in Path("a.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--domain", "0:1", "--epsilon", "1"], "give two of --epsilon, --error and --reports"),
        (["--epsilon", "1", "--error", "1"], "give one of --domain"),
        (["--domain", "0:1", "--epsilon", "1", "--reports", "many"], "'many' is not a whole number"),
        (["--domain", "0:1", "--epsilon", "1", "--reports", "1.5"], "'1.5' is not a whole number"),
        (["--domain", "0:1", "--epsilon", "1", "--error", "2"], "error must be at most the range 1"),
        (["--domain", "0:1", "--epsilon", "1", "--error", ".1", "--plot", "a.doc"], "--plot takes a file"),
        (["--circle", "1", "--epsilon", "1", "--error", ".1", "--csv", "no/a.csv"], "cannot write no/a.csv"),
    ],
)
def test_errors_say_what_is_wrong(args: list[str], message: str) -> None:
    result = run(*args)
    assert result.exit_code in (1, 2)
    assert message in " ".join(result.output.split())
    assert isinstance(result.exception, SystemExit)


def test_it_is_listed() -> None:
    assert "plan" in commands.run("--help").output
