"""Laplace, truncated Laplace and Gaussian noise, for comparison with the optimal distributions.

The truncated noise and the lower bound of the cost of any noise are from Geng, Ding, Guo and Kumar, "Tight
analysis of privacy and utility tradeoff in approximate differential privacy" (arXiv 1810.00877). Gaussian
noise with the least standard deviation is from Balle and Wang, "Improving the Gaussian mechanism for
differential privacy: analytical calibration and optimal denoising" (ICML 2018).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from arcwise.checks import checked_real
from arcwise.errors import ParameterError
from arcwise.noise.base import ContinuousNoise, EndlessNoise, checked_delta, checked_epsilon
from arcwise.noise.series import gamma_moment

if TYPE_CHECKING:
    from arcwise.typing import FloatArray

_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
_BLOCK = 2**20
_MOST_TERMS = 2**28


@dataclass(frozen=True, slots=True)
class Laplace(EndlessNoise):
    """The density ``e^(-|x| / scale) / (2 scale)`` with ``scale = sensitivity / epsilon``; epsilon-DP.

    Parameters
    ----------
    epsilon
        More than 0, at most 50.
    sensitivity
        The largest change of the protected value, in its unit; positive.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    References
    ----------
    Dwork, McSherry, Nissim, Smith, "Calibrating noise to sensitivity in private data analysis", TCC 2006.

    Examples
    --------
    >>> Laplace(0.5, 2.0).var()
    32.0
    """

    epsilon: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))
        object.__setattr__(self, "sensitivity", checked_real("sensitivity", self.sensitivity, above=0))

    @property
    def scale(self) -> float:
        """``sensitivity / epsilon``, the mean of ``|X|``."""
        return self.sensitivity / self.epsilon

    def entropy(self) -> float:
        """Return the differential entropy ``1 + log(2 scale)``, in nats."""
        return 1.0 + math.log(2.0 * self.scale)

    def _abs_pdf(self, z: FloatArray) -> FloatArray:
        return np.exp(-z / self.scale) / (2.0 * self.scale)

    def _abs_sf(self, z: FloatArray) -> FloatArray:
        return np.exp(-z / self.scale)

    def _abs_isf(self, s: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return 0.0 - self.scale * np.log(s)

    def _abs_moment(self, power: float) -> float:
        return gamma_moment(self.scale, power)

    def _rvs(self, count: int, generator: np.random.Generator) -> FloatArray:
        # One number in [-1, 1) gives the sign and, by inversion, the size. At -1 itself the maximum keeps the
        # logarithm finite. An array's logarithm is several times faster than numpy's own Laplace generator.
        side = generator.random(count)
        side *= 2.0
        side -= 1.0
        x = np.maximum(1.0 - np.abs(side), 2.0**-54)
        np.log(x, out=x)
        x *= self.scale
        return np.copysign(x, side, out=x)


@dataclass(frozen=True, slots=True)
class TruncatedLaplace(ContinuousNoise):
    """The density ``B e^(-epsilon |x| / sensitivity)`` on [-A, A]; (epsilon, delta)-DP.

    At each end, the last part of the length `sensitivity` has the probability delta.

    Parameters
    ----------
    epsilon
        More than 0, at most 50.
    delta
        More than 0, at most 1/2. With a larger delta, A would be less than the sensitivity.
    sensitivity
        The largest change of the protected value, in its unit; positive.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    With ``c = (e^epsilon - 1) / (2 delta)`` and ``scale = sensitivity / epsilon``: ``A = scale log(1 + c)``
    and ``B = (1 + 1/c) / (2 scale)`` (Theorem 1). The slides of the paper print the constraint on the noise
    without the factor e^epsilon. That would be the constraint of (0, delta)-DP.
    """

    epsilon: float
    delta: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))
        object.__setattr__(self, "delta", checked_delta(self.delta, 0.5))
        object.__setattr__(self, "sensitivity", checked_real("sensitivity", self.sensitivity, above=0))

    @property
    def scale(self) -> float:
        """``sensitivity / epsilon``."""
        return self.sensitivity / self.epsilon

    @property
    def _c(self) -> float:
        return math.expm1(self.epsilon) / (2.0 * self.delta)

    @property
    def half_support(self) -> float:
        """A, the largest noise, in the unit of the sensitivity."""
        return self.scale * math.log1p(self._c)

    @property
    def peak(self) -> float:
        """B: the density at 0, per unit of x."""
        return (1.0 + 1.0 / self._c) / (2.0 * self.scale)

    @property
    def support(self) -> tuple[float, float]:
        """``(-A, A)``."""
        return -self.half_support, self.half_support

    def entropy(self) -> float:
        """Return the differential entropy ``E|X| / scale - log B``, in nats."""
        return self.abs_moment(1.0) / self.scale - math.log(self.peak)

    def lower_bound(self, power: float = 1.0) -> float:
        """Return a lower bound of ``E|X|^power`` of any (epsilon, delta)-DP additive noise.

        See `approximate_lower_bound`. For the powers 1 and 2 the bounds are V1_low and V2_low of the paper.
        """
        return approximate_lower_bound(self.epsilon, self.delta, self.sensitivity, power=power)

    def _abs_pdf(self, z: FloatArray) -> FloatArray:
        return np.where(
            z <= self.half_support, self.peak * np.exp(-z / self.scale), np.where(np.isnan(z), z, 0.0)
        )

    def _abs_sf(self, z: FloatArray) -> FloatArray:
        # (e^(-z/scale) - e^(-A/scale)) / (1 - e^(-A/scale)), without a difference of close numbers.
        beyond = (np.minimum(z, self.half_support) - self.half_support) / self.scale
        return 0.0 + np.expm1(-beyond) / self._c

    def _abs_isf(self, s: FloatArray) -> FloatArray:
        # The tail is measured from the end of the support. Near the centre, z is measured from 0, where 1 - s
        # is exact.
        tail = self.half_support - self.scale * np.log1p(self._c * s)
        inner = -self.scale * np.log1p((np.maximum(s, 0.25) - 1.0) / (1.0 + 1.0 / self._c))
        return np.where(s < 0.5, tail, 0.0 + inner)

    def _abs_moment(self, power: float) -> float:
        from scipy import special

        edge, order = math.log1p(self._c), power + 1.0
        if power <= 20.0:
            lower = special.gammainc(order, edge) * special.gamma(order)
            return float(np.float64(self.scale) ** power * lower * (1.0 + 1.0 / self._c))
        # The lower incomplete gamma function as x^a e^-x / a times Kummer's 1F1(1, a + 1, x), by logarithms.
        logarithm = power * math.log(self.half_support) + math.log(edge / order) - edge
        kummer = special.hyp1f1(1.0, order + 1.0, edge)
        return float(np.exp(logarithm + math.log(kummer)) * (1.0 + 1.0 / self._c))

    def _rvs(self, count: int, generator: np.random.Generator) -> FloatArray:
        side = generator.random(count)
        side *= 2.0
        side -= 1.0
        return np.copysign(self._abs_isf(np.abs(side)), side)


def approximate_lower_bound(
    epsilon: float, delta: float, sensitivity: float = 1.0, *, power: float = 1.0
) -> float:
    """Return a lower bound of ``E|X|^power`` over all (epsilon, delta)-DP additive noise on the line.

    Parameters
    ----------
    epsilon
        More than 0, at most 50.
    delta
        More than 0, at most 1/2.
    sensitivity
        Positive. The bound is in the unit of the sensitivity, to the given power.
    power
        Any real number > 0.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or epsilon and delta are so small that the sum below has more
        than 2**28 terms.

    Notes
    -----
    Let X be such noise in units of the sensitivity, and let ``G_k = P(X >= k)`` for whole k >= 0. We may
    assume that X is symmetric, since averaging its distribution with the mirror image keeps both privacy and
    cost. Then ``G_0 >= 1/2``, and the privacy condition for the half line from k gives
    ``G_k <= e^epsilon G_(k+1) + delta``. By induction

        G_k >= g_k = max(0, 1/2 - a (1 + b + ... + b^(k-1))),   b = e^-epsilon,   a = (1-b)/2 + b delta,

    and the cost is at least ``2 sum_{k >= 1} (k^power - (k-1)^power) g_k``. This is from "Tight analysis of
    privacy and utility tradeoff in approximate differential privacy" (Geng, Ding, Guo, Kumar; Theorems 4 and
    5). The paper assumes that there is an integer n with ``a (1 + ... + b^(n-1)) = 1/2``, and gives the same
    number for this case. The argument above needs no such n, because g_k is cut off at 0. So the bound holds
    at every epsilon and delta, and is continuous in them.
    """
    epsilon, delta = checked_epsilon(epsilon), checked_delta(delta, 0.5)
    sensitivity = checked_real("sensitivity", sensitivity, above=0)
    power = checked_real("power", power, above=0)
    b, above = math.exp(-epsilon), -math.expm1(-epsilon)
    # g_k = b (a b^(k-1) - delta) / (1 - b), positive for k - 1 < log(a / delta) / epsilon. The argument of
    # the logarithm is computed as 1 + (1 - b) (1 - 2 delta) / (2 delta).
    length = math.log1p(above * (1.0 - 2.0 * delta) / (2.0 * delta)) / epsilon
    terms = math.ceil(length)
    if terms > _MOST_TERMS:
        raise ParameterError(
            f"epsilon and delta must not need more than {_MOST_TERMS} terms, got {epsilon!r} and {delta!r}"
        )
    total = 0.0
    for start in range(1, terms + 1, _BLOCK):
        k = np.arange(start, min(start + _BLOCK, terms + 1), dtype=np.float64)
        # Written as delta (e^(epsilon (length - (k - 1))) - 1), so that nothing cancels for g_k near 0.
        g = b * delta * np.expm1(np.maximum(epsilon * (length - (k - 1.0)), 0.0)) / above
        # k^power - (k-1)^power, without a difference of close numbers.
        steps = (sensitivity * k) ** power * -np.expm1(power * np.log1p(-1.0 / np.maximum(k, 2.0)))
        steps = np.where(k == 1.0, sensitivity**power, steps)
        total += float(np.dot(steps, g))
    return 2.0 * total


def gaussian_delta(sigma: float, epsilon: float, sensitivity: float = 1.0) -> float:
    """Return the exact delta of Gaussian noise with this standard deviation at this epsilon.

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

    Both terms of the formula in `gaussian_delta` have the factor phi(u - v) = e^epsilon phi(u + v), so delta
    is phi(u - v) (R(v - u) - R(v + u)) with Mills' ratio R(x) = Phi(-x) / phi(x). For a small u the
    difference is computed as the integral of ``-R' = 1 - x R``, by Gauss-Legendre nodes.
    """
    from scipy import special

    u, v = 0.5 / sigma, epsilon * sigma
    if v - u < -5.0:  # delta is near 1, and R overflows for a large negative number
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
    """Return the least sigma for sensitivity 1 with a delta of at most `delta`."""
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
    # The root is accurate to a few units in the last place; return a sigma on the private side of the root.
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
        The largest change of the protected value, in its unit (the L2 change of a vector); positive.

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

        # erfcinv is precise in the tail, erfinv near the centre.
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
