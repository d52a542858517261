"""Tails of an average, or of a sum of averages, in standard errors below its mean, from three moments.

A normal tail is too short if the average depends on a few reports, as for a rare value at a large epsilon.
Here the distance of an average below its mean is treated as a Poisson number of steps, with the same variance
and third moment. This law is exact if k reports have one weight and all other reports have the weight 0; for
many reports it is normal.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_ROOTS = 37.0  # standard errors beyond which a tail underflows a float

_FEW = 5.0
"""At this number of steps, half of the probability that a mid-p tail leaves out is counted.

A mid-p tail leaves out half of the probability of the observed number.

With fewer steps a larger part of this probability is counted. With no steps all of it is counted, which gives
an exact tail. So intervals for the mean of a Poisson number miss at most 1.2 times as often as the level
allows, at levels from 0.5 to 0.9999. For a number of 30 the interval is no wider than Wilson's.
"""

_MANY = 1000.0
"""From this number of steps on, a Poisson number differs from a normal number only by its skewness."""

_SECANTS = 6  # secant steps before a slower search that works for any curve


class Again(NamedTuple):
    """The part of an average's error that more reports from the same devices do not reduce.

    It equals the error of a mean of numbers that all lie at one of two bounds (Bhatia and Davis). `repeats`
    is ``(m - 1) / n`` for n reports with at most m per device; `value` is the average; `low` and `high` are
    the bounds of a device's number.
    """

    repeats: float
    value: float
    low: float
    high: float

    def moments(self, shift: float) -> tuple[float, float]:
        """Return the second and third central moments added if the mean is `shift` above the average."""
        at = min(max(self.value + shift, self.low), self.high)
        variance = self.repeats * (at - self.low) * (self.high - at)
        return variance, self.repeats * variance * (self.high + self.low - 2.0 * at)


class Sample(NamedTuple):
    """An average over one sample's reports, as a part of a sum.

    The average enters the sum with the positive `factor`. `room` is the largest possible weight of a report,
    minus the average. `variance` and `third` are the second and third central moments of the weights of the n
    reports. `again` is the additional error where devices report several times.
    """

    factor: float
    n: float
    room: float
    variance: float
    third: float
    again: Again | None = None

    @property
    def slope(self) -> float:
        """Growth of the sum's variance with its mean, for the first reports that get the largest weight."""
        return self.factor / self.n * (self.room - self.variance / self.room)


def roots(samples: Sequence[Sample], up: float) -> float:
    """Return how many standard errors a sum lies below its mean, if the mean is `up` above the sum.

    The samples are in descending order of `slope`, and `up` is not negative.

    The mean is raised by giving a share of the reports the largest weight, first in the sample where this
    adds the most variance.
    """
    variance = third = 0.0
    left = up
    for factor, n, room, second, cubed, again in samples:
        shift = min(left / factor, room)
        left -= factor * shift
        share = shift / room
        variance += factor**2 / n * (second + (room - second / room - shift) * shift)
        moved = (1.0 - share) * (cubed - 3.0 * shift * second - shift**3) + share * (room - shift) ** 3
        third += factor**3 / n**2 * moved
        if again:
            more, skewed = again.moments(shift)
            variance += factor**2 * more
            third += factor**3 * skewed
    if left > 0.0 or not variance > 0.0:
        return _MOST_ROOTS if up > 0.0 else -_MOST_ROOTS
    step, error = third / variance, math.sqrt(variance)
    if step * step * _MANY < variance:
        plain = up / error
        return min(plain + step / error * (plain * plain - 1.0) / 6.0, _MOST_ROOTS)
    from scipy.special import gammainc, gammaincc, ndtri

    expected = variance / step**2
    number = max(expected - up / step, 0.0)
    whole = 0.5 + 0.5 / (1.0 + number / _FEW)
    # The probability of at most `number` steps, or of at least `number` if steps go down.
    tail = gammaincc if step > 0.0 else gammainc
    counted, beyond = (number + 1.0, number) if step > 0.0 else (number, number + 1.0)
    left_out = tail(beyond, expected) if beyond > 0.0 else 0.0
    return min(-float(ndtri(whole * tail(counted, expected) + (1.0 - whole) * left_out)), _MOST_ROOTS)


def furthest(samples: Sequence[Sample], root: float) -> float:
    """Return how far above a sum its mean may lie: the inverse of `roots`."""
    if not samples:
        return 0.0
    slope = root * samples[0].slope / 2  # as if the variance grew linearly: Wilson's bound
    variance = sum(each.factor**2 * each.variance / each.n for each in samples)
    variance += sum(each.factor**2 * each.again.moments(0.0)[0] for each in samples if each.again)
    up = root * (slope + math.sqrt(variance + slope * slope))
    room = (1.0 - 1e-12) * sum(each.factor * each.room for each in samples)
    guess, before = up, 0.9 * up
    if 0.0 < up < room:
        found = roots(samples, before)
        for _ in range(_SECANTS):
            last, found = found, roots(samples, up)
            if found == last:
                break
            step = (root - found) * (up - before) / (found - last)
            before, up = up, up + step
            if not 0.0 < up < room:
                break
            if abs(step) <= 1e-6 * up:
                return up
    if roots(samples, 0.0) >= root:
        return 0.0
    if roots(samples, room) <= root:
        return room
    from scipy.optimize import brentq

    # An absolute tolerance of 2e-12 is too large: distances with many reports of small weights are this
    # small.
    closest = max(1e-9 * guess, 1e-300)
    return float(brentq(lambda up: roots(samples, up) - root, 0.0, room, xtol=closest, rtol=1e-7))
