"""Checks of the closed forms' arguments, and functions that avoid cancellation such as 0/0 at epsilon 0."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.typing import FloatArray


def check_unit(x: ArrayLike) -> FloatArray:
    """Return x as an array of floats; raise `ParameterError` if an element is not in [0, 1]."""
    import numpy as np

    array = np.asarray(x, dtype=np.float64)
    outside = ~((array >= 0.0) & (array <= 1.0))  # true for NaN
    if outside.any():
        raise ParameterError(f"x must be from 0 to 1, got {float(array[outside].flat[0])!r}")
    return array


def from_centre(x: ArrayLike) -> FloatArray:
    """Return ``t = |2x - 1|``, the distance of x from the middle of [0, 1] in half lengths."""
    import numpy as np

    centred: FloatArray = np.abs(2.0 * check_unit(x) - 1.0)
    return centred


def from_end(x: ArrayLike) -> FloatArray:
    """Return ``1 - t = 2 min(x, 1-x)``, without the loss of digits of ``1 - |2x - 1|`` near the ends."""
    import numpy as np

    array = check_unit(x)
    return np.asarray(2.0 * np.minimum(array, 1.0 - array))[()]


def exp_tail(z: float, order: int) -> float:
    """Return ``(e^z - sum_{k < order} z^k / k!) / z^order``, by its series if the difference cancels.

    The series is ``sum_{k >= 0} z^k / (k + order)!``. Its value at z = 0 is 1 / order!.
    """
    if abs(z) > order:
        head = sum(z**k / math.factorial(k) for k in range(order))
        return (math.exp(z) - head) / z**order
    total, term, k = 0.0, 1.0 / math.factorial(order), order
    while abs(term) > 1e-18 * abs(total):
        total += term
        k += 1
        term *= z / k
    return total
