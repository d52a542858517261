"""Geometric noise, and the staircase on the integers, which is optimal epsilon-DP noise for any sensitivity.

Geng and Viswanath, "The optimal mechanism in differential privacy" (arXiv 1212.1186), section VI.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.checks import checked_integer, checked_real
from arcwise.errors import ParameterError
from arcwise.noise.base import DiscreteNoise, checked_epsilon, geometric_rvs
from arcwise.noise.expectation import Folded, checked_loss
from arcwise.noise.series import lerch_sum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.noise.expectation import Function, Values
    from arcwise.typing import FloatArray

SENSITIVITY_MAX = 2**20
"""The largest sensitivity. It is limited because moments need one series for each integer below it."""


@dataclass(frozen=True, slots=True)
class Geometric(DiscreteNoise):
    """``P(X = n) = (1 - a) / (1 + a) a^|n|`` with ``a = e^(-epsilon / sensitivity)``; epsilon-DP.

    Parameters
    ----------
    epsilon
        More than 0, at most 50.
    sensitivity
        The largest change of the protected integer, at least 1. At 1 this is the optimal noise for every loss
        that grows with ``|n|`` (Geng and Viswanath, Theorem 11). For a larger sensitivity,
        `DiscreteStaircase` is better.

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
        """Return the entropy in nats: ``(epsilon / sensitivity) E|X| - log P(X = 0)``."""
        # -log P(X = 0) is computed from the odds of other numbers, which keep their digits at large epsilon.
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


def _r_for_loss(epsilon: float, sensitivity: int, loss: Values) -> int:
    """Return the r with the least expectation of a loss, a non-decreasing function of ``|x|``.

    The search is that of `optimal_r`, with ``T_i = sum_{k >= 0} b^k loss(k sensitivity + i)`` and
    ``b = e^-epsilon``. The number 0 has only one sign, so ``loss(0)`` is subtracted from the compared costs.
    """
    epsilon = checked_epsilon(epsilon)
    sensitivity = checked_integer("sensitivity", sensitivity, 1, SENSITIVITY_MAX)
    sums = np.cumsum(Folded(loss, epsilon, float(sensitivity))(np.arange(sensitivity, dtype=np.float64)))
    return _least_r(epsilon, sums, float(loss(np.zeros(1))[0]))


def _least_r(epsilon: float, sums: FloatArray, at_zero: float = 0.0) -> int:
    """Return the best r from the running sums of T_i."""
    b, above = math.exp(-epsilon), -math.expm1(-epsilon)
    r = np.arange(1, sums.size + 1)
    weight = 2.0 * (r + b * (sums.size - r)) - above
    return int(np.argmin((above * sums + b * sums[-1] - at_zero / 2.0) / weight)) + 1


def optimal_r(epsilon: float, sensitivity: int, power: float = 1.0) -> int:
    """Return the r with the least ``E|X|^power`` of a `DiscreteStaircase`.

    There is no closed form. All r from 1 to the sensitivity are compared in one pass. If several r are
    equally good, the smallest is taken. The cost is ``a(r) ((1-b) (T_0 + ... + T_(r-1)) + b (T_0 + ... +
    T_(sensitivity-1)))`` up to a constant. Here a(r) is the mass at 0, ``b = e^-epsilon`` and
    ``T_i = sum_{k >= 0} b^k (k sensitivity + i)^power``.

    Parameters
    ----------
    epsilon
        More than 0, at most 50.
    sensitivity
        From 1 to 2**20.
    power
        Any real number > 0.
    """
    epsilon, power = checked_epsilon(epsilon), checked_real("power", power, above=0)
    sensitivity = checked_integer("sensitivity", sensitivity, 1, SENSITIVITY_MAX)
    sums = np.cumsum(lerch_sum(epsilon, power, np.arange(sensitivity) / sensitivity))
    if not np.isfinite(sums[-1]):
        raise ParameterError(f"power must leave E|X|^power within the range of a float, got {power!r}")
    return _least_r(epsilon, sums)


@dataclass(frozen=True, slots=True)
class DiscreteStaircase(DiscreteNoise):
    """A mass function that falls by the factor e^-epsilon at ``k sensitivity + r``, k = 0, 1, 2, ...

    Parameters
    ----------
    epsilon
        More than 0, at most 50.
    sensitivity
        The largest change of the protected integer, from 1 to 2**20.
    r
        How many of the integers 0, 1, ... are on the highest step, from 1 to `sensitivity`.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    With ``b = e^-epsilon`` and ``W = r + b (sensitivity - r)``, the mass at 0 is
    ``a = (1 - b) / (2 W - (1 - b))`` (equations 79 and 80). With sensitivity 1 this is `Geometric`.

    Examples
    --------
    >>> DiscreteStaircase.optimal(1.0, 10).r
    4
    """

    epsilon: float
    sensitivity: int
    r: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))
        sensitivity = checked_integer("sensitivity", self.sensitivity, 1, SENSITIVITY_MAX)
        object.__setattr__(self, "sensitivity", sensitivity)
        object.__setattr__(self, "r", checked_integer("r", self.r, 1, sensitivity))

    @classmethod
    def optimal(
        cls, epsilon: float, sensitivity: int = 1, *, power: float = 1.0, loss: Function | None = None
    ) -> DiscreteStaircase:
        """Return the member with the least ``E|X|^power``, or the least expectation of any other loss.

        It is the best of all epsilon-DP additive noise on the integers (Theorem 12), for every symmetric loss
        that does not decrease with ``|x|``.

        Parameters
        ----------
        epsilon, sensitivity
            As in `DiscreteStaircase`.
        power
            More than 0. The default, 1, minimises the mean of ``|X|``.
        loss
            The loss to minimise instead of a power: a function of an array, shape (n,), of sizes ``|x|``. The
            sizes are whole numbers as floats.

        Raises
        ------
        ParameterError
            When an argument is out of its bounds, both a power and a loss are given, or the loss decreases
            somewhere or grows too fast for an expectation.
        """
        if loss is None:
            return cls(epsilon, sensitivity, optimal_r(epsilon, sensitivity, power))
        return cls(epsilon, sensitivity, _r_for_loss(epsilon, sensitivity, checked_loss(loss, power)))

    @property
    def _decay(self) -> float:
        return self.epsilon / self.sensitivity

    @property
    def _weight(self) -> float:
        """W: the mass of 0, 1, ..., sensitivity - 1 in units of the mass at 0."""
        return self.r + math.exp(-self.epsilon) * (self.sensitivity - self.r)

    @property
    def peak(self) -> float:
        """P(X = 0), the a of the paper."""
        above = -math.expm1(-self.epsilon)
        # 2 W - (1 - b) written as 2 (r - 1) + 1 + b, which does not cancel at r = 1.
        b = math.exp(-self.epsilon)
        return above / (2.0 * (self.r - 1) + 2.0 * b * (self.sensitivity - self.r) + 1.0 + b)

    def entropy(self) -> float:
        """Return the entropy in nats: ``epsilon E[number of steps down] - log P(X = 0)``."""
        b, above = math.exp(-self.epsilon), -math.expm1(-self.epsilon)
        lower = b * (self.sensitivity - self.r)
        steps = 2.0 * self.peak * (self._weight * b / above**2 + lower / above)
        # -log P(X = 0) is computed from the odds of other numbers, which keep their digits at large epsilon.
        return self.epsilon * steps + math.log1p(2.0 * (self.r - 1 + lower + b) / above)

    def _abs_pmf(self, n: FloatArray) -> FloatArray:
        steps = np.floor(n / self.sensitivity)
        steps = steps + (n - steps * self.sensitivity >= self.r)
        return np.asarray(self.peak * np.exp(-self.epsilon * steps))

    def _tail(self, n: FloatArray) -> FloatArray:
        b, above = math.exp(-self.epsilon), -math.expm1(-self.epsilon)
        with np.errstate(invalid="ignore"):
            periods = np.floor(n / self.sensitivity)
            t = np.where(np.isinf(n), 0.0, n - periods * self.sensitivity)
        rest = np.maximum(self.r - t, 0.0) + b * (self.sensitivity - np.maximum(t, self.r))
        return np.asarray(np.exp(-self.epsilon * periods) * self.peak * (rest + self._weight * b / above))

    def _abs_moment(self, power: float) -> float:
        b = math.exp(-self.epsilon)
        offsets = np.arange(self.sensitivity) / self.sensitivity
        sums = lerch_sum(self.epsilon, power, offsets, self.sensitivity)
        total = float(sums[: self.r].sum() + b * sums[self.r :].sum())
        return float(2.0 * self.peak * total)

    def _rvs(self, count: int, generator: np.random.Generator) -> NDArray[Any]:
        x = self._two_sided(count, generator)
        # 0 occurs with both signs, and so twice as often as it should. Half of the zeros are drawn again.
        again = np.flatnonzero((x == 0.0) & np.signbit(x))
        while again.size:
            part = self._two_sided(again.size, generator)
            x[again] = part
            again = again[(part == 0.0) & np.signbit(part)]
        return x.astype(np.int64)

    def _two_sided(self, count: int, generator: np.random.Generator) -> FloatArray:
        """Return samples as whole floats; 0 and -0 have the probability a each, up to scale."""
        x = geometric_rvs(self.epsilon, count, generator)
        x *= self.sensitivity
        side = 2.0 * generator.random(count) - 1.0
        position = generator.random(count)
        upper = np.abs(side) * self._weight < self.r
        lower = self.r + np.floor((self.sensitivity - self.r) * position)
        x += np.where(upper, np.floor(self.r * position), lower)
        return np.asarray(np.copysign(x, side, out=x))
