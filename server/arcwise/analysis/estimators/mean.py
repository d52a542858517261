"""The mean on an interval: unbiased where the reports determine it, otherwise a range of possible values.

Both are averages of one number per code, so their expectations are exact; no model of the population is used.
A fitted distribution is needed only for the width of intervals for the users who reported.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from arcwise.analysis.estimators.empirical import empirical_reach, pooled_reach
from arcwise.analysis.estimators.inference_target import (
    FEW,
    NO_POPULATION,
    device_reach,
    device_variance,
    source_of_error,
    two_sided,
    whose,
)
from arcwise.analysis.estimators.result import Value, all_notes
from arcwise.analysis.estimators.survey import between_devices, devices_reach
from arcwise.analysis.estimators.unbiasing import Numbers, mean_numbers
from arcwise.analysis.grid import to_domain
from arcwise.analysis.likelihood.linear_maps import node_means
from arcwise.kernels.certificate import UNIT
from arcwise.kernels.window import WindowKernel
from arcwise.mechanisms.window import mean_code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.analysis.estimators.inference_target import Users
    from arcwise.analysis.estimators.survey import Survey
    from arcwise.domains import Domain
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray


_ALARM = 1e-4  # share of honest surveys in which some note may wrongly mention manipulated counts


def mean(survey: Survey, *, level: float = 0.95) -> Value:
    """Return the mean of the population, or of the users who reported, in the unit of the domain.

    The survey is on an `Interval`. For the users, the estimate and the bounds of its bias are the same as for
    the population. But the error is only that of the devices' randomness, plus that of sampling if only some
    users were drawn.
    """
    mechanism, users, devices = survey.mechanism, survey.users, survey.devices
    kernel, domain = mechanism.kernel, mechanism.domain
    if mechanism.end_zones and isinstance(kernel, WindowKernel):
        return _clamp(survey, kernel, level)
    numbers = mean_numbers(mechanism, survey.n)
    # On the unit interval, because the variance on a huge or tiny domain may exceed the range of a float.
    quantile = two_sided(level, devices) if devices > 1 else math.inf
    unit, below, above = reaches(survey, numbers.values, quantile)
    if numbers.bias:
        low, high = unit - below - numbers.bias, unit + above + numbers.bias
        return _bounded(survey, low, high, numbers, all_notes(survey.few, whose(users)))
    method = f"{numbers.method}; {source_of_error(users)}"
    if devices < 2:
        # A mean lies in the domain, but a single decoded report may lie far outside.
        low, high = to_domain(domain, min(unit, 0.0)), to_domain(domain, max(unit, 1.0))
        notes = all_notes(
            "one report does not show its variance: the interval is the domain and the report",
            survey.few,
            whose(users),
        )
        return Value(to_domain(domain, unit), low, high, method, notes)
    low, high = unit - below, unit + above
    low, high = to_domain(domain, low), to_domain(domain, high)
    notes = all_notes(
        outside_note(domain, [(survey, 1.0, numbers.values)], low, high), survey.few, whose(users)
    )
    return Value(to_domain(domain, unit), low, high, method, notes)


def outside_note(domain: Domain, samples: Sequence[Weighted], low: float, high: float) -> str:
    """Return the note on a mean's interval that extends beyond the domain, or "".

    The mean lies in the domain, so the part of the interval inside the domain covers the mean as often as the
    whole interval. Neither the interval nor the point is clipped: averages of clipped estimates are biased.
    """
    first, last = to_domain(domain, 0.0), to_domain(domain, 1.0)
    if high < first or low > last:
        why = NO_POPULATION if impossible(samples, 1.0 if low > last else -1.0) else "chance explains it"
        return f"the whole interval lies outside the domain, where the mean cannot be: {why}"
    if low < first or high > last:
        return (
            "the interval reaches outside the domain, where the mean cannot be: the part inside holds it as "
            "often; it is not clipped, because averages of clipped estimates are biased"
        )
    return ""


Weighted: TypeAlias = "tuple[Survey, float, FloatArray]"
"""A sample, its weight in a sum, and a number per code."""


def impossible(samples: Sequence[Weighted], sign: float = 1.0, *, trials: int = 1) -> bool:
    """Return whether honest reports have a sum this large in at most 1 of 10,000 surveys.

    With a `sign` of -1, "this large" means "this small". `trials` is the number of sums that might have been
    examined instead of this sum. An interval at the level 0.95 lies beyond the possible range in one survey
    of forty if the truth is at the end of that range. The ends of an interval are therefore no evidence of
    manipulation.

    Chernoff's bound holds for every number of reports and every population: inputs are mixtures of nodes, so
    the largest ``E exp(t v)``, with v the number of a report, is reached at a node. The bound holds for every
    t; a few values are tried.
    """
    kernel = samples[0][0].mechanism.kernel
    several = [(sign * numbers, survey.counts, weight) for survey, weight, numbers in samples]
    above, variance = 0.0, 0.0
    for values, counts, weight in several:
        n = float(counts.sum())
        value = float(counts @ values) / n
        above += weight * (value - float(node_means(kernel, values).max()))
        variance += weight**2 * float(counts @ (values - value) ** 2) / n**2
    if not above > 0.0:
        return False
    about = above / (variance + above**2 / 100)

    def probability(t: float) -> float:
        """Return the logarithm of Chernoff's bound."""
        total = 0.0
        for values, counts, weight in several:
            n, most = float(counts.sum()), float(values.max())
            largest = float(node_means(kernel, np.exp(t * weight / n * (values - most))).max())
            total += n * math.log(largest) + t * weight * (most - float(counts @ values) / n)
        return total

    return min(probability(about * 2.0**power) for power in range(-8, 5)) < math.log(_ALARM / trials)


def _bounded(survey: Survey, low: float, high: float, numbers: Numbers, notes: tuple[str, ...]) -> Value:
    """Return the range of means that biased numbers allow, within the domain."""
    domain, mine = survey.mechanism.domain, [(survey, 1.0, numbers.values)]
    outside = (low > 1.0 and impossible(mine)) or (high < 0.0 and impossible(mine, -1.0))
    notes = all_notes(
        NO_POPULATION if outside else "",
        "no numbers per code estimate the mean without a bias or a huge variance, "
        "so no single mean can be estimated",
        f"the bias of these is at most {numbers.bias * domain.length:.4g}, which the range includes",
        notes,
    )
    return Value(
        None,
        to_domain(domain, min(max(low, 0.0), 1.0)),
        to_domain(domain, min(max(high, 0.0), 1.0)),
        f"range of possible means: {numbers.method}, widened by the bias and the error",
        notes,
    )


def average(survey: Survey, values: FloatArray, users: Users | None = None) -> tuple[float, float]:
    """Return the average of `values` over the reports and its standard error.

    The variance is that of the reports, but never below the smallest variance of one row: for any inputs, a
    report varies at least by the randomness of its own device. This matters only when a few reports happen to
    agree. With `users` the variance is that of the devices' randomness, at most that of the reports, plus the
    part of the reports' variance due to sampling. For devices that report several times, see `survey`.
    """
    kernel, counts, n = survey.mechanism.kernel, survey.counts, survey.n
    value = float(counts @ values) / n
    centred = values - value
    sample = float(counts @ centred**2) / max(n - 1.0, 1.0)
    rows = node_means(kernel, centred**2) - node_means(kernel, centred) ** 2
    variance = max(sample, float(rows.min()))
    if survey.repeats > 1.0:
        between = between_devices(kernel, values, counts, survey.probabilities)
        variance += (survey.repeats - 1.0) * between.variance
    if users is not None:
        variance = users.mixed(min(variance, device_variance(kernel, centred, users.law)), variance)
    return value, math.sqrt(variance / n)


def reaches(survey: Survey, values: FloatArray, quantile: float) -> tuple[float, float, float]:
    """Return the average of `values` over the reports, and how far below and above its expectation may lie.

    The quantile is in standard errors; it is infinite for a single report, and so are the reaches.
    """
    value = float(survey.counts @ values) / survey.n
    if math.isinf(quantile):
        return value, math.inf, math.inf
    below, above = (reach(survey, side, quantile) for side in (-values, values))
    return value, below, above


def reach(survey: Survey, values: FloatArray, quantile: float) -> float:
    """Return how far above the average of `values` its expectation may lie.

    For a population this is the reach of empirical likelihood (`empirical_reach`); with fewer than 30
    reports, at least the reach of Student's interval. For users it combines the reach of the devices'
    randomness, which is at most the reach for a population, with the part due to sampling. If devices report
    several times, the reach for a population combines the reach of the devices' randomness and that of the
    devices' values (`survey`), as a root of summed squares.
    """
    users = survey.users
    population = empirical_reach(survey.mechanism.kernel, values, survey.counts, quantile).distance
    if survey.devices < FEW:
        population = max(population, quantile * average(survey, values)[1])
    return all_reach(survey, values, quantile, population, users)


def all_reach(
    survey: Survey, values: FloatArray, quantile: float, population: float, users: Users | None
) -> float:
    """Return the reach of an average, given the reach for a population in which each device reports once."""
    kernel, counts, n = survey.mechanism.kernel, survey.counts, survey.n
    if users is None and survey.repeats == 1.0:
        return population
    devices = device_reach(kernel, -values, survey.probabilities, n, quantile)
    if survey.repeats > 1.0:
        between = between_devices(kernel, values, counts, survey.probabilities)
        population = max(population, math.hypot(devices, devices_reach(between, survey.devices, quantile)))
    if users is None:
        return population
    return math.sqrt(users.mixed(min(devices, population) ** 2, population**2))


def strata_reach(
    strata: Sequence[Survey], weights: FloatArray, numbers: Sequence[FloatArray], level: float
) -> float:
    """Return how far above the strata's weighted averages the expectation may lie.

    This is `pooled_reach`, with Student's quantile for the degrees of freedom of Welch and Satterthwaite. If
    a stratum has fewer than 30 reports, the result is at least the reach that follows from the errors of the
    averages.
    """
    # If devices report several times, use counts per device, as if each device reported once.
    kernel, counts = strata[0].mechanism.kernel, [each.counts / each.repeats for each in strata]
    errors = [average(*pair)[1] for pair in zip(strata, numbers, strict=True)]
    squares, sizes = np.square(weights * errors), np.array([each.devices for each in strata])
    square = float(squares.sum())
    if not square:
        return 0.0
    quantile = two_sided(level, 1.0 + square**2 / float((squares**2 / (sizes - 1.0)).sum()))
    found = pooled_reach(kernel, list(zip(numbers, counts, weights.tolist(), strict=True)), quantile)
    return max(found, quantile * math.sqrt(square)) if sizes.min() < FEW else found


def clamp_units(mechanism: Mechanism, kernel: WindowKernel) -> tuple[FloatArray, FloatArray]:
    """Return the numbers per code whose averages bound the mean from below and above, on the unit interval.

    Nodes are equally spaced from c to 1 - d (`node_units`; c = d = W / (2K); on a lattice both are whole
    steps). Every x up to c is reported as node 0, and every x from 1 - d on as the last node. So the reports
    determine the mean X of the values moved into [c, 1-d], but not the positions of people within the end
    zones. With f_0 and f_last the probabilities of the end nodes,

        X - c f_0  <=  mean  <=  X + d f_last.

    For each term there are unbiased numbers per code. For X: the mean code of node s is ``a + m s`` (see
    `mean_code`), so the number is ``c + h (code - a)/m``, with h the distance between nodes. For f_0 and
    f_last see `end_units`.
    """
    intercept, slope = mean_code(kernel)
    c, next_to_it, end = mechanism.node_units(np.array([0.0, 1.0, kernel.nodes - 1.0])).tolist()
    middle = c + (next_to_it - c) * ((np.arange(kernel.codes) - intercept) / slope)
    first, last = end_units(kernel)
    return middle - c * first, middle + (1.0 - end) * last


def end_units(kernel: WindowKernel) -> tuple[FloatArray, FloatArray]:
    """Return the numbers per code whose averages are the probabilities of the first and of the last node.

    Let base_j be the probability of code j outside windows, and g the increase inside a window. Code 0 lies
    only in node 0's window, so its probability is ``base_0 + g f_0``, and ``(1[code = 0] - base_0) / g`` is
    an unbiased number for f_0. The same holds for the last code and f_last.
    """
    first = np.full(kernel.codes, -(kernel.background + (kernel.leftover > 0)) / kernel.extra)
    first[0] += UNIT / kernel.extra
    last = np.full(kernel.codes, -kernel.background / kernel.extra)  # leftover units go to the first codes
    last[-1] += UNIT / kernel.extra
    return first, last


def _clamp(survey: Survey, kernel: WindowKernel, level: float) -> Value:
    mechanism, domain, devices = survey.mechanism, survey.mechanism.domain, survey.devices
    zone = float(mechanism.node_units(np.zeros(1))[0]) * domain.length
    notes: tuple[str, ...] = (
        f"values within {zone:.4g} of an end give the same reports, so no single mean can be estimated",
        'a task with goal "distribution" gives one',
        whose(survey.users),
    )
    if devices < 2:
        low, high = 0.0, 1.0
        notes = ("one report does not show its variance: the range is the domain", *notes)
    else:
        lower, upper = clamp_units(mechanism, kernel)
        quantile = two_sided(level, devices)
        low, below, _ = reaches(survey, lower, quantile)
        high, _, above = reaches(survey, upper, quantile)
        low, high = low - below, high + above
        # In a population, low exceeds high at most by its error, because the ends' masses are not negative.
        each = (low > high, lower - upper), (low > 1.0, lower), (high < 0.0, -upper)
        if any(beyond and impossible([(survey, 1.0, numbers)]) for beyond, numbers in each):
            notes = (NO_POPULATION, *notes)
        low, high = (min(max(x, 0.0), 1.0) for x in (min(low, high), max(low, high)))
    return Value(
        None,
        to_domain(domain, low),
        to_domain(domain, high),
        "range of possible means: unbiased bounds, each widened by its error",
        all_notes(survey.few, notes),
    )
