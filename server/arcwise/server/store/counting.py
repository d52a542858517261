"""Functions that turn packed codes into counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from arcwise.wire import code_format

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcwise.typing import IntArray

_SLICE = 1 << 18


def count_codes(packed: Iterable[bytes], codes: int) -> IntArray:
    """Return how often each of `codes` codes occurs in packed codes, shape (K,)."""
    array = np.frombuffer(b"".join(packed), code_format(codes))
    total = np.zeros(codes, np.int64)
    for start in range(0, len(array), _SLICE):  # counted in slices, because numpy widens the codes to 64 bits
        total += np.bincount(array[start : start + _SLICE], minlength=codes)
    return total


def exact_sum(counts: IntArray) -> int:
    """Return the exact sum of counts from elsewhere; numpy's own sum wraps beyond 64 bits."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())
