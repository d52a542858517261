"""Figures in README and docs have a command that reproduces them, or a place and date of measurement.

`tests.support.figures` defines the command of a figure and the comparison of outputs. Run it by hand (`python
-m tests.support.figures`) for the figures that take too long here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.figures import REPOSITORY, Figures, TableAt, differences, figures_of, pages, run, tables_of

if TYPE_CHECKING:
    from pathlib import Path

PAGES = pages()
ALL = [figures for page in PAGES for figures in figures_of(page)]

# The tests compute some rows of a slow table.
SAMPLES = {"python -m benchmarks.studies.figures distributions": " --epsilon 1"}
SLOW = re.compile(
    r"figures (bounds|errors|users|means|directions|widths|distributions|central_releases|integer_noise)"
)
CASES = [
    pytest.param(one, id=str(one), marks=pytest.mark.slow if SLOW.search(one.command) else ()) for one in ALL
]

COMMAND = re.compile(r"`(?:python -m|arcwise|make|npm) ")
DATE = re.compile(r"20\d\d-\d\d-\d\d")
MACHINE = re.compile(r"\bcores?\b")
BY_HAND = re.compile(r"<!-- by hand: (?:python -m|arcwise|make) .+ -->")
FIGURE = re.compile(r"[~±+-]?\s*\d[\d.,]*(\s*(to|of)\s*\d[\d.,]*)?\s*(%|[a-zA-Zµ/]{1,7})?")


@pytest.fixture(scope="session")
def designs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make designs once, and not in the user's cache."""
    return tmp_path_factory.mktemp("designs")


@pytest.mark.parametrize("figures", CASES)
def test_the_command_prints_what_the_page_shows(
    figures: Figures, designs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCWISE_CACHE", str(designs))
    sample = SAMPLES.get(figures.command)
    if sample is None:
        assert not differences(figures.shown, run(figures)), "python -m tests.support.figures --write"
        return
    printed = run(figures, more=sample)
    assert len(printed) > 4
    for line in printed:
        assert any(not differences([shown], [line]) for shown in figures.shown), line


def is_of_figures(table: TableAt) -> bool:
    """Whether two fifths of the cells outside the first column are numbers, perhaps with a unit."""
    cells = [cell for row in table.cells for cell in row[1:] if cell]
    return bool(cells) and sum(bool(FIGURE.fullmatch(cell)) for cell in cells) >= 0.4 * len(cells)


def lacks(table: TableAt) -> list[str]:
    """Return the missing parts of a measured table's caption: command, date, machine."""
    if table.generated or BY_HAND.search(table.around):
        return []
    wanted = {"a command": COMMAND, "a date": DATE, "a kind of machine (cores)": MACHINE}
    return [what for what, pattern in wanted.items() if not pattern.search(table.around)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_tables_of_figures_say_where_they_come_from(page: Path) -> None:
    wrong = [
        f"line {table.line} lacks {lacks(table)}"
        for table in tables_of(page)
        if is_of_figures(table) and lacks(table)
    ]
    assert not wrong, (
        "generate it (<!-- figures: COMMAND -->), or name command, date and machine in its section"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_tests_and_modules_that_pages_name_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.name.startswith("adding-"):
        return  # it names a page that somebody still has to write
    for path, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text):
        file = REPOSITORY / path
        assert file.exists(), path
        assert not name or f"def {name}(" in file.read_text(encoding="utf-8"), f"{path}::{name}"
    for module in re.findall(r"python -m (benchmarks\.[\w.]*[a-z0-9])", text):
        place = REPOSITORY / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or place.is_dir(), module


PAGE = """# Title

<!-- figures: python -m somewhere table -->

| a | b |
|---|---|
| 1 | 2 |

<!-- end of figures -->

## Measured

| a | b |
|---|---|
| x | 2 |

## Told

| a | b |
|---|---|
| x | 3 us |

`make bench`, 2026-11-22, two cores.
"""


def test_generated_parts_and_tables_are_found() -> None:
    (part,) = figures_of(REPOSITORY / "x.md", PAGE)
    assert (part.line, part.command) == (3, "python -m somewhere table")
    assert part.shown == ("| a | b |", "|---|---|", "| 1 | 2 |")
    lacking = [lacks(each) for each in tables_of(REPOSITORY / "x.md", PAGE) if is_of_figures(each)]
    assert lacking == [[], ["a command", "a date", "a kind of machine (cores)"], []]


@pytest.mark.parametrize(
    ("printed", "same"),
    [
        (["a 1.234 more", "last 10"], True),
        (["a  1.235 more ", "last 10"], True),
        (["a 1.237 more", "last 10"], False),
        (["a 1.2345 more", "last 10"], False),
        (["a 1.234 more", "last 11"], False),
        (["a 1.234 more", "last 10", "and more"], False),
        (["b 1.234 more", "last 10"], False),
        (["a 1.234 more"], False),
    ],
)
def test_outputs_are_compared_line_by_line(printed: list[str], same: bool) -> None:
    assert (not differences(["a  1.234  more", "last 10"], printed)) == same


def test_a_figure_that_its_command_does_not_print_is_found() -> None:
    command = "arcwise plan --circle 1 --epsilon 1 --reports 1e4 --no-compare"
    printed = run(Figures(REPOSITORY / "x.md", 1, command, ()))
    assert not differences(printed, printed)
    changed = [re.sub(r"\d", lambda digit: str(9 - int(digit[0])), line) for line in printed]
    assert len(differences(changed, printed)) >= 3
