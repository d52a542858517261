"""Arcs of a circle: which part of each cell lies in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from arcwise.typing import FloatArray


__all__ = ["arc_cover"]


def arc_cover(edges: FloatArray, first: float, length: float) -> FloatArray:
    """Return which part of each cell lies in the arc that starts at `first`, shape (M,).

    Parameters
    ----------
    edges
        Shape (M+1,): the cells in turns, increasing by 1 in all, from any start.
    first, length
        In turns; an arc of 1 or more is the whole circle, of 0 or less is empty.
    """
    if length >= 1.0:
        return np.ones(len(edges) - 1)
    left, right = edges[:-1], edges[1:]
    start = float(edges[0]) + (first - float(edges[0])) % 1.0
    part = np.zeros(len(left))
    for begin in (start, start - 1.0):  # what passes the last edge comes in at the first
        part += np.maximum(np.minimum(right, begin + length) - np.maximum(left, begin), 0.0)
    cover: FloatArray = np.clip(part / (right - left), 0.0, 1.0)
    return cover
