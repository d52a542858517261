"""Estimates from counts: `estimate` does all that applies to a task."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from arcwise.analysis.counts import checked_task

# By module, not by name: most functions have the names of their modules.
from arcwise.analysis.estimators import band, direction, mean, mode, quantiles, shares, variance
from arcwise.analysis.estimators.histogram import histogram
from arcwise.analysis.estimators.inference_target import check_level, target_words
from arcwise.analysis.estimators.result import Estimate, share_name, wrapped
from arcwise.analysis.estimators.survey import Survey
from arcwise.analysis.estimators.wide_domain import told_if_wide
from arcwise.analysis.threads import one_thread
from arcwise.checks import checked_bool, explained
from arcwise.kernels.certificate import UNIT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    from arcwise.analysis.estimators.inference_target import Target
    from arcwise.analysis.estimators.survey import Profile
    from arcwise.mechanisms.base import Mechanism
    from arcwise.tasks import Task

__all__ = ["by_shares", "empty_estimate", "estimate", "reported_delta", "unwrapped_estimate"]


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
    bands: bool = False,
    origin: float | None = None,
) -> Estimate:
    """Return every estimate that applies to the task.

    Parameters
    ----------
    task
        What was asked.
    counts
        Shape (K,): the number of reports per code, non-negative integers.
    level
        Of every interval, from 0.5 to 0.9999.
    between
        Pairs (low, high) of values in the unit of the domain: the share of the population from one to the
        other is estimated too. From the low end of an interval it is the distribution function at the other,
        up to its high end a tail; on a circle the arc from low upwards to high.
    target
        Whom the intervals speak about: "population", that the devices were drawn from, or "users", the values
        behind these very reports. The second are narrower, above all at a large epsilon; mean, variance,
        direction and resultant length have them, the other intervals stay the population's.
    sampled
        The share of a group's devices that was drawn to report this task: `Group.share`. Then "users" are all
        devices of the group, and their intervals hold the error of drawing too. The population's have it
        anyway, and do not depend on it.
    bands
        Also the parts that cost several times the rest: the mode's interval, bins with intervals, on an
        interval the simultaneous band of the distribution function, on a circle the quantiles.
    origin
        On a circle: from where its quantiles are counted upwards, in the unit of the domain; 0 is midnight of
        a time of day. Unless given, opposite the mean direction, and only with bands and a direction that
        the reports determine.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or there is no report yet.

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
    result = unwrapped_estimate(
        task, counts, level=level, between=between, target=target, sampled=sampled, bands=bands, origin=origin
    )
    return wrapped(result, task)


def unwrapped_estimate(
    task: Task,
    counts: ArrayLike,
    *,
    level: float = 0.95,
    between: Iterable[tuple[float, float]] = (),
    target: Target = "population",
    sampled: float = 1.0,
    bands: bool = False,
    origin: float | None = None,
) -> Estimate:
    """Return `estimate` with places on a circle as estimators give them, low <= value <= high."""
    check_level(level)
    checked_task(task)
    bands = checked_bool("bands", bands)
    survey = Survey.of(task, counts, target=target, sampled=sampled)
    mechanism = task.mechanism
    result = replace(
        empty_estimate(task, level=level, target=target, sampled=survey.sampled),
        n=int(survey.n),
        distribution=histogram(mechanism, survey.fit),
    )
    if mechanism.kernel.circular:
        heading = direction.direction(survey, level=level)
        length = direction.resultant_length(survey, level=level)
        result = replace(
            result,
            direction=heading,
            resultant_length=length,
            circular_variance=direction.circular_variance(length),
        )
        if bands and origin is None:
            origin = quantiles.opposite(heading, mechanism.domain.length)
    else:
        spread = variance.spread(survey, level=level)
        result = replace(
            result,
            mean=mean.mean(survey, level=level),
            variance=spread.variance,
            standard_deviation=spread.standard_deviation,
        )
    result = replace(result, **by_shares(survey, level, between, bands=bands, origin=origin))
    return told_if_wide(result, task)


def empty_estimate(
    task: Task, *, level: float = 0.95, target: Target = "population", sampled: float = 1.0
) -> Estimate:
    """Return the estimate of no report: it says whose it would be, and has no number but ``n = 0``."""
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


def by_shares(
    survey: Profile,
    level: float,
    between: Iterable[tuple[float, float]],
    *,
    bands: bool,
    origin: float | None,
) -> dict[str, Any]:
    """Return the parts of an `Estimate` that come from shares: mode, quantiles, shares, bins and band."""
    circular = survey.mechanism.kernel.circular
    found: dict[str, Any] = {"mode": mode.mode(survey, level=level, interval=bands)}
    if not circular:
        quantiles.check_no_origin(origin)
        found["quantiles"] = quantiles.quantiles(survey, level=level)
    elif origin is not None:
        found["quantiles"] = quantiles.circular_quantiles(survey, origin, level=level)
    found["shares"] = {
        share_name(*ends): shares.share(survey, *ends, level=level)
        for ends in shares.checked_between(between)
    }
    if bands:
        found["bins"] = band.bins(survey, level=level)
        if not circular:
            found["band"] = band.cdf_band(survey, level=level)
    return found


def reported_delta(mechanism: Mechanism) -> float:
    """Return the delta of a report: 0 of pure mechanisms, whose rows were walked when the task was made."""
    return mechanism.certificate().delta / UNIT if mechanism.approximate else 0.0
