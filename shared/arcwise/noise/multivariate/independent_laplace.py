"""Independent Laplace noise on several attributes: what box-shaped noise is compared with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.checks import checked_integer, checked_real
from arcwise.noise.base import checked_epsilon, checked_shape
from arcwise.noise.laplace import Laplace
from arcwise.noise.multivariate.box_component import checked_lengths, checked_points

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.noise.base import Size
    from arcwise.typing import FloatArray


class ConfidenceDiamond(NamedTuple):
    """The set of all x of which the absolute values of the components add up to the radius at most.

    Attributes
    ----------
    radius
        In the unit of all attributes.
    volume
        In this unit to the power of d.
    """

    radius: float
    volume: float


@dataclass(frozen=True, slots=True)
class IndependentLaplace:
    """d independent Laplace numbers of the scale ``sum(s) / epsilon``; epsilon-DP for all together.

    Parameters
    ----------
    epsilon
        More than 0, at most 50, for all attributes together.
    sensitivities
        s: d positive numbers; their sum is the L1 sensitivity.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.
    """

    epsilon: float
    sensitivities: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))
        sensitivities, _ = checked_lengths(self.sensitivities, self.sensitivities)
        object.__setattr__(self, "sensitivities", sensitivities)

    @property
    def dimension(self) -> int:
        """The number of attributes d."""
        return len(self.sensitivities)

    def component(self, index: int) -> Laplace:
        """Return the distribution of one component; all have the same."""
        checked_integer("index", index, 0, self.dimension - 1)
        return Laplace(self.epsilon, math.fsum(self.sensitivities))

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Return the joint density at points x, shape (..., d), in the shape (...)."""
        return np.asarray(self.component(0).pdf(checked_points(x, self.dimension)).prod(axis=-1))

    def var(self) -> FloatArray:
        """Return the variances of the components, shape (d,)."""
        return np.full(self.dimension, self.component(0).var())

    def confidence_region(self, level: float) -> ConfidenceDiamond:
        """Return the region of least volume with this probability.

        The density depends on the L1 norm alone, which has the gamma distribution of shape d; the volume is
        ``(2 radius)^d / d!`` (Soria-Comas and Domingo-Ferrer, Table 3, which rounds the radius first).
        """
        from scipy import special

        d = self.dimension
        outside = 1.0 - checked_real("level", level, above=0, below=1)
        radius = self.component(0).scale * float(special.gammainccinv(d, outside))
        return ConfidenceDiamond(radius, math.exp(d * math.log(2.0 * radius) - math.lgamma(d + 1.0)))

    def rvs(self, size: Size | None = None, *, generator: np.random.Generator) -> FloatArray:
        """Return joint samples for experiments, of shape ``size + (d,)``; not for privacy: see `Noise`."""
        shape = checked_shape(size, generator)
        return self.component(0).rvs((*shape, self.dimension), generator=generator)
