"""The unit and the description of a task, in the places that people read."""

from pathlib import Path
from typing import Any

import pytest

from arcwise.analysis import estimate
from arcwise.analysis.timeseries.series import series
from arcwise.domains import Circle, Interval
from arcwise.tasks import Task
from tests.support.cases import mostly_slow

WORDS = "How long you waited <for the bus>"
WAIT = Task("wait", Interval(0, 60), 1.0, unit="min", description=WORDS)
PLAIN = Task("wait", Interval(0, 60), 1.0)
HOUR = Task("hour", Circle(24), 1.0, unit="h")


def counts(task: Task) -> list[int]:
    return [30] * task.mechanism.kernel.codes


def test_an_estimate_says_the_unit_and_the_description() -> None:
    said, plain = estimate(WAIT, counts(WAIT)), estimate(PLAIN, counts(PLAIN))
    assert (said.unit, said.description) == ("min", WORDS)
    head, words, target, *rest = str(said).splitlines()
    assert head.endswith(" at epsilon 1, values in [0, 60] min")
    assert words == WORDS
    assert [head.removesuffix(" min"), target, *rest] == str(plain).splitlines()
    page = said._repr_html_()
    assert "[0, 60] min</b><br>How long you waited &lt;for the bus&gt;<br>intervals at" in page
    assert "[0, 60]</b><br>intervals at" in plain._repr_html_()


def test_unit_and_description_are_what_an_estimate_has_more() -> None:
    said, plain = estimate(WAIT, counts(WAIT)).to_dict(), estimate(PLAIN, counts(PLAIN)).to_dict()
    assert said.pop("unit") == "min"
    assert said.pop("description") == WAIT.description
    assert said.pop("task_id") != plain.pop("task_id")
    assert said == plain
    said, plain = (series(task, {20_000: counts(task)}).to_dict() for task in (WAIT, PLAIN))
    assert said.pop("unit") == "min"
    assert said.pop("description") == WAIT.description
    assert said.pop("task_id") != plain.pop("task_id")
    assert said == plain


def test_a_series_says_the_unit() -> None:
    said = series(WAIT, {20_000: counts(WAIT)})
    assert "values in [0, 60] min" in str(said)
    assert said.plot().axes[0].get_ylabel() == "mean (min)"
    hours = series(HOUR, {20_000: counts(HOUR)})
    assert [axes.get_ylabel() for axes in hours.plot().axes] == ["direction (h)", "resultant length"]


def test_pictures_say_the_unit() -> None:
    labels = [axes.get_xlabel() for axes in estimate(WAIT, counts(WAIT)).plot().axes]
    assert labels == ["value in [0, 60] min"] * 2
    (rose,) = estimate(HOUR, counts(HOUR)).plot().axes
    assert rose.get_xlabel().startswith("value in [0, 24) modulo 24 h\nresultant length ")


@pytest.mark.parametrize("domain", mostly_slow([Interval(0, 60), Circle(24)], every=2, ids=str))
def test_a_text_with_dollars_is_no_formula(domain: Any, tmp_path: Path) -> None:
    r"""Matplotlib reads text between two dollars as TeX: "$x^$" is not TeX, and "1 \$" has a backslash."""
    task = Task(r"a $x^$ \$", domain, 1.0, unit="$/$")
    for drawn in (estimate(task, counts(task)), series(task, {20_000: counts(task)})):
        figure = drawn.plot()
        figure.savefig(tmp_path / "picture.svg")
        (title,) = figure.texts
        assert title._preprocess_math(title.get_text())[0].startswith(task.name)  # type: ignore[attr-defined]
