"""The error of a mean direction, from the exact covariance of the first moment and a projected normal law.

Let m_k be the population's k-th trigonometric moment, and rho_k the factor by which the rows shrink it. Both
are complex; choose the frame such that m_1 = R is real. One report's share of
``Z = mean(e^(i code)) / rho_1`` has the mean R and

    Var(Re Z) = (A + Re C) / 2 - R^2,  Var(Im Z) = (A - Re C) / 2,  Cov = Im C / 2,
    A = 1 / |rho_1|^2,  C = m_2 rho_2 / rho_1^2.

With a large number n of reports, Z is normal, and its argument has a projected normal law. If the direction's
error is small, this gives the delta method, ``sqrt(Var(Im Z) / n) / R``. The law also holds if the error is
large.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from arcwise.analysis.estimators.direction import row_attenuation, turned
from arcwise.analysis.estimators.inference_target import hotelling, two_sided
from arcwise.analysis.planning.curve import MAX_REPORTS, Curve
from arcwise.analysis.simulate import node_law
from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from arcwise.analysis.simulate import Population
    from arcwise.mechanisms.circular import CircularMechanism

FEWEST = 5
"""The fewest reports from which `estimate` gives a direction."""

_LEAST_LENGTH = 1e-6
"""Resultant length below which a population has no meaningful direction."""


class _Case(NamedTuple):
    """The law of one report's share of Z: mean R, variances along and across the mean, covariance."""

    length: float
    along: float
    across: float
    slant: float


class DirectionCurve(Curve):
    """The root mean square error of the mean direction with one mechanism on a `Circle`.

    The error is for a `population` or, without one, for the worst population with the resultant length
    `length`. Raises `ParameterError` if the mechanism's reports show no direction, or if the population has
    no direction.

    Two kinds of populations with resultant length R are tried, and the larger error is taken. If rho_2 /
    rho_1^2 is positive, the variance across the mean is largest where ``E cos 2x`` is least. As
    ``E cos^2 x >= R^2``, these populations are two equally large groups, at the angles +-arccos R from the
    mean. If rho_2 / rho_1^2 is negative, the variance is largest where ``E cos 2x`` is largest. These
    populations are two opposite groups with the shares (1 +- R) / 2. Rounding to nodes multiplies R by a
    factor of at least ``cos(pi/K)``, and this least factor is used. On a lattice nothing is rounded. The two
    kinds then bound all populations on the lattice, even if they are not on the lattice themselves.
    """

    def __init__(self, mechanism: CircularMechanism, population: Population | None, length: float) -> None:
        codes = mechanism.kernel.codes
        first = row_attenuation(mechanism)
        if codes < 3 or abs(first) < 1e-9:
            raise ParameterError(
                "the reports of this mechanism show no direction: it must have at least 3 codes, and rows "
                "with a first moment other than 0, as the default of a circle has"
            )
        places = mechanism.code_units() - float(mechanism.node_units(np.zeros(1))[0])
        (row,) = mechanism.kernel.probabilities([0])
        inflation = 1.0 / abs(first) ** 2
        factor = complex(row @ np.exp(4j * math.pi * places)) / first**2
        if population is not None:
            law = node_law(mechanism, population)
            nodes = np.arange(mechanism.kernel.nodes, dtype=np.float64)
            turns = np.exp(2j * math.pi * mechanism.node_units(nodes))
            moment = complex(law @ turns)
            if abs(moment) < _LEAST_LENGTH:
                raise ParameterError(
                    f"population must have a direction, got one with resultant length {abs(moment):.3g}"
                )
            seconds = [complex(law @ turns**2) / (moment / abs(moment)) ** 2]
            length = abs(moment)
        else:
            length *= math.cos(math.pi / codes) if mechanism.rounds else 1.0
            seconds = [complex(2.0 * length**2 - 1.0), 1.0 + 0j]
        self._mechanism = mechanism
        self._cases = [_case(length, inflation, second * factor) for second in seconds]

    def error(self, reports: int) -> float:
        """Return the root mean square error, in turns; infinite with fewer than 5 reports."""
        if reports < FEWEST:
            return math.inf
        return max(_error(case, float(reports)) for case in self._cases)

    def reports(self, error: float) -> int | None:
        """Return the smallest number of reports with an error of at most `error`, in turns."""
        if self.error(FEWEST) <= error:
            return FEWEST
        if self.error(MAX_REPORTS) > error:
            return None

        def excess(log_reports: float) -> float:
            return math.log(max(_error(case, math.exp(log_reports)) for case in self._cases) / error)

        found = math.exp(brentq(excess, math.log(FEWEST), math.log(MAX_REPORTS), xtol=1e-12, rtol=1e-13))
        return max(FEWEST, math.ceil(found * (1.0 + 1e-9)))  # a margin for the root's own error

    def half_width(self, reports: int, level: float) -> float | None:
        """Return the half-width of Fieller's interval around the true direction, in turns: at most half.

        The half-width's tangent has the square ``t^2 V_across / (R^2 - t^2 V_along)``. Here t is the
        two-sided quantile, and V are the variances of the mean moment, along the mean and across it. The
        interval is the whole circle if R is not significant. The half-width includes the largest turn that
        rounding to nodes can cause.
        """
        if reports < FEWEST:
            return None
        t2 = two_sided(level, reports) ** 2 / reports
        widest = 0.0
        for case in self._cases:
            square = case.length**2
            # Hotelling's statistic of the mean moment: if it is below its quantile, the estimate has no
            # direction.
            if square <= hotelling(level, reports) / reports * case.along or square <= t2 * case.along:
                return 0.5
            rounding = turned(self._mechanism, case.length - math.sqrt(t2 * case.along))
            if rounding >= case.length:
                return 0.5
            fieller = math.atan(math.sqrt(t2 * case.across / (square - t2 * case.along)))
            widest = max(widest, min(fieller + math.asin(rounding / case.length), math.pi))
        return widest / (2 * math.pi)


def _case(length: float, inflation: float, second: complex) -> _Case:
    along = max((inflation + second.real) / 2 - length**2, 0.0)
    return _Case(length, along, max((inflation - second.real) / 2, 0.0), second.imag / 2)


def _error(case: _Case, reports: float) -> float:
    return rms_angle(case.length, case.along / reports, case.across / reports, case.slant / reports)


def rms_angle(length: float, along: float, across: float, slant: float = 0.0) -> float:
    """Return the root mean square of the argument of a normal point in the plane, in turns.

    The point has the mean (length, 0), the positive variances `along` and `across` the direction of the mean,
    and the covariance `slant`.

    The density of the argument is the projected normal density (Mardia and Jupp 2000). With
    ``u = (cos, sin)``, S the covariance matrix, ``a = u S^-1 u``, ``d = u S^-1 mean / sqrt(a)`` and
    ``c = mean S^-1 mean``,

        f = exp(-c/2) / (2 pi a sqrt(det S)) (1 + d N(d) / n(d)),  n, N the standard normal density and law.
    """
    deviation = math.sqrt(across)
    reach = deviation / length
    # Use fine steps within 12 deviations of the peak, and coarse ones around the circle.
    fine = np.linspace(-1.0, 1.0, 4_001) * min(12.0 * reach, math.pi)
    angles = np.union1d(fine, np.linspace(-math.pi, math.pi, 2_001))
    determinant = along * across - slant**2
    cosine, sine = np.cos(angles), np.sin(angles)
    # Along and across, S^-1 is [[across, -slant], [-slant, along]] / determinant.
    a = (across * cosine**2 - 2.0 * slant * cosine * sine + along * sine**2) / determinant
    d = length * (across * cosine - slant * sine) / (determinant * np.sqrt(a))
    c = length**2 * across / determinant
    # Compute c - d^2 as one term: the difference of two huge terms would be only rounding errors.
    peak = np.exp(-0.5 * (length * sine) ** 2 / (determinant * a))
    density = (math.exp(-0.5 * c) + math.sqrt(2.0 * math.pi) * d * ndtr(d) * peak) / (
        2.0 * math.pi * a * math.sqrt(determinant)
    )
    squares = angles**2 * density
    steps = np.diff(angles)
    mass = float(((density[1:] + density[:-1]) * steps).sum()) / 2
    return math.sqrt(float(((squares[1:] + squares[:-1]) * steps).sum()) / 2 / mass) / (2.0 * math.pi)
