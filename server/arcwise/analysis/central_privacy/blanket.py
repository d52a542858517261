"""The privacy blanket of a kernel: an upper bound of what the counts of n reports reveal about one device.

Balle, Bell, Gascon and Nissim (2019) split every row into a part that all rows share, the blanket
``w_j = min over s of R_s(j)``, and a rest. Tell an adversary who has drawn from the rest, and what: the other
reports are m + 1 draws, m binomial, one of them from the row of device 1 and the others from the blanket.
With the identity ``Pr[Bin(n - 1, g) = M - 1] / M = Pr[Bin(n, g) = M] / (n g)`` the mean over m is one sum of
independent terms,

    delta(E) <= (1 / n) E[max(0, Z_1 + ... + Z_n)],    Z = (R_s(j) - E R_t(j)) / w_j with the probability w_j,

and 0 otherwise, for the worst pair of nodes s, t. Codes without a blanket add the sum of
``max(0, R_s(j) - E R_t(j))``. The proof is in docs/explanation/central-privacy.md.

All bounds err upward: a blanket that is rounded down is a blanket, a larger Z has a larger positive part, and
a smaller E a larger divergence.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.central_privacy.inversion import (
    ROUNDOFF,
    best_line,
    log_positive_part,
    log_positive_part_below,
)
from arcwise.kernels import WindowKernel
from arcwise.kernels.certificate import UNIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.kernels.base import Kernel
    from arcwise.typing import FloatArray

__all__ = ["Blanket", "Pair", "blanket_of"]

Pair = tuple[int, int]
"""Two nodes that device 1 may have."""

_SLACK = 16 * ROUNDOFF
_COARSE = 0.1
"""Smoothing where many pairs are compared: half a percent of delta, a twentieth of a percent of epsilon."""


class Blanket(ABC):
    """The divergences of the counts of n reports with one of them exchanged, for every pair of nodes."""

    @abstractmethod
    def start(self) -> Pair:
        """Return a pair to begin with."""

    @abstractmethod
    def log_delta_of(self, pair: Pair, epsilon: float, n: int) -> float:
        """Return an upper bound of the logarithm of delta of one pair, -inf where it is 0."""

    @abstractmethod
    def worst(self, epsilon: float, n: int, first: Pair) -> tuple[float, Pair]:
        """Return an upper bound of the logarithm of delta over all pairs, and the pair that has it.

        `first` is looked at first: the worse it is, the fewer others need more than a glance.
        """

    @abstractmethod
    def log_delta_below(self, epsilon: float, n: int) -> float:
        """Return a lower bound: of a data set in which all others have one and the same value."""


def blanket_of(kernel: Kernel) -> Blanket:
    """Return the blanket of a kernel."""
    if isinstance(kernel, WindowKernel):
        return _WindowBlanket(kernel)
    return _RowBlanket(kernel)


class _WindowBlanket(Blanket):
    """Two windows of the least overlap, which dominate every other pair for every E.

    The leftover is the same in every row: who has drawn it can be told, and is at rest.
    """

    def __init__(self, kernel: WindowKernel) -> None:
        window, codes = kernel.window, kernel.codes
        self._apart = min(window, codes - window if kernel.circular else kernel.nodes - 1)
        self._window = window
        self._codes = codes
        self._background = kernel.background / UNIT * (1 - _SLACK)
        self._inside = (kernel.background + kernel.extra) / UNIT
        self._ratio = float(kernel.ratio())
        self._kernel = kernel

    def start(self) -> Pair:
        return 0, 0

    def log_delta_of(self, pair: Pair, epsilon: float, n: int) -> float:
        e = math.exp(epsilon) * (1 - _SLACK)
        p = self._ratio
        values = np.array([p - e, 1 - p * e, p * (1 - e), 1 - e]) + _SLACK * p * (1 + e)
        apart, both = self._apart, self._window - self._apart
        counts = np.array([apart, apart, both, self._codes - self._window - apart])
        used = counts > 0
        return log_positive_part(values[used], (counts * self._background)[used], n) - math.log(n)

    def worst(self, epsilon: float, n: int, first: Pair) -> tuple[float, Pair]:
        return self.log_delta_of(first, epsilon, n), first

    def log_delta_below(self, epsilon: float, n: int) -> float:
        """Return that of the least overlapping windows, with all others in a third window far from both."""
        kernel = self._kernel
        if kernel.circular:
            second = self._apart
            gap = kernel.codes - second
            third = (second + gap // 2) % kernel.codes
            nodes = [0, second, third]
        else:
            nodes = [0, kernel.nodes - 1, (kernel.nodes - 1) // 2]
        return _log_below(kernel.probabilities(nodes), epsilon, n)


class _RowBlanket(Blanket):
    """All ordered pairs of rows."""

    def __init__(self, kernel: Kernel) -> None:
        firsts, seconds = (
            np.array([[weight / UNIT for weight in row] for row in rows]) for rows in kernel.compared_rows()
        )
        least = seconds.min(axis=0)
        shared = least > 0
        self._weights = least[shared] * (1 - _SLACK)
        self._firsts, self._seconds = (rows[:, shared] / self._weights for rows in (firsts, seconds))
        self._bare_firsts, self._bare_seconds = firsts[:, ~shared], seconds[:, ~shared]
        self._all = seconds

    def start(self) -> Pair:
        return 0, len(self._seconds) - 1

    def _values(self, pair: Pair, e: float) -> FloatArray:
        s, t = pair
        first, second = self._firsts[s], self._seconds[t]
        values: FloatArray = first - e * second + _SLACK * (first + e * second)
        return values

    def _bare(self, s: int, e: float) -> FloatArray:
        """Return what codes without a blanket add to delta, for the first node s and every second one."""
        first, second = self._bare_firsts[s], self._bare_seconds
        added: FloatArray = np.maximum(first - e * second + _SLACK * (first + e * second), 0).sum(axis=1)
        return added

    def log_delta_of(self, pair: Pair, epsilon: float, n: int) -> float:
        e = math.exp(epsilon) * (1 - _SLACK)
        s, t = pair
        values, places = np.unique(self._values(pair, e), return_inverse=True)
        weights = np.bincount(places, self._weights).astype(float)
        common = log_positive_part(values, weights, n, smoothing=_COARSE) - math.log(n)
        bare = float(self._bare(s, e)[t]) * (1 + 1e-12)
        return float(np.logaddexp(common, math.log(bare))) if bare else common

    def worst(self, epsilon: float, n: int, first: Pair) -> tuple[float, Pair]:
        e = math.exp(epsilon) * (1 - _SLACK)
        best, pair = self.log_delta_of(first, epsilon, n), first
        for candidate, bound in self._candidates(e, n, self._line(first, e, n)):
            if bound <= best:
                break
            found = self.log_delta_of(candidate, epsilon, n)
            if found > best:
                best, pair = found, candidate
        return best, pair

    def _line(self, pair: Pair, e: float, n: int) -> float:
        values = self._values(pair, e)
        return best_line(values, self._weights, n) if values.max(initial=0.0) > 0 else 1.0

    def _candidates(self, e: float, n: int, line: float) -> Iterator[tuple[Pair, float]]:
        """Yield pairs with an upper bound of the logarithm of their delta, from the largest bound on.

        ``max(0, x) <= e^(a x) / (e a)`` for every a > 0; E[e^(a Z)] of all pairs is a product of matrices.
        """
        least = np.full((len(self._firsts), len(self._seconds)), np.inf)
        for a in line * np.array([0.8, 1.0, 1.25]):
            with np.errstate(over="ignore", invalid="ignore"):
                grown = (self._weights * np.exp(a * (self._firsts - 1))) @ np.exp(
                    -a * e * (self._seconds - 1)
                ).T
                moment = 1 - self._weights.sum() + math.exp(-a * (e - 1)) * grown
                moment += (self._weights.size + 64) * ROUNDOFF * (1 + moment)
                bound = n * np.log(moment) - 1 - math.log(a * n)
            least = np.fmin(least, np.where(np.isnan(bound), np.inf, bound))
        if self._bare_firsts.size:
            with np.errstate(divide="ignore"):
                bare = np.log([self._bare(s, e) for s in range(len(self._firsts))])
            least = np.logaddexp(least, bare)
        for place in np.argsort(-least, axis=None, kind="stable").tolist():
            pair = divmod(place, least.shape[1])
            yield pair, float(least[pair])

    def log_delta_below(self, epsilon: float, n: int) -> float:
        """Return the largest over the values that all others may have, for the worst pair of the bound."""
        _, pair = self.worst(epsilon, n, self.start())
        s, t = pair
        rows = self._all
        return max(
            _log_below(np.stack((rows[s], rows[t], rows[other])), epsilon, n) for other in range(len(rows))
        )


def _log_below(rows: FloatArray, epsilon: float, n: int) -> float:
    """Return a lower bound of log delta: device 1 has the first or the second row, all others have the third.

    Codes of one ratio are merged, which is sufficient; a code that only the pair can have is left out.
    """
    first, second, others = (row[rows[2] > 0] for row in rows)
    e = math.exp(epsilon) * (1 + _SLACK)
    values = (first - e * second) / others
    values -= _SLACK * (first + e * second) / others
    values, places = np.unique(values, return_inverse=True)
    weights = np.bincount(places, others)
    # E[f] of the true weights is at least this, times the n-th power of the least ratio of a true weight and
    # a rounded one.
    rounding = 8 * n * values.size * ROUNDOFF
    return log_positive_part_below(values, weights / weights.sum(), n) - math.log(n) - rounding
