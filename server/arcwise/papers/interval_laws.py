"""Mechanisms, bounds and designs for the figures on optimal piecewise mechanisms on [0, 1].

Epsilon and the power of the error are parameters. Every law here is continuous, on the unit interval or the
circle of circumference 1, and its error is an exact integral. Nothing is sampled. The integer kernels are not
used, but the tests compare them with these integrals. "Truncated" outputs are moved to the nearer end of [0,
1], as the source does with PM, SW, Laplace and staircase; "bounded" noise is restricted to [0, 1] and scaled
to mass 1.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from arcwise.analysis.design import lower_bound, minimax, worst_case
from arcwise.domains import Interval
from arcwise.mechanisms.closed_forms.optimal import optimal_levels
from arcwise.mechanisms.closed_forms.piecewise import (
    least_half_range,
    piecewise_parameter,
    square_wave_half_window,
)
from arcwise.noise import Laplace, Staircase
from arcwise.papers.base import Check, formula
from arcwise.papers.pictures import family_look

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from arcwise.mechanisms.closed_forms.piecewise import PiecewiseMember
    from arcwise.noise import ContinuousNoise
    from arcwise.typing import FloatArray

SOURCE = "Zheng, Mishra, Hu, slides"

UNIT = "domain lengths, to the power"
"""The unit of an error on [0, 1]. The row of the error states the power."""

POWERS = {1.0: "|y-x|", 2.0: "(y-x)^2"}
"""The errors, by their power."""

EPSILONS = np.round(np.linspace(0.1, 8.0, 80), 12)
"""The epsilons at which curves are computed."""

BOUND_EPSILONS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
_FULL_EPSILONS = (0.1, *(0.25 * i for i in range(1, 21)), 6.0, 7.0, 8.0)

INTERVAL = Interval(0.0, 1.0)

_ORDER = 48
"""Nodes of the Gauss-Legendre rule: exact for steps, and nearly exact for e^(-epsilon x) up to epsilon 20."""


def interval_error(
    x: ArrayLike, edges: ArrayLike, levels: ArrayLike, power: float, *, truncate: bool = True
) -> FloatArray:
    """Return ``E|y - x|^power`` for a piecewise constant density of y and inputs in [0, 1], shape (n,).

    The m pieces have ascending edges, shape (m + 1,) or (n, m + 1), which may lie outside [0, 1]. Their
    densities are `levels`, shape (m,) or (n, m). If `truncate`, y is moved into [0, 1] first. `power` is at
    least 1.
    """
    x = np.asarray(x, dtype=np.float64)[..., None]
    edges = np.asarray(edges, dtype=np.float64)
    k = power + 1.0
    inside = np.clip(edges, 0.0, 1.0) if truncate else edges
    primitive = np.copysign(np.abs(inside - x) ** k, inside - x) / k
    if truncate:  # beyond an end, the error is the same as at the end
        primitive = primitive + np.maximum(edges - 1.0, 0.0) * (1.0 - x) ** power
        primitive = primitive + np.minimum(edges, 0.0) * x**power
    return _summed(primitive, levels)


def circular_error(x: ArrayLike, edges: ArrayLike, levels: ArrayLike, power: float) -> FloatArray:
    """Return ``E d(y, x)^power`` for a piecewise constant density of y, with ``d = min(|y-x|, 1 - |y-x|)``.

    The arguments are as for `interval_error`, with inputs in [0, 1). Every edge is less than one turn away
    from its x.
    """
    z = np.asarray(edges, dtype=np.float64) - np.asarray(x, dtype=np.float64)[..., None]
    k = power + 1.0
    size = np.abs(z)
    # The integral of d^power from 0 to |z|: up to half a turn, then back down.
    back = 2.0 * 0.5**k - np.maximum(1.0 - size, 0.0) ** k
    return _summed(np.copysign(np.where(size <= 0.5, size**k, back) / k, z), levels)


def truncated_noise_error(x: ArrayLike, noise: ContinuousNoise, power: float) -> FloatArray:
    """Return ``E|y - x|^power`` if y is x plus the noise, moved into [0, 1].

    With k the power, it is ``int_0^(1-x) k t^(k-1) P(noise > t) dt``, plus the same integral from 0 to x for
    the other side.
    """
    x = np.asarray(x, dtype=np.float64)
    return _both_sides(lambda t: power * t ** (power - 1.0) * noise.sf(t), x, noise)


def bounded_noise_error(x: ArrayLike, noise: ContinuousNoise, power: float) -> FloatArray:
    """Return ``E|y - x|^power`` if y is x plus the noise, restricted to [0, 1]."""
    x = np.asarray(x, dtype=np.float64)
    mass = noise.cdf(1.0 - x) - noise.cdf(-x)
    return _both_sides(lambda t: t**power * noise.pdf(t), x, noise) / mass


def _summed(primitive: FloatArray, levels: ArrayLike) -> FloatArray:
    summed: FloatArray = np.sum(np.diff(primitive, axis=-1) * np.asarray(levels), axis=-1)
    return summed


def _both_sides(
    function: Callable[[FloatArray], FloatArray], x: FloatArray, noise: ContinuousNoise
) -> FloatArray:
    """Return the integral of the function from 0 to x plus the integral from 0 to 1 - x, for x in [0, 1].

    The integrals are summed piece by piece, because the density of the noise is smooth only between its
    kinks.
    """
    step = getattr(noise, "half_step", 1.0)  # the kinks of a staircase with sensitivity 1
    kinks = np.array([0.0, min(step, 1.0), 1.0])
    nodes, weights = np.polynomial.legendre.leggauss(_ORDER)

    def integral(upper: FloatArray) -> FloatArray:
        ends = np.minimum(kinks, upper[..., None])
        half = np.diff(ends, axis=-1)[..., None] / 2.0
        t = ends[..., :-1, None] + half * (1.0 + nodes)
        summed: FloatArray = np.sum(function(t) * weights * half, axis=(-2, -1))
        return summed

    return integral(x) + integral(1.0 - x)


class Pieces(NamedTuple):
    """A density of three pieces for each of n inputs: edges, shape (n, 4), and levels, shape (3,)."""

    edges: FloatArray
    levels: FloatArray


def _three(reach: tuple[float, float], left: FloatArray, window: float, epsilon: float) -> Pieces:
    """Return the density that is e^epsilon times as high on windows that start at `left` as elsewhere."""
    low, high = reach
    same = np.ones_like(left)
    edges = np.stack([low * same, left, left + window, high * same], axis=-1)
    level = 1.0 / (high - low + np.expm1(epsilon) * window)
    return Pieces(edges, level * np.array([1.0, np.exp(epsilon), 1.0]))


def optimal_pieces(x: FloatArray, epsilon: float, power: float) -> Pieces:
    """Return OPM's density on [0, 1]: the window is centred on x, and shifted inside at the ends."""
    c = optimal_levels(epsilon, power).half_window
    return _three((0.0, 1.0), np.clip(x - c, 0.0, 1.0 - 2.0 * c), 2.0 * c, epsilon)


def piecewise_pieces(x: FloatArray, epsilon: float, member: PiecewiseMember = "pm") -> Pieces:
    """Return PM's density for inputs in [0, 1]: its outputs reach from (1-A)/2 to (1+A)/2.

    The member "pm-opt" is the member of PTT with the least worst-case variance.
    """
    s = piecewise_parameter(epsilon, member)
    length = least_half_range(epsilon, s)
    low, window = (1.0 - length) / 2.0, length / (s + 1.0)
    return _three((low, low + length), low + (length - window) * x, window, epsilon)


def square_wave_pieces(x: FloatArray, epsilon: float) -> Pieces:
    """Return SW's density for inputs in [0, 1]: the window from x - b to x + b, outputs from -b to 1 + b."""
    b = square_wave_half_window(epsilon)
    return _three((-b, 1.0 + b), x - b, 2.0 * b, epsilon)


class Line(NamedTuple):
    """One mechanism in a figure: its name in the legend, its error, and the number of its line style.

    `error` maps (x, epsilon, power) to ``E|y - x|^power``, in the shape of x.
    """

    name: str
    error: Callable[[FloatArray, float, float], FloatArray]
    number: int

    @property
    def style(self) -> dict[str, Any]:
        """Colour and dashes for `Axes.plot`, the same in every figure."""
        return family_look(self.number)

    def worst(self, x: FloatArray, power: float) -> FloatArray:
        """Return the largest error over the inputs x at each of `EPSILONS`."""
        return np.array([self.error(x, epsilon, power).max() for epsilon in EPSILONS])


LINES = (
    Line("OPM", lambda x, e, k: interval_error(x, *optimal_pieces(x, e, k), k), 0),
    Line("PM, truncated", lambda x, e, k: interval_error(x, *piecewise_pieces(x, e), k), 1),
    Line("SW, truncated", lambda x, e, k: interval_error(x, *square_wave_pieces(x, e), k), 2),
    Line("Laplace, truncated", lambda x, e, k: truncated_noise_error(x, Laplace(e), k), 3),
    Line("Laplace, bounded", lambda x, e, k: bounded_noise_error(x, Laplace(e), k), 4),
    Line(
        "staircase, truncated", lambda x, e, k: truncated_noise_error(x, Staircase.optimal(e, power=k), k), 5
    ),
    Line("PTT, truncated", lambda x, e, k: interval_error(x, *piecewise_pieces(x, e, "pm-opt"), k), 6),
)
"""OPM for the given power, and the mechanisms with which it is compared."""


def below(curve: FloatArray, other: FloatArray) -> str:
    """Return in words the ranges of `EPSILONS` where one curve is below another; "" if it never is below."""
    inside = np.concatenate([[False], curve < other, [False]])
    starts, ends = np.flatnonzero(inside[1:] & ~inside[:-1]), np.flatnonzero(inside[:-1] & ~inside[1:]) - 1
    spans = [(EPSILONS[start], EPSILONS[end]) for start, end in zip(starts, ends, strict=True)]
    return " and ".join(f"{a:g} to {b:g}" if a < b else f"{a:g}" for a, b in spans)


def window_check(epsilon: float, x: float, error: Callable[..., FloatArray], length: float) -> Check:
    """Return a check of the printed half window against the half window found by minimising an input's error.

    `error` is `interval_error` or `circular_error`; `length` is the length of the domain in the source.
    """

    def of_half_window(c: float) -> float:
        q = 1.0 / (1.0 + 2.0 * c * math.expm1(epsilon))
        edges, levels = (0.0, max(x - c, 0.0), max(x + c, 2.0 * c), 1.0), (q, q * math.exp(epsilon), q)
        return float(error(x, edges, levels, 1.0))

    printed = length * math.expm1(epsilon / 2) / (2.0 * math.expm1(epsilon))
    found = minimize_scalar(of_half_window, bounds=(1e-6, 0.5), method="bounded", options={"xatol": 1e-12})
    what = f"half window C at epsilon {epsilon:g} (printed formula, against direct minimisation)"
    return formula(what, printed, length * float(found.x), 1e-6)


def bound_epsilons(full: bool) -> tuple[float, ...]:
    """Return the epsilons at which the bound is computed."""
    return _FULL_EPSILONS if full else BOUND_EPSILONS


@cache
def least_error(epsilon: float, power: float, full: bool) -> float:
    """Return a lower bound on the worst-case ``E|y-x|^power`` of every mechanism on [0, 1].

    Unless `full`, the bound is computed from 33 inputs. This is quicker, but the bound is smaller: by 1.3 %
    at epsilon 5, and by at most 0.4 % up to epsilon 4. For power 1, windows are narrower, so the bound is
    computed from 65 inputs above epsilon 5, and from 97 above epsilon 7. At epsilon 7, 129 inputs would raise
    it by 1.6 %.
    """
    few = 33 if epsilon <= 5.0 or power == 2.0 else 65 if epsilon <= 7.0 else 97
    return lower_bound(INTERVAL, epsilon, "value", power=power, inputs=None if full else few)


@cache
def designed_error(epsilon: float, power: float) -> float:
    """Return the worst-case ``E|y-x|^power``, over all inputs, of the table that linear programming finds."""
    mechanism = minimax(INTERVAL, epsilon, goal="value", power=power)
    return worst_case(mechanism, goal="value", power=power)
