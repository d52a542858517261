"""What few reports ask for: Student's and Hotelling's quantiles in place of the normal ones, and a note.

With a thousand reports or more the quantiles agree with the normal ones to three digits.
"""

from __future__ import annotations

import math
from statistics import NormalDist

FEW = 30

NO_POPULATION = "no population is likely to produce these counts: they may be manipulated, or of another task"


def two_sided(level: float, reports: float) -> float:
    """Return Student's quantile with ``reports - 1`` degrees of freedom, for a two-sided interval.

    With infinitely many reports it is the normal quantile; there have to be at least 2.
    """
    tail = 0.5 + level / 2
    if math.isinf(reports):
        return NormalDist().inv_cdf(tail)
    from scipy.special import stdtrit

    return float(stdtrit(reports - 1.0, tail))


def hotelling(level: float, reports: float) -> float:
    """Return the quantile of ``Z V^-1 Z`` for an average Z of two numbers whose mean is zero.

    It is ``2 (n-1)/(n-2)`` times the F quantile with 2 and n - 2 degrees of freedom, which has a closed form:
    F exceeds x with probability ``(1 + 2 x/(n-2))^(-(n-2)/2)``. With infinitely many reports it is the
    chi-square quantile ``-2 log(1 - level)``. There have to be at least 3 reports.
    """
    chi_square = -2 * math.log1p(-level)
    return chi_square if math.isinf(reports) else (reports - 1) * math.expm1(chi_square / (reports - 2))


def few_note(number: float, of: str = "reports") -> str:
    """Return the note on fewer than 30 reports, or devices, or ""."""
    return f"few {of}: with fewer than {FEW} the interval's level is rough" if number < FEW else ""
