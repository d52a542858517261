"""The additional reports that a task needs to make the interval of its mean or direction narrow enough."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from arcwise.analysis.estimators import direction, mean
from arcwise.analysis.estimators.inference_target import FEW, check_level, check_target, two_sided
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.planning.curve import fewest_reports
from arcwise.analysis.planning.direction import DirectionCurve
from arcwise.analysis.planning.mean import MeanCurve
from arcwise.analysis.threads import one_thread
from arcwise.checks import real_or_nan
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from arcwise.analysis.estimators.inference_target import Target
    from arcwise.mechanisms.base import Mechanism
    from arcwise.mechanisms.circular import CircularMechanism
    from arcwise.tasks import Task

_FEW = f"fewer than {FEW} reports do not show how their values are distributed"
_NONE = "no number of reports makes the interval this narrow"
_OPEN = "the reports do not determine a direction yet"


@dataclass(frozen=True)
class FurtherReports:
    """The number of reports that makes the interval of a mean or a direction as narrow as wanted.

    `n` is the number of reports so far. `wanted` and `now` are half-widths of the interval, in the unit of
    the values; `now` is None if the reports have no interval. If the distribution of the values stays the
    same, a total of `reports` is enough; that is `more` additional reports. Both are None if the reports so
    far do not determine them. A total of `worst` reports is enough for every distribution of values. `worst`
    is None if no number is enough. It is always None for a direction, because some populations have no
    direction. `note` is a remark, or "".
    """

    task: str
    task_id: str
    n: int
    unit: str | None
    of: str
    level: float
    target: str
    wanted: float
    now: float | None
    reports: int | None
    more: int | None
    worst: int | None
    note: str

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object with the attributes."""
        return asdict(self)


@one_thread()
def further_reports(
    task: Task,
    counts: ArrayLike,
    *,
    half_width: float,
    level: float = 0.95,
    target: Target = "population",
) -> FurtherReports:
    """Return the number of reports that makes the interval of a mean or a direction as narrow as wanted.

    `counts` are the reports per code, shape (K,), and may all be 0. `half_width` is in the unit of the
    domain; `level` and `target` are as for `estimate`, but a direction is always that of the population.
    """
    check_level(level)
    check_target(target)
    if not 0.0 < real_or_nan(half_width) < math.inf:
        raise ParameterError(f"half_width must be a positive number, got {half_width!r}")
    given, circular = np.asarray(counts), task.domain.circular
    target = "population" if circular else target
    empty = given.shape == (task.mechanism.kernel.codes,) and not given.any()
    survey = None if empty else Survey.of(task, given, target=target)
    now, reports, worst, note = (_of_direction if circular else _of_mean)(
        task.mechanism, survey, half_width, level, target
    )
    return FurtherReports(
        task=task.name,
        task_id=task.id,
        n=(n := 0 if survey is None else int(survey.n)),
        unit=task.unit,
        of="direction" if circular else "mean",
        level=level,
        target=target,
        wanted=float(half_width),
        now=now,
        reports=reports,
        more=None if reports is None else max(reports - n, 0),
        worst=worst,
        note=note,
    )


def _of_mean(
    mechanism: Mechanism, survey: Survey | None, wanted: float, level: float, target: Target
) -> tuple[float | None, int | None, int | None, str]:
    """Return `now`, `reports`, `worst` and `note`, from Student's interval with the current variance."""
    length = mechanism.domain.length
    try:
        curve = MeanCurve(mechanism, None, target)
    except ParameterError:  # any number of reports determines only a range of means
        return None, None, None, _NONE
    worst = _fewest(lambda reports: curve.half_width(reports, level), wanted / length)
    if survey is None:
        return None, None, worst, _FEW
    n, value = int(survey.n), mean.mean(survey, level=level)
    ends = value.ends()
    if value.value is None or ends is None:
        return None, None, worst, _FEW
    now = max(value.value - ends[0], ends[1] - value.value)
    if n < FEW:
        return now, None, worst, _FEW
    deviation = now / two_sided(level, n) * math.sqrt(n)
    needed = _fewest(lambda reports: two_sided(level, reports) * deviation / math.sqrt(reports), wanted)
    return now, needed, worst, "" if needed is not None else _NONE


def _of_direction(
    mechanism: Mechanism, survey: Survey | None, wanted: float, level: float, _target: Target
) -> tuple[float | None, int | None, int | None, str]:
    """Return the four values of `_of_mean` for the worst population with the current resultant length."""
    period = mechanism.domain.length
    if survey is None or survey.n < FEW:
        return None, None, None, _FEW
    value, size = direction.direction(survey, level=level), direction.resultant_length(survey, level=level)
    ends = value.ends()
    now = None
    if value.value is not None and ends is not None and ends[1] - ends[0] < period:
        now = max(value.value - ends[0], ends[1] - value.value)
    if now is None or size.value is None or size.value <= 0.0:
        return now, None, None, _OPEN
    try:
        curve = DirectionCurve(cast("CircularMechanism", mechanism), None, min(size.value, 1.0))
    except ParameterError:
        return now, None, None, _NONE
    needed = _fewest(lambda reports: curve.half_width(reports, level), wanted / period)
    return now, needed, None, "" if needed is not None else _NONE


def _fewest(half_width: Callable[[int], float | None], wanted: float) -> int | None:
    """Return the fewest reports that reach the wanted half-width, or None if no number is enough."""

    def enough(reports: int) -> bool:
        found = half_width(reports)
        return found is not None and found <= wanted

    return fewest_reports(enough)
