"""One component of box-shaped noise: its marginal distribution."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.checks import checked_integer, checked_real
from arcwise.errors import ParameterError
from arcwise.noise.base import checked_epsilon
from arcwise.noise.continuous import ContinuousNoise
from arcwise.noise.multivariate.box_sums import box_index, box_sum, offset_sum

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.typing import FloatArray


def checked_lengths(sensitivities: Any, core: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return both as tuples of floats, ``0 <= core[j] <= sensitivities[j]``, or raise `ParameterError`."""
    for name, values in (("sensitivities", sensitivities), ("core", core)):
        if not isinstance(values, Iterable) or isinstance(values, str):
            raise ParameterError(f"{name} must be a sequence of numbers, got {values!r}")
    s = tuple(checked_real("sensitivity", value, above=0) for value in sensitivities)
    z = tuple(core)
    if not s or len(z) != len(s):
        raise ParameterError(
            f"sensitivities and core must be equally long, got {len(s)} and {len(z)} numbers"
        )
    return s, tuple(
        checked_real(
            f"core[{j}]", value, least=0, most=most, advice=f"; the upper bound is sensitivities[{j}]"
        )
        for j, (value, most) in enumerate(zip(z, s, strict=True))
    )


def checked_points(x: ArrayLike, dimension: int) -> FloatArray:
    """Return points as an array of shape (..., d), or raise `ParameterError`."""
    array = np.asarray(x)
    if array.dtype.kind not in "fiu" or not array.ndim or array.shape[-1] != dimension:
        raise ParameterError(f"points must be real numbers of shape (..., {dimension}), got {x!r}")
    return array.astype(np.float64)


def peak(epsilon: float, sensitivities: tuple[float, ...], core: tuple[float, ...]) -> float:
    """Return M, the joint density on the core: ``1 / ((1 - b) sum_i b^i V_i)``."""
    whole = 2.0 ** len(core) * float(box_sum(epsilon, core, sensitivities))
    return 1.0 / (-math.expm1(-epsilon) * whole)


@dataclass(frozen=True, slots=True)
class BoxComponent(ContinuousNoise):
    """The distribution of component `index` of a `BoxStaircase`.

    Parameters
    ----------
    epsilon, sensitivities, core
        As in `BoxStaircase`.
    index
        Which component, from 0.

    Notes
    -----
    A mixture of uniform densities on ``[-(z + i s), z + i s]`` with the weights of the boxes; for two
    attributes the density is the paper's
    ``2 M e^(-i epsilon) (z_2 + s_2 i + s_2 / (e^epsilon - 1))`` with i the first shell that reaches x.
    """

    epsilon: float
    sensitivities: tuple[float, ...]
    core: tuple[float, ...]
    index: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))
        sensitivities, core = checked_lengths(self.sensitivities, self.core)
        object.__setattr__(self, "sensitivities", sensitivities)
        object.__setattr__(self, "core", core)
        object.__setattr__(self, "index", checked_integer("index", self.index, 0, len(core) - 1))

    @property
    def support(self) -> tuple[float, float]:
        """The whole line."""
        return -math.inf, math.inf

    @property
    def _own(self) -> tuple[float, float]:
        return self.sensitivities[self.index], self.core[self.index]

    @property
    def _others(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        j = self.index
        return self.sensitivities[:j] + self.sensitivities[j + 1 :], self.core[:j] + self.core[j + 1 :]

    @property
    def _whole(self) -> float:
        return float(box_sum(self.epsilon, self.core, self.sensitivities))

    def _shell(self, z: FloatArray) -> FloatArray:
        s, core = self._own
        return np.maximum(np.floor((z - core) / s) + 1.0, 0.0)

    def _density(self, shell: FloatArray) -> FloatArray:
        s, z = self._others
        sums = box_sum(self.epsilon, [c + shell * w for c, w in zip(z, s, strict=True)], s)
        return np.asarray(np.exp(-self.epsilon * shell) * (sums * (0.5 / self._whole)))

    def _beyond(self, shell: FloatArray, gap: FloatArray) -> FloatArray:
        """Return P(|X| > x) for an x in this shell, `gap` inside its outer edge."""
        (own, _), (s, z) = self._own, self._others
        constants = [gap, *(c + shell * w for c, w in zip(z, s, strict=True))]
        sums = box_sum(self.epsilon, constants, (own, *s))
        return np.asarray(np.exp(-self.epsilon * shell) * (sums / self._whole))

    def _abs_pdf(self, z: FloatArray) -> FloatArray:
        far = np.isinf(z)
        return np.where(far, 0.0, self._density(self._shell(np.where(far, 0.0, z))))

    def _abs_sf(self, z: FloatArray) -> FloatArray:
        s, core = self._own
        far = np.isinf(z)
        x = np.where(far, 0.0, z)
        shell = self._shell(x)
        return np.where(far, 0.0, self._beyond(shell, np.maximum(core + shell * s - x, 0.0)))

    def _abs_isf(self, s: FloatArray) -> FloatArray:
        width, core = self._own
        wanted = np.where(s > 0.0, s, 0.5)
        # The first shell at whose outer edge no more than `wanted` is left, by doubling and bisection.
        low, high = np.full(s.shape, -1.0), np.zeros(s.shape)
        while (above := self._beyond(high, np.zeros(s.shape)) > wanted).any():
            low = np.where(above, high, low)
            high = np.where(above, 2.0 * high + 1.0, high)
        while (high - low > 1.0).any():
            middle = np.floor((low + high) / 2.0)
            above = self._beyond(np.maximum(middle, 0.0), np.zeros(s.shape)) > wanted
            low = np.where(above, middle, low)
            high = np.where(above, high, middle)
        # Inside a shell the density is constant.
        edge = core + high * width
        density = 2.0 * self._density(high)
        outer = edge - (wanted - self._beyond(high, np.zeros(s.shape))) / density
        x = np.where(high == 0.0, (1.0 - wanted) / density, np.maximum(outer, edge - width))
        return np.where(s > 0.0, np.minimum(x, edge), np.inf)

    def _abs_moment(self, power: float) -> float:
        s, _ = self._own
        offsets = [c / w for c, w in zip(self.core, self.sensitivities, strict=True)]
        v = offsets.pop(self.index)
        # As in `Staircase`: the unit to the power of the terms, power + 1, is s to the power.
        total = offset_sum(self.epsilon, power + 1.0, v, offsets, s ** (power / (power + 1.0)))
        return math.prod(self.sensitivities) / ((power + 1.0) * self._whole) * total

    def _rvs(self, count: int, generator: np.random.Generator) -> FloatArray:
        index = box_index(self.epsilon, self.core, self.sensitivities, count, generator)
        s, z = self._own
        return np.asarray((z + index * s) * (2.0 * generator.random(count) - 1.0))
