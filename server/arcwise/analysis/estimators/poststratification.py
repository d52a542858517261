"""Post-stratification: estimates of a population from strata with known shares of it.

The devices that report may not represent the population: one platform or region may send more reports than
its share. If each stratum has its own task or counts, and its share of the population is known, each estimate
is a weighted combination of the strata's estimates. The reports of a stratum have to be a random sample of
that stratum. Weights cannot correct for differences within a stratum between people who report and people who
do not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.analysis.counts import checked_task
from arcwise.analysis.estimators.bounds import Bounds, Strata
from arcwise.analysis.estimators.direction import (
    Arrow,
    Moment,
    arrow_direction,
    arrow_length,
    arrow_of,
    circular_variance,
    component,
    direction,
    resultant_length,
    untold,
)
from arcwise.analysis.estimators.estimation import by_shares, reported_delta, told_if_wide
from arcwise.analysis.estimators.histogram import histogram
from arcwise.analysis.estimators.inference_target import check_level
from arcwise.analysis.estimators.mean import mean, outside_note, strata_reach
from arcwise.analysis.estimators.modes import count_modes
from arcwise.analysis.estimators.quantiles import checked_levels, opposite
from arcwise.analysis.estimators.result import Estimate, Value, all_notes, wrapped
from arcwise.analysis.estimators.survey import (
    Survey,
    caps_note,
    check_enough,
    devices_of,
    noted,
    unsaid_reports,
)
from arcwise.analysis.estimators.unbiasing import mean_numbers
from arcwise.analysis.estimators.variance import strata_spread
from arcwise.analysis.likelihood.distribution import thin
from arcwise.analysis.likelihood.em import EMFit
from arcwise.analysis.threads import one_thread
from arcwise.checks import as_float, checked_bool, explained, shown
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike

    from arcwise.mechanisms.base import Mechanism
    from arcwise.tasks import Task
    from arcwise.typing import FloatArray


@one_thread()
@explained
def post_stratify(
    task: Task,
    strata: Mapping[str, ArrayLike],
    weights: Mapping[str, float],
    *,
    level: float = 0.95,
    between: Iterable[tuple[float, float]] = (),
    reports_per_device: float | None = None,
    memoised: bool = False,
    epochs: int = 1,
    bands: bool = False,
    origin: float | None = None,
    quantiles: Iterable[float] = (),
) -> Estimate:
    """Return every estimate that applies to a task, for a population made up of strata.

    Parameters
    ----------
    task
        The task of all strata. The strata may have tasks of their own with other names, but the same
        mechanism.
    strata
        By the name of each stratum, its reports per code, shape (K,): at least 2 reports. No device may be in
        two strata.
    weights
        The size of each stratum in the population, by the same names: positive numbers in any unit, such as
        devices in use. They are taken as exact.
    level, between, reports_per_device, memoised, epochs, bands, origin, quantiles
        As in `estimate`, and the same for all strata. `epochs` is the number for the stratum with the most
        epochs, and the caps are those of `task`. Intervals are for the population.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the names of strata and weights differ.

    Notes
    -----
    A mean, a trigonometric moment or a share of the population is the weighted sum over the strata. Its
    interval treats the reports of all strata as one sample, each with its contribution to the error of the
    sum (`pooled_reach`). Bounds of shares hold for every population of each stratum (`bounds.Strata`).
    Quantiles, bins, band and mode are computed from these bounds in the same way as without strata.

    Examples
    --------
    >>> import numpy as np
    >>> from arcwise.domains import Interval
    >>> from arcwise.analysis.simulate import simulate_counts
    >>> from arcwise.tasks import Task
    >>> task = Task("age", Interval(0, 100), epsilon=2.0)
    >>> rng = np.random.default_rng(1)
    >>> young, old = (simulate_counts(task, f"normal:{m},10", n, rng) for m, n in ((30, 20_000), (60, 5_000)))
    >>> result = post_stratify(task, {"young": young, "old": old}, {"young": 1.0, "old": 1.0})
    >>> result.mean.contains(45.0), result.n
    (True, 25000)
    """
    checked_task(task)
    check_level(level)
    bands, also = checked_bool("bands", bands), checked_levels(quantiles)
    mechanism = task.mechanism
    surveys, parts = _checked(task, strata, weights, reports_per_device=reports_per_device, memoised=memoised)
    fewest = min(surveys, key=lambda each: each.devices)  # notes on few reports refer to this stratum
    probabilities: FloatArray = parts @ np.array([each.probabilities for each in surveys])
    found: dict[str, Any] = {}
    if mechanism.kernel.circular:
        about = "of the population that the strata make up"
        if untold(mechanism):  # holds for all strata, since they have one mechanism
            found["direction"] = direction(fewest, level=level)
            found["resultant_length"] = resultant_length(fewest, level=level)
        else:
            arrow = _arrow(surveys, parts)
            found["direction"] = arrow_direction(mechanism, arrow, level, about)
            found["resultant_length"] = arrow_length(mechanism, arrow, level, about)
        found["circular_variance"] = circular_variance(found["resultant_length"])
        if (bands or also) and origin is None:
            origin = opposite(found["direction"], mechanism.domain.length)
    else:
        found["mean"] = _mean(surveys, parts, level)
        spread = strata_spread(surveys, parts, level=level)
        if spread is not None:
            found["variance"], found["standard_deviation"] = spread
    found = noted(found, caps_note(unsaid_reports(reports_per_device, (task, epochs))))
    bounds = _strata_bounds(surveys, parts)
    whole = _Whole(mechanism, fewest.few, probabilities, bounds)
    names = ", ".join(f"{name} {part:.4g}" for name, part in zip(strata, parts, strict=True))
    fits = [each.fit for each in surveys]
    fitted = EMFit(
        probabilities,
        sum(fit.log_likelihood for fit in fits),
        sum(fit.gap for fit in fits),
        max(fit.iterations for fit in fits),
    )
    shares: FloatArray = parts @ np.array([each.counts / each.n for each in surveys])
    # The number of devices of a single sample with the same precision.
    devices = 1.0 / float(sum(part**2 / each.devices for part, each in zip(parts, surveys, strict=True)))
    result = Estimate(
        task=" + ".join(strata),
        task_id=task.id,
        n=int(sum(each.reports for each in surveys)),
        devices=devices_of(surveys),
        epsilon=task.epsilon,
        level=level,
        target=f"the population of which these parts are strata: {names}",
        domain=task.domain,
        unit=task.unit,
        delta=reported_delta(mechanism),
        distribution=histogram(
            mechanism,
            fitted,
            count_modes(mechanism, shares, devices, probabilities),
            method="fits to the strata, times their weights",
        ),
        **by_shares(whole, level, between, bands=bands, origin=origin, also=also),
        **found,
    )
    return wrapped(told_if_wide(result, task), task)


def _strata_bounds(strata: Sequence[Survey], weights: FloatArray) -> Strata:
    """Return bounds of shares of the population that the strata make up.

    Strata with equal counts are split differently, and the weights of a stratum are also learned on some
    reports of the other strata. Otherwise the errors from an unlucky split, or from a fit to a few reports,
    would add up over many strata.
    """
    splits = np.array([thin(each.whole, 2, draw=k) for k, each in enumerate(strata)])
    pooled = splits.sum(axis=0)
    sizes = np.maximum(pooled.sum(axis=1, keepdims=True), 1.0)
    others = pooled * np.minimum(_LEARNED / sizes, 1.0)
    each = [
        Bounds(
            stratum.mechanism,
            stratum.whole,
            parts=split,
            others=others,
            reports_per_device=stratum.repeats,
        )
        for stratum, split in zip(strata, splits, strict=True)
    ]
    return Strata(each, weights.tolist())


_LEARNED = 100.0
"""Most reports, pooled over all strata, that are added when the weights of a stratum are learned."""


class _Whole(NamedTuple):
    """The population that the strata make up, as a `Profile`; `few` is the note on the smallest stratum."""

    mechanism: Mechanism
    few: str
    probabilities: FloatArray
    bounds: Strata


def _checked(
    task: Task, strata: Mapping[str, ArrayLike], weights: Mapping[str, float], **repeated: Any
) -> tuple[list[Survey], FloatArray]:
    """Return the strata's surveys and their shares of the population, which sum to 1."""
    for name, given in (("strata", strata), ("weights", weights)):
        if not isinstance(given, Mapping):
            raise ParameterError(f"{name} must be a mapping from names of strata, got {shown(given)}")
    if not strata or set(strata) != set(weights):
        raise ParameterError(
            f"strata and weights must have the same names, at least one, got {sorted(strata)} and "
            f"{sorted(weights)}"
        )
    surveys, parts = [], []
    for name, numbers in strata.items():
        words = f"counts of the stratum {name!r}"
        survey = Survey.of(task, numbers, name=words, **repeated)
        check_enough(words, survey)
        weight = as_float(weights[name])
        if weight is None or not 0.0 < weight < math.inf:
            raise ParameterError(
                f"weights must be positive and finite numbers, got {shown(weights[name])} for {name!r}"
            )
        surveys.append(survey)
        parts.append(weight)
    whole = np.array(parts) / max(parts)
    return surveys, whole / whole.sum()


def _mean(strata: Sequence[Survey], parts: FloatArray, level: float) -> Value:
    """Return the mean of the population, or the range of means that the strata allow."""
    each = [mean(stratum, level=level) for stratum in strata]
    lows = np.array([value.low for value in each], np.float64)
    highs = np.array([value.high for value in each], np.float64)
    few = min(strata, key=lambda each: each.devices).few
    points = [value.value for value in each if value.value is not None]
    if len(points) < len(each):
        notes = all_notes(few, "the mean of a stratum is a range, so no single mean can be estimated")
        return Value(
            None,
            float(parts @ lows),
            float(parts @ highs),
            "range of possible means: the strata's ranges, added up",
            notes,
        )
    numbers = [mean_numbers(stratum.mechanism, stratum.n).values for stratum in strata]
    value = float(parts @ points)
    domain = strata[0].mechanism.domain
    samples = list(zip(strata, parts.tolist(), numbers, strict=True))
    below, above = (
        domain.length * strata_reach(strata, parts, [sign * each for each in numbers], level)
        for sign in (-1.0, 1.0)
    )
    return Value(
        value,
        value - below,
        value + above,
        f"strata's means times their weights, errors of all reports together; {each[0].method}",
        all_notes(outside_note(domain, samples, value - below, value + above), few),
    )


def _arrow(strata: Sequence[Survey], parts: FloatArray) -> Arrow:
    """Return an estimate of the population's first trigonometric moment from the strata."""
    arrows = [arrow_of(each) for each in strata]
    mechanism = strata[0].mechanism

    def reach(angle: float, level: float) -> float:
        return strata_reach(strata, parts, [component(mechanism, angle)] * len(strata), level)

    moments = np.array([each.moment.z for each in arrows])
    covariances = np.array([each.moment.covariance for each in arrows])
    moment = Moment(parts @ moments, np.tensordot(parts**2, covariances, axes=1))
    return Arrow(
        moment, min(each.devices for each in arrows), reach, list(zip(strata, parts.tolist(), strict=True))
    )
