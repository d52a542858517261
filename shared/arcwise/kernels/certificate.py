"""The exact privacy statement of a kernel: its certificate, and a lower bound of e^epsilon to check it.

Everything here is integer or rational arithmetic. No float decides whether a mechanism is private. Each
rounded constant is rounded to the safe side.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from arcwise.checks import checked_real
from arcwise.digits import rounded_up
from arcwise.errors import CertificateError
from arcwise.values import Value

UNIT = 2**64
"""The sum of every row: a weight w means the probability w / UNIT."""

EPSILON_MIN = 0.01
EPSILON_MAX = 20.0

_SCALE_BITS = 192


def check_epsilon(epsilon: object, *, least: float = EPSILON_MIN) -> float:
    """Return `epsilon` as a float; raise `ParameterError` if it is not in [0.01, 20].

    `least` is 0 for mechanisms with a delta, which may have an epsilon of 0.

    Examples
    --------
    >>> check_epsilon(1)
    1.0
    """
    return checked_real("epsilon", epsilon, least=least, most=EPSILON_MAX)


@lru_cache(maxsize=256)
def exact_epsilon(epsilon: float) -> Fraction:
    """Return the rational number that `epsilon` means in every privacy statement.

    A float differs slightly from the decimal that people read: the float 0.1 is larger than 1/10, and the
    float 0.3 is smaller than 3/10. The smaller of the float and the decimal is taken, so a statement holds
    for both readings.

    Examples
    --------
    >>> exact_epsilon(0.1)  # the float is a little more
    Fraction(1, 10)
    """
    return min(Fraction(epsilon), Fraction(repr(float(epsilon))))


@lru_cache(maxsize=256)
def exp_lower_bound(epsilon: float) -> Fraction:
    """Return a rational number that is at most e^epsilon, with a relative difference below 2**-50.

    The Taylor series of a non-negative argument has only positive terms. Dropping its tail and rounding every
    term down therefore make the sum smaller. Epsilon is a non-negative finite float, converted by
    `exact_epsilon`.

    Examples
    --------
    >>> float(exp_lower_bound(1.0))
    2.718281828459045
    >>> exp_lower_bound(0.0)
    Fraction(1, 1)
    """
    checked_real("epsilon", epsilon, least=0)
    numerator, denominator = exact_epsilon(epsilon).as_integer_ratio()
    total, term, k = 0, 1 << _SCALE_BITS, 0
    while term:
        total += term
        k += 1
        term = term * numerator // (denominator * k)
    return Fraction(total, 1 << _SCALE_BITS)


class Certificate(Value):
    """A proved statement about a kernel's integers: (epsilon, delta)-LDP, for every pair of inputs.

    Attributes
    ----------
    epsilon
        The proved epsilon.
    delta
        The exact delta, not a bound, in units of 2**-64, rounded up. 0 means pure epsilon-LDP.
    ratio
        The largest ratio of two weights of one code, exact. None if some weight is 0, because no ratio exists
        then; `delta` is positive in this case.

    Examples
    --------
    >>> from arcwise.domains import Circle
    >>> from arcwise.mechanisms import OptimalCircular
    >>> certificate = OptimalCircular(Circle(360), epsilon=0.5).certificate()
    >>> certificate.epsilon, certificate.delta, certificate.spent_epsilon <= 0.5
    (0.5, 0, True)
    """

    __slots__ = __match_args__ = ("epsilon", "delta", "ratio")

    epsilon: float
    delta: int
    ratio: Fraction | None

    def __init__(self, epsilon: float, delta: int, ratio: Fraction | None) -> None:
        self._set(epsilon=epsilon, delta=delta, ratio=ratio)

    @property
    def spent_epsilon(self) -> float:
        """``log(ratio)``: the epsilon that the integers actually spend, as a rounded float for people.

        Infinite if `ratio` is None.
        """
        if self.ratio is None:
            return math.inf
        return math.log(self.ratio.numerator) - math.log(self.ratio.denominator)

    def __str__(self) -> str:
        if self.delta:
            return (
                f"epsilon = {rounded_up(self.epsilon)}, delta = {rounded_up(self.delta / UNIT)}: exactly "
                f"{self.delta} / 2**64, rounded up (checked in rational arithmetic)"
            )
        ratio = math.nan if self.ratio is None else float(self.ratio)
        return (
            f"epsilon = {rounded_up(self.epsilon)}, delta = {self.delta}: largest ratio of two weights "
            f"{ratio:.15g} <= e^epsilon (checked in rational arithmetic)"
        )


def certify(ratio: Fraction | None, epsilon: float) -> Certificate:
    """Return the certificate of pure epsilon-LDP for a kernel with this exact ratio of weights.

    Raises `CertificateError` if the ratio exceeds the rational lower bound of e^epsilon, or is None.
    """
    if ratio is None:
        raise CertificateError(
            "some weight of the kernel is 0 where another input's is not, so no epsilon bounds their ratio"
        )
    if ratio > exp_lower_bound(epsilon):
        raise CertificateError(
            f"the kernel's largest ratio of weights is {float(ratio)!r}, "
            f"more than e^epsilon = {math.exp(epsilon)!r} at epsilon = {epsilon!r}"
        )
    return Certificate(epsilon=epsilon, delta=0, ratio=ratio)
