"""Pictures: one style for all of them, and those of estimates. Needs the extra `plots` (matplotlib)."""

from arcwise.analysis.charts.look import COLOURS
from arcwise.analysis.plotting.estimates import draw_estimate
from arcwise.analysis.plotting.style import DASHES, finish, new_figure, plain_log

__all__ = ["COLOURS", "DASHES", "draw_estimate", "finish", "new_figure", "plain_log"]
