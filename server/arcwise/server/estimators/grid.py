"""Where a mechanism's nodes stand on the unit domain, and the cell of values that each speaks for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.domains import Domain
    from arcwise.mechanisms.base import Mechanism

    FloatArray: TypeAlias = NDArray[np.float64]

__all__ = ["cell_edges", "coarse_note", "first_cell", "to_domain"]


def first_cell(mechanism: Mechanism) -> int:
    """Return the node whose cell comes first in `cell_edges`; the others follow in order, modulo N."""
    return _first(mechanism)[0] if mechanism.kernel.circular else 0


def cell_edges(mechanism: Mechanism, nodes: FloatArray | None = None) -> FloatArray:
    """Return the edges of the nodes' cells on the unit domain, shape (N+1,), increasing.

    A cell reaches half way to the neighbours. On an interval the end cells reach to 0 and 1. On a circle the
    cells start with that of `first_cell`, which holds 0, and span exactly 1.

    Parameters
    ----------
    mechanism
        On any domain.
    nodes
        Only on an interval: increasing real-valued nodes, from 0 to N-1, to take in place of all N.
    """
    kernel = mechanism.kernel
    if kernel.circular:
        return (np.arange(kernel.nodes + 1) + _first(mechanism)[1]) / kernel.nodes
    at = mechanism.node_units(np.arange(kernel.nodes, dtype=np.float64) if nodes is None else nodes)
    return np.concatenate([[0.0], (at[1:] + at[:-1]) / 2, [1.0]])


def _first(mechanism: Mechanism) -> tuple[int, float]:
    """Return the node whose cell holds 0 on a circle, and where that cell starts: in cells, from 0 to -1."""
    nodes = mechanism.kernel.nodes
    # Cells start half a cell before their nodes, and node 0 stands at a multiple of half a cell or so.
    edge = round(float(mechanism.node_units(np.zeros(1))[0]) * nodes - 0.5, 6)
    start = -(-edge % 1.0)
    return round(start - edge) % nodes, start


def to_domain(domain: Domain, unit: float) -> float:
    """Return a position on the unit domain, or outside it, in the unit of the domain: always finite."""
    with np.errstate(over="ignore"):
        value = float(domain.from_unit(np.float64(unit)))
    return min(max(value, -sys.float_info.max), sys.float_info.max)


def coarse_note(mechanism: Mechanism) -> str:
    """Return the note on a kernel of fewer than 32 nodes, or ""."""
    nodes = mechanism.kernel.nodes
    return f"only {nodes} nodes: rounding to them spreads values by up to a node" if nodes < 32 else ""
