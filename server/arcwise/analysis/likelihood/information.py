"""The factored information matrix ``P diag(s) P'`` of some nodes: the costly part of a Newton step.

For rows that are a constant plus a window, no matrix product is needed. Two windows share a run of codes, and
the sum of s over that run is a difference of prefix sums. Nodes far apart share no codes, so the matrix is
banded if windows are short. For d nodes, it then takes time O(d) instead of O(d^2 K).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import numpy as np

from arcwise.kernels.certificate import UNIT
from arcwise.kernels.window import WindowKernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from arcwise.kernels.base import Kernel
    from arcwise.typing import BoolArray, FloatArray, IntArray

    Information: TypeAlias = Callable[[FloatArray, FloatArray], "Factored | None"]
    Solve: TypeAlias = Callable[[FloatArray], FloatArray]

_HAIR = 1e-13
"""Part of a matrix's diagonal that is added to it, to keep it positive definite if few codes were seen."""

_BANDED = 0.25
"""Most bands below the diagonal, as a part of the nodes, for which a banded factorisation is faster."""


class Factored(NamedTuple):
    """A symmetric matrix ``A + tilt 1' + 1 tilt' + level 1 1'``, of which A is factored.

    Changes of a distribution have a known sum, so for them the terms other than A add known numbers. `solve`
    maps b to ``A^-1 b``, both of shape (d,).
    """

    solve: Solve
    tilt: FloatArray
    level: float


class Matrix(Protocol):
    """A symmetric matrix A, d by d, stored in `entries`."""

    entries: FloatArray

    @property
    def diagonal(self) -> FloatArray:
        """A view of the diagonal in `entries`, shape (d,), in the order of their rows."""

    def times(self, change: FloatArray) -> FloatArray:
        """Return ``A change``, shape (d,)."""

    def solver(self, more: FloatArray, within: FloatArray | None = None) -> Solve | None:
        """Return a solver of ``A + diag(more)``, from shape (d,) or (S, d) to the same shape.

        The factors are written to `within`, an array like `entries` or `entries` itself, or else to a new
        array. The solver is None if the factors exceed the precision of floats.
        """


class Dense:
    """A matrix with all of its entries; its solver reads those at and below the diagonal."""

    def __init__(self, entries: FloatArray) -> None:
        self.entries = entries

    @property
    def diagonal(self) -> FloatArray:
        """See `Matrix`."""
        return self.entries.ravel()[:: len(self.entries) + 1]

    def times(self, change: FloatArray) -> FloatArray:
        """See `Matrix`."""
        product: FloatArray = change @ self.entries
        return product

    def solver(self, more: FloatArray, within: FloatArray | None = None) -> Solve | None:
        """See `Matrix`."""
        from scipy.linalg.lapack import dpotrf, dpotrs

        within = _copied(self.entries, within)
        diagonal = Dense(within).diagonal
        diagonal += more
        # LAPACK reads columns, so it sees the transpose, whose upper triangle is our lower one.
        factor, failed = dpotrf(within.T, lower=0, clean=0, overwrite_a=1)
        return None if failed else lambda sides: dpotrs(factor, sides.T, lower=0)[0].T


class Banded:
    """A matrix with entries near its diagonal only: the diagonal of each column and the entries below it.

    `entries` has the shape (d, 1 + b), with the rows in the given order.
    """

    def __init__(self, entries: FloatArray, order: IntArray) -> None:
        self.entries, self._order = entries, order

    @property
    def diagonal(self) -> FloatArray:
        """See `Matrix`."""
        return self.entries[:, 0]

    def times(self, change: FloatArray) -> FloatArray:
        """See `Matrix`."""
        from scipy.linalg.blas import dsbmv

        below, product = self.entries.shape[1] - 1, np.empty_like(change)
        product[self._order] = dsbmv(below, 1.0, self.entries.T, change[self._order], lower=1)
        return product

    def solver(self, more: FloatArray, within: FloatArray | None = None) -> Solve | None:
        """See `Matrix`."""
        from scipy.linalg.lapack import dpbtrf, dpbtrs

        within = _copied(self.entries, within)
        within[:, 0] += more[self._order]
        factor, failed = dpbtrf(within.T, lower=1, overwrite_ab=1)
        if failed:
            return None

        def solve(sides: FloatArray) -> FloatArray:
            solutions = np.empty_like(sides)
            solutions[..., self._order] = dpbtrs(factor, sides[..., self._order].T, lower=1)[0].T
            return solutions

        return solve


def _copied(entries: FloatArray, within: FloatArray | None) -> FloatArray:
    """Return an array with these entries: `within`, or a new one."""
    within = np.empty_like(entries) if within is None else within
    if within is not entries:
        np.copyto(within, entries)
    return within


def dense_information(rows: FloatArray) -> Information:
    """Return the function from s and m, shapes (K,) and (d,), to ``rows diag(s) rows' + diag(m)``.

    The function returns None if the factors exceed the precision of floats.
    """
    nothing = np.zeros(len(rows))

    def information(s: FloatArray, more: FloatArray) -> Factored | None:
        scaled = rows * np.sqrt(s)
        solve = _solver(Dense(scaled @ scaled.T), more)
        return None if solve is None else Factored(solve, nothing, 0.0)

    return information


def fast_information(kernel: Kernel, nodes: IntArray) -> Callable[[BoolArray], Information] | None:
    """Return `window_information` of these nodes, to be called with the codes seen, or None."""
    return partial(window_information, kernel, nodes) if isinstance(kernel, WindowKernel) else None


def window_information(kernel: WindowKernel, nodes: IntArray, seen: BoolArray) -> Information:
    """Return the function from s and m to ``P diag(s) P' + diag(m)``, or None beyond the precision of floats.

    P has the rows of the kernel at `nodes`, shape (d,). These increase; on a circle they span up to a turn
    from any start. `seen`, shape (K,), marks the codes for which s has entries; elsewhere s is 0.

    Write ``P_sj = base_j + g 1[j in window s]``. Let u be the windows' sums of ``base s``, and B the sums of
    s over the codes that two windows share. Then the matrix is
    ``sum_j base_j^2 s_j + g (u_s + u_t) + g^2 B_st``. For ``t >= s`` the windows share the codes from t to
    ``s + W - 1``. On a circle, windows that pass K also share the codes from 0 to ``s + W - 1 - K`` and from
    s to ``t + W - 1 - K``.
    """
    k, w, d = kernel.codes, kernel.window, len(nodes)
    g = kernel.extra / UNIT
    base = np.full(k, kernel.background / UNIT)
    base[: kernel.leftover] += 1 / UNIT
    # Codes are counted from the first node, so that nodes also increase from 0 on a circle.
    first = int(nodes[0]) if kernel.circular else 0
    starts = (nodes - first) % k if kernel.circular else nodes
    order = np.roll(np.arange(k), -first)
    base = base[order]
    place = np.empty(k, dtype=np.int64)
    place[order] = np.arange(k)
    put = place[seen]  # the position of each seen code
    ends = np.minimum(starts + w, k)
    wrapped = np.maximum(starts + w - k, 0)
    turns = kernel.circular and bool(wrapped.any())
    full = np.zeros(k)
    sums, moments = np.zeros(k + 1), np.zeros(k + 1)

    # The order of nodes in the matrix, and the number of nodes below the diagonal that share codes.
    along = np.arange(d)
    ahead = np.append(starts, starts + k) if turns else starts
    reach = int((np.searchsorted(ahead, starts + w) - along).max()) - 1
    if turns:  # the circle is pressed flat, so that its first nodes are next to its last nodes
        reach *= 2
        along = _pressed_flat(d)
    banded = reach <= _BANDED * d
    if banded:
        others = along[np.minimum(np.arange(d)[:, None] + np.arange(reach + 1), d - 1)]
        s_nodes, t_nodes = np.minimum(along[:, None], others), np.maximum(along[:, None], others)
    else:
        s_nodes, t_nodes = np.arange(d)[None, :], np.arange(d)[:, None]

    def information(s: FloatArray, more: FloatArray) -> Factored | None:
        full[put] = s
        np.cumsum(full, out=sums[1:])
        weighted = base * full
        np.cumsum(weighted, out=moments[1:])
        shared = sums * (g * g)
        opened = shared[starts]
        matrix: FloatArray = shared[ends][s_nodes] - opened[t_nodes]
        np.maximum(matrix, 0.0, out=matrix)
        u = moments[ends] - moments[starts]
        if turns:
            turned = shared[wrapped]
            matrix += np.maximum(turned[t_nodes] - opened[s_nodes], 0.0) + turned[s_nodes]
            u += moments[wrapped]
        solve = _solver(Banded(matrix, along) if banded else Dense(matrix), more)
        return None if solve is None else Factored(solve, g * u, float(base @ weighted))

    return information


def whole_window_information(kernel: WindowKernel, order: IntArray, s: FloatArray) -> Banded:
    """Return the matrix A of all nodes in this order: consecutive neighbours, on a circle from any start.

    ``P diag(s) P'`` is A plus terms as in `Factored`. For changes of a distribution, which sum to 0, the
    products with both matrices differ only by a constant that is equal for each node.
    """
    d, window = len(order), kernel.window
    # Sums of s over the codes that two windows share, by the distance of their nodes. Prefix sums of all
    # codes could lose a sum of few likely codes to rounding.
    codes = s[(order[:, None] + np.arange(window)) % kernel.codes]
    shared = (kernel.extra / UNIT) ** 2 * np.cumsum(codes[:, ::-1], axis=1)[:, ::-1]
    along = _pressed_flat(d) if kernel.circular else np.arange(d)
    place = np.argsort(along)
    entries = np.zeros((d, 1 + (window - 1) * (1 + kernel.circular)))
    for apart in range(window):
        nodes = np.arange(d if kernel.circular else d - apart)
        one, other = place[nodes], place[(nodes + apart) % d]
        entries[np.minimum(one, other), np.abs(one - other)] = shared[nodes, apart]
    return Banded(entries, along)


def _pressed_flat(d: int) -> IntArray:
    """Return the nodes of a circle with neighbours close together: 0, d - 1, 1, d - 2, ..., shape (d,)."""
    along = np.arange(d)
    return np.where(along % 2, d - 1 - along // 2, along // 2)


def _solver(matrix: Matrix, more: FloatArray) -> Solve | None:
    """Return the solver of a matrix, which is overwritten."""
    diagonal = matrix.diagonal
    diagonal *= 1.0 + _HAIR
    return matrix.solver(more, matrix.entries)
