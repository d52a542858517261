"""The base class of noise for vectors on a grid: it rounds values to the grid, draws noise and adds it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.checks import checked_integer, checked_real
from arcwise.errors import ParameterError
from arcwise.noise.multivariate.box import checked_points
from arcwise.randomness import SYSTEM, Randomness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from arcwise.kernels.certificate import Certificate
    from arcwise.typing import FloatArray, IntArray

_FARTHEST = 2**50
"""The farthest grid point, in steps. Values beyond it are moved to it, which moves no two values apart."""


class VectorGridNoise(ABC):
    """Noise for privacy on a grid of vectors, pure epsilon-DP.

    Attributes
    ----------
    steps
        The distance between two grid points, in the unit of each attribute.
    """

    steps: tuple[float, ...]

    @property
    def dimension(self) -> int:
        """The number of attributes d."""
        return len(self.steps)

    @abstractmethod
    def certificate(self, epsilon: float | None = None) -> Certificate:
        """Return the proved guarantee of the integers: pure epsilon-DP for the changes that it is made for.

        Parameters
        ----------
        epsilon
            The epsilon of the statement. The default is that of the noise.

        Raises
        ------
        CertificateError
            When the integers exceed this epsilon.
        """

    @abstractmethod
    def draw_many(self, count: int, *, randomness: Randomness = SYSTEM) -> IntArray:
        """Return `count` vectors of noise in grid steps, shape (count, d), to be added to integers."""

    def draw(self, *, randomness: Randomness = SYSTEM) -> IntArray:
        """Return one vector of noise in grid steps, shape (d,), to be added to integers."""
        return np.asarray(self.draw_many(1, randomness=randomness)[0])

    def to_grid(self, values: ArrayLike) -> IntArray:
        """Return the grid points nearest to values of shape (..., d): ``floor(value / step + 1/2)``, exactly.

        Values that differ by at most t then differ by at most ``ceil(t / step)`` steps. Rounding halves to
        even numbers, or away from 0, would add a step: for example, values one step apart could move to
        points two steps apart. Results are limited to 2**50 steps, and integer inputs to 2**53.

        Raises
        ------
        ParameterError
            When the values are not finite numbers of this shape.
        """
        steps = np.array(self.steps)
        given = np.asarray(values)
        if given.dtype.kind in "iu":  # a float holds no larger integers exactly
            bounds = np.iinfo(given.dtype)
            given = np.clip(given, max(-(2**53), bounds.min), min(2**53, bounds.max))
        array = checked_points(given, steps.size)
        if not np.isfinite(array).all():
            raise ParameterError("values must be finite, got infinity or NaN")
        # A quotient of floats has a relative error of 2**-53, unless the step is a power of two. This matters
        # near a half, so the quotient is computed there in rational arithmetic.
        with np.errstate(over="ignore"):
            exact = np.clip(array / steps, -_FARTHEST, _FARTHEST)
        whole = np.floor(exact)
        part = exact - whole
        whole += part >= 0.5
        unclear = np.abs(part - 0.5) <= 2.0**-51 * (np.abs(exact) + 1.0)
        unclear &= np.frexp(steps)[0] != 0.5
        widths = np.broadcast_to(steps, array.shape)
        for place in zip(*np.nonzero(unclear), strict=True):
            quotient = Fraction(float(array[place])) / Fraction(float(widths[place])) + Fraction(1, 2)
            whole[place] = min(max(math.floor(quotient), -_FARTHEST), _FARTHEST)
        return np.asarray(whole.astype(np.int64))

    def release(self, values: ArrayLike, *, randomness: Randomness = SYSTEM) -> FloatArray:
        """Return values of shape (..., d), rounded to the grid, plus noise. Every vector costs epsilon.

        Raises
        ------
        ParameterError
            When the values are not finite numbers of this shape.
        """
        points = self.to_grid(values)
        noise = self.draw_many(math.prod(points.shape[:-1]), randomness=randomness)
        return np.asarray((points + noise.reshape(points.shape)) * np.array(self.steps))


def checked_integers(name: str, values: Any, least: int, most: int) -> tuple[int, ...]:
    """Return a sequence of integers as a tuple, or raise `ParameterError`."""
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise ParameterError(f"{name} must be a sequence of integers, got {values!r}")
    return tuple([checked_integer(f"{name}[{j}]", value, least, most) for j, value in enumerate(values)])


def checked_positive(name: str, values: Any, default: Sequence[float]) -> tuple[float, ...]:
    """Return one positive number for each attribute as floats, or the default numbers if none are given.

    There must be as many numbers as in `default`.
    """
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise ParameterError(f"{name} must be a sequence of numbers, got {values!r}")
    given = tuple(values) or tuple(default)
    numbers = tuple([checked_real(f"{name}[{j}]", value, above=0) for j, value in enumerate(given)])
    if len(numbers) != len(default):
        raise ParameterError(
            f"{name} and sensitivities must be equally long, got {len(numbers)} and {len(default)} numbers"
        )
    return numbers


def checked_grid_points(k: ArrayLike, dimension: int) -> IntArray:
    """Return grid points as integers of shape (..., d), or raise `ParameterError`."""
    array = np.asarray(k)
    if array.dtype.kind not in "iu" or not array.ndim or array.shape[-1] != dimension:
        raise ParameterError(f"k must be integers of shape (..., {dimension}), got {k!r}")
    return array.astype(np.int64)
