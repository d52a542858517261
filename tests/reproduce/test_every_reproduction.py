"""Checks of every reproduction: it agrees with the printed numbers, and writes numbers and a picture."""

import csv
import math
import re
from pathlib import Path

import pytest

from arcwise.analysis.plotting.style import new_figure, plain_log
from arcwise.papers import reproductions, write_outcome
from tests.support.commands import bad, good
from tests.support.outcomes import outcome

NAMES = list(reproductions())
# Tests that need a reproduction's outcome are slow; so are the slowest pictures that resemble others.
SLOW = (
    "opm-distribution",
    "opm-gap",
    "opm-noise",
    "opm-pieces",
    "opm-worst-case",
    "staircase-integers-ratio",
    "truncated-laplace-gaussian",
    "unbiased-variance",
    "zero-delta-cost",
)
SLOW_PICTURES = (
    "opm-circle",
    "opm-density",
    "opm-own-domains",
    "soria-comas-figure-6",
    "staircase-asymptotics",
    "staircase-density",
    "staircase-heuristic",
    "truncated-laplace-bounds",
    "zero-delta-alpha",
)
CASES = [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in NAMES]

# Columns of numbers without a unit: parameters, probabilities, counts, shares and multiples.
UNITLESS = {
    *("epsilon", "delta", "level", "power", "n", "sensitivity"),
    *("false_alarm", *(f"{name}_missed_detection" for name in ("least", "laplace", "staircase"))),
    *("missed_detection", "mass_near_0", "laplace_mass_near_0", "staircase_mass", "geometric_mass"),
    *("figure", "component", "attributes", "reports", "codes", "nodes", "r_1", "r_2", "beta", "ratio"),
    *("gamma_heuristic", "shortest_over_laplace", "least_variance_over_laplace"),
    *(f"r_at_sensitivity_{s}" for s in (1, 2, 5, 20)),
    *(f"gamma_{p}" for p in (1, 2, 4)),
    *(f"alpha_{p:g}" for p in (0.5, 1, 2, 3, 10)),
    *(f"{name}_{p}" for name in ("ratio", "ratio_with_staircase", "gain", "heuristic_gain") for p in (1, 2)),
    *(f"{name}_ratio" for name in ("joint", "one_each", "laplace", "amplitude", "power")),
    *(f"{name}_over_optimal_{p}" for name in ("heuristic", "laplace") for p in (1, 2)),
}


def test_the_command_lists_them() -> None:
    said = good("reproduce", "--list")
    assert len(NAMES) >= 27
    assert all(name in said for name in NAMES)


@pytest.mark.parametrize("name", CASES)
def test_published_values_agree_but_for_errata(name: str) -> None:
    for check in outcome(name).checks:
        assert math.isfinite(check.computed)
        assert check.agrees != bool(check.erratum), (check.what, check.published, check.computed)


@pytest.mark.parametrize("name", CASES)
def test_every_column_names_its_unit(name: str) -> None:
    for table in outcome(name).tables.values():
        for column, *values in zip(table.columns, *table.rows, strict=True):
            unit = re.fullmatch(r"[^()]+ \([a-z1A-Z ,]+\)", column) is not None
            words = all(isinstance(value, str) for value in values)
            assert unit + words + (column in UNITLESS) == 1, column


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW + SLOW_PICTURES else ()) for name in NAMES],
)
def test_writes_numbers_and_a_picture(name: str, tmp_path: Path) -> None:
    found = outcome(name)
    paths = write_outcome(tmp_path, name, found)
    assert len(paths) == len(found.tables) + 1
    assert found.findings or found.checks
    for path, expected in zip(paths, found.tables.values(), strict=False):
        with path.open(encoding="utf-8", newline="") as file:
            written = list(csv.reader(file))
        assert written[0] == list(expected.columns)
        assert len(written) == len(expected.rows) + 1 > 2
        for line, row in zip(written[1:], expected.rows, strict=True):
            for text, value in zip(line, row, strict=True):
                assert text == value if isinstance(value, str) else float(text) == value
                assert isinstance(value, str) or math.isfinite(value)
    picture = paths[-1].read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000  # an empty figure has less than half of it


@pytest.mark.slow
def test_the_axes_of_the_gap_begin_at_0_and_hold_every_bound_and_design() -> None:
    (panels,) = outcome("opm-gap").picture.rows
    for panel in panels:
        assert panel.y == "relative to OPM"
        assert panel.ylim is not None
        low, high = panel.ylim
        assert low == 0.0
        assert high is not None
        shown = [m.args[1] for m in panel.marks if m.method == "plot" and "linestyle" not in m.options]
        assert len(shown) == 2
        assert all(0.0 < value < high for values in shown for value in values)


@pytest.mark.slow
def test_only_numbers_in_print_count_as_published(tmp_path: Path) -> None:
    for name, words in (
        ("opm-density", "1 published formula or limit"),
        ("soria-comas-figure-6", "3 published values"),
    ):
        assert f"  {words}; largest" in good("reproduce", name, "--output", str(tmp_path))


@pytest.mark.slow
def test_the_same_numbers_draw_the_same_svg(tmp_path: Path) -> None:
    found = outcome("staircase-gain")
    (tmp_path / "again").mkdir()
    first = write_outcome(tmp_path, "x", found, picture="svg")[-1].read_bytes()
    assert write_outcome(tmp_path / "again", "x", found, picture="svg")[-1].read_bytes() == first


@pytest.mark.parametrize("folder", ["file/inside", "file"])
def test_a_folder_that_cannot_be_made(folder: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert "file" in bad("reproduce", "staircase-gain", "--output", str(tmp_path / folder))


def test_a_line_that_is_piped_stays_whole(tmp_path: Path) -> None:
    said = good("reproduce", "staircase-gain", "--output", str(tmp_path))
    csv_file, picture = (str(tmp_path / f"staircase-gain.{kind}") for kind in ("csv", "png"))
    assert f"  wrote {csv_file}, {picture}\n" in said


@pytest.mark.parametrize(
    ("low", "high", "numbers"),
    [
        (0.9, 15.0, ["1", "2", "5", "10"]),
        (8e-5, 0.5, ["0.0001", "0.001", "0.01", "0.1"]),
        (5e-7, 0.2, ["$10^{-6}$", "$10^{-5}$", "0.0001", "0.001", "0.01", "0.1"]),
        (10757.0, 10774.0, ["10760", "10765", "10770"]),
    ],
)
def test_numbers_of_a_log_axis_have_room(low: float, high: float, numbers: list[str]) -> None:
    with new_figure((4.0, 3.0)) as figure:
        axes = figure.subplots()
        plain_log(axes, "x")
        axes.plot([low, high], [0.0, 1.0])
        axes.set_xlim(low, high)
        figure.draw_without_rendering()
        ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        shown = [label.get_text() for place, label in ticks if low <= place <= high]
    assert shown == numbers
