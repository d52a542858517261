"""`compare`, `plan` and `reproduce` on a file of values, compared with sums over the values themselves."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from arcwise.analysis.likelihood.distribution import fit_held_out
from arcwise.analysis.mechanism_table import compare
from arcwise.analysis.mechanism_table.measures import measure
from arcwise.analysis.planning import plan
from arcwise.analysis.simulate import as_population, simulate_counts
from arcwise.cli import main
from arcwise.cli.own_data import read_own_numbers
from arcwise.domains import Circle, Interval
from arcwise.mechanisms import OptimalPiecewise, PiecewiseSub
from arcwise.papers.opm_distribution import error_of, on_values

GENERATOR = np.random.default_rng(23)
INCOMES = np.round(GENERATOR.lognormal(3.3, 0.4, 61), 2)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"{i},{income}" for i, income in enumerate(INCOMES.tolist()))
    Path("incomes.csv").write_text(f"id,income\n{rows}\n99,\n100,NA\n", encoding="utf-8")


def run(*args: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, args)
    assert done.exit_code == code, done.output
    return done


def test_compare_averages_over_the_values_row_by_row() -> None:
    done = run(
        *("compare", "--epsilon", "0.8", "--data", "incomes.csv", "--column", "income"),
        *("--domain", "0:90", "--no-designs", "--csv", "out.csv"),
    )
    assert "left out 2 rows without a value" in done.stderr
    assert "reveals something" in done.stderr
    assert "over 61 values of yours" in done.output
    with Path("out.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["label"]: row for row in csv.DictReader(file)}
    squared = [float(row["mean_squared"]) for row in rows.values()]
    assert squared == sorted(squared)
    mechanism = OptimalPiecewise(Interval(0, 90), 0.8, placement="clamp")
    kernel, total = mechanism.kernel, [0.0, 0.0]
    for value in INCOMES.tolist():
        place = mechanism.locate(value)
        for node, share in ((int(place), 1 - place % 1), (int(place) + 1, place % 1)):
            if share:
                for weight, y in zip(kernel.row(node), mechanism.values.tolist(), strict=True):
                    total[0] += share * weight / 2**64 * abs(y - value) / 61
                    total[1] += share * weight / 2**64 * (y - value) ** 2 / 61
    row = rows["optimal-piecewise, clamp"]
    assert [float(row["mean_absolute"]), float(row["mean_squared"])] == pytest.approx(total, rel=1e-9)


@pytest.mark.slow
def test_compare_ranks_by_the_population() -> None:
    """The clamp's windows are far from the values at the ends of the domain, but not in the middle."""

    def clamps_error(values: list[float]) -> float:
        rows = compare(Interval(0, 1), 1.7, designs=False, sort="mean-absolute", population=values).rows
        errors = {row.label: row.mean_absolute for row in rows}
        return errors["optimal-piecewise, clamp"]

    assert clamps_error([0.0, 1.0]) > 1.3 * clamps_error([0.5])
    # On a circle all places are alike.
    turns = [
        compare(Circle(24), 1.7, designs=False, population=values).rows[0].mean_absolute
        for values in ([3.0], [3.0, 11.7], "uniform")
    ]
    assert max(turns) == pytest.approx(min(turns), rel=1e-3)


def test_more_values_than_a_grid_can_take_are_grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    population = as_population(GENERATOR.random(5_000), Interval(0, 1))
    mechanism = PiecewiseSub(Interval(0, 1), 2.3)
    exact = measure(mechanism, "", population)
    monkeypatch.setattr("arcwise.analysis.mechanism_table.measures._MOST", 1 << 10)
    grouped = measure(mechanism, "", population)
    assert exact.mean_squared != grouped.mean_squared == pytest.approx(exact.mean_squared, rel=1e-3)


def test_bounds_are_rounded_outward_and_said_to_reveal() -> None:
    done = run("compare", "--epsilon", "1", "--data", "incomes.csv", "--column", "income", "--no-designs")
    notes = " ".join(done.stderr.split())
    assert "rounded outward" in notes
    assert "a domain taken from data reveals something about the data" in notes
    words = next(line for line in done.stderr.splitlines() if "--domain" in line)
    low, high = (float(text) for text in words.split("--domain ")[1].split()[0].split(":"))
    assert low <= INCOMES.min()
    assert high >= INCOMES.max()


@pytest.mark.parametrize("form", ["lines", "json", "jsonl", "tsv", "parquet"])
def test_files_of_every_kind_give_the_same_values(form: str) -> None:
    column: str | None
    values = INCOMES.tolist()
    path, column = Path(f"values.{form}"), "income"
    if form == "lines":
        path.write_text("\n".join(map(str, values)))
        column = None
    elif form == "json":
        path.write_text(json.dumps([*values[:30], None, *values[30:]]))
        column = None
    elif form == "jsonl":
        path.write_text("\n".join(json.dumps({"income": value}) for value in [*values, None]))
    elif form == "tsv":
        path.write_text("a\tincome\n" + "\n".join(f"x\t{value}" for value in values))
    else:
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pa.table({"income": [*values, None], "other": [1.0] * 62}), path)
    assert read_own_numbers(path, column).tolist() == values


def test_a_plan_on_a_file_is_that_for_its_values() -> None:
    done = run(
        *("plan", "--data", "incomes.csv", "--column", "income", "--domain", "0:90"),
        *("--epsilon", "0.8", "--error", "1", "--no-compare", "--json"),
    )
    made = plan(Interval(0, 90), epsilon=0.8, error=1.0, population=INCOMES, compare=False)
    assert json.loads(done.stdout) == json.loads(json.dumps(made.to_dict()))


def test_a_plan_for_values_has_their_variance() -> None:
    """The standard error of PM: its variance at each value, averaged, and the variance of the values."""
    made = plan(Interval(0, 90), epsilon=0.8, reports=1000, population=INCOMES)
    e = math.exp(0.4)
    # Wang et al. (ICDE 2019), lemma 1, for inputs t in [-1, 1].
    at = [t**2 / (e - 1) + (e + 3) / (3 * (e - 1) ** 2) for t in ((INCOMES - 45.0) / 45.0).tolist()]
    variance = 45.0**2 * float(np.mean(at)) + float(INCOMES.var())
    row = next(row for row in made.rows if row.label == "optimal-piecewise, inset")
    assert row.error == pytest.approx(math.sqrt(variance / 1000), rel=2e-3)
    # The chosen task has a command; the design for these values is in the next row.
    assert made.chosen.label == "LP design, mean"
    assert made.chosen.command.endswith("--goal mean")
    assert "LP design, population" in {row.label for row in made.rows}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["compare", "--epsilon", "1", "--column", "a", "--domain", "0:1"], "--column is for --data"),
        (["plan", "--epsilon", "1", "--error", "1", "--column", "a", "--domain", "0:1"], "--column is for"),
        (
            ["plan", "--epsilon", "1", "--error", "1", "--data", "incomes.csv", "--population", "uniform"],
            "give one of --data and --population",
        ),
        (["compare", "--epsilon", "1", "--data", "incomes.csv"], "--data has 2 columns: name one with"),
        (
            ["compare", "--epsilon", "1", "--data", "incomes.csv", "--column", "x"],
            "must be one of id, income",
        ),
        (["compare", "--epsilon", "1", "--data", "same.txt"], "--data must hold different numbers, got 3"),
        (["compare", "--epsilon", "1", "--data", "none.txt"], "--data must hold at least one number"),
        (["compare", "--epsilon", "1", "--data", "word.txt"], "--data must hold numbers, got 'x' in row 2"),
        (["reproduce", "opm-interval", "--data", "same.txt"], "--data is for the reproduction"),
        (["reproduce", "opm-interval", "--domain", "0:1"], "--domain is for --data"),
        (["reproduce", "opm-distribution", "--data", "same.txt", "--domain", "0:5"], "at least 10, got 2"),
    ],
)
def test_what_does_not_fit_is_refused(args: list[str], said: str) -> None:
    for name, text in {"same": "3\n3.0\n", "none": "value\nNA\n", "word": "1\nx\n"}.items():
        Path(f"{name}.txt").write_text(text)
    done = CliRunner().invoke(main, args)
    assert done.exit_code
    assert said in " ".join(done.output.split())


def test_values_outside_a_domain_that_is_given_are_clipped_and_counted() -> None:
    outside = int((INCOMES > 25).sum())
    done = run(
        *("compare", "--epsilon", "1", "--data", "incomes.csv", "--column", "income"),
        *("--domain", "0:25", "--no-designs"),
    )
    assert f"{outside} of 61 values lie outside and are clipped, which moves means" in done.stderr


def test_the_experiment_on_distributions_has_the_values_as_its_users() -> None:
    """One survey of everybody: the distance of two distribution functions, summed on a fine grid."""
    units = np.sort(INCOMES / 90.0)
    mechanism = OptimalPiecewise(Interval(0, 1), 3.1)
    found = error_of(mechanism, units, units.size, 4)
    generator = np.random.default_rng([20, 4])
    counts = simulate_counts(mechanism, units, units.size, generator, fixed=True)
    fitted = fit_held_out(mechanism, counts.astype(np.float64)).probabilities
    # A node's mass is spread over its cell, half-way to its neighbours; at the ends it is an atom.
    middles = (np.arange(mechanism.kernel.nodes - 1) + 0.5) / (mechanism.kernel.nodes - 1)
    line = (np.arange(200_000) + 0.5) / 200_000
    ours = np.interp(line, middles, np.cumsum(fitted)[:-1])
    theirs = np.searchsorted(units, line, "right") / units.size
    exact = float(np.abs(ours - theirs).mean())
    assert 0.99 * exact < found < 1.0001 * exact  # which has one sign in each piece between two edges


@pytest.mark.slow
def test_reproduce_ranks_mechanisms_by_epsilon_on_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"EPSILONS": (1.0, 4.0), "SIZES": (100, 1_000), "SURVEYS": 1, "_OF_VALUES": 1}
    for name, value in small.items():
        monkeypatch.setattr(f"arcwise.papers.opm_distribution.{name}", value)
    done = run("reproduce", "opm-distribution", "--data", "incomes.csv", "--column", "income", "-o", "out")
    assert "Wasserstein-1 error at epsilon 4, in thousandths of the range" in done.stdout
    with Path("out/opm-distribution-data-populations.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["epsilon"]) for row in rows] == [1.0, 4.0]
    assert {row["reports"] for row in rows} == {"61"}
    assert Path("out/opm-distribution-data.png").stat().st_size > 10_000


def test_the_experiment_is_named() -> None:
    assert on_values(np.linspace(0, 1, 10), "the values").name == "opm-distribution-data"
