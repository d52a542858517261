"""The certified maximum likelihood of a node distribution, for many data sets of a kernel in the fit test.

EM would need thousands of steps for the test; an interior point method needs ten steps, on a few hundred
nodes. For finer kernels the problem is solved on some of the nodes, and nodes that could raise the likelihood
are added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.likelihood.information import dense_information, fast_information
from arcwise.analysis.likelihood.linear_maps import matrix_of, node_means
from arcwise.kernels.certificate import UNIT
from arcwise.kernels.circulant import CirculantKernel
from arcwise.kernels.window import WindowKernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.analysis.likelihood.information import Information
    from arcwise.kernels.base import Kernel
    from arcwise.typing import BoolArray, FloatArray, IntArray

_MAX_STEPS = 60

_NEARLY = 2.0
"""The log-likelihood is certified once it is estimated to be within this many nats of the maximum."""

_LEAST = 1e-200  # the least probability of a node: slacks divided by it stay within the range of a float

GAP = 0.001
"""Every log-likelihood should be certified to be within this many nats of the maximum."""

_ALL = 256  # up to this many nodes, all are used from the start
_COARSE = 96  # number of nodes with which a finer kernel starts

_ROUNDS = 40

_MASS = 1e-9  # least mass of a node that is kept

_ENOUGH = 5.0
"""Counts are treated as normal if the rarest code can expect this many reports, as in chi-square tests."""


class _State(NamedTuple):
    """The state of the interior point method: the distribution, the multiplier of its sum, and the slacks."""

    f: FloatArray
    y: float
    z: FloatArray


@dataclass(frozen=True)
class Maximum:
    """A distribution, its log-likelihood, and a proved bound on how far it is below the maximum."""

    probabilities: FloatArray
    log_likelihood: float
    gap: float
    steps: int


class Likelihood:
    """``L(f) = sum_j counts_j log (f rows)_j`` as a function of the distribution f over d nodes.

    `rows`, shape (d, K), holds the positive code probabilities of each node, and `counts` is non-negative
    with a positive sum n. `information` maps the codes seen, shape (K,), to a function like that of
    `dense_information` for these codes; by default it is computed from the rows.
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

        If rounding prevents this precision, the `gap` of the result is larger than the argument.

        Primal-dual interior point on the likelihood per report L, with multipliers y and z: with
        ``g = grad L``, ``g - y + z = 0``, ``sum f = 1``, ``f_s z_s = mu -> 0``, and f and z positive. A
        predictor determines how far mu can decrease, as in Mehrotra's method. His second-order correction is
        left out, because it can cycle when steps are short.

        The bound: L is concave, so for any distribution f*, ``L(f*) - L(f) <= g.f* - g.f``, where ``g.f = 1``
        and ``g.f* <= max_s g_s``.
        """
        d = len(self._ones)
        state = _State(np.full(d, 1.0 / d), 1.0, np.ones(d))
        best: Maximum | None = None
        step = 0
        for step in range(1, _MAX_STEPS + 1):
            moved = self._step(state)
            if moved is None:  # at the precision of floats; each point has its own certificate
                break
            state = moved
            # The approximate distance of the log-likelihood from its maximum.
            if self.n * float(state.f @ state.z) > max(8 * gap, _NEARLY):
                continue
            candidate = self._certified(state.f, step)
            if best is None or candidate.gap < best.gap:
                best = candidate
            if best.gap <= gap:
                return best
        last = self._certified(state.f, step)
        return last if best is None or last.gap < best.gap else best

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")  # a step that is not finite is rejected
    def _step(self, state: _State) -> _State | None:
        """Return the state after a step, or None if it is beyond the precision of floats."""
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
        # The predictor aims at mu = 0; the length of its step determines the target of the actual step.
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
    """Return the longest step, at most 1, that leaves at least 1 % of every positive number."""
    return 1.0 / max(1.0, -float((dx / x).min()) / 0.99)


class Fitted(NamedTuple):
    """Probabilities of nodes and codes, and a proved bound on how far this fit is below the maximum."""

    nodes: FloatArray
    codes: FloatArray
    gap: float


class Model:
    """All distributions of codes that result from some distribution of inputs."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        stride = 1 if kernel.nodes <= _ALL else -(-kernel.nodes // _COARSE)
        self._start = np.zeros(kernel.nodes, dtype=np.bool_)
        self._start[::stride] = True
        self._start[-1] = True
        # All rows are in one matrix if they are few, or if zeros among them must be found.
        self._positive = kernel.ratio() is not None
        self._rows = kernel.matrix() if stride == 1 or not self._positive else None
        self._whole = stride == 1

    def fit(self, counts: FloatArray) -> Fitted:
        """Return the most likely distribution for counts of shape (K,), with at least one report.

        The maximum on a subset of the nodes has its own bound. On all nodes the log-likelihood can be higher
        by at most ``n (max_s grad_s - 1)`` over all nodes s. While that exceeds 0.001, nodes with a local
        maximum of the gradient are added (the exchange methods for mixtures; Lesperance and Kalbfleisch
        1992), and nodes without mass are removed.
        """
        if not self._whole:
            return self._exchange(counts)
        every = np.arange(self.kernel.nodes)
        rows = self.rows_of(every)
        best = self._likelihood(rows, every, counts).maximize(gap=GAP)
        return Fitted(best.probabilities, law(best.probabilities @ rows), best.gap)

    def active(self, counts: FloatArray, fitted: Fitted) -> IntArray:
        """Return the nodes on which the most likely distribution has mass, shape (d,), increasing.

        An interior point method leaves every node some mass. At the maximum either a node's mass is 0 or its
        gradient is 1. Of the mass and the gradient's distance from 1, the larger number is the one that is
        not 0.
        """
        massive = fitted.nodes > 1.0 - self._gradient(counts, fitted.codes)
        massive[np.argmax(fitted.nodes)] = True
        return np.flatnonzero(massive)

    def _exchange(self, counts: FloatArray) -> Fitted:
        kernel, n = self.kernel, float(counts.sum())
        needed = self._needed(counts)
        taken = self._start | needed
        result = Fitted(np.empty(0), np.empty(0), math.inf)
        for _ in range(_ROUNDS):
            chosen = np.flatnonzero(taken)
            rows = self.rows_of(chosen)
            best = self._likelihood(rows, chosen, counts).maximize(gap=GAP / 4)
            codes = best.probabilities @ rows
            gradient = self._gradient(counts, codes)
            gap = n * max(float(gradient.max()) - 1.0, 0.0)
            if gap < result.gap:
                nodes = np.zeros(kernel.nodes)
                nodes[chosen] = best.probabilities
                result = Fitted(nodes, law(codes), gap)
            if gap <= GAP:
                break
            left, right = np.roll(gradient, 1), np.roll(gradient, -1)
            if not kernel.circular:
                left[0] = right[-1] = -np.inf
            peak = (gradient >= left) & (gradient >= right) & (n * (gradient - 1.0) > GAP / 2)
            if not (peak & ~taken).any():
                break  # what remains is the rounding error of the solution on these nodes
            taken = peak | needed
            taken[chosen[best.probabilities > _MASS]] = True
        return result

    def _gradient(self, counts: FloatArray, codes: FloatArray) -> FloatArray:
        """Return the derivatives of the log-likelihood per report by node probabilities, shape (N,)."""
        residual = np.divide(counts, counts.sum() * codes, out=np.zeros_like(codes), where=counts > 0)
        return node_means(self.kernel, residual)

    def _likelihood(self, rows: FloatArray, nodes: IntArray, counts: FloatArray) -> Likelihood:
        return Likelihood(rows, counts, information=fast_information(self.kernel, nodes))

    def rows_of(self, nodes: IntArray) -> FloatArray:
        """Return the code probabilities of some nodes, shape (d, K)."""
        if self._rows is None:
            return self.kernel.probabilities(nodes)
        return self._rows if len(nodes) == len(self._rows) else self._rows[nodes]

    def _needed(self, counts: FloatArray) -> BoolArray:
        """Return nodes that together give weight to every seen code, if rows have zeros."""
        taken = np.zeros(self.kernel.nodes, dtype=np.bool_)
        if not self._positive and self._rows is not None:
            taken[np.unique(self._rows[:, counts > 0].argmax(axis=0))] = True
        return taken


def law(codes: FloatArray) -> FloatArray:
    """Return probabilities of codes that sum to 1: rows are rounded, but draws need an exact sum."""
    law: FloatArray = codes / codes.sum()
    return law


def largest_probabilities(kernel: Kernel) -> FloatArray:
    """Return each code's largest probability over all inputs, shape (K,).

    An input is a mixture of nodes, so the largest probability is at a node. Every code lies in some window.
    So for a window kernel with the background b and the extra weight g, the largest probability is
    ``(b + g) / 2**64``, and one unit more for the first codes.
    """
    if isinstance(kernel, WindowKernel):
        weight = kernel.background + kernel.extra
        result = np.full(kernel.codes, weight / UNIT)
        result[: kernel.leftover] = (weight + 1) / UNIT
        return result
    if isinstance(kernel, CirculantKernel):  # rows are one row turned: every code has every weight once
        return np.full(kernel.codes, float(kernel.probabilities([0]).max()))
    largest: FloatArray = matrix_of(kernel).max(axis=0)
    return largest


def smallest_probabilities(kernel: Kernel) -> FloatArray:
    """Return a lower bound of each code's probability over all inputs, shape (K,); mostly attained."""
    if isinstance(kernel, WindowKernel):
        return np.full(kernel.codes, kernel.background / UNIT)
    smallest: FloatArray = kernel.matrix().min(axis=0)
    return smallest


def residuals(counts: FloatArray, codes: FloatArray) -> FloatArray:
    """Return Pearson's residuals ``(counts - n q) / sqrt(n q)``; 0 where q is 0.

    The denominator is not ``sqrt(n q (1 - q))``. If one code has nearly all reports, that would be the spread
    of all other codes together, and a chance error of the fit in these would look like a surplus of the one
    code.
    """
    n = counts.sum()
    spread = np.sqrt(n * codes)
    result: FloatArray = np.divide(counts - n * codes, spread, out=np.zeros_like(codes), where=spread > 0)
    return result


def g_squared(counts: FloatArray, codes: FloatArray) -> float:
    """Return ``2 sum_j counts_j log(counts_j / (n q_j))`` over the codes that were seen and are possible."""
    seen = (counts > 0) & (codes > 0)
    c = counts[seen]
    return 2.0 * float(c @ np.log(c / (counts.sum() * codes[seen])))


class Face:
    """The distributions on some of the nodes, near a given one, to which data sets drawn from it are fitted.

    The counts have chosen these nodes, and a draw may not choose other nodes. The notes of `fit_test` give
    the reason.

    `rows`, shape (d, K), holds the code probabilities of these nodes, and `nodes` the probabilities of the
    given distribution, up to a factor. `lowest`, shape (K,), is each code's smallest probability over all
    inputs. `information` is the function that `fast_information` returns for these nodes.
    """

    def __init__(
        self,
        rows: FloatArray,
        nodes: FloatArray,
        lowest: FloatArray,
        *,
        information: Callable[[BoolArray], Information] | None = None,
    ) -> None:
        self._rows = rows
        self._lowest = lowest
        self._information = information
        self.codes = law(nodes @ rows)

    def statistics(self, drawn: FloatArray) -> tuple[FloatArray, float]:
        """Return the largest residual and G^2 of each of B refitted data sets, shape (B, 2), and the gap.

        `drawn`, shape (B, K), holds counts drawn from `codes`, all with the same number of reports.

        If every code can expect five reports, the fit is one linear step: a projection in the metric of the
        multinomial law. This step may make a node's probability negative. Directions in which a change of f
        by 1 moves the codes by less than a standard error are left out: no fit moves that far in them. With
        fewer reports, every set gets its most likely distribution on these nodes.
        """
        if self._lowest.min() > 0.0 and drawn[0].sum() * self.codes.min() >= _ENOUGH:
            return self._projected(drawn), 0.0
        found = []
        gap = 0.0
        for counts in drawn:
            best = Likelihood(self._rows, counts, information=self._information).maximize(gap=GAP)
            codes = law(best.probabilities @ self._rows)
            found.append((residuals(counts, codes).max(), g_squared(counts, codes)))
            gap = max(gap, best.gap)
        return np.array(found), gap

    def _projected(self, drawn: FloatArray) -> FloatArray:
        n, q = float(drawn[0].sum()), self.codes
        scale = np.sqrt(n * q)
        _, sizes, directions = np.linalg.svd(self._rows / np.sqrt(q), full_matrices=False)
        directions = directions[sizes > 1.0 / math.sqrt(n)]
        errors = (drawn - n * q) / scale
        left = errors - (errors @ directions.T) @ directions
        fitted = np.maximum((drawn - left * scale) / n, self._lowest)
        fitted /= fitted.sum(axis=1, keepdims=True)
        g = [g_squared(counts, codes) for counts, codes in zip(drawn, fitted, strict=True)]
        return np.stack([left.max(axis=1), g], axis=1)
