"""Vectorised inversion of integer rows: maps 64-bit draws to codes in exact integer arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from arcwise.kernels.certificate import UNIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_OPEN = np.uint32(1 << 31)


class Inversion:
    """A vectorised sampler; each row is given as the running sums of its K weights, the last being 2**64.

    The leading bits of a draw choose a cell of a guide table (Chen and Asau 1974). In most cells all draws
    pick the same code, which is the cell's entry. In the other cells, a binary search between the cell's
    first and last code compares the whole draw. With at least four cells per code, such cells are rare.
    """

    def __init__(self, ends: Sequence[Sequence[int]]) -> None:
        rows, self._codes = len(ends), len(ends[0])
        bits = max(6, (4 * self._codes - 1).bit_length())
        self._bits, self._shift = bits, np.uint64(64 - bits)
        # The first draw of each code. Codes without weight at the end start at 2**64, which uint64 cannot
        # hold. They are never compared, because the binary search ends at the last code with weight.
        first = np.array([[min(end, UNIT - 1) for end in (0, *row[:-1])] for row in ends], np.uint64)
        self._first = first.ravel()
        low = np.arange(1 << bits, dtype=np.uint64) << self._shift
        high = low + np.uint64((1 << (64 - bits)) - 1)
        guide = np.empty((rows, low.size), np.uint32)
        self._last = np.empty((rows, low.size), np.uint16)
        for row, sums in enumerate(ends):
            top = sums.index(UNIT)  # the last code with weight
            start = np.minimum(np.searchsorted(first[row], low, side="right") - 1, top)
            last = np.minimum(np.searchsorted(first[row], high, side="right") - 1, top)
            guide[row] = start
            guide[row][start != last] |= _OPEN
            self._last[row] = last
        self._guide, self._last = guide.ravel(), self._last.ravel()

    def sample_many(self, rows: NDArray[Any], u: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Return the codes that the draws `u` pick from the rows numbered `rows`, both of shape (n,)."""
        cells = (u >> self._shift).astype(np.int64)
        cells += rows.astype(np.int64) << self._bits
        codes: NDArray[np.uint32] = self._guide.take(cells)
        undecided = np.flatnonzero(codes >= _OPEN)
        if undecided.size:
            low = (codes[undecided] ^ _OPEN).astype(np.int64)
            high = self._last.take(cells[undecided]).astype(np.int64)
            base, draw = rows[undecided].astype(np.int64) * self._codes, u[undecided]
            for _ in range(int((high - low).max()).bit_length()):
                middle = (low + high + 1) >> 1
                reached = self._first.take(base + middle) <= draw
                low = np.where(reached, middle, low)
                high = np.where(reached, high, middle - 1)
            codes[undecided] = low
        return codes
