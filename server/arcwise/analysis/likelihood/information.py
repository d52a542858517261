"""The information matrix ``P diag(s) P'`` of some nodes: the costly part of a Newton step, cheap for windows.

For rows that are a constant plus a window it needs no product: two windows share a run of codes, and what
that run holds of s is a difference of prefix sums. O(d^2) for d nodes in place of O(d^2 K).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from arcwise.kernels.certificate import UNIT
from arcwise.kernels.window import WindowKernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.kernels.base import Kernel
    from arcwise.typing import BoolArray, FloatArray, IntArray

    Information: TypeAlias = Callable[[FloatArray], FloatArray]

__all__ = ["dense_information", "fast_information", "window_information"]


def dense_information(rows: FloatArray) -> Information:
    """Return the function from s, shape (K,), to ``rows diag(s) rows'``, shape (d, d); rows (d, K)."""

    def information(s: FloatArray) -> FloatArray:
        scaled = rows * np.sqrt(s)
        matrix: FloatArray = scaled @ scaled.T
        return matrix

    return information


def fast_information(kernel: Kernel, nodes: IntArray) -> Callable[[BoolArray], Information] | None:
    """Return what makes the function of these nodes from the codes seen, or None where a product must do."""
    return partial(window_information, kernel, nodes) if isinstance(kernel, WindowKernel) else None


def window_information(kernel: WindowKernel, nodes: IntArray, seen: BoolArray) -> Information:
    """Return the function from s to the lower triangle of ``P diag(s) P'``; what is above it means nothing.

    Parameters
    ----------
    kernel
        Its rows are P.
    nodes
        Shape (d,), the rows to take: increasing, on a circle up to a turn from any start.
    seen
        Shape (K,): the codes that s has entries for; elsewhere it is 0.

    Notes
    -----
    With ``P_sj = base_j + g 1[j in window s]``, u the windows' sums of ``base s``, and B the sums of s over
    what two windows share, the matrix is ``sum_j base_j^2 s_j + g (u_s + u_t) + g^2 B_st``. For ``t >= s``
    windows share the codes from t to s + W - 1, and on a circle, where these pass K, those from 0 to
    s + W - 1 - K and from s to t + W - 1 - K too.
    """
    k, w = kernel.codes, kernel.window
    g = kernel.extra / UNIT
    base = np.full(k, kernel.background / UNIT)
    base[: kernel.leftover] += 1 / UNIT
    # Codes are counted from the first node, so that on a circle, too, nodes increase from 0.
    first = int(nodes[0]) if kernel.circular else 0
    starts = (nodes - first) % k if kernel.circular else nodes
    order = np.roll(np.arange(k), -first)
    base = base[order]
    place = np.empty(k, dtype=np.int64)
    place[order] = np.arange(k)
    put = place[seen]  # where each seen code goes
    ends = np.minimum(starts + w, k)
    wrapped = np.maximum(starts + w - k, 0)
    turns = kernel.circular and bool(wrapped.any())
    full = np.zeros(k)
    sums, moments = np.zeros(k + 1), np.zeros(k + 1)

    def information(s: FloatArray) -> FloatArray:
        full[put] = s
        np.cumsum(full, out=sums[1:])
        weighted = base * full
        np.cumsum(weighted, out=moments[1:])
        shared = sums * (g * g)
        matrix: FloatArray = shared[ends] - shared[starts][:, None]
        np.maximum(matrix, 0.0, out=matrix)
        u = moments[ends] - moments[starts]
        if turns:
            turned = shared[wrapped]
            matrix += np.maximum(turned[:, None] - shared[starts], 0.0) + turned
            u += moments[wrapped]
        u *= g
        matrix += u
        matrix += (u + float(base @ weighted))[:, None]
        return matrix

    return information
