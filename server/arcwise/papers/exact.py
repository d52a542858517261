"""Exact expected errors of one report, as integrals of densities: what the curves of the figures are made of.

Everything is on the unit interval or the circle of circumference 1. "Truncated" is the word of the sources
for outputs that are moved to the nearer end of [0, 1]; "bounded" noise is restricted to it and scaled up.
Nothing here is sampled, and the integer kernels are not used: the tests compare the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from arcwise.noise import ContinuousNoise
    from arcwise.typing import FloatArray


_ORDER = 48
"""Nodes of the Gauss-Legendre rule: exact for steps and, to rounding, for e^(-epsilon x) up to epsilon 20."""


def interval_error(
    x: ArrayLike, edges: ArrayLike, levels: ArrayLike, power: float, *, truncate: bool = True
) -> FloatArray:
    """Return ``E|y - x|^power`` for a piecewise constant density of y and inputs in [0, 1], shape (n,).

    The m pieces have ascending edges, shape (m + 1,) or (n, m + 1), also outside [0, 1], and the densities
    `levels`, shape (m,) or (n, m). With `truncate`, y is moved into [0, 1] first. `power` is at least 1.
    """
    x = np.asarray(x, dtype=np.float64)[..., None]
    edges = np.asarray(edges, dtype=np.float64)
    k = power + 1.0
    inside = np.clip(edges, 0.0, 1.0) if truncate else edges
    primitive = np.copysign(np.abs(inside - x) ** k, inside - x) / k
    if truncate:  # beyond an end the error stays what it is there
        primitive = primitive + np.maximum(edges - 1.0, 0.0) * (1.0 - x) ** power
        primitive = primitive + np.minimum(edges, 0.0) * x**power
    return _summed(primitive, levels)


def circular_error(x: ArrayLike, edges: ArrayLike, levels: ArrayLike, power: float) -> FloatArray:
    """Return ``E d(y, x)^power`` for a piecewise constant density of y, with ``d = min(|y-x|, 1 - |y-x|)``.

    The arguments are as for `interval_error`, with inputs in [0, 1); every edge is less than one turn away
    from its x.
    """
    z = np.asarray(edges, dtype=np.float64) - np.asarray(x, dtype=np.float64)[..., None]
    k = power + 1.0
    size = np.abs(z)
    # The integral of d^power from 0 to |z|: up to half a turn, then back down.
    back = 2.0 * 0.5**k - np.maximum(1.0 - size, 0.0) ** k
    return _summed(np.copysign(np.where(size <= 0.5, size**k, back) / k, z), levels)


def truncated_noise_error(x: ArrayLike, noise: ContinuousNoise, power: float) -> FloatArray:
    """Return ``E|y - x|^power`` where y is x plus the noise, moved into [0, 1].

    ``int_0^(1-x) k t^(k-1) P(noise > t) dt``, and the same up to x for the other side.
    """
    x = np.asarray(x, dtype=np.float64)
    return _both_sides(lambda t: power * t ** (power - 1.0) * noise.sf(t), x, noise)


def bounded_noise_error(x: ArrayLike, noise: ContinuousNoise, power: float) -> FloatArray:
    """Return ``E|y - x|^power`` where y is x plus the noise given that it lies in [0, 1]."""
    x = np.asarray(x, dtype=np.float64)
    mass = noise.cdf(1.0 - x) - noise.cdf(-x)
    return _both_sides(lambda t: t**power * noise.pdf(t), x, noise) / mass


def _summed(primitive: FloatArray, levels: ArrayLike) -> FloatArray:
    summed: FloatArray = np.sum(np.diff(primitive, axis=-1) * np.asarray(levels), axis=-1)
    return summed


def _both_sides(
    function: Callable[[FloatArray], FloatArray], x: FloatArray, noise: ContinuousNoise
) -> FloatArray:
    """Return the integrals of the function from 0 to x plus those from 0 to 1 - x, for x in [0, 1].

    They are summed piece by piece: the density of the noise is smooth between kinks.
    """
    step = getattr(noise, "half_step", 1.0)  # of a staircase with sensitivity 1
    kinks = np.array([0.0, min(step, 1.0), 1.0])
    nodes, weights = np.polynomial.legendre.leggauss(_ORDER)

    def integral(upper: FloatArray) -> FloatArray:
        ends = np.minimum(kinks, upper[..., None])
        half = np.diff(ends, axis=-1)[..., None] / 2.0
        t = ends[..., :-1, None] + half * (1.0 + nodes)
        summed: FloatArray = np.sum(function(t) * weights * half, axis=(-2, -1))
        return summed

    return integral(x) + integral(1.0 - x)
