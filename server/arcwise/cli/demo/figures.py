"""The demo's pictures: the charts of the estimates, with the truth as an outline in them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis import Estimate
from arcwise.analysis.charts import Layer, charts_of

if TYPE_CHECKING:
    from arcwise.analysis.charts import Chart
    from arcwise.cli.demo.truth import Result


def chart_of(result: Result) -> Chart:
    """Return the histogram or the rose of one result, with the true one as an outline."""
    bins, period = result.column.bins, result.column.task.domain.length
    one = (
        period / (2 * np.pi) if result.column.task.domain.circular else 1.0
    )  # a rose shows what is per radian
    heights = result.true / np.diff(bins) * one
    outline = zip(bins[:-1].tolist(), bins[1:].tolist(), heights.tolist(), strict=True)
    estimate = replace(Estimate.from_dict(result.estimate), unit=result.column.unit)
    (chart, *_) = charts_of(estimate)
    return chart.over(Layer("outline", "truth", tuple(outline), "truth, known to the devices only"))
