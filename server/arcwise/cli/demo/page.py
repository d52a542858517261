"""The demo's page: one self-contained HTML file without scripts and external content."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis import Estimate
from arcwise.analysis.charts import Layer, charts_of, stylesheet, svg
from arcwise.cli.terminal import rendered
from arcwise.digits import rounded_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.analysis.charts import Chart
    from arcwise.cli.demo.truth import Result


def write_page(path: Path, results: Sequence[Result], *, epsilon: float, devices: int) -> None:
    """Write the page: for every task a picture, and a table of truth and estimates."""
    text = rendered(
        Path(__file__).with_name("page.html"),
        epsilon=rounded_up(epsilon),
        twice=rounded_up(2 * epsilon),
        devices=devices,
        results=[(result, _chart_of(result)) for result in results],
        charts=stylesheet().strip(),
        svg=svg,
    )
    path.write_text(text + "\n", encoding="utf-8")


def _chart_of(result: Result) -> Chart:
    """Return the histogram or the rose of one result, with the true distribution as an outline."""
    bins, domain = result.column.bins, result.column.task.domain
    one = domain.length / (2 * np.pi) if domain.circular else 1.0  # a rose shows shares per radian
    heights = result.true / np.diff(bins) * one
    outline = zip(bins[:-1].tolist(), bins[1:].tolist(), heights.tolist(), strict=True)
    estimate = replace(Estimate.from_dict(result.estimate), unit=result.column.unit)
    (chart, *_) = charts_of(estimate)
    return chart.over(Layer("outline", "truth", tuple(outline), "truth, known to the devices only"))
