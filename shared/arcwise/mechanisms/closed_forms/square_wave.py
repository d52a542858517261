"""Closed forms of the Square Wave mechanism (Li et al., SIGMOD 2020).

For an input x in [0, 1] it outputs a number in [-b, 1+b], with the density p within b of x and
q = p e^-epsilon elsewhere. The output is close to x but its mean is ``slope x + intercept``; with that undone
it is the member of the unbiased 3-piece family whose window has the share 2b/(1+2b), s = 1/(2b).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from arcwise.checks import checked_real
from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.closed_forms.checks import check_unit, exp_tail
from arcwise.mechanisms.closed_forms.piecewise import piecewise_variance

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.typing import FloatArray


class SquareWaveLevels(NamedTuple):
    """Half width b of the window, densities inside (p) and outside (q), and the line of the mean."""

    b: float
    p: float
    q: float
    mean_slope: float
    mean_intercept: float


def square_wave_half_window(epsilon: float) -> float:
    """Return ``b = (epsilon E - E + 1) / (2E (E - 1 - epsilon))``, E = e^epsilon (Li et al.).

    It maximises an upper bound of the mutual information of input and output, and falls from 1/2 to 0.
    Written as a ratio of two tails of the exponential series, because it is 0/0 as epsilon goes to 0.
    """
    epsilon = check_epsilon(epsilon)
    return exp_tail(-epsilon, 2) / (2 * exp_tail(epsilon, 2))


def square_wave_levels(epsilon: float) -> SquareWaveLevels:
    """Return b, p = E q, q = 1/(2bE + 1), and slope 2b(p-q) and intercept q(1+2b)/2 of the mean."""
    b = square_wave_half_window(epsilon)
    growth = math.exp(epsilon)
    q = 1 / (2 * b * growth + 1)
    return SquareWaveLevels(b, growth * q, q, 2 * b * math.expm1(epsilon) * q, q * (0.5 + b))


def square_wave_mean(x: ArrayLike, epsilon: float) -> FloatArray:
    """Return ``E[y|x]`` of the output y for inputs x in [0, 1], in the shape of x."""
    levels = square_wave_levels(epsilon)
    mean: FloatArray = levels.mean_slope * check_unit(x) + levels.mean_intercept
    return mean[()]


def square_wave_expected_error(x: ArrayLike, epsilon: float, power: float = 1.0) -> FloatArray:
    """Return ``E|y - x|^power`` of the output y for inputs x in [0, 1], in the shape of x.

    ``(2 (p-q) b^(k+1) + q ((x+b)^(k+1) + (1+b-x)^(k+1))) / (k+1)`` for the power k, which is at least 1: the
    window is never cut.
    """
    power = checked_real("power", power, least=1)
    b, p, q, _, _ = square_wave_levels(epsilon)
    x, k = check_unit(x), power + 1.0
    error: FloatArray = (2 * (p - q) * b**k + q * ((x + b) ** k + (1 - x + b) ** k)) / k
    return error[()]


def linear_debiased_variance(x: ArrayLike, epsilon: float) -> FloatArray:
    """Return the variance of ``(y - intercept) / slope``, unbiased, for x in [0, 1], in the shape of x."""
    return piecewise_variance(x, epsilon, s=1 / (2 * square_wave_half_window(epsilon)))
