"""The staircase distribution: the optimal epsilon-DP noise on the line.

Two papers found it independently. Soria-Comas and Domingo-Ferrer ("Optimal data-independent noise for
differential privacy", Information Sciences 2013) use the half width d of the first step as the parameter.
Geng and Viswanath ("The optimal mechanism in differential privacy", arXiv 1212.1186) use
``gamma = d / sensitivity``. One class serves both. The functions return the best gamma for a purpose; this
gamma does not depend on the sensitivity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from arcwise.checks import checked_real
from arcwise.errors import ParameterError
from arcwise.noise.base import EndlessNoise, checked_epsilon, geometric_rvs
from arcwise.noise.expectation import Folded, checked_loss, even_part, integral
from arcwise.noise.series import lerch_sum

if TYPE_CHECKING:
    from arcwise.noise.expectation import Function, Values
    from arcwise.typing import FloatArray


@dataclass(frozen=True, slots=True)
class Staircase(EndlessNoise):
    """A density that falls by the factor e^-epsilon at ``(k + gamma) sensitivity``, k = 0, 1, 2, ...

    Parameters
    ----------
    epsilon
        More than 0, at most 50.
    sensitivity
        The largest change of the protected value, in its unit; positive.
    gamma
        The end of the first step, as a fraction of the sensitivity, from 0 to 1.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    With ``b = e^-epsilon``, ``D = gamma + b (1 - gamma)`` and z in units of the sensitivity, the density is
    ``b^k (1 - b) / (2 D sensitivity)`` for z from k to k + gamma, and b times as high for z from k + gamma to
    k + 1 (Geng and Viswanath, equations 37 and 38). By summation by parts

        E|X|^p = sensitivity^p (1 - b)^2 / ((p + 1) D) * sum_{k >= 0} b^k (k + gamma)^(p+1).

    Soria-Comas and Domingo-Ferrer print their Theorem 9 with an index i that starts at 0 in the outer steps.
    This would give the first outer step the same height as the centre. Their variance and their d are right:
    as in this class, the first outer step is e^-epsilon times as high as the centre.

    Examples
    --------
    >>> round(Staircase.optimal(1.0, power=2).var(), 4)
    1.9181
    """

    epsilon: float
    sensitivity: float
    gamma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))
        object.__setattr__(self, "sensitivity", checked_real("sensitivity", self.sensitivity, above=0))
        object.__setattr__(self, "gamma", checked_real("gamma", self.gamma, least=0, most=1.0))

    @classmethod
    def optimal(
        cls, epsilon: float, sensitivity: float = 1.0, *, power: float = 1.0, loss: Function | None = None
    ) -> Staircase:
        """Return the member with the least ``E|X|^power``, or the least expectation of any other loss.

        It is the best of *all* epsilon-DP additive noise (Geng and Viswanath, Theorem 3), for every symmetric
        loss that does not decrease with ``|x|`` and grows no faster than exponentially. ``power=2`` gives the
        least variance.

        Parameters
        ----------
        epsilon, sensitivity
            As in `Staircase`.
        power
            More than 0. The default, 1, minimises the mean of ``|X|``.
        loss
            The loss to minimise instead of a power: a function of an array, shape (n,), of sizes ``|x|`` in
            the noise's unit.

        Raises
        ------
        ParameterError
            When an argument is out of its bounds, both a power and a loss are given, or the loss decreases
            somewhere or grows too fast for an expectation.

        Examples
        --------
        >>> def huber(x):
        ...     return np.where(abs(x) < 1, x**2 / 2, abs(x) - 0.5)
        >>> best = Staircase.optimal(1.0, loss=huber)
        >>> best.expect(huber) < Staircase.optimal(1.0).expect(huber)
        True
        """
        if loss is None:
            return cls(epsilon, sensitivity, optimal_gamma(epsilon, power))
        sensitivity = checked_real("sensitivity", sensitivity, above=0)
        return cls(epsilon, sensitivity, _gamma_for_loss(epsilon, sensitivity, checked_loss(loss, power)))

    @classmethod
    def shortest_interval(cls, epsilon: float, sensitivity: float = 1.0, *, level: float = 0.95) -> Staircase:
        """Return the member with the shortest symmetric confidence interval of this level.

        Table 2 of Soria-Comas and Domingo-Ferrer truncates its sizes instead of rounding them: it prints
        11.97 for 11.978, and 5.98 for 5.987.
        """
        return cls(epsilon, sensitivity, interval_gamma(epsilon, level))

    @classmethod
    def heuristic(cls, epsilon: float, sensitivity: float = 1.0) -> Staircase:
        """Return the staircase with ``gamma = e^-epsilon / 2``, good for every loss at large epsilon."""
        return cls(epsilon, sensitivity, heuristic_gamma(epsilon))

    @classmethod
    def from_half_step(cls, epsilon: float, sensitivity: float, half_step: float) -> Staircase:
        """Return the staircase with its highest step from -d to d, in the unit of the sensitivity.

        Raises
        ------
        ParameterError
            When `half_step` is not from 0 to `sensitivity`.
        """
        sensitivity = checked_real("sensitivity", sensitivity, above=0)
        half_step = checked_real("half_step", half_step, least=0, most=sensitivity)
        return cls(epsilon, sensitivity, half_step / sensitivity)

    @property
    def half_step(self) -> float:
        """The d of Soria-Comas and Domingo-Ferrer; the highest step reaches from -d to d."""
        return self.gamma * self.sensitivity

    @property
    def peak(self) -> float:
        """The density of the highest step, the paper's M0: ``(1 - b) / (2 D sensitivity)``, per unit of x."""
        return -math.expm1(-self.epsilon) / (2.0 * self.sensitivity * self._spread)

    @property
    def _spread(self) -> float:
        """``D = gamma + b (1 - gamma)``."""
        return self.gamma + math.exp(-self.epsilon) * (1.0 - self.gamma)

    def entropy(self) -> float:
        """Return the differential entropy in nats: ``-log peak + epsilon E[number of steps down]``.

        The number of steps down is a geometric number, plus 1 in the lower part of a period.
        """
        b = math.exp(-self.epsilon)
        steps = b / -math.expm1(-self.epsilon) + b * (1.0 - self.gamma) / self._spread
        return self.epsilon * steps - math.log(self.peak)

    def _abs_pdf(self, z: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):
            periods = np.floor(z / self.sensitivity)
            steps = periods + (z / self.sensitivity - periods >= self.gamma)
        steps = np.where(np.isinf(z), np.inf, steps)
        return self.peak * np.exp(-self.epsilon * steps)

    def _abs_sf(self, z: FloatArray) -> FloatArray:
        b, above, scaled = math.exp(-self.epsilon), -math.expm1(-self.epsilon), z / self.sensitivity
        with np.errstate(invalid="ignore"):
            periods = np.floor(scaled)
            t = np.where(np.isinf(z), 0.0, scaled - periods)
        # The mass of one period beyond t, as a fraction, in two positive parts.
        rest = (np.maximum(self.gamma - t, 0.0) + b * (1.0 - np.maximum(t, self.gamma))) / self._spread
        return np.exp(-self.epsilon * periods) * (b + above * rest)

    def _abs_isf(self, s: FloatArray) -> FloatArray:
        b, above = math.exp(-self.epsilon), -math.expm1(-self.epsilon)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_s = np.log(s)
            periods = np.maximum(np.floor(-log_s / self.epsilon), 0.0)
            # v = log(s e^(epsilon periods)), from -epsilon to 0. The mass of the period before t is mass / D,
            # and the mass after it is rest.
            v = np.clip(log_s + self.epsilon * periods, -self.epsilon, 0.0)
            mass = np.expm1(v) * (-self._spread / above)
            rest = b * np.expm1(v + self.epsilon) / above
            # The lower part is measured from its start or from its end, depending on which cancels less.
            near = self.gamma + (mass - self.gamma) / b
            lower = np.where(mass < b / 2.0, near, np.maximum(1.0 - rest * self._spread / b, self.gamma))
            # Both masses are needed. At large epsilon the mass before t hardly changes along the lower part,
            # and with a small gamma the mass after it hardly changes along the upper part.
            upper = (mass <= self.gamma) & (rest * self._spread >= b * (1.0 - self.gamma))
            t = np.where(upper, mass, lower)
            return np.where(s == 0.0, np.inf, self.sensitivity * (periods + t))

    def _abs_moment(self, power: float) -> float:
        above = -math.expm1(-self.epsilon)
        # The terms have the power + 1. The unit is chosen such that its power + 1 is sensitivity^power.
        unit = self.sensitivity ** (power / (power + 1.0))
        total = lerch_sum(self.epsilon, power + 1.0, self.gamma, unit)
        return float(above**2 / ((power + 1.0) * self._spread) * total)

    def _expect(self, function: Values, points: FloatArray) -> float:
        folded = Folded(even_part(function), self.epsilon, self.sensitivity)
        points = points % self.sensitivity
        step = integral(folded, [(0.0, self.half_step)], points) if self.gamma > 0.0 else 0.0
        rest = integral(folded, [(self.half_step, self.sensitivity)], points) if self.gamma < 1.0 else 0.0
        return 2.0 * self.peak * (step + math.exp(-self.epsilon) * rest)

    def _rvs(self, count: int, generator: np.random.Generator) -> FloatArray:
        # Geng and Viswanath, Algorithm 1, but with three random numbers for their four variables: one number
        # in [-1, 1) gives the sign and the part of the period.
        x = geometric_rvs(self.epsilon, count, generator)
        side = generator.random(count)
        side *= 2.0
        side -= 1.0
        position = generator.random(count)
        upper = np.abs(side) * self._spread < self.gamma
        x += np.where(upper, self.gamma * position, self.gamma + (1.0 - self.gamma) * position)
        x *= self.sensitivity
        return np.copysign(x, side, out=x)


def optimal_gamma(epsilon: float, power: float = 1.0) -> float:
    """Return the gamma with the least ``E|X|^power``.

    Parameters
    ----------
    epsilon
        More than 0, at most 50.
    power
        Any real number > 0.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the moment is out of the range of a float.

    Notes
    -----
    Geng and Viswanath: ``1 / (1 + e^(epsilon/2))`` for power 1 (Theorem 4). For power 2 their Theorem 6 is,
    with b = e^-epsilon and after factoring, ``(((b + b^2) / 2)^(1/3) - b) / (1 - b)``, written in the code so
    that nothing cancels as epsilon goes to 0. For any other power the cost is ``S(gamma) / D(gamma)`` up to
    constants, where S = sum_{k >= 0} b^k (k + gamma)^(power+1) is convex and D is linear. The cost is
    quasi-convex, and the sign of ``S' D - S D'`` changes once, from negative at 0 to positive at 1. For such
    a power, gamma is accurate to about 1e-15 / epsilon. Its cost is much more accurate, since the optimum is
    flat.

    For every power, gamma tends to 1/2 as epsilon goes to 0, and to 0 as epsilon grows (Theorem 8).
    """
    epsilon, power = checked_epsilon(epsilon), checked_real("power", power, above=0)
    b, above = math.exp(-epsilon), -math.expm1(-epsilon)
    if power == 1.0:
        return 1.0 / (1.0 + math.exp(epsilon / 2.0))
    if power == 2.0:
        return b * math.expm1((2.0 * epsilon + math.log1p(-above / 2.0)) / 3.0) / above
    from scipy import optimize

    if not math.isfinite(float(lerch_sum(epsilon, power + 1.0, 1.0))):
        raise ParameterError(f"power must leave E|X|^power within the range of a float, got {power!r}")

    def slope(gamma: float) -> float:
        value = float(lerch_sum(epsilon, power + 1.0, gamma))
        derivative = (power + 1.0) * float(lerch_sum(epsilon, power, gamma))
        # Divided by the value, so that a large power does not overflow the product.
        return derivative / value * (gamma + b * (1.0 - gamma)) - above

    return float(optimize.brentq(slope, 0.0, 1.0, xtol=1e-300, rtol=1e-15, maxiter=2000))


def _gamma_for_loss(epsilon: float, sensitivity: float, loss: Values) -> float:
    """Return the gamma with the least expectation of a loss, a non-decreasing function of ``|x|``.

    Let ``G(t) = sum_{k >= 0} b^k loss((k + t) sensitivity)``, with b and D as in `Staircase`. Let
    ``A(gamma)`` be the integral of G from 0 to gamma plus b times the integral from gamma to 1. The
    expectation is A / D up to constants, and its slope has the sign of ``G D - A``. Since G rises,
    ``G D - A`` rises with gamma, from at most 0 at gamma = 0 to at least 0 at gamma = 1. If G is constant, as
    for a step at a multiple of the sensitivity, every gamma costs the same, and the computed slope consists
    only of rounding errors.
    """
    from scipy import optimize

    epsilon = checked_epsilon(epsilon)
    b, above = math.exp(-epsilon), -math.expm1(-epsilon)
    least = loss(np.zeros(1))  # subtracted, because differences farther out may be lost in its rounding
    folded = Folded(lambda z: loss(z) - least, epsilon, sensitivity)
    whole = integral(folded, [(0.0, sensitivity)]) / sensitivity

    def slope(gamma: float) -> float:
        start = integral(folded, [(0.0, gamma * sensitivity)]) / sensitivity if gamma else 0.0
        value = float(folded(np.array([gamma * sensitivity]))[0])
        return value * (gamma + b * (1.0 - gamma)) - (above * start + b * whole)

    if slope(0.0) >= 0.0:
        return 0.0
    if slope(1.0) <= 0.0:
        return 1.0
    return float(optimize.brentq(slope, 0.0, 1.0, xtol=1e-300, rtol=1e-14, maxiter=2000))


def interval_gamma(epsilon: float, level: float = 0.95) -> float:
    """Return the gamma with the shortest symmetric confidence interval of this level.

    Parameters
    ----------
    epsilon
        More than 0, at most 50.
    level
        Between 0 and 1.

    Notes
    -----
    Let the interval end in period k at the position t, both in units of the sensitivity. While t is in the
    upper part of the period, a larger gamma moves the end outwards. While t is in the lower part, a larger
    gamma moves the end inwards. The end is nearest to 0 at the border of the two parts, t = gamma:

        gamma = b (1 - v) / ((1 - b) v),   v = (1 - level) e^(epsilon k) in (b, 1],

    and the half width is ``(k + gamma) sensitivity``. Soria-Comas and Domingo-Ferrer find the same gamma by a
    numerical search (their Figure 3 and Table 2).
    """
    epsilon = checked_epsilon(epsilon)
    log_s = math.log1p(-checked_real("level", level, above=0, below=1))
    periods = math.floor(-log_s / epsilon)
    gamma = math.exp(-epsilon) * math.expm1(-(log_s + epsilon * periods)) / -math.expm1(-epsilon)
    return min(max(gamma, 0.0), 1.0)


def heuristic_gamma(epsilon: float) -> float:
    """Return ``e^-epsilon / 2``, which does not depend on a loss (Geng and Viswanath, equation 62).

    This gamma has the right limits, and the probability of noise below ``gamma * sensitivity`` tends to 1/3
    as epsilon grows.

    Parameters
    ----------
    epsilon
        More than 0, at most 50.
    """
    return math.exp(-checked_epsilon(epsilon)) / 2.0
