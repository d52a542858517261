"""Two-sided geometric noise: the discrete counterpart of Laplace noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.checks import checked_integer
from arcwise.noise.base import checked_epsilon, geometric_rvs
from arcwise.noise.discrete import DiscreteNoise
from arcwise.noise.series import lerch_sum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.typing import FloatArray


@dataclass(frozen=True, slots=True)
class Geometric(DiscreteNoise):
    """``P(X = n) = (1 - a) / (1 + a) a^|n|`` with ``a = e^(-epsilon / sensitivity)``; epsilon-DP.

    Parameters
    ----------
    epsilon
        More than 0, at most 50.
    sensitivity
        The largest change of the integer to be protected, at least 1. At 1 this is the optimal noise for
        every loss that grows with ``|n|`` (Geng and Viswanath, Theorem 11); above, `DiscreteStaircase` is
        better.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    References
    ----------
    Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy mechanisms", STOC 2009.

    Examples
    --------
    >>> round(Geometric(1.0).abs_moment(1), 4)
    0.8509
    """

    epsilon: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))
        object.__setattr__(self, "sensitivity", checked_integer("sensitivity", self.sensitivity, 1))

    @property
    def _decay(self) -> float:
        return self.epsilon / self.sensitivity

    @property
    def peak(self) -> float:
        """P(X = 0)."""
        return math.tanh(self._decay / 2.0)

    def entropy(self) -> float:
        """Return the entropy in nats: ``rate E|X| - log P(X = 0)``."""
        # -log P(X = 0) by the odds of the rest, which is all that is left at large epsilon.
        return self._decay * self.abs_moment(1.0) + math.log1p(2.0 / math.expm1(self._decay))

    def _abs_pmf(self, n: FloatArray) -> FloatArray:
        return self.peak * np.exp(-self._decay * n)

    def _tail(self, n: FloatArray) -> FloatArray:
        return np.exp(-self._decay * n) / (1.0 + math.exp(-self._decay))

    def _abs_moment(self, power: float) -> float:
        return float(2.0 * self.peak * lerch_sum(self._decay, power, 0.0))

    def _rvs(self, count: int, generator: np.random.Generator) -> NDArray[Any]:
        x = geometric_rvs(self._decay, count, generator)
        x -= geometric_rvs(self._decay, count, generator)
        return x.astype(np.int64)
