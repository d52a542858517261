"""Estimates from counts: `estimate` computes all that apply to a task."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from arcwise.analysis.counts import checked_task
from arcwise.analysis.estimators import direction, mean, mode, shares, variance
from arcwise.analysis.estimators.histogram import histogram
from arcwise.analysis.estimators.inference_target import check_level, target_words
from arcwise.analysis.estimators.modes import count_modes
from arcwise.analysis.estimators.quantiles import (
    check_no_origin,
    checked_levels,
    circular_quantiles,
    opposite,
)
from arcwise.analysis.estimators.quantiles import quantiles as quantiles_of
from arcwise.analysis.estimators.result import Estimate, share_name, wrapped
from arcwise.analysis.estimators.survey import Survey, caps_note, devices_of, noted, unsaid_reports
from arcwise.analysis.threads import one_thread
from arcwise.checks import checked_bool, explained
from arcwise.kernels.certificate import UNIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike

    from arcwise.analysis.estimators.inference_target import Target
    from arcwise.analysis.estimators.result import Value
    from arcwise.analysis.estimators.survey import Profile
    from arcwise.mechanisms.base import Mechanism
    from arcwise.tasks import Task

_PART = 0.01  # the note is added if nine in ten values lie in at most this part of the domain

_CELLS, _MOST = 2.5, 0.025
"""A fit to one place spreads over `_CELLS` cells: this width is narrow, up to `_MOST` of the domain."""

_SURE = 0.05
"""Largest part of the domain that the intervals of the two quantiles may cover together."""

_WORTH = 3.0  # least ratio of the domain's length to the length between proposed bounds
_ROOM = 2.0  # room that proposed bounds leave on either side, in lengths of the range of nine in ten values


@one_thread()
@explained
def estimate(
    task: Task,
    counts: ArrayLike,
    *,
    level: float = 0.95,
    between: Iterable[tuple[float, float]] = (),
    target: Target = "population",
    sampled: float = 1.0,
    reports_per_device: float | None = None,
    memoised: bool = False,
    epochs: int = 1,
    bands: bool = False,
    origin: float | None = None,
    quantiles: Iterable[float] = (),
) -> Estimate:
    """Return every estimate that applies to a task, computed from the counts of its reports.

    Parameters
    ----------
    task
        The task that the devices answered.
    counts
        Shape (K,): the number of reports per code, non-negative integers.
    level
        The level of every interval, from 0.5 to 0.9999.
    between
        Pairs (low, high) of values in the unit of the domain. For each pair the share of the population from
        `low` to `high` is also estimated. If `low` is the low end of an interval, the share is the
        distribution function at `high`; if `high` is the high end, it is a tail. On a circle it is the share
        of the arc from `low` upwards to `high`.
    target
        The target of the intervals: "population", from which the devices were drawn, or "users", the values
        behind these very reports. Intervals for users are narrower, above all at a large epsilon. Only the
        intervals of mean, variance, direction and resultant length can be for users; all others are for the
        population.
    sampled
        The share of a group's devices that was drawn to report this task: `Group.share`. Then "users" are all
        devices of the group, and intervals for users include the error of drawing. Intervals for the
        population always include this error, and do not depend on `sampled`.
    reports_per_device
        The most reports that one device may have sent, m. Intervals then allow for as few as n/m devices
        behind n reports, even if a device's values are alike. Every report has the same weight in the
        estimates. Use a value above 1 for several epochs, or if caps allow a device more than one report in
        an epoch. None is taken as 1, with a note if the task's caps allow more.
    memoised
        Whether devices may have repeated an answer instead of drawing a new one, as clients that memoise the
        task do. Then n reports count as n/m reports.
    epochs
        The number of epochs from the first to the last report. If `reports_per_device` is None, and the
        task's caps allow a device more than one report in these epochs, a note says so.
    bands
        Also compute the mode's interval and bins with intervals; on an interval also the simultaneous band of
        the distribution function, and on a circle the quantiles. They take several times as long as all other
        parts.
    origin
        On a circle: the place from which quantiles are counted upwards, in the unit of the domain; for times
        of day, 0 is midnight. The default is the place opposite the mean direction; it is used only with
        `bands` or `quantiles`, and only if the reports determine the direction.
    quantiles
        Levels between 0 and 1, at most 20: their quantiles are computed too, besides those of the levels
        0.05, 0.25, 0.5, 0.75 and 0.95.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the counts hold no report.

    Examples
    --------
    >>> from arcwise.analysis import estimate
    >>> from arcwise.domains import Interval
    >>> from arcwise.tasks import Task
    >>> task = Task("age", Interval(0, 100), epsilon=1.0)
    >>> result = estimate(task, [1] * task.mechanism.kernel.codes)
    >>> round(result.mean.value)
    50
    """
    survey = Survey.of(
        checked_task(task),
        counts,
        target=target,
        sampled=sampled,
        reports_per_device=reports_per_device,
        memoised=memoised,
    )
    result = unwrapped_estimate(
        task, survey, level=level, between=between, bands=bands, origin=origin, quantiles=quantiles
    )
    most = unsaid_reports(reports_per_device, (task, epochs))
    if most > 1.0:
        result = _with_caps(result, task, survey, most)
    return wrapped(result, task)


def _with_caps(result: Estimate, task: Task, survey: Survey, most: float) -> Estimate:
    """Return the estimate with the note on how often the task's caps let a device report."""
    name = "direction" if task.domain.circular else "mean"
    value: Value = getattr(result, name)
    width = ""
    if math.isfinite(most):
        repeated = Survey(
            task.mechanism,
            survey.counts,
            target=survey.target,
            sampled=survey.sampled,
            reports_per_device=most,
            probabilities=survey.probabilities,  # shares the fit, which takes most of the time
        )
        find = direction.direction if name == "direction" else mean.mean
        now, wide = _width(value), _width(find(repeated, level=result.level))
        if wide > now:
            width = f", with which the interval would be {wide:.4g} wide instead of {now:.4g}"
    return replace(result, **noted({name: value}, caps_note(most, width)))


def _width(value: Value) -> float:
    """Return the width of an interval."""
    assert value.low is not None and value.high is not None  # noqa: S101, PT018 (these have intervals)
    return value.high - value.low


def unwrapped_estimate(
    task: Task,
    survey: Survey,
    *,
    level: float = 0.95,
    between: Iterable[tuple[float, float]] = (),
    bands: bool = False,
    origin: float | None = None,
    quantiles: Iterable[float] = (),
) -> Estimate:
    """Return `estimate` of a survey; places on a circle are unwrapped, with low <= value <= high."""
    check_level(level)
    bands, also = checked_bool("bands", bands), checked_levels(quantiles)
    mechanism = task.mechanism
    result = replace(
        empty_estimate(task, level=level, target=survey.target, sampled=survey.sampled),
        n=int(survey.reports),
        devices=devices_of([survey]),
        distribution=histogram(
            mechanism,
            survey.fit,
            count_modes(mechanism, survey.counts / survey.n, survey.devices, survey.probabilities),
        ),
        **by_moments(survey, level),
    )
    if (bands or also) and origin is None and result.direction is not None:
        origin = opposite(result.direction, mechanism.domain.length)
    result = replace(result, **by_shares(survey, level, between, bands=bands, origin=origin, also=also))
    return told_if_wide(result, task)


def empty_estimate(
    task: Task, *, level: float = 0.95, target: Target = "population", sampled: float = 1.0
) -> Estimate:
    """Return the estimate from no reports: it names its task and target, and its only number is ``n = 0``."""
    return Estimate(
        task=task.name,
        task_id=task.id,
        n=0,
        epsilon=task.epsilon,
        level=level,
        target=target_words(target, sampled),
        domain=task.domain,
        unit=task.unit,
        description=task.description,
        delta=reported_delta(task.mechanism),
    )


def by_moments(survey: Survey, level: float) -> dict[str, Any]:
    """Return the parts of an `Estimate` that come from moments: a mean or a direction, and the spread."""
    if survey.mechanism.kernel.circular:
        length = direction.resultant_length(survey, level=level)
        return {
            "direction": direction.direction(survey, level=level),
            "resultant_length": length,
            "circular_variance": direction.circular_variance(length),
        }
    spread = variance.spread(survey, level=level)
    return {
        "mean": mean.mean(survey, level=level),
        "variance": spread.variance,
        "standard_deviation": spread.standard_deviation,
    }


def by_shares(
    survey: Profile,
    level: float,
    between: Iterable[tuple[float, float]],
    *,
    bands: bool,
    origin: float | None,
    also: Sequence[float],
) -> dict[str, Any]:
    """Return the parts of an `Estimate` that come from shares: mode, quantiles, shares, bins and band."""
    circular = survey.mechanism.kernel.circular
    found: dict[str, Any] = {"mode": mode.mode(survey, level=level, interval=bands)}
    if not circular:
        check_no_origin(origin)
        found["quantiles"] = quantiles_of(survey, level=level, also=also)
    elif origin is not None:
        found["quantiles"] = circular_quantiles(survey, origin, level=level, also=also)
    pairs = shares.checked_between(between)
    names = [share_name(*ends) for ends in pairs]
    found["shares"] = dict(zip(names, shares.shares(survey, pairs, level=level), strict=True))
    if bands:
        found["bins"] = shares.bins(survey, level=level)
        if not circular:
            found["band"] = shares.cdf_band(survey, level=level)
    return found


def reported_delta(mechanism: Mechanism) -> float:
    """Return the delta of a report, as certified when the task was made; 0 for pure mechanisms."""
    return mechanism.certificate().delta / UNIT if mechanism.approximate else 0.0


def told_if_wide(result: Estimate, task: Task) -> Estimate:
    """Return the estimate, with a note if the domain is about a hundred times wider than its values.

    The note proposes bounds and says what they cost. It is added under two conditions: the quantiles 0.05 and
    0.95 are at most a hundredth of the domain apart, or as close as the task's grid can show; and their
    intervals together cover at most a twentieth of the domain.
    """
    domain = task.domain
    if domain.circular or result.mean is None or not {"0.05", "0.95"} <= set(result.quantiles):
        return result
    first, last = result.quantiles["0.05"], result.quantiles["0.95"]
    if first.value is None or last.value is None or first.low is None or last.high is None:
        return result
    cell = domain.length / max(task.mechanism.kernel.nodes - 1, 1)
    narrow = max(_PART * domain.length, min(_CELLS * cell, _MOST * domain.length))
    if last.value - first.value > narrow or last.high - first.low > _SURE * domain.length:
        return result
    width = max(last.high - first.low, cell)
    step = 10.0 ** math.floor(math.log10(width))
    low = max(math.floor((first.low - _ROOM * width) / step) * step, domain.low)
    high = min(math.ceil((last.high + _ROOM * width) / step) * step, domain.high)
    ratio = domain.length / (high - low)
    if ratio < _WORTH:
        return result
    unit = "" if task.unit is None else f" {task.unit}"
    note = (
        f"nine in ten values lie between {first.low:.6g} and {last.high:.6g}{unit}, and the error of a mean "
        f"grows with the length of the domain: bounds from {low:.6g} to {high:.6g} with clip=True would make "
        f"it about {ratio:.2g} times smaller. Bounds taken from this estimate cost no device more privacy, "
        "but they publish that most values lie there, and reports of the new task spend their own epsilon"
    )
    return replace(result, **noted({"mean": result.mean}, note))
