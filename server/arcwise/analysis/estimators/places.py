"""Functionals of the nodes that bound the share of people in a part of the domain, from above and below.

A device rounds its value randomly to one of the two nodes around it, so people at x between two nodes are
seen at both. Let A be a part of the domain and phi a functional of the node distribution f, extended to all x
by straight lines between nodes. If phi is at least 1 on A and at least 0 elsewhere, ``phi . f`` is at least
the share of A for every population. On a lattice every value has its own node and nothing is rounded.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, cast

import numpy as np

from arcwise.analysis.grid import cell_edges, values_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.analysis.grid import Values
    from arcwise.mechanisms.base import Mechanism
    from arcwise.typing import FloatArray

_SAME = 1e-9  # part of the distance between two nodes: places closer to a node count as this node


class Places:
    """The nodes of a mechanism on the unit domain.

    `at` holds their positions, shape (N,), increasing, in the order of `grid.cell_edges`; on a circle they
    span less than 1 and may start a little below 0. `values` are those of a lattice on which nothing is
    rounded, or None.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self.circular = mechanism.kernel.circular
        self.values = values_of(mechanism)
        if self.circular:
            edges = cell_edges(mechanism)
            self.at: FloatArray = (edges[1:] + edges[:-1]) / 2
        else:
            self.at = mechanism.node_units(np.arange(mechanism.kernel.nodes, dtype=np.float64))
        self._near = _SAME * float(self.at[1] - self.at[0])

    def values_between(self, low: int, high: int) -> tuple[FloatArray, FloatArray]:
        """Return functionals above the share of a lattice's values from `low` to `high`, and above the rest.

        Each has the shape (1, N). They are exact except for the end zones of the clamp placement. `values`
        must not be None.
        """
        values = cast("Values", self.values)
        inside, outside = values.covered(low, high, outer=True), 1.0 - values.covered(low, high, outer=False)
        return inside[None], outside[None]

    def between(self, first: float, last: float) -> tuple[FloatArray, FloatArray]:
        """Return functionals above the share from `first` to `last`, both included, and above the rest.

        The ends are in order on the unit domain. On a circle they bound the arc from `first` upwards, in
        turns from any origin. A value exactly at an end is included. A value just beyond the end looks the
        same, so the rest includes the end too. On a lattice without rounding, the part consists of the
        lattice values in it.

        Both arrays have the shape (A, N), in the order of the cells. Each of the A rows is above the share;
        the reports determine which row is best.
        """
        nothing = np.zeros((1, len(self.at)))
        if self.values is not None:
            low, high = self.values.between(first, last)
            return self.values_between(low, high) if low <= high else (nothing, nothing + 1.0)
        if self.circular:
            length = last - first
            if length >= 1.0 - self._near:
                return nothing + 1.0, nothing
            return self._arc(first, length), self._arc(last, 1.0 - length)
        if last < -self._near or first > 1.0 + self._near:  # no one is outside the domain
            return nothing, nothing + 1.0
        below = self._touched(0.0, first) if first > self._near else nothing
        above = self._touched(last, 1.0) if last < 1.0 - self._near else nothing
        rest = np.maximum(below[:, None], above[None]).reshape(-1, len(self.at))
        return self._touched(first, last), rest

    def _touched(self, first: float, last: float) -> FloatArray:
        """Return functionals above the share from `first` to `last` on an interval."""
        at = self.at
        start = int(np.searchsorted(at, first - self._near))
        stop = int(np.searchsorted(at, last + self._near, "right"))
        inside = np.zeros(len(at))
        if start >= stop:  # the place is between two nodes, or in an end zone
            inside[max(start - 1, 0) : min(start, len(at) - 1) + 1] = 1.0
            return inside[None]
        inside[start:stop] = 1.0
        ends = []
        if stop < len(at):
            ends.append((stop - 1, stop, (last - at[stop - 1]) / (at[stop] - at[stop - 1])))
        if start > 0:
            ends.append((start, start - 1, (at[start] - first) / (at[start] - at[start - 1])))
        return _reaching(inside, ends)

    def _arc(self, first: float, length: float) -> FloatArray:
        """Return functionals above the share of an arc of less than a turn."""
        n = len(self.at)
        beyond = (self.at - first) * n % n  # in nodes
        beyond[beyond > n - _SAME] = 0.0
        found = np.flatnonzero(beyond <= length * n + _SAME)
        inside = np.zeros(n)
        if not len(found):  # between two nodes
            after = int(np.argmin(beyond))
            inside[[after, after - 1]] = 1.0
            return inside[None]
        inside[found] = 1.0
        nearest, furthest = int(found[np.argmin(beyond[found])]), int(found[np.argmax(beyond[found])])
        ends = [
            (furthest, (furthest + 1) % n, length * n - float(beyond[furthest])),
            (nearest, nearest - 1, float(beyond[nearest])),
        ]
        return _reaching(inside, ends)


def _reaching(inside: FloatArray, ends: Sequence[tuple[int, int, float]]) -> FloatArray:
    """Return functionals that reach part of the way from the nodes inside to the next nodes, shape (A, N).

    `inside` is 1 for each node inside, shape (N,). `ends` holds, for each end, the outermost node inside, the
    next node and the part.

    People at that part of the way are seen at the inner node with the probability ``1 - part``. So either the
    next node counts too, or the inner node counts more. The second way gives lower bounds if reports
    distinguish neighbours. It gets no row if the inner node would count more than twice.
    """
    ways: list[list[tuple[int, float]]] = []
    for node, beyond, part in ends:
        if part > _SAME:
            ways.append([(beyond, 1.0), (node, 1.0 / (1.0 - part))] if part < 0.5 else [(beyond, 1.0)])
    found = []
    for chosen in product(*ways):
        row = inside.copy()
        for node, height in chosen:
            row[node] = max(row[node], height)
        found.append(row)
    return np.array(found)
