"""The base class of kernels: N rows of K integer weights, each with the sum 2**64, and a sampler for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from arcwise.kernels.certificate import UNIT

if TYPE_CHECKING:
    from fractions import Fraction

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from arcwise.typing import FloatArray

MAX_CODES = 2**16
"""The largest number of codes, because a code takes at most two bytes on the wire."""


class Kernel(ABC):
    """A finite kernel: for the input node s, code j has the probability ``row(s)[j] / 2**64``.

    Attributes
    ----------
    codes
        K, from 2 to 65,536.
    nodes
        N, at least 2.
    circular
        Whether the nodes lie on a circle: the node after the last is node 0.

    Examples
    --------
    >>> from arcwise.kernels import WindowKernel
    >>> kernel = WindowKernel.fit(nodes=4, window=1, epsilon=1.0, circular=True)
    >>> isinstance(kernel, Kernel), kernel.codes, kernel.nodes
    (True, 4, 4)
    >>> sum(kernel.row(0)) == 2**64
    True
    >>> kernel.matrix().round(3)
    array([[0.475, 0.175, 0.175, 0.175],
           [0.175, 0.475, 0.175, 0.175],
           [0.175, 0.175, 0.475, 0.175],
           [0.175, 0.175, 0.175, 0.475]])
    """

    __slots__ = ()

    codes: int
    nodes: int
    circular: bool

    @abstractmethod
    def row(self, node: int) -> list[int]:
        """Return the K integer weights of `node`; they sum to exactly 2**64."""

    @abstractmethod
    def ratio(self) -> Fraction | None:
        """Return the largest ratio of two weights of one code, exactly; None if a weight is 0."""

    @abstractmethod
    def sample(self, node: int, u: int) -> int:
        """Return the code that the draw `u`, uniform in [0, 2**64), picks from the row of `node`."""

    @abstractmethod
    def sample_many(self, nodes: NDArray[Any], u: NDArray[np.uint64]) -> NDArray[Any]:
        """Return the codes that the draws `u` pick from the rows of `nodes`.

        Parameters
        ----------
        nodes
            Shape (n,), unsigned 16-bit or wider, each below N; on a circle, N is also allowed and means node
            0.
        u
            Shape (n,).

        Returns
        -------
        numpy.ndarray
            Shape (n,), of the narrowest unsigned type that can hold K codes (`code_dtype`).
        """

    def compared_rows(self) -> tuple[list[list[int]], list[list[int]]]:
        """Return two lists of rows whose pairs include every pair of rows, up to the order of codes."""
        rows = [self.row(node) for node in range(self.nodes)]
        return rows, rows

    def probabilities(self, nodes: ArrayLike) -> FloatArray:
        """Return the rows of some nodes as probabilities, each rounded once from its integer weight.

        Parameters
        ----------
        nodes
            Shape (n,), integers from 0 to N-1.

        Returns
        -------
        numpy.ndarray
            Shape (n, K).
        """
        import numpy as np

        rows = [[weight / UNIT for weight in self.row(node)] for node in np.asarray(nodes).tolist()]
        return np.array(rows).reshape(-1, self.codes)

    def matrix(self) -> FloatArray:
        """Return the N x K matrix of probabilities, each rounded once from its integer weight."""
        return self.probabilities(range(self.nodes))

    @property
    def code_dtype(self) -> np.dtype[Any]:
        """The narrowest unsigned type that can hold K codes."""
        import numpy as np

        return np.dtype(np.uint8 if self.codes <= 256 else np.uint16)
