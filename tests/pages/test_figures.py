"""Every figure on a page agrees with `estimate` to the last digit shown, for every kind of task."""

from __future__ import annotations

import json
import re
import time
from contextlib import closing
from decimal import Decimal
from html.parser import HTMLParser
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import pytest
from click.testing import CliRunner

from arcwise.analysis import tidy_rows
from arcwise.cli import main
from arcwise.server.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.support.sites import Site

_NUMBER = re.compile(r"(?<![\w.:/^-])[-\u2212]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w:/^])")
_ANY_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d)?")
_slow = pytest.mark.slow
_FAST = ("commute", "heading", "score", "single values")
_SLOW = (
    "departure",
    "hour of day",
    "salary",
    "speed",
    "load",
    "vehicle speed",
    "vehicle heading",
    "winter",
    "one report",
)
_EACH = [*_FAST, *(pytest.param(name, marks=_slow) for name in _SLOW)]


class Shown(NamedTuple):
    """A figure as a page shows it."""

    figure: str
    part: str
    text: str


class Reader(HTMLParser):
    """Collects figures, cells of charts' tables, values under the pointer, and what is missing."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.figures: list[Shown] = []
        self.cells: list[str] = []
        self.hovered: list[str] = []
        self.computing = 'class="computing"' in page
        self._open: tuple[str, str] | None = None
        self._tables: list[str] = []
        self._in_cell = False
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if tag == "data" and "data-figure" in given:
            self._open = given["data-figure"], given["data-part"]
        if tag == "table":
            self._tables.append(given.get("class", ""))
        if "data-value" in given:
            self.hovered.append(given["data-value"])
        if tag == "td" and self._tables and self._tables[-1] == "numbers":
            self.cells.append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "data":
            self._open = None
        if tag == "td":
            self._in_cell = False
        if tag == "table":
            self._tables.pop()

    def handle_data(self, data: str) -> None:
        self.words += data
        if self._open:
            self.figures.append(Shown(*self._open, data))
        elif self._in_cell:
            self.cells[-1] += data


def read(url: str) -> Reader:
    """Return the content of a page after all its computations are done."""
    with httpx.Client(timeout=60) as client:
        for _ in range(600):
            answer = client.get(url, headers={"Accept": "text/html"})
            assert answer.status_code == 200, answer.text
            page = Reader(answer.text)
            if not page.computing:
                return page
            time.sleep(0.1)
    raise AssertionError(f"{url} is still computing")


def rounds_to(number: float, text: str) -> bool:
    """Whether a text shows this number, rounded to its last digit."""
    shown = Decimal(text.replace(",", "").replace("\N{MINUS SIGN}", "-"))
    exact = Decimal(number)
    unit = Decimal(1).scaleb(int(shown.as_tuple().exponent))
    return abs(exact - shown) <= unit / 2 * Decimal("1.000000001")


def numbers_in(value: Any) -> Iterator[float]:
    """Yield every number of a JSON document, including those in keys such as "240:270"."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from (float(number) for number in _ANY_NUMBER.findall(key))
            yield from numbers_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from numbers_in(inner)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield float(value)


def estimated(site: Site, name: str, folder: Path, *options: str) -> dict[str, Any]:
    """Return the output of the command `arcwise estimate` for a task of a site's store."""
    file = folder / "task.json"
    site.tasks[name].save(file)
    result = CliRunner().invoke(main, ["estimate", str(file), "--store", site.store, "--json", *options])
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.output)
    return document


def check_figures(shown: Iterable[Shown], document: dict[str, Any]) -> set[str]:
    """Fail if a figure differs from the one in a document; return the names of the compared figures."""
    rows = {row["estimate"]: row for row in tidy_rows(document)}
    names = set()
    for each in shown:
        if each.part == "n":
            assert int(each.text.replace(",", "")) == document["n"]
            continue
        number = rows[each.figure][each.part]
        assert number is not None, each
        assert rounds_to(number, each.text), (each, number)
        names.add(each.figure)
    return names


@pytest.mark.parametrize("name", _EACH)
def test_every_figure_of_a_task_is_that_of_estimate(open_site: Site, tmp_path: Path, name: str) -> None:
    document = estimated(open_site, name, tmp_path, "--bands")
    page = read(open_site.page(name))
    names = check_figures(page.figures, document)
    for single in ("mean", "direction", "resultant_length", "standard_deviation"):
        assert (single in names) == bool(document.get(single)), single
    assert {f"quantile {level}" for level in document["quantiles"]} <= names
    assert page.figures
    assert Shown("n", "n", f"{document['n']:,}") in page.figures


@pytest.mark.slow
@pytest.mark.parametrize("name", _EACH)
def test_every_number_of_a_picture_is_one_of_estimate(open_site: Site, tmp_path: Path, name: str) -> None:
    """A number of a chart or under the pointer is in the estimate, a sum of shares, or in the series."""
    page = read(open_site.page(name))
    task = open_site.tasks[name]
    every = "day" if task.epoch_seconds <= 86_400 else "epoch"
    document = estimated(open_site, name, tmp_path, "--bands")
    known = [
        *numbers_in(document),
        *accumulate(document["distribution"]["probabilities"]),
        *numbers_in(estimated(open_site, name, tmp_path, "--by", every)),
    ]
    assert page.cells
    assert page.hovered
    # A share may be shown in percent.
    wrong = [
        (text, number)
        for text in [*page.cells, *page.hovered]
        for number in _NUMBER.findall(_DATE.sub("", text))
        if not any(rounds_to(each, number) or rounds_to(100 * each, number) for each in known)
    ]
    assert not wrong, wrong[:20]


@pytest.mark.slow
def test_an_overview_shows_the_figures_of_its_tasks(open_site: Site, tmp_path: Path) -> None:
    with closing(open_store(open_site.store)) as store:
        counts = {name: int(store.report_count(task)) for name, task in open_site.tasks.items()}
    text = httpx.get(f"{open_site.url}/", headers={"Accept": "text/html"}).text
    deadline = time.monotonic() + 60
    while 'class="computing"' in text and time.monotonic() < deadline:
        time.sleep(0.2)
        text = httpx.get(f"{open_site.url}/", headers={"Accept": "text/html"}).text
    cards = re.findall(r'<article class="card" data-task="(\w+)">(.*?)</article>', text, re.DOTALL)
    assert {task_id for task_id, _ in cards} == {task.id for task in open_site.tasks.values()}
    assert {name for name, n in counts.items() if n} == {*_FAST, *_SLOW}  # each has its own test
    names = {task.id: name for name, task in open_site.tasks.items()}
    for task_id, card in cards:
        name = names[task_id]
        figures = Reader(card).figures
        assert bool(figures) == bool(counts[name]), name
        if name in _FAST:
            document = estimated(open_site, name, tmp_path)
            assert check_figures(figures, document) == {"mean" if "mean" in document else "direction"}


@pytest.mark.parametrize("query", ["level=0.8&share=0:30", pytest.param("target=users", marks=_slow)])
def test_what_is_asked_with_parameters_is_what_the_options_give(
    open_site: Site, tmp_path: Path, query: str
) -> None:
    options = [word for part in query.split("&") for word in f"--{part}".split("=")]
    document = estimated(open_site, "commute", tmp_path, "--bands", *options)
    names = check_figures(read(open_site.page("commute", f"?{query}")).figures, document)
    assert "mean" in names
    if "share" in query:
        assert "share 0:30" in names


@pytest.mark.slow
def test_a_comparison_shows_the_figures_that_the_command_gives(open_site: Site, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    open_site.tasks["vehicle speed"].save(other)
    document = estimated(open_site, "speed", tmp_path, "--bands", "--against-task", str(other))
    page = read(open_site.page("speed", "/compare?against=vehicle%20speed"))
    rows = {row["estimate"]: row for row in tidy_rows(document)}
    names = set()
    for figure, part, text in page.figures:
        if part != "n":
            assert rounds_to(rows[f"difference {figure.removeprefix('difference ')}"][part], text), figure
            names.add(figure.removeprefix("difference "))
    assert {"mean", "quantile 0.5"} <= names
    known = [*numbers_in(document), 0.0]
    wrong = [
        (text, number)
        for text in [*page.cells, *page.hovered]
        for number in _NUMBER.findall(text)
        if not any(rounds_to(each, number) for each in known)
    ]
    assert not wrong, wrong[:20]


def test_a_fit_test_shows_what_the_command_gives(open_site: Site, tmp_path: Path) -> None:
    document = estimated(open_site, "heading", tmp_path, "--fit-test")
    page = read(open_site.page("heading", "/fit"))
    text = " ".join(page.words.split())
    number = document["fit"]["p_value"]
    assert any(rounds_to(number, each) for each in _NUMBER.findall(text)), (number, text)


@pytest.mark.slow
def test_a_plan_shows_what_the_interface_answers(open_site: Site) -> None:
    """The command line does not show the number of additional reports, so the test asks for it over HTTP."""
    task = open_site.tasks["heading"]
    plan = httpx.get(f"{open_site.url}/v1/tasks/{task.id}/plan?half_width=0.5", timeout=60).json()
    text = " ".join(read(open_site.page("heading", "/plan?half_width=0.5")).words.split())
    shown = [number for number in _NUMBER.findall(text) if "," in number]
    assert shown
    # "About 682,000 more": three digits.
    known = [float(f"{number:.3g}") for number in (plan["more"], plan["reports"], plan["n"])]
    assert {float(number.replace(",", "")) for number in shown} == set(known)
    assert any(rounds_to(plan["now"], number) for number in _NUMBER.findall(text))


@pytest.mark.parametrize(
    ("number", "text", "right"),
    [
        (52.69412, "52.694", True),
        (52.6946, "52.694", False),
        (-0.5, "\N{MINUS SIGN}0.5", True),
        (1_000_000.0, "1e+06", True),
        (12_345.0, "12,345", True),
        (52.7, "52.70", True),
    ],
)
def test_rounding_is_told_from_another_number(number: float, text: str, right: bool) -> None:
    assert rounds_to(number, text) == right
