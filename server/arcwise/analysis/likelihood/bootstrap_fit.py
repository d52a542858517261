"""The most likely distribution of the codes, certified, for one kernel and the many data sets of a bootstrap.

EM needs thousands of steps for what a test needs; an interior point method (`likelihood`) takes ten, on a few
hundred nodes. Finer kernels are solved on some of their nodes, to which those are added that could raise the
likelihood.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.analysis.likelihood.information import fast_information
from arcwise.analysis.likelihood.likelihood import Likelihood
from arcwise.analysis.likelihood.linear_maps import matrix_of, node_means
from arcwise.kernels.certificate import UNIT
from arcwise.kernels.circulant import CirculantKernel
from arcwise.kernels.window import WindowKernel

if TYPE_CHECKING:
    from arcwise.kernels.base import Kernel
    from arcwise.typing import BoolArray, FloatArray, IntArray

GAP = 0.001
"""Nats to which every likelihood is to be certified."""

_ALL = 160
"""Nodes up to which all are taken at once."""

_COARSE = 96
"""Nodes that a finer kernel starts with."""

_ROUNDS = 40

_MASS = 1e-9
"""What a node has at least that stays."""


class Fitted(NamedTuple):
    """Probabilities of the nodes and of the codes, and a proved bound on what the log-likelihood lacks."""

    nodes: FloatArray
    codes: FloatArray
    gap: float


class Model:
    """All distributions of codes that some distribution of inputs gives."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        stride = 1 if kernel.nodes <= _ALL else -(-kernel.nodes // _COARSE)
        self._start = np.zeros(kernel.nodes, dtype=np.bool_)
        self._start[::stride] = True
        self._start[-1] = True
        # All rows at once, where there are few, or where zeros among them must be looked for.
        self._positive = kernel.ratio() is not None
        self._rows = kernel.matrix() if stride == 1 or not self._positive else None
        self._whole = stride == 1

    def fit(self, counts: FloatArray) -> Fitted:
        """Return the most likely distribution for counts of shape (K,), with at least one report.

        Notes
        -----
        On a subset of the nodes the maximum has its own bound; on all nodes the log-likelihood can be higher
        by at most ``n (max_s grad_s - 1)`` over all nodes s. While that exceeds 0.001, the nodes where the
        gradient is highest among its neighbours join (the exchange methods for mixtures; Lesperance and
        Kalbfleisch 1992), and nodes without mass leave.
        """
        if not self._whole:
            return self._exchange(counts)
        every = np.arange(self.kernel.nodes)
        rows = self.rows_of(every)
        best = self._likelihood(rows, every, counts).maximize(gap=GAP)
        return Fitted(best.probabilities, law(best.probabilities @ rows), best.gap)

    def active(self, counts: FloatArray, fitted: Fitted) -> IntArray:
        """Return the nodes that the most likely distribution has mass on, shape (d,), increasing.

        An interior point method leaves every node some mass. At the maximum a node's mass or what its
        gradient lacks to 1 is 0; the larger of the two is the one that is not.
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
                break  # what is missing is the rounding error of the solution on these nodes
            taken = peak | needed
            taken[chosen[best.probabilities > _MASS]] = True
        return result

    def _gradient(self, counts: FloatArray, codes: FloatArray) -> FloatArray:
        """Return the derivative of the log-likelihood per report by each node's probability, shape (N,)."""
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
        """Return nodes that together give every seen code weight, where rows have zeros."""
        taken = np.zeros(self.kernel.nodes, dtype=np.bool_)
        if not self._positive and self._rows is not None:
            taken[np.unique(self._rows[:, counts > 0].argmax(axis=0))] = True
        return taken


def law(codes: FloatArray) -> FloatArray:
    """Return probabilities of codes with the sum 1: rows are rounded, draws want it exact."""
    law: FloatArray = codes / codes.sum()
    return law


def largest_probabilities(kernel: Kernel) -> FloatArray:
    """Return each code's largest probability over all inputs, shape (K,).

    An input is a mixture of nodes, so the largest is a node's. Every code lies in some window, so with a
    window kernel it is ``(b + g) / 2**64``, for the first codes one unit more.
    """
    if isinstance(kernel, WindowKernel):
        weight = kernel.background + kernel.extra
        result = np.full(kernel.codes, weight / UNIT)
        result[: kernel.leftover] = (weight + 1) / UNIT
        return result
    if isinstance(kernel, CirculantKernel):  # one row turned: every code has every weight once
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

    Not over ``sqrt(n q (1 - q))``: where one code has nearly all reports, that is the spread of all others
    together, and what the fit adds to these by chance would stand out as a surplus of the one.
    """
    n = counts.sum()
    spread = np.sqrt(n * codes)
    result: FloatArray = np.divide(counts - n * codes, spread, out=np.zeros_like(codes), where=spread > 0)
    return result


def g_squared(counts: FloatArray, codes: FloatArray) -> float:
    """Return ``2 sum_j counts_j log(counts_j / (n q_j))`` over the codes that were seen and have a chance."""
    seen = (counts > 0) & (codes > 0)
    c = counts[seen]
    return 2.0 * float(c @ np.log(c / (counts.sum() * codes[seen])))
