"""Estimates from counts: `estimate` does all that applies to a task. One estimator is one file here.

Nothing here knows a server: a bare array of counts is enough, from a store, a file or a data lake.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from arcwise.errors import ParameterError
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms.circular import CircularMechanism

# By module, not by name: a function of a submodule's name would hide the submodule.
from arcwise.server.estimators import direction, distribution, mean, mode, quantiles, shares, variance
from arcwise.server.estimators.result import Distribution, Estimate, Value
from arcwise.server.estimators.targets import TARGETS, Target, check_target

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    from arcwise.tasks import Task

__all__ = ["Distribution", "Estimate", "Value", "check_counts", "estimate"]


def estimate(
    task: Task,
    counts: ArrayLike,
    *,
    level: float = 0.95,
    between: Iterable[tuple[float, float]] = (),
    target: Target = "population",
    bands: bool = False,
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
        Pairs (low, high) of values on an interval, in the unit of the domain: the share of the population
        from one to the other is estimated too. From the domain's low end it is the distribution function at
        the other, up to its high end a tail.
    target
        Whom the intervals speak about: "population", that the devices were drawn from, or "users", the values
        behind these very reports. The second are narrower, above all at a large epsilon; mean, variance,
        direction and resultant length have them, the other intervals stay the population's.
    bands
        Also the parts that cost several times the rest: the mode's interval.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or there is no report yet.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> from arcwise.tasks import Task
    >>> task = Task("age", Interval(0, 100), epsilon=1.0)
    >>> result = estimate(task, [1] * task.mechanism.kernel.codes)
    >>> round(result.mean.value)
    50
    """
    if not 0.5 <= level <= 0.9999:
        raise ParameterError(f"level must be from 0.5 to 0.9999, got {level!r}")
    check_target(target)
    mechanism = task.mechanism
    numbers = check_counts(counts, mechanism.kernel.codes)
    fitted = distribution.fit_held_out(mechanism, numbers)
    users = fitted.probabilities if target == "users" else None
    result = Estimate(
        task=task.name,
        task_id=task.id,
        n=int(numbers.sum()),
        epsilon=task.epsilon,
        level=level,
        target=TARGETS[target],
        domain=str(task.domain),
        # Pure mechanisms have none: their rows were walked when the task was made.
        delta=mechanism.certificate().delta / UNIT if mechanism.approximate else 0.0,
        distribution=distribution.distribution(mechanism, fitted),
    )
    if isinstance(mechanism, CircularMechanism):
        if tuple(between):
            raise ParameterError("between must be empty on a circle: shares of arcs are not estimated yet")
        length = direction.resultant_length(mechanism, numbers, level=level, users=users)
        return replace(
            result,
            direction=direction.direction(mechanism, numbers, level=level, users=users),
            resultant_length=length,
            circular_variance=direction.circular_variance(length),
            mode=mode.mode(mechanism, numbers, fitted.probabilities, level=level),
        )
    with threadpool_limits(limits=1, user_api="blas"):  # see `quantiles`
        profile = quantiles.Profile(mechanism, numbers)  # what quantiles and shares have in common
    spread = variance.spread(mechanism, numbers, level=level, users=users)
    return replace(
        result,
        mean=mean.mean(mechanism, numbers, level=level, users=users),
        variance=spread.variance,
        standard_deviation=spread.standard_deviation,
        mode=mode.mode(
            mechanism, numbers, fitted.probabilities, level=level, profile=profile if bands else None
        ),
        quantiles=quantiles.quantiles(mechanism, numbers, fitted.probabilities, level=level, profile=profile),
        shares={
            f"{low:g}:{high:g}": shares.share(
                mechanism, numbers, fitted.probabilities, low, high, level=level, profile=profile
            )
            for low, high in between
        },
    )


def check_counts(counts: ArrayLike, codes: int) -> NDArray[np.float64]:
    """Return counts as floats, shape (K,), or raise `ParameterError` that names what is wrong."""
    array = np.asarray(counts)
    if array.shape != (codes,):
        raise ParameterError(f"counts must have the shape ({codes},), one number per code; got {array.shape}")
    if array.dtype.kind not in "iu":
        raise ParameterError(f"counts must be integers, got dtype {array.dtype}")
    if array.min() < 0:
        raise ParameterError(f"counts must be at least 0, got {int(array.min())} for code {array.argmin()}")
    total = sum(array.tolist())  # Python's integers do not wrap
    if total > _MAX_COUNT:
        raise ParameterError(f"counts must sum to at most {_MAX_COUNT}, got {total}")
    if not total:
        raise ParameterError("counts must hold at least one report: there are no reports yet")
    return array.astype(np.float64)


_MAX_COUNT = 2**53
"""Integers up to here are exact in a float."""
