"""Positions of a mechanism's nodes on the unit domain, and the cell or the values of each node."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from arcwise.lattice import TOLERANCE

if TYPE_CHECKING:
    from arcwise.domains import Domain
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray, IntArray

SINGLE_VALUES = 24
"""Size of the largest lattice on which each value is a bin of its own."""


class Values(NamedTuple):
    """The values of a lattice on which nothing is rounded, in the order of the cells of `cell_edges`.

    `first` and `last`, shape (N,), are the numbers of the first and the last value of each cell; they are
    equal except in the end zones of the clamp placement. `size` is the number of values, and `steps` the
    length of the domain in steps.
    """

    first: IntArray
    last: IntArray
    size: int
    steps: int

    def covered(self, low: int, high: int, *, outer: bool) -> FloatArray:
        """Return 1 for cells with only values from `low` to `high`, 0 for cells without any, shape (N,).

        A cell with values both in this range and outside it gets 1 if `outer` is true, otherwise 0. On a
        circle `high` may be beyond the last value.
        """
        if self.size == self.steps:  # a circle: each cell is one value
            return ((self.first - low) % self.size <= high - low).astype(np.float64)
        least, most = (self.first, self.last) if outer else (self.last, self.first)
        return ((least <= high) & (low <= most)).astype(np.float64)

    def between(self, first: float, last: float) -> tuple[int, int]:
        """Return the numbers of the first and the last value from one unit position to another, inclusive."""
        return math.ceil(first * self.steps - TOLERANCE), math.floor(last * self.steps + TOLERANCE)

    def units(self, places: IntArray | int) -> FloatArray:
        """Return the positions of values on the unit domain."""
        return np.asarray(places, np.float64) / self.steps


def values_of(mechanism: Mechanism) -> Values | None:
    """Return the values of a lattice that has a node for each value, or None if values are rounded to nodes.

    The result is also None on a lattice with the rounding "stochastic", and on a lattice with too many values
    to have a node for each.
    """
    lattice, kernel = mechanism.lattice, mechanism.kernel
    if lattice is None or mechanism.rounds:
        return None
    places = np.roll(mechanism.node_places(), -first_cell(mechanism))
    first, last = places.copy(), places.copy()
    if not kernel.circular:
        first[0], last[-1] = 0, lattice.size - 1
    return Values(first, last, lattice.size, lattice.steps)


def first_cell(mechanism: Mechanism) -> int:
    """Return the node of the first cell in `cell_edges`; the others follow in order, modulo N."""
    return _first(mechanism)[0] if mechanism.kernel.circular else 0


def cell_edges(mechanism: Mechanism) -> FloatArray:
    """Return the edges of the nodes' cells on the unit domain, shape (N+1,), increasing.

    A cell reaches half way to its neighbours. On an interval the end cells reach to 0 and 1. On a circle the
    first edge is the start of the cell of `first_cell`, which contains 0, and the cells span exactly 1.
    """
    kernel = mechanism.kernel
    if kernel.circular:
        return (np.arange(kernel.nodes + 1) + _first(mechanism)[1]) / kernel.nodes
    at = mechanism.node_units(np.arange(kernel.nodes, dtype=np.float64))
    return np.concatenate([[0.0], (at[1:] + at[:-1]) / 2, [1.0]])


def bin_edges(mechanism: Mechanism) -> FloatArray:
    """Return `cell_edges`, but on a lattice on an interval make the end cells as wide as the others."""
    edges, values = cell_edges(mechanism), values_of(mechanism)
    if values is not None and not mechanism.kernel.circular:
        edges[[0, -1]] = -0.5 / values.steps, 1.0 + 0.5 / values.steps
    return edges


def wave_phases(places: FloatArray, number: int, *, circular: bool) -> FloatArray:
    """Return the phases of waves at places on the unit domain, the longest wave first, shape (number, M).

    On an interval, the phase of wave k grows by k half turns over the domain. On a circle, the waves are in
    turn cosines and sines, of 1, 2, ... whole turns.
    """
    if circular:
        turns = np.arange(2, number + 2) // 2
        return 2 * math.pi * turns[:, None] * places - (math.pi / 2) * (np.arange(number) % 2)[:, None]
    return math.pi * np.arange(1, number + 1)[:, None] * places


def _first(mechanism: Mechanism) -> tuple[int, float]:
    """Return a circle's node with the cell that contains 0, and the cell's start, in cells, from -1 to 0."""
    nodes = mechanism.kernel.nodes
    # Cells start half a cell before their nodes, and node 0 is near a multiple of half a cell.
    edge = round(float(mechanism.node_units(np.zeros(1))[0]) * nodes - 0.5, 6)
    start = -(-edge % 1.0)
    return round(start - edge) % nodes, start


def to_domain(domain: Domain, unit: float) -> float:
    """Return a position on, or outside, the unit domain as a finite number in the unit of the domain."""
    with np.errstate(over="ignore"):
        value = float(domain.from_unit(np.float64(unit)))
    return min(max(value, -sys.float_info.max), sys.float_info.max)


def coarse_notes(mechanism: Mechanism) -> tuple[str, ...]:
    """Return notes on nodes that differ from the values.

    One note is about kernels with fewer than 32 nodes, to which values are rounded. The other is about
    lattices with too many values to have a node for each.
    """
    nodes, size = mechanism.kernel.nodes, mechanism.domain.size
    notes = []
    if mechanism.rounds and nodes < 32:
        notes.append(f"only {nodes} nodes: rounding to them spreads values by up to a node")
    if size is not None and mechanism.lattice is None:
        notes.append(f"{size:,} values are too many for a node each: treated as a continuous domain")
    return tuple(notes)


def arc_cover(edges: FloatArray, first: float, length: float) -> FloatArray:
    """Return the share of each cell that lies in the arc that starts at `first`, shape (M,).

    All lengths are in turns. The edges, shape (M+1,), increase by 1 from the first to the last; the first may
    be any number. An arc of length 1 or more is the whole circle, and an arc of length 0 or less is empty.
    """
    if length >= 1.0:
        return np.ones(len(edges) - 1)
    left, right = edges[:-1], edges[1:]
    start = float(edges[0]) + (first - float(edges[0])) % 1.0
    part = np.zeros(len(left))
    for begin in (start, start - 1.0):  # an arc beyond the last edge continues at the first
        part += np.maximum(np.minimum(right, begin + length) - np.maximum(left, begin), 0.0)
    cover: FloatArray = np.clip(part / (right - left), 0.0, 1.0)
    return cover
