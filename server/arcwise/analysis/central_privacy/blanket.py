"""The privacy blanket of a kernel: an upper bound of the information that counts reveal about one device.

Balle, Bell, Gascon and Nissim (2019) split every row into a rest and a part that all rows share, the blanket
``w_j = min over s of R_s(j)``. Suppose the adversary knows which devices have drawn from the rest, and their
draws. The remaining reports are m + 1 draws, with m binomial: one is from the row of device 1, and m are from
the blanket. Let ``M = m + 1``, g the probability of the blanket, and E = e^epsilon. With the identity
``Pr[Bin(n - 1, g) = M - 1] / M = Pr[Bin(n, g) = M] / (n g)`` the mean over m is one sum of independent terms,

    delta(E) <= (1 / n) E[max(0, Z_1 + ... + Z_n)],    Z = (R_s(j) - E R_t(j)) / w_j with the probability w_j,

and Z = 0 otherwise, for the worst pair of nodes s, t. Codes without a blanket add the sum of
``max(0, R_s(j) - E R_t(j))``. One pair of laws dominates all pairs of nodes for every E (`_Coupled`). If it
is not close to the worst pair, the pairs are examined one by one. The proofs are in
docs/explanation/central-privacy.md.

All bounds err upward: a blanket that is rounded down is still a blanket, a larger Z has a larger positive
part, and a smaller E has a larger divergence.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.central_privacy.inversion import (
    ROUNDOFF,
    best_line,
    log_positive_part,
    log_positive_part_below,
)
from arcwise.errors import ParameterError
from arcwise.kernels import CirculantKernel, WindowKernel
from arcwise.kernels.certificate import UNIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcwise.kernels.base import Kernel
    from arcwise.typing import FloatArray

_SLACK = 16 * ROUNDOFF
_VALUES = 64
"""Approximate number of values of a law on a grid; the grid increases epsilon by less than a thousandth."""

_CLOSE = 2e-3
"""A pair of nodes whose log delta is this close to that of the dominating pair cannot improve the bound."""

_MOST_WORK = 2**22
"""Largest number of pairs of rows times codes for which the worst pair is searched."""

_MOST_OTHERS = 128
"""Number of values of all other devices that are tried for a lower bound."""

_MOST_RATIOS = 2**10
"""Most values of the law of a pair; laws with more values are also put on a grid."""


class Blanket(ABC):
    """The divergences of the counts of n reports if one report is exchanged, for the worst pair of nodes."""

    @abstractmethod
    def dominating(self, e: float) -> tuple[FloatArray, FloatArray]:
        """Return values of Z, rounded up, and their weights for the pair of laws that dominates all pairs."""

    @abstractmethod
    def log_delta(self, epsilon: float, n: int, tries: int) -> float:
        """Return an upper bound of the logarithm of delta, -inf where delta is 0.

        At most `tries` pairs of nodes are examined to lower the bound. If none of them lowers it, the bound
        is that of the pair of laws that dominates all pairs.
        """

    @abstractmethod
    def log_delta_below(self, epsilon: float, n: int) -> float:
        """Return a lower bound of log delta: that of a data set in which all others have one value."""

    def small(self) -> bool:
        """Return whether all pairs of nodes can be examined quickly."""
        return False


def blanket_of(kernel: Kernel) -> Blanket:
    """Return the blanket of a kernel."""
    if isinstance(kernel, WindowKernel):
        return _WindowBlanket(kernel)
    return _RowBlanket(kernel)


def _below(epsilon: float) -> float:
    """Return E = e^epsilon, rounded down and at most e^700, which is enough and does not overflow."""
    return math.exp(min(epsilon, 700.0)) * (1 - _SLACK)


class _WindowBlanket(Blanket):
    """The blanket of a window kernel: the two windows with the least overlap dominate for every E.

    The leftover, a unit for each of the first codes, is the same in every row. The adversary is assumed to
    know the devices that have drawn it, so it counts as rest.
    """

    def __init__(self, kernel: WindowKernel) -> None:
        window, codes = kernel.window, kernel.codes
        self._apart = min(window, codes - window if kernel.circular else kernel.nodes - 1)
        self._window = window
        self._codes = codes
        self._background = kernel.background / UNIT * (1 - _SLACK)
        self._ratio = float(kernel.ratio())
        self._kernel = kernel

    def dominating(self, e: float) -> tuple[FloatArray, FloatArray]:
        p = self._ratio
        values = np.array([p - e, 1 - p * e, p * (1 - e), 1 - e]) + _SLACK * p * (1 + e)
        apart, both = self._apart, self._window - self._apart
        counts = np.array([apart, apart, both, self._codes - self._window - apart])
        used = counts > 0
        return values[used], (counts * self._background)[used]

    def log_delta(self, epsilon: float, n: int, tries: int) -> float:
        return log_positive_part(*self.dominating(_below(epsilon)), n) - math.log(n)

    def log_delta_below(self, epsilon: float, n: int) -> float:
        """Return the bound from a data set with three windows.

        Device 1 has one of the two windows with the least overlap. All others have a third, far from both.
        """
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
    """All ordered pairs of rows, and a pair of laws that dominates them."""

    def __init__(self, kernel: Kernel) -> None:
        turned = isinstance(kernel, CirculantKernel)
        self._kernel = kernel
        rows = np.array([[w / UNIT for w in kernel.row(s)] for s in range(1 if turned else kernel.nodes)])
        least = np.full(kernel.codes, rows.min()) if turned else rows.min(axis=0)
        shared = least > 0
        self._weights = least[shared] * (1 - _SLACK)
        self._work = len(rows) * kernel.nodes * kernel.codes
        self._rows = rows
        self._shared = shared
        self._common = _Coupled(rows[:, shared] / self._weights, self._weights) if shared.any() else None
        bare = rows[:, ~shared]
        self._bare = _Coupled(bare, np.ones(bare.shape[1])) if bare.size else None

    def small(self) -> bool:
        return self._work <= 2**7

    def dominating(self, e: float) -> tuple[FloatArray, FloatArray]:
        common = self._common
        return (np.array([]), np.array([])) if common is None else (common.values(e), common.weights)

    def log_delta(self, epsilon: float, n: int, tries: int) -> float:
        e = _below(epsilon)
        found = log_positive_part(*self.dominating(e), n) - math.log(n)
        if self._bare is not None:
            alone = float(self._bare.weights @ np.maximum(self._bare.values(e), 0)) * (1 + 1e-12)
            found = float(np.logaddexp(found, math.log(alone))) if alone else found
        if tries == 0 or found == -math.inf or self._work > _MOST_WORK:
            return found
        best = -math.inf
        for tried, (pair, bound) in enumerate(self._candidates(e, n)):
            if best >= bound or tried == tries:
                return min(found, max(best, bound))
            if best >= found - _CLOSE:
                return found
            best = max(best, self._log_delta_of(pair, e, n))
        return min(found, best)

    def _log_delta_of(self, pair: tuple[int, int], e: float, n: int) -> float:
        first, second = self._seconds[pair[0]], self._seconds[pair[1]]
        moved = first - e * second + _SLACK * (first + e * second)
        values, places = np.unique(moved[self._shared] / self._weights, return_inverse=True)
        weights = np.bincount(places, self._weights).astype(float)
        if values.size > _MOST_RATIOS:
            values, weights = _largest(values[None, :], weights)
        common = log_positive_part(values, weights, n) - math.log(n) if values.size else -math.inf
        bare = float(np.maximum(moved[~self._shared], 0).sum()) * (1 + 1e-12)
        return float(np.logaddexp(common, math.log(bare))) if bare else common

    @cached_property
    def _seconds(self) -> FloatArray:
        return self._kernel.matrix()

    def _candidates(self, e: float, n: int) -> Iterator[tuple[tuple[int, int], float]]:
        """Yield pairs with an upper bound of the logarithm of their delta, the largest bound first.

        The bounds follow from ``max(0, x) <= e^(a x) / (e a)`` for every a > 0; the means of e^(a Z) for all
        pairs are a product of matrices.
        """
        least = np.full((len(self._rows), len(self._seconds)), -np.inf)
        values, weights = self.dominating(e)
        if values.size:
            firsts, seconds = (rows[:, self._shared] / self._weights for rows in (self._rows, self._seconds))
            least[:] = np.inf
            line = best_line(values, weights, n) if values.max() > 0 else 1.0
            for a in line * np.array([0.8, 1.0, 1.25]):
                with np.errstate(over="ignore", invalid="ignore"):
                    grown = (self._weights * np.exp(a * (firsts - 1))) @ np.exp(-a * e * (seconds - 1)).T
                    moment = 1 - self._weights.sum() + math.exp(-a * (e - 1)) * grown
                    moment += (self._weights.size + 64) * ROUNDOFF * (1 + moment)
                    bound = n * np.log(moment) - 1 - math.log(a * n)
                least = np.fmin(least, np.where(np.isnan(bound), np.inf, bound))
        if self._bare is not None:
            bare = self._seconds[:, ~self._shared]
            with np.errstate(divide="ignore"):
                alone = [np.log(np.maximum(row - e * bare, 0).sum(axis=1)) for row in bare[: len(self._rows)]]
            least = np.logaddexp(least, np.array(alone) + 1e-9)
        for place in np.argsort(-least, axis=None, kind="stable").tolist():
            s, t = divmod(place, least.shape[1])
            yield (s, t), float(least[s, t])

    def log_delta_below(self, epsilon: float, n: int) -> float:
        """Return the largest bound over values of all others, for the pair with the largest upper bound."""
        if self._work > _MOST_WORK:
            raise ParameterError(
                f"central_witness looks at every pair of rows: {self._kernel.nodes} rows of "
                f"{self._kernel.codes} codes are too many"
            )
        e = math.exp(epsilon) * (1 + _SLACK)
        (s, t), _ = next(self._candidates(e, n))
        rows = self._seconds
        apart = math.ceil(len(rows) / _MOST_OTHERS)
        return max(_log_below(np.stack((rows[s], rows[t], other)), epsilon, n) for other in rows[::apart])


class _Coupled:
    """The law that dominates ``(R_s(j) - E R_t(j)) / w_j`` for all pairs of rows and every E.

    Large values of the first row's law are paired with small values of the second row's law. No other
    coupling of two laws has a larger mean of a convex function of the difference. A law that is larger than
    the laws of all rows, in increasing convex order, may replace them.
    """

    def __init__(self, rows: FloatArray, weights: FloatArray) -> None:
        high, masses = _largest(rows, weights)
        low, others = _largest(-rows, weights)
        ends, other_ends = np.cumsum(masses), np.cumsum(others)
        total = float(weights.sum())
        cuts = np.unique(np.concatenate((ends[:-1], other_ends[:-1], [total])))
        cuts = cuts[cuts <= total]
        middles = cuts - np.diff(cuts, prepend=0.0) / 2
        self.weights = np.diff(cuts, prepend=0.0)
        self._first = high[np.minimum(np.searchsorted(ends, middles), high.size - 1)]
        self._second = low[np.minimum(np.searchsorted(other_ends, middles), low.size - 1)]
        # Masses have rounding errors of sums; raising values by this part of their range compensates for
        # them.
        off = 8 * (weights.size + 4 * _VALUES) * ROUNDOFF
        self._off = tuple(off * float(np.ptp(law)) + _SLACK * float(np.abs(law).max()) for law in (high, low))

    def values(self, e: float) -> FloatArray:
        """Return the values for this E, rounded up."""
        values: FloatArray = self._first + e * self._second + (self._off[0] + e * self._off[1])
        return values


def _largest(rows: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return values, the largest first, and masses: a law that is larger than that of each row.

    A value is split between two points of a grid so that its mean stays, which can only increase the mean of
    a convex function. Then ``E[max(0, A - c)]`` is linear in c between the points, and so is the maximum over
    all rows. The maximum is convex and falling, so it belongs to a law on the grid.
    """
    found = np.unique(rows)
    with np.errstate(divide="ignore"):
        _, apart = np.unique(np.round(1e5 * np.log(np.abs(found))), return_index=True)
    grid = np.union1d(found[apart], found[[0, -1]])
    if grid.size > _VALUES:
        sizes = np.abs(grid[grid != 0])
        even = np.geomspace(sizes.min(), sizes.max(), _VALUES // 2) * np.sign(grid.sum())
        ranked = np.quantile(grid, np.linspace(0, 1, _VALUES // 2))
        grid = np.unique(np.clip(np.append(ranked, even), found[0], found[-1]))
    if grid.size == 1:
        return grid, np.array([weights.sum()])
    cells = np.clip(np.searchsorted(grid, rows, side="right"), 1, grid.size - 1)
    steps = np.diff(grid)
    upper = (rows - grid[cells - 1]) / steps[cells - 1]
    places = np.arange(len(rows))[:, None] * grid.size + cells
    masses = np.bincount(places.ravel(), (upper * weights).ravel(), rows.shape[0] * grid.size)
    masses += np.bincount(places.ravel() - 1, ((1 - upper) * weights).ravel(), masses.size)
    # Summed from the top: all terms are positive, so small tails are precise, too.
    tails = np.cumsum(masses.reshape(len(rows), -1)[:, :0:-1], axis=1)
    means = np.cumsum(tails * steps[::-1], axis=1).max(axis=0)
    tail = np.diff(means, prepend=0.0) / steps[::-1]
    tail = np.minimum(np.maximum.accumulate(tail), weights.sum())
    return grid[::-1], np.append(np.diff(tail, prepend=0.0), weights.sum() - tail[-1])


def _log_below(rows: FloatArray, epsilon: float, n: int) -> float:
    """Return a lower bound of log delta: device 1 has the first or second row, all other devices the third.

    Codes with the same ratio are merged, which is sufficient; codes that only the pair can have are left out.
    """
    first, second, others = (row[rows[2] > 0] for row in rows)
    e = math.exp(epsilon) * (1 + _SLACK)
    values = (first - e * second) / others
    values -= _SLACK * (first + e * second) / others
    values, places = np.unique(values, return_inverse=True)
    weights = np.bincount(places, others)
    # E[f] under the true weights is at least this, times the n-th power of the least ratio of a true weight
    # to a rounded one.
    rounding = 8 * n * values.size * ROUNDOFF
    return log_positive_part_below(values, weights / weights.sum(), n) - math.log(n) - rounding
