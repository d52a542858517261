"""Expected errors of two ways to keep Laplace noise in [0, 1]: clamping, and drawing from what lies inside.

Noise of scale 1/epsilon, for sensitivity 1. Clamping is post-processing and keeps epsilon. Renormalising
("bounded" or "truncated" Laplace) divides by a Z that depends on the input, and that is not free: see
`renormalised_laplace_epsilon`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from arcwise.checks import checked_real
from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.closed_forms.checks import check_unit

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.typing import FloatArray


def clamped_laplace_expected_error(x: ArrayLike, epsilon: float) -> FloatArray:
    """Return ``E|y - x|`` of Laplace noise clamped into [0, 1], for inputs x in [0, 1], in the shape of x.

    ``(2 - e^-u - e^-v) / (2 epsilon)`` with u = epsilon x and v = epsilon (1-x).
    """
    error: FloatArray = renormalised_laplace_normaliser(x, epsilon) / 2
    return error


def clamped_laplace_worst_error(epsilon: float) -> float:
    """Return the largest `clamped_laplace_expected_error`, attained at 1/2."""
    return float(clamped_laplace_expected_error(0.5, epsilon))


def renormalised_laplace_normaliser(x: ArrayLike, epsilon: float) -> FloatArray:
    """Return Z(x), the integral of ``e^(-epsilon |y-x|)`` over y in [0, 1], in the shape of x.

    ``(2 - e^-u - e^-v) / epsilon`` with u = epsilon x and v = epsilon (1-x).
    """
    import numpy as np

    epsilon, x = check_epsilon(epsilon), check_unit(x)
    integral: FloatArray = -(np.expm1(-epsilon * x) + np.expm1(-epsilon * (1 - x))) / epsilon
    return integral


def renormalised_laplace_expected_error(x: ArrayLike, epsilon: float) -> FloatArray:
    """Return ``E|y - x|`` of Laplace noise drawn until it lies inside, for x in [0, 1], in the shape of x.

    ``(gamma(2, u) + gamma(2, v)) / (Z epsilon^2)``, u = epsilon x, v = epsilon (1-x), with the lower
    incomplete gamma function ``gamma(2, u) = 1 - (1+u) e^-u``.
    """
    from scipy.special import gammainc

    normaliser, x = renormalised_laplace_normaliser(x, epsilon), check_unit(x)
    inside = gammainc(2.0, epsilon * x) + gammainc(2.0, epsilon * (1 - x))
    error: FloatArray = inside / (normaliser * epsilon**2)
    return error


def renormalised_laplace_worst_error(epsilon: float) -> float:
    """Return the largest `renormalised_laplace_expected_error`, attained at both ends."""
    return float(renormalised_laplace_expected_error(0.0, epsilon))


def renormalised_laplace_epsilon(epsilon: float, distance: float = 1.0) -> float:
    """Return the epsilon' that renormalised Laplace noise keeps for two inputs up to this distance apart.

    ``epsilon d + log(Z(d) / Z(0))`` for a distance d above 0 and at most 1. Two inputs x and x + d give an
    output below both the ratio ``e^(epsilon d) Z(x+d) / Z(x)``; Z is log-concave, so the worst x is 0, and
    the sum increases up to d = 1. At d = 1 both Z are equal: over the whole interval it is epsilon. Below
    that it is more than the epsilon d of unbounded noise: scaling the noise to a sensitivity d < 1 and
    leaving Z alone breaks epsilon.
    """
    epsilon = check_epsilon(epsilon)
    distance = checked_real("distance", distance, above=0, most=1)
    ratio = renormalised_laplace_normaliser(distance, epsilon) / renormalised_laplace_normaliser(0.0, epsilon)
    return epsilon * distance + math.log(ratio)
