"""What is computed for the points of a time series: the values of one, and the test of a change of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.analysis.estimators import direction, mean
from arcwise.analysis.estimators.estimation import estimate
from arcwise.analysis.estimators.small_samples import FEW
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.estimators.unbiasing import mean_numbers
from arcwise.analysis.timeseries.change import Change, change

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from arcwise.mechanisms.base import Mechanism
    from arcwise.tasks import Task
    from arcwise.typing import FloatArray


__all__ = ["change_of", "point_values"]


def point_values(
    task: Task, counts: FloatArray, level: float, asked: Mapping[str, Any] | None, *, quantiles: bool
) -> dict[str, Any]:
    """Return the fields of a `Point`: a few averages, or parts of an estimate that is `asked` for more."""
    if asked is not None:
        whole = estimate(task, counts.astype(np.int64), level=level, **asked)
        values = {"shares": whole.shares, "quantiles": whole.quantiles if quantiles else {}}
        return values | {name: getattr(whole, name) for name in ("mean", "direction", "resultant_length")}
    survey = Survey(task.mechanism, counts)
    if task.mechanism.kernel.circular:
        return {
            "direction": direction.direction(survey, level=level),
            "resultant_length": direction.resultant_length(survey, level=level),
        }
    return {"mean": mean.mean(survey, level=level)}


def change_of(mechanism: Mechanism, counts: Sequence[FloatArray]) -> Change | None:
    """Return the test of the points with at least 30 reports, where they tell a mean or a moment."""
    enough = [Survey(mechanism, each) for each in counts if each.sum() >= FEW]
    if len(enough) < 2:
        return None
    reports = np.array([each.n for each in enough])
    most = enough[int(reports.argmax())]
    if mechanism.kernel.circular:
        if direction.direction(most).value is None:
            return None
        moments = [direction.first_moment(each) for each in enough]
        z, covariances = (np.array(part) for part in zip(*moments, strict=True))
        return change("direction or resultant length", z, covariances, reports)
    if mean.mean(most).value is None:
        return None
    # On the unit interval, whatever the domain's unit. Every point takes the same numbers per code.
    numbers = mean_numbers(mechanism, float(reports.max())).values
    averages = np.array([mean.average(mechanism.kernel, numbers, each.counts) for each in enough])
    return change("the mean", averages[:, :1], averages[:, 1:, None] ** 2, reports)
