"""The exact standard error of a mean, from the variance of the number that a report stands for.

The estimate is the average of one number v per code (`arcwise.analysis.estimators.unbiasing`). So its
standard error is ``sqrt(Var v / n)`` at every n, with the variance summed over the integer rows. With P the
kernel's rows as probabilities, let ``a = P v`` and ``b = P v^2`` be the first two moments of the number from
each node. Then for a law f of the nodes,

    Var v = f b - (f a)^2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.estimators.inference_target import two_sided
from arcwise.analysis.estimators.unbiasing import mean_numbers
from arcwise.analysis.likelihood.linear_maps import node_means
from arcwise.analysis.planning.curve import MAX_REPORTS, Curve, fewest_reports
from arcwise.analysis.simulate import node_law
from arcwise.errors import ParameterError
from arcwise.kernels.window import WindowKernel

if TYPE_CHECKING:
    from arcwise.analysis.simulate import Population
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray

_PANELS = 1 << 14
"""Steps of the sum for a second moment. The error of the sum is at most a twelfth of their squared width."""


class MeanCurve(Curve):
    """The standard error of the mean with one mechanism on an `Interval`.

    The error is for one population, or for the average of the variances of several. Without a population, it
    is for the worst of all populations. With the target "users" it is the error of the mean of those who
    report, without the sampling error. Raises `ParameterError` if no number of reports determines the mean
    without a bias. `variance` is the variance of the number that one report stands for, in squares of the
    range.
    """

    def __init__(
        self, mechanism: Mechanism, population: Population | tuple[Population, ...] | None, target: str
    ) -> None:
        self._mechanism = mechanism
        first, second = number_moments(mechanism)
        if population is None:
            self.variance = worst_variance(first, second, target, rounds=mechanism.rounds)
            return
        members = population if isinstance(population, tuple) else (population,)
        variances = []
        for member in members:
            law = node_law(mechanism, member)
            # Between nodes the expected number is the value itself, so the values contribute the variance
            # that they have.
            if target == "population":
                between = float(law @ first) ** 2
            else:
                between = _square(member) if mechanism.rounds else float(law @ first**2)
            variances.append(float(law @ second) - between)
        self.variance = sum(variances) / len(variances)

    def error(self, reports: int) -> float:
        """Return the standard error, in shares of the range."""
        return math.sqrt(self.variance / reports) if self._told(reports) else math.inf

    def reports(self, error: float) -> int | None:
        """Return the smallest number of reports with a standard error of at most `error`."""
        if self.variance * (1.0 - 1e-12) > MAX_REPORTS * error**2:  # the error squared may be 0
            return None
        needed = max(1, math.ceil(self.variance / error**2 * (1.0 - 1e-12))) if self.variance else 1
        if self._told(needed):
            return needed
        # As reports increase, the estimate changes from biased to unbiased numbers only once.
        return fewest_reports(self._told, more_than=needed)

    def half_width(self, reports: int, level: float) -> float | None:
        """Return the half-width of Student's t interval."""
        return two_sided(level, reports) * self.error(reports) if reports > 1 else None

    def _told(self, reports: int) -> bool:
        """Return whether the estimate from this many reports is a mean instead of a range of means."""
        return self._mechanism.unbiased or not mean_numbers(self._mechanism, reports).bias


def number_moments(mechanism: Mechanism) -> tuple[FloatArray, FloatArray]:
    """Return the first two moments, about 1/2, of the number that a report from each node stands for.

    Both have the shape (N,) and are on the unit interval. Raises `ParameterError` if no numbers per code are
    unbiased.
    """
    if mechanism.end_zones and isinstance(mechanism.kernel, WindowKernel):
        raise ParameterError(
            "values near an end give the same reports: they determine a range of means, not a mean"
        )
    numbers = mean_numbers(mechanism, math.inf)
    if numbers.bias:
        raise ParameterError(
            "no numbers per code are unbiased: the reports determine a range of means, not a mean"
        )
    centred = numbers.values - 0.5
    return node_means(mechanism.kernel, centred), node_means(mechanism.kernel, centred**2)


def worst_variance(first: FloatArray, second: FloatArray, target: str, *, rounds: bool = True) -> float:
    """Return the largest variance of a report's number over all populations.

    `first` and `second` are the moments a and b that `number_moments` returns, and f is a law of the nodes.
    With `rounds`, a value may be between two nodes.

    With the target "population", the result is the variance over values and randomness together. Among
    populations with mean m, this variance is largest where ``f b`` is largest. The largest ``f b`` is the
    height at m of the upper hull of the points (a_s, b_s). The height minus m^2 is a concave parabola over
    every edge of the hull. With the target "users", the result is the largest variance for one value. Between
    neighbouring nodes, this variance is the same parabola. Both maxima are exact: every population is a law
    of the nodes after rounding, and every law of the nodes is a population.
    """
    if target == "population":
        first, second = _upper_hull(first, second)
    if len(first) == 1 or (target == "users" and not rounds):
        return float((second - first**2).max())
    start, step, rise = first[:-1], np.diff(first), np.diff(second)
    share = np.clip((rise - 2.0 * start * step) / (2.0 * step**2), 0.0, 1.0)
    peaks = second[:-1] + share * rise - (start + share * step) ** 2
    return float(peaks.max())


def _upper_hull(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the corners of the least concave function above points in order of x (Andrew 1979)."""
    corners: list[int] = []
    for point in np.lexsort((y, x)).tolist():
        while corners and (
            x[corners[-1]] == x[point]
            or (
                len(corners) > 1
                and (y[corners[-1]] - y[corners[-2]]) * (x[point] - x[corners[-2]])
                <= (y[point] - y[corners[-2]]) * (x[corners[-1]] - x[corners[-2]])
            )
        ):
            corners.pop()
        corners.append(point)
    return x[corners], y[corners]


def _square(population: Population) -> float:
    """Return ``E (X - 1/2)^2`` from the integral G of the distribution function, integrating by parts twice.

    ``E X^2 = 1 - 2 G(1) + 2 (the integral of G over [0, 1])`` and ``E X = 1 - G(1)``.
    """
    integrated = population.integrated_cdf(np.linspace(0.0, 1.0, _PANELS + 1))
    area = (float(integrated.sum()) - float(integrated[0] + integrated[-1]) / 2) / _PANELS
    return 0.25 - float(integrated[-1]) + 2.0 * area
