"""The largest likelihood of a node distribution, free or with one linear functional held: interior point.

EM needs thousands of steps to come within 0.01 of the largest log-likelihood; the likelihoods that enter an
interval must. Here d is small (64 to 256 nodes) and a Newton step on all of them is cheap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from arcwise.server.estimators.gram import dense_gram

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from arcwise.server.estimators.gram import Gram

    FloatArray: TypeAlias = NDArray[np.float64]

__all__ = ["Likelihood", "Maximum", "State", "maximize"]

_MAX_STEPS = 60

_WARM = 1.0
"""Nats by which the iterate from which another problem starts is still off: a solved one is at the edge."""


_NEARLY = 2.0
"""Nats that the log-likelihood still lacks, about, from which on it is worth a certificate."""

_LEAST = 1e-200
"""The least probability of a node: slacks over it stay within the range of a float."""

_ROUNDING = 2.0**-53


class State(NamedTuple):
    """Where the interior point method stands: the distribution, the multipliers, the slacks."""

    f: FloatArray
    y: FloatArray
    z: FloatArray


@dataclass(frozen=True)
class Maximum:
    """A feasible point, its log-likelihood, and a proved bound on how much higher any feasible point's is.

    Attributes
    ----------
    warm
        From where a problem that differs little is solved in few steps.
    """

    probabilities: FloatArray
    log_likelihood: float
    gap: float
    steps: int
    warm: State


class Likelihood:
    """``L(f) = sum_j counts_j log (f rows)_j`` as a function of the distribution f over d nodes.

    Parameters
    ----------
    rows
        Shape (d, K): positive code probabilities of each node.
    counts
        Shape (K,), non-negative with a positive sum n.
    gram
        From s, shape (number of codes seen,), to ``rows diag(s) rows'`` on these codes; its lower triangle
        suffices. Computed from the rows unless given.
    """

    def __init__(
        self,
        rows: FloatArray,
        counts: FloatArray,
        *,
        gram: Callable[[NDArray[np.bool_]], Gram] | None = None,
    ) -> None:
        seen = counts > 0
        self.n = float(counts.sum())
        self._rows = np.ascontiguousarray(rows[:, seen])
        self._weights = counts[seen] / self.n
        self._gram = dense_gram(self._rows) if gram is None else gram(seen)
        self._ones = np.ones((1, len(rows)))

    def maximize(
        self,
        *,
        functional: FloatArray | None = None,
        value: float = 0.0,
        gap: float = 0.01,
        start: State | None = None,
        decisive: tuple[float, float] = (-math.inf, math.inf),
    ) -> Maximum:
        """Return the maximum over all distributions f, or those with ``functional . f = value``.

        Parameters
        ----------
        functional, value
            Shape (d,) with entries in [0, 1], and what its mean under f must be, strictly between its least
            and largest entry.
        gap
            Nats to which the maximum is certified; the result's own `gap` tells when rounding prevents it.
        start
            Of the free maximum or of one under a constraint that differs little.
        decisive
            A maximum that is proved to be below the first or above the second log-likelihood need not be
            certified further; it is about two nats from the truth or nearer.

        Notes
        -----
        Primal-dual interior point with Mehrotra's corrector, on the likelihood per report: with
        ``g = grad L`` and ``A f = b`` saying that `functional` has the mean `value` and ``1 - functional``
        ``1 - value``,

            g - A'y + z = 0,   A f = b,   f_s z_s = mu -> 0,   f, z > 0.

        The bound. L is concave, so for any feasible f*, ``L(f*) - L(f) <= g.f* - g.f``, where ``g.f = 1``;
        and ``g.f* = (g - A'y).f* + y.b <= max_s (g - A'y)_s + y.b`` for every y. The solver's own y serves.
        """
        if functional is None:
            a, b = self._ones, np.ones(1)
        else:
            # Not (1, functional): where both sides of a point hardly meet, these two rows stay well apart.
            a, b = np.stack([1.0 - functional, functional]), np.array([1.0 - value, value])
        if start is not None:
            start = start._replace(y=np.full(len(a), start.y[0])) if len(start.y) < len(a) else start
            found = self._climb(start, a, b, gap, decisive)
            if found.gap <= gap or _decided(found, decisive):
                return found
        d = a.shape[1]
        cold = State(_feasible(np.full(d, 1.0 / d), a, b), np.ones(len(a)), np.ones(d))
        return self._climb(cold, a, b, gap, decisive)

    def spreads(self, state: State) -> Callable[[FloatArray], float]:
        """Return the function from a functional to about the standard error of its mean, for first guesses.

        Near the maximum, ``L(f* + d) = L* - n d'Hd/2`` with H the information, here with the barrier's
        ``z/f``, which holds what is nearly 0 there. Of all d with ``functional . d = e`` and the sum 0 the
        least drop is ``n e^2 / (2 V)``, with V the functional's variance under ``H^-1`` on such d.
        """
        q = state.f @ self._rows
        factor, failed = self._factor(state, self._weights / q / q)
        ones = dpotrs(factor, self._ones[0], lower=0)[0]
        total = float(ones.sum())

        def spread(functional: FloatArray) -> float:
            solved = dpotrs(factor, functional, lower=0)[0]
            variance = float(functional @ solved) - float(functional @ ones) ** 2 / total
            usable = not failed and variance > 0.0
            return math.sqrt(variance / self.n) if usable else 1.0 / math.sqrt(self.n)

        return spread

    def _factor(self, state: State, curvature: FloatArray) -> tuple[FloatArray, int]:
        """Return the factor of ``rows diag(curvature) rows' + diag(z/f)``, and 0 where it has one."""
        matrix = self._gram(curvature)
        diagonal = matrix.ravel()[:: len(state.f) + 1]
        # The hair more keeps the matrix positive definite where few codes were seen and nodes are alike.
        diagonal += state.z / state.f + 1e-13 * diagonal
        # LAPACK reads columns: to it this is the transpose, whose upper triangle is our lower one.
        factor, failed = dpotrf(matrix.T, lower=0, clean=0, overwrite_a=1)
        return factor, failed

    def _climb(
        self, start: State, a: FloatArray, b: FloatArray, gap: float, decisive: tuple[float, float]
    ) -> Maximum:
        warm, (f, y, z) = start, start
        best = None
        step = 0
        lost = 1e3 * max(self.n * float(f @ z), 1.0)
        for step in range(1, _MAX_STEPS + 1):
            moved = self._step(State(f, y, z), a, b)
            if moved is None:  # at the end of what floats can tell; each point has its own certificate
                break
            f, y, z = moved
            off = self.n * float(f @ z)  # about what the log-likelihood still lacks
            if off > lost:  # some starts nearby lead away
                break
            if off > _WARM:
                warm = moved
            if off > max(8 * gap, _NEARLY):
                continue
            candidate = self._certified(_feasible(f, a, b), a, b, y, step, warm)
            if best is None or candidate.gap < best.gap:
                best = candidate
            if best.gap <= gap or _decided(best, decisive):
                return best
        last = self._certified(_feasible(f, a, b), a, b, y, step, warm)
        return last if best is None or last.gap < best.gap else best

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")  # such a step is none
    def _step(self, state: State, a: FloatArray, b: FloatArray) -> State | None:
        """Return the state after a predictor and a corrector, or None where floats cannot tell one."""
        f, y, z = state
        q = f @ self._rows
        ratio = self._weights / q
        factor, failed = self._factor(state, ratio / q)
        if failed:
            return None
        dual = self._rows @ ratio - y @ a + z
        primal = b - a @ f
        solved = dpotrs(factor, a.T, lower=0)[0]
        schur = _inverse(a @ solved)
        # The predictor aims at mu = 0; how far it gets sets the corrector's aim.
        complement = -f * z
        for corrector in (False, True):
            right = dpotrs(factor, dual + complement / f, lower=0)[0]
            dy = schur @ (a @ right - primal)
            df = right - solved @ dy
            dz = (complement - z * df) / f
            f_reach, z_reach = _reach(f, df), _reach(z, dz)
            if not corrector:
                mu = float(f @ z) / len(f)
                ahead = float((f + f_reach * df) @ (z + z_reach * dz)) / len(f)
                complement = (ahead / mu) ** 3 * mu - f * z - df * dz
        moved = State(np.maximum(f + f_reach * df, _LEAST), y + z_reach * dy, z + z_reach * dz)
        return moved if math.isfinite(float(moved.f.sum() + moved.y.sum() + moved.z.sum())) else None

    def _certified(  # noqa: PLR0917
        self, f: FloatArray, a: FloatArray, b: FloatArray, y: FloatArray, step: int, warm: State
    ) -> Maximum:
        q = f @ self._rows
        gradient = self._rows @ (self._weights / q)
        excess = float((gradient - y @ a).max() + y @ b) - 1.0
        value = self.n * float(self._weights @ np.log(q))
        return Maximum(f, value, self.n * max(excess, 0.0), step, warm)


def maximize(
    rows: FloatArray,
    counts: FloatArray,
    *,
    functional: FloatArray | None = None,
    value: float = 0.0,
    gap: float = 0.01,
) -> Maximum:
    """Maximise one likelihood once; see `Likelihood.maximize`."""
    return Likelihood(rows, counts).maximize(functional=functional, value=value, gap=gap)


def _decided(found: Maximum, decisive: tuple[float, float]) -> bool:
    """Return whether the maximum is proved to be below the first log-likelihood, or above the second."""
    return found.log_likelihood + found.gap < decisive[0] or found.log_likelihood > decisive[1]


def _inverse(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a matrix of one or two rows; numpy's own takes five times as long."""
    if len(matrix) == 1:
        return np.reciprocal(matrix)
    (p, q), (r, s) = matrix.tolist()
    determinant = p * s - q * r
    if determinant == 0.0:
        return np.full((2, 2), math.nan)  # no step: see the end of `Likelihood._step`
    inverse: FloatArray = np.array([[s, -q], [-r, p]]) / determinant
    return inverse


def _reach(x: FloatArray, dx: FloatArray) -> float:
    """Return the step, at most 1, that keeps 1 % of every positive number that shrinks."""
    return 1.0 / max(1.0, -float((dx / x).min()) / 0.99)


def _feasible(f: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """Return f with the sum 1 and, by adding mass on the side that lacks it, the functional's value."""
    f = f / f.sum()
    if len(a) == 1:
        return f
    for row, value in zip(a, b, strict=True):
        lack = value - float(row @ f)
        if lack > 1e-14:  # less is rounding
            most = float(row.max())
            side = row > value if value < most else row == most  # rounding may take the value to the end
            share = lack / (lack + float(row[side].mean()) - value)
            f *= max(1.0 - share, _ROUNDING)  # every node keeps some mass: a code may have no other
            f[side] += share / np.count_nonzero(side)
            break
    return f
