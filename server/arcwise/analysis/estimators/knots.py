"""The nodes that the programs of `bounds` have: all of a grid, or some of a fine one.

On a fine grid weights are alike in blocks of codes.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.grid import first_cell
from arcwise.analysis.likelihood.linear_maps import node_means
from arcwise.kernels.window import WindowKernel

if TYPE_CHECKING:
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray, IntArray

__all__ = ["Knots"]

_MOST_NODES = 288
"""Nodes up to which the program has a variable for each. On more, weights are alike in blocks of codes."""

_BLOCKS = 128
"""Blocks of codes as long as nodes are far apart in a grid of so many."""

_SPREAD = 1e-6
"""Of the fit, spread over all nodes: codes that only nodes without people give are possible too."""


class Knots:
    """The program's nodes of a mechanism, M of N, and its blocks of codes, K' of K.

    Attributes
    ----------
    order
        The nodes by cells, shape (N,).
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self._kernel = kernel = mechanism.kernel
        self.order = (np.arange(kernel.nodes) + first_cell(mechanism)) % kernel.nodes
        self._block = 1 if kernel.nodes <= _MOST_NODES else -(-kernel.nodes // _BLOCKS)

    @cached_property
    def rows(self) -> FloatArray:
        """Code probabilities of the program's nodes, shape (M, K')."""
        return self.merged(self._kernel.probabilities(self.order[self.numbers]))

    @cached_property
    def numbers(self) -> IntArray:
        """Which nodes, by cells, the program has: all, or those between which means are straight lines.

        With weights that are alike in blocks of codes, a window's mean changes its slope only where the
        window begins or ends at a block. Other kernels' means are nearly straight, and `Programs.weights`
        adds what they are not.
        """
        kernel = self._kernel
        if self._block == 1:
            return np.arange(kernel.nodes)
        taken = self.order % self._block == 0
        if isinstance(kernel, WindowKernel):
            ends = self.order + kernel.window
            taken |= (ends % kernel.codes if kernel.circular else ends) % self._block == 0
        taken[[0, -1]] = True
        return np.flatnonzero(taken)

    def at_knots(self, functional: FloatArray) -> FloatArray:
        """Return numbers at the program's nodes between which straight lines are above a functional."""
        if self._block == 1:
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
        if self._block > 1:
            nearest = np.searchsorted((knots[1:] + knots[:-1]) / 2, np.arange(len(ordered)))
            ordered = np.bincount(nearest, weights=ordered, minlength=len(knots)).astype(np.float64)
        return (1.0 - _SPREAD) * ordered + _SPREAD / len(ordered)

    def means(self, weights: FloatArray) -> FloatArray:
        """Return the means of weights per code for each node, shape (M, K') to (M, N), by cells."""
        if self._block == 1:
            straight: FloatArray = weights @ self.rows.T
            return straight
        every = np.repeat(weights, self._block, axis=1)[:, : self._kernel.codes]
        means: FloatArray = node_means(self._kernel, every)[:, self.order]
        return means

    def merged(self, per_code: FloatArray) -> FloatArray:
        """Return numbers per code added up over those that share a weight, shape (M, K) to (M, K')."""
        if self._block == 1:
            return per_code
        starts = np.arange(0, per_code.shape[1], self._block)
        merged: FloatArray = np.add.reduceat(per_code, starts, axis=1)
        return merged
