"""The Wasserstein-1 distance of an estimated distribution from the values of the users.

`benchmarks/studies/accuracy.py` and `arcwise plan --goal distribution` measure accuracy by this distance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from arcwise.analysis.grid import cell_edges, first_cell, values_of

if TYPE_CHECKING:
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray


def wasserstein(mechanism: Mechanism, probabilities: FloatArray, values: FloatArray) -> float:
    """Return the Wasserstein-1 distance of a node distribution from values on the unit domain.

    The probabilities, shape (N,), sum to 1, and the values may be in any order. A node's mass is spread
    evenly over its cell; at the two end nodes of an interval it is an atom. On a lattice with a node for each
    value, the mass of every node is an atom.

    Let F be the distribution function of the nodes, and G that of the values. The distance is the integral of
    ``|F - G|`` on a line. On a circle, where mass may move either way, it is the integral of ``|F - G - c|``,
    with c the median of ``F - G`` (Werman, Peleg and Rosenfeld 1985). Both are summed over the pieces between
    values and cell edges, where G is constant and F linear. The sum is exact unless the sign changes within a
    piece.
    """
    circular = mechanism.kernel.circular
    ordered = np.roll(probabilities, -first_cell(mechanism))
    lattice = values_of(mechanism)
    if lattice is not None and (lattice.first == lattice.last).all():
        places, values = lattice.units(lattice.first), np.sort(values)
        pieces = np.sort(np.concatenate([[0.0, 1.0], values, places]))
        middle = (pieces[1:] + pieces[:-1]) / 2
        total = np.append(0.0, np.cumsum(ordered))
        return _distance(pieces, total[np.searchsorted(places, middle)], values, circular=circular)
    edges = cell_edges(mechanism)
    if circular:
        return histogram_distance(edges, ordered, values, circular=True)
    total = np.cumsum(probabilities)
    return _linear(edges, np.concatenate([[probabilities[0]], total[:-1], [total[-2]]]), values)


def histogram_distance(
    edges: FloatArray, probabilities: FloatArray, values: FloatArray, *, circular: bool
) -> float:
    """Return the Wasserstein-1 distance of a histogram from values, with mass spread evenly over its cells.

    `edges`, shape (B + 1,), go from one end of the unit domain to the other, or once around the circle from
    any place. The probabilities, shape (B,), sum to 1.
    """
    cumulative = np.append(0.0, np.cumsum(probabilities))
    if not circular:
        return _linear(edges, cumulative, values)
    return _linear(edges, cumulative, edges[0] + (values - edges[0]) % 1.0, circular=True)


def _linear(
    edges: FloatArray, cumulative: FloatArray, values: FloatArray, *, circular: bool = False
) -> float:
    """Return the distance of a distribution function, linear between the edges, from that of the values."""
    values = np.sort(values)
    pieces = np.sort(np.concatenate([values, edges]))
    middle = (pieces[1:] + pieces[:-1]) / 2
    return _distance(pieces, np.interp(middle, edges, cumulative), values, circular=circular)


def _distance(pieces: FloatArray, fitted: FloatArray, values: FloatArray, *, circular: bool) -> float:
    """Return the distance, given the fitted distribution function in the middle of each piece."""
    middle, width = (pieces[1:] + pieces[:-1]) / 2, np.diff(pieces)
    difference = fitted - np.searchsorted(values, middle, side="right") / len(values)
    if circular:
        order = np.argsort(difference)
        median = order[np.searchsorted(np.cumsum(width[order]), 0.5)]
        difference -= difference[median]
    return float(np.abs(difference) @ width)
