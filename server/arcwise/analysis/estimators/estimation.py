"""Estimates from counts: `estimate` does all that applies to a task."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

# By module, not by name: most functions have the names of their modules.
from arcwise.analysis.counts import check_counts
from arcwise.analysis.estimators import band, direction, mean, mode, quantiles, shares, variance
from arcwise.analysis.estimators.bounds import Bounds
from arcwise.analysis.estimators.histogram import histogram
from arcwise.analysis.estimators.inference_target import (
    Target,
    Users,
    check_level,
    check_sampled,
    check_target,
    target_words,
)
from arcwise.analysis.estimators.result import Estimate, Value
from arcwise.analysis.likelihood.distribution import fit_held_out
from arcwise.analysis.threads import one_thread
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms.circular import CircularMechanism

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import ArrayLike

    from arcwise.mechanisms.base import Mechanism
    from arcwise.tasks import Task
    from arcwise.typing import FloatArray


__all__ = ["estimate", "reported_delta"]

T = TypeVar("T")


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
    check_level(level)
    check_target(target)
    sampled = check_sampled(sampled)
    mechanism = task.mechanism
    numbers = check_counts(counts, mechanism.kernel.codes)
    with one_thread():
        fitted = fit_held_out(mechanism, numbers)
        users = Users(fitted.probabilities, sampled) if target == "users" else None
        result = Estimate(
            task=task.name,
            task_id=task.id,
            n=int(numbers.sum()),
            epsilon=task.epsilon,
            level=level,
            target=target_words(target, sampled),
            domain=task.domain_words,
            unit=task.unit,
            description=task.description,
            delta=reported_delta(mechanism),
            distribution=histogram(mechanism, fitted),
        )
        ask = _Asked(mechanism, numbers, fitted.probabilities, level, tuple(between), users)
        if isinstance(mechanism, CircularMechanism):
            return _circle(result, mechanism, ask, bands, origin)
        quantiles.check_no_origin(origin)
        return _interval(result, ask, bands)


def reported_delta(mechanism: Mechanism) -> float:
    """Return the delta of a report: 0 of pure mechanisms, whose rows were walked when the task was made."""
    return mechanism.certificate().delta / UNIT if mechanism.approximate else 0.0


class _Asked(NamedTuple):
    """What every estimator is given."""

    mechanism: Mechanism
    counts: FloatArray
    probabilities: FloatArray
    level: float
    between: tuple[tuple[float, float], ...]
    users: Users | None

    def shares(self, bounds: Bounds | None) -> dict[str, Value]:
        """Return the shares that were asked for."""
        mechanism, counts, probabilities, level, between, _ = self
        return {
            shares.share_name(low, high): shares.share(
                mechanism, counts, probabilities, low, high, level=level, bounds=bounds
            )
            for low, high in between
        }


def _circle(
    result: Estimate, mechanism: CircularMechanism, ask: _Asked, bands: bool, origin: float | None
) -> Estimate:
    _, counts, probabilities, level, between, users = ask
    mean_direction = direction.direction(mechanism, counts, level=level, users=users)
    length = direction.resultant_length(mechanism, counts, level=level, users=users)
    if bands and origin is None:
        origin = quantiles.opposite(mean_direction, mechanism.domain.length)
    bounds = Bounds(mechanism, counts) if bands or between or origin is not None else None
    given = partial(_given, ask, bounds)
    return replace(
        result,
        direction=mean_direction,
        resultant_length=length,
        circular_variance=direction.circular_variance(length),
        mode=mode.mode(mechanism, counts, probabilities, level=level, bounds=bounds if bands else None),
        quantiles={} if origin is None else given(quantiles.circular_quantiles, origin),
        shares=ask.shares(bounds),
        bins=given(band.bins) if bands else {},
    )


def _interval(result: Estimate, ask: _Asked, bands: bool) -> Estimate:
    mechanism, counts, probabilities, level, _, users = ask
    bounds = Bounds(mechanism, counts)  # what quantiles, shares and bands have in common
    given = partial(_given, ask, bounds)
    spread = variance.spread(mechanism, counts, level=level, users=users)
    return replace(
        result,
        mean=mean.mean(mechanism, counts, level=level, users=users),
        variance=spread.variance,
        standard_deviation=spread.standard_deviation,
        mode=mode.mode(mechanism, counts, probabilities, level=level, bounds=bounds if bands else None),
        quantiles=given(quantiles.quantiles),
        shares=ask.shares(bounds),
        bins=given(band.bins) if bands else {},
        band=given(band.cdf_band) if bands else None,
    )


def _given(ask: _Asked, bounds: Bounds | None, estimator: Callable[..., T], *more: float) -> T:
    mechanism, counts, probabilities, level, *_ = ask
    return estimator(mechanism, counts, probabilities, *more, level=level, bounds=bounds)
