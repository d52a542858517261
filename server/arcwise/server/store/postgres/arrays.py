"""numpy arrays in PostgreSQL's binary format: psycopg's lists would take most of a large group's time."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
from psycopg.adapt import Dumper
from psycopg.pq import Format

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arcwise.server.store.postgres.database import Connection

_INTEGER, _BIGINT, _BYTEA = (
    (23, 1007),
    (20, 1016),
    (17, 1001),
)  # type ids of an element and of its array, which never change


class Array:
    """An array of one dimension and `length` elements, without NULLs, in PostgreSQL's binary format."""

    def __init__(self, types: tuple[int, int], elements: bytes, length: int) -> None:
        self.oid = types[1]
        # Dimensions (an empty array has none), whether there are NULLs, type; length and lower bound.
        header = struct.pack(">iiIii", 1, 0, types[0], length, 1)
        self.data = header + elements if length else struct.pack(">iiI", 0, 0, types[0])


def _array(types: tuple[int, int], elements: NDArray[Any]) -> Array:
    framed = np.empty(len(elements), np.dtype([("size", ">i4"), ("value", elements.dtype)]))
    framed["size"] = elements.dtype.itemsize
    framed["value"] = elements
    return Array(types, framed.tobytes(), len(elements))


def integer_array(numbers: Any) -> Array:
    """Return whole numbers, shape (n,), as ``integer[]``."""
    return _array(_INTEGER, np.asarray(numbers, np.int32).astype(">i4"))


def bigint_array(numbers: Any) -> Array:
    """Return whole numbers, shape (n,), as ``bigint[]``."""
    return _array(_BIGINT, np.asarray(numbers, np.int64).astype(">i8"))


def bytea_array(values: list[bytes], size: int) -> Array:
    """Return byte strings of one size as ``bytea[]``."""
    return _array(_BYTEA, np.frombuffer(b"".join(values), f"V{size}"))


def bodies_array(values: list[bytes]) -> Array:
    """Return byte strings of any sizes as ``bytea[]``."""
    framed = b"".join(part for value in values for part in (len(value).to_bytes(4, "big"), value))
    return Array(_BYTEA, framed, len(values))


def register_arrays(connection: Connection) -> None:
    """Let a connection accept `Array` as a parameter, in places marked ``%b``."""
    connection.adapters.register_dumper(Array, _ArrayDumper)


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def get_key(self, obj: Array, format: Any) -> Any:  # noqa: A002 (psycopg's name)
        return (type(obj), obj.oid)  # a dumper for each type of array

    def upgrade(self, obj: Array, format: Any) -> _ArrayDumper:  # noqa: A002 (psycopg's name)
        dumper = _ArrayDumper(Array)
        dumper.oid = obj.oid
        return dumper

    def dump(self, obj: Array) -> bytes:
        return obj.data
