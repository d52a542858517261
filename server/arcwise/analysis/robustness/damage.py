"""The damage that a share of lying devices can do to estimates undetected; nothing is fitted here.

A liar can claim another input and then randomise as usual. Then the reports are those of a possible
population, and no test can detect them (`false_inputs`). Or a liar can send codes of its choice. The fit test
detects many of these, and a linear program bounds the effect of codes that the test accepts. The program
covers estimates that are averages of numbers per code, or that follow from such averages.
"""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linprog

from arcwise.analysis.estimators.direction import row_attenuation
from arcwise.analysis.estimators.unbiasing import mean_numbers, moment_numbers
from arcwise.analysis.likelihood.maximum import largest_probabilities
from arcwise.analysis.robustness.false_inputs import circle_reach, interval_reach
from arcwise.errors import ParameterError
from arcwise.mechanisms.circular import CircularMechanism

if TYPE_CHECKING:
    from arcwise.kernels.base import Kernel
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray

_LARGEST = 1 << 18
"""Largest matrix for which the linear program is solved, which takes seconds."""

_DIRECTIONS = 12
"""Directions in which a circle's first moment is pushed; they also bound the directions in between."""

_LEAST_ATTENUATION = 1e-9

_TANGENTS = 3
"""Number of linear programs for the largest variance; each of them gives a bound."""


@dataclass(frozen=True)
class Damage:
    """The possible effect on one estimate of liars with a share of the reports."""

    share: float
    estimate: str
    """The name of the estimate: "mean", "variance", "standard deviation", "quantile 0.5" and so on.

    On a circle the names are "direction", "resultant length" and "circular variance". On both domains there
    are also "any share" (of the population, between any two values) and "distribution" (its Wasserstein-1
    distance).
    """
    value: float | None
    """The value of the fitted distribution, in the unit of the domain, or None if the reports do not show it.

    For "any share" and "distribution" it is 0, and the ranges are differences from the fitted distribution.
    """
    honest: tuple[float, float]
    """The range of the value for the honest devices, if this share of the reports are lies about the input.

    No test can narrow this range.
    """
    moved: tuple[float, float]
    """The range of estimates that the liars can cause by lying about their inputs.

    The fitted distribution is assumed to be that of the honest devices. A direction's numbers are unwrapped
    around it.
    """
    sending: float | None = None
    """A bound on how far codes of the liars' choice can move the estimate undetected; at least `lying`.

    The expected residuals of these codes are all below the test's threshold. None if no linear program bounds
    the estimate, or if the kernel is too large for one.
    """

    @property
    def lying(self) -> float | None:
        """The largest distance by which liars can move the estimate by lying about their inputs."""
        if self.value is None:
            return None
        return max(self.value - self.moved[0], self.moved[1] - self.value, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object with the attributes and `lying`."""
        spans = {"honest": list(self.honest), "moved": list(self.moved)}
        return {**asdict(self), **spans, "lying": self.lying}


def damage(
    mechanism: Mechanism, nodes: FloatArray, share: float, *, reports: float, critical: float
) -> tuple[Damage, ...]:
    """Return the possible effect of a share of liars on every estimate of an interval or a circle.

    All numbers are exact for the fitted distribution `nodes`, shape (N,), and differ from the population's
    numbers as much as the fit differs from the population. The share is more than 0 and less than 1.
    `critical` is the largest residual, in Pearson's units, that the test accepts. As a share of the reports,
    this residual becomes smaller with more reports.
    """
    if not 0 < share < 1:
        raise ParameterError(f"share must lie between 0 and 1, got {share!r}")
    kernel = mechanism.kernel
    liars = (
        Liars(kernel, nodes, share, reports, critical) if kernel.nodes * kernel.codes <= _LARGEST else None
    )
    if isinstance(mechanism, CircularMechanism):
        reach = circle_reach(mechanism, nodes, share)
        sending = {} if liars is None else _of_circle(mechanism, liars)
    else:
        reach = interval_reach(mechanism, nodes, share)
        sending = {} if liars is None else _of_interval(mechanism, liars)
    found = []
    for name, (value, honest, moved) in reach.items():
        each = Damage(share, name, value, honest, moved)
        bound = sending.get(name)
        if bound is not None and each.lying is not None:
            # Lies about inputs are a special case of chosen codes: rounding to cells or nodes, or by a
            # solver, must not make the bound on codes smaller than the effect of such lies.
            each = Damage(share, name, value, honest, moved, max(bound, each.lying))
        found.append(each)
    return tuple(found)


def _of_interval(mechanism: Mechanism, liars: Liars) -> dict[str, float]:
    """Return bounds on the effect of the liars' codes on each estimate, in the unit of the domain."""
    length = mechanism.domain.length
    if mechanism.end_zones:
        return {}
    numbers = mean_numbers(mechanism, liars.reports).values
    shift = max(liars.largest_shift(numbers), liars.largest_shift(-numbers))
    found = {"mean": min(length * shift, sys.float_info.max)}
    first, second = moment_numbers(mechanism, liars.reports)
    if first.bias or second.bias:
        return found
    low, here, high = _variances(liars, first.values, second.values)
    roots = math.sqrt(low), math.sqrt(here), math.sqrt(high)
    found["variance"] = min(max(here - low, high - here) * length * length, sys.float_info.max)
    found["standard deviation"] = length * max(roots[1] - roots[0], roots[2] - roots[1])
    return found


def _of_circle(mechanism: CircularMechanism, liars: Liars) -> dict[str, float]:
    """Return the same on a circle: the bounds follow from one on the first moment's shift in the plane."""
    factor = row_attenuation(mechanism)
    if mechanism.kernel.codes < 3 or abs(factor) < _LEAST_ATTENUATION:
        return {}
    turns = np.exp(2j * math.pi * mechanism.code_units()) / factor
    angles = 2 * math.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
    values = (turns * np.exp(-1j * angles)[:, None]).real
    # The direction of any shift is within half the spacing of one of these directions.
    shift = max(liars.largest_shift(row) for row in values) / math.cos(math.pi / _DIRECTIONS)
    positions = mechanism.node_units(np.arange(mechanism.kernel.nodes, dtype=np.float64))
    length = abs(complex(liars.nodes @ np.exp(2j * math.pi * positions)))
    turned = math.asin(shift / length) if shift < length else math.pi
    return {
        "direction": turned / (2 * math.pi) * mechanism.domain.period,
        "resultant length": shift,
        "circular variance": shift,
    }


def _variances(liars: Liars, first: FloatArray, second: FloatArray) -> tuple[float, float, float]:
    """Return a lower bound of the variance, the variance, and an upper bound, on the unit interval.

    ``Var = w.r - (v.r)^2`` with v and w the numbers for x and x^2, and r the law of all reports. A square is
    at least any tangent, ``(v.r)^2 >= 2 t v.r - t^2``. This gives an upper bound of the variance for every t.
    The bound is best if t is near v.r for the worst r. A square is at most the chord over the range [a, b] of
    v.r, ``(v.r)^2 <= (a + b) v.r - a b``. This gives the lower bound.
    """
    mean, square = float(first @ liars.law), float(second @ liars.law)
    here = square - mean**2
    t, high = mean, math.inf
    for _ in range(_TANGENTS):
        worst = liars.worst(second - 2 * t * first)
        high = min(high, float((second - 2 * t * first) @ worst) + t**2)
        t = float(first @ worst)
    a, b = mean - liars.largest_shift(-first), mean + liars.largest_shift(first)
    values = second - (a + b) * first
    low = float(values @ liars.law) - liars.largest_shift(-values) + a * b
    here = min(max(here, 0.0), 0.25)  # clipped like the estimate
    return min(max(low, 0.0), here), here, max(min(high, 0.25), here)


class Liars:
    """The linear programs of liars who send codes of their choice and remain undetected.

    Honest reports have the distribution ``q = nodes P``, with P the kernel's rows. With a share k of liars,
    all reports together have some distribution ``r >= (1-k) q``. The test accepts r only if a population f
    exists with residuals of at most z: ``n r_j <= n (f P)_j + z sqrt(n (f P)_j)``. The root is at most
    ``sqrt(n p_j)``, with p_j the code's largest probability, so the linear program

        maximise  values . (r - q)   over   r >= (1-k) q,  sum r = 1,  f on the simplex,
                                            r_j <= (f P)_j + z sqrt(p_j / n)

    bounds the effect of all codes that liars can send. With z = 0 the bound is exact for any number of
    reports: then it is the possible effect of reports that have a population's law.
    """

    def __init__(
        self, kernel: Kernel, nodes: FloatArray, share: float, reports: float, critical: float
    ) -> None:
        self.nodes, self.reports = nodes, reports
        self._rows, self._share = kernel.matrix(), share
        self.law: FloatArray = nodes @ self._rows
        self.law /= self.law.sum()
        self._slack = max(critical, 0.0) * np.sqrt(largest_probabilities(kernel) / reports)

    def largest_shift(self, values: FloatArray) -> float:
        """Return a bound on how far liars can raise the average of values per code over the reports."""
        return float(values @ (self.worst(values) - self.law))

    def worst(self, values: FloatArray) -> FloatArray:
        """Return the r that raises the average the most, shape (K,)."""
        n, k = self._rows.shape
        # The unknowns are the liars' codes l = r - (1-k) q and f. They are scaled by the share, so that the
        # solver's tolerances are small compared with the answer. All values may be 0, as those of x^2 - x on
        # a domain of two values.
        scale = np.abs(values).max() or 1.0
        solved = linprog(
            np.concatenate([-values / scale, np.zeros(n)]),
            A_ub=np.hstack([self._share * np.eye(k), -self._rows.T]),
            b_ub=self._slack - (1.0 - self._share) * self.law,
            A_eq=np.concatenate(
                [np.repeat([[1.0], [0.0]], k, axis=1), np.repeat([[0.0], [1.0]], n, axis=1)], axis=1
            ),
            b_eq=[1.0, 1.0],
            method="highs",
        )
        if solved.status != 0:
            raise ArithmeticError(f"the linear program of the liars was not solved: {solved.message}")
        worst: FloatArray = (1.0 - self._share) * self.law + self._share * solved.x[:k]
        return worst
