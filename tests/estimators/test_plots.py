"""Pictures of estimates: they hold what the estimate holds, for every kind of task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from arcwise.analysis import Estimate, estimate
from arcwise.analysis.plotting import draw_estimate, new_figure
from arcwise.domains import Circle, Interval
from arcwise.randomness import InsecureSeededRandomness
from arcwise.tasks import Task
from tests.support.cases import mostly_slow

if TYPE_CHECKING:
    from pathlib import Path

INTERVAL, CIRCLE = Interval(-20, 180), Circle(360)
TASKS = {
    "distribution": Task("delay <min>", INTERVAL, 2.0),
    "value": Task("delay", INTERVAL, 2.0, goal="value"),
    "direction": Task("heading", CIRCLE, 2.0),
}


def an_estimate(label: str, *, bands: bool = False) -> Estimate:
    task = TASKS[label]
    generator = np.random.default_rng(1)
    values = task.domain.from_unit(np.append(generator.beta(2, 6, 60_000), generator.beta(30, 12, 40_000)))
    codes = task.randomize(values, randomness=InsecureSeededRandomness(1))
    return estimate(task, task.count(codes), bands=bands)


def legend_texts(figure: Any) -> list[str]:
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    return [text.get_text() for legend in legends if legend is not None for text in legend.get_texts()]


@pytest.mark.parametrize("label", TASKS)
def test_pictures_with_bands(label: str) -> None:
    result = an_estimate(label, bands=True)
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
    assert result.band is not None
    steps: list[Any] = [patch for patch in figure.axes[1].patches if hasattr(patch, "get_data")]
    heights, edges, baseline = steps[0].get_data()
    middles = (edges[1:] + edges[:-1]) / 2
    expected = np.array([result.band.bounds(x) for x in middles])
    np.testing.assert_allclose(np.column_stack([baseline, heights]), expected)


@pytest.mark.parametrize("label", mostly_slow(TASKS, every=len(TASKS)))
def test_pictures_show_the_histogram_and_the_intervals(label: str, tmp_path: Path) -> None:
    result = an_estimate(label)
    figure = result.plot()
    assert result.task in figure.get_suptitle()
    texts = legend_texts(figure)
    wanted = {
        "distribution": ["fit, no band", "mean, 95 %", "fit, no band", "quantiles, 95 %"],
        "value": ["fit, no band", "possible means, 95 %", "fit, no band", "quantiles, 95 %"],
        "direction": ["mean direction, 95 %", "fit, no band"],
    }
    assert texts == wanted[label]
    for suffix in ("png", "svg", "pdf"):
        path = tmp_path / f"picture.{suffix}"
        figure.savefig(path)
        assert path.stat().st_size > 5000


def test_a_rose_has_areas_that_are_probabilities() -> None:
    result = an_estimate("direction")
    assert result.distribution is not None
    axes: Any = result.plot(fit="raw").axes[0]
    bars = [patch for patch in axes.patches if patch.get_height() > 0]
    areas = np.array([bar.get_width() * bar.get_height() ** 2 for bar in bars])
    np.testing.assert_allclose(areas, result.distribution.probabilities, rtol=1e-9)
    assert axes.get_theta_direction() == -1


def test_the_density_integrates_to_one() -> None:
    result = an_estimate("distribution")
    (stairs,) = [patch for patch in result.plot().axes[0].patches if hasattr(patch, "get_data")]
    data: Any = stairs.get_data()
    assert np.sum(data.values * np.diff(data.edges)) == pytest.approx(1.0)


def test_several_estimates_fit_on_figures_of_ones_own() -> None:
    with new_figure((10, 4)) as figure:
        halves: Any = figure.subfigures(1, 2)
        left, right = halves
        draw_estimate(left, an_estimate("distribution"))
        draw_estimate(right, an_estimate("direction"))
    assert len(left.axes) == 2
    assert len(right.axes) == 1


def test_notebooks_show_a_table_without_markup_from_names() -> None:
    text = an_estimate("distribution")._repr_html_()
    assert "delay &lt;min&gt;" in text
    assert "<min>" not in text
    assert text.count("<tr>") == 10
    assert "quantile 0.5" in text
