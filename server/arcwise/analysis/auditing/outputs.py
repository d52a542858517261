"""What a mechanism returned, as arrays: a key of each output, and the numbers that it consists of.

Every key and number is a function of one output alone, whatever the others are, so that what is counted later
is an event of the output.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcwise.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arcwise.typing import FloatArray, IntArray


class Outputs(NamedTuple):
    """The outputs of several calls of a mechanism."""

    raw: Sequence[Any]
    """The returned values, one for each call."""
    keys: IntArray
    """Equal for equal outputs, shape (n,). Floats are equal if their bits are."""
    numbers: tuple[FloatArray, ...]
    """The components of the outputs, each of shape (n,); NaN if a component is missing or not a number."""
    floats: tuple[bool, ...]
    """For each component, whether any of these outputs has a float there."""

    def component(self, place: int) -> FloatArray:
        """Return a component, shape (n,)."""
        return self.numbers[place] if place < len(self.numbers) else np.full(self.keys.shape, np.nan)


class _Column(NamedTuple):
    """One component of some outputs."""

    keys: IntArray
    numbers: FloatArray
    floats: bool
    missing: Any = False
    """Where an output has fewer components, shape (n,)."""


def joined(parts: Sequence[Outputs]) -> Outputs:
    """Return the outputs of several calls as those of one."""
    if len(parts) == 1:
        return parts[0]
    places = range(max(len(part.numbers) for part in parts))
    return Outputs(
        [each for part in parts for each in part.raw],
        np.concatenate([part.keys for part in parts]),
        tuple(np.concatenate([part.component(place) for part in parts]) for place in places),
        tuple(any(part.floats[place : place + 1] == (True,) for part in parts) for place in places),
    )


def read_outputs(raw: Any, count: int) -> Outputs:
    """Return the outputs of `count` calls: an array whose first axis is the calls, or a sequence."""
    try:
        got = len(raw)
    except TypeError:
        raise ParameterError(
            f"mechanism must return one output a value: got {type(raw).__name__} for {count} values"
        ) from None
    if got != count:
        raise ParameterError(f"mechanism must return one output a value: got {got} for {count} values")
    if isinstance(raw, np.ndarray) and raw.dtype.kind in "biuf":
        columns = [_numeric(column) for column in raw.reshape(count, -1).T]
    else:
        columns = _columns(list(raw))
    keys = columns[0].keys
    for each in columns[1:]:
        mixed = (keys ^ (keys >> np.int64(29))) * _FACTOR + each.keys  # wraps: a hash of the row
        keys = np.where(each.missing, keys, mixed)
    return Outputs(raw, keys, tuple(each.numbers for each in columns), tuple(each.floats for each in columns))


def _columns(raw: list[Any]) -> list[_Column]:
    """Return the components of outputs that are not all in one array."""
    if not any(isinstance(each, _ROWS) for each in raw):
        return [_column(raw)]
    rows = [tuple(each) if isinstance(each, _ROWS) else (each,) for each in raw]
    lengths = np.array([len(row) for row in rows])
    return [
        _column([row[place] if place < len(row) else None for row in rows])._replace(missing=lengths <= place)
        for place in range(max(1, lengths.max()))
    ]


def _column(values: list[Any]) -> _Column:
    """Return a component: quickly if it is a float everywhere, or an integer, and the same one by one."""
    kinds = set(map(type, values))
    if all(issubclass(kind, _FLOATS) for kind in kinds):
        return _numeric(np.array(values, np.float64))
    if all(issubclass(kind, _INTEGERS) for kind in kinds):
        try:
            return _numeric(np.array(values, np.int64))
        except OverflowError:  # one of them has more than 64 bits
            pass
    known = {(type(each), repr(each)): each for each in values}
    found = {name: _one(each) for name, each in known.items()}
    pairs = [found[type(each), repr(each)] for each in values]
    keys = np.array([key for key, _ in pairs], np.int64)
    return _Column(
        keys, np.array([number for _, number in pairs]), any(issubclass(kind, _FLOATS) for kind in kinds)
    )


def _numeric(values: np.ndarray[Any, Any]) -> _Column:
    floats = values.dtype.kind == "f"
    numbers = np.ascontiguousarray(values, np.float64)
    return _Column(numbers.view(np.int64) if floats else values.astype(np.int64), numbers, floats)


def _one(value: Any) -> tuple[int, float]:
    """Return the key and the number of one component."""
    if isinstance(value, _FLOATS):
        return int(np.float64(value).view(np.int64)), float(value)
    if isinstance(value, _INTEGERS) and -(2**63) <= value < 2**63:
        return int(value), float(value)
    text = f"{type(value).__name__}\0{_checked(value)!r}"
    digest = blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True), np.nan


def _checked(value: Any) -> Any:
    """Return a component whose repr says all of it, or raise `ParameterError`."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, _FLOATS + _INTEGERS + (str, bytes)):
        return value
    if isinstance(value, tuple | list):
        return [_checked(each) for each in value]
    raise ParameterError(
        "mechanism must return numbers, strings, bytes, None, or tuples of these; "
        f"got an object of type {type(value).__name__}"
    )


_FLOATS = (float, np.floating)
_INTEGERS = (int, np.integer, np.bool_)
_ROWS = (tuple, list, np.ndarray)
_FACTOR = np.int64(-7046029254386353131)
"""Odd, so that no bits are lost; 2^64 over the golden ratio."""
