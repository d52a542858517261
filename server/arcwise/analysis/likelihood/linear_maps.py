"""The two linear maps of a kernel, from nodes to codes and back, with one class for each kind of kernel.

With P the kernel's rows, ``forward`` computes ``codes = nodes P`` and ``backward`` ``gradient = residual P'``
for M vectors at a time, in buffers that are allocated once. Estimators use these classes and do not depend on
the kernel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from arcwise.kernels.certificate import UNIT
from arcwise.kernels.circulant import CirculantKernel
from arcwise.kernels.window import WindowKernel

if TYPE_CHECKING:
    from arcwise.kernels.base import Kernel
    from arcwise.typing import FloatArray

KEPT = 4
"""Number of kernels with cached matrices: for a table of one megabyte the matrix has up to 8 MB."""

_TINY = float(np.finfo(np.float64).tiny)
"""The least probability of a code: if no node with mass gives the code, 0/q and 0 log q must be 0."""


class Rows(ABC):
    """Both maps of one kernel, with their buffers.

    `forward` reads `nodes`, shape (M, N), and writes `codes`, shape (M, K), each number positive. `backward`
    reads `residual`, shape (M, K), a function r of the code, and writes `gradient`, shape (M, N):
    ``sum_j P_sj r_j`` for each node s. Callers fill `nodes` with probabilities times `scale`, and `residual`
    with r times `scale`; `scale` is a constant of the kernel. This costs callers nothing and saves the maps
    two multiplications of each vector.
    """

    scale: float = 1.0

    def __init__(self, kernel: Kernel, sets: int) -> None:
        self.nodes: FloatArray = np.zeros((sets, kernel.nodes))
        self.codes: FloatArray = np.empty((sets, kernel.codes))
        self.residual: FloatArray = np.zeros((sets, kernel.codes))
        self.gradient: FloatArray = np.empty((sets, kernel.nodes))

    @abstractmethod
    def forward(self) -> None:
        """Compute the distributions of the codes from those of the nodes."""

    @abstractmethod
    def backward(self) -> None:
        """Compute the mean of a function of the code for each node."""


class _WindowRows(Rows):
    """Every row is a constant plus a window, so both maps are differences of prefix sums: O(N + K).

        q_j = base_j + F(j) - F(j-W)                       codes from nodes, F the prefix sums of g f.
        grad_s = sum_j (base_j/g) g r_j + R(s+W) - R(s)    nodes from codes, R the prefix sums of g r.

    Here base_j is the constant of code j, and g the extra probability in a window of W codes. The scale is g,
    and the nodes must sum to g. In a prefix sum every addition waits for the previous addition, so the two
    prefix sums take most of the time. They run over the N nodes and the K codes only, since the sums beyond
    are known.
    """

    def __init__(self, kernel: WindowKernel, sets: int) -> None:
        super().__init__(kernel, sets)
        n, k, w = kernel.nodes, kernel.codes, kernel.window
        self._base = np.full((sets, k), kernel.background / UNIT)  # all rows: broadcasting takes longer
        self._base[:, : kernel.leftover] += 1 / UNIT
        self.scale = kernel.extra / UNIT
        # Laid out so that q_j = base_j + prefix[W+j] - prefix[j]: on a line there are zeros before the sums,
        # and after them the scale, which is the sum of all mass.
        prefix = np.zeros((sets, w + k))
        prefix[:, w + n :] = self.scale
        self._sums = prefix[:, w : w + n]
        self._ahead, self._behind = prefix[:, w:], prefix[:, :k]
        # On a circle the sums of the previous turn come first, which are smaller by the sum of all mass.
        self._turn = (prefix[:, k:], prefix[:, :w]) if kernel.circular else None
        self._background = self._base[0] / self.scale
        # Laid out so that grad_s = ... + tail[s+W] - tail[s]; on a circle the next turn's sums follow.
        tail = np.zeros((sets, k + (w if kernel.circular else 1)))
        self._tail_sums = tail[:, 1 : k + 1]
        self._tail_ahead, self._tail_behind = tail[:, w : w + n], tail[:, :n]
        self._tail_turn = (tail[:, 1:w], tail[:, k : k + 1], tail[:, k + 1 :]) if kernel.circular else None

    def forward(self) -> None:
        np.add.accumulate(self.nodes, axis=1, out=self._sums)
        if self._turn is not None:
            last, before = self._turn
            np.subtract(last, self.scale, out=before)
        np.subtract(self._ahead, self._behind, out=self.codes)
        self.codes += self._base

    def backward(self) -> None:
        constant = self.residual @ self._background
        np.add.accumulate(self.residual, axis=1, out=self._tail_sums)
        if self._tail_turn is not None:
            first, whole, after = self._tail_turn
            np.add(first, whole, out=after)
        np.subtract(self._tail_ahead, self._tail_behind, out=self.gradient)
        self.gradient += constant[:, None]


class _CirculantRows(Rows):
    """Each node's row is the same row turned: both maps are circular convolutions, O(K log K) by FFT.

    The row's least weight is kept separately, so that errors of the transform affect the rest only. The nodes
    must sum to 1.
    """

    def __init__(self, kernel: CirculantKernel, sets: int) -> None:
        from scipy import fft

        super().__init__(kernel, sets)
        row = kernel.probabilities([0])[0]
        self._base = float(row.min())
        self._spectrum = fft.rfft(row - self._base)

    def forward(self) -> None:
        from scipy import fft

        k = self.codes.shape[1]
        np.maximum(fft.irfft(fft.rfft(self.nodes) * self._spectrum, k), 0.0, out=self.codes)
        self.codes += self._base
        np.maximum(self.codes, _TINY, out=self.codes)

    def backward(self) -> None:
        from scipy import fft

        k = self.codes.shape[1]
        self.gradient[:] = fft.irfft(fft.rfft(self.residual) * self._spectrum.conj(), k)
        self.gradient += self._base * self.residual.sum(axis=1, keepdims=True)


class _DenseRows(Rows):
    """Rows without a structure to exploit: two products with the matrix."""

    def __init__(self, kernel: Kernel, sets: int) -> None:
        super().__init__(kernel, sets)
        self._matrix = matrix_of(kernel)

    def forward(self) -> None:
        np.matmul(self.nodes, self._matrix, out=self.codes)
        np.maximum(self.codes, _TINY, out=self.codes)

    def backward(self) -> None:
        np.matmul(self.residual, self._matrix.T, out=self.gradient)


def rows_of(kernel: Kernel, sets: int) -> Rows:
    """Return the two maps of a kernel for `sets` vectors at a time, in the cheapest way for its kind."""
    if isinstance(kernel, WindowKernel):
        return _WindowRows(kernel, sets)
    if isinstance(kernel, CirculantKernel):
        return _CirculantRows(kernel, sets)
    return _DenseRows(kernel, sets)


class _Itself:
    """A key that equals only the same object: a table's own hash takes a pass over all of its weights."""

    __slots__ = ("of",)

    def __init__(self, of: Kernel) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.of is self.of

    def __hash__(self) -> int:
        return id(self.of)


@lru_cache(maxsize=KEPT)
def _matrix(kernel: _Itself) -> FloatArray:
    matrix = kernel.of.matrix()
    matrix.flags.writeable = False
    return matrix


def matrix_of(kernel: Kernel) -> FloatArray:
    """Return ``kernel.matrix()``, read-only and cached, so that all points of a series share it."""
    return _matrix(_Itself(kernel))


def node_means(kernel: Kernel, values: FloatArray) -> FloatArray:
    """Return ``sum_j P_sj values_j`` for every node s: means of functions of the code, shape (..., N)."""
    some = np.atleast_2d(values)
    rows = rows_of(kernel, len(some))
    rows.residual[:] = rows.scale * some
    rows.backward()
    return rows.gradient.reshape(*values.shape[:-1], -1)


def code_laws(kernel: Kernel, nodes: FloatArray) -> FloatArray:
    """Return the distribution of the codes for each node distribution, shape (M, N) to (M, K)."""
    rows = rows_of(kernel, len(nodes))
    rows.nodes[:] = rows.scale * nodes
    rows.forward()
    return rows.codes


def code_changes(kernel: WindowKernel, nodes: FloatArray) -> FloatArray:
    """Return the changes of `code_laws` from changes of nodes that sum to 0, shape (M, N) to (M, K)."""
    sums = np.cumsum(nodes, axis=1)
    if not kernel.circular:
        sums = np.pad(sums, ((0, 0), (0, kernel.window)))  # a change sums to 0
    changes: FloatArray = kernel.extra / UNIT * (sums - np.roll(sums, kernel.window, axis=1))
    return changes[:, : kernel.codes]
