"""How far an estimated distribution lies from the values of the users: the Wasserstein-1 distance.

It is the measure of `benchmarks/accuracy.py` and of `arcwise plan --goal distribution`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from arcwise.server.estimators.grid import cell_edges, first_cell

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.mechanisms.base import Mechanism

    FloatArray: TypeAlias = NDArray[np.float64]

__all__ = ["wasserstein"]


def wasserstein(mechanism: Mechanism, probabilities: FloatArray, values: FloatArray) -> float:
    """Return the Wasserstein-1 distance of a node distribution to values on the unit domain.

    Parameters
    ----------
    mechanism
        Whose nodes they are, on any domain.
    probabilities
        Shape (N,), with the sum 1. A node's mass is spread evenly over its cell; at the two end nodes of an
        interval it is an atom.
    values
        Shape (n,), positions on the unit domain, in any order.

    Notes
    -----
    That is the integral of ``|F - G|`` over the line, and of ``|F - G - c|`` with c the median of the
    difference around a circle, where mass may go either way (Werman, Peleg and Rosenfeld 1985). Both are
    summed between neighbours of the values and the cells' edges, where G is constant and F linear: exact but
    for the sign within a piece.
    """
    edges = cell_edges(mechanism)
    circular = mechanism.kernel.circular
    if circular:
        cumulative = np.append(0.0, np.cumsum(np.roll(probabilities, -first_cell(mechanism))))
        values = edges[0] + (values - edges[0]) % 1.0
    else:
        total = np.cumsum(probabilities)
        cumulative = np.concatenate([[probabilities[0]], total[:-1], [total[-2]]])
    values = np.sort(values)
    pieces = np.sort(np.concatenate([values, edges]))
    middle, width = (pieces[1:] + pieces[:-1]) / 2, np.diff(pieces)
    below = np.searchsorted(values, middle, side="right") / len(values)
    difference = np.interp(middle, edges, cumulative) - below
    if circular:
        order = np.argsort(difference)
        median = order[np.searchsorted(np.cumsum(width[order]), 0.5)]
        difference -= difference[median]
    return float(np.abs(difference) @ width)
