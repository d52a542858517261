"""Gaussian noise with the least standard deviation that (epsilon, delta)-DP allows.

Balle and Wang, "Improving the Gaussian mechanism for differential privacy: analytical calibration and optimal
denoising" (ICML 2018). What truncated Laplace noise is compared with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from arcwise.checks import checked_real
from arcwise.noise.base import EndlessNoise, checked_delta, checked_epsilon

if TYPE_CHECKING:
    from arcwise.typing import FloatArray

_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


def gaussian_delta(sigma: float, epsilon: float, sensitivity: float = 1.0) -> float:
    """Return the exact delta of Gaussian noise of this standard deviation at this epsilon.

    ``Phi(u - v) - e^epsilon Phi(-u - v)`` with ``u = sensitivity / (2 sigma)`` and
    ``v = epsilon sigma / sensitivity`` (Balle and Wang, Theorem 8).

    Parameters
    ----------
    sigma
        Standard deviation, in the unit of the sensitivity; positive.
    epsilon
        From 0 to 50.
    sensitivity
        Positive.
    """
    return math.exp(
        _log_delta(
            checked_real("sigma", sigma, above=0) / checked_real("sensitivity", sensitivity, above=0),
            checked_epsilon(epsilon, zero=True),
        )
    )


def _log_delta(sigma: float, epsilon: float) -> float:
    """Return the logarithm of delta for sensitivity 1.

    Both terms of the formula have the factor phi(u - v) = e^epsilon phi(u + v), so delta is
    phi(u - v) (R(v - u) - R(v + u)) with Mills' ratio R(x) = Phi(-x) / phi(x). Where u is small the
    difference is the integral of ``-R' = 1 - x R`` instead, by Gauss-Legendre nodes.
    """
    from scipy import special

    u, v = 0.5 / sigma, epsilon * sigma
    if v - u < -5.0:  # delta is near 1, and R of a large negative number overflows
        return math.log1p(-float(special.ndtr(v - u)) - math.exp(epsilon + float(special.log_ndtr(-u - v))))
    root = math.sqrt(math.pi / 2.0)
    if u > 0.1:
        difference = root * float(
            special.erfcx((v - u) / math.sqrt(2.0)) - special.erfcx((v + u) / math.sqrt(2.0))
        )
    else:
        nodes, weights = np.polynomial.legendre.leggauss(12)
        x = v + u * nodes
        difference = u * float(np.dot(weights, 1.0 - x * root * special.erfcx(x / math.sqrt(2.0))))
    return -0.5 * (u - v) ** 2 - _HALF_LOG_TAU + math.log(difference)


def _calibrated(epsilon: float, delta: float) -> float:
    """Return the least sigma for sensitivity 1 whose delta is at most this one."""
    from scipy import optimize

    target = math.log(delta)

    def excess(log_sigma: float) -> float:
        return _log_delta(math.exp(log_sigma), epsilon) - target

    high = 0.0
    while excess(high) > 0.0:
        high += 1.0
    low = high - 1.0
    while excess(low) <= 0.0:
        low -= 1.0
    sigma = math.exp(optimize.brentq(excess, low, high, xtol=1e-15, rtol=1e-15))
    # The root is good to a few units in the last place; end on the private side of it.
    while _log_delta(sigma, epsilon) > target:
        sigma = math.nextafter(sigma, math.inf)
    return sigma


@dataclass(frozen=True, slots=True)
class AnalyticGaussian(EndlessNoise):
    """Gaussian noise, calibrated exactly to (epsilon, delta).

    Parameters
    ----------
    epsilon
        From 0 to 50.
    delta
        More than 0, less than 1.
    sensitivity
        The largest change of the value to be protected, in its unit (the L2 change of a vector); positive.

    Attributes
    ----------
    sigma
        The standard deviation, in the unit of the sensitivity.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.
    """

    epsilon: float
    delta: float
    sensitivity: float = 1.0
    sigma: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon, zero=True))
        object.__setattr__(self, "delta", checked_delta(self.delta, 1.0))
        object.__setattr__(self, "sensitivity", checked_real("sensitivity", self.sensitivity, above=0))
        object.__setattr__(self, "sigma", self.sensitivity * _calibrated(self.epsilon, self.delta))

    def entropy(self) -> float:
        """Return the differential entropy ``log(sigma sqrt(2 pi e))``, in nats."""
        return 0.5 + _HALF_LOG_TAU + math.log(self.sigma)

    def _abs_pdf(self, z: FloatArray) -> FloatArray:
        return np.exp(-0.5 * (z / self.sigma) ** 2 - _HALF_LOG_TAU) / self.sigma

    def _abs_sf(self, z: FloatArray) -> FloatArray:
        from scipy import special

        return np.asarray(special.erfc(z / (self.sigma * math.sqrt(2.0))))

    def _abs_isf(self, s: FloatArray) -> FloatArray:
        from scipy import special

        # erfcinv loses nothing in the tail, erfinv nothing near the centre.
        z = np.where(s < 0.5, special.erfcinv(s), special.erfinv(1.0 - s))
        return np.asarray(self.sigma * math.sqrt(2.0) * z)

    def _abs_moment(self, power: float) -> float:
        from scipy import special

        half = (power - 1.0) / 2.0
        if power <= 20.0:
            gamma = special.gamma(half + 1.0)
            return float(np.float64(self.sigma * math.sqrt(2.0)) ** power * gamma / math.sqrt(math.pi))
        logarithm = power * math.log(self.sigma * math.sqrt(2.0)) + special.gammaln(half + 1.0)
        return float(np.exp(logarithm) / math.sqrt(math.pi))

    def _rvs(self, count: int, generator: np.random.Generator) -> FloatArray:
        return generator.normal(0.0, self.sigma, count)
