"""The exact probabilities of the infinitely many boxes from which a vector of integers is drawn.

Each index below some number I has an integer weight in units of 2**-256. All other indices, the tail, share
one more weight. In the tail, index i has a probability in proportion to ``b^i N_i``, where b is rational and
N_i is the number of points of box i. So every index is possible, every probability is rational, and nothing
is cut off.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from arcwise.errors import ParameterError
from arcwise.kernels.certificate import exp_lower_bound
from arcwise.noise.series import binomial_coefficients

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.randomness import Randomness

INDEX_DRAWS = 2
"""The number of draws of 128 bits that pick an index. With one draw, the last weights would have few digits.
Each height depends on later heights, so the ratios of heights would have larger errors than the bound
allows."""

INDEX_BITS = 128 * INDEX_DRAWS

_INDICES_MAX = 2**16
"""The most indices with a separate weight."""

_TAIL_BITS = 80  # the indices without a separate weight have less than 2**-80 together
_DECAY = 1 << 192  # the denominator of b
_SPARE = 64  # additional bits beyond those of the weights, so that the weight of the tail is known
_DIGITS = 256  # binary digits of powers of b: they place weights, and no bound depends on them


def below(n: int, randomness: Randomness) -> int:
    """Return an exactly uniform integer from 0 to n - 1; draws that give a larger number are repeated."""
    bits = (n - 1).bit_length()
    while True:
        value = 0
        for _ in range(-(-bits // 128)):
            r, u = randomness.draw()
            value = value << 128 | u << 64 | r
        value &= (1 << bits) - 1
        if value < n:
            return value


class ShellLaw:
    """The distribution of the index i of the box ``|x_j| <= core[j] + i slopes[j]`` for all j.

    Shell k contains the points in box k that are not in box k - 1. Draw an index, and then a uniform point of
    its box. Each single point of shell k then has the probability ``sum over i >= k of P(i) / N_i``, the
    height of the shell. The heights of neighbouring shells differ by a factor of at most e^epsilon. `weights`
    are the weights of the indices 0, 1, ..., I - 1, in units of 2**-256, and `tail` is the weight of all
    other indices together.

    The weights are first those of the distribution with the decay b, rounded down; b is 2**-60 above
    e^-epsilon. Then, from the last weight to the first, each is lowered where necessary to
    ``w_k <= N_k (E - 1) height(k + 1)`` in integers, where E is the lower bound of e^epsilon. The remaining
    weight goes to the largest weight; the 2**-60 leave room for it. `ratio` does not depend on any of this:
    it uses the final weights.
    """

    def __init__(self, epsilon: float, slopes: Sequence[int], core: Sequence[int]) -> None:
        self.epsilon, self._slopes, self._core = epsilon, tuple(slopes), tuple(core)
        bound = exp_lower_bound(epsilon)
        self._decay = math.floor(_DECAY / bound * (1 + Fraction(1, 1 << 60))) + 1
        self.weights, self.tail = self._rounded()
        height, most = self._fixed_tail_height, bound - 1
        for k in range(len(self.weights) - 1, -1, -1):
            points = self.points(k)
            room = points * most.numerator * height // (most.denominator << self._bits)
            self.weights[k] = min(self.weights[k], room)
            height += (self.weights[k] << self._bits) // points
        largest = max(range(len(self.weights)), key=self.weights.__getitem__)
        self.weights[largest] += (1 << INDEX_BITS) - self.tail - sum(self.weights)

    def half_widths(self, index: int) -> tuple[int, ...]:
        """Return the half widths of the box of this index."""
        return tuple([c + index * s for c, s in zip(self._core, self._slopes, strict=True)])

    def points(self, index: int) -> int:
        """Return N_i, the number of points of the box of this index."""
        return math.prod([2 * h + 1 for h in self.half_widths(index)])

    @property
    def decay(self) -> Fraction:
        """The b of the tail, where each height is b times the one before it."""
        return Fraction(self._decay, _DECAY)

    @cached_property
    def ends(self) -> list[int]:
        """The running sums of the weights; draws from the last sum on are in the tail."""
        return list(accumulate(self.weights))

    def sample(self, draw: int, randomness: Randomness) -> int:
        """Return the index that a draw of 256 bits picks; only an index in the tail takes more draws."""
        index = bisect_right(self.ends, draw)
        return index if index < len(self.weights) else index + self._beyond(randomness)

    def height(self, shell: int) -> Fraction:
        """Return the exact probability of each single point of this shell, which is a long sum."""
        last = len(self.weights)
        own = sum((Fraction(self.weights[k], self.points(k)) for k in range(shell, last)), Fraction(0))
        return (own + self._tail_height * self.decay ** max(0, shell - last)) / (1 << INDEX_BITS)

    @cached_property
    def heights(self) -> list[int]:
        """The heights of the shells 0 to I in units of `unit`, rounded down."""
        heights = [self._fixed_tail_height]
        for k in range(len(self.weights) - 1, -1, -1):
            heights.append(heights[-1] + (self.weights[k] << self._bits) // self.points(k))
        return heights[::-1]

    @property
    def unit(self) -> int:
        """The denominator of `heights`."""
        return 1 << (INDEX_BITS + self._bits)

    @cached_property
    def ratio(self) -> Fraction:
        """The largest ratio of the heights of neighbouring shells, rounded up by less than 2**-200.

        The height of shell k is ``1 + w_k / (N_k height(k + 1))`` times that of the next shell. In the tail
        it is 1/b times that of the next shell.
        """
        excess = Fraction(0)
        for k, weight in enumerate(self.weights):
            above, under = weight << self._bits, self.points(k) * self.heights[k + 1]
            if above * excess.denominator > excess.numerator * under:
                excess = Fraction(above, under)
        return max(1 + excess, 1 / self.decay)

    def _rounded(self) -> tuple[list[int], int]:
        """Return the weights and the tail's weight of the distribution with the decay b, rounded down."""
        series = self._series(0)
        shift = _DIGITS + math.ceil(series).bit_length()
        scale = (series.denominator << (INDEX_BITS + _SPARE + shift)) // series.numerator
        power, places = 1, 0  # b^i is power / 2**places
        left, weights = 1 << (INDEX_BITS + _SPARE), list[int]()
        while left >> (INDEX_BITS + _SPARE - _TAIL_BITS):
            if len(weights) == _INDICES_MAX:
                raise ParameterError(
                    f"epsilon must be large enough for at most {_INDICES_MAX} shells, got {self.epsilon!r} "
                    f"for {len(self._slopes)} attributes"
                )
            weight = power * self.points(len(weights)) * scale >> (places + shift)
            weights.append(weight >> _SPARE)
            left -= weight
            power *= self._decay
            spare = max(0, power.bit_length() - _DIGITS)
            power, places = power >> spare, places + _DECAY.bit_length() - 1 - spare
        return weights, left >> _SPARE

    def _parts(self, first: int) -> list[int]:
        """Return the terms of `_series` by k as integers, all multiplied by the same factor."""
        b, rest, dimension = self._decay, _DECAY - self._decay, len(self._slopes)
        sides = [2 * h + 1 for h in self.half_widths(first)]
        coefficients = binomial_coefficients(sides, [2 * s for s in self._slopes])
        return [a * b**k * rest ** (dimension - k) for k, a in enumerate(coefficients)]

    def _series(self, first: int) -> Fraction:
        """Return ``sum_{i >= 0} b^i N_(first + i)``.

        It uses ``N_(first + i) = sum_k a_k C(i, k)``. With the factors b^i, term k sums to
        ``a_k b^k / (1 - b)^(k + 1)``.
        """
        rest = _DECAY - self._decay
        return Fraction(_DECAY * sum(self._parts(first)), rest ** (len(self._slopes) + 1))

    @cached_property
    def _tail_height(self) -> Fraction:
        """The height of shell I, in units of 2**-256."""
        return self.tail / (self._series(len(self.weights)) * (1 - self.decay))

    @cached_property
    def _bits(self) -> int:
        """The number of binary places of a height in units of 2**-256."""
        return INDEX_BITS + self.points(len(self.weights)).bit_length()

    @property
    def _fixed_tail_height(self) -> int:
        return (self._tail_height.numerator << self._bits) // self._tail_height.denominator

    def _beyond(self, randomness: Randomness) -> int:
        """Return the distance of an index of the tail from I.

        By `_parts` the distance has a mixture distribution over k: it is k plus the sum of k + 1 geometric
        numbers.
        """
        ends = list(accumulate(self._parts(len(self.weights))))
        k = bisect_right(ends, below(ends[-1], randomness))
        index = k
        for _ in range(k + 1):
            while below(_DECAY, randomness) < self._decay:
                index += 1
        return index
