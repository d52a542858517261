"""The largest likelihood of a node distribution, by an interior point method.

EM needs thousands of steps to come within 0.01 of the largest log-likelihood; the fit test compares
likelihoods that must be nearer. Here d is small (64 to 256 nodes) and a Newton step on all is cheap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.likelihood.information import dense_information

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.analysis.likelihood.information import Information
    from arcwise.typing import BoolArray, FloatArray

_MAX_STEPS = 60

_NEARLY = 2.0
"""Nats that the log-likelihood still lacks, about, from which on it is worth a certificate."""

_LEAST = 1e-200
"""The least probability of a node: slacks over it stay within the range of a float."""


class _State(NamedTuple):
    """Where the interior point method stands: the distribution, the multiplier of its sum, the slacks."""

    f: FloatArray
    y: float
    z: FloatArray


@dataclass(frozen=True)
class Maximum:
    """A distribution, its log-likelihood, and a proved bound on how much higher any distribution's is."""

    probabilities: FloatArray
    log_likelihood: float
    gap: float
    steps: int


class Likelihood:
    """``L(f) = sum_j counts_j log (f rows)_j`` as a function of the distribution f over d nodes.

    `rows`, shape (d, K), holds the positive code probabilities of each node, and `counts` is non-negative
    with a positive sum n. `information` takes the codes seen, shape (K,), to a function as
    `dense_information` returns it for these codes; unless it is given, that function is computed from the
    rows.
    """

    def __init__(
        self,
        rows: FloatArray,
        counts: FloatArray,
        *,
        information: Callable[[BoolArray], Information] | None = None,
    ) -> None:
        seen = counts > 0
        self.n = float(counts.sum())
        self._rows = np.ascontiguousarray(rows[:, seen])
        self._weights = counts[seen] / self.n
        self._information = dense_information(self._rows) if information is None else information(seen)
        self._ones = np.ones(len(rows))

    def maximize(self, *, gap: float = 0.01) -> Maximum:
        """Return the maximum over all distributions f, certified to `gap` nats.

        The result has its own `gap`, which is larger where rounding prevents that.

        Primal-dual interior point on the likelihood per report: with ``g = grad L``, ``g - y + z = 0``,
        ``sum f = 1``, ``f_s z_s = mu -> 0``, and f and z positive. A predictor says how far mu can go, as
        with Mehrotra; his correction of second order is left out: where steps are short it can make them go
        round in circles.

        The bound. L is concave, so for any distribution f*, ``L(f*) - L(f) <= g.f* - g.f``, where ``g.f = 1``
        and ``g.f* <= max_s g_s``.
        """
        d = len(self._ones)
        state = _State(np.full(d, 1.0 / d), 1.0, np.ones(d))
        best: Maximum | None = None
        step = 0
        for step in range(1, _MAX_STEPS + 1):
            moved = self._step(state)
            if moved is None:  # at the end of what floats can tell; each point has its own certificate
                break
            state = moved
            # About what the log-likelihood still lacks.
            if self.n * float(state.f @ state.z) > max(8 * gap, _NEARLY):
                continue
            candidate = self._certified(state.f, step)
            if best is None or candidate.gap < best.gap:
                best = candidate
            if best.gap <= gap:
                return best
        last = self._certified(state.f, step)
        return last if best is None or last.gap < best.gap else best

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")  # such a step is none
    def _step(self, state: _State) -> _State | None:
        """Return the state after a step, or None where floats cannot tell one."""
        f, y, z = state
        q = f @ self._rows
        ratio = self._weights / q
        factored = self._information(ratio / q, z / f)
        if factored is None:
            return None
        solve, tilt, level = factored
        primal = 1.0 - float(f.sum())
        dual = self._rows @ ratio - y + z - primal * tilt
        solved = solve(self._ones)
        total = float(solved.sum())
        # The predictor aims at mu = 0; how far it gets sets the aim of the step.
        complement = -f * z
        for predictor in (True, False):
            right = solve(dual + complement / f)
            shift = (float(right.sum()) - primal) / total if total else math.nan
            df = right - solved * shift
            dz = (complement - z * df) / f
            f_reach, z_reach = _reach(f, df), _reach(z, dz)
            if predictor:
                mu = float(f @ z) / len(f)
                ahead = float((f + f_reach * df) @ (z + z_reach * dz)) / len(f)
                complement = (ahead / mu) ** 3 * mu - f * z
        dy = shift - level * primal - float(tilt @ df)
        moved = _State(np.maximum(f + f_reach * df, _LEAST), y + z_reach * dy, z + z_reach * dz)
        return moved if math.isfinite(float(moved.f.sum() + moved.z.sum()) + moved.y) else None

    def _certified(self, f: FloatArray, step: int) -> Maximum:
        f = f / f.sum()
        q = f @ self._rows
        excess = float((self._rows @ (self._weights / q)).max()) - 1.0
        value = self.n * float(self._weights @ np.log(q))
        return Maximum(f, value, self.n * max(excess, 0.0), step)


def _reach(x: FloatArray, dx: FloatArray) -> float:
    """Return the step, at most 1, that keeps 1 % of every positive number that shrinks."""
    return 1.0 / max(1.0, -float((dx / x).min()) / 0.99)
