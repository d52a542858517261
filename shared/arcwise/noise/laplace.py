"""Laplace noise: what the optimal distributions are compared with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from arcwise.checks import checked_real
from arcwise.noise.base import checked_epsilon
from arcwise.noise.continuous import ContinuousNoise
from arcwise.noise.series import gamma_moment

if TYPE_CHECKING:
    from arcwise.typing import FloatArray


@dataclass(frozen=True, slots=True)
class Laplace(ContinuousNoise):
    """The density ``e^(-|x| / scale) / (2 scale)`` with ``scale = sensitivity / epsilon``; epsilon-DP.

    Parameters
    ----------
    epsilon
        More than 0, at most 50.
    sensitivity
        The largest change of the value to be protected, in its unit; positive.

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

    @property
    def support(self) -> tuple[float, float]:
        """The whole line."""
        return -math.inf, math.inf

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
        # One number in [-1, 1) gives the sign and, by inversion, the size; at -1 itself the logarithm is kept
        # finite. An array's logarithm is several times faster than numpy's own Laplace generator.
        side = generator.random(count)
        side *= 2.0
        side -= 1.0
        x = np.maximum(1.0 - np.abs(side), 2.0**-54)
        np.log(x, out=x)
        x *= self.scale
        return np.copysign(x, side, out=x)
