"""Planning: compute the number of reports, the error or epsilon from the other two.

Means and directions are predicted from the integers that devices sample from; distributions are simulated.
"""

from __future__ import annotations

from arcwise.analysis.planning.plan import plan
from arcwise.analysis.planning.result import Plan, PlannedMechanism
from arcwise.analysis.planning.sharing import best_sample, best_shares, report_error, sample_errors

__all__ = [
    "Plan",
    "PlannedMechanism",
    "best_sample",
    "best_shares",
    "plan",
    "report_error",
    "sample_errors",
]
