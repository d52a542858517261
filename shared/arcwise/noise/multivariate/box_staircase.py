"""Noise for several attributes at once: a joint density that falls in box-shaped shells.

Soria-Comas and Domingo-Ferrer, "Optimal data-independent noise for differential privacy" (Information
Sciences 2013), section 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.checks import checked_integer, checked_real
from arcwise.errors import ParameterError
from arcwise.noise.base import CHUNK, checked_epsilon, checked_shape
from arcwise.noise.multivariate.box_component import BoxComponent, checked_lengths, checked_points, peak
from arcwise.noise.multivariate.box_sums import box_index, box_sum, excess_box_sum
from arcwise.noise.series import lerch_sum

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.noise.base import Size
    from arcwise.typing import FloatArray, IntArray


class ConfidenceBox(NamedTuple):
    """The box of all x with ``|x_j| <= half_widths[j]``.

    Attributes
    ----------
    half_widths
        In the units of the attributes.
    volume
        In the product of these units.
    """

    half_widths: tuple[float, ...]
    volume: float


@dataclass(frozen=True, slots=True)
class BoxStaircase:
    """The density ``M e^(-i epsilon)`` on shell i: the box of half widths ``z_j + i s_j`` less the last.

    It protects d attributes of which attribute j changes by at most s_j, in every combination; epsilon-DP
    for all of them together, where independent Laplace noise of the L1 sensitivity ``s_1 + ... + s_d``
    protects much more than is asked.

    Parameters
    ----------
    epsilon
        More than 0, at most 50, for all attributes together.
    sensitivities
        s: d positive numbers, each in the unit of its attribute.
    core
        z: d numbers, ``0 <= z_j <= s_j``: the half widths of the box S_0 of highest density.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds.

    Notes
    -----
    With ``V_i = prod_j 2 (z_j + i s_j)`` the density is a mixture of the uniform densities on the boxes, with
    weights ``M (1 - b) b^i V_i``, ``b = e^-epsilon``: that gives M, the moments, a joint sampler and the
    probability of every box. With one attribute it is `Staircase`.

    The paper's Theorem 13 takes from shell i + 1 only the shells before i; shell i itself must go as well, as
    in the text before it. Its Table 4 heads the second column beta, but prints the half width
    ``z_1 + beta s_1`` of the first side, and there 6.99 for 6.69; its sizes come from rounded half widths.

    Examples
    --------
    >>> noise = BoxStaircase(1.0, (1, 10), (0.1, 1))
    >>> noise.var().round(4).tolist()
    [4.0338, 403.3805]
    """

    epsilon: float
    sensitivities: tuple[float, ...]
    core: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))
        sensitivities, core = checked_lengths(self.sensitivities, self.core)
        object.__setattr__(self, "sensitivities", sensitivities)
        object.__setattr__(self, "core", core)

    @classmethod
    def proportional(cls, epsilon: float, sensitivities: tuple[float, ...], gamma: float) -> BoxStaircase:
        """Return the member with ``z = gamma s``, gamma from 0 to 1."""
        gamma = checked_real("gamma", gamma, least=0, most=1.0)
        sensitivities, _ = checked_lengths(sensitivities, sensitivities)
        return cls(epsilon, sensitivities, tuple(gamma * s for s in sensitivities))

    @classmethod
    def optimal(cls, epsilon: float, sensitivities: tuple[float, ...], *, power: float = 2.0) -> BoxStaircase:
        """Return the proportional member with the least ``E|X_j|^power``, for all components at once.

        With ``L_q(gamma) = sum_i b^i (i + gamma)^q`` that moment is
        ``s_j^power / (power + 1) * L_(d+power)(gamma) / L_d(gamma)``.
        """
        from scipy import optimize

        epsilon, power = checked_epsilon(epsilon), checked_real("power", power, above=0)
        sensitivities, _ = checked_lengths(sensitivities, sensitivities)
        d = len(sensitivities)

        def cost(gamma: Any) -> Any:
            return lerch_sum(epsilon, d + power, gamma) / lerch_sum(epsilon, d, gamma)

        grid = np.linspace(0.0, 1.0, 129)
        best = int(np.argmin(cost(grid)))
        bounds = (grid[max(best - 1, 0)], grid[min(best + 1, 128)])
        found = optimize.minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-12})
        return cls.proportional(epsilon, sensitivities, float(found.x))

    @property
    def dimension(self) -> int:
        """The number of attributes d."""
        return len(self.sensitivities)

    @property
    def peak(self) -> float:
        """M: the density on the core, per unit of volume."""
        return peak(self.epsilon, self.sensitivities, self.core)

    def shell(self, x: ArrayLike) -> IntArray:
        """Return the index of the shell of points x, shape (..., d): 0 for the core."""
        array = checked_points(x, self.dimension)
        scaled = (np.abs(array) - np.array(self.core)) / np.array(self.sensitivities)
        shells: FloatArray = np.maximum(np.floor(scaled) + 1.0, 0.0).max(axis=-1)
        return np.asarray(shells.astype(np.int64))

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Return the joint density at points x, shape (..., d), in the shape (...)."""
        return np.asarray(self.peak * np.exp(-self.epsilon * self.shell(x)))

    def component(self, index: int) -> BoxComponent:
        """Return the distribution of one component of the noise.

        It is what a single attribute's noise looks like; the components are uncorrelated, not independent.
        """
        index = checked_integer("index", index, 0, self.dimension - 1)
        return BoxComponent(self.epsilon, self.sensitivities, self.core, index)

    def var(self) -> FloatArray:
        """Return the variances of the components, shape (d,)."""
        return np.array([self.component(j).var() for j in range(self.dimension)])

    def cov(self) -> FloatArray:
        """Return the covariance matrix, shape (d, d): diagonal, by the symmetry in each component."""
        return np.diag(self.var())

    def entropy(self) -> float:
        """Return the differential entropy in nats: ``epsilon E[shell] - log M``.

        By summation by parts ``E[shell]`` is the mean index of the mixture less ``b / (1 - b)``.
        """
        whole = float(box_sum(self.epsilon, self.core, self.sensitivities))
        index = float(box_sum(self.epsilon, (0.0, *self.core), (1.0, *self.sensitivities))) / whole
        return self.epsilon * (index - 1.0 / math.expm1(self.epsilon)) - math.log(self.peak)

    def box_probability(self, half_widths: ArrayLike) -> float:
        """Return the probability of ``|X_j| <= half_widths[j]`` for all j; shape (d,), non-negative.

        The work grows with the number of shells that the box reaches into.
        """
        h = checked_points(half_widths, self.dimension)
        if h.shape != (self.dimension,) or not (h >= 0.0).all():
            raise ParameterError(
                f"half_widths must be {self.dimension} non-negative numbers, got {half_widths!r}"
            )
        i = np.arange(int(self.shell(h)) + 1, dtype=np.float64)
        sides = np.array(self.core)[:, None] + i * np.array(self.sensitivities)[:, None]
        inside = np.exp(-self.epsilon * i) * np.minimum(h[:, None], sides).prod(axis=0)
        beyond = math.exp(-self.epsilon * i.size) * float(h.prod()) / -math.expm1(-self.epsilon)
        scale = 2.0**self.dimension * self.peak * -math.expm1(-self.epsilon)
        return min(1.0, scale * (float(inside.sum()) + beyond))

    def confidence_box(self, level: float) -> ConfidenceBox:
        """Return the box of half widths ``z + beta s`` that has this probability.

        It contains a shell before any of the next, so no region of this probability has less volume. Where
        the core alone has more than `level`, it is the core shrunk towards 0.
        """
        from scipy import optimize

        level = checked_real("level", level, above=0, below=1)
        outside = 1.0 - level
        first = self._outside(0.0)
        if first <= outside:
            shrink = (level / (1.0 - first)) ** (1.0 / self.dimension)
            return _box([shrink * z for z in self.core])
        high = 1.0
        while self._outside(high) > outside:
            high *= 2.0
        beta = optimize.brentq(
            lambda beta: math.log(self._outside(beta) / outside),
            high / 2.0 if high > 1.0 else 0.0,
            high,
            xtol=1e-14,
            rtol=1e-15,
        )
        return _box([z + beta * s for z, s in zip(self.core, self.sensitivities, strict=True)])

    def rvs(self, size: Size | None = None, *, generator: np.random.Generator) -> FloatArray:
        """Return joint samples for experiments, of shape ``size + (d,)``, or one point without a size.

        Not for privacy, see `Noise.rvs`: floats leak (Mironov 2012). To release vectors, draw from a
        `BoxGridNoise`, which is this noise on a grid.

        A sample is the index of a box (`box_index`), then a uniform point of that box.
        """
        shape = checked_shape(size, generator)
        count = math.prod(shape)
        x = np.empty((count, self.dimension))
        for start in range(0, count, CHUNK):
            part = x[start : start + CHUNK]
            index = box_index(self.epsilon, self.core, self.sensitivities, len(part), generator)
            sides = np.array(self.core) + index[:, None] * np.array(self.sensitivities)
            np.multiply(sides, 2.0 * generator.random(part.shape) - 1.0, out=part)
        return x.reshape(*shape, self.dimension)

    def _outside(self, beta: float) -> float:
        """Return the probability outside the box of half widths ``z + beta s``, precise when small."""
        nearest = math.floor(beta) + 1
        half_widths = [z + beta * s for z, s in zip(self.core, self.sensitivities, strict=True)]
        excess = excess_box_sum(self.epsilon, half_widths, self.sensitivities, nearest - beta)
        whole = float(box_sum(self.epsilon, self.core, self.sensitivities))
        return math.exp(-self.epsilon * nearest) * excess / whole


def _box(half_widths: list[float]) -> ConfidenceBox:
    return ConfidenceBox(tuple(half_widths), math.prod(2.0 * h for h in half_widths))
