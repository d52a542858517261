"""The nodes of the programs in `bounds`: all nodes of a grid, or some nodes of a fine grid.

On a fine grid with wide windows, weights are equal within blocks of codes; blocks are short where the place
of interest requires it. With short windows a program of all nodes costs less, because its matrix is banded.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.grid import first_cell
from arcwise.analysis.likelihood.linear_maps import code_changes, code_laws, node_means
from arcwise.kernels.certificate import UNIT
from arcwise.kernels.window import WindowKernel
from arcwise.tasks.goals import places_resolved

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcwise.kernels.base import Kernel
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray, IntArray

_FEW_NODES, _MOST_NODES = 128, 288
"""Most nodes for which the program has a variable each; the second limit is for kernels without windows.

With more nodes, weights are equal within blocks of codes.
"""

_MOST_BANDS = 36
"""Most codes in a window (on a circle in two) for which a banded matrix always costs less than blocks.

With a banded matrix the program has a variable for each node. On finer grids the banded matrix also costs
less for some wider windows. Factorising N nodes with b bands takes ``N b^2`` operations. Blocks that repeat
with the window leave about four nodes for each window that fits into the domain; factorising these takes a
third of the cube of their number.
"""

_BLOCKS = 128
"""If no place is known, a block has as many codes as the number of nodes divided by this."""

_GROWTHS = ((1.2, 100), (1.5, 100), (2.0, 100), (3.0, 120), (5.0, 130), (20.0, 130))
"""Growths of blocks away from a place, each with the most blocks for it; the first that fits is used."""

_MANY = 4
"""With this many resolved places per node, the reports show at which node a share jumps."""

_NEAR = 1.5, 3
"""Growth of blocks near a place, and the windows that count as near: used if no pair of `_GROWTHS` fits."""

_COARSE = 1 / 32  # longest block, as a part of the nodes
_ALIKE = 3  # distance in nodes: closer places share their blocks
_MOST_ANCHORS = 2  # places near which blocks are short: the ends of a part of the domain

_SPREAD = 1e-6
"""Part of the fit that is spread over all nodes, so that every code that a node can give is possible."""


def is_fine(mechanism: Mechanism) -> bool:
    """Return whether programs have different nodes for each place of interest."""
    kernel = mechanism.kernel
    return isinstance(kernel, WindowKernel) and not _has_all(kernel)


def _banded(kernel: Kernel) -> WindowKernel | None:
    """Return the kernel if programs have a variable for each node and a matrix with bands."""
    if not isinstance(kernel, WindowKernel) or kernel.nodes <= _FEW_NODES:
        return None
    bands = kernel.window * (1 + kernel.circular)
    cheap = kernel.nodes * bands**2 <= (4 * kernel.nodes // kernel.window) ** 3 // 3
    return kernel if bands <= _MOST_BANDS or cheap else None


def _has_all(kernel: Kernel) -> bool:
    """Return whether programs have a variable for each node."""
    most = _FEW_NODES if isinstance(kernel, WindowKernel) else _MOST_NODES
    return kernel.nodes <= most or _banded(kernel) is not None


def anchors_of(functional: FloatArray, *, circular: bool) -> tuple[int, ...]:
    """Return the cells at which a functional jumps, one of each close group; () if there are too many."""
    jumps = np.flatnonzero(np.diff(functional, prepend=functional[-1 if circular else 0]))
    found: list[int] = []
    for jump in jumps.tolist():
        if not found or jump - found[-1] > _ALIKE:
            found.append(jump)
    return tuple(found) if len(found) <= _MOST_ANCHORS else ()


class Knots:
    """The program's nodes of a mechanism, M of N, and its blocks of codes, K' of K.

    `anchors` are the cells at which the functionals jump, and `reports` is the approximate number of reports.
    `order` holds the nodes by cells, shape (N,). `all` is true if the program has every node and a block for
    each code. `banded` is the kernel if its windows are so short that the matrix is banded (see
    `information`), or None.
    """

    def __init__(self, mechanism: Mechanism, anchors: Iterable[int] = (), reports: float = 0.0) -> None:
        self._kernel = kernel = mechanism.kernel
        self.order = (np.arange(kernel.nodes) + first_cell(mechanism)) % kernel.nodes
        self.codes = kernel.codes
        self.banded = _banded(kernel)
        self.all = _has_all(kernel)
        places = [int(self.order[each]) for each in anchors]
        if self.all:
            self._starts = np.arange(kernel.codes)
        elif places and isinstance(kernel, WindowKernel):
            many = places_resolved(mechanism.epsilon, reports) >= _MANY * kernel.nodes
            self._starts = _about(places, kernel, many=many)
        else:
            self._starts = np.arange(0, kernel.codes, -(-kernel.nodes // _BLOCKS))

    @cached_property
    def rows(self) -> FloatArray:
        """Code probabilities of the program's nodes, shape (M, K')."""
        kernel, nodes = self._kernel, self.order[self.numbers]
        if self.all or not isinstance(kernel, WindowKernel):
            return self.merged(kernel.probabilities(nodes))
        starts, ends = self._starts, np.append(self._starts[1:], kernel.codes)
        first, last = nodes[:, None], nodes[:, None] + kernel.window
        inside = np.maximum(np.minimum(last, ends) - np.maximum(first, starts), 0)
        if kernel.circular:  # a window that ends beyond the last code continues at the first
            inside += np.maximum(np.minimum(last - kernel.codes, ends) - starts, 0)
        leftover = np.clip(kernel.leftover - starts, 0, ends - starts)
        background = kernel.background / UNIT * (ends - starts) + leftover / UNIT
        return np.asarray(background + kernel.extra / UNIT * inside)

    @cached_property
    def numbers(self) -> IntArray:
        """The program's nodes, by cells: all nodes, or those between which means are straight lines.

        If weights are equal within blocks of codes, the mean over a window changes its slope only where the
        window begins or ends with a block. Means of other kernels are nearly straight lines, and
        `Programs.weights` adds the difference.
        """
        kernel = self._kernel
        if self.all:
            return np.arange(kernel.nodes)
        begins = np.zeros(kernel.codes + 1, dtype=bool)
        begins[self._starts] = begins[-1] = True
        taken = begins[self.order]
        if isinstance(kernel, WindowKernel):
            ends = self.order + kernel.window
            taken |= begins[ends % kernel.codes if kernel.circular else ends]
        taken[[0, -1]] = True
        return np.flatnonzero(taken)

    def laws(self, masses: FloatArray) -> FloatArray:
        """Return the distributions of the blocks for some of the nodes, shape (P, M) to (P, K')."""
        if self.banded:
            return code_laws(self.banded, self._in_order(masses))
        laws: FloatArray = masses @ self.rows
        return laws

    def changes(self, masses: FloatArray) -> FloatArray:
        """Return the changes of `laws` from changes of the nodes that sum to 0, shape (P, M) to (P, K').

        Numbers after the program's nodes are ignored.
        """
        if self.banded:
            return code_changes(self.banded, self._in_order(masses))
        changes: FloatArray = masses[:, : len(self.rows)] @ self.rows
        return changes

    def _in_order(self, masses: FloatArray) -> FloatArray:
        """Return numbers by cells as numbers by nodes, shape (P, N)."""
        nodes = np.empty_like(masses)
        nodes[:, self.order] = masses
        return nodes

    def at_knots(self, functional: FloatArray) -> FloatArray:
        """Return numbers at the program's nodes; the lines between them are above the functional."""
        if self.all:
            return functional
        knots = self.numbers
        inside = functional.copy()
        inside[knots] = -np.inf
        between = np.maximum.reduceat(inside, knots)  # from a knot to the next knot
        result: FloatArray = np.maximum(functional[knots], np.maximum(between, np.roll(between, 1)))
        return result

    def mass(self, fit: FloatArray) -> FloatArray:
        """Return the approximate distribution over the program's nodes for a node distribution."""
        knots = self.numbers
        ordered = fit[self.order]
        if not self.all:
            nearest = np.searchsorted((knots[1:] + knots[:-1]) / 2, np.arange(len(ordered)))
            ordered = np.bincount(nearest, weights=ordered, minlength=len(knots)).astype(np.float64)
        return (1.0 - _SPREAD) * ordered + _SPREAD / len(ordered)

    def means(self, weights: FloatArray) -> FloatArray:
        """Return the means of weights per block at each node, by cells, shape (M, K') to (M, N)."""
        if self.all and not self.banded:
            straight: FloatArray = weights @ self.rows.T
            return straight
        means: FloatArray = node_means(self._kernel, self.per_code(weights))[:, self.order]
        return means

    def per_code(self, weights: FloatArray) -> FloatArray:
        """Return weights per block as weights per code, shape (..., K') to (..., K)."""
        if self.all:
            return weights
        return np.repeat(weights, np.diff(self._starts, append=self._kernel.codes), axis=-1)

    def merged(self, per_code: FloatArray) -> FloatArray:
        """Return numbers per code, summed over codes that share a weight, shape (M, K) to (M, K')."""
        if self.all:
            return per_code
        merged: FloatArray = np.add.reduceat(per_code, self._starts, axis=1)
        return merged


def _about(places: list[int], kernel: WindowKernel, *, many: bool) -> IntArray:
    """Return the starts of blocks of codes, so that weights are fine near some nodes.

    The best weights change fast at a place where the functional jumps, and also at multiples of the window's
    length from this place: a window that begins at one of these places ends at the next. Blocks are short
    near all of these places and grow with the distance. They repeat with the window. So a window that begins
    where a block begins also ends where a block ends.
    """
    for growth, most in () if many else _GROWTHS:
        starts = _repeated(places, kernel, _away(kernel, growth))
        if 2 * len(starts) <= most * (1 + len(places)):
            return starts
    growth, windows = _NEAR
    near = _repeated(places, kernel, _away(kernel, growth), windows)
    # One block of a single code where a window ends: three more such blocks would not lower the bounds.
    return np.union1d(near, _repeated(places, kernel, np.array([-1, 0])))


@lru_cache(maxsize=64)
def _away(kernel: WindowKernel, growth: float) -> IntArray:
    """Return distances from a place, in both directions, up to half a window."""
    steps = [0.0]
    while steps[-1] < kernel.window / 2:
        steps.append(steps[-1] + min(max(1.0, steps[-1] * (growth - 1.0)), kernel.nodes * _COARSE))
    away = np.round(np.minimum(steps, kernel.window / 2)).astype(np.int64)
    return np.union1d(away, -away)


def _repeated(
    places: list[int], kernel: WindowKernel, away: IntArray, windows: int | None = None
) -> IntArray:
    """Return 0 and the codes at distances `away` from places, repeated up to `windows` windows away."""
    reach = (kernel.codes // 2 if kernel.circular else kernel.codes) // kernel.window + 1
    reach = reach if windows is None else min(reach, windows)
    periods = kernel.window * np.arange(-reach, reach + 1)
    codes = (np.array(places)[:, None, None] + periods[:, None] + away).ravel()
    codes = codes % kernel.codes if kernel.circular else codes[(codes >= 0) & (codes < kernel.codes)]
    found = np.zeros(kernel.codes, dtype=bool)  # sorts much faster than `unique`
    found[0] = found[codes] = True
    return np.flatnonzero(found)
