"""Pictures of results, in one style. Needs the extra `plots` (matplotlib)."""

from arcwise.analysis.charts.look import COLOURS
from arcwise.analysis.plotting.pictures import draw
from arcwise.analysis.plotting.style import DASHES, finish, new_figure, plain_log

__all__ = ["COLOURS", "DASHES", "draw", "finish", "new_figure", "plain_log"]
