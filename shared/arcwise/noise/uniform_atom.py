"""Noise for (0, delta)-DP: a uniform distribution with an atom at 0.

Geng, Ding, Guo and Kumar, "The optimal mechanism in additive differential privacy" (arXiv 1809.10224).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from arcwise.checks import checked_real
from arcwise.errors import ParameterError
from arcwise.noise.base import ContinuousNoise, checked_delta
from arcwise.noise.expectation import checked_loss, integral

if TYPE_CHECKING:
    from arcwise.noise.expectation import Function, Values
    from arcwise.typing import FloatArray

_DOUBLINGS = 30  # how often the support is doubled in the search for the best


def optimal_alpha(delta: float, power: float = 1.0) -> float:
    """Return the atom with the least ``E|X|^power``: ``max(0, (power + 1) delta - power)`` (Theorem 3).

    Parameters
    ----------
    delta
        Between 0 and 1.
    power
        Any real number > 0.
    """
    delta, power = checked_delta(delta, 1.0), checked_real("power", power, above=0)
    return max(0.0, delta - power * (1.0 - delta))


def _alpha_for_loss(delta: float, sensitivity: float, loss: Values) -> float:
    """Return the atom with the least expectation of a loss, a non-decreasing function of ``|x|``.

    Raises `ParameterError` if the expectation keeps falling as the noise gets longer, as for a loss with a
    low upper bound.

    Let s be the sensitivity, h half the length of the support, and F(h) the integral of ``loss - loss(0)``
    from 0 to h. The expectation is ``loss(0) + (1 - delta) F(h) / (h - s/2)`` for h >= ``s / (2 delta)``. At
    the least h there is no atom. F is convex, and the slope has the sign of ``(loss(h) - loss(0)) (h - s/2) -
    F(h)``, which does not decrease.
    """
    from scipy import optimize

    delta = checked_delta(delta, 1.0)
    half = sensitivity / 2.0
    zero = float(loss(np.zeros(1))[0])

    def slope(h: float) -> float:
        end = float(loss(np.array([h]))[0])
        # h loss(h) is subtracted on both sides, because with a bounded loss only its rounding errors would
        # remain.
        return integral(lambda z: end - loss(z), [(0.0, h)]) - (end - zero) * half

    low = high = half / delta
    for _ in range(_DOUBLINGS):
        if slope(high) >= 0.0:
            break
        low, high = high, 2.0 * high
    else:
        raise ParameterError("loss must not have such a low bound: no atom is best, larger ones are better")
    h = low if high == low else float(optimize.brentq(slope, low, high, xtol=1e-300, rtol=1e-14))
    return max(0.0, (delta * h - half) / (h - half))


@dataclass(frozen=True, slots=True)
class UniformAtom(ContinuousNoise):
    """Noise that is 0 with probability alpha, and otherwise uniform on [-h, h]; (0, delta)-DP.

    With the best alpha it is optimal.

    Parameters
    ----------
    delta
        More than 0, less than 1.
    sensitivity
        The largest change of the protected value, in its unit; positive.
    alpha
        The mass of the atom, from 0 to less than delta.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    The density outside the atom is ``(delta - alpha) / sensitivity`` and
    ``h = (1 - alpha) / (delta - alpha) * sensitivity / 2``. A shift by the whole sensitivity uncovers the
    atom and a part of mass ``delta - alpha``. Together they have exactly the mass delta. The density `pdf`
    omits the atom, and `cdf` jumps by alpha at 0. If there is an atom, the differential entropy is minus
    infinity.

    With the best alpha the cost is ``(sensitivity / (2 delta))^p / (p + 1)`` up to ``delta = p / (p + 1)``
    and ``((p + 1) sensitivity / (2 p))^p (1 - delta)`` above.
    """

    delta: float
    sensitivity: float
    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", checked_delta(self.delta, 1.0))
        object.__setattr__(self, "sensitivity", checked_real("sensitivity", self.sensitivity, above=0))
        object.__setattr__(self, "alpha", checked_real("alpha", self.alpha, least=0, most=self.delta))
        if self.alpha == self.delta:
            raise ParameterError(f"alpha must be less than delta = {self.delta!r}, got {self.alpha!r}")

    @classmethod
    def optimal(
        cls, delta: float, sensitivity: float = 1.0, *, power: float = 1.0, loss: Function | None = None
    ) -> UniformAtom:
        """Return the member with the least ``E|X|^power``, or the least expectation of any other loss.

        It is the best of all (0, delta)-DP additive noise with a density that decreases with ``|x|``. Theorem
        3 shows this for powers, and the main result of the paper for every symmetric loss that does not
        decrease with ``|x|``.

        Parameters
        ----------
        delta, sensitivity
            As in `UniformAtom`.
        power
            More than 0. The default, 1, minimises the mean of ``|X|``.
        loss
            The loss to minimise instead of a power: a function of an array, shape (n,), of sizes ``|x|`` in
            the noise's unit.

        Raises
        ------
        ParameterError
            When an argument is out of its bounds, both a power and a loss are given, or the loss decreases
            somewhere or has such a low upper bound that no alpha is the best.
        """
        if loss is None:
            return cls(delta, sensitivity, optimal_alpha(delta, power))
        sensitivity = checked_real("sensitivity", sensitivity, above=0)
        return cls(delta, sensitivity, _alpha_for_loss(delta, sensitivity, checked_loss(loss, power)))

    @property
    def density(self) -> float:
        """The density outside the atom, per unit of x."""
        return (self.delta - self.alpha) / self.sensitivity

    @property
    def half_support(self) -> float:
        """h, the largest noise, in the unit of the sensitivity."""
        return (1.0 - self.alpha) / (self.delta - self.alpha) * (self.sensitivity / 2.0)

    @property
    def support(self) -> tuple[float, float]:
        """``(-h, h)``."""
        return -self.half_support, self.half_support

    def entropy(self) -> float:
        """Return the differential entropy ``log(2 h)`` in nats; minus infinity with an atom."""
        return -math.inf if self.alpha > 0.0 else math.log(2.0 * self.half_support)

    def _abs_pdf(self, z: FloatArray) -> FloatArray:
        return np.where(z <= self.half_support, self.density, np.where(np.isnan(z), z, 0.0))

    def _abs_sf(self, z: FloatArray) -> FloatArray:
        h = self.half_support
        return (1.0 - self.alpha) * ((h - np.minimum(z, h)) / h)

    def _abs_isf(self, s: FloatArray) -> FloatArray:
        # Written in two terms, because 1 - s is exact for s near 1.
        return self.half_support * np.maximum(((1.0 - s) - self.alpha) / (1.0 - self.alpha), 0.0)

    def _abs_moment(self, power: float) -> float:
        h = np.float64(self.half_support)
        return float((1.0 - self.alpha) * h**power / (power + 1.0))

    def _expect(self, function: Values, points: FloatArray) -> float:
        return self.alpha * float(function(np.zeros(1))[0]) + ContinuousNoise._expect(self, function, points)

    def _rvs(self, count: int, generator: np.random.Generator) -> FloatArray:
        x = generator.random(count)
        x *= 2.0 * self.half_support
        x -= self.half_support
        if self.alpha > 0.0:
            x[generator.random(count) < self.alpha] = 0.0
        return x
