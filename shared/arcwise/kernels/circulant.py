"""The circulant kernel: one row of integer weights, turned with the input, on a circle."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from arcwise.errors import ParameterError
from arcwise.kernels.base import Kernel
from arcwise.kernels.certificate import UNIT
from arcwise.kernels.table import checked_row, largest_ratio
from arcwise.values import Value

if TYPE_CHECKING:
    from fractions import Fraction

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from arcwise.kernels.inversion import Inversion
    from arcwise.typing import FloatArray


class CirculantKernel(Value, Kernel):
    """K nodes and K codes on a circle: code j of node s has the weight ``weights[(j - s) mod K]``.

    The row of node 0, `weights`, holds K non-negative integers that are not all equal and have the sum 2**64.
    Raises `ParameterError` for other weights.

    Examples
    --------
    >>> kernel = CirculantKernel((2**63, 2**62, 2**61, 2**61))
    >>> [weight // 2**61 for weight in kernel.row(1)]
    [1, 4, 2, 1]
    >>> kernel.ratio()
    Fraction(4, 1)
    """

    __match_args__ = ("weights",)
    __slots__ = ("_ends", "_inversion", "circular", "codes", "nodes", "weights")

    weights: tuple[int, ...]
    _ends: tuple[int, ...]
    _inversion: Inversion | None

    def __init__(self, weights: tuple[int, ...]) -> None:
        weights = checked_row(weights, "weights")
        if min(weights) == max(weights):
            raise ParameterError("weights must not all be equal: the reports would carry no information")
        codes = len(weights)
        self._set(weights=weights, codes=codes, nodes=codes, circular=True)
        self._set(_ends=tuple(accumulate(weights)), _inversion=None)

    def row(self, node: int) -> list[int]:
        """Return the K integer weights of `node`; they sum to exactly 2**64."""
        if not 0 <= node < self.nodes:
            raise ParameterError(f"node must be from 0 to {self.nodes - 1}, got {node!r}")
        return [*self.weights[self.codes - node :], *self.weights[: self.codes - node]]

    def ratio(self) -> Fraction | None:
        """Return the largest ratio of two weights of one code, exactly; None if a weight is 0.

        Since the row is turned through all nodes, every code takes every weight.
        """
        return largest_ratio([(min(self.weights), max(self.weights))])

    def compared_rows(self) -> tuple[list[list[int]], list[list[int]]]:
        """Return row 0 and all rows, since turning both rows of a pair only renames the codes."""
        return [list(self.weights)], [self.row(node) for node in range(self.nodes)]

    def sample(self, node: int, u: int) -> int:
        """Return the code that the draw `u`, uniform in [0, 2**64), picks from the row of `node`."""
        return (bisect_right(self._ends, u) + node) % self.codes

    def sample_many(self, nodes: NDArray[Any], u: NDArray[np.uint64]) -> NDArray[Any]:
        """Return the codes that the draws `u` pick from the rows of `nodes`, see `Kernel.sample_many`."""
        import numpy as np

        inversion = self._inversion
        if inversion is None:
            from arcwise.kernels.inversion import Inversion

            inversion = Inversion((self._ends,))
            object.__setattr__(self, "_inversion", inversion)
        codes = inversion.sample_many(np.zeros(u.shape, np.uint8), u)
        codes += nodes.astype(np.uint32)
        codes -= np.uint32(self.codes) * (codes >= self.codes)
        return codes.astype(self.code_dtype)

    def probabilities(self, nodes: ArrayLike) -> FloatArray:
        """Return the rows of some nodes as probabilities, see `Kernel.probabilities`."""
        import numpy as np

        row = np.array([weight / UNIT for weight in self.weights])
        turns = np.asarray(nodes, dtype=np.int64)[:, None]
        rows: FloatArray = row[(np.arange(self.codes) - turns) % self.codes]
        return rows
