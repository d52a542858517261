"""Closed forms of the 3-piece mechanisms: PM, PM-SUB, PM-OPT, PTT, the variant of Theorem 5, and SW.

On [-1, 1] all of them except SW are unbiased. They have the density p in a window of half width w around
``m t``, where t is the input, and q = p e^-epsilon in the rest of [-A, A]. Two numbers define a member: the
window's share w/A = 1/(s+1) of the output range, and A. Let G = e^epsilon - 1, and let mu be the window's
mass above the level q. Then mu/(1-mu) = G/(s+1), and unbiasedness gives m = 1/mu. The second moment is (1-mu)
A^2/3 + mu (m^2 t^2 + w^2/3), so

    Var(t) = ((1-mu) A^2 + mu w^2) / 3 + (1/mu - 1) t^2,    1/mu - 1 = (s+1)/G,    w = A/(s+1).

The variance is largest at the ends. For a given s, it grows with A^2, which is the only free number. The
window fits into the output range, m + w <= A, if A is at least (e^epsilon + s)(s+1) / (s G). So for every s
this least A is the best. No member of PTT with a margin next to its window is better than PM-OPT, which has
the least A and the best s.

The functions return variances on [0, 1]: a quarter of the formula above, at t = |2x - 1|. The papers write t
for the parameter s of this file.

The Square Wave mechanism (SW; Li et al., SIGMOD 2020) outputs a number in [-b, 1+b] for an input x in [0, 1],
with the density p within b of x and q = p e^-epsilon = 1/(2bE + 1) elsewhere, E = e^epsilon. The output is
close to x but biased. With the bias removed, SW is the member with the window share 2b/(1+2b), s = 1/(2b).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from arcwise.checks import checked_real
from arcwise.errors import ParameterError
from arcwise.kernels.certificate import check_epsilon
from arcwise.mechanisms.closed_forms.checks import check_unit, exp_tail, from_centre

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from arcwise.typing import FloatArray

PiecewiseMember: TypeAlias = Literal["pm", "pm-sub", "pm-opt"]


def piecewise_parameter(epsilon: float, member: PiecewiseMember = "pm") -> float:
    """Return s, the ratio of the output range outside the window to the window.

    "pm" is the Piecewise Mechanism with s = e^(epsilon/2) (Wang et al., ICDE 2019). "pm-sub" has s =
    e^(epsilon/3), which is close to the best s for large epsilon (Zhao et al., IEEE IoT Journal 2020).
    "pm-opt" has the least worst-case variance (ibid.): s is the root of s^4 + 2 E s^3 - 2 E s - E^2 with E =
    e^epsilon.
    """
    epsilon = check_epsilon(epsilon)
    if member == "pm":
        return math.exp(epsilon / 2)
    if member == "pm-sub":
        return math.exp(epsilon / 3)
    if member != "pm-opt":
        raise ParameterError(f"member must be one of {', '.join(get_args(PiecewiseMember))}; got {member!r}")
    growth = math.exp(epsilon)
    # g(s) = s + 2E - 2E/s^2 - E^2/s^3 has the same root, increases and is concave, and is negative at the
    # start. Newton's steps therefore rise to the root and never pass it.
    s = max(1.0, math.pow(growth / 2, 1 / 3))
    while True:
        value = s + 2 * growth - 2 * growth / s**2 - growth**2 / s**3
        nearer = s - value / (1 + 4 * growth / s**3 + 3 * growth**2 / s**4)
        if nearer <= s * (1 + 1e-15):
            return s
        s = nearer


def least_half_range(epsilon: float, s: float) -> float:
    """Return ``A = (e^epsilon + s)(s+1) / (s (e^epsilon - 1))``, the C of PM, for inputs in [-1, 1].

    The formula is from Wang et al. (ICDE 2019) for the s of PM, and from Zhao et al. (IEEE IoT Journal 2020)
    for any s > 0.
    """
    epsilon, s = check_epsilon(epsilon), checked_real("s", s, above=0)
    return (math.exp(epsilon) + s) * (s + 1) / (s * math.expm1(epsilon))


def piecewise_variance(x: ArrayLike, epsilon: float, *, s: float | None = None) -> FloatArray:
    """Return the variance for x in [0, 1] of the unbiased 3-piece mechanism of least range, shaped like x.

    The parameter s is from `piecewise_parameter`; by default it is that of PM.
    """
    s = piecewise_parameter(epsilon) if s is None else s
    return transformation_variance(x, epsilon, s=s, half_range=least_half_range(epsilon, s))


def piecewise_worst_variance(epsilon: float, *, s: float | None = None) -> float:
    """Return the largest `piecewise_variance`, attained at both ends."""
    return float(piecewise_variance(1.0, epsilon, s=s))


def transformation_range(epsilon: float, s: float | None, half_range: float | None) -> tuple[float, float]:
    """Return s and A of a member of PTT, by default the s of PM-OPT and the least A; refuse a smaller A."""
    s = piecewise_parameter(epsilon, "pm-opt") if s is None else s
    least = least_half_range(epsilon, s)
    half_range = least if half_range is None else half_range
    if not (math.isfinite(half_range) and half_range >= least * (1 - 1e-12)):
        raise ParameterError(f"half_range must be at least {least!r} and finite, got {half_range!r}")
    return s, half_range


def transformation_variance(
    x: ArrayLike, epsilon: float, *, s: float | None = None, half_range: float | None = None
) -> FloatArray:
    """Return the variance of a member of PTT (arXiv 2112.04745) for x in [0, 1], in the shape of x.

    The window has the share 1/(s+1) of the output range, and `half_range` is A for inputs in [-1, 1].
    """
    s, half_range = transformation_range(epsilon, s, half_range)
    slack = (s + 1) / math.expm1(epsilon)  # 1/mu - 1 = (1-mu)/mu
    mu = 1 / (1 + slack)
    constant = (slack + 1 / (s + 1) ** 2) * mu * half_range**2 / 3
    variance: FloatArray = (constant + slack * from_centre(x) ** 2) / 4
    return variance


def transformation_worst_variance(
    epsilon: float, *, s: float | None = None, half_range: float | None = None
) -> float:
    """Return the largest `transformation_variance`, attained at both ends."""
    return float(transformation_variance(1.0, epsilon, s=s, half_range=half_range))


def unbiased_optimal_range(epsilon: float) -> tuple[float, float]:
    """Return s and A of the unbiased variant of "Optimal Piecewise-based Mechanism", Theorem 5.

    It outputs [-C, 1+C] for inputs in [0, 1], C = (e^(epsilon/2) + 1) / (e^(epsilon/2) - 1), so A = 2C + 1.
    Its window has the length (C-1)(2C+1) / (2C), the mass of PM's window, and slides by (C+1)/2 as the input
    goes from 0 to 1. Then s + 1 = 2C/(C-1) = e^(epsilon/2) + 1, as in PM, and only A is larger.
    """
    root = math.expm1(check_epsilon(epsilon) / 2)
    return root + 1, 2 * (root + 2) / root + 1


def unbiased_optimal_worst_variance(epsilon: float) -> float:
    """Return the worst-case variance of Theorem 5's variant.

    It is 4 times that of PM at small epsilon, and 3 times at large epsilon.
    """
    s, half_range = unbiased_optimal_range(epsilon)
    return transformation_worst_variance(epsilon, s=s, half_range=half_range)


def square_wave_half_window(epsilon: float) -> float:
    """Return ``b = (epsilon E - E + 1) / (2E (E - 1 - epsilon))``, E = e^epsilon (Li et al.).

    It maximises an upper bound of the mutual information of input and output, and falls from 1/2 to 0. It is
    computed as a ratio of two tails of the exponential series, because the formula is 0/0 as epsilon goes to
    0.
    """
    epsilon = check_epsilon(epsilon)
    return exp_tail(-epsilon, 2) / (2 * exp_tail(epsilon, 2))


def square_wave_expected_error(x: ArrayLike, epsilon: float, power: float = 1.0) -> FloatArray:
    """Return ``E|y - x|^power`` of the output y for inputs x in [0, 1], in the shape of x.

    ``(2 (p-q) b^(k+1) + q ((x+b)^(k+1) + (1+b-x)^(k+1))) / (k+1)`` for the power k, which is at least 1. The
    window is never cut off.
    """
    power = checked_real("power", power, least=1)
    b = square_wave_half_window(epsilon)
    q = 1 / (2 * b * math.exp(epsilon) + 1)
    p, x, k = math.exp(epsilon) * q, check_unit(x), power + 1.0
    error: FloatArray = (2 * (p - q) * b**k + q * ((x + b) ** k + (1 - x + b) ** k)) / k
    return error[()]
