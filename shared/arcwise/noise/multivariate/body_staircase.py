"""Noise for several attributes whose changes fill a convex body: shells of that shape, for experiments.

Soria-Comas and Domingo-Ferrer, "Optimal data-independent noise for differential privacy" (Information
Sciences 2013), Theorem 13.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.checks import checked_integer, checked_real
from arcwise.errors import ParameterError
from arcwise.noise.base import checked_epsilon, checked_shape, least_whole
from arcwise.noise.multivariate.box import BoxStaircase, checked_lengths, checked_points
from arcwise.noise.series import box_index, lerch_sum

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from arcwise.noise.base import Size
    from arcwise.typing import BoolArray, FloatArray, IntArray

_TRIES = 2**20  # candidates without one inside, after which the box around the body is called too large
_BATCH = 2**14


@dataclass(frozen=True, slots=True)
class BodyStaircase:
    """The density ``M e^(-i epsilon)`` on shell i of a convex body K: ``(gamma + i) K`` less the last.

    It protects attributes whose changes are in K, the S_f of the paper: an ellipsoid, the L1 ball, or what
    else has a membership test. `BoxStaircase` is the one for boxes.

    For experiments, not for privacy: samples are floats (see `Noise`), and a membership test in floats places
    the edges of shells up to rounding. To release numbers, use `BoxGridNoise` with a box around K, or
    `BodyGridNoise` with faces or balls around it; both are exact.

    Parameters
    ----------
    epsilon
        More than 0, at most 50, for all attributes together.
    half_widths
        d positive numbers: a box around K. The closer, the faster are samples.
    contains
        The membership test: takes points of shape (n, d), returns n truth values. K must be convex, closed,
        bounded and symmetric about 0, which is not checked.
    gamma
        From 0 to 1: the core is ``gamma K``.
    volume
        That of K, for the density; 0 where it is not known (`estimate_volume`).

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, or the body does not contain 0.

    Notes
    -----
    Theorem 13 starts from a set S_0 in S_f and takes in turn what one more change reaches. With S_0 = gamma K
    that is ``(gamma + i) K``, since K is convex. It is epsilon-DP for every convex symmetric K, and optimal
    if K contains with x all points between 0 and x in each component. A noise vector is ``(gamma + i) U``
    with U uniform in K and an index i of probability in proportion to ``b^i (gamma + i)^d``; the best gamma
    then is that of the box.

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
            raise ParameterError("contains must be true of 0: the body must be symmetric about it")

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
        """Return the member with the least ``E|X_j|^power``, for all components and every norm at once."""
        lengths, _ = checked_lengths(half_widths, half_widths)
        best = BoxStaircase.optimal(epsilon, (1.0,) * len(lengths), power=power)
        return cls(epsilon, lengths, contains, best.core[0], volume)

    @property
    def dimension(self) -> int:
        """The number of attributes d."""
        return len(self.half_widths)

    def shell(self, x: ArrayLike) -> IntArray:
        """Return the index of the shell of points x, shape (..., d): 0 for the core."""
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

        ``E|X_j|^power`` is that times ``E|U_j|^power`` for a uniform point U of the body.
        """
        d, power = self.dimension, checked_real("power", power, above=0)
        moments = [float(lerch_sum(self.epsilon, order, self.gamma)) for order in (d + power, d)]
        return moments[0] / moments[1]

    def estimate_volume(self, count: int, *, generator: np.random.Generator) -> float:
        """Return the volume of the body by `count` uniform points of the box around it."""
        count = checked_integer("count", count, 1)
        checked_shape(None, generator)
        inside = sum(
            int(self._inside(self._candidates(min(_BATCH, count - start), generator)).sum())
            for start in range(0, count, _BATCH)
        )
        return inside / count * math.prod([2.0 * h for h in self.half_widths])

    def rvs(self, size: Size | None = None, *, generator: np.random.Generator) -> FloatArray:
        """Return joint samples for experiments, of shape ``size + (d,)``, or one point without a size.

        A sample is an index, then a uniform point of the body, by rejection from the box around it.

        Raises
        ------
        ParameterError
            When of a million points of the box none is in the body.
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
                    f"half_widths must be a box near the body: of {tried} points none is in it"
                )
        index = box_index(self.epsilon, (self.gamma,) * d, (1.0,) * d, count, generator)
        x *= (self.gamma + index)[:, None]
        return x.reshape(*shape, d)

    def _candidates(self, count: int, generator: np.random.Generator) -> FloatArray:
        return np.asarray(
            (2.0 * generator.random((count, self.dimension)) - 1.0) * np.array(self.half_widths)
        )

    def _reached(self, points: FloatArray, index: FloatArray) -> BoolArray:
        """Return which points are in the body times ``gamma + index``."""
        scale = (self.gamma + index)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = points / scale
        # With gamma 0 the core is a point.
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
