"""Rows of counts: the reported codes with their numbers, or the numbers of all codes if that is smaller."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.typing import IntArray

_CODE = np.dtype("<u2")  # enough for `MAX_CODES`, which is 2^16
_NUMBER = np.dtype("<i8")


class Row(NamedTuple):
    """A row: packed codes (None for all codes), and the packed number of reports of each of these codes."""

    codes: bytes | None
    per_code: bytes


def pack(counts: IntArray, *, dense: bool = False) -> Row:
    """Return reports per code, shape (K,), as the smaller kind of row, or with all codes if `dense`."""
    if not dense:
        found = np.flatnonzero(counts)
        if len(found) * (_CODE.itemsize + _NUMBER.itemsize) < len(counts) * _NUMBER.itemsize:
            return Row(found.astype(_CODE).tobytes(), counts[found].astype(_NUMBER).tobytes())
    return Row(None, counts.astype(_NUMBER).tobytes())


def unpack(codes: bytes | None, per_code: bytes) -> tuple[NDArray[np.uint16] | slice, IntArray]:
    """Return the places of a row's numbers in an array of shape (K,), and the numbers."""
    place = slice(None) if codes is None else np.frombuffer(codes, _CODE)
    return place, np.frombuffer(per_code, _NUMBER)


def spread(size: int, codes: bytes | None, per_code: bytes) -> IntArray:
    """Return the reports per code of a row, shape (size,)."""
    counts = np.zeros(size, np.int64)
    place, numbers = unpack(codes, per_code)
    counts[place] = numbers
    return counts


def row_problem(size: int, codes: object, per_code: object) -> str | None:
    """Return the problem of a row of a task with `size` codes, or None if `spread` can read the row."""
    if not isinstance(per_code, bytes) or not isinstance(codes, (bytes, NoneType)):
        return "its counts are not bytes"
    numbers = len(per_code) / _NUMBER.itemsize
    expected = size if codes is None else len(codes) / _CODE.itemsize
    if numbers != expected or numbers % 1:
        return f"{numbers:g} counts instead of {expected:g}"
    names = np.frombuffer(codes or b"", _CODE).astype(np.int64)
    if len(names) and (names[-1] >= size or (np.diff(names) <= 0).any()):
        return f"its codes are not ascending numbers below {size}"
    return None
