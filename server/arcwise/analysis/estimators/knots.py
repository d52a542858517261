"""The nodes that the programs of `bounds` have: all of a grid, or some of a fine one.

On a fine grid with wide windows, weights are alike in blocks of codes, which are short where the place that
is asked about needs it. With short windows a program of all nodes costs less: its matrix is banded.
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
"""Nodes up to which the program has a variable for each; the second for kernels without windows.

On more, weights are alike in blocks of codes.
"""

_MOST_BANDS = 36
"""Codes in a window, or in two on a circle, up to which a matrix with bands costs less than one of blocks.

The program then has a variable for each node, however many there are. With more nodes, wider windows do so
too: a factorisation of N nodes with b bands takes ``N b^2``, and blocks that repeat with the window leave
about four nodes for each window that fits into the domain, which take a third of their cube.
"""

_BLOCKS = 128
"""Blocks of codes as long as nodes are far apart in a grid of so many, where no place is known."""

_GROWTHS = ((1.2, 100), (1.5, 100), (2.0, 100), (3.0, 120), (5.0, 130), (20.0, 130))
"""How blocks grow away from a place, and the most blocks: the first pair that gives no more is taken."""

_MANY = 4
"""Places in a node that the reports tell apart, from which on they know where a share jumps to the node."""

_NEAR = 1.5, 3
"""Then, and where windows are too many for any: how blocks grow within so many windows of a place."""

_COARSE = 1 / 32  # of the nodes: the longest block
_ALIKE = 3  # nodes between places that share their blocks: so near they all have one code
_MOST_ANCHORS = 2  # places that blocks are short about: the ends of a part of the domain

_SPREAD = 1e-6
"""Of the fit, spread over all nodes: codes that only nodes without people give are possible too."""


def is_fine(mechanism: Mechanism) -> bool:
    """Return whether programs have other nodes for each place that is asked about."""
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
    """Return the cells at which a functional jumps, of neighbours one; () where they are too many."""
    jumps = np.flatnonzero(np.diff(functional, prepend=functional[-1 if circular else 0]))
    found: list[int] = []
    for jump in jumps.tolist():
        if not found or jump - found[-1] > _ALIKE:
            found.append(jump)
    return tuple(found) if len(found) <= _MOST_ANCHORS else ()


class Knots:
    """The program's nodes of a mechanism, M of N, and its blocks of codes, K' of K.

    `anchors` are the cells at which the functionals jump, and `reports` is the approximate number of reports.
    `order` holds the nodes by cells, shape (N,). `all` is true where the program has every node and a block
    for each code. `banded` is the kernel where its windows are so short that the matrix has bands, see
    `information`, or None.
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
        if kernel.circular:  # a window that ends beyond the last code goes on at the first
            inside += np.maximum(np.minimum(last - kernel.codes, ends) - starts, 0)
        leftover = np.clip(kernel.leftover - starts, 0, ends - starts)
        background = kernel.background / UNIT * (ends - starts) + leftover / UNIT
        return np.asarray(background + kernel.extra / UNIT * inside)

    @cached_property
    def numbers(self) -> IntArray:
        """Which nodes, by cells, the program has: all, or those between which means are straight lines.

        With weights that are alike in blocks of codes, a window's mean changes its slope only where the
        window begins or ends at a block. Other kernels' means are nearly straight, and `Programs.weights`
        adds what they are not.
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
        """Return what changes of the nodes, which add up to 0, change of `laws`, shape (P, M) to (P, K').

        Numbers after the program's nodes are not read.
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
        """Return numbers at the program's nodes between which straight lines are above a functional."""
        if self.all:
            return functional
        knots = self.numbers
        inside = functional.copy()
        inside[knots] = -np.inf
        between = np.maximum.reduceat(inside, knots)  # from a knot to the next one
        result: FloatArray = np.maximum(functional[knots], np.maximum(between, np.roll(between, 1)))
        return result

    def mass(self, fit: FloatArray) -> FloatArray:
        """Return about the distribution over the program's nodes that a node distribution is."""
        knots = self.numbers
        ordered = fit[self.order]
        if not self.all:
            nearest = np.searchsorted((knots[1:] + knots[:-1]) / 2, np.arange(len(ordered)))
            ordered = np.bincount(nearest, weights=ordered, minlength=len(knots)).astype(np.float64)
        return (1.0 - _SPREAD) * ordered + _SPREAD / len(ordered)

    def means(self, weights: FloatArray) -> FloatArray:
        """Return the means of weights per block for each node, shape (M, K') to (M, N), by cells."""
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
        """Return numbers per code added up over those that share a weight, shape (M, K) to (M, K')."""
        if self.all:
            return per_code
        merged: FloatArray = np.add.reduceat(per_code, self._starts, axis=1)
        return merged


def _about(places: list[int], kernel: WindowKernel, *, many: bool) -> IntArray:
    """Return where blocks of codes start so that weights are fine about some nodes.

    The best weights change fast at a place where the functional jumps, and again at every window's length
    from there: a window that begins at one of these ends at the next. Blocks are short about them all and
    grow away from them. They repeat with the window, so the nodes at which a window begins and those at
    which one ends at a block are the same.
    """
    for growth, most in () if many else _GROWTHS:
        starts = _repeated(places, kernel, _away(kernel, growth))
        if 2 * len(starts) <= most * (1 + len(places)):
            return starts
    growth, windows = _NEAR
    near = _repeated(places, kernel, _away(kernel, growth), windows)
    # A block of one code where a window ends: with it alone, bounds are as low as with three more blocks.
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
    """Return 0 and codes at some distances from places, and from those in (so many) windows from there."""
    reach = (kernel.codes // 2 if kernel.circular else kernel.codes) // kernel.window + 1
    reach = reach if windows is None else min(reach, windows)
    periods = kernel.window * np.arange(-reach, reach + 1)
    codes = (np.array(places)[:, None, None] + periods[:, None] + away).ravel()
    codes = codes % kernel.codes if kernel.circular else codes[(codes >= 0) & (codes < kernel.codes)]
    found = np.zeros(kernel.codes, dtype=bool)  # sorts them in a fraction of the time of `unique`
    found[0] = found[codes] = True
    return np.flatnonzero(found)
