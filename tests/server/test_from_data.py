"""`arcwise task new --from-data`: it proposes a domain, a step and clipping from a sample."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from arcwise.domains import Circle, Interval
from arcwise.tasks import Task
from tests.support import commands

GENERATOR = np.random.default_rng(7)
AGES = np.append(np.clip(np.rint(GENERATOR.normal(45, 15, 298)), 18, 90), [18.0, 93.0])
NEW = ("task", "new", "x", "--epsilon", "1")
LENGTHS = GENERATOR.gamma(4.0, 13.7, 500)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(text: str, *args: str) -> str:
    done = commands.run(*NEW, "--from-data", "-", "--force", *args, text=text)
    assert done.exit_code == 0, done.output
    return done.output


def lines(values: object) -> str:
    return "\n".join(map(repr, np.asarray(values).tolist()))


def made(values: object, *args: str) -> tuple[Task, str]:
    text = run(lines(values), *args)
    return Task.load("x.json"), text


def test_ages_get_round_bounds_a_step_and_clipping() -> None:
    task, text = made(AGES)
    assert task.domain == Interval(0, 100, clip=True, step=1)
    assert text.startswith("arcwise task new x --domain 0:100 --step 1 --clip --epsilon 1\n")
    assert "note: bounds from 300 values, rounded outward\n" in text
    assert "note: all values are multiples of 1, so the task has this step and 101 values\n" in text
    assert "note: a domain taken from data reveals something about the data" in text
    assert "wrote x.json" in text


@pytest.mark.parametrize(
    "extra", [[], ["--goal", "value"], ["--lifetime-cap", "4.5", "--epoch-seconds", "3600"]]
)
def test_the_command_that_is_told_makes_the_same_task(extra: list[str]) -> None:
    task, text = made(AGES, *extra)
    command = shlex.split(text.splitlines()[0])
    Path("x.json").unlink()
    commands.good(*command[1:])
    assert Task.load("x.json").id == task.id


def test_a_dry_run_writes_nothing() -> None:
    assert "certificate" in run(lines(AGES), "--dry-run")
    assert not Path("x.json").exists()


def test_numbers_that_are_multiples_of_nothing_have_no_step() -> None:
    task, text = made(LENGTHS)
    assert isinstance(task.domain, Interval)
    assert task.domain.step is None
    assert task.domain.low <= LENGTHS.min()
    assert LENGTHS.max() <= task.domain.high <= 1.25 * LENGTHS.max()
    assert "multiples" not in text


@pytest.mark.parametrize("step", [0.05, 0.1, 0.25, 2.5, 10, 15, 30])
@pytest.mark.parametrize("low", [-40, 0, 1000])
def test_steps_are_found_and_fit_the_bounds(step: float, low: int) -> None:
    values = low * step + step * GENERATOR.integers(0, 60, 400)
    task, _ = made([float(f"{value:.9g}") for value in values])
    assert task.domain.step == step
    assert task.mechanism.lattice is not None
    for value in values.tolist():
        task.domain.to_place(value)


def test_a_few_numbers_between_steps_are_rounded_to_the_nearest() -> None:
    task, text = made([*AGES, 37.5, 41.25])
    assert task.domain == Interval(0, 100, clip=True, step=1, rounding="nearest")
    assert "2 of 302 are between two of them, rounding nearest" in text
    assert " --step 1 --rounding nearest --clip" in text
    assert made([*AGES, *([37.5] * 20)])[0].domain.step == 0.5


def test_many_zeros_are_multiples_of_no_step_in_particular() -> None:
    assert made([0.0] * 2000 + [3.0, 7.0, 11.0, 12.0, 1.0, 20.0])[0].domain.step == 1.0


def test_a_long_tail_is_left_out_and_said_to_be() -> None:
    task, text = made([*AGES, 9999.0])
    assert task.domain == Interval(0, 90, clip=True, step=1)
    assert "2 lie outside and are clipped, which moves means" in text


def test_too_many_values_have_no_step() -> None:
    task, text = made(GENERATOR.integers(0, 5000, 300))
    assert task.domain.step is None
    assert "more than can have a node each (1,024): no step" in text
    assert "values are multiples" not in run(lines([10.0, 20.0, 40.0]))  # nor do too few values show a step


def test_what_is_given_is_kept() -> None:
    task, text = made(AGES, "--domain", "10:80")
    assert task.domain == Interval(10, 80, clip=True, step=1)
    assert "values outside the domain are clipped" in text
    assert made(AGES, "--domain", "0:120")[0].domain == Interval(0, 120, step=1)
    rounded = Interval(0, 100, clip=True, step=5, rounding="stochastic")
    assert made(AGES, "--step", "5", "--rounding", "stochastic")[0].domain == rounded
    # A step must divide the domain, so multiples of 6 get steps of 2.
    assert made(6.0 * GENERATOR.integers(0, 16, 100), "--domain", "0:100")[0].domain.step == 2.0


def test_a_circle_gets_a_step() -> None:
    headings = 10.0 * GENERATOR.integers(-36, 36, 200)
    task, text = made(headings, "--circle", "360")
    assert task.domain == Circle(360, step=10)
    assert "--circle 360 --step 10 --epsilon 1" in text
    assert made(GENERATOR.random(200), "--circle", "1")[0].domain == Circle(1)
    assert made(GENERATOR.integers(0, 7, 200) / 7, "--circle", "1")[0].domain.size == 7


CSV = "id,age\n" + "\n".join(f"{i},{age}" for i, age in enumerate(AGES))


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("age\n" + lines(AGES), []),
        (CSV, ["--column", "age"]),
        (CSV + "\nx,\ny, ", ["--column", "age"]),
        (json.dumps(AGES.tolist()), []),
        ("\n".join(json.dumps({"age": age, "id": "a"}) for age in AGES), ["--column", "age"]),
        (json.dumps([{"age": age} for age in AGES]), ["--column", "age"]),
        ("\ufeff" + lines(AGES) + "\n\n", []),
    ],
    ids=[
        "csv of one column",
        "csv",
        "empty fields",
        "json",
        "json lines",
        "json of objects",
        "mark and blank lines",
    ],
)
def test_files_of_every_kind(text: str, args: list[str]) -> None:
    Path("data").write_text(text, encoding="utf-8")
    done = commands.run(*NEW, "--from-data", "data", *args)
    assert done.exit_code == 0, done.output
    assert ("note: 2 empty fields of --from-data left out" in done.output) == text.endswith("y, ")
    assert Task.load("x.json").domain == Interval(0, 100, clip=True, step=1)


@pytest.mark.parametrize(
    ("text", "args", "message"),
    [
        ("", [], "--from-data must hold at least one number, got none"),
        ("[]", [], "--from-data must hold at least one number, got none"),
        ("age\n", [], "--from-data must hold at least one number, got none"),
        ("5\n5\n5.0", [], "--from-data must hold different numbers, got 5 only: give --domain instead"),
        ("1\nnan\n3", [], "must hold finite numbers, got nan as number 2: leave missing values out"),
        ("1\n-inf\n3", [], "must hold finite numbers, got -inf as number 2"),
        ("1\nx\n3", [], "--from-data must hold numbers, got 'x' in row 2"),
        ("1\n\n3\ny", [], "must hold numbers, got 'y' in row"),
        ("a,b\n1,2", [], "--from-data has 2 columns: name one with --column"),
        ("a,b\n1,2", ["--column", "c"], "--column must be one of a, b; got 'c'"),
        ("a,b\n1", ["--column", "b"], "must hold numbers, got '' in row 2"),
        ("a,b\n1,\n2, ", ["--column", "b"], "--from-data must hold at least one number, got none"),
        ("[1, true]", [], "must hold numbers, got True as item 2"),
        ("[1, null]", [], "must hold numbers, got None as item 2"),
        ('{"a": 1}', [], "--from-data holds objects: name one of a with --column"),
        ('{"a": 1}', ["--column", "b"], "must hold numbers, got None as item 1 of a"),
        ("[1, 2", [], "--from-data is not JSON"),
        ("1\n2.5", ["--rounding", "nearest"], "--rounding is for a domain with a step, and these"),
    ],
)
def test_what_is_no_sample_is_refused(text: str, args: list[str], message: str) -> None:
    assert message in commands.bad(*NEW, "--from-data", "-", *args, text=text)
    assert not Path("x.json").exists()


def test_a_column_is_for_a_sample() -> None:
    assert "--column is for --from-data" in commands.bad(*NEW, "--domain", "0:1", "--column", "a", code=2)
