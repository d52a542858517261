"""Noise for privacy: a distribution on a grid with integer weights, an exact certificate and secure draws."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.checks import checked_integer, checked_real
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import UNIT, Certificate, exp_lower_bound
from arcwise.kernels.inversion import Inversion
from arcwise.noise.base import ContinuousNoise, DiscreteNoise, checked_epsilon
from arcwise.noise.integer_noise import IntegerNoise
from arcwise.randomness import SYSTEM, Randomness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from arcwise.noise.base import Noise
    from arcwise.noise.expectation import Function
    from arcwise.typing import FloatArray, IntArray

_GRID_POINTS_MAX = 2**22
"""The most weights in a table: 32 MB."""

_CHUNK = 2**16
_GUIDED_MAX = 2**16
"""Larger tables exceed the guide table of `Inversion` and use a binary search, which is ten times slower."""

_LOW = np.uint64(2**32 - 1)
_HALF = np.uint64(32)


class GridNoise:
    """Noise on a grid with integer weights: it is ``k * step`` with the probability ``weight[k] / 2**64``.

    The last bits of a float sum ``value + noise`` depend on the value, and so reveal it (Mironov 2012, "On
    significance of the least significant bits for differential privacy"). Here, no number is a float before
    the noise is added: bring the value to the grid as an integer, add the integer from `draw`, and multiply
    the sum by `step`. The certificate is exact, regardless of how the weights were made (`certificate`).

    A finite table cannot be pure epsilon-DP, because a shifted copy of it reaches points that the table does
    not reach. With a sensitivity of s, the delta of the certificate is therefore at least the total weight of
    the last s points. For the tables of `from_noise`, delta is about ``e^epsilon 2**-64``. If you need pure
    epsilon-DP, for one number or for several, use a `BoxGridNoise`, which has no last point.

    Parameters
    ----------
    weights
        At least two non-negative integers with the sum 2**64.
    first
        The grid index k of the first weight; k increases by 1 from weight to weight.
    step
        The distance between two grid points, in the unit of the value; positive.

    Raises
    ------
    ParameterError
        When the weights are not such integers, or there are more than 2**22 weights.

    Examples
    --------
    >>> from arcwise.noise import Staircase
    >>> noise = GridNoise.from_noise(Staircase.optimal(0.999999999), step=0.01)
    >>> noise.certificate(epsilon=1.0, sensitivity=100).delta < 2**16
    True
    """

    __slots__ = ("_ends", "_first", "_inversion", "_step", "_weights")

    _weights: NDArray[np.uint64]
    _ends: NDArray[np.uint64]
    _inversion: Inversion | None

    def __init__(self, weights: Sequence[int], *, first: int, step: float = 1.0) -> None:
        if not 2 <= len(weights) <= _GRID_POINTS_MAX:
            raise ParameterError(f"weights must be 2 to {_GRID_POINTS_MAX} integers, got {len(weights)}")
        numbers = [checked_integer(f"weights[{n}]", weight, 0, UNIT - 1) for n, weight in enumerate(weights)]
        self._set(np.array(numbers, dtype=np.uint64), checked_integer("first", first, -(2**53), 2**53), step)

    def _set(self, weights: NDArray[np.uint64], first: int, step: float) -> None:
        total = _exact_sum(weights)
        if total != UNIT:
            raise ParameterError(f"weights must sum to 2**64 = {UNIT}, got {total}")
        weights.flags.writeable = False
        self._weights, self._first, self._step = weights, first, checked_real("step", step, above=0)
        # The running sums below 2**64. The sum of all weights, 2**64, does not fit into uint64 and is not
        # needed.
        last = int(np.flatnonzero(weights)[-1])
        self._ends = np.cumsum(weights[:last], dtype=np.uint64)
        self._inversion = None

    @classmethod
    def from_noise(cls, noise: Noise, *, step: float = 1.0) -> GridNoise:
        """Return the grid version of a distribution, in which each point has the mass of the cell around it.

        The result is the noise rounded to the grid, so it keeps (epsilon, delta) for values on the grid. When
        the masses are rounded to integers, a ratio can exceed e^epsilon in its last digit, which the
        certificate counts as delta. To avoid this, start from a distribution with a slightly smaller epsilon,
        such as ``epsilon * (1 - 1e-9)``. Then only the tail contributes to delta.

        Parameters
        ----------
        noise
            A distribution of this package. For noise on the integers, each grid point is an integer.
        step
            The distance between two grid points, in the unit of the noise. For noise on the integers the unit
            is one integer, and the step only scales the result.

        Raises
        ------
        ParameterError
            When the grid would have more than 2**22 points (take a larger step), or the step is too large or
            too small for the noise.
        """
        step = checked_real("step", step, above=0)
        if isinstance(noise, DiscreteNoise):
            reach = -noise.ppf(2.0**-66)
        elif isinstance(noise, ContinuousNoise):
            reach = min(noise.isf(2.0**-66), noise.support[1]) / step + 1.0
        else:
            raise ParameterError(f"noise must be a distribution of arcwise.noise, got {noise!r}")
        if not 2.0 * reach + 1.0 <= _GRID_POINTS_MAX:
            raise ParameterError(
                f"step must be large enough for at most {_GRID_POINTS_MAX} grid points, got {step!r}, "
                f"which needs {2.0 * reach + 1.0:.0f}"
            )
        k = np.arange(1.0, math.ceil(reach) + 1.0)
        if isinstance(noise, DiscreteNoise):
            masses, middle = noise.pmf(k), noise.pmf(0.0)
        else:
            tails = noise.sf(np.append(k - 0.5, k[-1] + 0.5) * step)
            masses, middle = tails[:-1] - tails[1:], 1.0 - 2.0 * tails[0]
        # A float times 2**64 is exact and is rounded to an integer; the point 0 gets the remaining weight.
        side = np.rint(np.ldexp(np.maximum(masses, 0.0), 64)).astype(np.uint64)
        side = np.trim_zeros(side, "b")
        if not side.size:
            raise ParameterError(f"step must be small enough for noise other than 0, got {step!r}")
        centre = UNIT - 2 * _exact_sum(side)
        if abs(centre / UNIT - middle) > 1e-6 * middle:
            raise ParameterError(f"step must be larger: at {step!r} rounding changes the weight of 0")
        grid = cls.__new__(cls)
        grid._set(np.concatenate([side[::-1], np.array([centre], np.uint64), side]), -side.size, step)
        return grid

    @classmethod
    def for_integers(
        cls,
        epsilon: float,
        delta: float,
        sensitivity: int = 1,
        *,
        power: float = 1.0,
        loss: Function | None = None,
    ) -> GridNoise:
        """Return the noise of least loss for integers under (epsilon, delta), with a certificate for both.

        Parameters
        ----------
        epsilon, delta, sensitivity, power, loss
            As in `IntegerNoise.optimal`. The result is the grid version of that noise. It is made at a
            slightly smaller epsilon and delta, to leave room for rounding the masses to integers.

        Raises
        ------
        ParameterError
            When an argument is out of its bounds; delta must be at least 2**-50.

        Examples
        --------
        >>> noise = GridNoise.for_integers(1.0, 1e-4)
        >>> noise.certificate(1.0, 1).delta <= 1e-4 * 2**64
        True
        """
        delta = checked_real("delta", delta, least=2.0**-50, below=1.0, advice=": weights have 64 bits")
        for spare in (1e-9, 1e-7, 1e-5, 1e-3):
            law = IntegerNoise.optimal(
                epsilon * (1.0 - 1e-9), delta * (1.0 - spare), sensitivity, power=power, loss=loss
            )
            grid = cls.from_noise(law)
            if grid.certificate(epsilon, sensitivity).delta <= delta * UNIT:
                return grid
        raise ParameterError(f"delta must be larger for weights of 64 bits, got {delta!r}")

    @property
    def weights(self) -> NDArray[np.uint64]:
        """The weights, read-only; they sum to exactly 2**64."""
        return self._weights

    @property
    def first(self) -> int:
        """The k of the first weight."""
        return self._first

    @property
    def step(self) -> float:
        """The distance between two grid points."""
        return self._step

    @property
    def values(self) -> FloatArray:
        """The noise ``k * step`` of each weight."""
        return np.arange(self._first, self._first + self._weights.size, dtype=np.float64) * self._step

    def var(self) -> float:
        """Return the variance of the noise, a sum over the weights, in the square of the unit of `step`."""
        probabilities = np.ldexp(self._weights.astype(np.float64), -64)
        values = self.values
        return float(np.dot(probabilities, (values - np.dot(probabilities, values)) ** 2))

    def certificate(self, epsilon: float, sensitivity: int) -> Certificate:
        """Return the exact guarantee of the weights for integers that change by at most `sensitivity`.

        Parameters
        ----------
        epsilon
            The epsilon of the statement, from 0 to 50.
        sensitivity
            The largest change of the value in grid steps, at least 1.

        Returns
        -------
        Certificate
            Its delta is ``max over shifts d of sum_k max(0, w[k] - e^epsilon w[k + d])`` in units of 2**-64,
            rounded up, computed with a rational lower bound of e^epsilon. The computation takes `sensitivity`
            passes over the table.
        """
        epsilon = checked_epsilon(epsilon, zero=True)
        sensitivity = checked_integer("sensitivity", sensitivity, 1)
        delta = largest_delta(self._weights, epsilon, sensitivity)
        return Certificate(epsilon=epsilon, delta=delta, ratio=None)

    def draw(self, *, randomness: Randomness = SYSTEM) -> int:
        """Return one k, the noise in grid steps, as an exact integer to be added to an integer.

        It takes one draw of 16 bytes ``(r, u)`` and does not use r. The running sums of the weights divide
        the range of u into intervals, one for each k. The result is the k of the interval that contains u.
        """
        _, u = randomness.draw()
        return self._first + int(np.searchsorted(self._ends, np.uint64(u), side="right"))

    def draw_many(self, count: int, *, randomness: Randomness = SYSTEM) -> IntArray:
        """Return `count` numbers k, from the same draws in the same order as `count` calls of `draw`."""
        count = checked_integer("count", count, 0)
        out = np.empty(count, np.int64)
        for start in range(0, count, _CHUNK):
            part = min(_CHUNK, count - start)
            u = np.frombuffer(randomness.draws(part), "<u8").reshape(-1, 2)[:, 1]
            out[start : start + part] = self._points(u.astype(np.uint64))
        out += self._first
        return out

    def _points(self, u: NDArray[np.uint64]) -> NDArray[Any]:
        """Return the index of the weight that each draw selects."""
        if self._weights.size > _GUIDED_MAX:
            return np.searchsorted(self._ends, u, side="right")
        if self._inversion is None:
            self._inversion = Inversion([list(accumulate(self._weights.tolist()))])
        return self._inversion.sample_many(np.zeros(u.size, np.int64), u)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, GridNoise):
            return NotImplemented
        same = (self._first, self._step) == (other._first, other._step)
        return same and np.array_equal(self._weights, other._weights)

    def __hash__(self) -> int:
        return hash((self._first, self._step, self._weights.tobytes()))

    def __repr__(self) -> str:
        last = self._first + self._weights.size - 1
        return f"GridNoise({self._weights.size} weights, k from {self._first} to {last}, step={self._step!r})"


def largest_delta(weights: NDArray[np.uint64], epsilon: float, reach: int) -> int:
    """Return ``max over 0 < |d| <= reach of sum_k max(0, w[k] - e^epsilon w[k + d])``, rounded up.

    The n weights have the sum 2**64 and are 0 outside the table, so shifts of n or more all give 2**64. In
    place of e^epsilon, its rational lower bound E is used, which can only make the result larger.

    The computation is exact. A term counts if ``w[k] > floor(E w[k + d])``, a comparison of integers. The
    counted terms add up to ``sum w[k] - E sum w[k + d]``. Both are sums of integers. They are computed from
    32-bit halves, because a sum can be 2**64.
    """
    if reach >= weights.size:
        return UNIT
    bound = exp_lower_bound(epsilon)
    # w > floor(E w') is only possible for floor(E w') below 2**64, so larger numbers are cut to 2**64 - 1.
    scaled = [min(w * bound.numerator // bound.denominator, UNIT - 1) for w in weights.tolist()]
    thresholds = np.array(scaled, dtype=np.uint64)
    sides = [(weights, thresholds)]
    if not np.array_equal(weights, weights[::-1]):
        sides.append((weights[::-1], thresholds[::-1]))
    largest = 0
    for w, threshold in sides:
        for shift in range(1, reach + 1):
            # The last `shift` weights have no counterpart, so they count in full.
            counts = w[:-shift] > threshold[shift:]
            gain = _exact_sum(w[-shift:]) + _exact_sum(w[:-shift][counts])
            loss = _exact_sum(w[shift:][counts])
            delta = -((loss * bound.numerator - gain * bound.denominator) // bound.denominator)
            largest = max(largest, delta)
    return largest


def _exact_sum(weights: NDArray[np.uint64]) -> int:
    """Return the sum of the weights as an integer; a sum of uint64 would be modulo 2**64."""
    high, low = int((weights >> _HALF).sum(dtype=np.uint64)), int((weights & _LOW).sum(dtype=np.uint64))
    return (high << 32) + low
