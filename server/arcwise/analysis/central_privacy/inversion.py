"""Bounds of ``E[max(0, Z_1 + ... + Z_n)]`` for independent copies of one discrete variable Z, for any n.

For X = Z_1 + ... + Z_n + U, where U is normal with the mean 0 and the standard deviation tau, and any line
``a > 0``,

    E[max(0, X)] = 1/(2 pi) * integral over t of M(s) / s^2,   s = a + it,   M(s) = E[e^(s X)].

- **Smoothing** errs upward: ``max(0, x)`` is convex, so U, with mean 0, can only raise the mean (Jensen's
  inequality). It makes the integrand vanish like e^(-tau^2 t^2 / 2).
- **The trapezoidal rule** with steps of ``2 pi / R`` gives, by Poisson's summation formula, the sum over all
  integers m of ``e^(-a m R) E[max(0, X + m R)]``. No term is negative, so the rule also errs upward.
- **The truncated part** beyond the last frequency T is at most ``M(a) e^(-tau^2 T^2 / 2) / (pi T)``.
- **The event that all Z_i are 0** needs no smoothing: its probability is subtracted from M.
- **Rounding.** M(s) / M(a) = r^n e^(...), where r is the characteristic function of Z under its tilted law.
  r - 1 is computed from terms that are themselves small, and the possible errors of all terms are added.

The error is relative to the result, for results of any size. The number of terms is bounded for every n and
law. If more terms would be needed, tau is increased up to 1/a, and then R is reduced; both err upward.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

if TYPE_CHECKING:
    from arcwise.typing import FloatArray

ROUNDOFF = 2.0**-53

_LAST = 7.5
"""Frequencies end at this many deviations of U's characteristic function, where the function is 6e-13."""

_SHIFT = 9.0
"""Deviations of U that are subtracted for a lower bound."""

_MOST_ENTRIES = 2**16
"""Largest number of frequencies times values, which takes some 3 ms."""

_LEAST_LOG = -600.0
"""Results with a smaller logarithm have no lower bound here: their parts would underflow a float."""

_BLOCK = 2**16
"""Number of entries of a block of frequencies times values, so that the block fits into a cache."""


class _Integral(NamedTuple):
    """The sum of the trapezoidal rule, and the largest error from rounding and truncation.

    Both are in units of e^scale; `line` is a, `deviation` tau and `period` R.
    """

    value: float
    error: float
    scale: float
    line: float
    deviation: float
    period: float


def log_positive_part(values: FloatArray, weights: FloatArray, n: int, *, smoothing: float = 0.02) -> float:
    """Return an upper bound of ``log E[max(0, Z_1 + ... + Z_n)]``, -inf if the sum is never positive.

    Z takes the `values` with the positive probabilities `weights`, both of shape (A,), and is 0 otherwise.
    `smoothing` is the deviation of U in units of 1/a. The bound is too large by a share of about
    ``smoothing^2 / 2``, and takes time in proportion to ``1 / smoothing``. If this time would be too long, a
    larger deviation is used.
    """
    if values.max(initial=0.0) <= 0:
        return -math.inf
    found = _integral(values, weights, n, smoothing, 0.0)
    quick = _chernoff(values, weights, n, found.line)
    total = found.value + found.error
    return min(found.scale + math.log(total), quick) if total > 0 else quick


def log_chernoff(values: FloatArray, weights: FloatArray, n: int) -> float:
    """Return a fast upper bound of the number that `log_positive_part` bounds.

    Its exponential is too large by a factor of about a times the standard deviation of the sum.
    """
    if values.max(initial=0.0) <= 0:
        return -math.inf
    return _chernoff(values, weights, n, best_line(values, weights, n))


def _chernoff(values: FloatArray, weights: FloatArray, n: int, line: float) -> float:
    """Return the bound from ``max(0, x) <= e^(a x) / (e a)``."""
    return _log_moment(values, weights, n, line) - 1 - math.log(line)


def log_positive_part_below(
    values: FloatArray, weights: FloatArray, n: int, *, smoothing: float = 0.004
) -> float:
    """Return a lower bound of ``log E[max(0, Z_1 + ... + Z_n)]``, or -inf if none is found.

    Let c be several deviations of U, and S the sum. Then ``max(0, S + U - c) <= max(0, S) + max(0, U - c)``.
    The terms of the trapezoidal rule with m != 0 are bounded by Markov's inequality and subtracted.
    """
    if values.max(initial=0.0) <= 0:
        return -math.inf
    found = _integral(values, weights, n, smoothing, _SHIFT)
    if found.scale < _LEAST_LOG:
        return -math.inf
    a, tau, period = found.line, found.deviation, found.period
    shift = _SHIFT * tau
    excess = tau * math.exp(-(_SHIFT**2) / 2 - found.scale)  # larger than E[max(0, U - c)]
    # m > 0: at most e^(-a m R) (E[max(0, X)] + m R), where E[max(0, X)] <= value + error.
    step = math.exp(-a * period)
    alias = (found.value + found.error) * step / (1 - step) + period * math.exp(-a * period - found.scale) / (
        1 - step
    ) ** 2
    # m < 0: E[max(0, X - m R)] <= M(b) e^(-b m R) / (e b) for every b > a.
    least = math.inf
    for b in a * np.array([1.1, 1.25, 1.5, 2.0, 3.0]):
        log_m = _log_moment(values, weights, n, b) + (tau * b) ** 2 / 2 - b * shift
        exponent = log_m - 1 - math.log(b) - (b - a) * period - found.scale
        if exponent < 0:
            least = min(least, math.exp(exponent) / -math.expm1(-(b - a) * period))
    below = found.value - found.error - excess - alias - least
    return found.scale + math.log(below) if below > 0 else -math.inf


def _log_moment(values: FloatArray, weights: FloatArray, n: int, line: float) -> float:
    """Return an upper bound of ``n log E[e^(line Z)]``, infinite if it overflows."""
    with np.errstate(over="ignore"):
        terms = weights * np.expm1(line * values)
    slack = 4 * (values.size + 8) * ROUNDOFF * float(np.abs(terms).sum())
    total = float(terms.sum()) + slack
    return n * math.log1p(total) if total > -1 else -math.inf


def _integral(
    values: FloatArray, weights: FloatArray, n: int, smoothing: float, deviations: float
) -> _Integral:
    """Return the integral for ``Z_1 + ... + Z_n + U - deviations * tau``."""
    a = best_line(values, weights, n)
    tilted = weights * np.exp(a * values)
    tilted /= 1 + float((weights * np.expm1(a * values)).sum())
    mean = float(tilted @ values)
    deviation = math.sqrt(n * max(float(tilted @ values**2) - mean**2, 0.0) + (smoothing / a) ** 2)
    # R is as long as the tilted law reaches, so that terms with m != 0 are small. A smaller R would also be
    # valid.
    period = max(n * mean, 0.0) + 7 * deviation + 6 * float(values.max()) + 16 / a
    most = 2 * math.pi / _LAST * max(64, _MOST_ENTRIES // values.size)  # largest R / tau
    tau = max(smoothing, min(1.0, a * period / most)) / a
    period = min(period, most * tau)
    step = 2 * math.pi / period
    frequencies = step * np.arange(math.ceil(_LAST / (tau * step)) + 1)
    off = (values.size + 32) * ROUNDOFF  # error of r - 1, relative to the sum of the sizes of its terms
    rest = 1 - float(weights.sum())
    idle = math.exp(n * math.log(rest) - _log_moment(values, weights, n, a)) if rest > 0 else 0.0
    size = float(tilted @ np.abs(values))
    value = error = 0.0
    for t in np.array_split(frequencies, math.ceil(frequencies.size * values.size / _BLOCK)):
        angle = t[:, None] * values
        real = -2 * (np.sin(angle / 2) ** 2 @ tilted)
        imaginary = np.sin(angle) @ tilted
        # log r, without the loss of digits of log(1 + ...)
        log_size = 0.5 * np.log1p(np.maximum(2 * real + real**2 + imaginary**2, -1 + 1e-300))
        phase = np.arctan2(imaginary, 1 + real)
        exponent = n * log_size - (tau * t) ** 2 / 2
        turned = n * np.abs(phase) + (tau * a + deviations) * tau * t
        with np.errstate(under="ignore"):
            height = np.exp(exponent) / (a * a + t * t)
            moved = n * off * np.minimum(2.0, size * t)
            # |r'^n - r^n| <= n |r' - r| max(|r|, |r'|)^(n - 1), and the rounding of the power itself
            grown = np.exp((n - 1) * np.log(np.exp(log_size) + moved / n) - (tau * t) ** 2 / 2)
            off_by = (moved * grown) / (a * a + t * t) + 4 * ROUNDOFF * height * (
                8 + np.abs(exponent) + turned
            )
        # 1 / s^2 turns by -2 atan(t / a)
        turn = (tau * a - deviations) * tau * t - 2 * np.arctan2(t, a)
        still = idle * np.exp(-((tau * t) ** 2) / 2) / (a * a + t * t)
        part = height * np.cos(n * phase + turn) - still * np.cos(turn)
        weight = np.where(t > 0, 2.0, 1.0)
        value += float(weight @ part)
        error += float(weight @ off_by) + ROUNDOFF * t.size * float(weight @ height)
        error += (n * off + ROUNDOFF * (t.size + 64)) * float(weight @ still)
    last = float(frequencies[-1])
    error = step / (2 * math.pi) * error + math.exp(-((tau * last) ** 2) / 2) / (math.pi * last)
    scale = _log_moment(values, weights, n, a) + (tau * a) ** 2 / 2 - deviations * tau * a
    return _Integral(step / (2 * math.pi) * value, error, scale, a, tau, period)


def best_line(values: FloatArray, weights: FloatArray, n: int) -> float:
    """Return the line with the smallest integrand; any other line is valid but needs more digits."""
    highest = math.log(60 / float(values.max()))
    lowest = min(math.log(1e-3 / math.sqrt(n * float(weights @ values**2))), highest - 1)

    def height(log_line: float) -> float:
        return _log_moment(values, weights, n, math.exp(log_line)) - 2 * log_line

    return math.exp(minimize_scalar(height, bounds=(lowest, highest), options={"xatol": 0.01}).x)
