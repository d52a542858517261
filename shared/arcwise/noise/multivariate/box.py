"""Noise for several attributes together, for experiments: joint densities that fall in shells of a body.

Soria-Comas and Domingo-Ferrer, "Optimal data-independent noise for differential privacy" (Information
Sciences 2013): section 6 is about boxes and their components, Theorem 13 about other convex bodies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.checks import checked_integer, checked_real
from arcwise.errors import ParameterError
from arcwise.noise.base import CHUNK, EndlessNoise, checked_epsilon, checked_shape, least_whole
from arcwise.noise.series import box_index, box_sum, excess_box_sum, lerch_sum, offset_sum

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from arcwise.noise.base import Size
    from arcwise.typing import BoolArray, FloatArray, IntArray

_TRIES = 2**20  # after this many candidates outside the body, the box around the body is refused as too large
_BATCH = 2**14


def checked_lengths(sensitivities: Any, core: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return both as tuples of floats, ``0 <= core[j] <= sensitivities[j]``; else raise `ParameterError`."""
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


@dataclass(frozen=True, slots=True)
class BoxComponent(EndlessNoise):
    """The distribution of component `index` of a `BoxStaircase`.

    Parameters
    ----------
    epsilon, sensitivities, core
        As in `BoxStaircase`.
    index
        The number of the component, from 0.

    Notes
    -----
    With the z, s and M of `BoxStaircase`, the component is a mixture of uniform densities on
    ``[-(z + i s), z + i s]`` with the weights of the boxes. For two attributes the density is the paper's
    ``2 M e^(-i epsilon) (z_2 + s_2 i + s_2 / (e^epsilon - 1))``, where i is the first shell that reaches x.
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
        """Return P(|X| > x) for x in this shell, at the distance `gap` from its outer edge."""
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

        def beyond(shell: FloatArray) -> FloatArray:
            return self._beyond(shell, np.zeros(s.shape))

        # The first shell with a probability of at most `wanted` beyond it. The density is constant in a
        # shell.
        shell = least_whole(lambda shell: beyond(shell) <= wanted, np.zeros(s.shape), least=0.0)
        edge = core + shell * width
        density = 2.0 * self._density(shell)
        outer = edge - (wanted - beyond(shell)) / density
        x = np.where(shell == 0.0, (1.0 - wanted) / density, np.maximum(outer, edge - width))
        return np.where(s > 0.0, np.minimum(x, edge), np.inf)

    def _abs_moment(self, power: float) -> float:
        s, _ = self._own
        offsets = [c / w for c, w in zip(self.core, self.sensitivities, strict=True)]
        v = offsets.pop(self.index)
        # As in `Staircase`: the terms have the power + 1, and the unit is chosen such that its power + 1 is
        # s^power.
        total = offset_sum(self.epsilon, power + 1.0, v, offsets, s ** (power / (power + 1.0)))
        return math.prod(self.sensitivities) / ((power + 1.0) * self._whole) * total

    def _rvs(self, count: int, generator: np.random.Generator) -> FloatArray:
        index = box_index(self.epsilon, self.core, self.sensitivities, count, generator)
        s, z = self._own
        return np.asarray((z + index * s) * (2.0 * generator.random(count) - 1.0))


class ConfidenceBox(NamedTuple):
    """The box of all x with ``|x_j| <= half_widths[j]``.

    Attributes
    ----------
    half_widths
        In the units of the attributes.
    volume
        The volume of the box, in the product of these units.
    """

    half_widths: tuple[float, ...]
    volume: float


@dataclass(frozen=True, slots=True)
class BoxStaircase:
    """Noise with the density ``M e^(-i epsilon)`` on shell i, the part of box i outside box i - 1.

    Box i has the half widths ``z_j + i s_j``.

    The noise protects d attributes that change together: attribute j changes by at most s_j, in every
    combination. It is epsilon-DP for all attributes together. Independent Laplace noise for the L1
    sensitivity ``s_1 + ... + s_d`` protects against more changes than required.

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
    weights ``M (1 - b) b^i V_i``, ``b = e^-epsilon``. This gives M, the moments, a joint sampler and the
    probability of every box. With one attribute it is `Staircase`.

    The paper's Theorem 13 subtracts from shell i + 1 only the shells before i; shell i itself must be
    subtracted as well, as in the text before the theorem. Table 4 of the paper labels the second column beta,
    but prints the half width ``z_1 + beta s_1`` of the first side. It also prints 6.99 for 6.69, and its
    sizes come from rounded half widths.

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
        """Return the proportional member with the least ``E|X_j|^power``, for all components together.

        With ``b = e^-epsilon`` and ``L_q(gamma) = sum_{i >= 0} b^i (i + gamma)^q`` the moment is
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
        # 1 / ((1 - b) sum_i b^i V_i)
        whole = 2.0**self.dimension * float(box_sum(self.epsilon, self.core, self.sensitivities))
        return 1.0 / (-math.expm1(-self.epsilon) * whole)

    def shell(self, x: ArrayLike) -> IntArray:
        """Return the index of the shell of each point x, shape (..., d); the core has the index 0."""
        array = checked_points(x, self.dimension)
        scaled = (np.abs(array) - np.array(self.core)) / np.array(self.sensitivities)
        shells: FloatArray = np.maximum(np.floor(scaled) + 1.0, 0.0).max(axis=-1)
        return np.asarray(shells.astype(np.int64))

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Return the joint density at points x, shape (..., d), in the shape (...)."""
        return np.asarray(self.peak * np.exp(-self.epsilon * self.shell(x)))

    def component(self, index: int) -> BoxComponent:
        """Return the distribution of one component of the noise.

        The components are uncorrelated, but not independent.
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

        By summation by parts ``E[shell]`` is the mean index of the mixture minus ``b / (1 - b)``.
        """
        whole = float(box_sum(self.epsilon, self.core, self.sensitivities))
        index = float(box_sum(self.epsilon, (0.0, *self.core), (1.0, *self.sensitivities))) / whole
        return self.epsilon * (index - 1.0 / math.expm1(self.epsilon)) - math.log(self.peak)

    def box_probability(self, half_widths: ArrayLike) -> float:
        """Return the probability of ``|X_j| <= half_widths[j]`` for all j together.

        `half_widths` has the shape (d,) and is non-negative.

        The work grows with the number of shells that intersect the box.
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
        """Return the box of half widths ``z + beta s`` with this probability.

        The box contains each shell whole before it contains any part of the next shell, so no region with
        this probability has less volume. If the core alone has a larger probability than `level`, the box is
        the core shrunk towards 0.
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

        Do not use them for privacy, because the last bits of floats leak information (Mironov 2012), see
        `Noise.rvs`. To release vectors, draw from a `BoxGridNoise`, which is this noise on a grid.

        A sample is a uniform point of a box with a random index (`box_index`).
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
        """Return the probability outside the box of half widths ``z + beta s``, with no loss of digits."""
        nearest = math.floor(beta) + 1
        half_widths = [z + beta * s for z, s in zip(self.core, self.sensitivities, strict=True)]
        excess = excess_box_sum(self.epsilon, half_widths, self.sensitivities, nearest - beta)
        whole = float(box_sum(self.epsilon, self.core, self.sensitivities))
        return math.exp(-self.epsilon * nearest) * excess / whole


def _box(half_widths: list[float]) -> ConfidenceBox:
    return ConfidenceBox(tuple(half_widths), math.prod(2.0 * h for h in half_widths))


@dataclass(frozen=True, slots=True)
class BodyStaircase:
    """Noise with the density ``M e^(-i epsilon)`` on shell i of a convex body K.

    Shell i is ``(gamma + i) K`` without ``(gamma + i - 1) K``.

    The noise protects attributes that change together by a vector in K, which the paper calls S_f. K is an
    ellipsoid, the L1 ball, or any other body with a membership test. For boxes use `BoxStaircase`.

    Use it for experiments, not for privacy. Samples are floats (see `Noise`), and a membership test in floats
    places the edges of shells only up to rounding. To release numbers, use `BoxGridNoise` with a box around
    K, or `BodyGridNoise` with faces or balls around K. Both are exact.

    Parameters
    ----------
    epsilon
        More than 0, at most 50, for all attributes together.
    half_widths
        d positive numbers: the half widths of a box around K. A tighter box makes sampling faster.
    contains
        The membership test: it takes points of shape (n, d) and returns n truth values. K must be convex,
        closed, bounded and symmetric about 0, which is not checked.
    gamma
        From 0 to 1: the core is ``gamma K``.
    volume
        The volume of K, which the density needs; 0 if it is unknown (see `estimate_volume`).

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the body does not contain 0.

    Notes
    -----
    Theorem 13 starts from a set S_0 in S_f and repeatedly adds the points that one more change reaches. With
    S_0 = gamma K, the set after i steps is ``(gamma + i) K``, since K is convex. The noise is epsilon-DP for
    every convex symmetric K. It is optimal if K contains, with each x, all points that are between 0 and x in
    each component. A noise vector is ``(gamma + i) U`` with U uniform in K and an index i with probability in
    proportion to ``b^i (gamma + i)^d``. So the best gamma is the same as for the box.

    Examples
    --------
    >>> disc = BodyStaircase.optimal(1.0, (1.0, 1.0), lambda x: (x**2).sum(axis=1) <= 1.0)
    >>> disc.shell([[0.1, 0.0], [3.0, 4.0]]).tolist()
    [0, 5]
    """

    epsilon: float
    half_widths: tuple[float, ...]
    contains: Callable[[FloatArray], Any] = field(repr=False)
    gamma: float
    volume: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))
        half_widths, _ = checked_lengths(self.half_widths, self.half_widths)
        object.__setattr__(self, "half_widths", half_widths)
        object.__setattr__(self, "gamma", checked_real("gamma", self.gamma, least=0, most=1.0))
        object.__setattr__(self, "volume", checked_real("volume", self.volume, least=0))
        if not self._inside(np.zeros((1, self.dimension))).all():
            raise ParameterError("contains must be true at 0: the body must be symmetric about 0")

    @classmethod
    def optimal(
        cls,
        epsilon: float,
        half_widths: Sequence[float],
        contains: Callable[[FloatArray], Any],
        *,
        power: float = 2.0,
        volume: float = 0.0,
    ) -> BodyStaircase:
        """Return the member with the least ``E|X_j|^power``, for all components and every norm together."""
        lengths, _ = checked_lengths(half_widths, half_widths)
        best = BoxStaircase.optimal(epsilon, (1.0,) * len(lengths), power=power)
        return cls(epsilon, lengths, contains, best.core[0], volume)

    @property
    def dimension(self) -> int:
        """The number of attributes d."""
        return len(self.half_widths)

    def shell(self, x: ArrayLike) -> IntArray:
        """Return the index of the shell of each point x, shape (..., d); the core has the index 0."""
        array = checked_points(x, self.dimension)
        points = array.reshape(-1, self.dimension)

        def reached(shell: FloatArray) -> BoolArray:
            if shell.max(initial=0.0) > 2**52:
                raise ParameterError("x must be within 2**52 shells; does the body contain points around 0?")
            return self._reached(points, shell)

        shells = least_whole(reached, np.zeros(len(points)), least=0.0)
        return np.asarray(shells.astype(np.int64).reshape(array.shape[:-1]))

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Return the joint density at points x, shape (..., d), in the shape (...).

        Raises
        ------
        ParameterError
            When the volume was not given.
        """
        if not self.volume:
            raise ParameterError("volume must be given for a density: see estimate_volume")
        whole = -math.expm1(-self.epsilon) * float(lerch_sum(self.epsilon, self.dimension, self.gamma))
        return np.asarray(np.exp(-self.epsilon * self.shell(x)) / (whole * self.volume))

    def scale_moment(self, power: float) -> float:
        """Return the mean of ``(gamma + i)^power``.

        ``E|X_j|^power`` is this mean times ``E|U_j|^power`` for a uniform point U of the body.
        """
        d, power = self.dimension, checked_real("power", power, above=0)
        moments = [float(lerch_sum(self.epsilon, order, self.gamma)) for order in (d + power, d)]
        return moments[0] / moments[1]

    def estimate_volume(self, count: int, *, generator: np.random.Generator) -> float:
        """Return an estimate of the body's volume from `count` uniform points of the box around it."""
        count = checked_integer("count", count, 1)
        checked_shape(None, generator)
        inside = sum(
            int(self._inside(self._candidates(min(_BATCH, count - start), generator)).sum())
            for start in range(0, count, _BATCH)
        )
        return inside / count * math.prod([2.0 * h for h in self.half_widths])

    def rvs(self, size: Size | None = None, *, generator: np.random.Generator) -> FloatArray:
        """Return joint samples for experiments, of shape ``size + (d,)``, or one point without a size.

        A sample comes from an index and a uniform point of the body, drawn by rejection from the box around
        it.

        Raises
        ------
        ParameterError
            When none of a million points of the box is in the body.
        """
        shape = checked_shape(size, generator)
        count, d = math.prod(shape), self.dimension
        x = np.empty((count, d))
        done, tried = 0, 0
        while done < count:
            wanted = min(_BATCH, math.ceil(1.1 * (count - done) * (tried + 2) / (done + 1)) + 16)
            candidates = self._candidates(wanted, generator)
            kept = candidates[self._inside(candidates)][: count - done]
            x[done : done + len(kept)] = kept
            done, tried = done + len(kept), tried + wanted
            if not done and tried >= _TRIES:
                raise ParameterError(
                    f"half_widths must be a box near the body: none of {tried} points is in it"
                )
        index = box_index(self.epsilon, (self.gamma,) * d, (1.0,) * d, count, generator)
        x *= (self.gamma + index)[:, None]
        return x.reshape(*shape, d)

    def _candidates(self, count: int, generator: np.random.Generator) -> FloatArray:
        return np.asarray(
            (2.0 * generator.random((count, self.dimension)) - 1.0) * np.array(self.half_widths)
        )

    def _reached(self, points: FloatArray, index: FloatArray) -> BoolArray:
        """Return for each point whether it is in the body times ``gamma + index``."""
        scale = (self.gamma + index)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = points / scale
        # With gamma 0 the core is a single point.
        finite = np.asarray(np.isfinite(scaled).all(axis=1))
        inside = self._inside(np.where(finite[:, None], scaled, 0.0))
        return np.asarray((points == 0.0).all(axis=1) | (finite & inside))

    def _inside(self, points: FloatArray) -> BoolArray:
        inside = np.asarray(self.contains(points))
        if inside.shape != points.shape[:1] or inside.dtype.kind != "b":
            raise ParameterError(
                f"contains must return {len(points)} truth values for points of shape {points.shape}"
            )
        return inside
