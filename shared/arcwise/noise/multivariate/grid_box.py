"""Noise for privacy for several attributes together: integer vectors in box-shaped shells, pure epsilon.

Soria-Comas and Domingo-Ferrer, "Optimal data-independent noise for differential privacy" (Information
Sciences 2013), section 6, on a grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.checks import checked_integer, checked_real
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import certify
from arcwise.noise.base import checked_epsilon
from arcwise.noise.multivariate.box import BoxStaircase, checked_lengths
from arcwise.noise.multivariate.shell_law import INDEX_BITS, INDEX_DRAWS, ShellLaw, below
from arcwise.noise.multivariate.vector_grid import (
    VectorGridNoise,
    checked_grid_points,
    checked_integers,
    checked_positive,
)
from arcwise.randomness import SYSTEM, Randomness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from arcwise.kernels.certificate import Certificate
    from arcwise.typing import FloatArray, IntArray

_ATTRIBUTES_MAX = 64
"""The most attributes for which the fixed-point numbers that place the weights are long enough."""

SENSITIVITY_MAX = 2**32
"""The largest sensitivity in grid steps. Boxes then have fewer than 2**50 points a side: exact as floats."""

_RESOLUTION = 64
"""Default grid steps per sensitivity. Rounding adds a variance of 1 / 49,152 of the squared sensitivity."""

_CHUNK = 2**16  # numbers per block, so that a sampler's intermediate arrays stay in the cache
_MASK = 2**128 - 1
_LOW = np.uint64(2**32 - 1)
_HALF = np.uint64(32)


@dataclass(frozen=True)
class BoxGridNoise(VectorGridNoise):
    """Vectors of integer noise; a vector in shell k is e^-epsilon times as likely as a vector in shell k - 1.

    Box k has the half widths ``core[j] + k sensitivities[j]``, and shell k is box k without box k - 1. The
    noise protects d attributes that change together: attribute j changes by at most ``sensitivities[j]`` grid
    steps, in every combination. It is `BoxStaircase` on a grid, drawn jointly. All shells are possible, so
    the noise is *pure* epsilon-DP, exactly. Unlike a `GridNoise`, it cuts off no tail and has no delta.

    To release a value, bring it to the grid (`to_grid`), add the result of `draw`, and multiply by `steps`.
    `release` does all three.

    Parameters
    ----------
    epsilon
        More than 0, at most 50, for all attributes together.
    sensitivities
        d integers from 1 to 2**32, in grid steps: the largest change of each attribute *on the grid*.
    core
        d integers, ``0 <= core[j] <= sensitivities[j]``: the half widths of the box of highest probability.
    steps
        d positive numbers: the distance between two grid points, in the unit of each attribute. The default
        is 1.

    Raises
    ------
    ParameterError
        When an argument is out of its bounds, there are more than 64 attributes, or epsilon is so small that
        there would be more than 65,536 shells before the tail.

    Notes
    -----
    Two draws of 128 bits pick the index i of a box. One more draw for each attribute picks a uniform integer
    on its side of the box. A few draws are rejected, because 2**128 need not be a multiple of the number of
    these integers. So a vector takes d + 2 draws, and more draws with a probability below 2**-70 (in the
    tail, and after rejections).

    An integer that does not fit into 64 bits is returned modulo 2**64, like numpy's sums. (Its box has an
    index of more than 2**30.) The sum with a value is then the true sum modulo 2**64. It is a function of the
    true sum, and so it is equally private.

    Examples
    --------
    >>> noise = BoxGridNoise.for_values(1.0, (1.0, 10.0))
    >>> noise.certificate().delta
    0
    >>> noise.release([0.25, 17.3]).shape
    (2,)
    """

    epsilon: float
    sensitivities: tuple[int, ...]
    core: tuple[int, ...]
    steps: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))
        sensitivities = _checked_sensitivities(self.sensitivities)
        core = checked_integers("core", self.core, 0, SENSITIVITY_MAX)
        if len(core) != len(sensitivities) or any(z > s for z, s in zip(core, sensitivities, strict=True)):
            raise ParameterError(
                f"core must be {len(sensitivities)} integers, each at most its sensitivity, got {core!r}"
            )
        steps = checked_positive("steps", self.steps, (1.0,) * len(core))
        object.__setattr__(self, "sensitivities", sensitivities)
        object.__setattr__(self, "core", core)
        object.__setattr__(self, "steps", steps)
        _ = self._law  # made here, so that bad arguments fail early

    @classmethod
    def optimal(
        cls,
        epsilon: float,
        sensitivities: Sequence[int],
        *,
        power: float = 2.0,
        steps: Sequence[float] = (),
    ) -> BoxGridNoise:
        """Return the noise with the least ``E|X_j|^power`` on the grid, among cores shaped like the box.

        A box of half width c has 2 c + 1 points on each side, as many as there are steps in a side of length
        2 c + 1. So the variance is that of the continuous noise with the core ``c + 1/2``, minus 1/12. Up to
        a sensitivity of 16 all cores are compared; above 16, only the cores near that of
        `BoxStaircase.optimal`.

        Parameters
        ----------
        epsilon, sensitivities, steps
            As in `BoxGridNoise`.
        power
            More than 0.
        """
        sensitivities = _checked_sensitivities(sensitivities)
        gamma = BoxStaircase.optimal(epsilon, (1.0,) * len(sensitivities), power=power).core[0]
        widest = max(sensitivities)
        near = round(gamma * widest - 0.5)
        first, last = (0, widest) if widest <= 16 else (near - 2, near + 2)
        gammas = [(c + 0.5) / widest for c in range(max(first, 0), min(last, widest) + 1)]
        cores = [tuple([min(s, max(0, round(g * s - 0.5))) for s in sensitivities]) for g in gammas]
        cost = [_cost(float(epsilon), sensitivities, core, power) for core in cores]
        return cls(epsilon, sensitivities, cores[int(np.argmin(cost))], tuple(steps))

    @classmethod
    def for_values(
        cls,
        epsilon: float,
        sensitivities: Sequence[float],
        *,
        steps: Sequence[float] = (),
        power: float = 2.0,
    ) -> BoxGridNoise:
        """Return the optimal noise for real attributes that change by at most `sensitivities`.

        Parameters
        ----------
        epsilon
            For all attributes together.
        sensitivities
            d positive numbers, each in the unit of its attribute. On the grid, each is rounded up to
            ``ceil(sensitivity / step)`` steps, which is the largest change of `to_grid` for such a change of
            the value. Rounding is done in rational arithmetic with the exact values of the floats, also for
            0.3 or 0.1.
        steps
            d positive numbers. The default is 1/64 of each sensitivity.
        power
            The moment ``E|X_j|^power`` is minimised.
        """
        lengths, _ = checked_lengths(sensitivities, sensitivities)
        widths = checked_positive("steps", steps, [s / _RESOLUTION for s in lengths])
        ratios = [math.ceil(Fraction(s) / Fraction(w)) for s, w in zip(lengths, widths, strict=True)]
        for s, w, ratio in zip(lengths, widths, ratios, strict=True):
            if ratio > SENSITIVITY_MAX:
                raise ParameterError(
                    f"steps must be at least 2**-32 of their sensitivity, {s!r}, got {w!r}: take larger steps"
                )
        return cls.optimal(epsilon, ratios, power=power, steps=widths)

    @cached_property
    def _law(self) -> ShellLaw:
        return ShellLaw(self.epsilon, self.sensitivities, self.core)

    def certificate(self, epsilon: float | None = None) -> Certificate:
        """Return the proved guarantee for vectors that change by at most `sensitivities` grid steps.

        It is pure epsilon-DP: delta is 0. Each point of shell k has a rational probability, and a change of a
        vector within its sensitivities moves a point by at most one shell. `ratio` is an upper bound of the
        change of probability, too large by less than 2**-200. It is computed in integers and holds for every
        shell: all ratios beyond the weights are the same.

        Parameters
        ----------
        epsilon
            The epsilon of the statement. The default is that of the noise.

        Raises
        ------
        CertificateError
            When the ratio exceeds e^epsilon.
        """
        return certify(self._law.ratio, self.epsilon if epsilon is None else checked_epsilon(epsilon))

    def shell(self, k: ArrayLike) -> IntArray:
        """Return the index of the shell of grid points k, integers of shape (..., d), in the shape (...)."""
        points = np.abs(checked_grid_points(k, self.dimension))
        beyond = np.maximum(points - np.array(self.core), 0)
        s = np.array(self.sensitivities)
        return np.asarray(((beyond + s - 1) // s).max(axis=-1))

    def pmf(self, k: ArrayLike) -> FloatArray:
        """Return the probability of grid points k, integers of shape (..., d), in the shape (...)."""
        shells = self.shell(k)
        last = len(self._law.weights)
        heights = np.array([height / self._law.unit for height in self._law.heights])
        falls = np.exp(-self.epsilon * np.maximum(shells - last, 0))
        return np.asarray(heights[np.minimum(shells, last)] * falls)

    def probability(self, k: Sequence[int]) -> Fraction:
        """Return the exact probability of one grid point; use it for experiments with few shells.

        The probability is a sum of fractions with different denominators, over all shells from the point's
        shell on.
        """
        point = checked_integers("k", k, -(2**53), 2**53)
        return self._law.height(int(self.shell(point)))

    def var(self) -> FloatArray:
        """Return the variances of the components in the units of the attributes, shape (d,).

        This is the variance of the integers. Rounding a value to the grid adds an error of at most half a
        step.
        """
        chances, h = self._boxes
        return np.asarray(chances @ (h * (h + 1.0) / 3.0) * np.array(self.steps) ** 2)

    def half_widths(self, level: float) -> FloatArray:
        """Return the least x_j with ``P(|X_j| <= x_j) >= level`` in the units of the attributes, shape (d,).

        So a value *on the grid* is within x_j of the released value with this probability, for each attribute
        separately. If the value was rounded to the grid, the distance is at most half a step more.
        """
        level = checked_real("level", level, above=0, below=1)
        chances, h = self._boxes
        low, high = np.full(self.dimension, -1.0), h[-1]
        while (high - low > 1.0).any():
            middle = np.floor((low + high) / 2.0)
            inside = chances @ np.minimum((2.0 * middle + 1.0) / (2.0 * h + 1.0), 1.0)
            low, high = np.where(inside < level, middle, low), np.where(inside < level, high, middle)
        return np.asarray(high * np.array(self.steps))

    @property
    def _boxes(self) -> tuple[FloatArray, FloatArray]:
        """The probabilities of the boxes and their half widths in steps, as floats, without the tail."""
        chances = np.array([weight / 2**INDEX_BITS for weight in self._law.weights])
        i = np.arange(len(chances), dtype=np.float64)[:, None]
        return chances, np.array(self.core) + i * np.array(self.sensitivities)

    def draw(self, *, randomness: Randomness = SYSTEM) -> IntArray:
        """Return one vector of noise in grid steps, shape (d,), to be added to integers."""
        words = np.frombuffer(randomness.draws(INDEX_DRAWS + self.dimension), "<u8").tolist()
        draws = [u << 64 | r for r, u in zip(words[::2], words[1::2], strict=True)]
        index = self._law.sample(draws[0] << 128 | draws[1], randomness)
        point = self._point(index, draws[INDEX_DRAWS:], randomness)
        return np.array([wrapped(k) for k in point], dtype=np.int64)

    def draw_many(self, count: int, *, randomness: Randomness = SYSTEM) -> IntArray:
        """Return `count` vectors of noise in grid steps, shape (count, d), to be added to integers.

        The draws are the same, in the same order, as those of `count` calls of `draw`, unless a vector needs
        further draws.
        """
        count = checked_integer("count", count, 0)
        out = np.empty((count, self.dimension), np.int64)
        chunk = max(1, _CHUNK // (self.dimension + INDEX_DRAWS))
        for start in range(0, count, chunk):
            self.fill(out[start : start + chunk], randomness)
        return out

    def _point(self, index: int, draws: Sequence[int], randomness: Randomness) -> list[int]:
        """Return a point of the box of this index, integers of any size."""
        sides = self._law.half_widths(index)
        if index >= len(self._law.weights):  # sides of any length
            return [below(2 * h + 1, randomness) - h for h in sides]
        return [_uniform(2 * h + 1, draw, randomness) - h for h, draw in zip(sides, draws, strict=True)]

    def fill(
        self, out: IntArray, randomness: Randomness
    ) -> tuple[IntArray, dict[int, tuple[int, list[int]]]]:
        """Fill the rows of an array, shape (n, d), with vectors, for `draw_many` and for other noise.

        Returns
        -------
        tuple
            The index of each row's box; and, for each row in the tail, its index and its vector as integers
            of any size.
        """
        count, d = out.shape
        words = np.frombuffer(randomness.draws(count * (INDEX_DRAWS + d)), "<u8").astype(np.uint64)
        words = words.reshape(count, INDEX_DRAWS + d, 2)
        first = words[:, 0, 1]
        r, u = words[:, INDEX_DRAWS:, 0], words[:, INDEX_DRAWS:, 1]
        index = np.searchsorted(self._first_words, first, side="right")
        # The first 64 bits decide, unless they equal the first 64 bits of the end of an interval.
        tail = dict[int, tuple[int, list[int]]]()
        for row in np.flatnonzero((index > 0) & (self._first_words[index - 1] == first)).tolist():
            (low_1, high_1), (low_2, high_2) = words[row, :INDEX_DRAWS].tolist()
            draw = high_1 << 192 | low_1 << 128 | high_2 << 64 | low_2
            i = self._law.sample(draw, randomness)
            if i >= len(self._law.weights):
                tail[row] = i, []
            index[row] = min(i, len(self._law.weights) - 1)
        h = np.array(self.core) + index[:, None] * np.array(self.sensitivities)
        n = (2 * h + 1).astype(np.uint64)
        high, low = _product(u, n)
        # The second 64 bits of a draw add less than n to the low half. They matter only if this sum carries,
        # or if the draw may have to be rejected.
        open_rows, open_columns = np.nonzero(low - np.uint64(1) >= ~n)
        for row, j in zip(open_rows.tolist(), open_columns.tolist(), strict=True):
            draw = int(u[row, j]) << 64 | int(r[row, j])
            high[row, j] = _uniform(int(n[row, j]), draw, randomness)
        np.subtract(high.astype(np.int64), h, out=out)
        for row, (i, _) in tail.items():
            point = self._point(i, (), randomness)
            tail[row] = i, point
            out[row] = [wrapped(k) for k in point]
        return index, tail

    def largest(self) -> tuple[int, tuple[int, ...]]:
        """Return the largest index that has a separate weight, and the half widths of its box."""
        index = len(self._law.weights) - 1
        return index, self._law.half_widths(index)

    @cached_property
    def _first_words(self) -> NDArray[np.uint64]:
        """The first 64 bits of the running sums of weights."""
        return np.array([end >> (INDEX_BITS - 64) for end in self._law.ends], dtype=np.uint64)


def _checked_sensitivities(values: Any) -> tuple[int, ...]:
    sensitivities = checked_integers("sensitivities", values, 1, SENSITIVITY_MAX)
    if not 1 <= len(sensitivities) <= _ATTRIBUTES_MAX:
        raise ParameterError(
            f"sensitivities must be 1 to {_ATTRIBUTES_MAX} integers, got {len(sensitivities)}"
        )
    return sensitivities


def _cost(epsilon: float, sensitivities: tuple[int, ...], core: tuple[int, ...], power: float) -> float:
    """Return ``E|X_j|^power`` of the widest attribute j, in units of its sensitivity, as a float."""
    # The terms are b^i times a polynomial of this degree. Beyond this index they are below a float's
    # precision.
    degree = len(core) + power
    i = np.arange(math.ceil((50.0 + 3.0 * degree) / epsilon) + 2, dtype=np.float64)
    sides = [2.0 * (c + i * s) + 1.0 for c, s in zip(core, sensitivities, strict=True)]
    logs = np.log(sides).sum(axis=0) - epsilon * i
    weights = np.exp(logs - logs.max())
    j = sensitivities.index(max(sensitivities))
    h = core[j] + i * sensitivities[j]
    # The mean of |k|^power for k from -h to h, by a sum if it is short, else by the integral.
    near = h <= 2**16
    sums = np.cumsum((np.arange(int(h[near].max(initial=0)) + 1) / sensitivities[j]) ** power)
    means = ((h + 0.5) / sensitivities[j]) ** power / (power + 1.0)
    means[near] = 2.0 * sums[h[near].astype(np.int64)] / (2.0 * h[near] + 1.0)
    return float(weights @ means / weights.sum())


def wrapped(k: int) -> int:
    """Return an integer modulo 2**64, as a signed 64-bit integer."""
    return (k + 2**63) % 2**64 - 2**63


def _uniform(n: int, draw: int, randomness: Randomness) -> int:
    """Return a uniform integer from 0 to n - 1, exactly: the draw times n, without its last 128 bits.

    Draws that leave a remainder below ``2**128 mod n`` are rejected: less than n in 2**128 draws. After that,
    each integer comes from the same number of draws (Lemire 2019, "Fast random integer generation in an
    interval").
    """
    product = draw * n
    while product & _MASK < n and product & _MASK < 2**128 % n:
        r, u = randomness.draw()
        product = (u << 64 | r) * n
    return product >> 128


def _product(u: NDArray[np.uint64], n: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return both halves of the product of two 64-bit integers, from halves of 32 bits."""
    u_low, u_high = u & _LOW, u >> _HALF
    n_low, n_high = n & _LOW, n >> _HALF
    first = u_high * n_low + ((u_low * n_low) >> _HALF)
    second = u_low * n_high + (first & _LOW)
    return u_high * n_high + (first >> _HALF) + (second >> _HALF), u * n
