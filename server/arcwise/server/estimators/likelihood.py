"""The largest likelihood of a node distribution, free or with one linear functional held: interior point.

EM needs thousands of steps to come within 0.01 of the largest log-likelihood; the likelihoods that enter an
interval must. Here d is small (64 to 128 nodes) and a Newton step on all of them is cheap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy.linalg import cho_factor, cho_solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray: TypeAlias = NDArray[np.float64]

__all__ = ["Maximum", "maximize"]

_MAX_STEPS = 60


@dataclass(frozen=True)
class Maximum:
    """A feasible point, its log-likelihood, and a proved bound on how much higher any feasible point's is."""

    probabilities: FloatArray
    log_likelihood: float
    gap: float
    steps: int


def maximize(
    rows: FloatArray,
    counts: FloatArray,
    *,
    functional: FloatArray | None = None,
    value: float = 0.0,
    gap: float = 0.01,
) -> Maximum:
    """Maximise ``sum_j counts_j log (f rows)_j`` over distributions f, with ``functional . f = value``.

    Parameters
    ----------
    rows
        Shape (d, K): positive code probabilities of each node.
    counts
        Shape (K,), non-negative with a positive sum n.
    functional, value
        Shape (d,) with entries in [0, 1], and what its mean under f must be, strictly between its least and
        largest entry.
    gap
        Nats to which the maximum is certified; the result's own `gap` tells when rounding prevents it.

    Notes
    -----
    Primal-dual interior point with Mehrotra's corrector, on the likelihood per report: with ``g = grad L``
    and ``A f = b`` saying that `functional` has the mean `value` and ``1 - functional`` ``1 - value``,

        g - A'y + z = 0,   A f = b,   f_s z_s = mu -> 0,   f, z > 0.

    The bound. L is concave, so for any feasible f*, ``L(f*) - L(f) <= g.f* - g.f``, where ``g.f = 1``; and
    ``g.f* = (g - A'y).f* + y.b <= max_s (g - A'y)_s + y.b`` for every y. The solver's own y serves.
    """
    d, n = len(rows), float(counts.sum())
    seen = counts > 0
    rows, weights = np.ascontiguousarray(rows[:, seen]), counts[seen] / n
    if functional is None:
        a, b = np.ones((1, d)), np.ones(1)
    else:
        # Not (1, functional): where both sides of a point hardly meet, these two rows stay well apart.
        a, b = np.stack([1.0 - functional, functional]), np.array([1.0 - value, value])
    f = _feasible(np.full(d, 1.0 / d), a, b)
    y, z = np.ones(len(a)), np.ones(d)
    best = _certified(rows, weights, f, a, b, y, n)
    for step in range(1, _MAX_STEPS + 1):
        q = f @ rows
        scaled = rows * (np.sqrt(weights) / q)
        matrix = scaled @ scaled.T
        # The hair more keeps the matrix positive definite where few codes were seen and nodes are alike.
        matrix[np.diag_indices(d)] += z / f + 1e-13 * matrix.diagonal()
        dual = rows @ (weights / q) - y @ a + z
        primal = b - a @ f
        try:
            factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
            solved = cho_solve(factor, a.T, check_finite=False)
            schur = np.linalg.inv(a @ solved)
        except np.linalg.LinAlgError:
            break  # at the end of what floats can tell; the best point so far has its own certificate

        # The predictor aims at mu = 0; how far it gets sets the corrector's aim.
        complement = -f * z
        for corrector in (False, True):
            right = cho_solve(factor, dual + complement / f, check_finite=False)
            dy = schur @ (a @ right - primal)
            df = right - solved @ dy
            dz = (complement - z * df) / f
            f_reach, z_reach = _reach(f, df), _reach(z, dz)
            if not corrector:
                mu, ahead = float(f @ z) / d, float((f + f_reach * df) @ (z + z_reach * dz)) / d
                complement = (ahead / mu) ** 3 * mu - f * z - df * dz
        f = f + f_reach * df
        y, z = y + z_reach * dy, z + z_reach * dz
        candidate = _certified(rows, weights, _feasible(f, a, b), a, b, y, n)
        if candidate.gap < best.gap:
            best = replace(candidate, steps=step)
        if best.gap <= gap:
            break
    return best


def _reach(x: FloatArray, dx: FloatArray) -> float:
    """Return the step, at most 1, that keeps 1 % of every positive number that shrinks."""
    return 1.0 / max(1.0, float((-dx / x).max()) / 0.99)


def _feasible(f: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """Return f with the sum 1 and, by adding mass on the side that lacks it, the functional's value."""
    f = f / f.sum()
    if len(a) == 1:
        return f
    for row, value in zip(a, b, strict=True):
        lack = value - float(row @ f)
        if lack > 0:
            side = row > value
            share = lack / (lack + float(row[side].mean()) - value)
            f *= 1.0 - share
            f[side] += share / np.count_nonzero(side)
            break
    return f


def _certified(  # noqa: PLR0917
    rows: FloatArray,
    weights: FloatArray,
    f: FloatArray,
    a: FloatArray,
    b: FloatArray,
    y: FloatArray,
    n: float,
) -> Maximum:
    q = f @ rows
    gradient = rows @ (weights / q)
    excess = float((gradient - y @ a).max() + y @ b) - 1.0
    return Maximum(f, n * float(weights @ np.log(q)), n * max(excess, 0.0), 0)
