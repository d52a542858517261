"""Output in notebooks: pictures of a result, HTML without foreign markup, privacy in words."""

import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.dom import minidom

import numpy as np
import pytest

from arcwise.analysis import Estimate, compare_samples, estimate, plan, series, simulate_counts
from arcwise.analysis.charts.look import circle_marks
from arcwise.analysis.plotting import draw, new_figure
from arcwise.analysis.plotting.pictures import plot_rows
from arcwise.analysis.plotting.style import lines
from arcwise.domains import Circle, Interval
from arcwise.errors import MissingExtraError, ParameterError
from arcwise.mechanisms import OptimalCircular, OptimalPiecewise
from arcwise.mechanisms.additive.approximate import TruncatedLaplaceMechanism
from arcwise.randomness import InsecureSeededRandomness
from arcwise.tasks import Caps, Task
from tests.support.cases import mostly_slow
from tests.support.known import there

HOSTILE = "--><script>alert(1)</script><b onload='x'>\"&$x^$"
UNIT = "<i>&\"'</i>$^$"
SPAN, ROUND = Interval(0, 120), Circle(360)
TASKS = {
    "interval": Task(HOSTILE, SPAN, 2.0, unit=UNIT, mechanism=OptimalPiecewise(SPAN, 2.0, nodes=32)),
    "circle": Task(HOSTILE, ROUND, 2.0, unit=UNIT, mechanism=OptimalCircular(ROUND, 2.0, nodes=32)),
    "lattice": Task(HOSTILE, Interval(0, 10, step=1), 2.0, unit=UNIT, description=HOSTILE),
}


@cache
def a_result(label: str, kind: str) -> Any:
    task = TASKS[label]
    rng = np.random.default_rng(1)
    counts, other = (simulate_counts(task, "uniform", n, rng) for n in (5000, 4000))
    if kind == "series":
        return series(task, {20_758: counts, 20_759: other})
    if kind == "comparison":
        return compare_samples(task, counts, other, bands=True)
    return estimate(task, counts, bands=kind == "bands")


RESULTS = [
    *(("interval", kind) for kind in ("bands", "series", "comparison")),
    ("circle", "estimate"),
    ("circle", "bands"),
    ("lattice", "bands"),
]


class Elements(HTMLParser):
    """Collects the names of elements and of attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "br":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize(("label", "kind"), RESULTS)
def test_html_has_a_picture_a_table_and_no_markup_of_others(label: str, kind: str) -> None:
    text = a_result(label, kind)._repr_html_()
    found = Elements(text)
    assert found.open == []
    assert {"svg", "table", "td"} <= found.names
    assert not {"script", "b onload", "i", "img", "iframe"} & found.names
    assert not {name for name in found.attributes if name.startswith("on")}
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize(("label", "kind"), mostly_slow(RESULTS, every=2))
def test_a_picture_is_svg_of_its_own_and_the_same_each_time(label: str, kind: str) -> None:
    result = a_result(label, kind)
    figure = result.plot()
    text = figure._repr_svg_()
    root: Any
    (root,) = minidom.parseString(text).childNodes
    assert root.tagName == "svg"
    title = "Difference: 4,000 other" if kind == "comparison" else HOSTILE
    assert root.getAttribute("aria-label").startswith(title)
    assert text == result.plot()._repr_svg_()
    assert len(text) < 200_000


def test_pyplot_knows_no_picture_of_ours() -> None:
    """Otherwise, the inline backend would show it a second time when the cell ends."""
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    a_result("interval", "bands").plot()
    assert plt.get_fignums() == before


def test_html_has_its_picture_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = a_result("interval", "bands")._repr_html_()
    assert text.count("<svg") == 1
    assert "<style" not in text  # it would affect the whole notebook, and be dark where the notebook is not
    assert 'fill="#ffffff"' in text
    assert "quantile 0.5" in text
    with pytest.raises(MissingExtraError, match=r"pip install 'arcwise\[plots\]'"):
        a_result("interval", "bands").plot()


def test_importing_estimate_loads_no_library_of_pictures_or_tables() -> None:
    code = (
        "import sys\nfrom arcwise.analysis import estimate\nfrom arcwise.domains import Interval\n"
        "from arcwise.tasks import Task\ntask = Task('x', Interval(0, 1), 1.0)\n"
        "print(repr(estimate(task, [5] * task.mechanism.kernel.codes)))\ntask._repr_html_()\n"
        "assert not {'matplotlib', 'pandas', 'polars', 'fastapi', 'click'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize(("label", "kind"), mostly_slow(RESULTS, every=2))
def test_pictures_take_axes_of_ones_own(label: str, kind: str) -> None:
    from matplotlib.figure import Figure

    result = a_result(label, kind)
    whole = result.plot()
    polar = {"projection": "polar"} if label == "circle" and kind in {"estimate", "bands"} else {}
    figure = Figure()
    ax = figure.subplots(subplot_kw=polar)
    assert result.plot(ax=ax) is ax
    title, suptitle = ("".join(text.split()) for text in (ax.get_title(), whole.get_suptitle()))
    assert title.startswith(suptitle[:20])
    assert ax.get_xlabel() or ax.get_ylabel()
    several = Figure().subplots(1, len(whole.axes), subplot_kw=polar, squeeze=False)
    assert result.plot(ax=several) is several
    for drawn, wanted in zip(several.flat, whole.axes, strict=True):
        assert len(drawn.lines) == len(wanted.lines)
        assert len(drawn.patches) == len(wanted.patches)
    with pytest.raises(ParameterError, match=f"ax must be at most {len(whole.axes)} axes"):
        result.plot(ax=Figure().subplots(1, len(whole.axes) + 1))
    figure.savefig("/dev/null", format="svg")


@pytest.mark.slow
def test_a_rose_needs_polar_axes() -> None:
    from matplotlib.figure import Figure

    with pytest.raises(ParameterError, match=r"ax must be polar for a circle.*got rectilinear axes"):
        a_result("circle", "estimate").plot(ax=Figure().subplots())
    made = plan(SPAN, reports=1000, epsilon=1.0)
    ax = Figure().subplots()
    assert made.plot(ax=ax) is ax
    assert ax.lines
    assert made.plot()._repr_svg_().startswith("<svg")


@pytest.mark.parametrize(("label", "kind"), RESULTS)
@pytest.mark.parametrize("width", [pytest.param(None, marks=pytest.mark.slow), 4.1])
def test_nothing_reaches_beyond_the_picture(label: str, kind: str, width: float | None) -> None:
    """Titles, labels and legends lie within the figure, and the legend of a rose covers nothing."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = a_result(label, kind).plot(width=width)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    whole = figure.bbox
    for artist in [figure._suptitle, *figure.legends, *figure.axes]:
        box = artist.get_tightbbox(renderer)
        assert box.x0 > whole.x0 - 1
        assert box.x1 < whole.x1 + 1
        assert box.y0 > whole.y0 - 1
        assert box.y1 < whole.y1 + 1
    if figure.legends:
        (rose,), (legend,) = figure.axes, figure.legends
        assert legend.get_tightbbox(renderer).y1 <= rose.get_tightbbox(renderer).y0 + 1
        assert rose.get_legend() is None
    if width is not None:
        assert figure.get_figwidth() == width


def test_circles_have_compass_points_hours_and_units() -> None:
    for unit in ("°", "deg", "degrees"):
        assert circle_marks(360.0, unit) == ["N", "45°", "E", "135°", "S", "225°", "W", "315°"]
    assert circle_marks(24.0, "h")[:3] == ["00:00", "03:00", "06:00"]
    assert circle_marks(24.0, None)[:3] == ["0", "3", "6"]
    assert circle_marks(360.0, None)[:2] == ["0", "45"]
    assert circle_marks(60.0, "min")[1] == "7.5 min"
    assert circle_marks(60.0, "minutes of the hour")[1] == "7.5"
    for unit, marks in (("°", circle_marks(360.0, "°")), ("$", [rf"{45 * place} \$" for place in range(8)])):
        task = Task("heading", Circle(360), 2.0, unit=unit)
        (rose,) = estimate(task, [30] * task.mechanism.kernel.codes).plot().axes
        assert [label.get_text() for label in rose.get_xticklabels()] == marks


def test_a_lattice_is_drawn_as_probabilities_and_steps() -> None:
    result = a_result("lattice", "bands")
    left, right = result.plot(fit="raw").axes
    assert left.get_ylabel() == "probability"
    (stairs,) = [patch for patch in left.patches if hasattr(patch, "get_data")]
    np.testing.assert_allclose(stairs.get_data().values, result.distribution.probabilities)
    (steps,) = [line for line in right.lines if line.get_label() == "fit"]
    x, y = steps.get_data()
    for value in range(11):
        assert y[np.flatnonzero(x <= value)[-1]] == pytest.approx(
            sum(result.distribution.probabilities[: value + 1])
        )


@pytest.mark.slow
def test_pictures_stand_in_rows() -> None:
    figure = plot_rows(
        [a_result("interval", "bands"), a_result("circle", "bands"), a_result("interval", "series")]
    )
    assert len(figure.axes) == 4
    assert figure._repr_svg_().startswith("<svg")


def test_long_titles_have_several_lines() -> None:
    assert lines("short: 5 reports", 4.0) == "short: 5 reports"
    wide = lines("W" * 64 + ": 5,000 reports at epsilon 1", 4.0)
    assert wide.count("\n") >= 2
    assert "".join(wide.split()) == "W" * 64 + ":5,000reportsatepsilon1"


def test_a_task_tells_its_privacy() -> None:
    task = Task("heading", Circle(360), 1.0, unit="°", description="Where?", caps=Caps(lifetime=2.0))
    text = task._repr_html_()
    assert "any report changes the odds between any two values by at most a factor 2.72" in text
    for told in (
        "1 per report",
        "128 nodes, 128 codes",
        "epsilon 2 in all",
        task.id,
        "Where?",
        "[0, 360) modulo 360 °",
    ):
        assert told in text
    assert Elements(text).open == []
    spends = TruncatedLaplaceMechanism(Interval(0, 1), 1.0, delta=1e-6)
    approximate = Task("x", Interval(0, 1), 1.0, mechanism=spends)
    assert "but for an additional probability of at most 1e-06" in approximate._repr_html_()
    assert Elements(TASKS["lattice"]._repr_html_()).names == {
        "p",
        "b",
        "br",
        "table",
        "tbody",
        "tr",
        "th",
        "td",
    }
    assert Task("x", Interval(0, 1), 0.5).privacy_words.endswith("a factor 1.65")
    assert Task("x", Interval(0, 1), 12.0).privacy_words.endswith("a factor 163,000")


INTERVAL, CIRCLE = Interval(-20, 180), Circle(360)
DRAWN = {
    "distribution": Task("delay <min>", INTERVAL, 2.0),
    "value": Task("delay", INTERVAL, 2.0, goal="value"),
    "direction": Task("heading", CIRCLE, 2.0),
}


def drawn_estimate(label: str, *, bands: bool = False) -> Estimate:
    task = DRAWN[label]
    generator = np.random.default_rng(1)
    values = task.domain.from_unit(np.append(generator.beta(2, 6, 60_000), generator.beta(30, 12, 40_000)))
    codes = task.randomize(values, randomness=InsecureSeededRandomness(1))
    return estimate(task, task.count(codes), bands=bands)


def legend_texts(figure: Any) -> list[str]:
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    return [text.get_text() for legend in legends if legend is not None for text in legend.get_texts()]


@pytest.mark.parametrize("label", DRAWN)
def test_pictures_with_bands(label: str) -> None:
    result = drawn_estimate(label, bands=True)
    figure = result.plot()
    texts = legend_texts(figure)
    wanted = {
        "distribution": {"fit", "mean, 95 %", "bins, 95 % each", "band, 95 %", "quantiles, 95 %"},
        "value": {"fit", "possible means, 95 %", "bins, 95 % each", "band, 95 %", "quantiles, 95 %"},
        "direction": {"mean direction, 95 %", "fit", "sectors, 95 % each"},
    }
    assert set(texts) == wanted[label]
    if label == "direction":
        return
    (ribbon,) = (each for each in figure.axes[1].collections if each.get_label() == "band, 95 %")
    band, domain = there(result.band), result.domain
    ends: Any = [domain.start, *band.at, domain.start + domain.length]
    corners = {tuple(corner) for path in ribbon.get_paths() for corner in path.vertices.tolist()}  # type: ignore[union-attr]
    for x0, x1 in pairwise(ends):
        bounds = band.bounds((x0 + x1) / 2)
        assert {(x, y) for x in (x0, x1) for y in bounds} <= corners


@pytest.mark.parametrize("label", mostly_slow(DRAWN, every=len(DRAWN)))
def test_pictures_show_the_histogram_and_the_intervals(label: str, tmp_path: Path) -> None:
    result = drawn_estimate(label)
    figure = result.plot()
    assert result.task in figure.get_suptitle()
    texts = legend_texts(figure)
    wanted = {
        "distribution": ["fit, no band", "mean, 95 %", "fit, no band", "quantiles, 95 %"],
        "value": ["fit, no band", "possible means, 95 %", "fit, no band", "quantiles, 95 %"],
        "direction": ["fit, no band", "mean direction, 95 %"],
    }
    assert texts == wanted[label]
    for suffix in ("png", "svg", "pdf"):
        path = tmp_path / f"picture.{suffix}"
        figure.savefig(path)
        assert path.stat().st_size > 5000


def test_a_rose_has_areas_that_are_probabilities() -> None:
    result = drawn_estimate("direction")
    axes: Any = result.plot(fit="raw").axes[0]
    areas = np.array([bar.get_width() * bar.get_height() ** 2 for bar in axes.containers[0]])
    np.testing.assert_allclose(areas, there(result.distribution).probabilities, rtol=1e-9)
    assert axes.get_theta_direction() == -1


def test_the_density_integrates_to_one() -> None:
    result = drawn_estimate("distribution")
    (stairs,) = [patch for patch in result.plot().axes[0].patches if hasattr(patch, "get_data")]
    data: Any = stairs.get_data()
    assert np.sum(data.values * np.diff(data.edges)) == pytest.approx(1.0)


def test_several_estimates_fit_on_figures_of_ones_own() -> None:
    with new_figure((10, 4)) as figure:
        halves: Any = figure.subfigures(1, 2)
        left, right = halves
        draw(left, drawn_estimate("distribution"))
        draw(right, drawn_estimate("direction"))
    assert len(left.axes) == 2
    assert len(right.axes) == 1
