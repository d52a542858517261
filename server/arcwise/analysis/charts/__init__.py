"""Charts as data, and a drawer that turns them into SVG for the dashboard, the demo, notebooks and files.

`charts_of` describes a result's charts: layers of marks, axes, a table and a sentence. `svg` draws them
without a plotting library. `Estimate.plot()` draws the same charts with matplotlib; both use the colours of
`look`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.analysis.charts.comparisons import comparison_charts
from arcwise.analysis.charts.drawer import svg
from arcwise.analysis.charts.estimates import estimate_charts, small_chart
from arcwise.analysis.charts.look import stylesheet
from arcwise.analysis.charts.model import Axis, Chart, Layer
from arcwise.analysis.charts.series import series_charts
from arcwise.analysis.estimators.result import Estimate
from arcwise.analysis.timeseries.result import Series

if TYPE_CHECKING:
    from arcwise.analysis.estimators.comparison import Comparison

__all__ = ["Axis", "Chart", "Layer", "charts_of", "small_chart", "stylesheet", "svg"]


def charts_of(result: Estimate | Series | Comparison) -> list[Chart]:
    """Return the charts of a result; an empty list if there is nothing to draw."""
    if isinstance(result, Series):
        return series_charts(result)
    if isinstance(result, Estimate):
        return estimate_charts(result)
    return comparison_charts(result)  # without a check of the type, which would load scipy
