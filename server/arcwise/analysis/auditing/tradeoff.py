"""The hypothesis-testing region of a mechanism: how well any test distinguishes two inputs by one report.

An attacker knows that the input is one of two, and decides by a report. The false alarm is the probability of
rejecting the first input if it is true. The missed detection is the probability of keeping the first input if
the second is true (Geng and Viswanath, section I-A1, equations 3 to 11). All results are exact: the
probabilities are the kernel's integers over 2^64, and the best tests are those of Neyman and Pearson.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key
from typing import TYPE_CHECKING

from arcwise.checks import checked_integer, checked_real, explained, shown
from arcwise.errors import ParameterError
from arcwise.kernels.base import Kernel
from arcwise.kernels.certificate import UNIT
from arcwise.mechanisms.base import Mechanism
from arcwise.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_WORK = 2**23
"""Most pairs of nodes, times codes, among which the worst pair is searched: this takes some seconds."""


@dataclass(frozen=True)
class Tradeoff:
    """The achievable errors of tests between two inputs: all points on and above a convex, falling polygon.

    Attributes
    ----------
    inputs
        The first and the second input: values of a mechanism's domain, or nodes of a kernel.
    false_alarm
        The false alarms of the corners, ascending from 0 to 1; exact.
    missed_detection
        The missed detections of the same corners, falling from at most 1 to 0; exact. Each is the least
        missed detection at the corner's false alarm.
    """

    inputs: tuple[float, float]
    false_alarm: tuple[Fraction, ...]
    missed_detection: tuple[Fraction, ...]

    def least_missed_detection(self, false_alarm: float | Fraction) -> Fraction:
        """Return the least missed detection of all tests with at most this false alarm, from 0 to 1."""
        at = _share("false_alarm", false_alarm)
        after = bisect_right(self.false_alarm, at)
        if after == len(self.false_alarm):
            return self.missed_detection[-1]
        left, right = self.false_alarm[after - 1], self.false_alarm[after]
        low, high = self.missed_detection[after - 1], self.missed_detection[after]
        return low + (high - low) * (at - left) / (right - left)

    @property
    def least_sum(self) -> Fraction:
        """The least sum of both errors: 1 minus the total variation distance of the two inputs' reports."""
        return min(a + b for a, b in zip(self.false_alarm, self.missed_detection, strict=True))

    def delta(self, epsilon: float) -> float:
        """Return the least delta with ``missed detection >= 1 - delta - e^epsilon false alarm`` for any test.

        The delta is for these two inputs in this order, and for an epsilon of at least 0. It is rounded to a
        float.
        """
        growth = Fraction(math.exp(checked_real("epsilon", epsilon, least=0)))
        corners = zip(self.false_alarm, self.missed_detection, strict=True)
        return float(max(1 - b - growth * a for a, b in corners))


@explained
def least_missed_detection(false_alarm: float, epsilon: float, delta: float = 0.0) -> float:
    """Return the least missed detection of any test, by (epsilon, delta)-DP alone.

    Parameters
    ----------
    false_alarm
        The false alarm, from 0 to 1.
    epsilon
        The epsilon of the mechanism, at least 0.
    delta
        The delta of the mechanism, from 0 to 1.

    Notes
    -----
    The result is ``max(0, 1 - delta - e^epsilon a, e^-epsilon (1 - delta - a))`` with a the false alarm, from
    equations 10 and 11 of Geng and Viswanath, extended by a delta.

    Examples
    --------
    >>> round(least_missed_detection(0.1, 1.0), 6)
    0.728172
    """
    a = checked_real("false_alarm", false_alarm, least=0, most=1)
    epsilon = checked_real("epsilon", epsilon, least=0)
    rest = 1.0 - checked_real("delta", delta, least=0, most=1)
    steep = rest - math.exp(min(epsilon, 700.0)) * a if a else rest
    return max(0.0, steep, math.exp(-epsilon) * (rest - a))


@explained
def tradeoff(mechanism: Mechanism | Task | Kernel, first: float, second: float) -> Tradeoff:
    """Return how well tests distinguish two inputs of a mechanism by one report.

    Parameters
    ----------
    mechanism
        A `Mechanism`, a `Task`, or a `Kernel`, which has nodes as inputs.
    first, second
        Two inputs. A value between two nodes is randomly rounded to one of them, as on a device.

    Raises
    ------
    ParameterError
        When the first argument is of another type.
    DomainError
        When an input is not in the domain.

    Examples
    --------
    >>> from arcwise.domains import Interval
    >>> from arcwise.mechanisms import RandomizedResponse
    >>> region = tradeoff(RandomizedResponse(Interval(0, 1, step=1), epsilon=1.0), 0, 1)
    >>> [round(float(a), 4) for a in region.false_alarm]
    [0.0, 0.2689, 1.0]
    >>> [round(float(b), 4) for b in region.missed_detection]
    [1.0, 0.2689, 0.0]
    """
    return _region((first, second), _row(mechanism, first), _row(mechanism, second))


@explained
def worst_tradeoff(mechanism: Mechanism | Task | Kernel) -> Tradeoff:
    """Return the region of the two inputs that are easiest to distinguish: with the least sum of both errors.

    Values between two nodes are never easier to distinguish than the nodes, so only pairs of nodes are
    compared.

    Parameters
    ----------
    mechanism
        A `Mechanism`, a `Task`, or a `Kernel`, which has nodes as inputs.

    Raises
    ------
    ParameterError
        When the argument is of another type, or has too many nodes and codes to compare all pairs.
    """
    kernel, own = _parts(mechanism)
    pairs = kernel.nodes - 1 if kernel.circular else kernel.nodes * (kernel.nodes - 1) // 2
    if pairs * kernel.codes > _MOST_WORK:
        raise ParameterError(
            f"mechanism must have fewer nodes and codes: pairs of nodes times codes must be at most "
            f"{_MOST_WORK:,}, got {pairs:,} pairs and {kernel.codes:,} codes; name two inputs instead"
        )
    rows = [kernel.row(node) for node in range(kernel.nodes)]
    firsts = range(1) if kernel.circular else range(kernel.nodes)  # turned pairs are equivalent
    best = max(
        ((s, t) for s in firsts for t in range(s + 1, kernel.nodes)),
        key=lambda pair: sum(abs(v - w) for v, w in zip(rows[pair[0]], rows[pair[1]], strict=True)),
    )
    first, second = best
    inputs = _value(own, first), _value(own, second)
    return _region(inputs, [Fraction(w) for w in rows[first]], [Fraction(w) for w in rows[second]])


def _parts(mechanism: object) -> tuple[Kernel, Mechanism | None]:
    """Return the kernel, and the mechanism if the inputs are values of its domain instead of nodes."""
    own = mechanism.mechanism if isinstance(mechanism, Task) else mechanism
    if isinstance(own, Mechanism):
        return own.kernel, own
    if isinstance(own, Kernel):
        return own, None
    raise ParameterError(f"mechanism must be a Mechanism, a Task or a Kernel, got {shown(mechanism)}")


def _value(own: Mechanism | None, node: int) -> float:
    """Return the value at a node, moved into the domain; without a mechanism, the node's number."""
    if own is None:
        return float(node)
    if own.lattice is not None:
        return float(own.domain.values()[int(own.node_places()[node])])
    import numpy as np

    units = own.node_units(np.array([float(node)]))
    return float(own.domain.from_unit(units % 1.0 if own.kernel.circular else units.clip(0.0, 1.0))[0])


def _row(mechanism: object, value: float) -> list[Fraction]:
    """Return the weights of an input's reports: a mixture of two rows if it lies between two nodes."""
    kernel, own = _parts(mechanism)
    if own is None:
        whole = int(value) if float(value).is_integer() else value
        node = checked_integer("first and second", whole, 0, kernel.nodes - 1)
        return [Fraction(weight) for weight in kernel.row(node)]
    position = own.locate(value)
    node = int(position)
    # A device compares 53 random bits with the fraction.
    share = Fraction(math.ceil((position - node) * 2**53), 2**53)
    low = kernel.row(node % kernel.nodes)
    if not share:
        return [Fraction(weight) for weight in low]
    high = kernel.row((node + 1) % kernel.nodes)
    return [v + share * (w - v) for v, w in zip(low, high, strict=True)]


def _region(inputs: tuple[float, float], first: Sequence[Fraction], second: Sequence[Fraction]) -> Tradeoff:
    """Return the lower boundary: codes are rejected by the ratio of both weights, the largest first."""
    codes = [(v, w) for v, w in zip(first, second, strict=True) if v or w]
    codes.sort(key=cmp_to_key(_by_ratio))
    alarm, missed = [Fraction(0)], [Fraction(1)]
    last: tuple[Fraction, Fraction] | None = None
    for v, w in codes:
        a, b = alarm[-1] + v / UNIT, missed[-1] - w / UNIT
        if last is not None and _by_ratio(last, (v, w)) == 0:
            alarm[-1], missed[-1] = a, b  # the same ratio: one edge
        elif not v and last is None:
            missed[-1] = b  # the first input never gives this code: rejected without a false alarm
            continue
        else:
            alarm.append(a)
            missed.append(b)
        last = (v, w)
    while len(missed) > 1 and missed[-2] == 0:  # codes that the second input never gives are not rejected
        alarm.pop()
        missed.pop()
    if alarm[-1] < 1:
        alarm.append(Fraction(1))
        missed.append(Fraction(0))
    return Tradeoff(inputs, tuple(alarm), tuple(missed))


def _by_ratio(one: tuple[Fraction, Fraction], other: tuple[Fraction, Fraction]) -> int:
    left, right = one[1] * other[0], other[1] * one[0]
    return (left < right) - (left > right)


def _share(name: str, value: float | Fraction) -> Fraction:
    exact = value if isinstance(value, Fraction) else Fraction(checked_real(name, value, least=0, most=1))
    if not 0 <= exact <= 1:
        raise ParameterError(f"{name} must be from 0 to 1, got {value!r}")
    return exact
