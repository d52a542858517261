"""Estimates over time, one point for each group of epochs. `result` has the parts of a series."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np

from arcwise.analysis.counts import check_counts, checked_task
from arcwise.analysis.estimators import direction, mean
from arcwise.analysis.estimators.estimation import reported_delta, unwrapped_estimate
from arcwise.analysis.estimators.inference_target import FEW, check_level, check_sampled, check_target
from arcwise.analysis.estimators.quantiles import check_no_origin, checked_levels
from arcwise.analysis.estimators.result import wrapped
from arcwise.analysis.estimators.shares import checked_between
from arcwise.analysis.estimators.survey import Survey, caps_note, devices_of, noted, unsaid_reports
from arcwise.analysis.estimators.unbiasing import mean_numbers
from arcwise.analysis.threads import one_thread
from arcwise.analysis.timeseries.change import Change, change
from arcwise.analysis.timeseries.epochs import MONTH, Span, check_months, epoch_start, month_starts
from arcwise.analysis.timeseries.result import Point, Series
from arcwise.checks import checked_bool, checked_integer, explained, shown
from arcwise.errors import ParameterError
from arcwise.tasks import DAY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike

    from arcwise.analysis.estimators.inference_target import Target
    from arcwise.analysis.timeseries.epochs import Every
    from arcwise.mechanisms.base import Mechanism
    from arcwise.tasks import Task
    from arcwise.typing import FloatArray, IntArray

MAX_POINTS = 100_000
"""Most points. A larger number is due to a mistake: an epoch from a wrong clock, or of another task."""

MONDAY = 4 * DAY
"""1970-01-05 00:00 UTC, a Monday: points of a week start on Mondays, and points of a day at midnight."""

HIGHEST_LEVEL = 0.9999
"""The highest level of an interval of `estimate`."""
_NOT_THEIRS = (
    "not the populations they were drawn from; intervals of quantiles and shares are the populations'"
)
_TARGETS = {
    "population": "the populations that the devices of each point were drawn from",
    "users": f"the values behind the reports of each point, {_NOT_THEIRS}",
}


@one_thread()
@explained
def series(
    task: Task,
    counts_by_epoch: Mapping[int, ArrayLike],
    *,
    every: Every = 1,
    first: int | None = None,
    last: int | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
    between: Iterable[tuple[float, float]] = (),
    quantiles: bool | Iterable[float] = False,
    origin: float | None = None,
    target: Target = "population",
    sampled: float = 1.0,
    reports_per_device: float | None = None,
    memoised: bool = False,
) -> Series:
    """Return the estimates of a task over time.

    Parameters
    ----------
    task
        The task that the devices answered.
    counts_by_epoch
        The reports per code, shape (K,), by number of the epoch, as `Store.counts_by_epoch` returns them.
        Missing epochs have no reports.
    every
        The number of epochs in a point, at least 1, or "month": a point for each calendar month, in UTC. The
        counts of a point's epochs are merged before anything is estimated.
    first, last
        The first and the last epoch, both included. By default all epochs with reports are used. The points
        then start at multiples of `every` after Monday 1970-01-05, or at the starts of months, so they keep
        their places when epochs are added.
    level
        The level of the intervals, from 0.5 to 0.9999.
    simultaneous
        Make the intervals wider, so that the level holds for all points of an estimate together (Bonferroni).
        Otherwise it holds for each point separately.
    between
        Pairs (low, high) as in `estimate`: shares at every point. This requires a whole estimate for each
        point.
    quantiles
        Compute quantiles at every point: True, or the levels of further quantiles as in `estimate`. This,
        too, requires a whole estimate for each point.
    origin
        The origin of quantiles on a circle, as in `estimate`: the same place at every point. Quantiles on a
        circle require it.
    target
        As in `estimate`, for each point; "users" also requires a whole estimate for each point. The test for
        a change refers to populations.
    sampled
        The share of a group's devices that was drawn to report this task, as in `estimate`.
    reports_per_device, memoised
        As in `estimate`, within each point. Notes on the reports that caps allow also refer to a point. The
        test for a change assumes that the devices differ from point to point. If they are the same, the test
        detects less, but false alarms are not more frequent.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or there are no reports in the range.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> task = Task("age", Interval(0, 100), epsilon=1.0)
    >>> counts = [1] * task.mechanism.kernel.codes
    >>> result = series(task, {20_758: counts, 20_760: counts})
    >>> [(f"{point.start:%d %B}", point.n) for point in result.points]
    [('01 November', 204), ('02 November', 0), ('03 November', 204)]
    """
    checked_task(task)
    check_level(level)
    pairs = checked_between(between)
    check_target(target)
    sampled = check_sampled(sampled)
    simultaneous = checked_bool("simultaneous", simultaneous)
    levels = () if isinstance(quantiles, bool) else checked_levels(quantiles)
    period = task.domain.length if task.domain.circular else None
    if period is None:
        check_no_origin(origin)
    quantiles = quantiles is True or bool(levels)
    if period is not None and quantiles and origin is None:
        raise ParameterError("origin must be given for quantiles on a circle: they are counted from it")
    quantiles = quantiles or origin is not None
    span = Span(first, last)
    if not isinstance(counts_by_epoch, Mapping) or not all(
        isinstance(epoch, SupportsIndex) for epoch in counts_by_epoch
    ):
        raise ParameterError(
            "counts_by_epoch must be a mapping from numbers of epochs, such as task.epoch(timestamp), to "
            f"counts; got {shown(counts_by_epoch)}"
        )
    counts = {
        epoch: array
        for key, each in counts_by_epoch.items()
        if (epoch := index(key)) in span and (array := _checked(each, task)).any()
    }
    if not counts:
        raise ParameterError("counts_by_epoch must hold at least one report in the range, got none")
    spans = point_spans(task, counts, every=every, span=span)
    firsts = [each.first for each in spans]
    merged: dict[int, IntArray] = {}  # only points with reports, which may be few among 100,000
    for epoch, array in sorted(counts.items()):
        place = bisect_right(firsts, epoch) - 1
        merged[place] = merged[place] + array if place in merged else array
    filled = [(place, check_counts(total, len(total))) for place, total in merged.items()]
    pointwise = 1 - (1 - level) / len(filled) if simultaneous else level
    whole = bool(pairs) or quantiles or target == "users"
    if whole and pointwise > HIGHEST_LEVEL:
        raise ParameterError(
            f"simultaneous must be False with between, quantiles or target 'users', at {len(filled)} points: "
            f"no interval has a level above {HIGHEST_LEVEL}"
        )
    repeated: dict[str, Any] = {"reports_per_device": reports_per_device, "memoised": memoised}
    asked = {"between": pairs, "origin": origin, "quantiles": levels} if whole else None
    values: dict[int, dict[str, Any]] = {}
    for place, numbers in filled:
        survey = Survey(task.mechanism, numbers, target=target, sampled=sampled, **repeated)
        found = _point_values(task, survey, pointwise, asked, quantiles=quantiles)
        epochs = spans[place].last - spans[place].first + 1
        note = caps_note(unsaid_reports(reports_per_device, (task, epochs)))
        values[place] = noted(found, note) | {"n": int(survey.reports), "devices": devices_of([survey])}
    empty = empty_series(
        task, spans, every=every, level=level, simultaneous=simultaneous, target=target, sampled=sampled
    )
    return replace(
        empty,
        n=int(sum(total.sum() for total in merged.values())),
        points=tuple(replace(point, **values.get(place, {})) for place, point in enumerate(empty.points)),
        change=change_of(task.mechanism, [numbers for _, numbers in filled], **repeated),
    )


def empty_series(
    task: Task,
    spans: Iterable[PointSpan],
    *,
    every: Every = 1,
    level: float = 0.95,
    simultaneous: bool = False,
    target: Target = "population",
    sampled: float = 1.0,
) -> Series:
    """Return the series without reports: a point without values for each range of epochs."""
    return Series(
        task=task.name,
        task_id=task.id,
        n=0,
        epsilon=task.epsilon,
        delta=reported_delta(task.mechanism),
        level=level,
        simultaneous=simultaneous,
        every=every,
        domain=task.domain,
        unit=task.unit,
        description=task.description,
        target=_target_words(target, sampled),
        points=tuple(
            Point(first, last, epoch_start(task, first), epoch_start(task, last + 1), n=0)
            for first, last in spans
        ),
        change=None,
    )


def _target_words(target: Target, sampled: float) -> str:
    if target == "population" or sampled == 1.0:
        return _TARGETS[target]
    drawn = f"the values of all devices of the group at each point, of which {sampled:.4g} drew this task"
    return f"{drawn}, {_NOT_THEIRS}"


class PointSpan(NamedTuple):
    """The first and the last epoch of a point of a series."""

    first: int
    last: int


def point_spans(
    task: Task, epochs: Iterable[int], *, every: Every, span: Span, most: int = MAX_POINTS
) -> list[PointSpan]:
    """Return the epochs of each point of a series, from a range and the epochs that have reports.

    There are at most `most` points, and the last one ends by the year 9999.
    """
    known = sorted(epochs)
    first = known[0] if span.first is None else index(span.first)
    last = known[-1] if span.last is None else index(span.last)
    if every == MONTH:
        check_months(task, "every")
        starts: Sequence[int] = month_starts(task, first, last) if first <= last else range(0)
    else:
        size = checked_integer("every", every, 1)
        if span.first is None:
            first -= (first - MONDAY // task.epoch_seconds) % size
        starts = range(max(first, 0), last + 1 + size, size) if first <= last else range(0)
    if last < first:
        raise ParameterError(f"last must be at least first, got {last!r} and {first!r}")
    if len(starts) - 1 > most:
        raise ParameterError(
            f"every must be large enough for at most {most} points; got {every!r}, giving {len(starts) - 1}"
        )
    epoch_start(task, starts[-1] if span.last is None else last + 1)
    spans = [PointSpan(start, after - 1) for start, after in pairwise(starts)]
    if span.first is not None:
        spans[0] = spans[0]._replace(first=max(first, 0))
    if span.last is not None:
        spans[-1] = spans[-1]._replace(last=last)
    return spans


def _checked(counts: ArrayLike, task: Task) -> IntArray:
    """Return the checked counts of an epoch, which may be all 0."""
    array = np.asarray(counts)
    codes = task.mechanism.kernel.codes
    if array.shape != (codes,) or array.dtype.kind not in "iu" or array.any():
        check_counts(array, codes)
    return array.astype(np.int64, copy=False)


def _point_values(
    task: Task, survey: Survey, level: float, asked: Mapping[str, Any] | None, *, quantiles: bool
) -> dict[str, Any]:
    """Return the fields of a `Point`: a few averages, or with options `asked` parts of a whole estimate."""
    if asked is not None:
        whole = wrapped(unwrapped_estimate(task, survey, level=level, **asked), task)
        values = {name: getattr(whole, name) for name in ("mean", "direction", "resultant_length", "shares")}
        return values | {"quantiles": whole.quantiles if quantiles else {}}
    if task.domain.circular:
        return {
            "direction": direction.direction(survey, level=level).on_circle(task.domain.length),
            "resultant_length": direction.resultant_length(survey, level=level),
        }
    return {"mean": mean.mean(survey, level=level)}


def change_of(mechanism: Mechanism, counts: Sequence[FloatArray], **repeated: Any) -> Change | None:
    """Return the test over the points with at least 30 devices, if the reports show a mean or a moment."""
    surveys = [Survey(mechanism, each, **repeated) for each in counts]
    enough = [each for each in surveys if each.devices >= FEW]
    if len(enough) < 2:
        return None
    reports = np.array([each.devices for each in enough])
    most = enough[int(reports.argmax())]
    if mechanism.kernel.circular:
        if direction.direction(most).value is None:
            return None
        moments = [direction.first_moment(each) for each in enough]
        z, covariances = (np.array(part) for part in zip(*moments, strict=True))
        return change("direction or resultant length", z, covariances, reports)
    if mean.mean(most).value is None:
        return None
    # On the unit interval, so that any unit of the domain works. All points use the same numbers per code.
    numbers = mean_numbers(mechanism, float(reports.max())).values
    averages = np.array([mean.average(each, numbers) for each in enough])
    return change("the mean", averages[:, :1], averages[:, 1:, None] ** 2, reports)
