"""The table kernel: all rows written out, for mechanisms without a structure to exploit."""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from arcwise.errors import ParameterError
from arcwise.kernels.base import MAX_CODES, Kernel
from arcwise.kernels.certificate import UNIT
from arcwise.values import Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from arcwise.kernels.inversion import Inversion
    from arcwise.typing import FloatArray


class TableKernel(Value, Kernel):
    """N rows of K integer weights.

    Parameters
    ----------
    rows
        N rows of K non-negative integers, each with the sum 2**64; every code has weight in some row.

    Raises
    ------
    ParameterError
        When the rows are not of this form.

    Notes
    -----
    A draw u picks the first code with a running sum of weights above u, so exactly ``row[j]`` of the 2**64
    draws pick the code j.

    Examples
    --------
    >>> kernel = TableKernel(((3 * 2**62, 2**62), (2**62, 3 * 2**62)))
    >>> kernel.ratio()
    Fraction(3, 1)
    >>> kernel.sample(node=0, u=2**63), kernel.sample(node=1, u=2**63)
    (0, 1)
    """

    __match_args__ = ("rows",)
    __slots__ = ("_ends", "_inversion", "circular", "codes", "nodes", "rows")

    rows: tuple[tuple[int, ...], ...]
    _ends: tuple[tuple[int, ...], ...]
    _inversion: Inversion | None

    def __init__(self, rows: tuple[tuple[int, ...], ...]) -> None:
        if not isinstance(rows, (list, tuple)) or not 2 <= len(rows) <= MAX_CODES:
            raise ParameterError(f"rows must be 2 to {MAX_CODES} rows of weights")
        rows = tuple(checked_row(row, f"rows[{node}]") for node, row in enumerate(rows))
        if len({len(row) for row in rows}) != 1:
            raise ParameterError("rows must all have the same number of codes")
        for code, column in enumerate(zip(*rows, strict=True)):
            if not any(column):
                raise ParameterError(f"code {code} has weight 0 in every row: remove it")
        self._set(rows=rows, codes=len(rows[0]), nodes=len(rows), circular=False)
        self._set(_ends=tuple(tuple(accumulate(row)) for row in rows), _inversion=None)

    def row(self, node: int) -> list[int]:
        """Return the K integer weights of `node`; they sum to exactly 2**64."""
        if not 0 <= node < self.nodes:
            raise ParameterError(f"node must be from 0 to {self.nodes - 1}, got {node!r}")
        return list(self.rows[node])

    def ratio(self) -> Fraction | None:
        """Return the largest ratio of two weights of one code, exactly; None if a weight is 0."""
        return largest_ratio((min(column), max(column)) for column in zip(*self.rows, strict=True))

    def sample(self, node: int, u: int) -> int:
        """Return the code that the draw `u`, uniform in [0, 2**64), picks from the row of `node`."""
        return bisect_right(self._ends[node], u)

    def sample_many(self, nodes: NDArray[Any], u: NDArray[np.uint64]) -> NDArray[Any]:
        """Return the codes that the draws `u` pick from the rows of `nodes`, see `Kernel.sample_many`."""
        inversion = self._inversion
        if inversion is None:
            from arcwise.kernels.inversion import Inversion

            inversion = Inversion(self._ends)
            object.__setattr__(self, "_inversion", inversion)
        return inversion.sample_many(nodes, u).astype(self.code_dtype)

    def probabilities(self, nodes: ArrayLike) -> FloatArray:
        """Return the rows of some nodes as probabilities, see `Kernel.probabilities`."""
        import numpy as np

        wanted = np.asarray(nodes, dtype=np.int64)
        used, inverse = np.unique(wanted, return_inverse=True)
        rows = np.array([[weight / UNIT for weight in self.rows[node]] for node in used.tolist()])
        return rows.reshape(-1, self.codes)[inverse]


def checked_row(row: Any, name: str) -> tuple[int, ...]:
    """Return a row of weights as a tuple; raise `ParameterError` with the reason if it is invalid."""
    if not isinstance(row, (list, tuple)) or not 2 <= len(row) <= MAX_CODES:
        raise ParameterError(f"{name} must hold 2 to {MAX_CODES} weights")
    for code, weight in enumerate(row):
        if type(weight) is not int or not 0 <= weight < UNIT:
            raise ParameterError(
                f"{name} must hold integers from 0 to 2**64 - 1, got {weight!r} for code {code}"
            )
    if sum(row) != UNIT:
        raise ParameterError(f"{name} must sum to 2**64 = {UNIT}, got {sum(row)}")
    return tuple(row)


def largest_ratio(columns: Any) -> Fraction | None:
    """Return the largest of ``high / low`` over pairs (low, high), exactly; None if a low is 0."""
    best = Fraction(1)
    for low, high in columns:
        if not low:
            return None
        if high * best.denominator > best.numerator * low:
            best = Fraction(high, low)
    return best
