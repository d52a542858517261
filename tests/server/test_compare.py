"""`arcwise compare`: its rows agree with the mechanisms, and the command as a user types it."""

import csv
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from arcwise.analysis.mechanism_table import SORTS, ComparisonTable, compare
from arcwise.analysis.mechanism_table.table import candidates
from arcwise.domains import Circle, Domain, Interval
from arcwise.errors import ParameterError
from arcwise.mechanisms import DesignedCircular, DesignedTable, OptimalPiecewise
from arcwise.mechanisms.closed_forms.finite import duchi_worst_variance
from arcwise.mechanisms.closed_forms.piecewise import piecewise_worst_variance
from arcwise.mechanisms.registry import MECHANISMS
from tests.support.commands import bad, good

UNIT = Interval(0.0, 1.0)
HEIGHT = Interval(-20.0, 180.0)
HEADING = Circle(360.0)


@cache
def table(domain: Domain, epsilon: float) -> ComparisonTable:
    """Return the comparison without designs, with a delta at which every mechanism can be made."""
    return compare(domain, epsilon, delta=0.01, designs=False)


@pytest.mark.parametrize("domain", [UNIT, HEADING], ids=str)
def test_every_registered_mechanism_has_a_row(domain: Domain) -> None:
    found = table(domain, 1.0)
    assert not found.left_out
    designed = {DesignedTable, DesignedCircular}
    served = {
        (name, version)
        for (name, version), cls in MECHANISMS.items()
        if isinstance(domain, cls.domain_type) and cls not in designed
    }
    assert {(row.name, row.version) for row in found.rows} == served
    assert len({row.label for row in found.rows}) == len(found.rows)


@pytest.mark.parametrize("domain", [pytest.param(HEIGHT, marks=pytest.mark.slow), HEADING], ids=str)
def test_rows_are_what_the_mechanisms_say(domain: Domain) -> None:
    """Compares with `expected_error`, `mean` and `variance` at inputs that are not on the grid."""
    rows = {row.label: row for row in table(domain, 1.0).rows}
    low = domain.low if isinstance(domain, Interval) else 0.0
    inputs = low + domain.length * np.random.default_rng(5).random(40)
    for candidate in candidates(domain, delta=0.01, nodes=None, designs=False):
        row, mechanism = rows[candidate.label], candidate.make(1.0)
        absolute, squared = mechanism.expected_errors(inputs), mechanism.expected_errors(inputs, 2.0)
        # Any input is within an eighth of a step of the grid, on which errors change by little.
        assert absolute.max() <= row.worst_absolute * (1 + 2e-3)
        assert squared.max() <= row.worst_squared * (1 + 2e-3)
        assert absolute.mean() == pytest.approx(row.mean_absolute, rel=0.12)
        assert row.mean_absolute <= row.worst_absolute
        assert row.mean_squared <= row.worst_squared
        if isinstance(domain, Interval):
            assert max(mechanism.variance(x) for x in inputs[:5]) <= row.worst_variance * (1 + 2e-3)
            assert max(abs(mechanism.mean(x) - x) for x in inputs[:5]) <= row.bias * (1 + 1e-9) + 1e-9
            assert row.worst_truncated <= row.worst_absolute * (1 + 1e-12)
            assert math.isnan(row.attenuation)
            if row.unbiased:
                assert row.bias < 1e-9 * domain.length
                assert row.worst_variance == pytest.approx(row.worst_squared, rel=1e-9)
        else:
            assert row.worst_truncated == row.worst_absolute
            assert 0.0 < row.attenuation < 1.0


def test_known_worst_cases() -> None:
    rows = {row.label: row for row in table(UNIT, 1.0).rows}
    assert rows["duchi"].worst_squared == pytest.approx(duchi_worst_variance(1.0), rel=1e-9)
    assert rows["duchi"].codes == 2
    # Finite windows: PM has 204 codes instead of a continuum.
    assert rows["piecewise"].worst_squared == pytest.approx(piecewise_worst_variance(1.0), rel=1e-3)
    clamp = rows["optimal-piecewise, clamp"]
    assert clamp.worst_absolute == pytest.approx(1 / (1 + math.exp(0.5)), rel=1e-6)
    assert clamp.bias == pytest.approx(clamp.worst_absolute, rel=1e-9)  # at an end every error has one sign
    assert not clamp.unbiased


def test_averages_are_integrals() -> None:
    row = next(row for row in table(UNIT, 1.0).rows if row.label == "optimal-piecewise, clamp")
    mechanism = OptimalPiecewise(UNIT, 1.0, placement="clamp")
    x = (np.arange(20_000) + 0.5) / 20_000
    assert row.mean_absolute == pytest.approx(mechanism.expected_errors(x).mean(), rel=1e-5)
    assert row.mean_squared == pytest.approx(mechanism.expected_errors(x, 2.0).mean(), rel=1e-5)


@pytest.mark.slow
def test_errors_are_in_the_unit_of_the_domain() -> None:
    units = {row.label: row for row in table(UNIT, 1.0).rows}
    for row in table(HEIGHT, 1.0).rows:
        assert row.worst_absolute == pytest.approx(200.0 * units[row.label].worst_absolute, rel=1e-9)
        assert row.worst_squared == pytest.approx(200.0**2 * units[row.label].worst_squared, rel=1e-9)
        assert row.spent_epsilon == pytest.approx(units[row.label].spent_epsilon, rel=1e-12)


def test_certificates_and_sizes() -> None:
    for domain in (UNIT, HEADING):
        for row in table(domain, 1.0).rows:
            cls = MECHANISMS[row.name, row.version]
            assert (row.delta > 0) == cls.approximate
            if cls.approximate:
                assert 0.005 < row.delta_probability <= 0.01
            else:
                assert row.epsilon == 1.0
                assert row.spent_epsilon <= 1.0 + 1e-12
            assert row.report_bytes == (1 if row.codes <= 256 else 2)
            assert 100 < row.task_bytes <= 1 << 20


@pytest.mark.parametrize("sort", SORTS)
def test_rows_are_sorted(sort: str) -> None:
    rows = compare(HEADING, 2.0, designs=False, sort=sort).rows
    keys = [getattr(row, sort.replace("-", "_")) for row in rows]
    assert keys == sorted(keys) or all(key != key for key in keys)


@pytest.mark.slow
def test_designs_are_the_best_of_their_goal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCWISE_CACHE", str(tmp_path))
    found = compare(UNIT, 1.0)
    rows = {row.label: row for row in found.rows}
    unbiased = [row for row in found.rows if row.unbiased and not row.delta]
    assert min(unbiased, key=lambda row: row.worst_squared).label == "LP design, mean"
    assert rows["LP design, value"].worst_absolute < 0.9 * rows["optimal-piecewise, clamp"].worst_absolute
    assert rows["LP design, mean"].codes <= 16
    pure = [row for row in found.rows if not row.delta]
    assert min(pure, key=lambda row: row.worst_absolute).label == "LP design, value"
    assert min(pure, key=lambda row: row.worst_squared).label == "LP design, value, squared"


@pytest.mark.slow
def test_what_cannot_be_made_is_left_out_with_its_reason() -> None:
    found = compare(UNIT, 1.0, delta=1e-6, designs=False)
    assert found.left_out.keys() == {"uniform-atom", "uniform-atom, squared"}
    assert "22000" in found.left_out["uniform-atom"]
    assert len(found.rows) == len(table(UNIT, 1.0).rows) - 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"delta": 0.0}, "delta must be more than 0"),
        ({"nodes": 1}, "nodes must be an integer from 2"),
        ({"sort": "beauty"}, "sort must be one of worst-squared"),
    ],
)
def test_arguments_out_of_bounds(given: dict[str, float], message: str) -> None:
    arguments = {"epsilon": 1.0, "designs": False, **given}
    with pytest.raises(ParameterError, match=message):
        compare(UNIT, **arguments)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    csv_file, plot_file = tmp_path / "a.csv", tmp_path / "a.png"
    text = good(
        "compare", "--epsilon", "1", "--domain", "0:1", "--delta", "0.01", "--no-designs",
        "--csv", str(csv_file), "--plot", str(plot_file),
    )  # fmt: skip
    rows = table(UNIT, 1.0).rows
    shown = [line for line in text.splitlines() if "epsilon 1" in line or "epsilon 0" in line]
    assert len(shown) == len(rows)
    for line, row in zip(shown, rows, strict=True):
        assert line.startswith(row.label)
        assert f"{row.worst_squared:.4g}" in line
        assert ("†" in line) == bool(row.delta)
    with csv_file.open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    assert [entry["label"] for entry in written] == [row.label for row in rows]
    assert [float(entry["worst_squared"]) for entry in written] == [row.worst_squared for row in rows]
    assert [int(entry["delta"]) for entry in written] == [row.delta for row in rows]
    picture = plot_file.read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 30_000


def test_the_command_on_a_circle() -> None:
    first = good("compare", "--epsilon", "2", "--circle", "360", "--no-designs", "--sort", "mean-absolute")
    second = good(
        "compare", "--epsilon", "2", "--domain", "circle:360", "--no-designs", "--sort", "mean-absolute"
    )
    assert first == second
    assert "rho_1" in first
    lines = [line for line in first.splitlines() if "epsilon 2" in line]
    assert lines[-1].startswith("purkayastha") or lines[-1].startswith("von-mises")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--epsilon", "1"), "give one of --domain"),
        (("--epsilon", "1", "--domain", "0:1", "--circle", "360"), "give one of --domain"),
        (("--epsilon", "1", "--domain", "0:b"), "got '0:b'"),
        (("--epsilon", "1", "--domain", "1:0"), "low < high"),
        (("--epsilon", "30", "--domain", "0:1"), "epsilon must be from 0.01 to 20"),
        (
            ("--epsilon", "1", "--circle", "360", "--no-designs", "--csv", "no/such/folder.csv"),
            "cannot write",
        ),
        (("--epsilon", "1", "--circle", "360", "--plot", "a.gif"), ".png, .svg or .pdf; got 'a.gif'"),
        (("--epsilon", "1", "--circle", "360", "--plot", "a"), ".png, .svg or .pdf; got 'a'"),
    ],
)
def test_the_command_says_what_is_wrong(arguments: tuple[str, ...], message: str) -> None:
    assert message in bad("compare", *arguments)
