"""Truncated Laplace noise for (epsilon, delta), and what no noise can do better than.

Geng, Ding, Guo and Kumar, "Tight analysis of privacy and utility tradeoff in approximate differential
privacy" (arXiv 1810.00877). The lower bounds are in `lower_bound.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from arcwise.checks import checked_real
from arcwise.noise.base import checked_delta, checked_epsilon
from arcwise.noise.continuous import ContinuousNoise
from arcwise.noise.lower_bound import approximate_lower_bound

if TYPE_CHECKING:
    from arcwise.typing import FloatArray


@dataclass(frozen=True, slots=True)
class TruncatedLaplace(ContinuousNoise):
    """The density ``B e^(-epsilon |x| / sensitivity)`` on [-A, A]; (epsilon, delta)-DP.

    The last stretch of length `sensitivity` at either end has the probability delta.

    Parameters
    ----------
    epsilon
        More than 0, at most 50.
    delta
        More than 0, at most 1/2 (above, A would be less than the sensitivity).
    sensitivity
        The largest change of the value to be protected, in its unit; positive.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    With ``c = (e^epsilon - 1) / (2 delta)`` and ``scale = sensitivity / epsilon``:
    ``A = scale log(1 + c)`` and ``B = (1 + 1/c) / (2 scale)`` (Theorem 1). The slides of the paper print its
    constraint as that of (0, delta), without the factor e^epsilon.
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
        """A: no noise is larger, in the unit of the sensitivity."""
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
        """Return a bound that ``E|X|^power`` of no (epsilon, delta)-DP additive noise is below.

        See `approximate_lower_bound`; V1_low and V2_low of the paper for powers 1 and 2.
        """
        return approximate_lower_bound(self.epsilon, self.delta, self.sensitivity, power=power)

    def _abs_pdf(self, z: FloatArray) -> FloatArray:
        return np.where(
            z <= self.half_support, self.peak * np.exp(-z / self.scale), np.where(np.isnan(z), z, 0.0)
        )

    def _abs_sf(self, z: FloatArray) -> FloatArray:
        # (e^(-z/scale) - e^(-A/scale)) / (1 - e^(-A/scale)), without the difference of near numbers.
        beyond = (np.minimum(z, self.half_support) - self.half_support) / self.scale
        return 0.0 + np.expm1(-beyond) / self._c

    def _abs_isf(self, s: FloatArray) -> FloatArray:
        # In the tail measured from the end of the support, near the centre from 0, where 1 - s is exact.
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
