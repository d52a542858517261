"""Closed forms of the Square Wave mechanism (Li et al., SIGMOD 2020).

For an input x in [0, 1] it outputs a number in [-b, 1+b], with the density p within b of x and
q = p e^-epsilon = 1/(2bE + 1) elsewhere, E = e^epsilon. The output is close to x but biased; with that undone
SW is the member of the unbiased 3-piece family whose window has the share 2b/(1+2b), s = 1/(2b).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from arcwise.checks import checked_real
from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.closed_forms.checks import check_unit, exp_tail

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.typing import FloatArray


def square_wave_half_window(epsilon: float) -> float:
    """Return ``b = (epsilon E - E + 1) / (2E (E - 1 - epsilon))``, E = e^epsilon (Li et al.).

    It maximises an upper bound of the mutual information of input and output, and falls from 1/2 to 0.
    Written as a ratio of two tails of the exponential series, because it is 0/0 as epsilon goes to 0.
    """
    epsilon = check_epsilon(epsilon)
    return exp_tail(-epsilon, 2) / (2 * exp_tail(epsilon, 2))


def square_wave_expected_error(x: ArrayLike, epsilon: float, power: float = 1.0) -> FloatArray:
    """Return ``E|y - x|^power`` of the output y for inputs x in [0, 1], in the shape of x.

    ``(2 (p-q) b^(k+1) + q ((x+b)^(k+1) + (1+b-x)^(k+1))) / (k+1)`` for the power k, which is at least 1: the
    window is never cut.
    """
    power = checked_real("power", power, least=1)
    b = square_wave_half_window(epsilon)
    q = 1 / (2 * b * math.exp(epsilon) + 1)
    p, x, k = math.exp(epsilon) * q, check_unit(x), power + 1.0
    error: FloatArray = (2 * (p - q) * b**k + q * ((x + b) ** k + (1 - x + b) ** k)) / k
    return error[()]
