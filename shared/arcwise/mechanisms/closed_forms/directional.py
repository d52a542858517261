"""Closed forms of two mechanisms on the circle: von Mises-Fisher and Purkayastha.

Weggenmann and Kerschbaum, "Differential Privacy for Directional Data" (CCS 2021), in the plane and for local
privacy. Let theta be the angle between output and input, in [0, pi]. The density is proportional to

    e^(kappa cos theta)     von Mises-Fisher,  kappa = epsilon/2
    e^(-kappa theta)        Purkayastha,       kappa = epsilon/pi

The ratio of its largest value, at theta = 0, to its smallest, at theta = pi, is exactly e^epsilon. Angles are
in radians. For a circle of period T, multiply ``E theta`` by T / (2 pi), and ``E theta^2`` by the square of
this factor.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.closed_forms.checks import exp_tail

if TYPE_CHECKING:
    from arcwise.typing import FloatArray


class Directional(NamedTuple):
    """A density on the circle of 2 pi around the input, and its moments; both are the same for all inputs."""

    kappa: float
    normaliser: float
    """The integral of the unnormalised density."""
    abs_angle: float
    """``E theta``, in radians."""
    sq_angle: float
    """``E theta^2``, in squared radians."""
    rho: float
    """``E cos theta``, the factor by which the first trigonometric moment shrinks."""


def von_mises(epsilon: float) -> Directional:
    """Return kappa = epsilon/2 and the moments of the von Mises-Fisher mechanism.

    With I_k the modified Bessel functions, the normaliser is 2 pi I_0(kappa). The k-th trigonometric moment
    is I_k/I_0 at kappa; the Fourier series of theta and theta^2 on [-pi, pi] then give

        E theta   = pi/2 - (4/pi) sum_{k odd} I_k/I_0 / k^2
        E theta^2 = pi^2/3 + 4 sum_{k >= 1} (-1)^k I_k/I_0 / k^2
    """
    kappa = check_epsilon(epsilon) / 2
    moments = _bessel_ratios(kappa)
    terms = [moment / k**2 for k, moment in enumerate(moments.tolist(), start=1)]
    from scipy.special import i0

    return Directional(
        kappa=kappa,
        normaliser=2 * math.pi * float(i0(kappa)),
        abs_angle=math.pi / 2 - 4 / math.pi * math.fsum(terms[::2]),
        sq_angle=math.pi**2 / 3 + 4 * (math.fsum(terms[1::2]) - math.fsum(terms[::2])),
        rho=float(moments[0]),
    )


def purkayastha(epsilon: float) -> Directional:
    """Return kappa = epsilon/pi and the moments of the Purkayastha mechanism.

    ``int_0^pi theta^n e^(-kappa theta) d theta`` is elementary. Its terms that cancel for small epsilon form
    a tail of the exponential series. ``rho = kappa^2 coth(epsilon/2) / (1 + kappa^2)``.
    """
    epsilon = check_epsilon(epsilon)
    kappa = epsilon / math.pi
    scale = epsilon / math.expm1(epsilon)
    return Directional(
        kappa=kappa,
        normaliser=-2 * math.expm1(-epsilon) / kappa,
        abs_angle=math.pi * scale * exp_tail(epsilon, 2),
        sq_angle=2 * math.pi**2 * scale * exp_tail(epsilon, 3),
        rho=kappa**2 / (1 + kappa**2) / math.tanh(epsilon / 2),
    )


def _bessel_ratios(kappa: float) -> FloatArray:
    """Return I_k/I_0 at kappa for k = 1, 2, ... until they are negligible compared with 1."""
    import numpy as np
    from scipy.special import ive

    # I_k/I_0 <= (kappa/2)^k / k!, below 1e-19 at k = 24 + 2 kappa for every kappa up to 10.
    orders = np.arange(1, 25 + math.ceil(2 * kappa))
    ratios: FloatArray = ive(orders, kappa) / ive(0, kappa)
    return ratios
