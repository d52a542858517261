"""The mean of an interval: unbiased where the reports tell it, a range of possible values for clamp.

Both are averages of one number per code, so their expectations are exact; no model of the population enters
them. The width of an interval for these users only takes a fitted distribution to average over.
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


_ALARM = 1e-4  # of honest surveys, in which a note may speak of manipulated counts: one of several


def mean(survey: Survey, *, level: float = 0.95) -> Value:
    """Return the mean of the population, or of these users, in the unit of the domain.

    The survey is on an `Interval`. For its users only, the estimate and its bounds for bias are the same; the
    error is that of the devices' randomness, and of the sampling where only some users were drawn.
    """
    mechanism, users, devices = survey.mechanism, survey.users, survey.devices
    kernel, domain = mechanism.kernel, mechanism.domain
    if mechanism.end_zones and isinstance(kernel, WindowKernel):
        return _clamp(survey, kernel, level)
    numbers = mean_numbers(mechanism, survey.n)
    # On the unit interval: neither a huge nor a tiny domain has a variance beyond the range of a float.
    quantile = two_sided(level, devices) if devices > 1 else math.inf
    unit, below, above = reaches(survey, numbers.values, quantile)
    if numbers.bias:
        low, high = unit - below - numbers.bias, unit + above + numbers.bias
        return _bounded(survey, low, high, numbers, all_notes(survey.few, whose(users)))
    method = f"{numbers.method}; {source_of_error(users)}"
    if devices < 2:
        # A mean lies in the domain; the single decoded report may lie far outside.
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
    """Return what to say of a mean's interval that leaves the domain, or "".

    The mean lies in the domain, so the part of the interval inside it covers as often as the whole. It is not
    cut, nor is the point: averages of cut estimates are biased.
    """
    first, last = to_domain(domain, 0.0), to_domain(domain, 1.0)
    if high < first or low > last:
        why = NO_POPULATION if impossible(samples, 1.0 if low > last else -1.0) else "chance explains it"
        return f"the whole interval lies outside the domain, where no mean is: {why}"
    if low < first or high > last:
        return (
            "the interval reaches outside the domain, where no mean is: the part inside holds the mean as "
            "often; it is not clipped, because averages of clipped estimates are biased"
        )
    return ""


Weighted: TypeAlias = "tuple[Survey, float, FloatArray]"
"""A sample, its weight in a sum, and a number per code."""


def impossible(samples: Sequence[Weighted], sign: float = 1.0, *, trials: int = 1) -> bool:
    """Return whether honest reports have so large a sum in 1 of 10,000 surveys at most, or for -1 so small.

    `trials` is the number of sums that might have been examined instead of this one. An interval at the level
    0.95 lies beyond what is possible in one survey of forty where the truth is at the end of what is
    possible, so its ends accuse nobody.

    Chernoff's bound holds for every number of reports and for every population: inputs are mixtures of nodes,
    so the largest ``E exp(t v)`` is that of a node. The bound holds for every t; a few are tried.
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
        """Return the logarithm of the bound."""
        total = 0.0
        for values, counts, weight in several:
            n, most = float(counts.sum()), float(values.max())
            largest = float(node_means(kernel, np.exp(t * weight / n * (values - most))).max())
            total += n * math.log(largest) + t * weight * (most - float(counts @ values) / n)
        return total

    return min(probability(about * 2.0**power) for power in range(-8, 5)) < math.log(_ALARM / trials)


def _bounded(survey: Survey, low: float, high: float, numbers: Numbers, notes: tuple[str, ...]) -> Value:
    """Return the range of means that numbers with a bias leave, within the domain."""
    domain, mine = survey.mechanism.domain, [(survey, 1.0, numbers.values)]
    outside = (low > 1.0 and impossible(mine)) or (high < 0.0 and impossible(mine, -1.0))
    notes = all_notes(
        NO_POPULATION if outside else "",
        "no numbers per code estimate the mean without a bias or a huge variance, "
        "so no single mean can be estimated",
        f"the bias of these is at most {numbers.bias * domain.length:.4g}, which the range takes in",
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

    The variance is the reports' own, but never below the smallest variance of one row: whatever the inputs,
    a report varies at least as much as the randomness of its own device makes it. This matters only when a
    handful of reports happen to agree. With `users` it is what the devices' randomness makes, at most that of
    the reports, and the part of these that sampling leaves. Where devices report again, see `survey`.
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

    The quantile is in standard errors; infinity, for a single report, reaches infinitely far.
    """
    value = float(survey.counts @ values) / survey.n
    if math.isinf(quantile):
        return value, math.inf, math.inf
    below, above = (reach(survey, side, quantile) for side in (-values, values))
    return value, below, above


def reach(survey: Survey, values: FloatArray, quantile: float) -> float:
    """Return how far above the average of `values` its expectation may lie.

    For a population by empirical likelihood (`empirical_reach`), with fewer than 30 reports at least as far
    as Student's interval. For users as far as the devices' randomness reaches, at most as far as for a
    population, and the part that sampling leaves. Where devices report again, a population's reach is that of
    their randomness and that of the devices (`survey`), added in squares.
    """
    users = survey.users
    population = empirical_reach(survey.mechanism.kernel, values, survey.counts, quantile).distance
    if survey.devices < FEW:
        population = max(population, quantile * average(survey, values)[1])
    return all_reach(survey, values, quantile, population, users)


def all_reach(
    survey: Survey, values: FloatArray, quantile: float, population: float, users: Users | None
) -> float:
    """Return the reach of an average, given that for a population whose devices report once."""
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
    """Return how far above the strata's averages, times their weights, the expectation may lie.

    `pooled_reach`, with Student's quantile for the degrees of freedom of Welch and Satterthwaite; with fewer
    than 30 reports of a stratum at least as far as by the errors of the averages.
    """
    # Of the devices, where they report again: as if each reported once.
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

    Nodes stand at equal distances from c to 1 - d (`node_units`; c = d = W / (2K), on a lattice whole steps).
    All x up to c give node 0 and all from 1 - d on the last node, so the reports determine the mean X of the
    values moved into [c, 1-d], and not where in the end zones people are. With f_0 and f_last the
    probabilities of the end nodes,

        X - c f_0  <=  mean  <=  X + d f_last.

    Each term has an unbiased number per code. X: the mean code of node s is ``a + m s`` (see `mean_code`), so
    ``c + h (code - a)/m``, h the distance of two nodes. f_0 and f_last: `end_units`.
    """
    intercept, slope = mean_code(kernel)
    c, next_to_it, end = mechanism.node_units(np.array([0.0, 1.0, kernel.nodes - 1.0])).tolist()
    middle = c + (next_to_it - c) * ((np.arange(kernel.codes) - intercept) / slope)
    first, last = end_units(kernel)
    return middle - c * first, middle + (1.0 - end) * last


def end_units(kernel: WindowKernel) -> tuple[FloatArray, FloatArray]:
    """Return the numbers per code whose averages are the probabilities of the first and of the last node.

    Code 0 lies in node 0's window only, so it has probability ``base_0 + g f_0``, and
    ``(1[code = 0] - base_0) / g`` is a number for f_0; the last code likewise.
    """
    first = np.full(kernel.codes, -(kernel.background + (kernel.leftover > 0)) / kernel.extra)
    first[0] += UNIT / kernel.extra
    last = np.full(kernel.codes, -kernel.background / kernel.extra)  # no leftover reaches the last code
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
        # In a population low exceeds high by no more than its error: the ends' masses are not negative.
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
