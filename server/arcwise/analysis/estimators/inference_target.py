"""The target of an estimate: the population from which devices were drawn, or these devices alone.

Reports vary because devices differ and because each device is random. An interval for the population includes
both kinds of variation. An interval for the values behind these very reports includes only the second kind,
so it is narrower. The variances differ by ``Var(x)/n`` for a mean of x: this is little at a small epsilon,
and most of the variance at a large epsilon.

If devices draw k of the d tasks of a group, "users" are all devices of the group. Those that report a task
are a simple random sample of them, with the share s = k/d. The part due to the values is ``(1-s) Var(x)/n``,
by the finite population correction. So a variance is a mixture: the variance for these reports alone has the
weight s, and the variance for the population has the weight 1 - s.

Few reports require a note, and Student's and Hotelling's quantiles instead of the normal and the chi-square
ones. From a thousand reports on, the quantiles agree to three digits.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from arcwise.analysis.likelihood.linear_maps import node_means, rows_of
from arcwise.checks import real_or_nan
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from arcwise.kernels.base import Kernel
    from arcwise.typing import FloatArray

FEW = 30

NO_POPULATION = "no population is likely to produce these counts: they may be manipulated, or of another task"

T = TypeVar("T", float, "FloatArray")

Target: TypeAlias = Literal["population", "users"]

_NOT_THEIRS = (
    "not the population they were drawn from; intervals of the distribution, quantiles, shares and mode are "
    "the population's"
)
TARGETS = {
    "population": "the population that the reporting devices were drawn from",
    "users": f"the values behind these reports, {_NOT_THEIRS}",
}
"""Descriptions of the targets, by name."""


def check_target(target: str) -> None:
    """Raise `ParameterError` unless the target is a name in `TARGETS`."""
    if target not in TARGETS:
        known = " or ".join(f'"{name}"' for name in TARGETS)
        raise ParameterError(f"target must be {known}, got {target!r}")


def check_level(level: float) -> None:
    """Raise `ParameterError` unless the level is from 0.5 to 0.9999."""
    if not 0.5 <= real_or_nan(level) <= 0.9999:
        raise ParameterError(f"level must be from 0.5 to 0.9999, got {level!r}")


def check_sampled(sampled: object) -> float:
    """Return the share of the devices that was drawn, or raise `ParameterError`."""
    share = real_or_nan(sampled)
    if not 0 < share <= 1:
        raise ParameterError(f"sampled must be a share above 0 and up to 1, got {sampled!r}")
    return share


def two_sided(level: float, reports: float) -> float:
    """Return Student's quantile with ``reports - 1`` degrees of freedom, for a two-sided interval.

    With infinitely many reports it is the normal quantile; at least 2 reports are required.
    """
    tail = 0.5 + level / 2
    if math.isinf(reports):
        return NormalDist().inv_cdf(tail)
    from scipy.special import stdtrit

    return float(stdtrit(reports - 1.0, tail))


def hotelling(level: float, reports: float) -> float:
    """Return the quantile of ``Z V^-1 Z`` for an average Z of two numbers with mean zero.

    It is ``2 (n-1)/(n-2)`` times the F quantile with 2 and n - 2 degrees of freedom, which has a closed form:
    F exceeds x with probability ``(1 + 2 x/(n-2))^(-(n-2)/2)``. With infinitely many reports it is the
    chi-square quantile ``-2 log(1 - level)``. At least 3 reports are required.
    """
    chi_square = -2 * math.log1p(-level)
    return chi_square if math.isinf(reports) else (reports - 1) * math.expm1(chi_square / (reports - 2))


def few_note(number: float, of: str = "reports") -> str:
    """Return the note on fewer than 30 reports or devices; "" if there are enough."""
    return f"few {of}: with fewer than {FEW} the interval's level is rough" if number < FEW else ""


def target_words(target: Target, sampled: float = 1.0) -> str:
    """Return the target in words, with the share of the devices that was drawn to report."""
    if target == "population" or sampled == 1.0:
        return TARGETS[target]
    return f"the values of all devices of the group, of which {sampled:.4g} drew this task, {_NOT_THEIRS}"


class Users(NamedTuple):
    """The users to whom an interval refers, instead of the population from which they were drawn.

    Their fitted node distribution `law`, shape (N,), only weights the variances of the rows. `sampled` is the
    share of them that was drawn to report: 1 if all were.
    """

    law: FloatArray
    sampled: float = 1.0

    def mixed(self, devices: T, reports: T) -> T:
        """Return an average's variance, given that of the devices' randomness and that of the reports."""
        return self.sampled * devices + (1.0 - self.sampled) * reports


def whose(users: Users | None) -> str:
    """Return the note on the target of an interval."""
    if users is None:
        return "of the population, not only of the devices that reported"
    if users.sampled < 1.0:
        return "of the group's devices, also those that drew other tasks, not of their population"
    return "of the devices that reported, not of the population they were drawn from"


def source_of_error(users: Users | None) -> str:
    """Return the name of the interval and of its sources of error, for the method of a result."""
    if users is None:
        return "empirical likelihood interval"
    devices = "interval of the devices' randomness"
    return devices if users.sampled == 1.0 else f"{devices} and the sampling of devices"


def device_variance(kernel: Kernel, values: FloatArray, law: FloatArray) -> float:
    """Return the variance of a number per code due to the devices' randomness, averaged over the users.

    The users' fitted node distribution `law`, shape (N,), only weights the variances of the rows, so its
    smoothing changes the result little.

    For an input at a node it is the variance of that node's row. For an input between two nodes, at the part
    t of the way, random rounding adds ``t (1-t)`` times the squared difference of the two rows' means. This
    is at most a quarter of the squared difference, and this maximum is added.
    """
    centred = values - values.mean()  # a large common part would cancel below and leave only rounding errors
    means = node_means(kernel, centred)
    variances = node_means(kernel, centred**2) - means**2
    return float(law @ (np.maximum(variances, 0.0) + _rounding(means)))


def device_reach(
    kernel: Kernel, values: FloatArray, law: FloatArray, reports: float, quantile: float
) -> float:
    """Return how far above its expectation the devices' randomness may put the average of a number per code.

    The users' fitted node distribution `law`, shape (N,), only weights the rows. `quantile` is the number of
    standard errors for a normal law.

    At a large epsilon only few reports differ from their value, but they differ much, so the average is not
    normal. Its law is known. Let C be the mean over the users of the cumulant generating functions of
    ``v - E v``, with v the number of a report. The signed root of ``2 n (t C'(t) - C(t))`` at the distance
    ``C'(t)`` is nearly normal for n reports (large deviations). A correction (`_SKEWNESS`) allows for the
    effect of the tilted law's skewness on rare reports.
    """
    means = node_means(kernel, values)
    rounding = float(law @ _rounding(means))
    rows = rows_of(kernel, 4)
    scaled = values - values.max()

    def tilted(t: float) -> tuple[float, float]:
        """Return the distance and the signed root."""
        weights = np.exp(t * scaled)
        for power in range(4):
            rows.residual[power] = rows.scale * (weights * scaled**power)
        rows.backward()
        total, first, second, third = rows.gradient
        first, second, third = first / total, second / total, third / total
        logarithms = np.log(total) - t * (means - values.max())
        away = first - (means - values.max())
        variance = float(law @ (second - first**2)) + rounding
        skew = max(float(law @ (third - 3 * first * second + 2 * first**3)), 0.0)
        distance = float(law @ away) + t * rounding
        rate = t * distance - float(law @ logarithms) - t * t * rounding / 2
        skewness = skew**2 / variance**3 / reports if variance > 0.0 else 0.0
        return distance, math.sqrt(max(2 * reports * rate, 0.0) / (1.0 + _SKEWNESS * skewness))

    variance = device_variance(kernel, values, law)
    if not variance > 0.0:
        return 0.0
    most = _FURTHEST / -float(scaled.min())
    low, high = 0.0, min(quantile / math.sqrt(reports * variance), most)
    while (root := tilted(high)[1]) < quantile and high < most:
        low, high = high, min(2 * high, most)
    # With 10^15 reports, rounding errors may exceed the root at `low`. The normal law is right for these.
    if root > quantile > tilted(low)[1]:
        from scipy.optimize import brentq

        high = float(brentq(lambda t: tilted(t)[1] - quantile, low, high, xtol=1e-300, rtol=1e-7))
    return max(tilted(high)[0], 0.0)


_SKEWNESS = 0.4
"""As `empirical.SKEWNESS`, for a known law: with it, an interval from rare reports misses 3 % on a side."""

_FURTHEST = 600.0
"""Largest difference of logarithms of weights: exp(-600) is a float, and such weights leave only one code."""


def _rounding(means: FloatArray) -> FloatArray:
    """Return the largest variance that rounding can add at each node, given the means of the rows."""
    steps = np.diff(means) ** 2
    return np.asarray(np.maximum(np.append(steps, 0.0), np.append(0.0, steps)) / 4)
