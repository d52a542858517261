"""Estimates, plans and designs from counts; they need the extra ``arcwise[analysis]``, but no server.

Each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcwise.extras import check_extra
from arcwise.lazy import lazy_names

if TYPE_CHECKING:
    from arcwise.analysis.auditing.audit import audit
    from arcwise.analysis.auditing.result import Audit
    from arcwise.analysis.auditing.tradeoff import (
        Tradeoff,
        least_missed_detection,
        tradeoff,
        worst_tradeoff,
    )
    from arcwise.analysis.central_privacy.statement import CentralPrivacy, central, central_witness
    from arcwise.analysis.counting.batches import count_batches
    from arcwise.analysis.counting.result import BatchCounts
    from arcwise.analysis.counting.rules import Rejected
    from arcwise.analysis.counting.table import count_table
    from arcwise.analysis.design.designer import minimax
    from arcwise.analysis.estimators.comparison import Comparison, compare_reference, compare_samples
    from arcwise.analysis.estimators.estimation import estimate
    from arcwise.analysis.estimators.groups import GroupReports, group_reports
    from arcwise.analysis.estimators.poststratification import post_stratify
    from arcwise.analysis.estimators.result import Band, Distribution, Estimate, Value
    from arcwise.analysis.mechanism_table.table import compare
    from arcwise.analysis.planning.plan import plan
    from arcwise.analysis.planning.result import Plan
    from arcwise.analysis.reader import Reader
    from arcwise.analysis.robustness.fit_test import FitTest, fit_test
    from arcwise.analysis.simulate.counts import simulate_counts
    from arcwise.analysis.tidy import tidy_rows
    from arcwise.analysis.timeseries.result import Series
    from arcwise.analysis.timeseries.series import series

__all__ = [
    "Audit",
    "Band",
    "BatchCounts",
    "CentralPrivacy",
    "Comparison",
    "Distribution",
    "Estimate",
    "FitTest",
    "GroupReports",
    "Plan",
    "Reader",
    "Rejected",
    "Series",
    "Tradeoff",
    "Value",
    "audit",
    "central",
    "central_witness",
    "compare",
    "compare_reference",
    "compare_samples",
    "count_batches",
    "count_table",
    "estimate",
    "fit_test",
    "group_reports",
    "least_missed_detection",
    "minimax",
    "plan",
    "post_stratify",
    "series",
    "simulate_counts",
    "tidy_rows",
    "tradeoff",
    "worst_tradeoff",
]

check_extra("analysis", "scipy", "threadpoolctl", user="arcwise.analysis")

__getattr__ = lazy_names(
    __name__,
    {
        "auditing.audit": ("audit",),
        "auditing.result": ("Audit",),
        "auditing.tradeoff": ("Tradeoff", "least_missed_detection", "tradeoff", "worst_tradeoff"),
        "central_privacy.statement": ("CentralPrivacy", "central", "central_witness"),
        "counting.batches": ("count_batches",),
        "counting.result": ("BatchCounts",),
        "counting.rules": ("Rejected",),
        "counting.table": ("count_table",),
        "estimators.estimation": ("estimate",),
        "estimators.result": ("Band", "Distribution", "Estimate", "Value"),
        "estimators.comparison": ("Comparison", "compare_reference", "compare_samples"),
        "estimators.poststratification": ("post_stratify",),
        "estimators.groups": ("GroupReports", "group_reports"),
        "reader": ("Reader",),
        "timeseries.result": ("Series",),
        "timeseries.series": ("series",),
        "tidy": ("tidy_rows",),
        "robustness.fit_test": ("FitTest", "fit_test"),
        "simulate.counts": ("simulate_counts",),
        "planning.plan": ("plan",),
        "planning.result": ("Plan",),
        "mechanism_table.table": ("compare",),
        "design.designer": ("minimax",),
    },
)
