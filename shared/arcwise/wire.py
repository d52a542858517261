"""The wire format: encoding and decoding one batch of codes.

A body is one msgpack array::

    [1, task_id (bin, 32 bytes), batch_id (bin, 16 random bytes), epoch (unsigned), codes (bin)]

The leading 1 is the wire version. Codes are fixed-width little-endian unsigned integers: of one byte if the
kernel has K <= 256 codes, otherwise of two bytes. Decoding is bounded: sizes are checked before anything is
allocated. Error messages never repeat a body's content, because they travel back to its sender.
"""

from __future__ import annotations

import array
import sys
from typing import TYPE_CHECKING, Any, Final

import msgpack

from arcwise.errors import WireError
from arcwise.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "BATCH_ID_BYTES",
    "MAX_BODY_BYTES",
    "MAX_EPOCH",
    "MEDIA_TYPE",
    "WIRE_VERSION",
    "Batch",
    "code_format",
    "code_width",
    "decode_batch",
    "encode_batch",
    "pack_codes",
]

MEDIA_TYPE: Final = "application/vnd.arcwise.batch+msgpack"
WIRE_VERSION: Final = 1
_TASK_ID_BYTES: Final = 32
BATCH_ID_BYTES: Final = 16
MAX_EPOCH: Final = 2**32 - 1
MAX_BODY_BYTES: Final = 1 << 20
"""Largest accepted body: about a million one-byte codes."""


class Batch(Value):
    """Reports that travel together: codes of one task and one epoch under one random id.

    Attributes
    ----------
    task_id
        32 bytes.
    batch_id
        16 random bytes. A server counts only the first batch that arrives with this id.
    epoch
        The number of the epoch, below 2**32.
    codes
        The packed codes, at least one.

    Examples
    --------
    >>> batch = Batch(task_id=bytes(32), batch_id=bytes(16), epoch=20_000, codes=pack_codes([3, 127], 1))
    >>> decode_batch(encode_batch(batch)) == batch
    True
    """

    __slots__ = __match_args__ = ("task_id", "batch_id", "epoch", "codes")

    task_id: bytes
    batch_id: bytes
    epoch: int
    codes: bytes

    def __init__(self, task_id: bytes, batch_id: bytes, epoch: int, codes: bytes) -> None:
        # Setting the fields one by one takes half the time of `_set`. A server creates a batch for every
        # request.
        set_field = object.__setattr__
        set_field(self, "task_id", task_id)
        set_field(self, "batch_id", batch_id)
        set_field(self, "epoch", epoch)
        set_field(self, "codes", codes)


def code_width(codes: int) -> int:
    """Return the number of bytes per code of a kernel with K = `codes` codes: 1 or 2.

    Parameters
    ----------
    codes
        K, the number of codes of the kernel.

    Examples
    --------
    >>> code_width(256), code_width(257)
    (1, 2)
    """
    return 1 if codes <= 256 else 2


def code_format(codes: int) -> str:
    """Return numpy's name for the type of packed codes of a kernel with K = `codes` codes: "u1" or "<u2".

    Parameters
    ----------
    codes
        K, the number of codes of the kernel.

    Examples
    --------
    >>> code_format(256), code_format(257)
    ('u1', '<u2')
    """
    return "u1" if code_width(codes) == 1 else "<u2"


def pack_codes(codes: Iterable[int], width: int) -> bytes:
    """Return codes as fixed-width little-endian unsigned integers of `width` bytes each.

    Parameters
    ----------
    codes
        The codes; each must fit in `width` bytes.
    width
        1 or 2, see `code_width`.

    Examples
    --------
    >>> pack_codes([3, 258], 2).hex()
    '03000201'
    """
    packed = array.array("B" if width == 1 else "H", codes)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def encode_batch(batch: Batch) -> bytes:
    """Encode a batch as a body.

    Parameters
    ----------
    batch
        The batch, with its codes packed.

    Examples
    --------
    >>> len(encode_batch(Batch(task_id=bytes(32), batch_id=bytes(16), epoch=20_000, codes=bytes([3]))))
    60
    """
    fields = [WIRE_VERSION, batch.task_id, batch.batch_id, batch.epoch, batch.codes]
    return bytes(msgpack.packb(fields))


def decode_batch(body: bytes) -> Batch:
    """Decode a body into a batch.

    Parameters
    ----------
    body
        The bytes that a client sent.

    Raises
    ------
    WireError
        When the body is not exactly one well-formed batch of wire version 1. Whether the codes fit the task
        is checked elsewhere.

    Examples
    --------
    >>> body = encode_batch(Batch(task_id=bytes(32), batch_id=bytes(16), epoch=20_000, codes=bytes([3])))
    >>> decode_batch(body).epoch
    20000
    """
    if len(body) > MAX_BODY_BYTES:
        raise WireError(f"a batch takes at most {MAX_BODY_BYTES} bytes")
    try:
        fields = msgpack.unpackb(
            body,
            list_hook=_flat,
            max_array_len=5,
            max_map_len=0,
            max_str_len=0,
            max_ext_len=0,
            max_bin_len=len(body),
        )
    except (ValueError, msgpack.UnpackException):  # ExtraData and StackError are among them
        raise WireError("the body is not one msgpack array of a batch's five fields") from None
    if type(fields) is not list or len(fields) != 5:
        raise WireError("the body is not one msgpack array of a batch's five fields")
    version, task_id, batch_id, epoch, codes = fields
    if type(version) is not int or version != WIRE_VERSION:
        raise WireError(f"the wire version is not {WIRE_VERSION}")
    if type(task_id) is not bytes or len(task_id) != _TASK_ID_BYTES:
        raise WireError(f"the task id is not a bin of {_TASK_ID_BYTES} bytes")
    if type(batch_id) is not bytes or len(batch_id) != BATCH_ID_BYTES:
        raise WireError(f"the batch id is not a bin of {BATCH_ID_BYTES} bytes")
    if type(epoch) is not int or not 0 <= epoch <= MAX_EPOCH:
        raise WireError("the epoch is not an unsigned integer below 2**32")
    if type(codes) is not bytes or not codes:
        raise WireError("the codes are not a bin of at least one byte")
    return Batch(task_id, batch_id, epoch, codes)


def _flat(fields: list[Any]) -> list[Any]:
    """Refuse nested arrays: limits on lengths limit neither the size of a tree nor the time to read it."""
    if list in map(type, fields):
        raise ValueError
    return fields
