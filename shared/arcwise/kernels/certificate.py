"""The exact privacy statement: e^epsilon from below, and the certificate that a kernel earns.

Everything here is integer or rational arithmetic. No float decides whether a mechanism is private; a
constant that has to be rounded is rounded to the side that is safe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from numbers import Real

from arcwise.errors import CertificateError, ParameterError

__all__ = [
    "EPSILON_MAX",
    "EPSILON_MIN",
    "UNIT",
    "Certificate",
    "certify",
    "check_epsilon",
    "exact_epsilon",
    "exp_lower_bound",
]

UNIT = 2**64
"""The sum of every row: a weight w stands for the probability w / UNIT."""

EPSILON_MIN = 0.01
EPSILON_MAX = 20.0

_SCALE_BITS = 192


def check_epsilon(epsilon: object) -> float:
    """Return `epsilon` as a float, or raise `ParameterError` when it is not in [0.01, 20]."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, Real):
        raise ParameterError(
            f"epsilon must be a number from {EPSILON_MIN} to {EPSILON_MAX:g}, got {epsilon!r}"
        )
    try:
        number = float(epsilon)
    except OverflowError:  # an integer beyond the range of a float
        number = math.inf
    if not EPSILON_MIN <= number <= EPSILON_MAX:  # false for NaN
        raise ParameterError(f"epsilon must be from {EPSILON_MIN} to {EPSILON_MAX:g}, got {number!r}")
    return number


def exact_epsilon(epsilon: float) -> Fraction:
    """Return the rational number that `epsilon` stands for in every privacy statement.

    A float such as 0.1 is not the decimal that people read: it is a little more, 0.3 a little less. The
    smaller of the two is taken, so a statement holds whichever of them a reader has in mind.
    """
    return min(Fraction(epsilon), Fraction(repr(float(epsilon))))


@lru_cache(maxsize=256)
def exp_lower_bound(epsilon: float) -> Fraction:
    """Return a rational number that is at most e^epsilon, and less than it by under 2**-50 relatively.

    The Taylor series of a non-negative argument has positive terms only, so dropping the tail and rounding
    every term down can only make the sum smaller.

    Parameters
    ----------
    epsilon
        A non-negative finite float, taken as `exact_epsilon` says.
    """
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise ParameterError(f"epsilon must be finite and at least 0, got {epsilon!r}")
    numerator, denominator = exact_epsilon(epsilon).as_integer_ratio()
    total, term, k = 0, 1 << _SCALE_BITS, 0
    while term:
        total += term
        k += 1
        term = term * numerator // (denominator * k)
    return Fraction(total, 1 << _SCALE_BITS)


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was proved about a kernel's integers: it is `epsilon`-LDP, for every pair of inputs.

    Attributes
    ----------
    epsilon
        The claim that holds.
    delta
        Exact, in units of 2**-64, rounded up; 0 is pure epsilon-LDP.
    ratio
        The largest ratio of two weights of one code, exact.
    """

    epsilon: float
    delta: int
    ratio: Fraction

    @property
    def spent_epsilon(self) -> float:
        """``log(ratio)``: what the integers spend, to be read by people (a float, rounded)."""
        return math.log(self.ratio.numerator) - math.log(self.ratio.denominator)

    def __str__(self) -> str:
        return (
            f"epsilon = {self.epsilon:g}, delta = {self.delta}: largest ratio of two weights "
            f"{float(self.ratio):.15g} <= e^epsilon (checked in rational arithmetic)"
        )


def certify(ratio: Fraction, epsilon: float) -> Certificate:
    """Return the certificate of a kernel with this exact `ratio`.

    Raises
    ------
    CertificateError
        When the ratio exceeds the rational lower bound of e^epsilon.
    """
    if ratio > exp_lower_bound(epsilon):
        raise CertificateError(
            f"the kernel's largest ratio of weights is {float(ratio)!r}, "
            f"more than e^epsilon = {math.exp(epsilon)!r} at epsilon = {epsilon!r}"
        )
    return Certificate(epsilon=epsilon, delta=0, ratio=ratio)
